//! What a reference may point at, looked up in the archive.

use bstr::BStr;
use gix_hash::ObjectId;
use znippy::{
    archive::Snapshot,
    pack::{
        Kind,
        graph::{is_ancestor, peel},
        object::ObjectReader,
    },
    refs::Target,
};

use crate::cli::exit;

/// How many commits a transaction may read to find out which of its changes are fast-forwards: seconds, not minutes.
const MAX_COMMITS: usize = 500_000;
/// How many it may read for each change, however many changes there are.
const MIN_COMMITS_EACH: usize = 200;

/// The objects of a snapshot, with a cache for the time of a transaction.
pub struct Objects<'a> {
    reader: ObjectReader<'a>,
    commits_each: usize,
}

impl<'a> Objects<'a> {
    /// Prepares for a transaction of `changes` changes.
    pub fn new(snapshot: &'a Snapshot, changes: usize) -> Objects<'a> {
        Objects {
            reader: ObjectReader::new(snapshot),
            commits_each: (MAX_COMMITS / changes.max(1)).max(MIN_COMMITS_EACH),
        }
    }

    /// Returns `oid` as the value of the reference `name`.
    ///
    /// # Errors
    /// Fails with exit code 1 where the archive does not have the object, and where a branch would point at another kind
    /// of object than a commit.
    pub fn target(&self, name: &BStr, oid: ObjectId) -> anyhow::Result<Target> {
        if !self.reader.contains(&oid)? {
            return Err(exit::no(format!(
                "{name}: object {oid} is not in the archive; push it first"
            )));
        }
        let (kind, peeled) = peel(&self.reader, &oid)?;
        if kind != Kind::Commit && (name == "HEAD" || name.starts_with(b"refs/heads/")) {
            return Err(exit::no(format!(
                "{name}: {oid} is a {kind}, and branches point at commits only"
            )));
        }
        Ok(Target::Object { oid, peeled })
    }

    /// Returns whether it is certain that moving a reference from `old` to `new` leaves nothing behind: `old` is a commit
    /// and an ancestor of `new`. A long way and damage on it make it uncertain; the latter is for others to report.
    pub fn is_fast_forward(&self, old: ObjectId, new: ObjectId) -> bool {
        let known = || {
            is_ancestor(&self.reader, &old, &new, Some(self.commits_each))
                .ok()
                .flatten()
        };
        old == new || known() == Some(true)
    }
}
