//! How an entry goes into the new pack: as it is, with a new header, or built anew.

use std::{collections::HashMap, sync::Arc};

use super::{Naming, Written, order::Order, relatives::Relatives};
use crate::{
    error::{Error, Result},
    pack::{
        EntryTable, Location, PackRank,
        deflate::Deflater,
        delta,
        finder::pack_objects,
        header::{self, EntryHeader, EntryKind},
        idx::rows_by_offset,
        object::{Object, ObjectReader, check_id},
    },
};
use gix_hash::ObjectId;

/// A pack's table is read to find a base's id only if it has at most so many entries for each one that is sent.
const TABLE_RATIO: u64 = 64;

/// Objects of so many bytes are made from others: smaller ones gain nothing, larger ones cost memory.
const DELTA_SIZES: std::ops::Range<usize> = 50..(32 << 20);
/// The longest chain of deltas that is made, as in git.
const MAX_DEPTH: u32 = 50;

/// A pack's entries and their rows by offset.
type Table = (Arc<EntryTable>, Vec<u32>);

pub(super) struct Encoder<'a, 's> {
    reader: &'a ObjectReader<'s>,
    order: &'a Order<'a>,
    naming: Naming,
    deflater: Deflater,
    entry: Vec<u8>,
    rebuilt: u64,
    healed: Vec<ObjectId>,
    relatives: Relatives<'a, 's>,
    /// Tables of packs in which a base was sought by id; none where it would cost too much.
    tables: HashMap<PackRank, Option<Table>>,
}

impl<'a, 's> Encoder<'a, 's> {
    pub fn new(reader: &'a ObjectReader<'s>, order: &'a Order<'a>, naming: Naming) -> Self {
        Encoder {
            reader,
            order,
            naming,
            deflater: Deflater::default(),
            entry: Vec::new(),
            rebuilt: 0,
            healed: Vec::new(),
            relatives: Relatives::new(reader, order),
            tables: HashMap::new(),
        }
    }

    /// Returns the number of entries that were built anew, and the objects whose entry is damaged.
    pub fn finish(self) -> (u64, Vec<ObjectId>) {
        (self.rebuilt, self.healed)
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
            EntryKind::OfsDelta(_) if self.naming == Naming::Id => Ok(false),
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
        if let Some(base) = self.base_sent(index, &entry)? {
            let kind = match self.naming {
                Naming::Offset => EntryKind::OfsDelta(position - written.offsets[base]),
                Naming::Id => EntryKind::RefDelta(self.order.oid(base).to_owned()),
            };
            self.entry.clear();
            header::write_entry_header(kind, entry.size, &mut self.entry);
            return Ok((&self.entry, &bytes[entry.len..]));
        }
        Ok((self.rebuild(index, position, written)?, &[]))
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
            // A damaged header costs no more than the table may cost.
            let is_small = pack_objects(store, pack)
                .map_or(true, |objects| u64::from(objects) <= 1024 + sent as u64 * TABLE_RATIO);
            let table = if is_small {
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

    /// Builds entry `index` anew for `position` of the new pack: as a delta of a relative where that is short, else whole.
    pub fn rebuild(&mut self, index: usize, position: u64, written: &Written) -> Result<&[u8]> {
        self.rebuilt += 1;
        self.entry.clear();
        let at = self.order.location(index);
        let object = self.object(index)?;
        // How a damaged entry was stored does not matter any more.
        let bases = self.reader.bases_of(at).unwrap_or_default();
        let len = object.data.len();
        let mut made = None;
        if self.naming == Naming::Offset
            && DELTA_SIZES.contains(&len)
            && let Some(base) = self.relatives.nearest(index, &bases, written)?
            && base.depth < MAX_DEPTH
            && DELTA_SIZES.contains(&base.data.len())
        {
            made = delta::encode(&base.data, &object.data, len / 2).map(|delta| (delta, base.offset, base.depth + 1));
        }
        let depth = match &made {
            Some((delta, base, depth)) => {
                let kind = EntryKind::OfsDelta(position - base);
                header::write_entry_header(kind, delta.len() as u64, &mut self.entry);
                self.deflate(index, delta)?;
                *depth
            }
            None => {
                header::write_entry_header(EntryKind::Base(object.kind), len as u64, &mut self.entry);
                self.deflate(index, &object.data)?;
                0
            }
        };
        self.relatives
            .note((at.pack, at.offset), &bases, &object, position, depth);
        Ok(&self.entry)
    }

    /// Reads object `index` and checks that it is what its id says; where its entry is damaged, another copy of it is taken.
    fn object(&mut self, index: usize) -> Result<Object> {
        let (store, id, at) = (self.reader.store(), self.order.oid(index), self.order.location(index));
        let checked = |at: Location| {
            let object = self.reader.read_at(at)?;
            check_id(store, id, &object).map(|()| object)
        };
        let damage = match checked(at) {
            Ok(object) => return Ok(object),
            Err(damage) => damage,
        };
        for pack in 0..store.packs() {
            // A table that cannot be read has no copy to offer.
            let Ok(table) = store.entries(pack) else { continue };
            let Some(row) = table.find(id) else { continue };
            let copy = Location {
                pack,
                offset: table.offsets[row],
                crc32: table.crc32s[row],
            };
            if (copy.pack, copy.offset) != (at.pack, at.offset)
                && let Ok(object) = checked(copy)
            {
                self.healed.push(id.to_owned());
                return Ok(object);
            }
        }
        Err(self.invalid(index, &damage.to_string()))
    }

    /// Appends `data` to the entry with the fastest compression.
    fn deflate(&mut self, index: usize, data: &[u8]) -> Result<()> {
        let appended = self.deflater.append(data, &mut self.entry);
        appended.map_err(|error| self.invalid(index, &format!("it cannot be compressed: {error}")))
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
