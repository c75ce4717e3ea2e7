//! The history of the references.

use super::{Snapshot, file::read_error};
use crate::{
    error::Result,
    format::{
        batch::Batch,
        row::{Row, RowKind},
    },
};

impl Snapshot {
    /// Returns every transaction that moved references, in order, without what belongs to its pack.
    ///
    /// # Errors
    /// Fails where a row cannot be read.
    pub fn edits(&self) -> Result<Vec<Row>> {
        let mut edits = vec![];
        for block in &self.state().footer.blocks {
            let batch = Batch::load(self.medium(), *block, self.object_format());
            let rows = batch.and_then(|batch| batch.head_rows(self.medium()));
            let rows = rows.map_err(|error| read_error(self.path(), error))?;
            let moved = |row: &Row| row.kind == RowKind::Push && !row.refs.is_empty();
            edits.extend(rows.into_iter().filter(moved));
        }
        edits.sort_by_key(|row| row.txn);
        Ok(edits)
    }
}
