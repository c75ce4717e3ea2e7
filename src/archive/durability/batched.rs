//! Many packs in one commit, and one sync for all.

use std::io::IoSlice;

use super::{Arm, Durability, Safe, Unlanded};
use crate::{error::Error, media::DiskFile};

/// Collects packs and reference edits, and writes them as one commit when it is finished: see [`super::super::Batch`].
///
/// | crash | the batch |
/// |---|---|
/// | before it is finished | has left no trace |
/// | while it is being finished | is there as a whole or not at all, with its references |
/// | after that returned | is there, whatever happened to process, kernel or power |
///
/// A commit with nothing to be collected, such as a push, is what [`Safe`] makes it.
pub struct Batched;

impl Arm for Batched {
    fn durability(&self) -> Durability {
        Durability::Batch
    }

    fn land(
        &mut self,
        file: &dyn DiskFile,
        at: u64,
        slices: &[IoSlice<'_>],
        still_ours: &dyn Fn() -> Result<(), Error>,
    ) -> Result<(), Unlanded> {
        Safe.land(file, at, slices, still_ours)
    }
}
