//! A disk with a mind of its own: the local one, with something that happens in between.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use znippy::media::{Disk, DiskFile, LocalDisk, LockByte, LockReach, Medium, Stat, Temporary};

/// When something happens, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before the writer lock is taken.
    Lock,
    /// Before the first byte of a commit is written.
    Write,
    /// Before its sync, where that of its place came before.
    Sync,
    Never,
}

/// What happens once.
type Event = Arc<dyn Fn() + Send + Sync>;

/// The local disk, but for what its fields say.
#[derive(Clone)]
pub struct OddDisk {
    pub when: When,
    pub event: Event,
    pub happened: Arc<AtomicBool>,
    /// What is said of locks.
    pub reach: LockReach,
    /// Locks are said to be taken, and are not.
    pub locks_lie: bool,
    /// What a rename is refused with.
    pub rename: Option<i32>,
    /// How many reads fail because another machine has replaced the file.
    pub stale_reads: Arc<AtomicUsize>,
    pub syncs: Arc<AtomicUsize>,
}

impl Default for OddDisk {
    fn default() -> Self {
        OddDisk {
            when: When::Never,
            event: Arc::new(|| ()),
            happened: Arc::default(),
            reach: LockReach::Machine,
            locks_lie: false,
            rename: None,
            stale_reads: Arc::default(),
            syncs: Arc::default(),
        }
    }
}

impl OddDisk {
    fn at(&self, when: When) {
        if self.when == when && !self.happened.swap(true, Ordering::Relaxed) {
            (self.event)();
        }
    }
    fn wrap(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(OddFile(file, self.clone()))
    }
}

impl Disk for OddDisk {
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.wrap(LocalDisk.open(path, write)?))
    }
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.wrap(LocalDisk.create_new(path)?))
    }
    fn temporary(&self, path: &Path) -> io::Result<Box<dyn Temporary>> {
        LocalDisk.temporary(path)
    }
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        LocalDisk.stat(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self.rename {
            Some(error) => Err(io::Error::from_raw_os_error(error)),
            None => LocalDisk.rename(from, to),
        }
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        LocalDisk.remove(path)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        LocalDisk.sync_directory(directory)
    }
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        LocalDisk.canonical(path)
    }
}

struct OddFile(Arc<dyn DiskFile>, OddDisk);

impl Medium for OddFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let less = |left: usize| left.checked_sub(1);
        let stale = self
            .1
            .stale_reads
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        match stale {
            Ok(_) => Err(io::Error::from_raw_os_error(libc::ESTALE)),
            Err(_) => self.0.read_exact_at(offset, buf),
        }
    }
    fn write_all_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.1.at(When::Write);
        self.0.write_all_at(offset, buf)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        if self.1.syncs.fetch_add(1, Ordering::Relaxed) == 1 {
            self.1.at(When::Sync);
        }
        self.0.sync_data()
    }
    fn start_writeback(&self, offset: u64, len: u64) {
        self.0.start_writeback(offset, len);
    }
}

impl DiskFile for OddFile {
    fn stat(&self) -> io::Result<Stat> {
        self.0.stat()
    }
    fn try_lock(&self, byte: LockByte) -> io::Result<bool> {
        self.1.at(When::Lock);
        if self.1.locks_lie {
            return Ok(true);
        }
        self.0.try_lock(byte)
    }
    fn unlock(&self, byte: LockByte) -> io::Result<()> {
        self.0.unlock(byte)
    }
    fn is_locked(&self, byte: LockByte) -> io::Result<bool> {
        if self.1.locks_lie {
            return Ok(false);
        }
        self.0.is_locked(byte)
    }
    fn lock_reach(&self) -> io::Result<LockReach> {
        Ok(self.1.reach.clone())
    }
    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}
