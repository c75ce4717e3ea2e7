//! A lock that is a file: for disks on which locks do not reach other machines.
//!
//! `.NAME.lock` beside the archive says who holds it:
//!
//! ```text
//! znippy-lock 1
//! user 1000
//! host build3
//! boot 7c3f2c1e-…            the random name of the machine's boot
//! pids pid:[4026531836]      the name space that the process number is from
//! pid 4711
//! since 1700000000           seconds since 1970
//! ```
//!
//! It is created exclusively and removed by its owner. One that is left is never taken for dead by its age. It is removed where
//! the process cannot be alive any more: same host, same boot, same name space of processes, and no process of that number. Else
//! a person has to say so (`znippy unlock`).
//!
//! Two may find the same dead one at once, on a disk whose locks do nothing; the slower must not remove what the faster has made
//! in its place. So a lock file is removed, by others than its owner, only by who has created `.NAME.lock.break`, exclusively too:
//! what was judged then stays what it is until it is removed, because the dead remove nothing and nobody else may. Who dies in
//! these few calls leaves both files, for `znippy unlock`.

use std::{
    fmt, fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use super::{Disk, DiskFile, read_vec};

const FIRST_LINE: &str = "znippy-lock 1";
/// How often a lock file is tried to be created before somebody else is said to have it.
const ATTEMPTS: usize = 10;
/// More is no lock file of ours.
const MAX_LEN: u64 = 4096;

/// Who holds a lock file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holder {
    pub user: u32,
    pub host: String,
    pub boot: String,
    /// The name space that `pid` is from.
    pub pids: String,
    pub pid: u32,
    /// Seconds since 1970.
    pub since: u64,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holder { user, host, pid, .. } = self;
        write!(f, "process {pid} of user {user} on {host}")
    }
}

impl Holder {
    /// Returns this process.
    pub fn this() -> Holder {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let pids = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Holder {
            user: rustix::process::geteuid().as_raw(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            boot: text("/proc/sys/kernel/random/boot_id"),
            pids: pids.to_string_lossy().into_owned(),
            pid: std::process::id(),
            since: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
        }
    }

    /// Returns the lines that a file of this holder has.
    pub(super) fn encode(&self) -> String {
        let Holder {
            user,
            host,
            boot,
            pids,
            pid,
            since,
        } = self;
        format!("{FIRST_LINE}\nuser {user}\nhost {host}\nboot {boot}\npids {pids}\npid {pid}\nsince {since}\n")
    }

    /// Parses what a file of a holder has; `None` where it is something else, or not all of it.
    pub fn decode(bytes: &[u8]) -> Option<Holder> {
        let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return None;
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        Some(Holder {
            user: field("user")?.parse().ok()?,
            host: field("host")?.into(),
            boot: field("boot")?.into(),
            pids: field("pids")?.into(),
            pid: field("pid")?.parse().ok()?,
            since: field("since")?.parse().ok()?,
        })
    }

    /// Returns whether the process is known to be gone.
    pub fn is_dead(&self) -> bool {
        self.is_running() == Some(false)
    }

    /// Returns whether the process is known to be there.
    pub fn is_alive(&self) -> bool {
        self.is_running() == Some(true)
    }

    /// Returns whether there is a process of that number, where it would be seen from here.
    fn is_running(&self) -> Option<bool> {
        let this = Holder::this();
        let is_known = !self.boot.is_empty() && !self.pids.is_empty();
        let is_here = (&self.host, &self.boot, &self.pids) == (&this.host, &this.boot, &this.pids);
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let found = rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH);
        (is_known && is_here).then_some(found)
    }
}

/// Returns the path of the lock file of an archive.
pub fn lock_path(archive: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(archive.file_name().unwrap_or_default());
    name.push(".lock");
    archive.with_file_name(name)
}

/// A lock file that this process holds; removed when this is dropped.
pub struct LockFile<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
    holder: Holder,
}

/// What came of an attempt to create a lock file.
pub enum Attempt<'a> {
    Locked(LockFile<'a>),
    /// Somebody has it; `None` where the file does not say who.
    Held(Option<Holder>),
}

impl<'a> LockFile<'a> {
    /// Tries to create the lock file of `archive`. One whose owner is known to be dead is removed first.
    pub fn try_create(disk: &'a dyn Disk, archive: &Path) -> io::Result<Attempt<'a>> {
        let path = lock_path(archive);
        for attempt in 1..=ATTEMPTS {
            match disk.create_new(&path) {
                Ok(file) => {
                    let holder = Holder::this();
                    // From here on it is removed whatever happens.
                    let lock = LockFile { disk, path, holder };
                    file.write_all_at(0, lock.holder.encode().as_bytes())?;
                    file.sync_all()?;
                    return Ok(Attempt::Locked(lock));
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                // Some disks say so of a file that is there, and it may be gone by now.
                Err(error) if error.raw_os_error() == Some(libc::EPERM) && attempt < ATTEMPTS => continue,
                Err(error) => return Err(error),
            }
            match read(disk, &path)? {
                Some(holder) if holder.is_dead() => drop(remove(disk, &path, Some(&holder))?),
                holder => return Ok(Attempt::Held(holder)),
            }
        }
        Ok(Attempt::Held(read(disk, &path)?))
    }
}

impl Drop for LockFile<'_> {
    fn drop(&mut self) {
        // Where somebody removed it by hand, the next one may be somebody else's. An empty one is ours, half written.
        let found = read(self.disk, &self.path);
        if found.is_ok_and(|holder| holder.is_none_or(|holder| holder == self.holder)) {
            // What cannot be removed is told by the next writer.
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// Returns who holds the lock file at `path`; `None` where there is none, or where it does not say.
pub fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<Holder>> {
    match disk.open(path, false).and_then(|file| read_open(file.as_ref())) {
        // Its owner may remove it at any time, and some disks then know nothing of the open file either.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::StaleNetworkFileHandle) => Ok(None),
        read => read,
    }
}

fn read_open(file: &dyn DiskFile) -> io::Result<Option<Holder>> {
    let len = file.len()?.min(MAX_LEN) as usize;
    Ok(Holder::decode(&read_vec(file, 0, len)?))
}

/// Returns the path of the file that says who is removing a lock file.
pub fn break_path(lock_file: &Path) -> PathBuf {
    let mut name = lock_file.file_name().unwrap_or_default().to_os_string();
    name.push(".break");
    lock_file.with_file_name(name)
}

/// Removes the lock file at `path`, if it still is that of `judged` and nobody else is at it. Returns whether it was removed.
///
/// # Errors
/// Fails where the disk does.
pub fn remove(disk: &dyn Disk, path: &Path, judged: Option<&Holder>) -> io::Result<bool> {
    let break_path = break_path(path);
    let file = match disk.create_new(&break_path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(error),
    };
    let judge = || {
        file.write_all_at(0, Holder::this().encode().as_bytes())?;
        let is_same = disk.stat(path).is_ok() && read(disk, path)?.as_ref() == judged;
        if is_same {
            disk.remove(path)?;
        }
        Ok(is_same)
    };
    let removed = judge();
    disk.remove(&break_path)?;
    removed
}

#[cfg(test)]
mod tests {
    use super::{super::LocalDisk, *};

    fn fixture() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let archive = directory.path().join("app.znippy");
        (directory, archive)
    }

    #[test]
    fn r25_one_holder_at_a_time() {
        let (_directory, archive) = fixture();
        let Attempt::Locked(lock) = LockFile::try_create(&LocalDisk, &archive).unwrap() else {
            panic!("nobody has it");
        };
        assert_eq!(read(&LocalDisk, &lock_path(&archive)).unwrap(), Some(Holder::this()));
        match LockFile::try_create(&LocalDisk, &archive).unwrap() {
            Attempt::Held(Some(holder)) => assert_eq!(holder.pid, std::process::id()),
            _ => panic!("it is held"),
        }
        drop(lock);
        assert!(!lock_path(&archive).exists());
    }

    /// R25: only a process that cannot be alive loses its lock, whatever the age of the file.
    #[test]
    fn r25_a_lock_is_broken_only_when_its_process_is_gone() {
        let (_directory, archive) = fixture();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = Holder {
            pid: child.id(),
            since: 1,
            ..Holder::this()
        };
        child.wait().unwrap();
        let write = |text: &str| fs::write(lock_path(&archive), text).unwrap();
        let is_broken = || matches!(LockFile::try_create(&LocalDisk, &archive).unwrap(), Attempt::Locked(_));
        let other = |change: &dyn Fn(&mut Holder)| {
            let mut holder = dead.clone();
            change(&mut holder);
            holder.encode()
        };
        for (text, expected) in [
            (dead.encode(), true),
            (other(&|holder| holder.pid = std::process::id()), false),
            (other(&|holder| holder.host.push('x')), false),
            (other(&|holder| holder.boot.push('x')), false),
            (other(&|holder| holder.pids.push('x')), false),
            (other(&|holder| holder.boot.clear()), false),
            (String::new(), false),
            ("something else\n".into(), false),
        ] {
            write(&text);
            assert_eq!(is_broken(), expected, "{text}");
            assert_eq!(lock_path(&archive).exists(), !expected);
        }
    }

    fn dead() -> Holder {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        Holder {
            pid: child.id(),
            ..Holder::this()
        }
    }

    /// A disk on which another process does something before the call that is next.
    struct Interleaved<'a> {
        calls: std::sync::atomic::AtomicUsize,
        at: usize,
        act: &'a (dyn Fn() + Sync),
    }

    impl Interleaved<'_> {
        fn call(&self) {
            if self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == self.at {
                (self.act)();
            }
        }
    }

    impl Disk for Interleaved<'_> {
        fn open(&self, path: &Path, write: bool) -> io::Result<std::sync::Arc<dyn DiskFile>> {
            self.call();
            LocalDisk.open(path, write)
        }
        fn create_new(&self, path: &Path) -> io::Result<std::sync::Arc<dyn DiskFile>> {
            self.call();
            LocalDisk.create_new(path)
        }
        fn temporary(&self, path: &Path) -> io::Result<Box<dyn super::super::Temporary>> {
            LocalDisk.temporary(path)
        }
        fn stat(&self, path: &Path) -> io::Result<super::super::Stat> {
            self.call();
            LocalDisk.stat(path)
        }
        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            LocalDisk.rename(from, to)
        }
        fn remove(&self, path: &Path) -> io::Result<()> {
            self.call();
            LocalDisk.remove(path)
        }
        fn sync_directory(&self, directory: &Path) -> io::Result<()> {
            LocalDisk.sync_directory(directory)
        }
    }

    /// R25: two that find the same dead lock file at the same moment: one of them has the lock at the end, whatever the order.
    /// Locks of the disk play no part in it.
    #[test]
    fn r25_two_that_break_the_same_dead_lock() {
        for at in 0.. {
            let (_directory, archive) = fixture();
            fs::write(lock_path(&archive), dead().encode()).unwrap();
            let other = std::sync::Mutex::new(None);
            let act = || *other.lock().unwrap() = Some(LockFile::try_create(&LocalDisk, &archive).unwrap());
            let disk = Interleaved {
                calls: 0.into(),
                at,
                act: &act,
            };
            let this = LockFile::try_create(&disk, &archive).unwrap();
            let was_reached = disk.calls.load(std::sync::atomic::Ordering::Relaxed) > at;
            let other = other.lock().unwrap().take();
            let locks: Vec<_> = [Some(this), other].into_iter().flatten().collect();
            let held = locks.iter().filter(|attempt| matches!(attempt, Attempt::Locked(_)));
            assert_eq!(held.count(), 1, "the other came before call {at}");
            assert!(lock_path(&archive).exists(), "the other came before call {at}");
            assert!(!break_path(&lock_path(&archive)).exists());
            drop(locks);
            assert!(!lock_path(&archive).exists());
            if !was_reached {
                assert!(at > 5);
                break;
            }
        }
    }

    /// R25: who dies while it breaks a lock leaves it to a person.
    #[test]
    fn r25_a_breaker_that_died_is_in_the_way() {
        let (_directory, archive) = fixture();
        fs::write(lock_path(&archive), dead().encode()).unwrap();
        fs::write(break_path(&lock_path(&archive)), dead().encode()).unwrap();
        let attempt = LockFile::try_create(&LocalDisk, &archive).unwrap();
        assert!(matches!(attempt, Attempt::Held(Some(holder)) if holder.is_dead()));
        assert!(lock_path(&archive).exists());
    }

    #[test]
    fn cut_text_names_no_holder() {
        let text = Holder::this().encode();
        assert_eq!(
            Holder::decode(text.as_bytes()),
            Some(Holder::decode(text.as_bytes()).unwrap())
        );
        for len in 0..text.len() {
            assert_eq!(Holder::decode(&text.as_bytes()[..len]), None, "cut at {len}");
        }
    }
}
