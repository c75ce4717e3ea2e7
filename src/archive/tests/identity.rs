//! Which commits belong to which archive, and what is left of one whose head is gone.

use super::*;
use crate::format::head::{self, IDENT_AT};

fn overwrite(path: &Path, at: usize, len: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at..at + len].fill(0);
    fs::write(path, bytes).unwrap();
}

/// R1: the end of a copy that went its own way, appended by a tool that compares lengths, does not become history.
#[test]
fn r1_histories_that_diverged_are_not_joined() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(2);
    let common = fs::read(&path).unwrap();
    let other = sandbox.directory.path().join("other.znippy");
    fs::write(&other, &common).unwrap();
    push(&path, pack(10, 11, 500), vec![set("refs/heads/x", 10)]);
    let mine = fs::read(&path).unwrap();
    // As long as mine, so that the next commit starts at the same place in both.
    push(&other, pack(20, 21, 500), vec![set("refs/heads/x", 20)]);
    assert_eq!(fs::metadata(&other).unwrap().len() as usize, mine.len());
    push(&other, pack(21, 22, 500), vec![set("refs/heads/y", 21)]);
    let joined = [&mine[..], &fs::read(&other).unwrap()[mine.len()..]].concat();
    fs::write(&path, &joined).unwrap();
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(value(&snapshot, "refs/heads/x"), Some(oid(10)));
    assert_eq!(value(&snapshot, "refs/heads/y"), None);
    assert!(
        snapshot.warnings()[0].contains("another history"),
        "{:?}",
        snapshot.warnings()
    );
    push(&path, pack(11, 12, 500), vec![set("refs/heads/z", 11)]);
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(value(&snapshot, "refs/heads/x"), Some(oid(10)));
    assert_eq!(value(&snapshot, "refs/heads/z"), Some(oid(11)));
    assert_eq!(value(&snapshot, "refs/heads/y"), None);
}

/// R1: two archives that were filled with the same do not share commits: each is bound to its own identity.
#[test]
fn r1_a_tail_of_another_archive_is_not_accepted() {
    let (one, two) = (Sandbox::new(), Sandbox::new());
    let (path, other) = (one.archive(1), two.archive(1));
    let len = fs::metadata(&path).unwrap().len();
    assert_eq!(len, fs::metadata(&other).unwrap().len());
    push(&other, pack(5, 6, 100), vec![set("refs/heads/other", 5)]);
    let tail = fs::read(&other).unwrap()[len as usize..].to_vec();
    fs::write(&path, [fs::read(&path).unwrap(), tail].concat()).unwrap();
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(value(&snapshot, "refs/heads/other"), None);
    assert_eq!(value(&snapshot, "refs/heads/b1"), Some(oid(1)));
}

/// R2: each slot has a disk block of its own, away from magic and schema; identity and generation are in the footer too.
#[test]
fn r2_slots_are_apart_and_all_can_be_lost() {
    for slot in SLOT_OFFSETS {
        assert!(slot % 4096 == 0 && slot + 2 * SLOT_LEN as u64 <= slot + 4096 && slot > IDENT_AT as u64);
    }
    assert_ne!(SLOT_OFFSETS[0] / 4096, SLOT_OFFSETS[1] / 4096);
    let whole = HEAD_LEN as usize;
    for (at, len) in [
        (0, 8),
        (0, 4096),
        (IDENT_AT, 100),
        (4096, 4096),
        (8192, 4096),
        (0, whole),
    ] {
        let sandbox = Sandbox::new();
        let path = sandbox.archive(3);
        let before = fs::read(&path).unwrap();
        overwrite(&path, at, len);
        let snapshot = Snapshot::open(&path).unwrap();
        assert_eq!(value(&snapshot, "refs/heads/b3"), Some(oid(3)), "{len} bytes at {at}");
        assert_eq!((snapshot.sequence(), snapshot.generation()), (4, 1));
        assert!(!snapshot.warnings().is_empty(), "{len} bytes at {at}");
        push(&path, pack(9, 10, 100), vec![set("refs/heads/nine", 9)]);
        push(&path, pack(10, 11, 100), vec![set("refs/heads/ten", 10)]);
        let snapshot = Snapshot::open(&path).unwrap();
        assert!(
            snapshot.warnings().is_empty(),
            "{len} bytes at {at}: {:?}",
            snapshot.warnings()
        );
        assert_eq!(value(&snapshot, "refs/heads/b3"), Some(oid(3)));
        if len > 8 {
            let after = fs::read(&path).unwrap();
            let head = |bytes: &[u8]| {
                head::constant_parts(bytes)
                    .map(|(_, part)| part.to_vec())
                    .collect::<Vec<_>>()
            };
            assert!(head(&before) == head(&after), "{len} bytes at {at} are not repaired");
        }
    }
}

/// A file that is no archive is not taken for one because its head is unknown.
#[test]
fn r4_other_files_stay_other_files() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(2);
    let mut bytes = fs::read(&path).unwrap();
    bytes[..HEAD_LEN as usize].fill(b'x');
    // The first commit is damaged too, and what follows it is not searched for.
    bytes[HEAD_LEN as usize + 20] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(Snapshot::open(&path), Err(Error::NotAnArchive { .. })));
    assert_eq!(fs::read(&path).unwrap(), bytes);
}
