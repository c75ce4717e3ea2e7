//! The packs of a snapshot and the way from an object id to its entry.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, PoisonError},
};

use gix_hash::{Kind, ObjectId, oid};

use super::{Snapshot, open::read_error};
use crate::{
    error::{Error, Result},
    format::{
        batch::{Batch, PackSpan, ReadError},
        columns::Proof,
        object_index::{MIN_OBJECTS, ObjectIndex},
        recover::State,
    },
    media::{Medium, Prefetched, read_vec},
    pack::{CommitNode, EntryTable, Location, PackRank, PackStore},
};

/// All packs of a state, in rank order, and their object tables: small ones in memory, large ones behind an index.
pub struct Packs {
    spans: Vec<PackSpan>,
    /// Which batch holds each pack.
    batches: Vec<Arc<Batch>>,
    /// Entries of all small packs, sorted by id and then rank.
    small: SmallEntries,
    large: Vec<LargePack>,
    tables: Mutex<HashMap<PackRank, Arc<EntryTable>>>,
}

#[derive(Default)]
struct SmallEntries {
    table: EntryTable,
    ranks: Vec<PackRank>,
}

struct LargePack {
    rank: PackRank,
    index: ObjectIndex,
    /// Offsets in the file of the columns oid, type, size, pack_offset, crc32.
    columns: [u64; 5],
}

impl Packs {
    /// Reads where the packs of a state lie, and the tables of the small ones.
    pub fn load(medium: &dyn Medium, state: &State) -> Result<Packs, ReadError> {
        let kind = state.footer.ident.object_format;
        let mut packs = Packs {
            spans: vec![],
            batches: vec![],
            small: SmallEntries::default(),
            large: vec![],
            tables: Mutex::default(),
        };
        let mut found = vec![];
        // The batches of small pushes lie one behind the other: one read for dozens of them.
        let medium = &Prefetched::read(
            medium,
            state.footer.blocks.iter().map(|block| Batch::first_read(*block)),
        );
        for block in &state.footer.blocks {
            let batch = Arc::new(Batch::load(medium, *block, kind)?);
            let medium = &Prefetched::read(medium, batch.places());
            for span in batch.packs(medium)? {
                let index = load_index(medium, &batch, span.row, kind)?;
                found.push((span, Arc::clone(&batch), index));
            }
        }
        let counted = state.footer.totals.packs;
        if found.len() as u64 != counted {
            let what = format!("{} packs were found, the footer counts {counted}", found.len());
            return Err(what.into());
        }
        found.sort_by_key(|(span, ..)| span.txn);
        // The tables of a merged batch are decoded once for all its packs.
        let mut decoded: HashMap<u64, Vec<EntryTable>> = HashMap::new();
        let mut small = vec![];
        for (rank, (span, batch, index)) in found.into_iter().enumerate() {
            let rank = rank as PackRank;
            packs.spans.push(span);
            packs.batches.push(Arc::clone(&batch));
            if let Some((index, columns)) = index {
                packs.large.push(LargePack { rank, index, columns });
                continue;
            }
            let tables = match decoded.entry(batch.block.offset) {
                Entry::Occupied(tables) => tables.into_mut(),
                Entry::Vacant(vacant) => vacant.insert(batch.entries(medium)?),
            };
            small.push((rank, Arc::new(std::mem::take(&mut tables[span.row]))));
        }
        packs.small = merge(&small, kind);
        packs.tables = Mutex::new(small.into_iter().collect());
        Ok(packs)
    }

    fn find(&self, medium: &dyn Medium, id: &oid) -> Result<Option<Location>, ReadError> {
        let mut best = self.small.find(id);
        for large in &self.large {
            if best.is_some_and(|best| best.pack < large.rank) {
                break;
            }
            if let Some(found) = large.index.find(medium, &large.columns, id)? {
                best = Some(Location {
                    pack: large.rank,
                    offset: found.offset,
                    crc32: found.crc32,
                });
                break;
            }
        }
        Ok(best)
    }
}

/// Loads the block index of a row that is large enough to have one.
fn load_index(
    medium: &dyn Medium,
    batch: &Batch,
    row: usize,
    kind: Kind,
) -> Result<Option<(ObjectIndex, [u64; 5])>, ReadError> {
    if batch.geometry.objects() < MIN_OBJECTS as u64 {
        return Ok(None);
    }
    let objects = batch.object_range(medium, row)?;
    let count = (objects.end - objects.start) as usize;
    if count < MIN_OBJECTS {
        return Ok(None);
    }
    let Some(range) = batch.index_range(medium, row)? else {
        return Ok(None);
    };
    let bytes = read_vec(medium, range.start, (range.end - range.start) as usize)?;
    let index = ObjectIndex::decode(&bytes, count, kind.len_in_bytes())?;
    Ok(Some((index, batch.object_columns(objects.start))))
}

/// Sorts the entries of several tables into one.
fn merge(tables: &[(PackRank, Arc<EntryTable>)], kind: Kind) -> SmallEntries {
    let all = tables
        .iter()
        .flat_map(|(rank, table)| (0..table.len()).map(move |row| (table.oid(row), *rank, row, table)));
    let mut all: Vec<_> = all.collect();
    all.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    let mut merged = SmallEntries::default();
    merged.table.oid_len = kind.len_in_bytes();
    for (id, rank, row, table) in all {
        merged.table.oids.extend_from_slice(id.as_bytes());
        merged.table.offsets.push(table.offsets[row]);
        merged.table.crc32s.push(table.crc32s[row]);
        merged.ranks.push(rank);
    }
    merged
}

impl SmallEntries {
    fn find(&self, id: &oid) -> Option<Location> {
        let mut row = self.table.find(id)?;
        // The lowest rank comes first among equal ids.
        while row > 0 && self.table.oid(row - 1) == id {
            row -= 1;
        }
        Some(Location {
            pack: self.ranks[row],
            offset: self.table.offsets[row],
            crc32: self.table.crc32s[row],
        })
    }
}

impl Snapshot {
    /// Returns the number of the transaction that stored a pack.
    pub fn pack_txn(&self, pack: PackRank) -> Result<u64> {
        let span = self.packs_or_load()?.spans.get(pack as usize).copied();
        span.map(|span| span.txn)
            .ok_or_else(|| Error::Invalid(format!("there is no pack {pack}")))
    }

    /// Returns the transactions whose packs were found unsound, each with the number of damaged objects that were noted.
    pub(crate) fn findings(&self) -> Result<Vec<(u64, usize)>> {
        let mut findings = vec![];
        for block in &self.state().footer.blocks {
            let rows = Batch::load(self.medium(), *block, Snapshot::object_format(self))
                .and_then(|batch| batch.findings(self.medium()))
                .map_err(|error| read_error(self.path(), error))?;
            findings.extend(rows);
        }
        Ok(findings)
    }

    /// Returns what is proven of each pack, by rank: by its own row, or by an index row about it.
    pub fn proofs(&self) -> Result<Vec<Proof>> {
        let mut proofs = HashMap::new();
        for block in &self.state().footer.blocks {
            let rows = Batch::load(self.medium(), *block, Snapshot::object_format(self))
                .and_then(|batch| batch.proofs(self.medium()))
                .map_err(|error| read_error(self.path(), error))?;
            for (txn, proof) in rows.into_iter().filter(|(_, proof)| *proof != Proof::None) {
                proofs.insert(txn, proof);
            }
        }
        let spans = &self.packs_or_load()?.spans;
        Ok(spans
            .iter()
            .map(|span| proofs.get(&span.txn).copied().unwrap_or(Proof::None))
            .collect())
    }

    /// Returns the pack's place. Ranks come from this snapshot, so they are in range.
    fn span(&self, pack: PackRank) -> Option<PackSpan> {
        self.packs_or_load().ok()?.spans.get(pack as usize).copied()
    }
}

impl PackStore for Snapshot {
    fn object_format(&self) -> Kind {
        Snapshot::object_format(self)
    }

    fn packs(&self) -> PackRank {
        self.state().footer.totals.packs as PackRank
    }

    fn pack_len(&self, pack: PackRank) -> u64 {
        self.span(pack).map_or(0, |span| span.len)
    }

    fn pack_id(&self, pack: PackRank) -> ObjectId {
        self.span(pack)
            .map_or_else(|| Snapshot::object_format(self).null(), |span| span.id)
    }

    fn pack_name(&self, pack: PackRank) -> String {
        format!("{} of {}", self.pack_id(pack), self.path().display())
    }

    fn store_path(&self) -> std::path::PathBuf {
        self.path().to_owned()
    }

    fn read_exact_at(&self, pack: PackRank, offset: u64, buf: &mut [u8]) -> Result<()> {
        let packs = self.packs_or_load()?;
        let span = packs.spans.get(pack as usize);
        let end = offset.checked_add(buf.len() as u64);
        let (Some(span), true) = (span, span.zip(end).is_some_and(|(span, end)| end <= span.len)) else {
            let what = format!("an entry of pack {} reaches beyond it", self.pack_id(pack));
            return Err(Error::Damaged {
                path: self.path().into(),
                what,
            });
        };
        self.medium()
            .read_exact_at(span.at + offset, buf)
            .map_err(Error::io(self.path(), "read"))
    }

    fn lookup(&self, id: &oid) -> Result<Option<Location>> {
        self.packs_or_load()?
            .find(self.medium(), id)
            .map_err(|error| read_error(self.path(), error))
    }

    fn commit_node(&self, id: &oid) -> Result<Option<CommitNode>> {
        Snapshot::commit_node(self, id)
    }

    fn entries(&self, pack: PackRank) -> Result<Arc<EntryTable>> {
        let packs = self.packs_or_load()?;
        let tables = || packs.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = tables().get(&pack) {
            return Ok(Arc::clone(table));
        }
        let Some((span, batch)) = packs.spans.get(pack as usize).zip(packs.batches.get(pack as usize)) else {
            return Err(Error::Invalid(format!(
                "{}: there is no pack {pack}",
                self.path().display()
            )));
        };
        let read = batch
            .entries(self.medium())
            .map_err(|error| read_error(self.path(), error))?;
        let table = read.into_iter().nth(span.row).unwrap_or_default();
        Ok(Arc::clone(tables().entry(pack).or_insert(Arc::new(table))))
    }
}
