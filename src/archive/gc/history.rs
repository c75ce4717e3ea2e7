//! What an archive's rows say beside the packs: who moved which reference when, the commit graph, and earlier rewrites.

use std::collections::HashMap;

use gix_hash::ObjectId;

use super::record::Record;
use crate::{
    archive::{Snapshot, file::read_error},
    error::{Error, Result},
    format::{
        batch::Batch,
        commit_rows::CommitRow,
        row::{Row, RowKind},
    },
    pack::EntryTable,
};

/// Everything a rewrite keeps of the old rows.
pub struct History {
    /// The transactions that moved references or changed settings, without their packs, in order.
    pub rows: Vec<Row>,
    /// The commits of all packs.
    pub commits: HashMap<ObjectId, CommitRow>,
    /// What index rows found out about the packs of transactions: their tables with kinds.
    pub resolved: HashMap<u64, EntryTable>,
    /// What the last rewrite noted.
    pub record: Record,
}

impl History {
    /// Reads all rows of a snapshot. Memory: some 100 bytes a commit of the graph and an edit of a reference, and 21 bytes and
    /// an id for each object that an index row lists.
    pub fn read(snapshot: &Snapshot) -> Result<History> {
        let mut history = History {
            rows: vec![],
            commits: HashMap::new(),
            resolved: HashMap::new(),
            record: Record::default(),
        };
        let kind = snapshot.object_format();
        for block in &snapshot.state().footer.blocks {
            let rows = Batch::load(snapshot.medium(), *block, kind).and_then(|batch| batch.rows(snapshot.medium()));
            for row in rows.map_err(|error| read_error(snapshot.path(), error))? {
                refuse_foreign(snapshot, &row)?;
                history.add(row, snapshot.generation(), kind);
            }
        }
        history.rows.sort_by_key(|row| row.txn);
        Ok(history)
    }

    fn add(&mut self, mut row: Row, generation: u64, kind: gix_hash::Kind) {
        if row.kind == RowKind::Gc {
            self.record = Record::from_row(&row, generation, kind);
        }
        if let (RowKind::Index, Some((txn, _))) = (row.kind, row.covers)
            && !row.objects.is_empty()
        {
            self.resolved.insert(txn, std::mem::take(&mut row.objects));
        }
        let commits = std::mem::take(&mut row.commits);
        self.commits.extend(commits.iter().map(|commit| (commit.oid, commit)));
        if is_transaction(&row) && !is_pack_only(&row) {
            self.rows.push(Row {
                objects: EntryTable::default(),
                index: None,
                pack: None,
                ..row
            });
        }
    }

    /// Returns the first transaction from which on all states are whole when the objects that `gone` names are gone.
    pub fn horizon(&self, gone: impl Fn(&ObjectId) -> bool) -> u64 {
        let lost = |row: &&Row| {
            let mut old = row.refs.iter().filter(|edit| edit.old_oid != edit.new_oid);
            old.any(|edit| edit.old_oid.as_ref().is_some_and(&gone))
        };
        let last = self.rows.iter().rev().find(lost).map_or(0, |row| row.txn);
        last.max(self.record.horizon)
    }
}

/// Refuses to rewrite what a later version wrote: what it says would be lost.
pub fn refuse_foreign(snapshot: &Snapshot, row: &Row) -> Result<()> {
    match row.is_foreign {
        false => Ok(()),
        true => Err(Error::Invalid(format!(
            "{}: transaction {} was written by a later version of znippy, which must do the gc",
            snapshot.path().display(),
            row.txn
        ))),
    }
}

/// Returns whether a row tells what happened, not what was derived from that.
pub fn is_transaction(row: &Row) -> bool {
    !matches!(row.kind, RowKind::Checkpoint | RowKind::Index | RowKind::Gc)
}

/// Returns whether a row is there for its pack alone: one of several of a transaction.
fn is_pack_only(row: &Row) -> bool {
    row.kind == RowKind::Push && row.refs.is_empty()
}
