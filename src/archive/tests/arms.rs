//! What each way to end an append promises, and what is left where one of its calls fails.

use std::{
    io::{self, IoSlice},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use super::*;
use crate::{
    format::slot::{SLOT_LEN, SLOT_OFFSETS},
    media::{Disk, DiskFile, LocalDisk, LockByte, Medium, Ring, RingError, Stat, Temporary, lock_with_timeout},
};

/// What happens on a disk, and what is to go wrong.
#[derive(Default)]
struct Script {
    syncs: AtomicUsize,
    /// Bytes written outside of the head.
    written: AtomicUsize,
    /// The next sync fails.
    fail_sync: AtomicBool,
    /// Every sync fails.
    fail_all_syncs: AtomicBool,
    /// Slots cannot be written.
    fail_slots: AtomicBool,
    /// The kernel takes no requests through a ring.
    refuse_ring: AtomicBool,
    /// A write through a ring falls short.
    fail_ring: AtomicBool,
    /// Calls through a ring that succeeded.
    rings: AtomicUsize,
    /// Another boot or mount than the one of the machine.
    elsewhere: Mutex<Option<String>>,
    /// What was done, in order.
    steps: Mutex<Vec<&'static str>>,
}

impl Script {
    fn take(flag: &AtomicBool) -> bool {
        flag.swap(false, Ordering::SeqCst)
    }
    fn syncs(&self) -> usize {
        self.syncs.swap(0, Ordering::SeqCst)
    }
    /// Notes a step, once where it is done several times in a row.
    fn step(&self, step: &'static str) {
        let mut steps = self.steps.lock().unwrap();
        if steps.last() != Some(&step) {
            steps.push(step);
        }
    }
    fn written(&self) -> usize {
        self.written.swap(0, Ordering::SeqCst)
    }
}

/// The machine's disk, following a script.
#[derive(Clone, Default)]
struct Scripted(Arc<Script>);

struct ScriptedFile {
    file: Arc<dyn DiskFile>,
    script: Arc<Script>,
}

impl Medium for ScriptedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if offset < HEAD_LEN {
            self.script.step("read the head");
        }
        self.file.read_exact_at(offset, buf)
    }
    fn write_all_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.script.step(if offset < HEAD_LEN { "slot" } else { "append" });
        if offset < HEAD_LEN && self.script.fail_slots.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::Other.into());
        }
        if offset >= HEAD_LEN {
            self.script.written.fetch_add(buf.len(), Ordering::SeqCst);
        }
        self.file.write_all_at(offset, buf)
    }
    fn write_and_sync(&self, ring: &mut Ring, offset: u64, slices: &[IoSlice<'_>]) -> Result<(), RingError> {
        if self.script.refuse_ring.load(Ordering::SeqCst) {
            return Err(RingError::Refused(io::Error::from_raw_os_error(libc::ENOSYS)));
        }
        if Script::take(&self.script.fail_ring) {
            let half = &slices[0][..slices[0].len() / 2];
            self.file.write_all_at(offset, half).unwrap();
            return Err(RingError::Failed(io::ErrorKind::WriteZero.into()));
        }
        self.script.rings.fetch_add(1, Ordering::SeqCst);
        self.file.write_and_sync(ring, offset, slices)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.script.syncs.fetch_add(1, Ordering::SeqCst);
        self.script.step("sync");
        if Script::take(&self.script.fail_sync) || self.script.fail_all_syncs.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.file.sync_data()
    }
    fn start_writeback(&self, offset: u64, len: u64) {
        self.script.step("write back the slot");
        self.file.start_writeback(offset, len);
    }
}

impl DiskFile for ScriptedFile {
    fn stat(&self) -> io::Result<Stat> {
        self.script.step("look at the file");
        self.file.stat()
    }
    fn try_lock(&self, byte: LockByte) -> io::Result<bool> {
        self.script.step("lock");
        self.file.try_lock(byte)
    }
    fn unlock(&self, byte: LockByte) -> io::Result<()> {
        self.script.step("unlock");
        self.file.unlock(byte)
    }
    fn is_locked(&self, byte: LockByte) -> io::Result<bool> {
        self.file.is_locked(byte)
    }
    fn residence(&self) -> Option<String> {
        self.script
            .elsewhere
            .lock()
            .unwrap()
            .clone()
            .or_else(|| Some("this boot 1".into()))
    }
    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl Disk for Scripted {
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(ScriptedFile {
            file: LocalDisk.open(path, write)?,
            script: self.0.clone(),
        }))
    }
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        LocalDisk.create_new(path)
    }
    fn temporary(&self, path: &Path) -> io::Result<Box<dyn Temporary>> {
        LocalDisk.temporary(path)
    }
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.0.step("look at the path");
        LocalDisk.stat(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        LocalDisk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        LocalDisk.remove(path)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        LocalDisk.sync_directory(directory)
    }
}

impl Scripted {
    fn appender<'a>(&'a self, path: &Path, durability: Durability) -> Appender<'a> {
        let policy = WritePolicy {
            disk: self,
            durability,
            ..WritePolicy::default()
        };
        Appender::new(path, policy)
    }
    fn open(&self, path: &Path) -> Snapshot {
        Snapshot::open_on(self, path).unwrap()
    }
}

fn transaction(n: u32) -> Transaction {
    Transaction {
        packs: vec![pack(n, n + 1, 5000)],
        edits: vec![set(&format!("refs/heads/b{n}"), n)],
        ..Transaction::default()
    }
}

fn slots(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    SLOT_OFFSETS
        .iter()
        .flat_map(|at| bytes[*at as usize..][..SLOT_LEN].to_vec())
        .collect()
}

/// R5: everything is judged behind the lock, and nobody is told before it is durable and named.
#[test]
fn r5_a_commit_goes_in_its_order() {
    let sandbox = Sandbox::new();
    let (path, disk) = (sandbox.archive(2), Scripted::default());
    disk.appender(&path, Durability::Safe).commit(transaction(10)).unwrap();
    let steps = disk.0.steps.lock().unwrap().clone();
    let locked = steps.iter().position(|step| *step == "lock").unwrap();
    assert_eq!(
        steps[locked..],
        [
            "lock",
            // A lock file of somebody else, and whether the name still means this file.
            "look at the path",
            "look at the file",
            "look at the path",
            "read the head",
            "append",
            "look at the file",
            "sync",
            "slot",
            "write back the slot",
            "unlock"
        ]
    );
    assert!(!steps[..locked].contains(&"append"));
}

/// R3: fast commits are seen at once, by every reader, and no slot names them; the next safe commit makes them durable.
#[test]
fn r3_fast_commits_lie_beyond_the_slot_until_a_safe_one() {
    let sandbox = Sandbox::new();
    let (path, disk) = (sandbox.archive(2), Scripted::default());
    let before = slots(&path);
    let mut fast = disk.appender(&path, Durability::Fast);
    for n in 10..13 {
        assert!(fast.commit(transaction(n)).unwrap().written);
        assert_eq!(value(&disk.open(&path), &format!("refs/heads/b{n}")), Some(oid(n)));
    }
    assert_eq!(disk.0.syncs(), 0);
    assert_eq!(slots(&path), before);
    // Another writer, who need not sync either, goes behind them.
    disk.appender(&path, Durability::Fast).commit(transaction(13)).unwrap();
    assert_eq!((disk.0.syncs(), slots(&path) == before), (0, true));
    // The one from before sees that somebody else was there.
    fast.commit(transaction(14)).unwrap();
    // While somebody holds the lock too.
    let other = disk.open(&path);
    let locked = LocalDisk.open(&path, true).unwrap();
    let guard = lock_with_timeout(locked.as_ref(), LockByte::Writer, Duration::ZERO, |_, _| {}).unwrap();
    assert_eq!(disk.open(&path).sequence(), other.sequence());
    drop(guard);
    let unconfirmed = fs::metadata(&path).unwrap().len() - other.state().footer_end;
    assert_eq!(unconfirmed, 0);
    disk.0.written();
    // A safe writer has not written them itself: it writes all of them again.
    disk.appender(&path, Durability::Safe).commit(transaction(15)).unwrap();
    assert!(disk.0.written() > 5 * 5000 + 5000);
    assert_eq!(disk.0.syncs(), 2);
    assert_ne!(slots(&path), before);
    let snapshot = disk.open(&path);
    assert_eq!(snapshot.packs(), 2 + 6);
    assert!(snapshot.warnings().is_empty());
    for n in 10..16 {
        assert_eq!(value(&snapshot, &format!("refs/heads/b{n}")), Some(oid(n)));
    }
}

/// R3: in the residence that wrote it a fast commit is not hashed; anywhere else every byte decides.
#[test]
fn r3_fast_commits_are_hashed_outside_of_their_residence() {
    let sandbox = Sandbox::new();
    let (path, disk) = (sandbox.archive(1), Scripted::default());
    disk.appender(&path, Durability::Fast).commit(transaction(10)).unwrap();
    assert_eq!(disk.open(&path).sequence(), 3);
    let reboot = |name: &str| *disk.0.elsewhere.lock().unwrap() = Some(name.into());
    reboot("another boot 1");
    assert_eq!(disk.open(&path).sequence(), 3, "all of it is there, so it counts");
    // A page of the pack was not written before the power went.
    let mut bytes = fs::read(&path).unwrap();
    // The pack lies before the footer.
    let at = disk.open(&path).state().append as usize - disk.open(&path).state().footer_len as usize - 4096;
    bytes[at..at + 2048].fill(0);
    fs::write(&path, &bytes).unwrap();
    let snapshot = disk.open(&path);
    assert_eq!((snapshot.sequence(), snapshot.warnings().len()), (2, 0));
    *disk.0.elsewhere.lock().unwrap() = None;
    assert_eq!(disk.open(&path).sequence(), 3, "where it was written nobody looks");
    // Who would vouch for it looks all the same, and cuts it off.
    disk.appender(&path, Durability::Safe).commit(transaction(11)).unwrap();
    let snapshot = disk.open(&path);
    assert_eq!((snapshot.sequence(), snapshot.packs()), (3, 2));
    assert_eq!(value(&snapshot, "refs/heads/b10"), None);
}

/// R3, R7: a writer that wrote the fast commits itself confirms them with its own sync; after a sync that failed it does not
/// trust what it reads, and writes it again.
#[test]
fn r7_own_fast_commits_are_written_again_only_after_a_failed_sync() {
    let sandbox = Sandbox::new();
    let (path, disk) = (sandbox.archive(1), Scripted::default());
    let mut writer = disk.appender(&path, Durability::Fast);
    (10..14).for_each(|n| assert!(writer.commit(transaction(n)).unwrap().written));
    let len = fs::metadata(&path).unwrap().len();
    disk.0.written();
    disk.0.fail_sync.store(true, Ordering::SeqCst);
    assert!(matches!(writer.confirm(), Err(Error::DurabilityUnknown { .. })));
    assert_eq!(disk.0.written(), 0);
    assert_eq!(fs::metadata(&path).unwrap().len(), len, "what was acknowledged stays");
    assert_eq!(disk.open(&path).sequence(), 6);
    writer.confirm().unwrap();
    assert!(disk.0.written() > 4 * 5000);
    writer.commit(transaction(14)).unwrap();
    disk.0.written();
    writer.confirm().unwrap();
    assert_eq!(
        disk.0.written(),
        0,
        "it was written through the file that is still open"
    );
    *disk.0.elsewhere.lock().unwrap() = Some("another boot".into());
    assert_eq!(disk.open(&path).sequence(), 7);
}

/// R7: a safe commit whose sync fails is gone, the fast ones below it are not.
#[test]
fn r7_a_failed_sync_takes_back_one_commit() {
    for durability in [Durability::Safe, Durability::Batch] {
        let sandbox = Sandbox::new();
        let (path, disk) = (sandbox.archive(1), Scripted::default());
        disk.appender(&path, Durability::Fast).commit(transaction(10)).unwrap();
        let mut writer = disk.appender(&path, durability);
        writer.confirm().unwrap();
        let len = fs::metadata(&path).unwrap().len();
        disk.0.fail_sync.store(true, Ordering::SeqCst);
        assert!(matches!(
            writer.commit(transaction(11)),
            Err(Error::Io { action: "sync", .. })
        ));
        assert_eq!(fs::metadata(&path).unwrap().len(), len);
        disk.0.fail_all_syncs.store(true, Ordering::SeqCst);
        assert!(matches!(
            writer.commit(transaction(11)),
            Err(Error::DurabilityUnknown { .. })
        ));
        disk.0.fail_all_syncs.store(false, Ordering::SeqCst);
        assert_eq!(disk.open(&path).sequence(), 3);
        assert!(writer.commit(transaction(11)).unwrap().written);
        assert_eq!(value(&disk.open(&path), "refs/heads/b11"), Some(oid(11)));
    }
}

/// R8: where only the slot cannot be written the commit is done, with a warning, and the next one heals it.
#[test]
fn r8_a_slot_that_cannot_be_written_is_healed_by_the_next_commit() {
    for durability in [Durability::Safe, Durability::Uring, Durability::Batch] {
        let sandbox = Sandbox::new();
        let (path, disk) = (sandbox.archive(1), Scripted::default());
        let mut writer = disk.appender(&path, durability);
        disk.0.fail_slots.store(true, Ordering::SeqCst);
        let outcome = writer.commit(transaction(10)).unwrap();
        assert!(outcome.written && outcome.warnings[0].contains("slot could not be written"));
        disk.0.fail_slots.store(false, Ordering::SeqCst);
        assert_eq!(disk.open(&path).sequence(), 3, "{durability}");
        let outcome = writer.commit(transaction(11)).unwrap();
        assert!(outcome.written && outcome.warnings.is_empty());
        let snapshot = disk.open(&path);
        assert_eq!(
            (snapshot.sequence(), snapshot.file_len()),
            (4, fs::metadata(&path).unwrap().len())
        );
    }
}

/// R7: a ring whose write falls short is a sync that failed; a kernel without rings is no failure at all.
#[test]
fn r7_uring_takes_back_what_fell_short_and_does_without_where_it_must() {
    let sandbox = Sandbox::new();
    let (path, disk) = (sandbox.archive(1), Scripted::default());
    if Ring::new().is_err() {
        eprintln!("NOT RUN: this kernel refuses io_uring");
        return;
    }
    let mut writer = disk.appender(&path, Durability::Uring);
    let outcome = writer.commit(transaction(10)).unwrap();
    assert!(outcome.written && outcome.notes.is_empty());
    assert_eq!((disk.0.rings.load(Ordering::SeqCst), disk.0.syncs()), (1, 0));
    let len = fs::metadata(&path).unwrap().len();
    disk.0.fail_ring.store(true, Ordering::SeqCst);
    assert!(matches!(
        writer.commit(transaction(11)),
        Err(Error::Io { action: "sync", .. })
    ));
    assert_eq!(fs::metadata(&path).unwrap().len(), len);
    assert_eq!(disk.0.syncs(), 1, "the cut was synced");
    assert!(writer.commit(transaction(11)).unwrap().notes.is_empty());
    disk.0.refuse_ring.store(true, Ordering::SeqCst);
    let outcome = writer.commit(transaction(12)).unwrap();
    assert!(
        outcome.written && outcome.notes[0].contains("io_uring"),
        "{:?}",
        outcome.notes
    );
    assert_eq!(disk.0.syncs(), 1);
    let outcome = writer.commit(transaction(13)).unwrap();
    assert!(outcome.written && outcome.notes.is_empty(), "it is said once");
    assert_eq!(disk.open(&path).sequence(), 6);
}

/// A batch is one commit with one sync: nothing of it before, all of it after, and none where it fails.
#[test]
fn a_batch_is_all_or_nothing() {
    let sandbox = Sandbox::new();
    let (path, disk) = (sandbox.archive(1), Scripted::default());
    let before = fs::read(&path).unwrap();
    let mut writer = disk.appender(&path, Durability::Batch);
    for fails in [true, false] {
        let mut batch = writer.batch();
        for n in 100..1100 {
            batch.add_pack(pack(n, n + 1, 100)).unwrap();
            batch.edit(set(&format!("refs/heads/many/{}", n % 10), n)).unwrap();
        }
        let expects = |expected| RefEdit {
            expected,
            ..set("refs/heads/many/0", 1000)
        };
        assert!(batch.edit(expects(Expected::Oid(oid(1000)))).is_err());
        batch.edit(expects(Expected::Oid(oid(1090)))).unwrap();
        assert_eq!(fs::read(&path).unwrap(), before);
        disk.0.syncs();
        disk.0.fail_sync.store(fails, Ordering::SeqCst);
        let finished = batch.finish();
        assert_eq!(finished.is_err(), fails);
        if fails {
            assert_eq!(fs::read(&path).unwrap(), before);
            continue;
        }
        assert_eq!(disk.0.syncs(), 1);
        assert_eq!(finished.unwrap().results.len(), 10);
    }
    let snapshot = disk.open(&path);
    assert_eq!((snapshot.sequence(), snapshot.packs()), (3, 1001));
    assert_eq!(value(&snapshot, "refs/heads/many/0"), Some(oid(1000)));
    assert_eq!(value(&snapshot, "refs/heads/many/9"), Some(oid(1099)));
    // One edit that is refused takes everything with it.
    let mut batch = writer.batch();
    batch.add_pack(pack(5000, 5001, 100)).unwrap();
    batch.edit(set("refs/heads/new", 5000)).unwrap();
    let absent = RefEdit {
        expected: Expected::Absent,
        ..set("refs/heads/b1", 5000)
    };
    batch.edit(absent).unwrap();
    assert!(!batch.finish().unwrap().written);
    assert_eq!(disk.open(&path).packs(), 1001);
}

/// A writer that stays open notices commits of others, a file that was replaced, and one that was taken away.
#[test]
fn a_writer_that_stays_open_follows_what_others_do() {
    for durability in [Durability::Fast, Durability::Safe] {
        let sandbox = Sandbox::new();
        let (path, disk) = (sandbox.archive(1), Scripted::default());
        let mut writer = disk.appender(&path, durability);
        for n in 0..150 {
            writer.commit(transaction(1000 + 2 * n)).unwrap();
            if n % 7 == 0 {
                let other = if n % 2 == 0 { Durability::Safe } else { Durability::Fast };
                disk.appender(&path, other).commit(transaction(1001 + 2 * n)).unwrap();
            }
        }
        let snapshot = disk.open(&path);
        assert_eq!(snapshot.packs(), 1 + 150 + 22);
        for n in 0..150 {
            assert_eq!(
                value(&snapshot, &format!("refs/heads/b{}", 1000 + 2 * n)),
                Some(oid(1000 + 2 * n))
            );
        }
        // gc puts another file in its place.
        let copy = path.with_extension("copy");
        fs::copy(&path, &copy).unwrap();
        fs::rename(&copy, &path).unwrap();
        writer.commit(transaction(5000)).unwrap();
        assert_eq!(disk.open(&path).packs(), 174);
        fs::remove_file(&path).unwrap();
        assert!(matches!(
            writer.commit(transaction(5001)),
            Err(Error::NotFound { .. } | Error::Replaced { .. })
        ));
    }
}

/// However many fast commits there are, readers have few to follow.
#[test]
fn fast_commits_are_confirmed_before_they_are_too_many() {
    let sandbox = Sandbox::new();
    let (path, disk) = (sandbox.archive(1), Scripted::default());
    let mut writer = disk.appender(&path, Durability::Fast);
    for n in 0..600 {
        writer.commit(transaction(1000 + n)).unwrap();
    }
    assert_eq!(disk.0.syncs(), 2);
    // Each by another writer.
    for n in 600..900 {
        disk.appender(&path, Durability::Fast)
            .commit(transaction(1000 + n))
            .unwrap();
    }
    assert_eq!(disk.0.syncs(), 1);
    assert_eq!(disk.open(&path).packs(), 901);
}
