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

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use gix_hash::ObjectId;

use super::{NewPack, prepare::Prepared};
use crate::{
    error::{Error, Result},
    media::{Medium, read_vec},
};

/// Commits up to this size are written with one call.
const SINGLE_WRITE: u64 = 4 << 20;
const COPY_CHUNK: usize = 1 << 20;

/// Where the bytes of a pack come from.
pub enum PackSource {
    /// A finished pack on the local disk; checked against the hash that it is named after while it is copied.
    File {
        file: File,
        path: PathBuf,
        len: u64,
        id: ObjectId,
    },
    /// A place in the archive itself that was checked already.
    Archive { at: u64, len: u64 },
}

impl PackSource {
    /// Takes the file of a new pack.
    pub fn new(pack: &NewPack) -> Result<PackSource> {
        let file = pack.file.try_clone().map_err(Error::io(&pack.path, "read"))?;
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
            PackSource::File { len, .. } | PackSource::Archive { len, .. } => *len,
        }
    }

    /// Hands the bytes to `sink` in chunks.
    fn copy(&self, medium: &dyn Medium, archive: &Path, mut sink: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            PackSource::File { file, path, len, id } => copy_pack(file, path, *len, id, sink),
            PackSource::Archive { at, len } => {
                let mut done = 0;
                while done < *len {
                    let part = (len - done).min(COPY_CHUNK as u64);
                    sink(&read_vec(medium, at + done, part as usize).map_err(Error::io(archive, "read"))?)?;
                    done += part;
                }
                Ok(())
            }
        }
    }
}

/// Writes a prepared commit, pack bytes included. Nothing is synced, no slot is touched.
///
/// # Errors
/// Fails where the medium does, or where a pack's bytes do not have the hash that it is named after.
pub fn write(
    medium: &dyn Medium,
    path: &Path,
    prepared: &mut Prepared,
    mut on_copy: impl FnMut(u64, u64),
) -> Result<()> {
    let Prepared { commit, packs } = prepared;
    let put = |at: u64, bytes: &[u8]| medium.write_all_at(at, bytes).map_err(write_error(path));
    let total = commit.pack_end - commit.pack_at;
    let single = commit.end() - commit.at <= SINGLE_WRITE;
    let mut pending = std::mem::take(&mut commit.metadata);
    let mut at = commit.at;
    for chunk in &commit.columns {
        // Small buffers travel together; large ones are not copied for it.
        if !single && pending.len() + chunk.len() > COPY_CHUNK {
            put(at, &pending)?;
            at += pending.len() as u64;
            pending.clear();
        }
        if !single && chunk.len() > COPY_CHUNK {
            put(at, chunk)?;
            at += chunk.len() as u64;
        } else {
            pending.extend_from_slice(chunk);
        }
    }
    let mut done = 0;
    for pack in packs.iter() {
        pack.copy(medium, path, |bytes| {
            if single {
                pending.extend_from_slice(bytes);
            } else {
                if !pending.is_empty() {
                    put(at, &pending)?;
                    at += pending.len() as u64;
                    pending.clear();
                }
                put(at, bytes)?;
                at += bytes.len() as u64;
            }
            done += bytes.len() as u64;
            on_copy(done, total);
            Ok(())
        })?;
    }
    pending.resize(pending.len() + (commit.footer_at - commit.pack_end) as usize, 0);
    pending.extend_from_slice(&commit.footer_bytes);
    put(at, &pending)
}

/// Hands the bytes of a pack to `sink` and checks them against the hash that the pack is named after.
fn copy_pack(
    mut file: &File,
    path: &Path,
    len: u64,
    id: &ObjectId,
    mut sink: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let invalid = |why: &str| Error::InvalidPack {
        name: path.display().to_string(),
        why: why.into(),
    };
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

/// Wraps a failed write.
pub fn write_error(path: &Path) -> impl FnOnce(io::Error) -> Error {
    Error::io(path, "write to the archive")
}
