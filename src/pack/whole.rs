//! Writes objects, each whole, into a pack on the local disk.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

use gix_hash::{ObjectId, oid};

use super::{
    EntryTable, Kind,
    deflate::Deflater,
    disk::DiskPack,
    header::{EntryKind, PACK_HEADER_LEN, kind_code, pack_header, write_entry_header},
    object::id_of,
};
use crate::error::{Error, Result};

const COPY_CHUNK: usize = 1 << 20;

/// A pack that is being written.
pub struct WholePack<'a> {
    file: File,
    /// What to call it in errors.
    path: &'a Path,
    format: gix_hash::Kind,
    /// Where the next entry goes.
    position: u64,
    entries: Vec<Entry>,
    deflater: Deflater,
}

struct Entry {
    oid: ObjectId,
    kind: u8,
    size: u64,
    offset: u64,
    crc32: u32,
}

impl<'a> WholePack<'a> {
    /// Starts a pack in an empty file, which is called `path` in errors.
    pub fn new(file: File, path: &'a Path, format: gix_hash::Kind) -> WholePack<'a> {
        WholePack {
            file,
            path,
            format,
            position: PACK_HEADER_LEN,
            entries: vec![],
            deflater: Deflater::default(),
        }
    }

    /// Adds an object, unless its content is that of another one: then nothing is added, and the answer is false. Must not be
    /// called twice for an object.
    ///
    /// # Errors
    /// Fails where the file cannot be written.
    pub fn add(&mut self, id: &oid, kind: Kind, data: &[u8]) -> Result<bool> {
        if !id_of(self.format, kind, data).is_ok_and(|found| *found == *id) {
            return Ok(false);
        }
        let mut entry = Vec::new();
        write_entry_header(EntryKind::Base(kind), data.len() as u64, &mut entry);
        self.deflater
            .append(data, &mut entry)
            .map_err(Error::io(self.path, "compress objects for"))?;
        self.file
            .write_all_at(&entry, self.position)
            .map_err(Error::io(self.path, "write"))?;
        self.entries.push(Entry {
            oid: id.to_owned(),
            kind: kind_code(kind),
            size: data.len() as u64,
            offset: self.position,
            crc32: crc32fast::hash(&entry),
        });
        self.position += entry.len() as u64;
        Ok(true)
    }

    /// Returns the number of objects so far.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no object yet.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes header and trailing hash. Kinds and sizes are in the pack's table.
    ///
    /// # Errors
    /// Fails where the file cannot be written or read.
    pub fn finish(mut self) -> Result<DiskPack> {
        let objects =
            u32::try_from(self.len()).map_err(|_| Error::Invalid("a pack cannot hold 2^32 objects".into()))?;
        let id = seal(&self.file, objects, self.position, self.format).map_err(Error::io(self.path, "finish"))?;
        self.entries.sort_unstable_by_key(|entry| entry.oid);
        let entries = &self.entries;
        let table = EntryTable {
            oids: entries.iter().flat_map(|entry| entry.oid.as_slice().to_vec()).collect(),
            oid_len: self.format.len_in_bytes(),
            kinds: entries.iter().map(|entry| entry.kind).collect(),
            sizes: entries.iter().map(|entry| entry.size).collect(),
            offsets: entries.iter().map(|entry| entry.offset).collect(),
            crc32s: entries.iter().map(|entry| entry.crc32).collect(),
        };
        DiskPack::with_file(self.file, self.path, table, id)
    }
}

/// Gives the pack in `file` its header, for `objects` entries of which the last ends at `end`, and the hash that ends it, which
/// is returned.
///
/// # Errors
/// Fails where the file cannot be written or read.
pub(super) fn seal(file: &File, objects: u32, end: u64, format: gix_hash::Kind) -> io::Result<ObjectId> {
    file.write_all_at(&pack_header(objects), 0)?;
    let mut hasher = gix_hash::hasher(format);
    let (mut chunk, mut at) = (vec![0; COPY_CHUNK], 0);
    while at < end {
        let part = &mut chunk[..(COPY_CHUNK as u64).min(end - at) as usize];
        file.read_exact_at(part, at)?;
        hasher.update(part);
        at += part.len() as u64;
    }
    let id = hasher.try_finalize().map_err(io::Error::other)?;
    file.write_all_at(id.as_slice(), end)?;
    Ok(id)
}
