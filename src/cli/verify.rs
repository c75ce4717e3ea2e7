//! `znippy verify`: what is damaged, and what that costs.

use std::path::{Path, PathBuf};

use gix_hash::ObjectId;
use indicatif::HumanBytes;
use serde::Serialize;
use znippy::{
    archive::WritePolicy,
    verify::{
        self, Finding, Level, Options, Progress, Report, Severity,
        repair::{OnObject, Source},
    },
};

use super::{
    Done,
    each::each,
    exit::Exit,
    good_copies::Repository,
    locking::{Locking, configured_durability},
    open,
    output::{Output, count},
    progress::Bar,
    receive_pack::spool,
};

/// Check archives for damage, tell what it affects, and repair it
///
/// Reads the whole archive and compares everything with its checksums: head, slots, tail, commits, tables, packs and entries. With --full every object is made and hashed too, its links are followed, and what was derived from the packs is compared with them. Without --repair nothing is written and no lock is taken; pushes go on meanwhile. A damage does not stop the check: what lies behind it is checked too, and so are the other archives.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  znippy verify /mnt/nas/*.znippy                after a backup
  znippy verify --full --quiet /mnt/nas/app      once a month: nothing is printed where nothing is wrong
  znippy verify --json app | jq '.findings[] | {what, oid, refs}'
  znippy verify --repair --from ~/src/app app    take good copies of what is damaged or missing from a repository

Levels, each of which does what those before it do:
  --quick     head, slots, tail, all metadata, columns and footers, the history and names of references;
              reads everything but the packs
  (default)   and the hash of every pack and the CRC-32 of every entry
  --full      and every object is hashed, every link followed, every derived table compared; dead bytes too

Exit codes:
  0    nothing is wrong
  1    warnings only: nothing that counts is lost (an unconfirmed or unfinished tail, a slot that the next push writes
       again, damage to dead bytes)
  3    no archive at the path
  5    damage: something that counts is not what was written, or is missing
  128  the disk failed to read, or anything else
  Over several archives the highest code wins.

What to do:
  Damage in an archive that is a backup: `znippy verify --repair --from` the repository, or restore the file from a copy.
  Damage to dead bytes says that the disk is not to be trusted.

Repair:
  With --repair every archive is checked with --full first. A newest footer that cannot be read is made again from the rows of
  its commit; where those are damaged too, the state before it counts again, which is told. Objects of which no good copy is left are taken from the
  repository that --from names, hashed, and appended as a pack; damaged copies are marked, so that nobody uses them where
  there is a good one. All of that is ordinary commits: the damaged bytes stay until a `znippy gc`. Then the archive is
  checked again, and that is what is told and decides about the exit code: 0 or 1, because marked bytes are a warning until
  a gc, where all is well; 5 where something is left. What cannot be written to fails as any push would, with code 4 where it
  is busy.

JSON keys, one object for each archive:
  path, level (quick, standard, full), worst (null, warning, damage, unreadable), exit_code, uuid, generation, sequence,
  commit_id (null where no state can be shown), checked (commits, rows, refs, packs, pack_bytes, entries, objects),
  not_checked (a list of texts), findings (a list), repaired (with --repair: a list of texts).
  Each finding: severity (warning, damage, unreadable), code, what, offset and length (bytes of the file), txn, pack,
  pack_offset, oid, refs (the first 100 names), refs_affected (how many). What does not apply is null. With --full refs are
  those that reach the object; else those whose own object is in the damaged pack.
  For an archive that cannot be opened: path, error, exit_code.")]
pub struct Args {
    /// Do not read the packs
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// Hash every object and follow every link
    #[arg(long)]
    full: bool,

    /// Repair what can be repaired, and check again
    #[arg(long, conflicts_with = "quick")]
    repair: bool,

    /// Take good copies of objects from this git repository
    #[arg(long, value_name = "REPOSITORY", requires = "repair")]
    from: Option<PathBuf>,

    #[command(flatten)]
    locking: Locking,

    /// One JSON object a line for each archive
    #[arg(long)]
    json: bool,

    /// The archives
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// The JSON record of an archive that was checked.
#[derive(Serialize)]
struct Record<'a> {
    exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    repaired: Option<&'a [String]>,
    #[serde(flatten)]
    report: &'a Report,
}

/// Checks each archive in turn; what is wrong with one does not stop the others.
pub fn run(args: &Args, output: &mut Output) -> Done {
    let level = match (args.quick, args.full) {
        (true, _) => Level::Quick,
        (_, true) => Level::Full,
        _ if args.repair => Level::Full,
        _ => Level::Standard,
    };
    each(&args.paths, args.json, output, |path, output| {
        let mut report = check(path, level, output)?;
        let mut repaired = vec![];
        // What a damaged footer hid may need a repair of its own.
        for _ in 0..if args.repair { 2 } else { 0 } {
            let hid_some = report.repairable.footer;
            let done = repair(args, &report, output)?;
            for text in &done {
                output.note(&format!("{}: {text}", report.path.display()));
            }
            if !done.is_empty() {
                report = check(path, level, output)?;
            }
            repaired.extend(done);
            if !hid_some {
                break;
            }
        }
        let exit = exit_of(&report);
        if args.json {
            let exit_code = exit as u8;
            output.json(&Record {
                exit_code,
                repaired: args.repair.then_some(&repaired[..]),
                report: &report,
            })?;
        } else {
            tell(&report, output)?;
        }
        Ok(exit)
    })
}

fn check(path: &Path, level: Level, output: &Output) -> anyhow::Result<Report> {
    let path = open::existing(path)?;
    let bar = Bar::new(output);
    let mut on_progress = |progress: Progress| {
        bar.show(progress.stage, progress.done, progress.total, progress.unit);
    };
    let options = Options {
        level,
        on_progress: Some(&mut on_progress),
        ..Options::default()
    };
    let report = verify::verify(&path, options)?;
    bar.finish();
    Ok(report)
}

/// Repairs what a check found, and returns what was done, as sentences.
fn repair(args: &Args, report: &Report, output: &Output) -> anyhow::Result<Vec<String>> {
    let mut repository = args.from.as_deref().map(Repository::open).transpose()?;
    let mut ask = repository
        .as_mut()
        .map(|repository| |ids: &[ObjectId], on_object: &mut OnObject<'_>| repository.objects(ids, on_object));
    let source = ask.as_mut().map(|ask| ask as &mut Source<'_>);
    let mut on_wait = |text: &str| output.note(text);
    let mut policy = WritePolicy {
        durability: configured_durability()?,
        timeout: args.locking.timeout()?,
        lock: args.locking.mode()?,
        on_wait: Some(&mut on_wait),
        ..WritePolicy::default()
    };
    let done = verify::repair(&report.path, report, source, &spool, &mut policy)?;
    for warning in &done.warnings {
        output.warning(&format!("{}: {warning}", report.path.display()));
    }
    let mut texts = Vec::from_iter(done.footer);
    let plural = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    if done.objects > 0 {
        texts.push(format!("{} stored again", plural(done.objects, "object")));
    }
    if done.packs > 0 {
        texts.push(format!("damage marked in {}", plural(done.packs, "pack")));
    }
    if done.refused > 0 {
        let count = plural(done.refused, "object");
        texts.push(format!(
            "{count} not taken, because the repository's own copy is damaged"
        ));
    }
    Ok(texts)
}

fn exit_of(report: &Report) -> Exit {
    match report.worst {
        None => Exit::Done,
        Some(Severity::Warning) => Exit::No,
        Some(Severity::Damage) => Exit::Damaged,
        Some(Severity::Unreadable) => Exit::Failed,
    }
}

fn tell(report: &Report, output: &mut Output) -> anyhow::Result<()> {
    let path = report.path.to_string_lossy();
    for finding in &report.findings {
        let line = format!("{path}: {}", sentence(finding));
        let line = output.name(line.as_bytes()).into_owned();
        output.line(line)?;
    }
    if report.worst.is_none() && output.is_quiet() {
        return Ok(());
    }
    let checked = &report.checked;
    let verdict = match report.worst {
        None => "nothing is wrong".to_string(),
        Some(worst) => {
            let name = match worst {
                Severity::Warning => "warnings",
                Severity::Damage => "damage",
                Severity::Unreadable => "unreadable",
            };
            format!("{name}, {}", count(report.findings.len() as u64, "finding", "findings"))
        }
    };
    let mut amount = [
        count(checked.commits, "commit", "commits"),
        count(checked.refs, "reference", "references"),
    ]
    .join(", ");
    if report.level >= Level::Standard {
        let bytes = HumanBytes(checked.pack_bytes);
        let packs = count(checked.packs, "pack", "packs");
        let entries = count(checked.entries, "entry", "entries");
        amount = format!("{amount}, {packs} ({bytes}), {entries}");
    }
    if report.level >= Level::Full {
        amount = format!("{amount}, {}", count(checked.objects, "object", "objects"));
    }
    let line = format!("{path}: {verdict} (checked {amount})");
    let line = output.name(line.as_bytes()).into_owned();
    output.line(line)?;
    if !report.not_checked.is_empty() && !output.is_quiet() {
        output.note(&format!("{path}: not checked: {}", report.not_checked.join("; ")));
    }
    Ok(())
}

/// Returns a finding as one line: severity, what, where, and whom it concerns.
fn sentence(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Warning => "warning",
        Severity::Damage => "damage",
        Severity::Unreadable => "unreadable",
    };
    let mut line = severity.to_string();
    if let Some(oid) = finding.oid {
        line = format!("{line}: object {oid}");
    }
    line = format!("{line}: {}", finding.what);
    let mut places = vec![];
    if let Some(pack) = finding.pack {
        let at = finding.pack_offset.map_or(String::new(), |at| format!(" at {at}"));
        places.push(format!("pack {pack}{at}"));
    }
    if let Some(txn) = finding.txn {
        places.push(format!("transaction {txn}"));
    }
    if let Some(offset) = finding.offset {
        let length = finding.length.filter(|length| *length > 0);
        let length = length.map_or(String::new(), |length| format!(", {length} bytes"));
        places.push(format!("offset {offset} of the file{length}"));
    }
    if !places.is_empty() {
        line = format!("{line} [{}]", places.join("; "));
    }
    let mut names = finding.refs.iter().take(5).map(ToString::to_string).collect::<Vec<_>>();
    let more = finding.refs_affected - names.len() as u64;
    if more > 0 {
        names.push(format!("{more} more"));
    }
    match names.is_empty() {
        true => line,
        false => format!("{line} affects {}", names.join(", ")),
    }
}
