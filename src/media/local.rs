//! The file systems of this machine.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    num::NonZeroU64,
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::{OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{Advice, AtFlags, CWD, Mode, OFlags};

use super::{
    Disk, DiskFile, FileMedium, Holder, LockByte, LockReach, Stat, Temporary, attributes, look, mounts, reach,
    residence,
    sys::{self, OfdLock},
};

/// Whatever the operating system mounts.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalDisk;

impl DiskFile for FileMedium {
    fn stat(&self) -> io::Result<Stat> {
        look::at_file(self.file())
    }
    fn try_lock(&self, byte: LockByte) -> io::Result<bool> {
        match sys::ofd_lock(self.file().as_fd(), byte.offset(), OfdLock::TryExclusive) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
    fn unlock(&self, byte: LockByte) -> io::Result<()> {
        sys::ofd_lock(self.file().as_fd(), byte.offset(), OfdLock::Unlock)
    }
    fn is_locked(&self, byte: LockByte) -> io::Result<bool> {
        sys::ofd_is_locked(self.file().as_fd(), byte.offset())
    }
    fn residence(&self) -> Option<String> {
        residence::of(self.file())
    }
    fn lock_reach(&self) -> io::Result<LockReach> {
        reach::of(self.file())
    }
    fn forget(&self, offset: u64, len: u64) {
        // Only whole pages are forgotten; no machine has larger ones.
        const PAGES: u64 = 64 << 10;
        let start = offset - offset % PAGES;
        let len = (offset + len).next_multiple_of(PAGES) - start;
        let _ = rustix::fs::fadvise(self.file(), start, NonZeroU64::new(len), Advice::DontNeed);
    }
    fn sync_all(&self) -> io::Result<()> {
        self.file().sync_all()
    }
}

impl Disk for LocalDisk {
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        // Without O_NONBLOCK, opening a named pipe would wait for its other end for ever. On a regular file it does nothing.
        options.read(true).write(write).custom_flags(libc::O_NONBLOCK);
        Ok(Arc::new(FileMedium::new(options.open(path)?)))
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        let created = options.read(true).write(true).create_new(true).open(path);
        let file = created.map_err(|error| or_exists(path, error))?;
        Ok(Arc::new(FileMedium::new(file)))
    }

    fn temporary(&self, path: &Path) -> io::Result<Box<dyn Temporary>> {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mode = Mode::from_raw_mode(0o666);
        if let Ok(file) = rustix::fs::open(parent, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
            return Ok(Box::new(LocalTemporary {
                file: Arc::new(FileMedium::new(file.into())),
                named: None,
            }));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (file, named) = tempfile::Builder::new()
            .prefix(&format!(".{name}."))
            .suffix(".tmp")
            .permissions(fs::Permissions::from_mode(0o666))
            .tempfile_in(parent)?
            .into_parts();
        Ok(Box::new(LocalTemporary {
            file: Arc::new(FileMedium::new(file)),
            named: Some(named),
        }))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        look::at_path(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }

    fn is_mount_point(&self, path: &Path) -> bool {
        mounts::is_mount_point(path)
    }

    fn copy_attributes(&self, from: &Path, to: &Path) -> io::Result<()> {
        attributes::copy(from, to)
    }
}

/// A file without a name, or with one that is removed on drop where the disk has no nameless files.
struct LocalTemporary {
    file: Arc<FileMedium>,
    named: Option<tempfile::TempPath>,
}

impl Temporary for LocalTemporary {
    fn file(&self) -> Arc<dyn DiskFile> {
        self.file.clone()
    }

    fn link(self: Box<Self>, path: &Path) -> io::Result<()> {
        match self.named {
            Some(named) => named
                .persist_noclobber(path)
                .or_else(|error| match error.error.raw_os_error() {
                    Some(libc::EPERM | libc::ENOTSUP | libc::ENOSYS | libc::EINVAL) => {
                        replace_own(error.path, path).map_err(|error| or_exists(path, error))
                    }
                    _ => Err(error.error),
                }),
            None => {
                let source = format!("/proc/self/fd/{}", self.file.file().as_raw_fd());
                let link = || rustix::fs::linkat(CWD, &source, CWD, path, AtFlags::SYMLINK_FOLLOW);
                Ok(rustix::io::retry_on_intr(link)?)
            }
        }
    }
}

/// Renames where the disk has neither links nor renames that do not replace: the name is taken by creating a file, which is the
/// one that is replaced. It says who is doing that, in the lines of a lock file, for those who meet it.
fn replace_own(from: tempfile::TempPath, to: &Path) -> io::Result<()> {
    let mut own = OpenOptions::new().write(true).create_new(true).open(to)?;
    let told = own.write_all(Holder::this().encode().as_bytes());
    // Some disks do not rename over an open file.
    drop(own);
    let placed = told.and_then(|()| from.persist(to).map_err(|error| error.error));
    placed.inspect_err(|_| {
        // Nobody takes it for an archive.
        let _ = fs::remove_file(to);
    })
}

/// Returns the error of a call that must not find a file at `path`. SFTP has no number for one that does, and sshfs makes EPERM of
/// it.
fn or_exists(path: &Path, error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EPERM) if fs::symlink_metadata(path).is_ok() => io::ErrorKind::AlreadyExists.into(),
        _ => error,
    }
}
