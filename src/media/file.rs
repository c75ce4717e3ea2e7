//! A file as a medium: positional reads and writes, never a memory map.

use std::{
    fs::File,
    io::{self, IoSlice},
    os::{fd::AsFd, unix::fs::FileExt},
};

use super::{Medium, Ring, RingError, look, sys};

/// Slices that one call takes (UIO_MAXIOV, see readv(2)).
const MAX_SLICES: usize = 1024;

/// An open file. Reads and writes go to the system at once; nothing is buffered here.
#[derive(Debug)]
pub struct FileMedium {
    file: File,
}

impl FileMedium {
    /// Wraps an open file.
    pub fn new(file: File) -> Self {
        FileMedium { file }
    }
    /// Returns the open file, to lock it or to ask for its metadata.
    pub fn file(&self) -> &File {
        &self.file
    }
    /// Returns the open file and ends the medium.
    pub fn into_file(self) -> File {
        self.file
    }
}

impl Medium for FileMedium {
    fn len(&self) -> io::Result<u64> {
        Ok(look::at_file(&self.file)?.len)
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }
    fn write_all_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.file.write_all_at(buf, offset)
    }
    fn write_slices_at(&self, offset: u64, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let mut slices = slices.to_vec();
        let (mut rest, mut at) = (&mut slices[..], offset);
        // Empty slices first, so that nothing written means that nothing more can be.
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let batch = &rest[..rest.len().min(MAX_SLICES)];
            match rustix::io::pwritev(&self.file, batch, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    at += written as u64;
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
    fn write_and_sync(&self, ring: &mut Ring, offset: u64, slices: &[IoSlice<'_>]) -> Result<(), RingError> {
        ring.write_and_sync(self.file.as_fd(), offset, slices)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn start_writeback(&self, offset: u64, len: u64) {
        sys::start_writeback(self.file.as_fd(), offset, len);
    }
}
