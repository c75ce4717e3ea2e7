//! The commit graph of a snapshot: the `commits` columns of its batches, the newest first, read as far as a search goes.
//!
//! A commit stands in the row of its pack, or, where that was stored without proof, in the index row that made up for it. Who
//! asks mostly wants a commit that was pushed lately, so nothing older is read before it is needed, and the archive's size does
//! not matter.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

use gix_hash::oid;

use super::{Snapshot, file::read_error};
use crate::{
    error::Result,
    format::{
        batch::{Batch, ReadError},
        commit_table::CommitTable,
        footer::BlockRef,
    },
    media::{Medium, Prefetched},
    pack::CommitNode,
};

/// The most bytes of the file that one read may span to get several batches.
const WINDOW: u64 = 1 << 20;

/// What was read of the graph.
#[derive(Default)]
pub struct Graph(Mutex<Tables>);

#[derive(Default)]
struct Tables {
    /// From the newest batch to the oldest that was read.
    tables: Vec<CommitTable>,
    /// How many batches were read.
    read: usize,
    /// The table that had the last commit: its parents are likely there too.
    last: usize,
}

impl Snapshot {
    /// Returns a commit's place in the graph, where the archive's columns have it: proven packs do. `None` says nothing of
    /// whether the commit is there.
    ///
    /// # Errors
    /// Fails where the medium does. A batch that is damaged is left out: the commits themselves are in the packs.
    pub fn commit_node(&self, id: &oid) -> Result<Option<CommitNode>> {
        let mut tables = self.graph().0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = tables.find(id, 0) {
            return Ok(Some(node));
        }
        loop {
            let (found, blocks) = (tables.tables.len(), &self.state().footer.blocks);
            let unread = &blocks[..blocks.len() - tables.read];
            if unread.is_empty() {
                return Ok(None);
            }
            // The last push is the best guess. After that, as many at once as one read brings.
            let group = if tables.read == 0 {
                &unread[unread.len() - 1..]
            } else {
                last_group(unread)
            };
            tables.read += group.len();
            load(self.medium(), group, Snapshot::object_format(self), &mut tables.tables)
                .map_err(|error| read_error(self.path(), error))?;
            if let Some(node) = tables.find(id, found) {
                return Ok(Some(node));
            }
        }
    }

    /// Returns the generation of a commit, where the commit graph has it.
    pub fn commit_generation(&self, id: &oid) -> Result<Option<u32>> {
        Ok(self.commit_node(id)?.and_then(|node| node.generation))
    }
}

impl Tables {
    /// Finds a commit in the tables from `first` on.
    fn find(&mut self, id: &oid, first: usize) -> Option<CommitNode> {
        if let Some(node) = self.tables.get(self.last).and_then(|table| table.find(id)) {
            return Some(node);
        }
        let found = |(index, table): (usize, &CommitTable)| table.find(id).map(|node| (index, node));
        let (index, node) = self.tables.iter().enumerate().skip(first).find_map(found)?;
        self.last = index;
        Some(node)
    }
}

/// Returns the last of `blocks`, and those before it that one read brings too.
fn last_group(blocks: &[BlockRef]) -> &[BlockRef] {
    let reads: Vec<Range<u64>> = blocks.iter().map(|block| Batch::first_read(*block)).collect();
    let end = reads.last().map_or(0, |read| read.end);
    let (mut start, mut wanted) = (blocks.len(), 0);
    for (index, read) in reads.iter().enumerate().rev() {
        wanted += read.end - read.start;
        let span = end.saturating_sub(read.start);
        let is_dense = span <= WINDOW && span / 2 <= wanted;
        if index + 1 < blocks.len() && !is_dense {
            break;
        }
        start = index;
    }
    &blocks[start..]
}

/// Reads the commits of batches, the last first.
fn load(
    medium: &dyn Medium,
    blocks: &[BlockRef],
    kind: gix_hash::Kind,
    tables: &mut Vec<CommitTable>,
) -> Result<(), ReadError> {
    let medium = &Prefetched::read(medium, blocks.iter().map(|block| Batch::first_read(*block)));
    for block in blocks.iter().rev() {
        match Batch::load(medium, *block, kind).and_then(|batch| batch.commit_tables(medium)) {
            Ok(found) => tables.extend(found),
            Err(ReadError::Damaged(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
