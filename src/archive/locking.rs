//! Keeping other writers away, in the way that was asked for.

use std::{io, path::Path, time::Duration};

use super::WritePolicy;
use crate::{
    error::{Error, Result},
    media::{
        Attempt, Disk, DiskFile, Holder, LockByte, LockFile, LockGuard, LockMode, LockReach, break_path, lock_path,
        lock_with_timeout, read_lock_file, remove_lock_file, wait_for,
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

/// R25: refuses to write where a lock is not known to reach the other machines that may write there.
pub fn refuse_unshared(reach: &LockReach, path: &Path, mode: LockMode) -> Result<()> {
    match (reach, mode) {
        (LockReach::Unknown(why), LockMode::Os) => Err(Error::LockNotShared {
            path: path.into(),
            why: why.clone(),
        }),
        _ => Ok(()),
    }
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
    refuse_unshared(reach, path, mode)?;
    let (disk, timeout) = (policy.disk, policy.timeout);
    let mut holder = None;
    let mut tell = |what: &str, waited: Duration, rate: u64| {
        if let Some(on_wait) = &mut policy.on_wait {
            let rate = match rate {
                0 => String::new(),
                rate => format!(", which writes {} KiB/s", rate.div_ceil(1024)),
            };
            let waited = waited.as_secs();
            on_wait(&format!("waiting {waited} s for {what} of {}{rate}", path.display()));
        }
    };
    let give_up = |holder| Error::Locked {
        path: path.into(),
        holder,
        waited_s: timeout.as_secs(),
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
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err(give_up(describe(holder.as_ref(), &lock_path(path))));
                }
                Err(error) => return Err(Error::io(lock_path(path), "create or read")(error)),
            }
        }
        LockMode::Os | LockMode::Local => None,
    };
    // Beside a lock file it keeps away who does not know of that one on this machine, where the disk can do it.
    let on_wait = |waited, rate| tell("another writer", waited, rate);
    let os = match lock_with_timeout(file, LockByte::Writer, timeout, on_wait) {
        Ok(guard) => Some(guard),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(give_up(String::new())),
        Err(_) if mode == LockMode::File => None,
        Err(source) => return Err(cannot_lock(path, source)),
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
    timeout: Duration,
    tell: &mut dyn FnMut(&str, Duration, u64),
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
            Error::Locked {
                path: path.into(),
                holder: describe(holder.as_ref(), &lock_file),
                waited_s: timeout.as_secs(),
            }
        }
        _ => cannot_lock(path, source),
    })
}

/// Says who holds a lock file, and the way out where nobody does.
fn describe(holder: Option<&Holder>, lock_file: &Path) -> String {
    let holder = holder.map_or_else(|| "unknown".into(), Holder::to_string);
    let lock_file = lock_file.display();
    format!(" ({holder}; lock file {lock_file}, which `znippy unlock` removes when that process is gone)")
}

fn cannot_lock(path: &Path, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::ESTALE) => Error::Stale { path: path.into() },
        _ => Error::CannotLock {
            path: path.into(),
            source,
        },
    }
}

/// The lock of the one gc or index run, held until this is dropped.
pub struct MaintenanceLock<'a> {
    _os: Option<LockGuard<'a>>,
}

/// Takes the lock of the one gc or index run; `None` where another run holds it.
///
/// Two at once would do the same work twice and no harm: the file of a gc has a lock of its own, and rows are appended under the
/// writer lock. So it does not matter how far it reaches, nor, where writers use a lock file, whether the disk can lock at all.
///
/// # Errors
/// Fails where the disk cannot lock and no lock file is used.
pub fn take_maintenance_lock<'f>(
    file: &'f dyn DiskFile,
    path: &Path,
    mode: LockMode,
) -> Result<Option<MaintenanceLock<'f>>> {
    match lock_with_timeout(file, LockByte::Maintenance, Duration::ZERO, |_, _| {}) {
        Ok(guard) => Ok(Some(MaintenanceLock { _os: Some(guard) })),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(None),
        Err(_) if mode == LockMode::File => Ok(Some(MaintenanceLock { _os: None })),
        Err(source) => Err(cannot_lock(path, source)),
    }
}

/// Takes a lock file away, whoever holds it, and returns who that was; `None` where there is no lock file.
///
/// # Errors
/// [`Error::Locked`] where the holder is known to be alive on this machine, unless `by_force`.
pub fn unlock(disk: &dyn Disk, path: &Path, by_force: bool) -> Result<Option<Unlocked>> {
    let lock_file = lock_path(path);
    let broken = break_path(&lock_file);
    let is_there = |file: &Path| match disk.stat(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        other => other.map(|_| true).map_err(Error::io(file, "stat")),
    };
    let read = |file: &Path| read_lock_file(disk, file).map_err(Error::io(file, "read"));
    let locked = |holder: &Holder, what: &str| Error::Locked {
        path: path.into(),
        holder: format!(" ({holder}, which {what})"),
        waited_s: 0,
    };
    let left = if is_there(&broken)? {
        let breaker = read(&broken)?;
        if let Some(breaker) = breaker.as_ref().filter(|breaker| !by_force && breaker.is_alive()) {
            return Err(locked(
                breaker,
                "is about to remove the lock file; --force does not wait for it",
            ));
        }
        match disk.remove(&broken) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io(&broken, "remove")(error)),
            _ => Some(Unlocked { holder: breaker }),
        }
    } else {
        None
    };
    if !is_there(&lock_file)? {
        return Ok(left);
    }
    let holder = read(&lock_file)?;
    if let Some(holder) = holder.as_ref().filter(|holder| !by_force && holder.is_alive()) {
        return Err(locked(holder, "is alive; --force removes its lock all the same"));
    }
    match remove_lock_file(disk, &lock_file, holder.as_ref()) {
        Ok(true) => Ok(Some(Unlocked { holder })),
        // Somebody was faster, and may have made a new one.
        Ok(false) => unlock(disk, path, by_force),
        Err(error) => Err(Error::io(&lock_file, "remove")(error)),
    }
}

/// A lock that was taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlocked {
    /// Who held it, where the file said so.
    pub holder: Option<Holder>,
}
