//! Storage under an archive: one growing byte array that can be read and written at any offset.
//!
//! Everything above works on [`Medium`] and [`Disk`], so that the same code runs on files, in memory, and on versions that
//! fail or crash on purpose.

mod attributes;
mod disk;
mod file;
mod local;
mod lock;
mod lock_file;
mod look;
mod mem;
mod mounts;
mod prefetch;
mod reach;
mod residence;
mod sys;
mod uring;

use std::io::{self, IoSlice};

pub use disk::{Disk, DiskFile, FileKind, Stat, Temporary};
pub use file::FileMedium;
pub use local::LocalDisk;
pub use lock::{LockByte, LockGuard, LockMode, lock_with_timeout, wait_for};
pub use lock_file::{
    Attempt, Holder, LockFile, break_path, lock_path, read as read_lock_file, remove as remove_lock_file,
};
pub use mem::MemMedium;
pub use mounts::unmounted_ancestor;
pub use prefetch::Prefetched;
pub use reach::LockReach;
pub use uring::{Ring, RingError};

/// A growing byte array. Offsets and lengths are bytes from its start.
pub trait Medium: Send + Sync {
    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Returns whether there are no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Fills `buf` from `offset`. Ending before `buf` is full is an error of kind `UnexpectedEof`, never a short read.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
    /// Writes all of `buf` at `offset`, growing the array where needed.
    fn write_all_at(&self, offset: u64, buf: &[u8]) -> io::Result<()>;
    /// Writes all of `slices` from `offset` on, one behind the other and in this order, growing the array where needed.
    fn write_slices_at(&self, offset: u64, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let mut at = offset;
        for slice in slices {
            self.write_all_at(at, slice)?;
            at += slice.len() as u64;
        }
        Ok(())
    }
    /// Does what [`Medium::write_slices_at`] and then [`Medium::sync_data`] do, in one call to the kernel by way of `ring`.
    ///
    /// # Errors
    /// `Refused` where that cannot be done here, and nothing was written.
    fn write_and_sync(&self, _ring: &mut Ring, _offset: u64, _slices: &[IoSlice<'_>]) -> Result<(), RingError> {
        Err(RingError::Refused(io::ErrorKind::Unsupported.into()))
    }
    /// Cuts or grows the array to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Returns when all that was written survives a power loss.
    fn sync_data(&self) -> io::Result<()>;
    /// Starts writing a range back without waiting for it and without any promise.
    fn start_writeback(&self, offset: u64, len: u64);
}

/// Reads `len` bytes at `offset` into a new vector.
pub fn read_vec(medium: &dyn Medium, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut buf = vec![0; len];
    medium.read_exact_at(offset, &mut buf)?;
    Ok(buf)
}
