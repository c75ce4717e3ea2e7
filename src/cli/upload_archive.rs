//! `znippy upload-archive`: serves `git archive --remote` at the other end of standard input and output.

use std::{
    io::{self, BufReader, Write},
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};
use bstr::BString;
use znippy::wire::{PacketReader, PacketWriter, WireError, upload_archive};

use super::{Done, exit::Exit, open, output::Output, receive_pack::spool_directory};

/// Serve `git archive --remote`: what git runs on the other side
///
/// Makes a temporary repository of just the objects that are asked for, and lets git make the tar or zip file of it, with the
/// settings of this side. As with git, only names of references can be asked for.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  git archive --remote=host:/srv/app --exec='znippy upload-archive' v1.0 src >src.tar
  git archive --remote=znippy::/srv/app --format=zip HEAD >app.zip")]
pub struct Args {
    /// The archive
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

/// The most arguments that git's own server takes.
const MOST_ARGUMENTS: usize = 64;

/// Serves one request.
pub fn run(args: &Args, output: &mut Output) -> Done {
    let snapshot = open::served(&args.path, output)?;
    let mut packets = PacketReader::new(BufReader::new(io::stdin().lock()));
    let lines = match packets.lines(MOST_ARGUMENTS) {
        Ok(lines) => lines,
        Err(WireError::HungUp) => return Ok(Exit::Failed),
        Err(error) => return Err(error.into()),
    };
    let argument = |line: &BString| line.strip_prefix(b"argument ").map(BString::from);
    let arguments: Option<Vec<BString>> = lines.iter().map(argument).collect();
    let Some(arguments) = arguments else {
        bail!("protocol error: an argument was expected");
    };
    let directory = tempfile::Builder::new()
        .prefix("znippy-archive-")
        .tempdir_in(spool_directory())
        .context("cannot make a temporary repository")?;
    upload_archive::prepare(&snapshot, &arguments, directory.path())?;
    let mut command = Command::new("git");
    // The environment may name another repository.
    for name in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_COMMON_DIR",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_INDEX_FILE",
    ] {
        command.env_remove(name);
    }
    let child = command
        .arg("upload-archive")
        .arg(directory.path())
        .stdin(Stdio::piped())
        .spawn();
    let mut child = child.context("cannot run git upload-archive")?;
    let mut input = PacketWriter::new(child.stdin.take().expect("stdin is piped"));
    let told = lines
        .iter()
        .try_for_each(|line| input.line(line))
        .and_then(|()| input.end())
        .and_then(|()| Ok(input.get_mut().flush()?));
    drop(input);
    let status = child.wait().context("cannot wait for git upload-archive")?;
    match (told, status.success()) {
        (Ok(()), true) => Ok(Exit::Done),
        // It has told the other side why.
        _ => Ok(Exit::Failed),
    }
}
