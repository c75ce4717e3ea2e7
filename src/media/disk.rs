//! What an archive needs of a file system beyond the bytes of one open file.
//!
//! Paths, names, locks and directories are reached through [`Disk`], so that the order of every step that makes something
//! durable can be run on a disk that crashes or fails on purpose.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{LockByte, LockReach, Medium};

/// What kind of thing a path or an open file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    /// A pipe, a device, a socket.
    Other,
}

/// What a disk says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub kind: FileKind,
    /// Device and inode number: two files are the same if these are. Not stable on every network disk.
    pub id: (u64, u64),
    /// How many names the file has.
    pub links: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// An open file: its bytes, and what the disk knows about it.
pub trait DiskFile: Medium {
    /// Returns what the disk says of the open file, which may have lost its name.
    fn stat(&self) -> io::Result<Stat>;
    /// Takes a lock that nobody else holds and returns true, or returns false. The lock belongs to this open file.
    ///
    /// # Errors
    /// Every error means that the disk cannot lock.
    fn try_lock(&self, byte: LockByte) -> io::Result<bool>;
    /// Gives a lock back.
    fn unlock(&self, byte: LockByte) -> io::Result<()>;
    /// Returns whether another open file holds the lock. Needs no right to write.
    fn is_locked(&self, byte: LockByte) -> io::Result<bool>;
    /// Returns a name for the time and place in which bytes, once written, are there for everybody without a sync: this boot of
    /// this machine, and this mount. `None` where bytes may vanish earlier, or where nothing is known.
    ///
    /// A mount has a name of its own each time: what another one shows may come from a copy of the disk that lacks bytes which
    /// were only in memory, or from the disk after a crash.
    fn residence(&self) -> Option<String> {
        None
    }
    /// Returns how far a lock on the file reaches.
    fn lock_reach(&self) -> io::Result<LockReach> {
        Ok(LockReach::Machine)
    }
    /// Makes the system forget what it has in memory of a range whose bytes were synced, so that the next read asks the disk. A
    /// hint: where it is not taken, what is read may be what this machine wrote.
    fn forget(&self, _offset: u64, _len: u64) {}
    /// Returns when bytes, length and mode survive a power loss.
    fn sync_all(&self) -> io::Result<()>;
}

/// A file that nobody can find yet; it is gone when this is dropped without a [`Temporary::link`].
pub trait Temporary: Send {
    fn file(&self) -> Arc<dyn DiskFile>;
    /// Gives the file its name.
    ///
    /// # Errors
    /// `AlreadyExists` where the name is taken; then that file is untouched.
    fn link(self: Box<Self>, path: &Path) -> io::Result<()>;
}

/// A file system.
pub trait Disk: Send + Sync {
    /// Opens an existing file for reading, and for writing too if `write`.
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn DiskFile>>;
    /// Creates a file that must not exist, and opens it for reading and writing.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Creates a file that is to become `path`, in the same directory.
    fn temporary(&self, path: &Path) -> io::Result<Box<dyn Temporary>>;
    /// Returns what `path` names now; symbolic links are followed.
    fn stat(&self, path: &Path) -> io::Result<Stat>;
    /// Gives the file `from` the name `to`, which is taken from the file that had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes a name away.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Returns when the names in a directory survive a power loss. A disk that cannot do that says so with `EINVAL`.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;
    /// Returns the path of the file itself, without symbolic links on the way.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.into())
    }
    /// Returns whether a file system, or another file, is mounted at the path.
    fn is_mount_point(&self, _path: &Path) -> bool {
        false
    }
    /// Gives the file `to` the owner, group, mode, access list and extended attributes of `from`.
    ///
    /// # Errors
    /// Fails where one of them cannot be given: the file then must not take the other's place.
    fn copy_attributes(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Ok(())
    }
}
