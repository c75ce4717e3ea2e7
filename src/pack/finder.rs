//! Many look-ups in one store.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use gix_hash::oid;

use super::{DamagedEntries, EntryTable, Location, PackRank, PackStore, header, idx, oid_table::OidTable};
use crate::error::{Error, Result};

/// So many look-ups are made in the store before it is asked how many objects it has.
const FIRST_LOOKUPS: u64 = 256;
/// One look-up in the store costs about as much as reading so many objects of its tables: it may read several places of a
/// file, each of which is checked.
const OBJECTS_A_LOOKUP: u64 = 100;
/// With more packs than this, their tables are joined into one.
const FEW_PACKS: usize = 4;

/// Finds entries in a store: in its own index at first, and in its tables as a whole when that has become cheaper.
///
/// A walk over a history looks up every object, which a store that lies on a disk is not made for; who looks up a few must
/// not read tables of megabytes.
pub struct Finder<'a> {
    store: &'a dyn PackStore,
    lookups: AtomicU64,
    /// How many look-ups in the store are worth as much as reading its tables.
    worth: OnceLock<u64>,
    tables: OnceLock<Tables>,
}

enum Tables {
    Few {
        tables: Vec<(Arc<EntryTable>, Box<[u32; 256]>)>,
        damaged: Option<Arc<DamagedEntries>>,
    },
    Joined {
        ids: OidTable,
        places: Vec<Location>,
    },
}

impl<'a> Finder<'a> {
    /// Creates a finder. Nothing is read yet.
    pub fn new(store: &'a dyn PackStore) -> Self {
        Finder {
            store,
            lookups: AtomicU64::new(0),
            worth: OnceLock::new(),
            tables: OnceLock::new(),
        }
    }

    /// Returns the lowest-ranked entry of `id`, or `None` where no pack has it.
    ///
    /// # Errors
    /// Fails where the store's indexes cannot be read.
    pub fn find(&self, id: &oid) -> Result<Option<Location>> {
        if let Some(tables) = self.tables.get() {
            return Ok(tables.find(id));
        }
        let lookups = self.lookups.fetch_add(1, Ordering::Relaxed);
        if lookups >= FIRST_LOOKUPS && lookups >= self.worth()? {
            match Tables::load(self.store) {
                Ok(tables) => return Ok(self.tables.get_or_init(|| tables).find(id)),
                // One by one then, until it is worth another try.
                Err(Error::Damaged { .. }) => self.lookups.store(0, Ordering::Relaxed),
                Err(error) => return Err(error),
            }
        }
        self.store.lookup(id)
    }

    fn worth(&self) -> Result<u64> {
        if let Some(worth) = self.worth.get() {
            return Ok(*worth);
        }
        let mut objects = 0;
        for pack in 0..self.store.packs() {
            objects = match pack_objects(self.store, pack) {
                Ok(count) => objects + u64::from(count),
                // What cannot be read as a whole is asked one by one: damage elsewhere is then no hindrance.
                Err(Error::Damaged { .. } | Error::InvalidPack { .. }) => u64::MAX,
                Err(error) => return Err(error),
            };
            if objects == u64::MAX {
                break;
            }
        }
        let worth = if objects == u64::MAX {
            objects
        } else {
            objects / OBJECTS_A_LOOKUP
        };
        Ok(*self.worth.get_or_init(|| worth))
    }
}

impl Tables {
    fn load(store: &dyn PackStore) -> Result<Tables> {
        let packs = store.packs();
        let damaged = store.damaged_entries()?;
        if packs as usize <= FEW_PACKS {
            let table = |pack| {
                store
                    .entries(pack)
                    .map(|table| (Arc::clone(&table), Box::new(idx::fan_out(&table))))
            };
            let tables = (0..packs).map(table).collect::<Result<_>>()?;
            return Ok(Tables::Few { tables, damaged });
        }
        let mut ids = OidTable::new(store.object_format().len_in_bytes());
        let mut places = Vec::new();
        // What is known to be damaged comes last.
        let rounds = if damaged.is_some() { 2 } else { 1 };
        for (round, pack) in (0..rounds).flat_map(|round| (0..packs).map(move |pack| (round, pack))) {
            let table = store.entries(pack)?;
            for row in 0..table.len() {
                let is_damaged = damaged
                    .as_ref()
                    .is_some_and(|all| all.contains_key(&(pack, table.offsets[row])));
                if is_damaged != (round == 1) {
                    continue;
                }
                if let (_, true) = ids.insert(table.oid(row).as_bytes()) {
                    places.push(Location {
                        pack,
                        offset: table.offsets[row],
                        crc32: table.crc32s[row],
                    });
                }
            }
        }
        Ok(Tables::Joined { ids, places })
    }

    fn find(&self, id: &oid) -> Option<Location> {
        match self {
            Tables::Few { tables, damaged } => {
                let mut copies = tables.iter().zip(0..).filter_map(|((table, fan_out), pack)| {
                    let row = idx::find(table, fan_out, id)?;
                    Some(Location {
                        pack,
                        offset: table.offsets[row],
                        crc32: table.crc32s[row],
                    })
                });
                let first = copies.next();
                match (damaged, first) {
                    (Some(damaged), Some(first)) => {
                        let is_sound = |copy: &Location| !damaged.contains_key(&(copy.pack, copy.offset));
                        std::iter::once(first).chain(copies).find(is_sound).or(Some(first))
                    }
                    _ => first,
                }
            }
            Tables::Joined { ids, places } => ids.get(id.as_bytes()).map(|number| places[number as usize]),
        }
    }
}

/// Returns the number of objects that the header of `pack` tells.
pub(super) fn pack_objects(store: &dyn PackStore, pack: PackRank) -> Result<u32> {
    let mut head = [0; header::PACK_HEADER_LEN as usize];
    store.read_exact_at(pack, 0, &mut head)?;
    header::parse_pack_header(&head).map_err(|why| Error::InvalidPack {
        name: store.pack_name(pack),
        why,
    })
}
