//! Append, and one sync.

use std::io::IoSlice;

use super::{Arm, Durability, Unlanded};
use crate::{error::Error, media::DiskFile};

/// Writes, syncs, and returns: the default.
///
/// | crash after the return | the commit |
/// |---|---|
/// | the process dies, `kill -9` included | is there |
/// | the machine loses power, or the kernel dies | is there |
/// | the disk breaks its word about the sync | is found damaged, and what was there before is there |
pub struct Safe;

impl Arm for Safe {
    fn durability(&self) -> Durability {
        Durability::Safe
    }

    fn land(
        &mut self,
        file: &dyn DiskFile,
        at: u64,
        slices: &[IoSlice<'_>],
        still_ours: &dyn Fn() -> Result<(), Error>,
    ) -> Result<(), Unlanded> {
        file.write_slices_at(at, slices).map_err(Unlanded::Write)?;
        still_ours().map_err(Unlanded::NotOurs)?;
        file.sync_data().map_err(Unlanded::Sync)
    }
}
