//! `znippy receive-pack`: takes a push from a git client at the other end of standard input and output.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, BufReader},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    process::Command,
};

use bstr::BString;
use znippy::{
    pack::fsck,
    wire::{
        Version, WireError,
        receive::{self, ReceiveOptions, Spool},
    },
};

use super::{Done, exit::Exit, locking, open, output::Output};

/// Take a push into an archive: what git runs on the other side
///
/// git runs this over ssh in the place of its own `git receive-pack`, to be told so with `--receive-pack` or
/// `remote.NAME.receivepack`. It speaks versions 0 and 1 of git's protocol on standard input and output. Every object is hashed
/// and everything that it refers to must be there before pack and references are stored, in one step. What a thin pack leaves
/// out, because the archive has it, is stored with it. The archive must exist: `znippy init` makes one.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  git push --receive-pack='znippy receive-pack' host:/srv/app main
  git config remote.origin.receivepack 'znippy receive-pack'
  git -c protocol.ext.allow=always push 'ext::znippy %s /srv/app' main

Environment:
  GIT_PROTOCOL      the version of the protocol that the client asks for, such as version=1
  TMPDIR            where the pack is kept until it is proven, without a name; else /var/tmp")]
pub struct Args {
    /// The archive
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

/// Serves one push.
pub fn run(args: &Args, output: &mut Output) -> Done {
    let snapshot = open::served(&args.path, output)?;
    let protocol = std::env::var_os("GIT_PROTOCOL").unwrap_or_default();
    let levels = snapshot.policy();
    let options = ReceiveOptions {
        version: Version::from_git_protocol(protocol.as_encoded_bytes()),
        actor: actor(),
        spool: Spool {
            directory: &spool_directory(),
            file: &spool,
        },
        fsck: &|pack| {
            let base = spool_directory();
            let directory = tempfile::Builder::new().prefix("znippy-fsck-").tempdir_in(&base);
            let directory = directory.map_err(znippy::Error::io(base, "make a directory in"))?;
            let git = || Command::new("git");
            fsck::fsck(pack, &snapshot, levels.check_levels(), &git, directory.path())
        },
        policy: locking::configured()?,
    };
    let mut input = BufReader::with_capacity(1 << 16, io::stdin().lock());
    match receive::serve(&snapshot, &mut input, output.raw(), options) {
        Ok(()) => Ok(Exit::Done),
        // Nobody is left to tell, but a wrapper may want to know that it did not end well.
        Err(WireError::HungUp) => Ok(Exit::Failed),
        Err(error) => Err(error.into()),
    }
}

/// Makes a file without a name. A pack can be as large as the repository: `/var/tmp` is for that, while `/tmp` is often memory.
pub fn spool() -> io::Result<File> {
    tempfile::tempfile_in(spool_directory())
}

/// Returns where large temporary files go.
pub fn spool_directory() -> PathBuf {
    match std::env::var_os("TMPDIR").filter(|path| Path::new(path).is_absolute()) {
        Some(path) => path.into(),
        None if Path::new("/var/tmp").is_dir() => "/var/tmp".into(),
        None => std::env::temp_dir(),
    }
}

/// Returns who pushes: the account that the server runs as, and where the connection comes from.
fn actor() -> Option<BString> {
    let variable = |name| {
        std::env::var_os(name)
            .map(OsString::into_vec)
            .filter(|value| !value.is_empty())
    };
    let user = variable("LOGNAME").or_else(|| variable("USER"))?;
    let from =
        variable("SSH_CONNECTION").and_then(|from| Some([b" from ", from.split(|b| *b == b' ').next()?].concat()));
    Some([user, from.unwrap_or_default()].concat().into())
}
