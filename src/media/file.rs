//! A file as a medium: positional reads and writes, never a memory map.

use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::fs::FileExt},
};

use super::{Medium, sys};

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
        Ok(self.file.metadata()?.len())
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }
    fn write_all_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.file.write_all_at(buf, offset)
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
