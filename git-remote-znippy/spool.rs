//! The pack of a push, built by `git pack-objects` in a directory of its own on the local disk.
//!
//! File mode, not `--stdout`: git then checks what it copies from its packs and writes the index that the archive needs.
//! File mode always writes into the object directory, so that is the spool, and the client's store is an alternate
//! of it: a read-only repository can be pushed from, and an interrupted push leaves nothing in it.

use std::{
    ffi::OsString,
    io::{BufWriter, Read, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, bail};
use bstr::ByteSlice;
use gix_hash::{Kind, ObjectId};
use znippy::pack::disk::DiskPack;

use crate::{
    cleanup::Guard,
    client::{self, Client},
    ui::Voice,
};

/// A finished pack. Its directory is removed with it.
pub struct Spool {
    pub pack: DiskPack,
    pub directory: Guard,
}

/// Settings that would make several packs, or files nobody reads, or syncs of what is thrown away in a moment.
const SETTINGS: [&str; 4] = [
    "pack.packSizeLimit=0",
    "pack.indexVersion=2",
    "pack.writeReverseIndex=false",
    "core.fsync=none",
];

/// Packs what `tips` reach and `bounds` do not. `None` where that is nothing.
///
/// # Errors
/// Fails where git does: the client's store may be damaged.
pub fn build(
    client: &Client,
    format: Kind,
    tips: &[ObjectId],
    bounds: &[ObjectId],
    voice: Voice,
) -> Result<Option<Spool>> {
    let (directory, path) = create_directory()?;
    let packs = path.join("pack");
    std::fs::create_dir(&packs).with_context(|| format!("cannot create {}", packs.display()))?;
    let mut command = client::git();
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    command
        .args([
            "pack-objects",
            "--revs",
            "--delta-base-offset",
            "--use-bitmap-index",
            "--non-empty",
        ])
        .arg(if voice.shows_progress() { "--progress" } else { "-q" })
        .arg(packs.join("pack"))
        .env("GIT_OBJECT_DIRECTORY", &path)
        .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", client.as_alternate())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let (guard, mut child) = Guard::child(&mut command).context("cannot run git pack-objects")?;
    let mut input = BufWriter::new(child.stdin.take().expect("stdin is piped"));
    // An error here means that git ended early: its exit code says so, and its message says why.
    let _ = write_revisions(&mut input, tips, bounds);
    drop(input);
    let mut output = Vec::new();
    child
        .stdout
        .take()
        .expect("stdout is piped")
        .read_to_end(&mut output)
        .context("cannot read from git pack-objects")?;
    let status = child.wait().context("cannot wait for git pack-objects")?;
    guard.release();
    if !status.success() {
        bail!("git pack-objects failed ({status}); spool directory {}", path.display());
    }
    let mut names = output.lines();
    let (Some(name), more) = (names.next(), names.next()) else {
        return Ok(None);
    };
    if more.is_some() {
        bail!("git pack-objects made more than one pack");
    }
    let pack = packs.join(format!("pack-{}.pack", name.as_bstr()));
    let pack = DiskPack::open(&pack, format)?;
    Ok(Some(Spool { pack, directory }))
}

fn write_revisions(input: &mut impl Write, tips: &[ObjectId], bounds: &[ObjectId]) -> std::io::Result<()> {
    for tip in tips {
        writeln!(input, "{tip}")?;
    }
    for bound in bounds {
        writeln!(input, "^{bound}")?;
    }
    input.flush()
}

/// Creates a directory that only the user can enter.
fn create_directory() -> Result<(Guard, PathBuf)> {
    let base = base_directory();
    for attempt in 0u32.. {
        let path = base.join(format!("git-remote-znippy-{}-{attempt}", std::process::id()));
        match Guard::directory(&path, |path| std::fs::DirBuilder::new().mode(0o700).create(path)) {
            Ok(guard) => return Ok((guard, path)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && attempt < 1000 => {}
            Err(error) => return Err(error).with_context(|| format!("cannot create the spool {}", path.display())),
        }
    }
    unreachable!("the loop ends with its last attempt")
}

/// A spool can be as large as the repository: `/var/tmp` is for that, while `/tmp` is often memory.
fn base_directory() -> PathBuf {
    match std::env::var_os("TMPDIR").filter(|path| Path::new(path).is_absolute()) {
        Some(path) => path.into(),
        None if Path::new("/var/tmp").is_dir() => OsString::from("/var/tmp").into(),
        None => std::env::temp_dir(),
    }
}
