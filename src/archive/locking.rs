//! Keeping other writers away, in the way that was asked for.

use std::{io, path::Path};

use super::WritePolicy;
use crate::{
    error::{Error, Result},
    media::{
        Attempt, Disk, DiskFile, Holder, LockByte, LockFile, LockGuard, LockMode, LockReach, lock_path,
        lock_with_timeout, read_lock_file, wait_for,
    },
};

/// The writer lock of an archive, held until this is dropped. The lock file goes first: who waits for it looks at the archive
/// next.
pub struct WriterLock<'a> {
    _file: Option<LockFile<'a>>,
    _os: Option<LockGuard<'a>>,
}

/// Returns how far a lock on an archive's file reaches.
pub fn reach(file: &dyn DiskFile, path: &Path) -> Result<LockReach> {
    file.lock_reach().map_err(Error::io(path, "tell the file system of"))
}

/// Takes the writer lock of an open archive.
///
/// # Errors
/// R25: fails where a lock is not known to reach the other machines that may write there, unless the policy says that there are
/// none or that a lock file is to be used. R27: fails after the policy's timeout without progress of the holder.
pub fn take_lock<'f, 'p: 'f>(
    file: &'f dyn DiskFile,
    path: &Path,
    reach: &LockReach,
    policy: &mut WritePolicy<'p>,
) -> Result<WriterLock<'f>> {
    let mode = policy.lock;
    if let (LockReach::Unknown(why), LockMode::Os) = (reach, mode) {
        return Err(Error::LockNotShared {
            path: path.into(),
            why: why.clone(),
        });
    }
    let (disk, timeout) = (policy.disk, policy.timeout);
    let mut holder = None;
    let mut tell = |what: &str, waited: std::time::Duration, rate: u64| {
        if let Some(on_wait) = &mut policy.on_wait {
            let rate = match rate {
                0 => String::new(),
                rate => format!(", which writes {} KiB/s", rate.div_ceil(1024)),
            };
            let waited = waited.as_secs();
            on_wait(&format!("waiting {waited} s for {what} of {}{rate}", path.display()));
        }
    };
    let timed_out = |source: io::Error, holder: Option<Holder>| match source.kind() {
        io::ErrorKind::TimedOut => Error::Locked {
            path: path.into(),
            holder: holder.map_or_else(String::new, |holder| {
                format!(" ({holder}; lock file {})", lock_path(path).display())
            }),
            waited_s: timeout.as_secs(),
        },
        _ => Error::CannotLock {
            path: path.into(),
            source,
        },
    };
    let lock_file = match mode {
        LockMode::File => {
            let attempt = || match LockFile::try_create(disk, path)? {
                Attempt::Locked(lock) => Ok(Some(lock)),
                Attempt::Held(by) => {
                    holder = by;
                    Ok(None)
                }
            };
            let on_wait = |waited, rate| tell("the holder of the lock file", waited, rate);
            match wait_for(|| file.len(), timeout, attempt, on_wait) {
                Ok(lock) => Some(lock),
                Err(error) => return Err(timed_out(error, holder)),
            }
        }
        LockMode::Os | LockMode::Local => None,
    };
    // Beside a lock file it keeps away who does not know of that one on this machine, where the disk can do it.
    let on_wait = |waited, rate| tell("another writer", waited, rate);
    let os = match lock_with_timeout(file, LockByte::Writer, timeout, on_wait) {
        Ok(guard) => Some(guard),
        Err(error) if mode == LockMode::File && error.kind() != io::ErrorKind::TimedOut => None,
        Err(error) => return Err(timed_out(error, None)),
    };
    if mode == LockMode::Os {
        refuse_beside_lock_file(disk, path, timeout, &mut tell)?;
    }
    Ok(WriterLock {
        _file: lock_file,
        _os: os,
    })
}

/// Somebody may have been told to use a lock file where this writer was not: then that one counts too.
fn refuse_beside_lock_file(
    disk: &dyn Disk,
    path: &Path,
    timeout: std::time::Duration,
    tell: &mut dyn FnMut(&str, std::time::Duration, u64),
) -> Result<()> {
    let lock_file = lock_path(path);
    let is_free = || match disk.stat(&lock_file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(())),
        Err(error) => Err(error),
        Ok(_) => Ok(read_lock_file(disk, &lock_file)?.filter(Holder::is_dead).map(|_| ())),
    };
    if matches!(is_free(), Ok(Some(()))) {
        return Ok(());
    }
    let len = || disk.stat(path).map(|stat| stat.len);
    let waited = wait_for(len, timeout, is_free, |waited, rate| {
        tell("the holder of the lock file", waited, rate)
    });
    waited.map_err(|source| match source.kind() {
        io::ErrorKind::TimedOut => {
            let holder = read_lock_file(disk, &lock_file).ok().flatten();
            let holder = holder.map_or_else(|| "unknown".into(), |holder| holder.to_string());
            Error::Locked {
                path: path.into(),
                holder: format!(" ({holder}; lock file {})", lock_file.display()),
                waited_s: timeout.as_secs(),
            }
        }
        _ => Error::CannotLock {
            path: path.into(),
            source,
        },
    })
}

/// Takes a lock file away, whoever holds it, and returns who that was; `None` where there is no lock file.
///
/// # Errors
/// [`Error::Locked`] where the holder is known to be alive on this machine, unless `by_force`.
pub fn unlock(disk: &dyn Disk, path: &Path, by_force: bool) -> Result<Option<Unlocked>> {
    let lock_file = lock_path(path);
    match disk.stat(&lock_file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(Error::io(&lock_file, "stat"))?,
    };
    let holder = read_lock_file(disk, &lock_file).map_err(Error::io(&lock_file, "read"))?;
    if let Some(holder) = holder.as_ref().filter(|holder| !by_force && holder.is_alive()) {
        return Err(Error::Locked {
            path: path.into(),
            holder: format!(" ({holder}, which is alive; --force removes its lock all the same)"),
            waited_s: 0,
        });
    }
    disk.remove(&lock_file).map_err(Error::io(&lock_file, "remove"))?;
    Ok(Some(Unlocked { holder }))
}

/// A lock that was taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlocked {
    /// Who held it, where the file said so.
    pub holder: Option<Holder>,
}
