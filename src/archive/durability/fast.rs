//! Append only.

use std::io::IoSlice;

use super::{Arm, Durability, Unlanded};
use crate::{error::Error, media::DiskFile};

/// Writes and returns.
///
/// | crash after the return | the commit |
/// |---|---|
/// | the process dies, `kill -9` included | is there, for every reader at once |
/// | the machine loses power, or the kernel dies | may be gone, whole or in part; then it is not shown, and what was there before is |
/// | the disk fails to take it later | is named as damaged where it is read, and by the next commit that would confirm it |
///
/// On a disk that other machines write too, readers hash it before they show it, as any commit that no slot names.
pub struct Fast;

impl Arm for Fast {
    fn durability(&self) -> Durability {
        Durability::Fast
    }

    fn land(
        &mut self,
        file: &dyn DiskFile,
        at: u64,
        slices: &[IoSlice<'_>],
        still_ours: &dyn Fn() -> Result<(), Error>,
    ) -> Result<(), Unlanded> {
        file.write_slices_at(at, slices).map_err(Unlanded::Write)?;
        still_ours().map_err(Unlanded::NotOurs)
    }

    fn confirms(&self) -> bool {
        false
    }
}
