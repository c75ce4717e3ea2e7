//! The file behind an archive: opening it, and reading its head, with an error of its own for each way in which that fails.

use std::{io, path::Path, sync::Arc};

use crate::{
    error::{Error, Result},
    format::{
        CommitId, HEAD_LEN,
        batch::ReadError,
        head::{Head, HeadError},
        recover::{Check, Scrutiny, check_commit},
        slot::Slot,
    },
    media::{Disk, DiskFile, FileKind, Holder, Medium, Stat},
};

/// How often the head is read again when a slot is not valid: a writer may be at work on the page.
const SLOT_RETRIES: usize = 3;

/// Opens a file, with an error of its own for each way in which that fails. Returns what the disk says of it too.
pub(crate) fn open_file(disk: &dyn Disk, path: &Path, write: bool) -> Result<(Arc<dyn DiskFile>, Stat)> {
    let file = match disk.open(path, write) {
        Ok(file) => file,
        Err(error) => {
            let is_directory = || disk.stat(path).is_ok_and(|stat| stat.kind == FileKind::Directory);
            return Err(match error.kind() {
                io::ErrorKind::NotFound => Error::NotFound { path: path.into() },
                io::ErrorKind::IsADirectory => Error::IsDirectory { path: path.into() },
                _ if is_directory() => Error::IsDirectory { path: path.into() },
                _ => Error::io(path, if write { "open for writing" } else { "open" })(error),
            });
        }
    };
    let stat = file.stat().map_err(Error::io(path, "stat"))?;
    match stat.kind {
        FileKind::File => Ok((file, stat)),
        FileKind::Directory => Err(Error::IsDirectory { path: path.into() }),
        FileKind::Other => Err(Error::NotAnArchive {
            path: path.into(),
            why: "not a regular file".into(),
        }),
    }
}

/// Returns whether `path` still names the open file. Where the path cannot be read, the open file is as good as any.
pub(crate) fn is_same_file(disk: &dyn Disk, open: &Stat, path: &Path) -> bool {
    disk.stat(path).map_or(true, |named| named.id == open.id)
}

/// Refuses to go on with an open file, whose `stat` does not say what its path says, where it does not say the same twice either.
pub(crate) fn refuse_unstable(file: &dyn DiskFile, stat: &Stat, path: &Path) -> Result<()> {
    match file.stat() {
        Ok(again) if again.id != stat.id => Err(Error::UnstableIds { path: path.into() }),
        _ => Ok(()),
    }
}

/// Reads the head of a file of `len` bytes.
pub(crate) fn read_head(medium: &dyn Medium, path: &Path, len: u64) -> Result<Head> {
    Ok(read_head_bytes(medium, path, len)?.1)
}

/// Reads the head of a file of `len` bytes, and returns its bytes too.
pub(crate) fn read_head_bytes(medium: &dyn Medium, path: &Path, len: u64) -> Result<(Vec<u8>, Head)> {
    let not_an_archive = |why: &str| Error::NotAnArchive {
        path: path.into(),
        why: why.into(),
    };
    if let Some(creator) = creator(medium, len).map_err(Error::io(path, "read"))? {
        return Err(Error::BeingCreated {
            path: path.into(),
            holder: creator.map(|holder| holder.to_string()),
        });
    }
    let mut attempt = 0;
    loop {
        let bytes = crate::media::read_vec(medium, 0, HEAD_LEN.min(len) as usize).map_err(Error::io(path, "read"))?;
        let decoded = match Head::decode(&bytes) {
            Err(HeadError::NotArrow | HeadError::NotZnippy)
                if attempt == SLOT_RETRIES && starts_with_commit(medium, path, len)? =>
            {
                Ok(Head::default())
            }
            Err(HeadError::NotArrow | HeadError::NotZnippy) if attempt < SLOT_RETRIES && len > HEAD_LEN => {
                attempt += 1;
                continue;
            }
            decoded => decoded,
        };
        let head = decoded.map_err(|error| match error {
            HeadError::NotArrow => not_an_archive("it does not start as one"),
            HeadError::NotZnippy if len < HEAD_LEN => not_an_archive("it ends within the head"),
            HeadError::NotZnippy => not_an_archive("an Arrow file, but not written by znippy"),
            HeadError::Version(version) => Error::UnsupportedVersion {
                path: path.into(),
                version,
            },
            HeadError::ObjectFormat(format) => Error::UnsupportedObjectFormat {
                path: path.into(),
                format,
            },
        })?;
        attempt += 1;
        if head.has_all_slots() || attempt > SLOT_RETRIES {
            return Ok((bytes, head));
        }
    }
}

/// R14: returns who is about to create the archive, where a file of `len` bytes only takes its place. Of an empty one that is not
/// known.
pub(crate) fn creator(medium: &dyn Medium, len: u64) -> io::Result<Option<Option<Holder>>> {
    Ok(match len {
        0 => Some(None),
        1..HEAD_LEN => Holder::decode(&crate::media::read_vec(medium, 0, len as usize)?).map(Some),
        _ => None,
    })
}

/// Returns whether a whole commit lies where the first one must: an archive then, whatever became of its head.
fn starts_with_commit(medium: &dyn Medium, path: &Path, len: u64) -> Result<bool> {
    let first = check_commit(medium, None, (CommitId::NONE, 0), HEAD_LEN, len, Scrutiny::Outline);
    Ok(matches!(first.map_err(Error::io(path, "read"))?, Check::Whole(_)))
}

/// Says why nothing of a file can be shown: cut short, or damaged.
pub(crate) fn describe_loss(path: &Path, head: &Head, size: u64, error: ReadError) -> Error {
    match (head.newest_slot(), &error) {
        (
            Some(Slot {
                footer_end: confirmed, ..
            }),
            ReadError::Damaged(_),
        ) if size < confirmed => Error::Truncated {
            path: path.into(),
            size,
            confirmed,
        },
        _ => read_error(path, error),
    }
}

/// Adds the path to a read error.
pub(crate) fn read_error(path: &Path, error: ReadError) -> Error {
    match error {
        ReadError::Io(source) => Error::io(path, "read")(source),
        ReadError::Damaged(what) => Error::Damaged {
            path: path.into(),
            what,
        },
    }
}
