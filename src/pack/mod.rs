//! Packs: reading objects out of them, walking their graph, and building new ones.
//!
//! Nothing here knows of archives, files or refs: bytes come through [`PackStore`].

mod bases;
mod blocks;
mod changes;
mod deflate;
pub mod delta;
pub mod disk;
pub mod emit;
pub mod filter;
pub mod finder;
pub mod fsck;
pub mod graph;
pub mod header;
pub mod idx;
pub mod incoming;
pub mod object;
pub(crate) mod oid_table;
pub mod parse;
pub mod reach;
mod recent;
pub mod resolve;
pub mod select;
pub mod selection;
pub mod shallow;
pub mod tags;
pub mod whole;

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use gix_hash::{ObjectId, oid};

use crate::error::Result;

pub use gix_object::Kind;

/// A pack's place in the total order of a snapshot. Where an object is stored more than once, the copy in the
/// lowest-ranked pack is the one that every reader uses: deltas can then never form a cycle across packs.
pub type PackRank = u32;

/// One stored entry of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// The pack that holds the entry.
    pub pack: PackRank,
    /// Byte offset of the entry's header, counted from the first byte of the pack.
    pub offset: u64,
    /// CRC-32 of the entry as stored: header, base reference and compressed data.
    pub crc32: u32,
}

/// Entries that are known to be damaged, by pack and offset, and the objects that they should hold.
pub type DamagedEntries = HashMap<(PackRank, u64), ObjectId>;

/// The entries of one pack as columns of equal length, sorted by object id. 20 or 32 bytes an id, and 21 for the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryTable {
    /// Object ids, one after the other.
    pub oids: Vec<u8>,
    /// Bytes of one object id: 20 or 32.
    pub oid_len: usize,
    /// git's object type of each entry (1 commit, 2 tree, 3 blob, 4 tag); 0 = not resolved. Empty when no entry is resolved.
    pub kinds: Vec<u8>,
    /// Size in bytes of each object, not of its delta; meaningful where the kind is not 0. Empty when no entry is resolved.
    pub sizes: Vec<u64>,
    /// Offset of each entry in the pack.
    pub offsets: Vec<u64>,
    /// CRC-32 of each entry as stored.
    pub crc32s: Vec<u32>,
}

impl EntryTable {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }
    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }
    /// Returns the id of entry `index`.
    pub fn oid(&self, index: usize) -> &oid {
        oid::from_bytes_unchecked(&self.oids[index * self.oid_len..(index + 1) * self.oid_len])
    }
    /// Returns the index of `id`, by binary search.
    pub fn find(&self, id: &oid) -> Option<usize> {
        find_sorted(self.len(), id, |row| self.oid(row).as_bytes())
    }
}

/// Returns where an id is among `len` sorted ones, by binary search.
pub(crate) fn find_sorted<'a>(len: usize, id: &oid, at: impl Fn(usize) -> &'a [u8]) -> Option<usize> {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        match at(middle).cmp(id.as_bytes()) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
            std::cmp::Ordering::Equal => return Some(middle),
        }
    }
    None
}

/// A commit's place in the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitNode {
    pub parents: Vec<ObjectId>,
    /// The committer's time in seconds since 1970.
    pub time: i64,
    /// 1 more than the greatest of the parents', 1 without parents; `None` = not known. An ancestor's is less.
    pub generation: Option<u32>,
}

/// A set of packs in a total order, readable at any offset.
///
/// Implemented by a snapshot of an archive, by a pack and idx on disk, and by two stores in a row.
pub trait PackStore: Send + Sync {
    /// Returns the hash function of the object ids.
    fn object_format(&self) -> gix_hash::Kind;
    /// Returns the number of packs; their ranks are `0..packs()`.
    fn packs(&self) -> PackRank;
    /// Returns the bytes of pack `pack`, from its header to its trailer.
    ///
    /// # Errors
    /// Fails where the store cannot be read.
    fn pack_len(&self, pack: PackRank) -> Result<u64>;
    /// Returns the trailing hash of pack `pack`, as recorded.
    ///
    /// # Errors
    /// As [`PackStore::pack_len`].
    fn pack_id(&self, pack: PackRank) -> Result<ObjectId>;
    /// Returns what to call pack `pack` in an error message.
    fn pack_name(&self, pack: PackRank) -> String;
    /// Returns the path to name in an error that concerns no single pack.
    fn store_path(&self) -> PathBuf {
        match self.packs() {
            0 => PathBuf::from("the repository"),
            _ => PathBuf::from(self.pack_name(0)),
        }
    }
    /// Fills `buf` from `offset` of pack `pack`.
    ///
    /// # Errors
    /// Fails where the pack ends before `buf` is full: never a short read.
    fn read_exact_at(&self, pack: PackRank, offset: u64, buf: &mut [u8]) -> Result<()>;
    /// Returns the lowest-ranked entry of `id` that is not known to be damaged, else the lowest-ranked, or `None` where no pack has it.
    fn lookup(&self, id: &oid) -> Result<Option<Location>>;
    /// Returns the entries that are known to be damaged, where there are any: any other copy counts before them.
    ///
    /// # Errors
    /// Fails where that cannot be read.
    fn damaged_entries(&self) -> Result<Option<Arc<DamagedEntries>>> {
        Ok(None)
    }
    /// Returns whether all that the packs before `pack` refer to is known to be in packs before it, so that nothing in them leads
    /// to what only `pack` or later ones have. `false` says nothing.
    ///
    /// # Errors
    /// Fails where that cannot be read.
    fn is_closed_before(&self, _pack: PackRank) -> Result<bool> {
        Ok(false)
    }
    /// As [`PackStore::is_closed_before`], in less time, and not quite as sure: damage may make it `true`. For whom that does no harm.
    ///
    /// # Errors
    /// Fails where that cannot be read.
    fn seems_closed_before(&self, pack: PackRank) -> Result<bool> {
        self.is_closed_before(pack)
    }
    /// Returns a commit's place in the graph, where that is known without reading the commit. `None` says nothing of whether it
    /// is there.
    fn commit_node(&self, _id: &oid) -> Result<Option<CommitNode>> {
        Ok(None)
    }
    /// Returns all entries of pack `pack`. May read and check megabytes: for work on a whole pack, not for single look-ups.
    fn entries(&self, pack: PackRank) -> Result<Arc<EntryTable>>;
}
