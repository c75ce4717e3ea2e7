//! A disk that holds one file in memory, which may claim to be longer than its bytes.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use znippy::media::{Disk, DiskFile, FileKind, LockByte, Medium, MemMedium, Stat, Temporary};

/// A file of some bytes and then zeros.
pub struct MemFile {
    bytes: MemMedium,
    len: AtomicU64,
}

impl Medium for MemFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len.load(Ordering::Relaxed))
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset
            .checked_add(buf.len() as u64)
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        if end > self.len()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let held = self.bytes.len()?.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (bytes, zeros) = buf.split_at_mut(held);
        zeros.fill(0);
        self.bytes.read_exact_at(offset, bytes).or_else(|error| match held {
            0 => Ok(()),
            _ => Err(error),
        })
    }
    fn write_all_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.bytes.write_all_at(offset, buf)?;
        self.len.fetch_max(offset + buf.len() as u64, Ordering::Relaxed);
        Ok(())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        if len < self.bytes.len()? {
            self.bytes.set_len(len)?;
        }
        self.len.store(len, Ordering::Relaxed);
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn start_writeback(&self, _offset: u64, _len: u64) {}
}

impl DiskFile for MemFile {
    fn stat(&self) -> io::Result<Stat> {
        Ok(Stat {
            kind: FileKind::File,
            id: (1, 1),
            links: 1,
            len: self.len()?,
        })
    }
    fn try_lock(&self, _byte: LockByte) -> io::Result<bool> {
        Ok(true)
    }
    fn unlock(&self, _byte: LockByte) -> io::Result<()> {
        Ok(())
    }
    fn is_locked(&self, _byte: LockByte) -> io::Result<bool> {
        Ok(false)
    }
    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A disk on which every path is the same file, but for hidden ones, which are not there.
pub struct MemDisk {
    pub file: Arc<MemFile>,
}

impl MemDisk {
    pub fn new(bytes: Vec<u8>) -> MemDisk {
        let len = AtomicU64::new(bytes.len() as u64);
        let bytes = MemMedium::new(bytes);
        MemDisk {
            file: Arc::new(MemFile { bytes, len }),
        }
    }
}

/// Fails for a path that is not the file's.
fn exists(path: &Path) -> io::Result<()> {
    match path.to_string_lossy().starts_with('.') {
        true => Err(io::ErrorKind::NotFound.into()),
        false => Ok(()),
    }
}

impl Disk for MemDisk {
    fn open(&self, path: &Path, _write: bool) -> io::Result<Arc<dyn DiskFile>> {
        exists(path)?;
        Ok(self.file.clone())
    }
    fn create_new(&self, _path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Err(io::ErrorKind::AlreadyExists.into())
    }
    fn temporary(&self, _path: &Path) -> io::Result<Box<dyn Temporary>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        exists(path)?;
        self.file.stat()
    }
    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn remove(&self, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync_directory(&self, _directory: &Path) -> io::Result<()> {
        Ok(())
    }
}
