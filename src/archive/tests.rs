//! The archive without git: commits, snapshots, tails, and what a damaged file says.

use std::{fs, path::Path};

use bstr::ByteSlice;
use gix_hash::{Kind, ObjectId};

mod hostile;
mod merging;
mod tails;

use super::*;
use crate::{
    error::Error,
    format::{
        HEAD_LEN,
        slot::{SLOT_LEN, SLOT_OFFSETS},
    },
    pack::PackStore,
    refs::{EditResult, Expected, Ref, RefEdit, Rejection, Target},
};

fn oid(n: u32) -> ObjectId {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&n.to_be_bytes());
    bytes[19] = 1;
    ObjectId::Sha1(bytes)
}

fn set(name: &str, n: u32) -> RefEdit {
    let new = Some(Target::Object {
        oid: oid(n),
        peeled: None,
    });
    RefEdit {
        name: name.into(),
        expected: Expected::Any,
        new,
        rewinds: false,
    }
}

fn delete(name: &str) -> RefEdit {
    RefEdit {
        name: name.into(),
        expected: Expected::Present,
        new: None,
        rewinds: true,
    }
}

/// A file that is no pack but ends with its own hash, named as the home of the objects `from..to`.
fn pack(from: u32, to: u32, len: usize) -> NewPack {
    use std::io::Write;
    let mut bytes: Vec<u8> = (0..len).map(|i| (i as u32 * 7 + from) as u8 | 1).collect();
    let mut hasher = gix_hash::hasher(Kind::Sha1);
    hasher.update(&bytes);
    let id = hasher.try_finalize().unwrap();
    bytes.extend_from_slice(id.as_slice());
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    let entries = EntryTable {
        oids: (from..to).flat_map(|n| oid(n).as_slice().to_vec()).collect(),
        oid_len: 20,
        offsets: (from..to).map(|n| 12 + u64::from(n - from)).collect(),
        crc32s: (from..to).collect(),
        ..EntryTable::default()
    };
    NewPack {
        file,
        path: "test.pack".into(),
        id,
        entries,
        proof: Proof::None,
        commits: vec![],
    }
}

fn push(path: &Path, pack: NewPack, edits: Vec<RefEdit>) -> Outcome {
    let transaction = Transaction {
        packs: vec![pack],
        edits,
        ..Transaction::default()
    };
    commit(path, transaction, WritePolicy::default()).unwrap()
}

fn value(snapshot: &Snapshot, name: &str) -> Option<ObjectId> {
    match snapshot.find_ref(name.as_bytes().as_bstr()).unwrap() {
        Some(Target::Object { oid, .. }) => Some(oid),
        _ => None,
    }
}

struct Sandbox {
    directory: tempfile::TempDir,
}

impl Sandbox {
    fn new() -> Sandbox {
        Sandbox {
            directory: tempfile::tempdir().unwrap(),
        }
    }
    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("a.znippy")
    }
    /// An archive with `pushes` commits after its creation: objects and refs 1, 2, …
    fn archive(&self, pushes: u32) -> std::path::PathBuf {
        let path = self.path();
        create(&path, Kind::Sha1, "refs/heads/main".into()).unwrap();
        for n in 1..=pushes {
            let outcome = push(&path, pack(n, n + 1, 100), vec![set(&format!("refs/heads/b{n}"), n)]);
            assert!(outcome.written);
        }
        path
    }
}

#[test]
fn a_new_archive_is_empty_and_names_its_branch() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(0);
    let snapshot = Snapshot::open(&path).unwrap();
    let head = Ref {
        name: "HEAD".into(),
        target: Target::Symbolic("refs/heads/main".into()),
    };
    assert_eq!(snapshot.refs().unwrap(), [head]);
    assert_eq!(
        (snapshot.sequence(), snapshot.generation(), snapshot.packs()),
        (1, 1, 0)
    );
    assert!(snapshot.warnings().is_empty());
    assert!(matches!(
        create(&path, Kind::Sha1, "refs/heads/x".into()),
        Err(Error::AlreadyExists { .. })
    ));
    let names: Vec<_> = fs::read_dir(sandbox.directory.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["a.znippy"], "no other file is left");
}

#[test]
fn pushes_are_found_again_small_and_large() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(3);
    push(
        &path,
        pack(1000, 11_000, 6 << 20),
        vec![set("refs/heads/big", 1000), set("refs/tags/t", 10_999)],
    );
    push(&path, pack(500, 1500, 5000), vec![set("refs/heads/big", 1200)]);
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(snapshot.packs(), 5);
    assert_eq!(value(&snapshot, "refs/heads/big"), Some(oid(1200)));
    assert_eq!(value(&snapshot, "refs/heads/b2"), Some(oid(2)));
    for (n, rank) in [(1, 0), (3, 2), (1000, 3), (1499, 3), (10_999, 3), (500, 4), (999, 4)] {
        assert_eq!(
            snapshot.lookup(&oid(n)).unwrap().map(|location| location.pack),
            Some(rank),
            "object {n}"
        );
    }
    for n in [0, 4, 499, 11_000] {
        assert_eq!(snapshot.lookup(&oid(n)).unwrap(), None, "object {n}");
    }
    let mut bytes = vec![0; 5020];
    snapshot.read_exact_at(4, 0, &mut bytes).unwrap();
    assert!(snapshot.read_exact_at(4, 1, &mut bytes).is_err());
    assert_eq!(bytes[5000..], *snapshot.pack_id(4).as_slice());
    assert_eq!(snapshot.entries(3).unwrap().len(), 10_000);
    let info = snapshot.info().unwrap();
    assert_eq!((info.packs, info.objects, info.refs), (5, 11_003, 5));
    assert_eq!(
        info.head.as_deref(),
        Some("refs/heads/b1"),
        "the first branch became HEAD"
    );
}

/// Large packs beside others in one commit, and beside a checkpoint, are searched in their part of the batch.
#[test]
fn large_packs_of_one_commit_are_found_again() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(1);
    let transaction = Transaction {
        packs: vec![
            pack(1000, 6000, 700),
            pack(300, 310, 80),
            pack(10_000, 15_500, 900),
            pack(5000, 10_500, 600),
        ],
        edits: (1000..1600).map(|n| set(&format!("refs/heads/many/{n}"), n)).collect(),
        ..Transaction::default()
    };
    commit(&path, transaction, WritePolicy::default()).unwrap();
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(snapshot.packs(), 5);
    assert_eq!(snapshot.refs().unwrap().len(), 602);
    for (n, pack, first) in (300..310)
        .map(|n| (n, 2, 300))
        .chain((1000..6000).step_by(7).map(|n| (n, 1, 1000)))
        .chain((6000..10_000).step_by(7).map(|n| (n, 4, 5000)))
        .chain((10_000..15_500).step_by(7).map(|n| (n, 3, 10_000)))
    {
        let location = snapshot.lookup(&oid(n)).unwrap().unwrap();
        let offset = 12 + u64::from(n - first);
        assert_eq!((location.pack, location.offset, location.crc32), (pack, offset, n));
    }
    for n in [299, 310, 999, 15_500] {
        assert_eq!(snapshot.lookup(&oid(n)).unwrap(), None, "object {n}");
    }
    assert_eq!(snapshot.entries(3).unwrap().len(), 5500);
}

#[test]
fn ref_changes_move_from_footer_to_run_to_base() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(1);
    let mut model = std::collections::BTreeMap::new();
    model.insert("refs/heads/b1".to_string(), 1);
    let mut next = 100;
    for round in 0..60u32 {
        let mut edits = vec![];
        for k in 0..1 + round % 17 * 10 {
            let name = format!("refs/heads/topic/{}", (round * 31 + k * 7) % 600);
            if edits.iter().any(|edit: &RefEdit| edit.name == name.as_str()) {
                continue;
            }
            if model.contains_key(&name) && k % 3 == 0 {
                model.remove(&name);
                edits.push(delete(&name));
            } else {
                model.insert(name.clone(), next);
                edits.push(set(&name, next));
            }
        }
        push(&path, pack(next, next + 1, 50), edits);
        next += 1;
        let snapshot = Snapshot::open(&path).unwrap();
        let refs: Vec<_> = snapshot
            .refs()
            .unwrap()
            .into_iter()
            .filter(|r| r.name != "HEAD")
            .collect();
        let expected: Vec<_> = model
            .iter()
            .map(|(name, n)| Ref {
                name: name.as_str().into(),
                target: Target::Object {
                    oid: oid(*n),
                    peeled: None,
                },
            })
            .collect();
        assert_eq!(refs, expected, "round {round}");
    }
}

#[test]
fn edits_are_judged_by_gits_rules() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(2);
    let run = |edits: Vec<RefEdit>, atomic| {
        let transaction = Transaction {
            edits,
            atomic,
            ..Transaction::default()
        };
        commit(&path, transaction, WritePolicy::default()).unwrap()
    };
    let size = || fs::metadata(&path).unwrap().len();
    let before = size();
    let stale = RefEdit {
        expected: Expected::Oid(oid(9)),
        ..set("refs/heads/b1", 2)
    };
    for (edit, why) in [
        (stale.clone(), "stale info"),
        (
            RefEdit {
                expected: Expected::Absent,
                ..set("refs/heads/b1", 2)
            },
            "stale info",
        ),
        (set("refs/heads/b1/c", 1), "name conflicts with refs/heads/b1"),
        (set("refs/heads", 1), "name conflicts with"),
        (set("refs/heads/a..b", 1), "invalid ref name"),
        (set("heads/x", 1), "invalid ref name"),
        (set("refs/heads/new", 77), "is missing"),
        (set("HEAD", 1), "HEAD must name a branch"),
        (delete("HEAD"), "HEAD cannot be deleted"),
    ] {
        let outcome = run(vec![edit], false);
        let EditResult::Rejected(rejection) = &outcome.results[0] else {
            panic!("{why}: {outcome:?}")
        };
        assert!(rejection.to_string().contains(why), "{rejection} is not about {why}");
        assert!(!outcome.written);
    }
    let outcome = run(vec![set("refs/heads/ok", 1), stale.clone()], true);
    assert_eq!(outcome.results[0], EditResult::Rejected(Rejection::Atomic));
    assert_eq!(
        run(vec![set("refs/heads/b1", 1)], false).results,
        [EditResult::Unchanged]
    );
    assert_eq!(size(), before, "nothing was written by any of these");
    let outcome = run(vec![set("refs/heads/b1/c", 1), delete("refs/heads/b1"), stale], false);
    assert!(
        matches!(
            outcome.results[..2],
            [EditResult::Applied { .. }, EditResult::Applied { .. }]
        ),
        "{outcome:?}"
    );
    // HEAD named b1, which is gone: no candidate, no main, two branches left.
    assert!(outcome.head_unborn);
    let symbolic = |to: &str| RefEdit {
        new: Some(Target::Symbolic(to.into())),
        ..set("HEAD", 1)
    };
    assert!(matches!(
        run(vec![symbolic("refs/tags/x")], false).results[0],
        EditResult::Rejected(_)
    ));
    assert!(matches!(
        run(vec![symbolic("refs/heads/b2")], false).results[0],
        EditResult::Applied { .. }
    ));
    assert_eq!(
        Snapshot::open(&path).unwrap().resolve_ref("HEAD".into()).unwrap(),
        Some(oid(2))
    );
}

#[test]
fn a_pack_that_is_not_what_it_says_is_not_stored() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(1);
    let before = fs::read(&path).unwrap();
    let mut bad = pack(50, 51, 1000);
    bad.id = oid(5);
    let transaction = Transaction {
        packs: vec![bad],
        edits: vec![set("refs/heads/x", 50)],
        ..Transaction::default()
    };
    let refused = commit(&path, transaction, WritePolicy::default());
    assert!(matches!(refused, Err(Error::InvalidPack { .. })), "{refused:?}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// R3, R7: the commit is there although its slot was never written; the next writer confirms it.
#[test]
fn a_whole_tail_counts_and_is_confirmed_by_the_next_push() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(1);
    let slots = fs::read(&path).unwrap()[..HEAD_LEN as usize].to_vec();
    push(&path, pack(7, 8, 3000), vec![set("refs/heads/seven", 7)]);
    let mut bytes = fs::read(&path).unwrap();
    bytes[..HEAD_LEN as usize].copy_from_slice(&slots);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(value(&Snapshot::open(&path).unwrap(), "refs/heads/seven"), Some(oid(7)));
    push(&path, pack(8, 9, 3000), vec![set("refs/heads/eight", 8)]);
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(value(&snapshot, "refs/heads/seven"), Some(oid(7)));
    assert_eq!(value(&snapshot, "refs/heads/eight"), Some(oid(8)));
}

/// R4 and the table of tails: whatever part of an append is on the disk, readers show the state before or after, and the next
/// push works.
#[test]
fn every_cut_and_every_hole_of_an_append_is_survived() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(2);
    let before = fs::read(&path).unwrap();
    push(&path, pack(7, 8, 3000), vec![set("refs/heads/seven", 7)]);
    let after = fs::read(&path).unwrap();
    let head = HEAD_LEN as usize;
    let mut images: Vec<(String, Vec<u8>)> = (before.len()..after.len())
        .step_by(13)
        .map(|len| (format!("cut at {len}"), [&before[..head], &after[head..len]].concat()))
        .collect();
    for at in (before.len().next_multiple_of(512)..after.len()).step_by(512) {
        let mut image = [&before[..head], &after[head..]].concat();
        let end = (at + 512).min(image.len());
        image[at..end].fill(0);
        images.push((format!("hole at {at}"), image));
    }
    assert!(images.len() > 400);
    for (what, image) in images {
        fs::write(&path, &image).unwrap();
        let snapshot = Snapshot::open(&path).unwrap();
        assert_eq!(value(&snapshot, "refs/heads/seven"), None, "{what}");
        assert_eq!(value(&snapshot, "refs/heads/b2"), Some(oid(2)), "{what}");
        push(&path, pack(9, 10, 200), vec![set("refs/heads/nine", 9)]);
        let snapshot = Snapshot::open(&path).unwrap();
        assert_eq!(value(&snapshot, "refs/heads/nine"), Some(oid(9)), "{what}");
        assert_eq!(snapshot.packs(), 3, "{what}");
        assert!(snapshot.warnings().is_empty(), "{what}: {:?}", snapshot.warnings());
    }
}

/// Complete but changed bytes are damage: they stay, and work goes on behind them.
#[test]
fn a_damaged_tail_is_kept_and_skipped() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(1);
    let before = fs::read(&path).unwrap();
    push(&path, pack(7, 8, 3000), vec![set("refs/heads/seven", 7)]);
    let mut image = fs::read(&path).unwrap();
    image[..HEAD_LEN as usize].copy_from_slice(&before[..HEAD_LEN as usize]);
    let at = image.len() - 4000;
    image[at] ^= 0x10;
    fs::write(&path, &image).unwrap();
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(value(&snapshot, "refs/heads/seven"), None);
    assert_eq!(snapshot.warnings().len(), 1, "{:?}", snapshot.warnings());
    push(&path, pack(9, 10, 200), vec![set("refs/heads/nine", 9)]);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(
        bytes[before.len()..image.len()],
        image[before.len()..],
        "the damaged bytes are kept"
    );
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(value(&snapshot, "refs/heads/nine"), Some(oid(9)));
    assert_eq!(value(&snapshot, "refs/heads/b1"), Some(oid(1)));
}

#[test]
fn unreadable_slots_are_healed() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(4);
    for (n, spoiled) in [(20, &[0][..]), (21, &[1]), (22, &[0, 1])] {
        let mut bytes = fs::read(&path).unwrap();
        for slot in spoiled {
            let at = SLOT_OFFSETS[*slot] as usize;
            bytes[at..at + SLOT_LEN].fill(0xaa);
        }
        fs::write(&path, &bytes).unwrap();
        let snapshot = Snapshot::open(&path).unwrap();
        assert_eq!(value(&snapshot, "refs/heads/b4"), Some(oid(4)));
        push(&path, pack(n, n + 1, 20), vec![set(&format!("refs/heads/{n}"), n)]);
        push(&path, pack(n, n + 1, 20), vec![set(&format!("refs/heads/{n}again"), n)]);
        assert!(Snapshot::open(&path).unwrap().warnings().is_empty());
    }
}

#[test]
fn a_truncated_archive_shows_an_earlier_state_loudly_and_takes_no_push() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(3);
    let whole = fs::read(&path).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for len in (0..whole.len()).step_by(97) {
        fs::write(&path, &whole[..len]).unwrap();
        match Snapshot::open(&path) {
            Ok(snapshot) => {
                assert!(!snapshot.warnings().is_empty(), "silent at {len}");
                seen.insert(snapshot.sequence());
            }
            Err(Error::Truncated { .. } | Error::NotAnArchive { .. } | Error::Damaged { .. }) => {}
            Err(other) => panic!("cut at {len}: {other}"),
        }
        let transaction = Transaction {
            packs: vec![pack(9, 10, 10)],
            edits: vec![set("refs/heads/x", 9)],
            ..Transaction::default()
        };
        assert!(
            commit(&path, transaction, WritePolicy::default()).is_err(),
            "pushed into a file cut at {len}"
        );
        assert_eq!(fs::metadata(&path).unwrap().len(), len as u64);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
}

/// R28: a flipped bit of the columns and metadata is an error, never another answer and never a panic.
#[test]
fn every_flipped_byte_is_noticed() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(2);
    let whole = fs::read(&path).unwrap();
    let good = Snapshot::open(&path).unwrap();
    let good_refs = good.refs().unwrap();
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at / 3 % 8);
        fs::write(&path, &bytes).unwrap();
        let Ok(snapshot) = Snapshot::open(&path) else { continue };
        let Ok(refs) = snapshot.refs() else { continue };
        if snapshot.sequence() == good.sequence() {
            assert_eq!(refs, good_refs, "byte {at}");
            for n in [1, 2] {
                if let Ok(location) = snapshot.lookup(&oid(n)) {
                    assert_eq!(location, good.lookup(&oid(n)).unwrap(), "byte {at}");
                }
            }
        } else {
            assert!(
                !snapshot.warnings().is_empty(),
                "byte {at} silently shows an earlier state"
            );
        }
    }
}

#[test]
fn twenty_writers_all_land() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(0);
    std::thread::scope(|scope| {
        for n in 1..=20 {
            let path = &path;
            scope.spawn(move || push(path, pack(n, n + 1, 500), vec![set(&format!("refs/heads/w{n}"), n)]));
        }
    });
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(snapshot.sequence(), 21);
    assert!((1..=20).all(|n| value(&snapshot, &format!("refs/heads/w{n}")) == Some(oid(n))));
}

/// R14: two first pushes at once: one creates, the other commits to what it created.
#[test]
fn two_creators_end_in_one_archive() {
    let sandbox = Sandbox::new();
    let path = sandbox.path();
    std::thread::scope(|scope| {
        for n in 1..=8 {
            let path = &path;
            scope.spawn(move || {
                let edits = vec![
                    set(&format!("refs/heads/w{n}"), n),
                    RefEdit {
                        expected: Expected::Absent,
                        ..set("refs/heads/same", n)
                    },
                ];
                let transaction = Transaction {
                    packs: vec![pack(n, n + 1, 500)],
                    edits,
                    ..Transaction::default()
                };
                create_with(path, Kind::Sha1, transaction, WritePolicy::default()).unwrap()
            });
        }
    });
    let snapshot = Snapshot::open(&path).unwrap();
    assert!((1..=8).all(|n| value(&snapshot, &format!("refs/heads/w{n}")) == Some(oid(n))));
    assert_eq!(fs::read_dir(sandbox.directory.path()).unwrap().count(), 1);
}

/// R17: thousands of pushes leave a short footer, and every row keeps its number, pack and references.
#[test]
fn small_batches_merge_and_nothing_changes_for_readers() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(1);
    push(
        &path,
        pack(100_000, 105_000, 400_000),
        vec![set("refs/heads/large", 100_000)],
    );
    let pushes = 4300;
    let mut appended = 0;
    for n in 2..pushes {
        let before = fs::metadata(&path).unwrap().len();
        push(
            &path,
            pack(n, n + 1, 700),
            vec![set(&format!("refs/heads/b{}", n % 7), n), set("refs/heads/main", n)],
        );
        appended += fs::metadata(&path).unwrap().len() - before - 720;
    }
    let snapshot = Snapshot::open(&path).unwrap();
    let footer = &snapshot.state().footer;
    assert!(footer.blocks.len() < 140, "{} live batches", footer.blocks.len());
    assert!(
        snapshot.state().footer_len <= 8 << 10,
        "a footer of {} bytes",
        snapshot.state().footer_len
    );
    assert!(
        appended / u64::from(pushes) <= 16 << 10,
        "{} bytes a push",
        appended / u64::from(pushes)
    );
    assert_eq!(snapshot.packs(), pushes);
    assert_eq!(footer.totals.objects, u64::from(pushes) - 1 + 5000);
    for n in (1..pushes).chain([100_000, 104_999]) {
        let location = snapshot.lookup(&oid(n)).unwrap().unwrap();
        let rank = match n {
            1 => 0,
            100_000.. => 1,
            n => n,
        };
        assert_eq!(location.pack, rank, "object {n}");
        let trailer = snapshot.pack_len(rank) - 20;
        let mut id = [0; 20];
        snapshot.read_exact_at(rank, trailer, &mut id).unwrap();
        assert_eq!(ObjectId::from(id), snapshot.pack_id(rank));
    }
    assert_eq!(value(&snapshot, "refs/heads/main"), Some(oid(pushes - 1)));
    assert_eq!(value(&snapshot, "refs/heads/large"), Some(oid(100_000)));
    let live: u64 = footer.blocks.iter().map(|block| block.end() - block.offset).sum();
    assert!(footer.totals.dead_bytes + live >= snapshot.file_len() - HEAD_LEN - snapshot.state().footer_len);
}
