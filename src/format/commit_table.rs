//! The commits of one row, as they stand in the `commits` column: searched in place.

use arrow_array::{
    Array, FixedSizeBinaryArray, ListArray, StructArray, TimestampSecondArray, UInt32Array,
    cast::AsArray,
    types::{TimestampSecondType, UInt32Type},
};
use gix_hash::oid;

use super::batch::object_id;
use crate::pack::{CommitNode, find_sorted};

/// The part of a row's commits that the graph is made of, sorted by id.
pub struct CommitTable {
    oids: FixedSizeBinaryArray,
    parents: ListArray,
    times: TimestampSecondArray,
    generations: UInt32Array,
}

impl CommitTable {
    /// Takes the commits of one row.
    pub(super) fn new(commits: &StructArray) -> CommitTable {
        CommitTable {
            oids: commits.column(0).as_fixed_size_binary().clone(),
            parents: commits.column(2).as_list().clone(),
            times: commits.column(4).as_primitive::<TimestampSecondType>().clone(),
            generations: commits.column(5).as_primitive::<UInt32Type>().clone(),
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.oids.is_empty()
    }

    /// Returns a commit's place in the graph, where the row has the commit.
    pub fn find(&self, id: &oid) -> Option<CommitNode> {
        find_sorted(self.oids.len(), id, |at| self.oids.value(at)).map(|at| self.node(at))
    }

    fn node(&self, index: usize) -> CommitNode {
        let parents = self.parents.value(index);
        let parents: &FixedSizeBinaryArray = parents.as_fixed_size_binary();
        CommitNode {
            parents: (0..parents.len()).map(|nth| object_id(parents.value(nth))).collect(),
            time: self.times.value(index),
            generation: Some(self.generations.value(index)).filter(|generation| *generation > 0),
        }
    }
}
