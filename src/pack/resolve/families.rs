//! Which delta of a pack is made from which entry.

use super::Damage;
use crate::{
    error::Result,
    pack::{
        EntryTable, PackRank, PackStore,
        header::{self, EntryKind},
        idx::rows_by_offset,
    },
};

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// Bytes read at once.
const CHUNK: u64 = 1 << 20;

/// The entries of a pack in the order of their offsets, and who is made from whom. Some 13 bytes an entry.
#[derive(Default)]
pub(super) struct Families {
    /// Where the last entry ends.
    entries_end: u64,
    /// The row of each entry in the table.
    pub rows: Vec<u32>,
    /// The first entry that is made from this one, and the next one made from the same base.
    pub first_child: Vec<u32>,
    pub next_sibling: Vec<u32>,
    /// Entries that are no deltas.
    pub roots: Vec<u32>,
    /// Entries whose header or base is damaged, and those made from them.
    pub damaged: Vec<Damage>,
}

impl Families {
    /// Reads all entry headers, in one go through the pack.
    pub fn scan(store: &dyn PackStore, pack: PackRank, table: &EntryTable) -> Result<Families> {
        let format = store.object_format();
        let entries_end = store.pack_len(pack)?.saturating_sub(format.len_in_bytes() as u64);
        let count = table.len();
        let rows = rows_by_offset(&table.offsets);
        let mut it = Families {
            entries_end,
            first_child: vec![NONE; count],
            next_sibling: vec![NONE; count],
            roots: Vec::new(),
            damaged: Vec::new(),
            rows,
        };
        let mut bases = vec![NONE; count];
        let (mut chunk, mut chunk_start) = (Vec::new(), 0);
        for (at, base_slot) in bases.iter_mut().enumerate() {
            let (start, end) = it.place(table, at as u32);
            if start < header::PACK_HEADER_LEN || start >= end || end > entries_end {
                it.damage(table, at, "its place in the pack cannot be".into());
                continue;
            }
            let len = (end - start).min(header::MAX_ENTRY_HEADER_LEN as u64);
            if start + len > chunk_start + chunk.len() as u64 {
                chunk_start = start;
                chunk.resize(CHUNK.min(entries_end - start) as usize, 0);
                store.read_exact_at(pack, start, &mut chunk)?;
            }
            let head = &chunk[(start - chunk_start) as usize..][..len as usize];
            match header::parse_entry_header(head, format) {
                Err(why) => it.damage(table, at, why.into()),
                Ok(entry) => match it.base(table, start, entry.kind) {
                    Ok(None) => it.roots.push(at as u32),
                    Ok(Some(base)) => *base_slot = base,
                    Err(why) => it.damage(table, at, why),
                },
            }
        }
        // Backwards, so that siblings end up in the order of their offsets.
        for (at, base) in bases.iter().enumerate().rev() {
            if *base != NONE {
                it.next_sibling[at] = it.first_child[*base as usize];
                it.first_child[*base as usize] = at as u32;
            }
        }
        it.find_orphans(table, &bases);
        Ok(it)
    }

    /// Returns where an entry starts, and where it ends.
    pub fn place(&self, table: &EntryTable, at: u32) -> (u64, u64) {
        let offset = |row: &u32| table.offsets[*row as usize];
        let next = self.rows.get(at as usize + 1);
        (offset(&self.rows[at as usize]), next.map_or(self.entries_end, offset))
    }

    /// Returns the entry that the one at `start` is made from.
    ///
    /// # Errors
    /// Fails with the reason where there is none.
    pub fn base(&self, table: &EntryTable, start: u64, kind: EntryKind) -> Result<Option<u32>, String> {
        let offset = match kind {
            EntryKind::Base(_) => return Ok(None),
            EntryKind::OfsDelta(distance) => header::base_offset(start, distance)?,
            EntryKind::RefDelta(id) => match table.find(&id) {
                Some(row) => table.offsets[row],
                None => return Err(format!("its delta base {id} is not in the pack")),
            },
        };
        match self
            .rows
            .binary_search_by_key(&offset, |row| table.offsets[*row as usize])
        {
            Ok(base) => Ok(Some(base as u32)),
            Err(_) => Err("its delta base is no entry of the pack".into()),
        }
    }

    /// Tells the entries that no root leads to: made from damaged ones, or in a circle.
    fn find_orphans(&mut self, table: &EntryTable, bases: &[u32]) {
        let mut reached = vec![false; bases.len()];
        let mut stack = self.roots.clone();
        let mut count = 0;
        while let Some(at) = stack.pop() {
            reached[at as usize] = true;
            count += 1;
            let mut child = self.first_child[at as usize];
            while child != NONE {
                stack.push(child);
                child = self.next_sibling[child as usize];
            }
        }
        if count == bases.len() {
            return;
        }
        for at in 0..bases.len() {
            if !reached[at] && bases[at] != NONE {
                self.damage(
                    table,
                    at,
                    "its delta base is damaged, or the chain of its bases goes in a circle".into(),
                );
            }
        }
    }

    fn damage(&mut self, table: &EntryTable, at: usize, why: String) {
        let row = self.rows[at] as usize;
        self.damaged.push(Damage {
            oid: table.oid(row).to_owned(),
            offset: table.offsets[row],
            why,
            is_altered: false,
        });
    }
}
