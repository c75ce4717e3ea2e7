//! `znippy upload-pack`: serves fetches to a git client at the other end of standard input and output.

use std::{
    io::{self, BufReader, Read},
    os::fd::AsFd,
    path::PathBuf,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use znippy::wire::{
    Version, WireError,
    upload::{self, Wants},
};

use super::{
    Done,
    exit::{self, Exit},
    open,
    output::Output,
};

/// Serve fetches and clones of an archive: what git runs on the other side
///
/// git runs this over ssh in the place of its own `git upload-pack`, to be told so with `remote.NAME.uploadpack`, or with
/// `--upload-pack` for one command: `git clone` needs both, because what comes after it asks the setting. It speaks versions 0, 1 and 2 of git's protocol on standard input and output. Only objects that a
/// reference reaches are served.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  git clone -u 'znippy upload-pack' -c remote.origin.uploadpack='znippy upload-pack' host:/srv/app
  git -c protocol.ext.allow=always clone 'ext::znippy %s /srv/app'

Environment:
  GIT_PROTOCOL      the version of the protocol that the client asks for, such as version=2")]
pub struct Args {
    /// Answer one request and end, as under HTTP
    #[arg(long)]
    stateless_rpc: bool,

    /// Only say what there is and what can be done
    #[arg(long, alias = "http-backend-info-refs")]
    advertise_refs: bool,

    /// Take only a file of exactly this name: do not add .znippy
    #[arg(long, overrides_with = "no_strict")]
    strict: bool,

    /// Add .znippy where there is no file of exactly this name (the default)
    #[arg(long, overrides_with = "strict")]
    no_strict: bool,

    /// Give up when the client says nothing for so many seconds (0: wait for ever)
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    timeout: u64,

    /// The archive
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

/// Serves until the client is done.
pub fn run(args: &Args, output: &mut Output) -> Done {
    if args.strict && !args.path.is_file() {
        return Err(exit::not_served(&args.path));
    }
    let snapshot = open::served(&args.path, output)?;
    let protocol = std::env::var_os("GIT_PROTOCOL").unwrap_or_default();
    let options = upload::Options {
        version: Version::from_git_protocol(protocol.as_encoded_bytes()),
        stateless: args.stateless_rpc,
        advertise_only: args.advertise_refs,
        wants: Wants::Reachable,
        ..Default::default()
    };
    let mut input = BufReader::with_capacity(
        1 << 16,
        Patient {
            timeout: (args.timeout > 0).then(|| Duration::from_secs(args.timeout)),
        },
    );
    match upload::serve(&snapshot, &mut input, output.raw(), options) {
        Ok(()) => Ok(Exit::Done),
        // Nobody is left to tell, but a wrapper may want to know that it did not end well.
        Err(WireError::HungUp) => Ok(Exit::Failed),
        Err(error) => Err(error.into()),
    }
}

/// Standard input, read without a wait for more than the client is given.
struct Patient {
    timeout: Option<Duration>,
}

impl Read for Patient {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let stdin = io::stdin();
        if let Some(timeout) = self.timeout {
            let timeout = Timespec::try_from(timeout).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            if poll(&mut fds, Some(&timeout))? == 0 {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it said nothing for too long"));
            }
        }
        Ok(rustix::io::read(stdin.as_fd(), buf)?)
    }
}
