//! The order in which entries are sent, and where each of them ends.

use gix_hash::oid;

use super::Written;
use crate::{
    error::{Error, Result},
    pack::{
        EntryTable, PackRank, finder::pack_objects, idx::rows_by_offset, object::ObjectReader, selection::Selection,
    },
};

/// Where fewer than one in so many of a pack's entries are sent, their ends are found by inflating them; otherwise in the
/// pack's table, which costs about as much as to inflate this part of it.
const TABLE_RATIO: u64 = 200;

/// The entries of a selection by pack and offset, each once.
pub(super) struct Order<'a> {
    set: &'a Selection,
    /// Places in the selection.
    places: Vec<u32>,
    /// Where each entry ends in its pack.
    ends: Vec<u64>,
}

impl<'a> Order<'a> {
    pub fn new(reader: &ObjectReader<'_>, set: &'a Selection) -> Result<Self> {
        if u32::try_from(set.len()).is_err() {
            return Err(Error::Invalid("a pack cannot hold 2^32 objects".into()));
        }
        let first_pack = set.locations.first().map_or(0, |at| at.pack);
        let mut places = if set.locations.iter().all(|at| at.pack == first_pack) {
            let offsets: Vec<u64> = set.locations.iter().map(|at| at.offset).collect();
            rows_by_offset(&offsets)
        } else {
            let mut places: Vec<u32> = (0..set.len() as u32).collect();
            places.sort_unstable_by_key(|place| {
                let at = set.locations[*place as usize];
                (at.pack, at.offset)
            });
            places
        };
        places.dedup_by_key(|place| {
            let at = set.locations[*place as usize];
            (at.pack, at.offset)
        });
        let ends = Vec::with_capacity(places.len());
        let mut order = Order { set, places, ends };
        let mut first = 0;
        while first < order.len() {
            let pack = order.pack(first);
            let last =
                first + order.places[first..].partition_point(|place| set.locations[*place as usize].pack == pack);
            order.find_ends(reader, pack, first, last)?;
            first = last;
        }
        Ok(order)
    }

    /// Finds the ends of the entries `first..last`, all of `pack`.
    fn find_ends(&mut self, reader: &ObjectReader<'_>, pack: PackRank, first: usize, last: usize) -> Result<()> {
        let store = reader.store();
        // A damaged header costs no more than the table may cost.
        let objects = pack_objects(store, pack).unwrap_or(0);
        if ((last - first) as u64) < u64::from(objects) / TABLE_RATIO {
            for index in first..last {
                let end = reader.entry_end(self.location(index))?;
                if index + 1 < last && end > self.start(index + 1) {
                    let (id, other) = (self.oid(index), self.oid(index + 1));
                    let why = format!("the entries of objects {id} and {other} overlap");
                    return Err(Error::InvalidPack {
                        name: store.pack_name(pack),
                        why,
                    });
                }
                self.ends.push(end);
            }
            return Ok(());
        }
        let table = store.entries(pack)?;
        let mut starts = Vec::with_capacity(table.len());
        starts.extend(
            rows_by_offset(&table.offsets)
                .into_iter()
                .map(|row| table.offsets[row as usize]),
        );
        let entries_end = store
            .pack_len(pack)?
            .saturating_sub(store.object_format().len_in_bytes() as u64);
        let mut at = 0;
        for index in first..last {
            let start = self.start(index);
            while at < starts.len() && starts[at] < start {
                at += 1;
            }
            let end = starts.get(at + 1).copied().unwrap_or(entries_end);
            if starts.get(at) != Some(&start) || end <= start || end > entries_end {
                let why = format!("object {}: its index has no entry at offset {start}", self.oid(index));
                return Err(Error::InvalidPack {
                    name: store.pack_name(pack),
                    why,
                });
            }
            self.ends.push(end);
        }
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn pack(&self, index: usize) -> PackRank {
        self.location(index).pack
    }

    pub fn start(&self, index: usize) -> u64 {
        self.location(index).offset
    }

    pub fn end(&self, index: usize) -> u64 {
        self.ends[index]
    }

    pub fn crc32(&self, index: usize) -> u32 {
        self.location(index).crc32
    }

    pub fn oid(&self, index: usize) -> &oid {
        self.set.oid(self.places[index] as usize)
    }

    pub fn location(&self, index: usize) -> crate::pack::Location {
        self.set.locations[self.places[index] as usize]
    }

    /// Returns what stands for the path of the object, 0 = not known.
    pub fn path(&self, index: usize) -> u32 {
        self.set.paths[self.places[index] as usize]
    }

    /// Returns the number of entries of `pack` that are sent.
    pub fn count_of(&self, pack: PackRank) -> usize {
        let below = |rank: PackRank| {
            self.places
                .partition_point(|place| self.set.locations[*place as usize].pack < rank)
        };
        below(pack.saturating_add(1)) - below(pack)
    }

    /// Returns the index of the entry at `offset` of `pack`, if it is sent.
    pub fn find(&self, pack: PackRank, offset: u64) -> Option<usize> {
        let key = |place: &u32| {
            let at = self.set.locations[*place as usize];
            (at.pack, at.offset)
        };
        self.places.binary_search_by_key(&(pack, offset), key).ok()
    }

    /// Returns the table of the new pack.
    pub fn table(&self, written: &Written) -> EntryTable {
        // The first eight bytes of an id decide nearly always.
        let prefix = |index: usize| {
            let id = self.oid(index).as_bytes();
            u64::from_be_bytes(id[..8].try_into().expect("ids have at least 20 bytes"))
        };
        let mut by_id: Vec<(u64, u32)> = (0..self.len()).map(|index| (prefix(index), index as u32)).collect();
        by_id.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0)
                .then_with(|| self.oid(a.1 as usize).cmp(self.oid(b.1 as usize)))
        });
        let mut table = EntryTable {
            oid_len: self.set.id_len,
            ..EntryTable::default()
        };
        table.oids.reserve_exact(self.len() * self.set.id_len);
        table.offsets.reserve_exact(self.len());
        table.crc32s.reserve_exact(self.len());
        for (_, index) in by_id {
            let index = index as usize;
            table.oids.extend_from_slice(self.oid(index).as_bytes());
            table.offsets.push(written.offsets[index]);
            table.crc32s.push(written.crc32s[index]);
        }
        table
    }
}
