//! How an entry goes into the new pack: as it is, with a new header, or built anew.

use std::{collections::HashMap, sync::Arc};

use gix_hash::oid;
use gix_zlib::{
    Compression, Status,
    stream::deflate::{Compress, FlushCompress},
};

use super::{Written, order::Order};
use crate::{
    error::{Error, Result},
    pack::{
        EntryTable, PackRank,
        finder::pack_objects,
        header::{self, EntryHeader, EntryKind},
        idx::rows_by_offset,
        object::ObjectReader,
    },
};

/// A pack's table is read to find a base's id only if it has at most so many entries for each one that is sent.
const TABLE_RATIO: u64 = 64;

/// A pack's entries and their rows by offset.
type Table = (Arc<EntryTable>, Vec<u32>);

pub(super) struct Encoder<'a, 's> {
    reader: &'a ObjectReader<'s>,
    order: &'a Order<'a>,
    compress: Option<Compress>,
    entry: Vec<u8>,
    rebuilt: u64,
    /// Tables of packs in which a base was sought by id; none where it would cost too much.
    tables: HashMap<PackRank, Option<Table>>,
}

impl<'a, 's> Encoder<'a, 's> {
    pub fn new(reader: &'a ObjectReader<'s>, order: &'a Order<'a>) -> Self {
        Encoder {
            reader,
            order,
            compress: None,
            entry: Vec::new(),
            rebuilt: 0,
            tables: HashMap::new(),
        }
    }

    /// Returns the number of entries that were built anew.
    pub fn rebuilt(&self) -> u64 {
        self.rebuilt
    }

    /// Returns whether entry `index`, of which `bytes` is at least the header, is right as it is at `position` of the new
    /// pack. What was copied without gap or change so far starts at `run_start` of its pack.
    pub fn goes_unchanged(
        &mut self,
        index: usize,
        bytes: &[u8],
        run_start: u64,
        position: u64,
        written: &Written,
    ) -> Result<bool> {
        let entry = self.header(index, bytes)?;
        match entry.kind {
            EntryKind::Base(_) => Ok(true),
            EntryKind::RefDelta(_) => Ok(false),
            EntryKind::OfsDelta(distance) => {
                let base =
                    header::base_offset(self.order.start(index), distance).map_err(|why| self.invalid(index, why))?;
                if base >= run_start {
                    return Ok(true);
                }
                let sent = self.order.find(self.order.pack(index), base);
                Ok(sent.is_some_and(|base| position - written.offsets[base] == distance))
            }
        }
    }

    /// Encodes entry `index` for `position` of the new pack. Returns a header and the rest of `bytes` that follows it, or a
    /// whole entry and nothing.
    pub fn encode<'b>(
        &'b mut self,
        index: usize,
        bytes: &'b [u8],
        position: u64,
        written: &Written,
    ) -> Result<(&'b [u8], &'b [u8])> {
        let entry = self.header(index, bytes)?;
        self.entry.clear();
        if let Some(base) = self.base_sent(index, &entry)? {
            let kind = EntryKind::OfsDelta(position - written.offsets[base]);
            header::write_entry_header(kind, entry.size, &mut self.entry);
            return Ok((&self.entry, &bytes[entry.len..]));
        }
        self.rebuild(index)?;
        Ok((&self.entry, &[]))
    }

    /// Returns the index of the base of entry `index`, if it is sent before.
    fn base_sent(&mut self, index: usize, entry: &EntryHeader) -> Result<Option<usize>> {
        let pack = self.order.pack(index);
        let base = match entry.kind {
            EntryKind::Base(_) => return Ok(None),
            EntryKind::RefDelta(id) => match self.reader.find(&id)? {
                Some(at) => self.order.find(at.pack, at.offset),
                None => return Err(self.invalid(index, &format!("its delta base {id} is missing"))),
            },
            EntryKind::OfsDelta(distance) => {
                let offset =
                    header::base_offset(self.order.start(index), distance).map_err(|why| self.invalid(index, why))?;
                match self.order.find(pack, offset) {
                    Some(base) => Some(base),
                    None => self.other_copy_sent(pack, offset)?,
                }
            }
        };
        // Packs are sent in their order, and the copy of a base that counts is in a pack of lower rank or earlier in this
        // one; anything else comes from an index that lies, and could go in a circle.
        Ok(base.filter(|base| *base < index))
    }

    /// Returns the index of another copy of the object at `offset` of `pack`, if that is what is sent of it.
    fn other_copy_sent(&mut self, pack: PackRank, offset: u64) -> Result<Option<usize>> {
        let store = self.reader.store();
        if pack == 0 {
            return Ok(None);
        }
        if !self.tables.contains_key(&pack) {
            let sent = self.order.count_of(pack);
            let table = if u64::from(pack_objects(store, pack)?) <= 1024 + sent as u64 * TABLE_RATIO {
                let table = store.entries(pack)?;
                let rows = rows_by_offset(&table.offsets);
                Some((table, rows))
            } else {
                None
            };
            self.tables.insert(pack, table);
        }
        let Some((table, rows)) = &self.tables[&pack] else {
            return Ok(None);
        };
        let Ok(at) = rows.binary_search_by_key(&offset, |row| table.offsets[*row as usize]) else {
            return Ok(None);
        };
        match self.reader.find(table.oid(rows[at] as usize))? {
            Some(copy) => Ok(self.order.find(copy.pack, copy.offset)),
            None => Ok(None),
        }
    }

    /// Makes a whole entry of the object, with the fastest compression.
    fn rebuild(&mut self, index: usize) -> Result<()> {
        self.rebuilt += 1;
        let object = self.reader.read_at(self.order.location(index))?;
        self.check_id(index, &object.kind.to_string(), &object.data)?;
        header::write_entry_header(EntryKind::Base(object.kind), object.data.len() as u64, &mut self.entry);
        let compress = self
            .compress
            .get_or_insert_with(|| Compress::new(Compression::BEST_SPEED));
        compress.reset();
        let mut filled = self.entry.len();
        // What hardly compresses grows by a few bytes a block.
        self.entry
            .resize(filled + object.data.len() + object.data.len() / 1000 + 64, 0);
        loop {
            let (read, before) = (compress.total_in() as usize, compress.total_out());
            let status = compress.compress(&object.data[read..], &mut self.entry[filled..], FlushCompress::Finish);
            filled += (compress.total_out() - before) as usize;
            match status {
                Ok(Status::StreamEnd) => break,
                Ok(_) => self.entry.resize(self.entry.len() + self.entry.len() / 4 + 4096, 0),
                Err(err) => return Err(self.invalid(index, &format!("it cannot be compressed: {err}"))),
            }
        }
        self.entry.truncate(filled);
        Ok(())
    }

    /// Checks that what was rebuilt is what its id says: it passed no checksum of its own.
    fn check_id(&self, index: usize, kind: &str, data: &[u8]) -> Result<()> {
        let mut hasher = gix_hash::hasher(self.reader.store().object_format());
        hasher.update(format!("{kind} {}\0", data.len()).as_bytes());
        hasher.update(data);
        let id: &oid = self.order.oid(index);
        match hasher.try_finalize() {
            Ok(found) if *found == *id => Ok(()),
            Ok(found) => Err(self.invalid(index, &format!("its content is that of object {found}"))),
            Err(err) => Err(self.invalid(index, &err.to_string())),
        }
    }

    fn header(&self, index: usize, bytes: &[u8]) -> Result<EntryHeader> {
        header::parse_entry_header(bytes, self.reader.store().object_format()).map_err(|why| self.invalid(index, why))
    }

    fn invalid(&self, index: usize, why: &str) -> Error {
        let (id, offset) = (self.order.oid(index), self.order.start(index));
        Error::InvalidPack {
            name: self.reader.store().pack_name(self.order.pack(index)),
            why: format!("object {id}: the entry at offset {offset} cannot be sent: {why}"),
        }
    }
}
