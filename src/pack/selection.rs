//! A set of stored objects.

use gix_hash::{ObjectId, oid};

use super::{Location, PackStore, header::kind_code, oid_table::OidTable};
use crate::error::Result;

/// Objects of a store, each with the place of its entry. About 41 bytes an object.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Object ids, one after the other.
    pub(super) ids: Vec<u8>,
    pub(super) id_len: usize,
    /// git's number of each object's type, 0 = not known.
    pub(super) kinds: Vec<u8>,
    /// What stands for the path at which each object was met, 0 = not known: versions of one file are alike.
    pub(super) paths: Vec<u32>,
    pub(super) locations: Vec<Location>,
}

impl Selection {
    /// Creates an empty selection.
    pub fn new(format: gix_hash::Kind) -> Self {
        Selection {
            id_len: format.len_in_bytes(),
            ..Selection::default()
        }
    }

    /// Selects everything that `store` has; of an object that is stored more than once, the copy in the lowest-ranked pack that
    /// is not known to be damaged.
    ///
    /// # Errors
    /// Fails where an index cannot be read.
    pub fn all(store: &dyn PackStore) -> Result<Self> {
        let mut all = Selection::new(store.object_format());
        let mut met = OidTable::new(all.id_len);
        let damaged = store.damaged_entries()?;
        let rounds = if damaged.is_some() { 2 } else { 1 };
        for (round, pack) in (0..rounds).flat_map(|round| (0..store.packs()).map(move |pack| (round, pack))) {
            let table = store.entries(pack)?;
            for row in 0..table.len() {
                let is_damaged = damaged
                    .as_ref()
                    .is_some_and(|all| all.contains_key(&(pack, table.offsets[row])));
                if is_damaged != (round == 1) {
                    continue;
                }
                let id = table.oid(row);
                // A single pack's index has no duplicates.
                if store.packs() > 1 && !met.insert(id.as_bytes()).1 {
                    continue;
                }
                let kind = table.kinds.get(row).copied().unwrap_or(0);
                let at = Location {
                    pack,
                    offset: table.offsets[row],
                    crc32: table.crc32s[row],
                };
                all.push_met(id, kind, 0, at);
            }
        }
        Ok(all)
    }

    /// Adds an object. Of an entry that is added twice, one is sent.
    pub fn push(&mut self, id: &oid, kind: Option<super::Kind>, at: Location) {
        self.push_met(id, kind.map_or(0, kind_code), 0, at);
    }

    /// Adds an object that was met at a path.
    pub(super) fn push_met(&mut self, id: &oid, kind: u8, path: u32, at: Location) {
        debug_assert_eq!(id.as_bytes().len(), self.id_len);
        self.ids.extend_from_slice(id.as_bytes());
        self.kinds.push(kind);
        self.paths.push(path);
        self.locations.push(at);
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.locations.len()
    }

    /// Returns whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }

    /// Returns the id of object `index`.
    pub fn oid(&self, index: usize) -> &oid {
        oid::from_bytes_unchecked(&self.ids[index * self.id_len..(index + 1) * self.id_len])
    }

    /// Returns the entry of object `index`.
    pub fn location(&self, index: usize) -> Location {
        self.locations[index]
    }

    /// Returns the kind of object `index`, where it is known.
    pub fn kind(&self, index: usize) -> Option<super::Kind> {
        super::header::kind_of_code(self.kinds[index])
    }

    /// Iterates over the object ids in the order in which they were added.
    pub fn oids(&self) -> impl Iterator<Item = ObjectId> + '_ {
        (0..self.len()).map(|index| self.oid(index).to_owned())
    }

    /// Keeps the objects for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(&oid, Option<super::Kind>) -> bool) {
        let mut kept = Selection {
            id_len: self.id_len,
            ..Selection::default()
        };
        for index in 0..self.len() {
            if keep(self.oid(index), self.kind(index)) {
                kept.push_met(
                    self.oid(index),
                    self.kinds[index],
                    self.paths[index],
                    self.locations[index],
                );
            }
        }
        *self = kept;
    }
}
