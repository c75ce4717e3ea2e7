//! The writer lock: an open-file-description lock on one byte far beyond the data.
//!
//! The byte lies beyond any data so that a share with mandatory locks does not block readers; the kernel releases the lock
//! when the process dies.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use super::DiskFile;

/// Which lock of an archive: each is one byte at an offset that no archive reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockByte {
    /// Held by whoever appends.
    Writer,
    /// Held by the one background maintainer.
    Maintenance,
}

impl LockByte {
    /// Returns where the byte lies.
    pub(super) fn offset(self) -> u64 {
        const BASE: u64 = 1 << 62;
        match self {
            LockByte::Writer => BASE,
            LockByte::Maintenance => BASE + 1,
        }
    }
}

/// How writers keep others away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockMode {
    /// By a lock of the operating system, on disks where that is known to reach all machines.
    #[default]
    Os,
    /// By the same, wherever it may reach: no other machine writes to the archive.
    Local,
    /// By a lock file beside the archive.
    File,
}

impl std::str::FromStr for LockMode {
    type Err = String;

    fn from_str(name: &str) -> Result<LockMode, String> {
        match name {
            "os" => Ok(LockMode::Os),
            "local" => Ok(LockMode::Local),
            "file" => Ok(LockMode::File),
            _ => Err(format!("'{name}' is no way to lock (there are os, local and file)")),
        }
    }
}

/// A lock that is held until this is dropped or the process dies.
pub struct LockGuard<'a> {
    file: &'a dyn DiskFile,
    byte: LockByte,
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        // Closing the file releases the lock too, so there is nothing to do about an error.
        let _ = self.file.unlock(self.byte);
    }
}

/// Takes the lock, waiting for as long as the holder makes progress and then `timeout` more.
///
/// Progress is growth of the file: a long push by somebody else is no reason to give up. `on_wait` is called about once a
/// second with the time waited and the bytes a second by which the file grows. Waits back off with some randomness, so that
/// many waiters do not knock in step.
///
/// # Errors
/// `TimedOut` where the lock was not to be had in time; any other error means that the disk cannot lock.
pub fn lock_with_timeout<'a>(
    file: &'a dyn DiskFile,
    byte: LockByte,
    timeout: Duration,
    on_wait: impl FnMut(Duration, u64),
) -> io::Result<LockGuard<'a>> {
    wait_for(
        || file.len(),
        timeout,
        || Ok(file.try_lock(byte)?.then_some(LockGuard { file, byte })),
        on_wait,
    )
}

/// As [`lock_with_timeout`], for any lock that `try_lock` takes or, with `None`, finds held, and a file of length `len`.
pub fn wait_for<T>(
    len: impl Fn() -> io::Result<u64>,
    timeout: Duration,
    mut try_lock: impl FnMut() -> io::Result<Option<T>>,
    mut on_wait: impl FnMut(Duration, u64),
) -> io::Result<T> {
    let started = Instant::now();
    let (mut progress_at, mut told_at) = (started, started);
    let mut len_before = None;
    let mut told_len = 0;
    let mut pause = Duration::from_millis(1);
    loop {
        match try_lock() {
            Ok(Some(lock)) => return Ok(lock),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        let now = Instant::now();
        let len_now = len()?;
        if len_before.replace(len_now).is_some_and(|before| before != len_now) {
            progress_at = now;
        }
        if now - progress_at >= timeout {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if now - told_at >= Duration::from_secs(1) {
            let grown = if told_len == 0 {
                0
            } else {
                len_now.saturating_sub(told_len)
            };
            on_wait(now - started, grown * 1000 / (now - told_at).as_millis().max(1) as u64);
            (told_at, told_len) = (now, len_now);
        }
        thread::sleep(pause + pause.mul_f64(jitter(now)));
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Returns a number in 0..1 that differs between waiters: from the clock's nanoseconds and the process id.
fn jitter(now: Instant) -> f64 {
    use std::hash::{BuildHasher, RandomState};
    (RandomState::new().hash_one((now, std::process::id())) % 1000) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::{super::FileMedium, *};

    #[test]
    fn r27_second_open_waits_and_times_out() {
        let named = tempfile::NamedTempFile::new().unwrap();
        let file = FileMedium::new(named.reopen().unwrap());
        let other = FileMedium::new(named.reopen().unwrap());
        let guard = lock_with_timeout(&file, LockByte::Writer, Duration::ZERO, |_, _| {}).unwrap();
        assert!(other.is_locked(LockByte::Writer).unwrap());
        let refused = lock_with_timeout(&other, LockByte::Writer, Duration::from_millis(5), |_, _| {});
        assert_eq!(refused.err().unwrap().kind(), io::ErrorKind::TimedOut);
        drop(guard);
        assert!(!other.is_locked(LockByte::Writer).unwrap());
        lock_with_timeout(&other, LockByte::Writer, Duration::ZERO, |_, _| {}).unwrap();
    }

    /// R27: a file that grows keeps waiters waiting, and they are told how fast it does; one that does not ends the wait.
    #[test]
    fn r27_the_wait_ends_on_time_without_growth() {
        use std::cell::Cell;
        let timeout = Duration::from_millis(60);
        let (len, started) = (Cell::new(1), Instant::now());
        let grow = || {
            len.set(len.get() + 100);
            Ok(len.get())
        };
        let mut told = vec![];
        // Twenty times the timeout.
        let when_done = || Ok((started.elapsed() >= Duration::from_millis(1200)).then_some(()));
        wait_for(grow, timeout, when_done, |waited, rate| told.push((waited, rate))).unwrap();
        assert!(!told.is_empty() && told[0].0 >= Duration::from_secs(1), "{told:?}");
        let stuck = wait_for(|| Ok(7), timeout, || Ok(None::<()>), |_, _| ());
        assert_eq!(stuck.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    /// R27: waiters do not knock in step.
    #[test]
    fn r27_pauses_differ_between_waiters() {
        let now = Instant::now();
        let pauses: std::collections::HashSet<u64> = (0..50).map(|_| jitter(now).to_bits()).collect();
        assert!(pauses.len() > 5);
        assert!(pauses.iter().all(|bits| (0.0..1.0).contains(&f64::from_bits(*bits))));
    }
}
