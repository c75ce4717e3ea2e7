//! The packs of a snapshot and the way from an object id to its entry.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::{Arc, Mutex, PoisonError},
};

use gix_hash::{Kind, ObjectId, oid};

use super::{Snapshot, damage, file::read_error};
use crate::{
    error::{Error, Result},
    format::{
        batch::{Batch, PackSpan, ProofRow, ReadError},
        object_index::{MIN_OBJECTS, ObjectIndex, encoded_len},
        recover::State,
        row::Proof,
    },
    media::{Medium, Prefetched, read_vec},
    pack::{CommitNode, DamagedEntries, EntryTable, Location, PackRank, PackStore},
};

/// All packs of a state, in rank order, and their object tables: small ones in memory, large ones behind an index.
///
/// A damaged batch or table costs what it held: the other packs are found as ever, but of no object can it be said any more
/// that it is absent. Packs of batches that cannot be read have the last ranks, and nothing can be read of them.
pub struct Packs {
    spans: Vec<PackSpan>,
    /// Which batch holds each pack.
    batches: Vec<Arc<Batch>>,
    /// Entries of all small packs, sorted by id and then rank.
    small: SmallEntries,
    large: Vec<LargePack>,
    /// Why some objects cannot be found, though they may be there.
    lost: Vec<String>,
    /// Entries that rows say are damaged.
    damaged: Option<Arc<DamagedEntries>>,
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
            lost: vec![],
            damaged: None,
            tables: Mutex::default(),
        };
        let mut found = vec![];
        // The batches of small pushes lie one behind the other: one read for dozens of them.
        let medium = &Prefetched::read(
            medium,
            state.footer.blocks.iter().map(|block| Batch::first_read(*block)),
        );
        for block in &state.footer.blocks {
            let loaded = Batch::load(medium, *block, kind).and_then(|batch| {
                let medium = &Prefetched::read(medium, batch.places());
                let load = |span: PackSpan| match load_index(medium, &batch, span.row, kind) {
                    // Without its index, a table is read whole.
                    Err(ReadError::Damaged(_)) => Ok((span, None)),
                    loaded => loaded.map(|index| (span, index)),
                };
                let loaded = batch.packs(medium)?.into_iter().map(load);
                Ok((loaded.collect::<Result<Vec<_>, _>>()?, batch))
            });
            match loaded {
                Ok((spans, batch)) => {
                    let batch = Arc::new(batch);
                    let of_batch = |(span, index)| (span, Arc::clone(&batch), index);
                    found.extend(spans.into_iter().map(of_batch));
                }
                Err(ReadError::Damaged(why)) => packs.lost.push(why),
                Err(error) => return Err(error),
            }
        }
        let counted = state.footer.totals.packs;
        if found.len() as u64 > counted || packs.lost.is_empty() && found.len() as u64 != counted {
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
                Entry::Vacant(vacant) => match batch.entries(medium) {
                    Ok(tables) => vacant.insert(tables),
                    Err(ReadError::Damaged(why)) => {
                        packs.lost.push(why);
                        vacant.insert(vec![])
                    }
                    Err(error) => return Err(error),
                },
            };
            if let Some(table) = tables.get_mut(span.row) {
                small.push((rank, Arc::new(std::mem::take(table))));
            }
        }
        if state.footer.totals.damaged_entries > 0 {
            let ranks = (0..).zip(&packs.spans).map(|(rank, span)| (span.txn, rank)).collect();
            let damaged = damage::read(medium, state, &ranks)?;
            packs.damaged = (!damaged.is_empty()).then(|| Arc::new(damaged));
        }
        packs.small = merge(&small, kind);
        packs.tables = Mutex::new(small.into_iter().collect());
        Ok(packs)
    }

    /// Returns the lowest-ranked entry of an object that can be found; one that is known to be damaged only where there is no
    /// other.
    fn find(&self, medium: &dyn Medium, id: &oid) -> Result<Option<Location>, ReadError> {
        let is_sound = |at: &Location| {
            let damaged = self.damaged.as_ref();
            damaged.is_none_or(|damaged| !damaged.contains_key(&(at.pack, at.offset)))
        };
        let mut best = self.small.find(id, &is_sound);
        let mut unsound = None;
        let mut damage = self.lost.first().cloned();
        for large in &self.large {
            if best.is_some_and(|best| best.pack < large.rank) {
                break;
            }
            // Which of two copies it is makes no difference but to how well packs fit together.
            if best.is_some() && large.index.seems_absent(medium, &large.columns, id)? {
                continue;
            }
            match large.index.find(medium, &large.columns, id) {
                Ok(None) => {}
                Ok(Some(found)) => {
                    let found = Location {
                        pack: large.rank,
                        offset: found.offset,
                        crc32: found.crc32,
                    };
                    if is_sound(&found) {
                        best = Some(found);
                        break;
                    }
                    unsound.get_or_insert(found);
                }
                Err(ReadError::Damaged(why)) => drop(damage.get_or_insert(why)),
                Err(error) => return Err(error),
            }
        }
        match (best.or(unsound).or_else(|| self.small.find(id, &|_| true)), damage) {
            (Some(best), _) => Ok(Some(best)),
            (None, None) => Ok(None),
            (None, Some(why)) => Err(format!("object {id} cannot be looked up: {why}").into()),
        }
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
    if range.end - range.start != encoded_len(count) {
        return Err("the object index does not fit its objects".to_string().into());
    }
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
    /// Returns the lowest-ranked copy of an object that `suits`.
    fn find(&self, id: &oid, suits: &dyn Fn(&Location) -> bool) -> Option<Location> {
        let mut row = self.table.find(id)?;
        // The lowest rank comes first among equal ids.
        while row > 0 && self.table.oid(row - 1) == id {
            row -= 1;
        }
        let copies = (row..self.table.len()).take_while(|row| self.table.oid(*row) == id);
        let mut copies = copies.map(|row| Location {
            pack: self.ranks[row],
            offset: self.table.offsets[row],
            crc32: self.table.crc32s[row],
        });
        copies.find(|copy| suits(copy))
    }
}

impl Snapshot {
    /// Reads the entries of a pack, which are not kept for the next who asks, as [`PackStore::entries`] keeps them.
    ///
    /// # Errors
    /// As [`PackStore::entries`].
    pub(crate) fn read_entries(&self, pack: PackRank) -> Result<EntryTable> {
        let packs = self.packs_or_load()?;
        let Some((span, batch)) = packs.spans.get(pack as usize).zip(packs.batches.get(pack as usize)) else {
            let what = packs.lost.first().cloned();
            return Err(Error::Damaged {
                path: self.path().into(),
                what: what.unwrap_or_else(|| format!("there is no pack {pack}")),
            });
        };
        let read = batch
            .entries(self.medium())
            .map_err(|error| read_error(self.path(), error))?;
        Ok(read.into_iter().nth(span.row).unwrap_or_default())
    }

    /// Returns the number of the transaction that stored a pack.
    pub fn pack_txn(&self, pack: PackRank) -> Result<u64> {
        let span = self.packs_or_load()?.spans.get(pack as usize).copied();
        span.map(|span| span.txn)
            .ok_or_else(|| Error::Invalid(format!("there is no pack {pack}")))
    }

    /// Returns what is proven of each pack whose place is known, by rank: by its own row, or by an index row about it.
    pub fn proofs(&self) -> Result<Vec<Proof>> {
        let mut proofs = HashMap::new();
        for row in self
            .proof_rows(|batch| batch.proofs(self.medium()))?
            .into_iter()
            .filter(|row| row.proof != Proof::None)
        {
            proofs.insert(row.of, row.proof);
        }
        let spans = &self.packs_or_load()?.spans;
        Ok(spans
            .iter()
            .map(|span| proofs.get(&span.txn).copied().unwrap_or(Proof::None))
            .collect())
    }

    /// Returns what each row proves. Rows that cannot be read prove nothing.
    fn proof_rows(&self, read: impl Fn(&Batch) -> Result<Vec<ProofRow>, ReadError>) -> Result<Vec<ProofRow>> {
        let mut all = vec![];
        for block in &self.state().footer.blocks {
            let batch = Batch::load(self.medium(), *block, Snapshot::object_format(self));
            match batch.and_then(|batch| read(&batch)) {
                Ok(rows) => all.extend(rows),
                Err(ReadError::Damaged(_)) => {}
                Err(error) => return Err(read_error(self.path(), error)),
            }
        }
        Ok(all)
    }

    /// As [`PackStore::is_closed_before`], by the proofs that `read` returns.
    fn was_closed_before(
        &self,
        pack: PackRank,
        read: impl Fn(&Batch) -> Result<Vec<ProofRow>, ReadError>,
    ) -> Result<bool> {
        let packs = self.packs_or_load()?;
        let Some(PackSpan { txn, .. }) = packs.spans.get(pack as usize) else {
            return Ok(false);
        };
        if !self.is_closed() || packs.damaged.is_some() || !packs.lost.is_empty() {
            return Ok(false);
        }
        // What was proven before the pack came can only lead to what was there before it. A proof that was made later says less,
        // as does one that was taken back.
        let (mut proven, mut doubted) = (HashSet::new(), HashSet::new());
        for row in self.proof_rows(read)? {
            match row.proof {
                Proof::None if row.txn != row.of => drop(doubted.insert(row.of)),
                Proof::Closed if row.txn < *txn => drop(proven.insert(row.of)),
                _ => {}
            }
        }
        let mut before = packs.spans.iter().take(pack as usize);
        Ok(before.all(|span| span.txn < *txn && proven.contains(&span.txn) && !doubted.contains(&span.txn)))
    }

    /// Returns why some objects cannot be found though they may be there: damaged tables. Empty where all tables are readable.
    pub fn lost(&self) -> Result<&[String]> {
        Ok(&self.packs_or_load()?.lost)
    }

    /// Returns where the packs lie, as far as that is known, in the order of their ranks.
    ///
    /// # Errors
    /// Fails where the medium does: that is not an archive without packs.
    pub(crate) fn pack_spans(&self) -> Result<Vec<(PackRank, PackSpan)>> {
        Ok((0..).zip(self.packs_or_load()?.spans.iter().copied()).collect())
    }

    /// Returns the pack's place; `None` where the batch that holds it cannot be read.
    fn span(&self, pack: PackRank) -> Result<Option<PackSpan>> {
        Ok(self.packs_or_load()?.spans.get(pack as usize).copied())
    }
}

impl PackStore for Snapshot {
    fn object_format(&self) -> Kind {
        Snapshot::object_format(self)
    }

    fn packs(&self) -> PackRank {
        self.state().footer.totals.packs as PackRank
    }

    fn pack_len(&self, pack: PackRank) -> Result<u64> {
        Ok(self.span(pack)?.map_or(0, |span| span.len))
    }

    fn pack_id(&self, pack: PackRank) -> Result<ObjectId> {
        let span = self.span(pack)?;
        Ok(span.map_or_else(|| Snapshot::object_format(self).null(), |span| span.id))
    }

    fn pack_name(&self, pack: PackRank) -> String {
        match self.span(pack) {
            Ok(Some(span)) => format!("{} of {}", span.id, self.path().display()),
            _ => format!("number {pack} of {}", self.path().display()),
        }
    }

    fn store_path(&self) -> std::path::PathBuf {
        self.path().to_owned()
    }

    fn read_exact_at(&self, pack: PackRank, offset: u64, buf: &mut [u8]) -> Result<()> {
        let packs = self.packs_or_load()?;
        let span = packs.spans.get(pack as usize);
        let end = offset.checked_add(buf.len() as u64);
        let (Some(span), true) = (span, span.zip(end).is_some_and(|(span, end)| end <= span.len)) else {
            let what = format!("an entry of pack {} reaches beyond it", self.pack_name(pack));
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

    fn damaged_entries(&self) -> Result<Option<Arc<DamagedEntries>>> {
        Ok(self.packs_or_load()?.damaged.clone())
    }

    fn is_closed_before(&self, pack: PackRank) -> Result<bool> {
        self.was_closed_before(pack, |batch| batch.proofs(self.medium()))
    }

    fn seems_closed_before(&self, pack: PackRank) -> Result<bool> {
        self.was_closed_before(pack, |batch| batch.proofs_unchecked(self.medium()))
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
        let table = self.read_entries(pack)?;
        Ok(Arc::clone(tables().entry(pack).or_insert(Arc::new(table))))
    }
}
