//! Carrying over what was pushed to the old generation while the new one was written.
//!
//! Rows keep their numbers, times, actors and packs. R9: of each row it is proven, under the lock, that whatever the objects of
//! its pack refer to is in the new generation: the pusher may have relied on an object that was pruned. Packs are proven as
//! they come in, before the lock is taken, so that under it only the last ones are left.

use std::collections::BTreeMap;

use gix_hash::{ObjectId, oid};

use super::{
    history::{is_transaction, refuse_foreign},
    rewrite::{Rewrite, refuse_unsound},
};
use crate::{
    archive::{
        Snapshot,
        append::PackSource,
        commits::Commits,
        file::read_error,
        place_refs::place_refs,
        prepare::{new_row, now_us},
    },
    error::{Error, Result},
    format::{
        batch::Batch,
        commit_rows::CommitRows,
        object_index,
        recover::State,
        row::{Proof, Row, RowKind},
    },
    pack::{
        EntryTable, PackRank, PackStore,
        finder::Finder,
        resolve::{ResolveOptions, ResolvedCommit, resolve},
    },
    refs::inline::Changes,
};

/// What was pushed after a snapshot, and what is proven of it already.
pub struct CarryOver<'a> {
    /// The state that the new generation was made from.
    source: &'a Snapshot,
    /// What the new generation has so far.
    base: Snapshot,
    finder: Finder<'a>,
    /// By transaction.
    proven: BTreeMap<u64, Facts>,
}

/// What was found out about a pack.
struct Facts {
    kinds: Vec<u8>,
    sizes: Vec<u64>,
    commits: CommitRows,
}

impl<'a> CarryOver<'a> {
    pub fn new(source: &'a Snapshot, base: &'a Snapshot) -> CarryOver<'a> {
        CarryOver {
            source,
            base: base.clone(),
            finder: Finder::new(base),
            proven: BTreeMap::new(),
        }
    }

    /// Proves the packs that `now` has and the source had not, and returns how many there were to prove.
    ///
    /// # Errors
    /// [`Error::MissingObject`] where a pack needs an object that the new generation has not.
    pub fn prove(&mut self, now: &Snapshot) -> Result<usize> {
        let new = self.new_packs(now)?;
        let mut tables = vec![];
        for (_, rank) in &new {
            tables.push(now.entries(*rank)?);
        }
        let mut count = 0;
        for (nth, ((txn, rank), table)) in new.iter().zip(&tables).enumerate() {
            if self.proven.contains_key(txn) {
                continue;
            }
            let is_there = |id: &oid, _| -> Result<bool> {
                // Not in later ones: that a pack is proven by its own row says that nothing in it leads to what came after it.
                let carried = tables[..nth].iter().any(|table| table.find(id).is_some());
                Ok(carried || self.finder.find(id)?.is_some())
            };
            let mut commits = Commits::of(table);
            let mut on_commit = |commit: ResolvedCommit<'_>| commits.add(commit);
            let options = ResolveOptions {
                is_there: Some(&is_there),
                on_commit: Some(&mut on_commit),
                ..ResolveOptions::default()
            };
            let resolved = resolve(now, *rank, table, options)?;
            refuse_unsound(now.path(), &resolved)?;
            let facts = Facts {
                kinds: resolved.kinds,
                sizes: resolved.sizes,
                commits: commits.finish(Some(&self.base))?,
            };
            self.proven.insert(*txn, facts);
            count += 1;
        }
        Ok(count)
    }

    fn new_packs(&self, now: &Snapshot) -> Result<Vec<(u64, PackRank)>> {
        let last = self.source.state().footer.totals.last_txn;
        let mut new = vec![];
        for rank in 0..now.packs() {
            let txn = now.pack_txn(rank)?;
            if txn > last {
                new.push((txn, rank));
            }
        }
        Ok(new)
    }

    /// Appends what `now` has and the source had not to the new generation. Returns the number of transactions.
    ///
    /// # Errors
    /// As [`CarryOver::prove`]; and where a reference names an object that the new generation has not.
    pub fn append(mut self, now: &Snapshot, rewrite: &mut Rewrite) -> Result<usize> {
        if now.state().footer.commit_id == self.source.state().footer.commit_id {
            return Ok(0);
        }
        self.prove(now)?;
        let mut packs: BTreeMap<u64, PackRank> = self.new_packs(now)?.into_iter().collect();
        let mut rows = self.new_rows(now)?;
        if rows.is_empty() {
            return Ok(0);
        }
        let carried = rows.len();
        let changes = self.changes(now)?;
        let mut footer = rewrite.next_footer();
        footer.policy = now.state().footer.policy.clone();
        let kind = footer.ident.object_format;
        let mut sources = vec![];
        for row in &mut rows {
            let totals = &mut footer.totals;
            totals.last_txn = row.txn;
            totals.last_time_us = row.time_us;
            let Some(pack) = row.pack else { continue };
            let (Some(rank), Some(facts)) = (packs.remove(&row.txn), self.proven.remove(&row.txn)) else {
                let what = format!("the pack of transaction {} is not where its row says", row.txn);
                return Err(read_error(now.path(), what.into()));
            };
            totals.packs += 1;
            totals.pack_bytes += pack.len;
            totals.objects += row.objects.len() as u64;
            fill(row, facts);
            sources.push(PackSource::Earlier {
                snapshot: now.clone(),
                rank,
                len: pack.len,
            });
        }
        for (name, target) in &changes {
            if let Some(crate::refs::Target::Object { oid, .. }) = target
                && !rows.iter().any(|row| row.objects.find(oid).is_some())
                && self.finder.find(oid)?.is_none()
            {
                return Err(missing(now, *oid, format!(" ('{name}' names it)")));
            }
        }
        // A value that was replaced meanwhile may be reached no more.
        let moved = |row: &Row| row.refs.iter().any(|edit| edit.old_oid.is_some());
        footer.refs.rewound |= now.has_unreachable() && (!self.source.has_unreachable() || rows.iter().any(moved));
        let (block, last) = (footer.blocks.len(), rows.len() - 1);
        let placed = match changes.is_empty() {
            true => None,
            false => place_refs(&mut footer.refs, self.base.ref_view()?, &changes, block, last, kind),
        };
        if let Some(refs) = placed {
            footer.totals.last_txn = now.state().footer.totals.last_txn;
            let time_us = now_us(footer.totals.last_time_us);
            let mut row = new_row(&mut footer.totals, time_us, RowKind::Checkpoint);
            row.covers = footer.refs.run.is_none().then(|| (0, row.txn - 1));
            row.refs = refs;
            rows.push(row);
        } else {
            footer.totals.last_txn = now.state().footer.totals.last_txn;
        }
        footer.totals.last_time_us = footer.totals.last_time_us.max(now.state().footer.totals.last_time_us);
        rewrite.append(rows, sources, footer, 0)?;
        Ok(carried)
    }

    /// Returns the transactions that `now` has and the source had not, in order.
    fn new_rows(&self, now: &Snapshot) -> Result<Vec<Row>> {
        let State { footer, append, .. } = self.source.state();
        let mut rows = vec![];
        for block in now.state().footer.blocks.iter().filter(|block| block.offset >= *append) {
            let batch = Batch::load(now.medium(), *block, now.object_format());
            let all = batch.and_then(|batch| batch.rows(now.medium()));
            let all = all.map_err(|error| read_error(now.path(), error))?;
            // Older rows may have been moved there to be merged. What was derived is derived anew.
            for row in all.into_iter().filter(|row| row.txn > footer.totals.last_txn) {
                refuse_foreign(now, &row)?;
                rows.extend(is_transaction(&row).then_some(row));
            }
        }
        rows.sort_by_key(|row| row.txn);
        Ok(rows)
    }

    /// Returns how the references of `now` differ from those of the source.
    fn changes(&self, now: &Snapshot) -> Result<Changes> {
        let old = self.source.ref_view()?.all();
        let new = now.ref_view()?.all();
        let mut changes: Changes = old
            .keys()
            .filter(|name| !new.contains_key(*name))
            .map(|name| (name.clone(), None))
            .collect();
        for (name, target) in new {
            if old.get(&name) != Some(&target) {
                changes.insert(name, Some(target));
            }
        }
        Ok(changes)
    }
}

/// Gives a row what was found out about its pack, where it came without.
fn fill(row: &mut Row, facts: Facts) {
    if row.proof == Proof::None {
        row.commits = facts.commits;
    }
    row.proof = Proof::Closed;
    let objects: &mut EntryTable = &mut row.objects;
    (objects.kinds, objects.sizes) = (facts.kinds, facts.sizes);
    row.index = (objects.len() >= object_index::MIN_OBJECTS).then(|| object_index::encode(objects));
}

fn missing(now: &Snapshot, oid: ObjectId, why: String) -> Error {
    Error::MissingObject {
        path: now.path().into(),
        oid,
        why,
    }
}
