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

/// The objects of a snapshot, with a cache for the time of a transaction.
pub struct Objects<'a> {
    reader: ObjectReader<'a>,
}

impl<'a> Objects<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Objects<'a> {
        Objects {
            reader: ObjectReader::new(snapshot),
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
    /// and an ancestor of `new`. Damage on the way makes it uncertain, and is for others to report.
    pub fn is_fast_forward(&self, old: ObjectId, new: ObjectId) -> bool {
        old == new || is_ancestor(&self.reader, &old, &new, None).is_ok_and(|answer| answer == Some(true))
    }
}
