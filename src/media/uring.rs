//! Writing and syncing with one system call: linked requests in an io_uring.
//!
//! The ring is given one write (or several, where there is too much for one) and a data sync, linked, so that each starts only
//! when the one before is complete; one `io_uring_enter` hands them over and waits for all. A write that falls short or fails
//! breaks the chain: the kernel cancels what follows, and the caller is told that nothing is known to be on the disk.
#![allow(unsafe_code)]

use std::{
    io::{self, IoSlice},
    os::fd::{AsRawFd, BorrowedFd},
    time::Duration,
};

use io_uring::{IoUring, opcode, register::Probe, squeue, types};

/// Requests that the ring holds: writes and one sync.
const ENTRIES: u32 = 16;
/// Slices that one write takes (UIO_MAXIOV, see readv(2)).
const MAX_SLICES: usize = 1024;
/// Bytes that one write takes: the kernel writes at most 2 GiB less a page at once, so more would fall short.
const MAX_WRITE: usize = 1 << 30;

/// A ring of requests to the kernel.
pub struct Ring {
    ring: IoUring,
}

/// Why a chain of requests did not get everything onto the disk.
#[derive(Debug)]
pub enum RingError {
    /// The kernel took none of the requests: nothing was written, and the ring is of no use.
    Refused(io::Error),
    /// A request failed or fell short: anything may have been written, and nothing is known to be on the disk.
    Failed(io::Error),
}

impl Ring {
    /// Sets a ring up.
    ///
    /// # Errors
    /// The kernel has no io_uring, or an administrator or a container forbids it, or the user has too many rings.
    pub fn new() -> io::Result<Ring> {
        let ring = IoUring::builder().dontfork().build(ENTRIES)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if [opcode::Writev::CODE, opcode::Fsync::CODE]
            .iter()
            .all(|code| probe.is_supported(*code))
        {
            Ok(Ring { ring })
        } else {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Returns whether [`Ring::write_and_sync`] takes these slices.
    pub fn fits(slices: &[IoSlice<'_>]) -> bool {
        chains(slices).is_some()
    }

    /// Writes `slices` one behind the other from `offset` on and syncs the file's data, in one call to the kernel.
    ///
    /// Returns when the kernel has answered every request, whatever the answers are: until then it may read the slices.
    ///
    /// # Errors
    /// See [`RingError`].
    pub fn write_and_sync(&mut self, fd: BorrowedFd<'_>, offset: u64, slices: &[IoSlice<'_>]) -> Result<(), RingError> {
        let chains = chains(slices).ok_or_else(|| RingError::Refused(io::ErrorKind::ArgumentListTooLong.into()))?;
        let file = types::Fd(fd.as_raw_fd());
        let (mut at, mut expected) = (offset, Vec::with_capacity(chains.len() + 1));
        let mut requests = Vec::with_capacity(chains.len() + 1);
        for chain in chains {
            let len: usize = chain.iter().map(|slice| slice.len()).sum();
            // An `IoSlice` has the layout of an `iovec`, by its documentation.
            let write = opcode::Writev::new(file, chain.as_ptr().cast(), chain.len() as u32)
                .offset(at)
                .build();
            requests.push(write.flags(squeue::Flags::IO_LINK).user_data(expected.len() as u64));
            expected.push(len);
            at += len as u64;
        }
        let sync = opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build();
        requests.push(sync.user_data(expected.len() as u64));
        expected.push(0);
        // SAFETY: the descriptor and the slices are borrowed until this function returns, and it does not return before every
        // request that the kernel took has been answered.
        unsafe { self.ring.submission().push_multiple(&requests) }
            .map_err(|_| RingError::Refused(io::ErrorKind::ResourceBusy.into()))?;
        self.drain(&expected)
    }

    /// Hands the requests over and waits until each is answered.
    fn drain(&mut self, expected: &[usize]) -> Result<(), RingError> {
        let (mut answered, mut failure) = (0, None);
        let mut handed_over = false;
        while answered < expected.len() {
            match self.ring.submit_and_wait(expected.len() - answered) {
                Ok(_) => handed_over = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What the kernel has not taken it will never answer.
                Err(error) if !handed_over && !self.ring.submission().is_empty() => {
                    return Err(RingError::Refused(error));
                }
                // It has taken them, and works on the slices: there is no way back but to look for the answers.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            for completion in self.ring.completion() {
                answered += 1;
                let index = completion.user_data() as usize;
                let result = completion.result();
                let error = match usize::try_from(result) {
                    Err(_) => io::Error::from_raw_os_error(-result),
                    Ok(written) if written == expected[index] => continue,
                    Ok(_) => io::ErrorKind::WriteZero.into(),
                };
                // The requests behind a failed one say that they were cancelled, which is not why.
                let cancelled = error.raw_os_error() == Some(libc::ECANCELED);
                if failure.is_none() || !cancelled {
                    failure = failure.filter(|_| cancelled).or(Some(error));
                }
            }
        }
        failure.map_or(Ok(()), |error| Err(RingError::Failed(error)))
    }
}

/// Cuts slices into as many writes as the kernel needs; `None` where the ring does not hold that many.
fn chains<'a, 'b>(slices: &'a [IoSlice<'b>]) -> Option<Vec<&'a [IoSlice<'b>]>> {
    let mut chains = vec![];
    let mut rest = slices;
    while !rest.is_empty() {
        let mut len = 0usize;
        let fits = |slice: &&IoSlice<'_>| {
            len = len.saturating_add(slice.len());
            len <= MAX_WRITE
        };
        let count = rest.iter().take(MAX_SLICES).take_while(fits).count();
        let (chain, behind) = rest.split_at_checked(count).filter(|_| count > 0)?;
        chains.push(chain);
        rest = behind;
    }
    (chains.len() < ENTRIES as usize).then_some(chains)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn slices_land_one_behind_the_other() {
        let Ok(mut ring) = Ring::new() else {
            eprintln!("NOT RUN: this kernel refuses io_uring");
            return;
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        let parts: Vec<Vec<u8>> = (0..3000u32).map(|n| n.to_le_bytes().to_vec()).collect();
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        ring.write_and_sync(file.as_file().as_fd(), 8, &slices).unwrap();
        let read = std::fs::read(file.path()).unwrap();
        assert_eq!(read[..8], [0; 8]);
        assert_eq!(read[8..], parts.concat());
    }

    #[test]
    fn a_failed_write_is_told_and_the_ring_goes_on() {
        let Ok(mut ring) = Ring::new() else {
            eprintln!("NOT RUN: this kernel refuses io_uring");
            return;
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        let read_only = std::fs::File::open(file.path()).unwrap();
        let slices = [IoSlice::new(b"abc")];
        match ring.write_and_sync(read_only.as_fd(), 0, &slices).unwrap_err() {
            // Not that what follows was cancelled.
            RingError::Failed(error) => assert_eq!(error.raw_os_error(), Some(libc::EBADF)),
            RingError::Refused(error) => panic!("{error}"),
        }
        ring.write_and_sync(file.as_file().as_fd(), 0, &slices).unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"abc");
    }
}
