//! Good copies of what the archive knows to be damaged.
//!
//! A pack leaves out what the archive has, and damaged objects are not had: where the client has them, they go along with
//! whatever is pushed, in a pack of their own.

use std::path::Path;

use anyhow::Result;
use gix_hash::ObjectId;
use znippy::{
    Error,
    archive::{self, NewPack},
    pack::whole::WholePack,
};

use crate::{push::Push, spool};

/// What to call the pack in errors.
const NAME: &str = "the pack of good copies";

impl Push<'_> {
    /// Returns a pack with those of the archive's damaged objects that the client has, and notes what it builds on. `None` where
    /// there are none, or where they do not refer to what is there.
    ///
    /// # Errors
    /// Fails where the spool cannot be written, and where the archive cannot be read.
    pub fn good_copies(&self, relies_on: &mut Vec<ObjectId>) -> Result<Option<NewPack>> {
        let Some(snapshot) = self.snapshot.filter(|_| !self.options.dry_run) else {
            return Ok(None);
        };
        // A table that cannot be read is a warning of its own.
        let lost = match snapshot.damaged_objects() {
            Ok(lost) => lost,
            Err(error @ Error::Io { .. }) => return Err(error.into()),
            Err(_) => return Ok(None),
        };
        if lost.is_empty() {
            return Ok(None);
        }
        let objects = &mut *self.objects.borrow_mut();
        let mut pack = WholePack::new(spool::nameless()?, Path::new(NAME), self.format);
        for id in lost {
            if let Some(object) = objects.read(&id) {
                pack.add(&id, object.kind, &object.data)?;
            }
        }
        if pack.is_empty() {
            return Ok(None);
        }
        let count = pack.len();
        let pack = pack.finish()?;
        let proven = match archive::prove(Some(snapshot), &pack, 0, &[], None, None) {
            Ok(proven) => proven,
            Err(error @ Error::Io { .. }) => return Err(error.into()),
            Err(_) => return Ok(None),
        };
        self.options.voice.note(format_args!(
            "{count} objects that are damaged in the archive are sent again"
        ));
        relies_on.extend(proven.relies_on);
        let (data, path, id, entries) = pack.into_parts();
        Ok(Some(NewPack {
            data: data.into(),
            path,
            id,
            entries: entries.as_ref().clone(),
            proof: proven.proof,
            commits: proven.commits,
        }))
    }
}
