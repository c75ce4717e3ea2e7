//! `znippy index`: proves what was stored without proof.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use serde::Serialize;
use znippy::{
    archive::{self, CaughtUp, Snapshot, WritePolicy},
    pack::PackStore,
};

use super::{Done, each::each, exit::Exit, locking, open, output::Output, progress::Bar};

/// How often `--wait` looks whether another run has finished.
const WAIT_PAUSE: Duration = Duration::from_millis(100);

/// Prove what was pushed without proof, and index it
///
/// A large push is stored before its objects are checked. This reads and hashes every such object, checks that everything it refers to is in the archive, and notes the result there: until then every clone has to check for itself. Pushes and fetches go on meanwhile; the writer lock is held only to append. An interrupted run goes on where it stopped.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  znippy index /mnt/nas/*.znippy          bring archives up to date
  znippy index --check app                is there anything to do? exit code 1 if so
  znippy index --wait app && znippy ...   go on when another run has finished

With --json: path, unproven_packs (left), proven_packs (by this run), damaged (a list of pack, oid, offset, why),
missing (a list of pack, oid, from), unreadable (a list of pack, why). Damage gives exit code 5; `znippy verify --full` tells what it affects.
For an archive that cannot be read: path, error, exit_code.")]
pub struct Args {
    /// Only say what there is to do
    #[arg(long, conflicts_with_all = ["rebuild", "wait", "detach"])]
    check: bool,

    /// Check every pack again, proven or not
    #[arg(long)]
    rebuild: bool,

    /// If another run is at work on the archive, wait for it instead of passing
    #[arg(long)]
    wait: bool,

    /// Do it in the background, silently and with low priority; in the foreground where standard error is no terminal, because a background process of a script keeps disks from being unmounted
    #[arg(long, conflicts_with = "wait")]
    detach: bool,

    /// Be the background process
    #[arg(long, hide = true)]
    detached: bool,

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
    unproven_packs: u64,
    proven_packs: u64,
    damaged: Vec<Damaged>,
    missing: Vec<Missing>,
    unreadable: Vec<Unreadable>,
}

#[derive(Serialize)]
struct Unreadable {
    pack: String,
    why: String,
}

#[derive(Serialize)]
struct Damaged {
    pack: String,
    oid: String,
    offset: u64,
    why: String,
}

#[derive(Serialize)]
struct Missing {
    pack: String,
    oid: String,
    from: Option<String>,
}

/// Catches up with each archive in turn; an error in one does not stop the others.
pub fn run(args: &Args, output: &mut Output) -> Done {
    if args.detach && std::io::stderr().is_terminal() {
        return detach(args);
    }
    if args.detached {
        // Neither fails where it matters: a new process leads no group, and a lower priority is always allowed.
        let _ = (rustix::process::setsid(), rustix::process::nice(10));
    }
    each(&args.paths, args.json, output, |path, output| one(args, path, output))
}

fn one(args: &Args, path: &Path, output: &mut Output) -> Done {
    let snapshot = open::snapshot(path, output)?;
    let file = snapshot.path().to_owned();
    if args.check {
        let lag = archive::unproven(&snapshot)?.len() as u64;
        tell(args, &file, lag, &CaughtUp::default(), &snapshot, output)?;
        return Ok(if lag == 0 { Exit::Done } else { Exit::No });
    }
    if snapshot.is_closed() && !args.rebuild {
        tell(args, &file, 0, &CaughtUp::default(), &snapshot, output)?;
        return Ok(Exit::Done);
    }
    let bar = Bar::new(output);
    let mut on_wait = |text: &str| output.note(text);
    let mut policy = WritePolicy {
        on_wait: Some(&mut on_wait),
        ..locking::configured()?
    };
    let caught_up = loop {
        let mut on_progress = |packs: (u64, u64), objects: (u64, u64)| {
            let message = format!("pack {} of {}", packs.0 + 1, packs.1);
            bar.show(message, objects.0, objects.1, "objects");
        };
        match archive::catch_up(&file, args.rebuild, &mut policy, &mut on_progress)? {
            Some(caught_up) => break caught_up,
            None if args.wait => std::thread::sleep(WAIT_PAUSE),
            None => {
                output.note(&format!("{}: another run is at work on it", file.display()));
                return Ok(Exit::Done);
            }
        }
    };
    bar.finish();
    let now = Snapshot::open(&file)?;
    let lag = archive::unproven(&now)?.len() as u64;
    tell(args, &file, lag, &caught_up, &now, output)?;
    Ok(if caught_up.unsound.is_empty() {
        Exit::Done
    } else {
        Exit::Damaged
    })
}

fn tell(
    args: &Args,
    path: &Path,
    lag: u64,
    caught_up: &CaughtUp,
    snapshot: &Snapshot,
    output: &mut Output,
) -> anyhow::Result<()> {
    let shown = path.to_string_lossy();
    if args.json {
        let (mut damaged, mut missing, mut unreadable) = (vec![], vec![], vec![]);
        for unsound in &caught_up.unsound {
            let pack = unsound.pack.to_string();
            unreadable.extend(unsound.why.iter().map(|why| Unreadable {
                pack: pack.clone(),
                why: why.clone(),
            }));
            damaged.extend(unsound.damaged.iter().map(|damage| Damaged {
                pack: pack.clone(),
                oid: damage.oid.to_string(),
                offset: damage.offset,
                why: damage.why.clone(),
            }));
            missing.extend(unsound.dangling.iter().map(|dangling| Missing {
                pack: pack.clone(),
                oid: dangling.to.to_string(),
                from: dangling.from.map(|from| from.to_string()),
            }));
        }
        let record = Record {
            path: &shown,
            unproven_packs: lag,
            proven_packs: caught_up.proven,
            damaged,
            missing,
            unreadable,
        };
        return Ok(output.json(&record)?);
    }
    for unsound in &caught_up.unsound {
        if let Some(why) = &unsound.why {
            output.error(&format!("{shown}: pack {}: {why}", unsound.pack));
        }
        for damage in &unsound.damaged {
            let (oid, offset) = (damage.oid, damage.offset);
            output.error(&format!(
                "{shown}: object {oid} at {offset} of pack {} is damaged: {}",
                unsound.pack, damage.why
            ));
        }
        for dangling in &unsound.dangling {
            let from = dangling
                .from
                .map_or_else(String::new, |from| format!(", which {from} refers to"));
            output.error(&format!("{shown}: {} {}{from}, is missing", dangling.kind, dangling.to));
        }
    }
    let packs = snapshot.packs();
    let state = match (caught_up.unsound.len(), lag) {
        (0, 0) if packs == 1 => "its pack is proven".into(),
        (0, 0) => format!("all {packs} packs are proven"),
        (0, lag) => format!("packs that are not proven: {lag} of {packs}"),
        (unsound, _) => format!("packs that are damaged or lack objects: {unsound} of {packs}"),
    };
    Ok(output.line(format!("{shown}: {state}"))?)
}

/// Starts this command again as a process of its own session with nothing of ours open, and does not wait for it.
fn detach(args: &Args) -> Done {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let mut command = Command::new(program);
    command.args(["--quiet", "index", "--detached"]);
    if args.rebuild {
        command.arg("--rebuild");
    }
    command.arg("--");
    for path in &args.paths {
        command.arg(std::path::absolute(path).context("cannot tell the current directory")?);
    }
    command.current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("cannot start in the background")?;
    Ok(Exit::Done)
}
