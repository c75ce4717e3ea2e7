//! System calls that have no safe wrapper elsewhere. The only `unsafe` of the project.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

/// What to ask of an open-file-description lock.
#[derive(Clone, Copy)]
pub enum OfdLock {
    /// Take an exclusive lock without waiting.
    TryExclusive,
    /// Give the lock back.
    Unlock,
}

fn flock(kind: libc::c_int, offset: u64) -> libc::flock {
    // SAFETY: `flock` is plain data for which all zeros is a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = offset as libc::off_t;
    lock.l_len = 1;
    lock
}

/// Takes or gives back an open-file-description lock on the byte at `offset`.
///
/// # Errors
/// `WouldBlock` where somebody else holds it.
pub fn ofd_lock(fd: BorrowedFd<'_>, offset: u64, request: OfdLock) -> io::Result<()> {
    let lock = match request {
        OfdLock::TryExclusive => flock(libc::F_WRLCK, offset),
        OfdLock::Unlock => flock(libc::F_UNLCK, offset),
    };
    // SAFETY: the descriptor is open for the duration of the borrow and `lock` is a valid `flock` that outlives the call.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &lock) } {
        0 => Ok(()),
        _ => Err(match io::Error::last_os_error() {
            // Both mean "held by somebody else" (fcntl(2)).
            error if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EAGAIN)) => {
                io::ErrorKind::WouldBlock.into()
            }
            error => error,
        }),
    }
}

/// Returns whether another open file description holds a lock on the byte at `offset`. Works on a read-only descriptor.
pub fn ofd_is_locked(fd: BorrowedFd<'_>, offset: u64) -> io::Result<bool> {
    let mut lock = flock(libc::F_WRLCK, offset);
    // SAFETY: as above; the call writes to `lock`, which is borrowed mutably.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) } {
        0 => Ok(lock.l_type != libc::F_UNLCK as libc::c_short),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Asks the kernel to start writing a range back. A hint: failure changes nothing that was promised.
pub fn start_writeback(fd: BorrowedFd<'_>, offset: u64, len: u64) {
    // SAFETY: takes no pointers.
    unsafe {
        libc::sync_file_range(
            fd.as_raw_fd(),
            offset as libc::off64_t,
            len as libc::off64_t,
            libc::SYNC_FILE_RANGE_WRITE,
        );
    }
}
