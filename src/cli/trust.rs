//! `znippy trust`: archives whose objects need not be hashed again.

use std::{os::unix::ffi::OsStrExt, path::PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use znippy::trust::{self, TrustList};

use super::{Done, exit, exit::Exit, open, output::Output};

/// Trust an archive that belongs to somebody else
///
/// A clone from an archive copies packs as they are, without hashing every object, if nobody but you can have written the
/// file: it is yours, others may not write to it, and it is on a local disk that stores owners. From any other archive all
/// objects are hashed on the way in, which takes longer. This verb makes an exception for one archive, known by its UUID.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  znippy trust /mnt/nas/app             do not hash again what comes from there
  znippy trust --list
  znippy trust --remove /mnt/nas/app

Trust an archive only if you trust everyone who can write to it, or to the directory that it is in: they could give
you objects under wrong names. Whoever can read an archive can make another one with the same UUID.
git's setting znippy.trust=UUID does the same for one repository.

JSON keys of --list: uuid, path.

The exit code of --remove is 1 if the archive was not in the list.")]
pub struct Args {
    /// List the archives that are trusted: UUID and path, a line each
    #[arg(long, conflicts_with = "path")]
    list: bool,

    /// Trust the archive no longer; give its path or, where it is gone, its UUID
    #[arg(long, requires = "path")]
    remove: bool,

    /// With --list: one JSON object a line
    #[arg(long, requires = "list")]
    json: bool,

    /// The archive
    #[arg(required_unless_present = "list")]
    path: Option<PathBuf>,
}

#[derive(Serialize)]
struct Record<'a> {
    uuid: &'a str,
    path: String,
}

/// Shows or changes the list.
pub fn run(args: &Args, output: &mut Output) -> Done {
    let file = dirs::config_dir().context("cannot tell where your configuration is (is HOME set?)")?;
    let mut list = TrustList::read(&file.join("znippy").join("trusted"))?;
    let Some(path) = args.path.as_ref().filter(|_| !args.list) else {
        for entry in list.entries() {
            if args.json {
                output.json(&Record {
                    uuid: &entry.uuid,
                    path: entry.path.to_string(),
                })?;
            } else {
                let path = output.name(&entry.path).into_owned();
                output.line([entry.uuid.as_bytes(), b" ", &path].concat())?;
            }
        }
        return Ok(Exit::Done);
    };
    if args.remove {
        let known = path.to_str().filter(|uuid| list.contains(uuid)).map(str::to_owned);
        let uuid = match known {
            Some(uuid) => uuid,
            None => open::quiet_snapshot(path)?.uuid(),
        };
        if !list.remove(&uuid) {
            return Err(exit::no(format!(
                "{}: the archive {uuid} was not trusted",
                path.display()
            )));
        }
        list.write()?;
        return Ok(Exit::Done);
    }
    let snapshot = open::snapshot(path, output)?;
    let absolute = std::path::absolute(snapshot.path()).context("cannot tell the current directory")?;
    list.add(snapshot.uuid(), absolute.as_os_str().as_bytes().into());
    list.write()?;
    match trust::distrust(snapshot.path()) {
        Some(why) => output.note(&format!("{}: trusted, although {why}", path.display())),
        None => output.note(&format!(
            "{}: it was trusted already, for only you can have written it",
            path.display()
        )),
    }
    Ok(Exit::Done)
}
