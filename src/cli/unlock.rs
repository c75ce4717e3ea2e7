//! `znippy unlock`: takes a lock file away that nobody will.

use std::path::PathBuf;

use znippy::{archive, media::LocalDisk};

use super::{Done, exit, exit::Exit, open, output::Output};

/// Remove the lock file that a writer left beside an archive
///
/// Only writers that were told to (git config znippy.lock file, or --lock=file) use a lock file, .NAME.lock. It is left where a machine or process dies while it holds one. A writer on the same machine removes it by itself once it sees that the process is gone; one that another machine left, or that is from before a restart, stays until this command is given. Be sure that nobody is writing: two writers at once damage the archive.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  znippy unlock /mnt/nas/app

Says who held the lock. Exit code 1 if there was none, 4 if its holder is alive on this machine (then only --force helps).")]
pub struct Args {
    /// Even if the holder is known to be alive
    #[arg(long)]
    force: bool,

    /// The archives
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// Unlocks each archive in turn; an error in one does not stop the others.
pub fn run(args: &Args, output: &mut Output) -> Done {
    let mut worst = Exit::Done;
    for path in &args.paths {
        let done = one(args, path, output);
        output.flush()?;
        worst = worst.max(done.unwrap_or_else(|error| exit::report(&error, output)));
    }
    Ok(worst)
}

fn one(args: &Args, path: &std::path::Path, output: &mut Output) -> Done {
    let file = open::quiet_snapshot(path)?.path().to_owned();
    let mut found = false;
    for locked in [file.clone(), archive::temporary_path(&file)] {
        let Some(unlocked) = archive::unlock(&LocalDisk, &locked, args.force)? else {
            continue;
        };
        found = true;
        let holder = match unlocked.holder {
            Some(holder) => format!("{holder} held the lock"),
            None => "the lock file did not say who held the lock".into(),
        };
        output.line(format!("{}: {holder}", file.display()))?;
    }
    if !found {
        output.note(&format!("{}: there is no lock file", file.display()));
        return Ok(Exit::No);
    }
    Ok(Exit::Done)
}
