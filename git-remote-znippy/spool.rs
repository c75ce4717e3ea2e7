//! The pack of a push, built by `git pack-objects` in a directory of its own on the local disk.
//!
//! File mode, not `--stdout`: git then checks what it copies from its packs and writes the index that the archive needs.
//! File mode always writes into the object directory, so that is the spool, and the client's store is an alternate
//! of it: a read-only repository can be pushed from, and an interrupted push leaves nothing in it.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{BufWriter, Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use bstr::ByteSlice;
use gix_hash::{Kind, ObjectId};
use rustix::fs::FlockOperation;
use znippy::pack::disk::DiskPack;

use crate::{
    cleanup::Guard,
    client::{self, Client},
    ui::Voice,
};

/// A finished pack. Its directory is removed with it.
pub struct Spool {
    pub pack: DiskPack,
    pub directory: Directory,
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
    let directory = Directory::create()?;
    let path = &directory.path;
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
        .env("GIT_OBJECT_DIRECTORY", path)
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

/// A directory that only the user can enter, removed when dropped. Its lock shows that its process lives.
pub struct Directory {
    path: PathBuf,
    _lock: Option<File>,
    _guard: Guard,
}

const PREFIX: &str = "git-remote-znippy-";
/// A directory younger than this may be one whose process has not locked it yet.
const MIN_AGE: Duration = Duration::from_secs(60);

impl Directory {
    fn create() -> Result<Directory> {
        let base = base_directory();
        sweep(&base);
        for attempt in 0u32.. {
            let path = base.join(format!("{PREFIX}{}-{attempt}", std::process::id()));
            match Guard::directory(&path, |path| std::fs::DirBuilder::new().mode(0o700).create(path)) {
                Ok(guard) => {
                    return Ok(Directory {
                        _lock: lock(&path),
                        path,
                        _guard: guard,
                    });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && attempt < 1000 => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot create the spool {}", path.display()));
                }
            }
        }
        unreachable!("the loop ends with its last attempt")
    }

    /// Makes a directory in it, in the place of one that is there.
    pub fn below(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }
}

/// Locks a directory until the file is closed, by whatever end of the process. `None` where another process has, or where the
/// file system cannot.
fn lock(directory: &Path) -> Option<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(directory)
        .ok()?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// Removes what processes of this user left behind that were killed before they could. Anything in doubt stays.
fn sweep(base: &Path) {
    let user = rustix::process::geteuid().as_raw();
    let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().as_bytes().starts_with(PREFIX.as_bytes())) {
        let is_old = entry.metadata().is_ok_and(|meta| {
            let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
            meta.is_dir() && meta.uid() == user && age.is_some_and(|age| age >= MIN_AGE)
        });
        // Held while it is removed, so that two sweepers do not meet.
        if let Some(_lock) = is_old.then(|| lock(&entry.path())).flatten() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns a file without a name.
pub fn nameless() -> Result<File> {
    let base = base_directory();
    tempfile::tempfile_in(&base).with_context(|| format!("cannot create a file in {}", base.display()))
}

/// A spool can be as large as the repository: `/var/tmp` is for that, while `/tmp` is often memory.
fn base_directory() -> PathBuf {
    match std::env::var_os("TMPDIR").filter(|path| Path::new(path).is_absolute()) {
        Some(path) => path.into(),
        None if Path::new("/var/tmp").is_dir() => OsString::from("/var/tmp").into(),
        None => std::env::temp_dir(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_directories_of_dead_processes_are_swept() {
        let base = tempfile::tempdir().expect("tempdir");
        let long_ago = std::time::SystemTime::now() - 2 * MIN_AGE;
        let make = |name: &str, old: bool| {
            let path = base.path().join(name);
            std::fs::create_dir_all(path.join("pack")).expect("mkdir");
            if old {
                File::open(&path)
                    .and_then(|dir| dir.set_modified(long_ago))
                    .expect("set time");
            }
            path
        };
        let dead = make("git-remote-znippy-1-0", true);
        let living = make("git-remote-znippy-2-0", true);
        let young = make("git-remote-znippy-3-0", false);
        let other = make("something-else", true);
        let _lock = lock(&living).expect("locks");
        std::os::unix::fs::symlink(&other, base.path().join("git-remote-znippy-4-0")).expect("symlink");
        sweep(base.path());
        assert!(!dead.exists());
        assert!(living.exists() && young.exists() && other.exists());
    }
}
