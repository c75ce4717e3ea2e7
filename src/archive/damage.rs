//! Entries that are known to be damaged.
//!
//! An index row about a pack says which of its entries are no good: its settings name the first of them, and its table leaves
//! the kinds of all of them out. The last row about a pack decides, so that one that was restored is good again. Nobody answers
//! from such an entry where there is another copy; the bytes stay until a gc writes the other copy in their place.

use std::collections::{BTreeMap, HashMap, HashSet};

use gix_hash::ObjectId;

use super::{Snapshot, prepare::Addition};
use crate::{
    error::Result,
    format::{
        batch::{Batch, ReadError},
        recover::State,
        row::{Row, RowKind},
    },
    media::Medium,
    pack::{DamagedEntries, EntryTable, PackRank, PackStore},
};

/// The key of the settings that name damaged objects.
pub const KEY: &str = "damaged";

/// Reads which entries the rows of a state say are damaged. `ranks` gives the ranks of the packs by their transactions. Rows that
/// cannot be read say nothing.
///
/// # Errors
/// Fails where the medium does.
pub fn read(medium: &dyn Medium, state: &State, ranks: &HashMap<u64, PackRank>) -> Result<DamagedEntries, ReadError> {
    // By the number of the row, so that the last about a pack comes last.
    let mut found = BTreeMap::new();
    for block in &state.footer.blocks {
        let rows = Batch::load(medium, *block, state.footer.ident.object_format).and_then(|batch| batch.rows(medium));
        let rows = match rows {
            Ok(rows) => rows,
            Err(ReadError::Damaged(_)) => continue,
            Err(error) => return Err(error),
        };
        for row in rows {
            if let (RowKind::Index, Some((covered, _))) = (row.kind, row.covers)
                && let Some(rank) = ranks.get(&covered)
            {
                found.insert(row.txn, (*rank, entries_of(&row)));
            }
        }
    }
    let by_pack: HashMap<PackRank, Vec<(u64, ObjectId)>> = found.into_values().collect();
    let of_pack = |(rank, entries): (PackRank, Vec<(u64, ObjectId)>)| {
        entries.into_iter().map(move |(offset, id)| ((rank, offset), id))
    };
    Ok(by_pack.into_iter().flat_map(of_pack).collect())
}

/// Returns the entries that an index row says are damaged.
fn entries_of(row: &Row) -> Vec<(u64, ObjectId)> {
    if !row.settings.iter().any(|(key, _)| key == KEY) {
        return vec![];
    }
    let EntryTable { kinds, offsets, .. } = &row.objects;
    let unknown = (0..row.objects.len()).filter(|at| kinds.get(*at).is_none_or(|kind| *kind == 0));
    unknown
        .map(|at| (offsets[at], row.objects.oid(at).to_owned()))
        .collect()
}

/// Returns how many objects are damaged without another copy, and how many entries are, when `addition` is appended to what
/// `snapshot` shows. `None` where nothing is known to be damaged, before or after.
///
/// # Errors
/// Fails where tables cannot be read.
pub fn after(snapshot: &Snapshot, addition: &Addition) -> Result<Option<(u64, u64)>> {
    let of_row = addition.index.as_ref().map(|index| &index.row);
    let news = of_row.map(entries_of).unwrap_or_default();
    if snapshot.state().footer.totals.damaged_entries == 0 && news.is_empty() {
        return Ok(None);
    }
    let mut entries = snapshot.damaged_entries()?.as_deref().cloned().unwrap_or_default();
    if let Some(covered) = of_row.and_then(|row| row.covers).map(|(txn, _)| txn) {
        let spans = snapshot.pack_spans()?;
        if let Some((rank, _)) = spans.iter().find(|(_, span)| span.txn == covered) {
            entries.retain(|(pack, _), _| pack != rank);
            entries.extend(news.into_iter().map(|(offset, id)| ((*rank, offset), id)));
        }
    }
    let comes = |id: &ObjectId| addition.packs.iter().any(|pack| pack.entries.find(id).is_some());
    let lost = lost(snapshot, &entries)?;
    let lost = lost.iter().filter(|id| !comes(id)).count() as u64;
    Ok(Some((lost, entries.len() as u64)))
}

/// Returns the objects of which there is no copy but those in `entries`.
fn lost(snapshot: &Snapshot, entries: &DamagedEntries) -> Result<HashSet<ObjectId>> {
    let mut lost: HashSet<ObjectId> = entries.values().copied().collect();
    for rank in 0..snapshot.packs() {
        if lost.is_empty() {
            break;
        }
        let table = snapshot.entries(rank)?;
        let is_sound = |id: &ObjectId| {
            table
                .find(id)
                .is_some_and(|row| !entries.contains_key(&(rank, table.offsets[row])))
        };
        lost.retain(|id| !is_sound(id));
    }
    Ok(lost)
}

impl Snapshot {
    /// Returns the objects that are known to be damaged and of which there is no other copy, sorted.
    ///
    /// # Errors
    /// Fails where tables cannot be read.
    pub fn damaged_objects(&self) -> Result<Vec<ObjectId>> {
        let entries = match self.state().footer.totals.damaged {
            0 => None,
            _ => self.damaged_entries()?,
        };
        let Some(entries) = entries else {
            return Ok(vec![]);
        };
        let mut lost: Vec<ObjectId> = lost(self, &entries)?.into_iter().collect();
        lost.sort_unstable();
        Ok(lost)
    }
}
