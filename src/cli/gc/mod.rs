//! `znippy gc`: writes archives anew without what is dead.

mod age;
mod stop;

use std::path::{Path, PathBuf};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use znippy::{
    archive::{self, Expire, GcOptions, GcProgress, GcReport, WritePolicy},
    verify,
};

use super::{Done, exit, exit::Exit, git, locking::Locking, open, output::Output};

/// Rewrite archives without what is dead: smaller, one pack, quick to clone
///
/// Writes a new file beside the archive (.NAME.gc), reads all of it back, and puts it in the archive's place. Pushes and fetches go on meanwhile; what is pushed is carried over. History is kept: objects that no reference reaches any more, because a branch was deleted or rewound, are marked when a gc finds them first, and removed by a gc that finds them marked for longer than --expire. The disk must have room for the new file. An archive that has one pack and hardly a dead byte is left as it is, and so is one with a damaged object of which there is no other copy.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  znippy gc --auto /mnt/nas/*.znippy      from cron: only where it is worth it
  znippy gc --prune=now app               a secret was pushed and its branch deleted: remove it for good
  znippy gc --dry-run --json app          what would be gained

WHEN is now, never, or an age: a number with s, m, h, d or w, such as 14d, or as git writes it, such as 2.weeks.

With --json: path, rewritten, generation, packs_before, packs_after, objects, pruned (objects removed), unreachable (objects
that are kept until they expire), carried (transactions that were pushed meanwhile), healed, bytes_before, bytes_after,
freed, dry_run.")]
pub struct Args {
    /// Do nothing unless more than 30 % of the file and 64 MiB are dead
    #[arg(long)]
    auto: bool,

    /// Remove what no reference reaches if an earlier gc marked it at least that long ago; now: at once, marked or not
    #[arg(long, visible_alias = "prune", value_name = "WHEN", default_value = "14d", value_parser = age::parse)]
    expire: Expire,

    /// Only say what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Rewrite even where nothing is gained by it
    #[arg(long, conflicts_with = "auto")]
    force: bool,

    /// Rewrite a file that has other names (hard links) or is mounted where it is: all other names keep the old state
    #[arg(long)]
    break_links: bool,

    #[command(flatten)]
    locking: Locking,

    /// One JSON object a line for each archive
    #[arg(long)]
    json: bool,

    /// The archives
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Record<'a> {
    path: &'a str,
    rewritten: bool,
    generation: u64,
    packs_before: u64,
    packs_after: u64,
    objects: u64,
    pruned: u64,
    unreachable: u64,
    carried: u64,
    healed: u64,
    bytes_before: u64,
    bytes_after: u64,
    freed: i64,
    dry_run: bool,
}

/// Rewrites each archive in turn; an error in one does not stop the others.
pub fn run(args: &Args, output: &mut Output) -> Done {
    stop::install()?;
    let mut worst = Exit::Done;
    for path in &args.paths {
        let done = one(args, path, output);
        output.flush()?;
        worst = worst.max(done.unwrap_or_else(|error| exit::report(&error, output)));
    }
    Ok(worst)
}

fn one(args: &Args, path: &Path, output: &mut Output) -> Done {
    let file = open::quiet_snapshot(path)?.path().to_owned();
    let bar = progress_bar(output);
    let temporary = file.canonicalize().map(|file| archive::temporary_path(&file));
    let mut on_progress = |progress| show_progress(&bar, temporary.as_deref().ok(), progress);
    let mut on_wait = |text: &str| output.note(text);
    let options = GcOptions {
        expire: args.expire,
        auto: args.auto,
        dry_run: args.dry_run,
        force: args.force,
        break_links: args.break_links,
        actor: git::committer(),
        progress: Some(&mut on_progress),
        check: Some(&verify::check_new_generation),
        ..GcOptions::default()
    };
    let mut policy = WritePolicy {
        timeout: args.locking.timeout()?,
        lock: args.locking.mode()?,
        on_wait: Some(&mut on_wait),
        ..WritePolicy::default()
    };
    let report = archive::gc(&file, options, &mut policy);
    stop::forget();
    bar.finish_and_clear();
    let report = report?;
    for warning in &report.warnings {
        output.warning(&format!("{}: {warning}", file.display()));
    }
    tell(args, &file, &report, output)?;
    Ok(Exit::Done)
}

fn show_progress(bar: &ProgressBar, temporary: Option<&Path>, progress: GcProgress) {
    let (what, done, total) = match progress {
        GcProgress::Counting(done) => ("Counting", done, 0),
        GcProgress::Copying(done, total) => ("Copying", done, total),
        GcProgress::Checking(done, total) => ("Checking", done, total),
    };
    if let (GcProgress::Copying(..), Some(temporary)) = (progress, temporary) {
        stop::remember(temporary);
    }
    bar.set_message(what);
    bar.set_length(total.max(done));
    bar.set_position(done);
}

fn tell(args: &Args, path: &Path, report: &GcReport, output: &mut Output) -> anyhow::Result<()> {
    let shown = path.to_string_lossy();
    let freed = report.bytes_before as i64 - report.bytes_after as i64;
    if args.json {
        return Ok(output.json(&Record {
            path: &shown,
            rewritten: report.rewritten,
            generation: report.generation,
            packs_before: report.packs_before,
            packs_after: report.packs_after,
            objects: report.objects,
            pruned: report.pruned,
            unreachable: report.unreachable,
            carried: report.carried,
            healed: report.healed,
            bytes_before: report.bytes_before,
            bytes_after: report.bytes_after,
            freed,
            dry_run: args.dry_run,
        })?);
    }
    let mut facts = vec![];
    let plural = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    if report.rewritten {
        let size = HumanBytes(report.bytes_after);
        facts.push(match u64::try_from(freed) {
            Ok(freed) => format!("{} freed, {size} left", HumanBytes(freed)),
            Err(_) => format!("{} more than before, {size} now", HumanBytes(freed.unsigned_abs())),
        });
        facts.push(format!(
            "{} from {}",
            plural(report.packs_after, "pack"),
            report.packs_before
        ));
    } else if args.dry_run {
        facts.push(format!("would keep {}", plural(report.objects, "object")));
    } else {
        facts.push("nothing to do".into());
    }
    if report.pruned > 0 {
        let verb = if args.dry_run { "would go" } else { "removed" };
        facts.push(format!("{} {verb}", plural(report.pruned, "unreachable object")));
    }
    if report.unreachable > 0 {
        facts.push(format!(
            "{} kept until they expire",
            plural(report.unreachable, "unreachable object")
        ));
    }
    if report.carried > 0 {
        facts.push(format!(
            "{} came in meanwhile",
            plural(report.carried, "push").replace("pushs", "pushes")
        ));
    }
    if report.healed > 0 {
        facts.push(format!(
            "{} replaced by a sound copy",
            plural(report.healed, "damaged object")
        ));
    }
    Ok(output.line(format!("{shown}: {}", facts.join("; ")))?)
}

/// A bar on a terminal; nothing elsewhere or with --quiet.
fn progress_bar(output: &Output) -> ProgressBar {
    let target = if output.is_quiet() {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    };
    let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} objects, {eta}")
        .expect("the template is valid");
    ProgressBar::with_draw_target(None, target).with_style(style)
}
