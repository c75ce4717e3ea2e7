//! Append and sync with one call to the kernel.

use std::io::IoSlice;

use super::{Arm, Durability, Safe, Unlanded};
use crate::{
    error::Error,
    media::{DiskFile, Ring, RingError},
};

/// Hands the kernel the write and the sync as one chain, and waits once: what survives is what survives after [`Safe`].
///
/// | answer of the kernel | what follows |
/// |---|---|
/// | all written, synced | the commit is done |
/// | a write fell short or failed, and cancelled the sync behind it | as after a failed sync: what was written is taken back |
/// | the sync failed | the same |
/// | no io_uring for this process, or none at all | this commit and all later ones are made as [`Safe`] makes them, and the user may know |
///
/// Whether the file is still the archive is asked after the sync and before the slot is written: there is no moment between
/// write and sync.
pub struct Uring {
    ring: Option<Ring>,
    note: Option<String>,
}

impl Uring {
    /// Sets the ring up, where the kernel lets it.
    pub fn new() -> Uring {
        match Ring::new() {
            Ok(ring) => Uring {
                ring: Some(ring),
                note: None,
            },
            Err(error) => Uring {
                ring: None,
                note: Some(refusal(&error)),
            },
        }
    }
}

impl Default for Uring {
    fn default() -> Self {
        Uring::new()
    }
}

fn refusal(error: &std::io::Error) -> String {
    format!("io_uring is not to be had here ({error}); commits are made as with durability safe")
}

impl Arm for Uring {
    fn durability(&self) -> Durability {
        match self.ring {
            Some(_) => Durability::Uring,
            None => Durability::Safe,
        }
    }

    fn land(
        &mut self,
        file: &dyn DiskFile,
        at: u64,
        slices: &[IoSlice<'_>],
        still_ours: &dyn Fn() -> Result<(), Error>,
    ) -> Result<(), Unlanded> {
        if let Some(ring) = &mut self.ring {
            match file.write_and_sync(ring, at, slices) {
                Ok(()) => return still_ours().map_err(Unlanded::NotOurs),
                Err(RingError::Failed(error)) => return Err(Unlanded::Sync(error)),
                Err(RingError::Refused(error)) => {
                    self.ring = None;
                    self.note = Some(refusal(&error));
                }
            }
        }
        Safe.land(file, at, slices, still_ours)
    }

    fn note(&mut self) -> Option<String> {
        self.note.take()
    }
}
