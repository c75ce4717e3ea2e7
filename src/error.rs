//! The library's error type.
//!
//! Rules: every I/O error names its path and what was tried; damage is never reported as I/O; a message says what to do
//! where there is something to do; nothing is printed here.

use std::{io, path::PathBuf};

/// The result of everything in this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on an archive failed. Each message names the path and the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No file at the path (and no parent problem: see [`Error::MissingParent`]).
    #[error("{path}: no such archive (is the disk mounted? a first push creates it, fetch never does)", path = .path.display())]
    NotFound { path: PathBuf },
    /// The parent directory of a new archive does not exist.
    #[error("{path}: the parent directory does not exist (is the disk mounted? create the directory first)", path = .path.display())]
    MissingParent { path: PathBuf },
    /// The path is a directory.
    #[error("{path}: is a directory, not a znippy archive", path = .path.display())]
    IsDirectory { path: PathBuf },
    /// What is at the path is the place of an archive that somebody is about to create, on a disk that has no other way to do that.
    #[error("{path}: {what}; where nobody is creating it any more, remove the file", path = .path.display(), what = describe_creation(.holder))]
    BeingCreated {
        path: PathBuf,
        /// Who is doing that, where the file says so.
        holder: Option<String>,
    },
    /// Creation found a file that is already there.
    #[error("{path}: exists already", path = .path.display())]
    AlreadyExists { path: PathBuf },
    /// The file is something else.
    #[error("{path}: not a znippy archive ({why})", path = .path.display())]
    NotAnArchive { path: PathBuf, why: String },
    /// A format version that this program does not know.
    #[error("{path}: archive format version {version} is not supported (this program reads version 1; a newer znippy may read it)", path = .path.display())]
    UnsupportedVersion { path: PathBuf, version: String },
    /// An object format other than sha1 and sha256.
    #[error("{path}: object format '{format}' is not supported", path = .path.display())]
    UnsupportedObjectFormat { path: PathBuf, format: String },
    /// Client and archive use different object formats.
    #[error("{path}: the archive holds {archive} objects, the repository uses {client}; they cannot be mixed", path = .path.display())]
    ObjectFormatMismatch {
        path: PathBuf,
        archive: gix_hash::Kind,
        client: gix_hash::Kind,
    },
    /// Bytes of the archive are not what was written.
    #[error("{path}: damaged: {what} (`znippy verify` tells what that affects; restore the file from a copy)", path = .path.display())]
    Damaged { path: PathBuf, what: String },
    /// The file ends before what its slot confirms.
    #[error("{path}: truncated: {size} bytes, but {confirmed} were confirmed as written (`znippy verify` tells what is left; restore the file from a copy)", path = .path.display())]
    Truncated { path: PathBuf, size: u64, confirmed: u64 },
    /// Another process holds the writer lock for longer than the caller would wait.
    #[error("{path}: another process is writing to the archive{holder}; gave up after {waited_s} s", path = .path.display())]
    Locked {
        path: PathBuf,
        holder: String,
        waited_s: u64,
    },
    /// The disk cannot lock.
    #[error("{path}: the file system cannot lock files ({source}); it is not safe to write there (git config znippy.lock file: all who write to it use a lock file)", path = .path.display())]
    CannotLock { path: PathBuf, source: io::Error },
    /// A lock on this disk may not keep other machines away.
    #[error("{path}: {why}, so that a lock there may not keep other machines from writing at the same time (git config znippy.lock local: no other machine writes to it; git config znippy.lock file: all of them use a lock file)", path = .path.display())]
    LockNotShared { path: PathBuf, why: String },
    /// Another machine wrote to the archive at the same time.
    #[error("{path}: another machine wrote to the archive at the same time, although it was locked; the commit is not confirmed (see znippy.lock; `git fetch` shows what was stored)", path = .path.display())]
    LockIgnored { path: PathBuf },
    /// The archive was replaced or removed while it was being written.
    #[error("{path}: the archive was replaced or removed meanwhile; nothing was written, try again", path = .path.display())]
    Replaced { path: PathBuf },
    /// A writer cannot know that the file that it has open is the one at the path.
    #[error("{path}: the file system gives the file another inode number each time, so that nobody can tell whether it was replaced; nothing was written (git config znippy.lock file: then that does not matter)", path = .path.display())]
    UnstableIds { path: PathBuf },
    /// The file has other names, or is mounted where it is, and a gc would leave these with the old generation.
    #[error("{path}: {what}, so that a new file in its place would leave the old one in use (`znippy gc --break-links` does it all the same)", path = .path.display(), what = describe_links(*.links, *.is_mounted))]
    HasLinks {
        path: PathBuf,
        links: u64,
        is_mounted: bool,
    },
    /// The disk does not let a new file take the place of the archive.
    #[error("{path}: the disk does not let a new file take its place ({source}); the archive is as it was (try again when nobody has it open)", path = .path.display())]
    NotReplaced { path: PathBuf, source: io::Error },
    /// What a pack builds on is gone, because the archive was rewritten or replaced after it was read.
    #[error("{path}: the archive was rewritten or replaced meanwhile and no longer shows object {oid}, which the pack builds on; nothing was written, push again", path = .path.display())]
    Rewritten { path: PathBuf, oid: gix_hash::ObjectId },
    /// The file is the old generation of an archive, by another of its names.
    #[error("{path}: was replaced by generation {generation} of the archive (gc) under another name, and may only be read (a copy of it would be an archive of its own)", path = .path.display())]
    Superseded { path: PathBuf, generation: u64 },
    /// R26: the open file is gone on the server of a network disk: another machine replaced it.
    #[error("{path}: the archive was replaced by another machine (gc) while it was open; try again", path = .path.display())]
    Stale { path: PathBuf },
    /// A write was acknowledged by nothing: after a failed sync the tail could not be taken back.
    #[error("{path}: the disk failed to store the data ({source}) and whether it is durable is unknown; the refs were not updated as far as anyone was told", path = .path.display())]
    DurabilityUnknown { path: PathBuf, source: io::Error },
    /// A pushed pack cannot be kept on the local disk until it is proven.
    #[error("{directory}: cannot keep the pushed pack there until it is proven: {source}; nothing was stored (make room there, or have TMPDIR name another directory for the server)", directory = .directory.display())]
    Spool { directory: PathBuf, source: io::Error },
    /// An object that must be there is not.
    #[error("{path}: object {oid} is missing{why}", path = .path.display())]
    MissingObject {
        path: PathBuf,
        oid: gix_hash::ObjectId,
        why: String,
    },
    /// A pack that was given to be stored, or that was read, is not a valid pack.
    #[error("invalid pack {name}: {why}")]
    InvalidPack { name: String, why: String },
    /// A pack that was given to be stored refers to an object that is neither in it nor in the archive.
    #[error(
        "invalid pack {name}: {kind} {oid}, which {from} refers to, is missing (is the repository shallow, grafted or damaged?)"
    )]
    Incomplete {
        name: String,
        kind: gix_object::Kind,
        oid: gix_hash::ObjectId,
        from: gix_hash::ObjectId,
    },
    /// A git object cannot be parsed.
    #[error("object {oid} is malformed: {why}")]
    MalformedObject { oid: gix_hash::ObjectId, why: String },
    /// A request that the caller got wrong.
    #[error("{0}")]
    Invalid(String),
    /// A system call failed.
    #[error("{path}: cannot {action}: {source}", path = .path.display())]
    Io {
        path: PathBuf,
        action: &'static str,
        source: io::Error,
    },
}

fn describe_creation(holder: &Option<String>) -> String {
    match holder {
        Some(holder) => format!("is being created by {holder}"),
        None => "is empty, as a file is for a moment in which an archive is created".into(),
    }
}

fn describe_links(links: u64, is_mounted: bool) -> String {
    if is_mounted {
        "another file or file system is mounted there".into()
    } else {
        format!("has {links} names (hard links)")
    }
}

impl Error {
    /// Returns a function that wraps an I/O error with the path and what was tried: `.map_err(Error::io(path, "read"))`.
    pub fn io(path: impl Into<PathBuf>, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| match source.raw_os_error() {
            Some(libc::ESTALE) => Error::Stale { path },
            _ => Error::Io { path, action, source },
        }
    }
}

/// Returns an error and its causes as one line. A cause that a message before it tells already is not told again.
pub fn one_line(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cause_is_told_twice() {
        let full = std::io::Error::from_raw_os_error(28);
        let error = Error::io("/a", "write to")(full);
        let text = one_line(&error);
        assert_eq!(text.matches("No space left").count(), 1, "{text}");
        assert!(text.starts_with("/a: cannot write to"), "{text}");
    }
}
