//! A [`Volume`] as the disk of an archive.

use std::{
    io::{self, IoSlice},
    path::Path,
    sync::Arc,
};

use znippy::media::{Disk, DiskFile, FileKind, LockByte, LockReach, Medium, Ring, RingError, Stat, Temporary};

use crate::volume::{Ino, Volume};

/// The one directory of the disk.
pub const DIRECTORY: &str = "/volume";

/// A disk in memory, for any number of processes.
#[derive(Clone)]
pub struct CrashDisk(pub Arc<Volume>);

struct OpenFile {
    volume: Arc<Volume>,
    ino: Ino,
    handle: u64,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.volume.close(self.handle);
    }
}

struct Nameless(Arc<OpenFile>);

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn lock_offset(byte: LockByte) -> u64 {
    match byte {
        LockByte::Writer => 0,
        _ => 1,
    }
}

impl CrashDisk {
    fn file(&self, ino: Ino) -> OpenFile {
        OpenFile {
            volume: self.0.clone(),
            ino,
            handle: self.0.handle(),
        }
    }
}

impl OpenFile {
    fn stat_of(volume: &Volume, ino: Ino) -> io::Result<Stat> {
        Ok(Stat {
            kind: FileKind::File,
            id: (1, volume.id(ino)),
            links: volume.links(ino),
            len: volume.len(ino)?,
        })
    }
}

impl Disk for CrashDisk {
    fn open(&self, path: &Path, _write: bool) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(self.file(self.0.open(&name_of(path))?)))
    }
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.file(self.0.create()?);
        self.0.link(file.ino, &name_of(path))?;
        Ok(Arc::new(file))
    }
    fn temporary(&self, _path: &Path) -> io::Result<Box<dyn Temporary>> {
        Ok(Box::new(Nameless(Arc::new(self.file(self.0.create()?)))))
    }
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        if path == Path::new(DIRECTORY) {
            return Ok(Stat {
                kind: FileKind::Directory,
                id: (1, u64::MAX),
                links: 1,
                len: 0,
            });
        }
        let ino = self.0.named(&name_of(path))?.ok_or(io::ErrorKind::NotFound)?;
        OpenFile::stat_of(&self.0, ino)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(&name_of(from), &name_of(to))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.unlink(&name_of(path))
    }
    fn sync_directory(&self, _directory: &Path) -> io::Result<()> {
        self.0.sync_dir()
    }
}

impl Medium for OpenFile {
    fn len(&self) -> io::Result<u64> {
        self.volume.len(self.ino)
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.volume.read(self.ino, offset, buf)
    }
    fn write_all_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.volume.write(self.ino, offset, buf)
    }
    /// The kernel makes a sync that is linked to a write after it, and not at all where that failed.
    fn write_and_sync(&self, _: &mut Ring, offset: u64, slices: &[IoSlice<'_>]) -> Result<(), RingError> {
        let done = self.write_slices_at(offset, slices).and_then(|()| self.sync_data());
        done.map_err(RingError::Failed)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.volume.set_len(self.ino, len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.volume.sync(self.ino)
    }
    fn start_writeback(&self, _offset: u64, _len: u64) {}
}

impl DiskFile for OpenFile {
    fn stat(&self) -> io::Result<Stat> {
        OpenFile::stat_of(&self.volume, self.ino)
    }
    fn try_lock(&self, byte: LockByte) -> io::Result<bool> {
        self.volume.try_lock(self.ino, lock_offset(byte), self.handle)
    }
    fn unlock(&self, byte: LockByte) -> io::Result<()> {
        self.volume.unlock(lock_offset(byte), self.handle);
        Ok(())
    }
    fn is_locked(&self, byte: LockByte) -> io::Result<bool> {
        Ok(self.volume.is_locked(self.ino, lock_offset(byte), self.handle))
    }
    fn lock_reach(&self) -> io::Result<LockReach> {
        Ok(match self.volume.is_on_network() {
            true => LockReach::Network,
            false => LockReach::Machine,
        })
    }
    fn sync_all(&self) -> io::Result<()> {
        self.volume.sync(self.ino)
    }
}

impl Temporary for Nameless {
    fn file(&self) -> Arc<dyn DiskFile> {
        self.0.clone()
    }
    fn link(self: Box<Self>, path: &Path) -> io::Result<()> {
        self.0.volume.link(self.0.ino, &name_of(path))
    }
}
