//! Appending one commit: rows and packs become bytes behind the last commit, then a sync, then the slot.
//!
//! What a crash leaves behind, and who repairs it:
//!
//! | after | on disk | repaired by |
//! |---|---|---|
//! | any part of metadata, columns, pack or footer | a tail that is cut short or has sectors of zeros | readers ignore it; the next writer cuts it off |
//! | all of them, before the sync returned | any mixture of written and unwritten sectors | as above; if all bytes happen to be there, the commit counts, and the next writer writes and syncs them again |
//! | the sync | the commit; the slot names the one before | readers accept the tail; the next writer confirms it |
//! | part of the slot | the commit; one slot unreadable | as above, by the other slot |
//! | the slot | the commit | nobody |
//!
//! On a disk that other machines may write to, nothing is cut off and no place is used twice: see `settle`.

use std::{
    fs::File,
    io::{self, IoSlice, Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use gix_hash::ObjectId;

use super::{
    CheckedPack, NewPack, PackData, Snapshot,
    durability::{Arm, Unlanded},
    prepare::Prepared,
};
use crate::{
    error::{Error, Result},
    format::ALIGN,
    media::{DiskFile, Medium, read_vec},
    pack::{PackRank, emit::copy_verbatim},
};

/// Pack files up to this size are read whole, so that their commit is written with one call.
const SINGLE_WRITE: u64 = 4 << 20;
const COPY_CHUNK: usize = 1 << 20;
/// Buffers up to this size are put together before they are written.
const SMALL: usize = 16 << 10;

/// Where the bytes of a pack come from.
pub enum PackSource {
    /// A finished pack on the local disk; checked against the hash that it is named after while it is copied.
    File {
        file: File,
        path: PathBuf,
        len: u64,
        id: ObjectId,
    },
    /// Bytes that were checked already.
    Memory(Arc<CheckedPack>),
    /// A place in the archive itself that was checked already.
    Archive { at: u64, len: u64 },
    /// A pack of an earlier generation; checked against its hash while it is copied.
    Earlier {
        snapshot: Snapshot,
        rank: PackRank,
        len: u64,
    },
}

impl PackSource {
    /// Takes the bytes of a new pack.
    pub fn new(pack: &NewPack) -> Result<PackSource> {
        let file = match &pack.data {
            PackData::Checked(checked) if checked.id() == pack.id => return Ok(PackSource::Memory(checked.clone())),
            PackData::Checked(_) => {
                return Err(invalid(
                    &pack.path,
                    "it does not end with the hash that it is named after",
                ));
            }
            PackData::File(file) => file.try_clone().map_err(Error::io(&pack.path, "read"))?,
        };
        let len = file.metadata().map_err(Error::io(&pack.path, "stat"))?.len();
        Ok(PackSource::File {
            file,
            path: pack.path.clone(),
            len,
            id: pack.id,
        })
    }

    /// Returns the bytes of the pack.
    pub fn len(&self) -> u64 {
        match self {
            PackSource::File { len, .. } | PackSource::Archive { len, .. } | PackSource::Earlier { len, .. } => *len,
            PackSource::Memory(pack) => pack.bytes().len() as u64,
        }
    }

    /// Hands the bytes to `sink` in chunks.
    fn copy(&self, medium: &dyn Medium, archive: &Path, mut sink: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            PackSource::File { file, path, len, id } => copy_pack(file, path, *len, id, sink),
            PackSource::Memory(pack) => sink(pack.bytes()),
            PackSource::Archive { at, len } => {
                let mut done = 0;
                while done < *len {
                    let part = (len - done).min(COPY_CHUNK as u64);
                    sink(&read_vec(medium, at + done, part as usize).map_err(Error::io(archive, "read"))?)?;
                    done += part;
                }
                Ok(())
            }
            PackSource::Earlier { snapshot, rank, .. } => {
                let mut sink = Chunks(sink, None);
                let copied = copy_verbatim(snapshot, *rank, &mut sink, &mut |_, _| ());
                // What the sink said is nearer to the cause than that it failed.
                sink.1.map_or(copied, Err)
            }
        }
    }
}

/// Hands what is written on, and keeps the first error.
struct Chunks<F>(F, Option<Error>);

impl<F: FnMut(&[u8]) -> Result<()>> io::Write for Chunks<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (self.0)(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                self.1 = Some(error);
                Err(io::ErrorKind::Other.into())
            }
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why a commit was not appended.
#[derive(Debug)]
pub enum Failure {
    /// Before its end was written, or while it was: what is left of it is no commit.
    Incomplete(Error),
    /// The file is not the archive any more.
    NotOurs(Error),
    /// A sync failed: nothing is known of what was written.
    Unsynced(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Incomplete(error)
    }
}

impl Failure {
    /// Returns what the disk said, where it was the disk.
    pub fn source(&self) -> Option<&io::Error> {
        match self {
            Failure::Incomplete(Error::Io { source, .. })
            | Failure::NotOurs(Error::Io { source, .. })
            | Failure::Unsynced(source) => Some(source),
            Failure::Incomplete(_) | Failure::NotOurs(_) => None,
        }
    }

    /// Returns the error to tell where nothing needs to be taken back.
    pub fn into_error(self, path: &Path) -> Error {
        match self {
            Failure::Incomplete(error) | Failure::NotOurs(error) => error,
            Failure::Unsynced(source) => Error::io(path, "sync")(source),
        }
    }
}

/// Writes a prepared commit, pack bytes included, and lands it by way of `arm`. No slot is touched.
///
/// # Errors
/// [`Failure`] says how far it got.
pub fn write(
    file: &dyn DiskFile,
    path: &Path,
    prepared: &Prepared,
    arm: &mut dyn Arm,
    still_ours: &dyn Fn() -> Result<()>,
    mut on_copy: impl FnMut(u64, u64),
) -> Result<(), Failure> {
    let Prepared { commit, packs } = prepared;
    let total = commit.pack_end - commit.pack_at;
    let mut feed = Feed {
        file,
        path,
        at: commit.at,
        pieces: vec![],
        len: 0,
        room: (commit.end() - commit.at).min(2 * SMALL as u64) as usize,
        single: total <= SINGLE_WRITE,
    };
    feed.copy(&commit.metadata);
    for chunk in &commit.columns {
        match chunk.len() {
            ..=SMALL => feed.copy(chunk),
            _ => feed.borrow(chunk),
        }
    }
    let mut done = 0;
    for pack in packs {
        match pack {
            PackSource::Memory(pack) if pack.bytes().len() > SMALL => feed.borrow(pack.bytes()),
            pack => pack.copy(file, path, |bytes| {
                feed.copy(bytes);
                done += bytes.len() as u64;
                on_copy(done, total);
                feed.make_room()
            })?,
        }
        if let PackSource::Memory(pack) = pack {
            done += pack.bytes().len() as u64;
            on_copy(done, total);
        }
    }
    feed.copy(&[0; ALIGN as usize][..(commit.footer_at - commit.pack_end) as usize]);
    feed.copy(&commit.footer_bytes);
    let landed = arm.land(file, feed.at, &feed.slices(), still_ours);
    landed.map_err(|unlanded| match unlanded {
        Unlanded::Write(source) => Failure::Incomplete(write_error(path)(source)),
        Unlanded::NotOurs(error) => Failure::NotOurs(error),
        Unlanded::Sync(source) => Failure::Unsynced(source),
    })
}

/// What is to be written next, in as few pieces as can be had without copying what is large.
struct Feed<'a> {
    file: &'a dyn DiskFile,
    path: &'a Path,
    /// Where the first piece goes.
    at: u64,
    pieces: Vec<Piece<'a>>,
    /// Bytes of all pieces.
    len: usize,
    /// Bytes that are likely put together.
    room: usize,
    /// Keep everything for one write.
    single: bool,
}

enum Piece<'a> {
    Own(Vec<u8>),
    Borrowed(&'a [u8]),
}

impl<'a> Feed<'a> {
    /// Adds a copy of some bytes.
    fn copy(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        match self.pieces.last_mut() {
            Some(Piece::Own(own)) => own.extend_from_slice(bytes),
            _ => {
                let mut own = Vec::with_capacity(self.room.max(bytes.len()));
                own.extend_from_slice(bytes);
                self.pieces.push(Piece::Own(own));
            }
        }
    }

    /// Adds bytes that stay where they are.
    fn borrow(&mut self, bytes: &'a [u8]) {
        self.len += bytes.len();
        self.pieces.push(Piece::Borrowed(bytes));
    }

    /// Writes what there is, unless the whole commit goes with one write.
    fn make_room(&mut self) -> Result<()> {
        if self.single || self.len < COPY_CHUNK {
            return Ok(());
        }
        let written = self.file.write_slices_at(self.at, &self.slices());
        written.map_err(write_error(self.path))?;
        self.at += self.len as u64;
        self.len = 0;
        // The buffer is used again.
        let spare = self.pieces.pop().and_then(|piece| match piece {
            Piece::Own(mut own) => {
                own.clear();
                Some(Piece::Own(own))
            }
            Piece::Borrowed(_) => None,
        });
        self.pieces.clear();
        self.pieces.extend(spare);
        Ok(())
    }

    fn slices(&self) -> Vec<IoSlice<'_>> {
        self.pieces
            .iter()
            .map(|piece| match piece {
                Piece::Own(own) => IoSlice::new(own),
                Piece::Borrowed(bytes) => IoSlice::new(bytes),
            })
            .collect()
    }
}

/// Hands the bytes of a pack to `sink` and checks them against the hash that the pack is named after.
fn copy_pack(
    mut file: &File,
    path: &Path,
    len: u64,
    id: &ObjectId,
    mut sink: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let invalid = |why: &str| invalid(path, why);
    let mut trailer = vec![0; id.kind().len_in_bytes()];
    let body = len
        .checked_sub(trailer.len() as u64)
        .ok_or_else(|| invalid("too short"))?;
    file.read_exact_at(&mut trailer, body)
        .map_err(Error::io(path, "read"))?;
    if trailer != id.as_slice() {
        return Err(invalid("its trailing hash is not the one it is named after"));
    }
    file.seek(SeekFrom::Start(0)).map_err(Error::io(path, "read"))?;
    let mut hasher = gix_hash::hasher(id.kind());
    let mut buf = vec![0; COPY_CHUNK.min(len as usize)];
    let mut done = 0u64;
    while done < len {
        let part = (len - done).min(buf.len() as u64) as usize;
        let part = &mut buf[..part];
        file.read_exact(part).map_err(Error::io(path, "read"))?;
        let hashed = body.saturating_sub(done).min(part.len() as u64) as usize;
        hasher.update(&part[..hashed]);
        done += part.len() as u64;
        sink(part)?;
    }
    match hasher.try_finalize() {
        Ok(actual) if actual == *id => Ok(()),
        _ => Err(invalid("its bytes do not have the hash that it ends with")),
    }
}

fn invalid(path: &Path, why: &str) -> Error {
    Error::InvalidPack {
        name: path.display().to_string(),
        why: why.into(),
    }
}

/// Wraps a failed write.
pub fn write_error(path: &Path) -> impl FnOnce(io::Error) -> Error {
    Error::io(path, "write to the archive")
}
