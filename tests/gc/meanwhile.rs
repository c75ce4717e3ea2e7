//! What is pushed while a rewrite is under way, at a moment that the test chooses.

use std::{cell::Cell, path::Path};

use znippy::{
    archive::{self, Expire, GcOptions, GcProgress, GcReport, Snapshot, WritePolicy},
    media::LockMode,
    pack::{PackStore, object::ObjectReader},
};

use crate::{
    disk::OddDisk,
    packs::{blob, commit, delete, id_of, pack, set, tree},
};

fn fixture() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.znippy");
    archive::create(&path, gix_hash::Kind::Sha1, "refs/heads/main".into()).unwrap();
    let (a, b) = (blob("a"), blob("b"));
    let edits = vec![set("refs/x/a", id_of(&a)), set("refs/x/b", id_of(&b))];
    commit(&path, vec![pack(&[a, b])], edits).unwrap();
    (directory, path)
}

/// Rewrites, and runs `work` once when the new file is being read back.
fn gc_while(path: &Path, expire: Expire, work: impl Fn()) -> znippy::Result<GcReport> {
    let done = Cell::new(false);
    let mut progress = |progress| {
        if matches!(progress, GcProgress::Checking(..)) && !done.replace(true) {
            work();
        }
    };
    let options = GcOptions {
        expire,
        force: true,
        progress: Some(&mut progress),
        ..GcOptions::default()
    };
    archive::gc(path, options, &mut WritePolicy::default())
}

/// Checks the archive down to its last object.
fn verified(path: &Path) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_znippy"));
    let output = command.args(["verify", "--full"]).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn r6_r16_pushes_are_carried_over_and_merged_meanwhile() {
    let (_directory, path) = fixture();
    let report = gc_while(&path, Expire::Never, || {
        for n in 0..100 {
            let object = blob(&format!("new {n}"));
            let id = id_of(&object);
            commit(&path, vec![pack(&[object])], vec![set(&format!("refs/x/n/{n}"), id)]).unwrap();
        }
        commit(&path, vec![], vec![delete("refs/x/n/7"), delete("refs/x/b")]).unwrap();
        commit(&path, vec![], vec![set("refs/x/again", id_of(&blob("a")))]).unwrap();
    });
    let report = report.unwrap();
    assert_eq!((report.carried, report.generation), (102, 2));
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(snapshot.refs().unwrap().len(), 1 + 2 + 100 + 1 - 2);
    assert!(snapshot.is_closed(), "what was carried over is proven");
    let reader = ObjectReader::new(&snapshot);
    for n in 0..100 {
        let content = format!("new {n}");
        let object = reader.require(&id_of(&blob(&content))).unwrap();
        assert_eq!(object.data.as_slice(), content.as_bytes());
    }
    let txns: Vec<u64> = snapshot.edits().unwrap().iter().map(|row| row.txn).collect();
    assert!(txns.is_sorted_by(|a, b| a < b), "{txns:?}");
    verified(&path);
    // The next transaction has a number of its own.
    commit(&path, vec![], vec![delete("refs/x/again")]).unwrap();
    let edits = Snapshot::open(&path).unwrap().edits().unwrap();
    assert!(edits.last().unwrap().txn > *txns.last().unwrap());
}

/// R16: a new generation that its checker does not find whole never takes the archive's place.
#[test]
fn r16_a_new_generation_is_checked_before_it_counts() {
    let (directory, path) = fixture();
    let before = std::fs::read(&path).unwrap();
    // What the checker is to see is what is in the file: another byte of the pack is damage.
    let spoil = |snapshot: &Snapshot| {
        znippy::verify::check_new_generation(snapshot)?;
        let file = archive::temporary_path(&path);
        let mut bytes = std::fs::read(&file).unwrap();
        let at = bytes.windows(4).position(|window| window == b"PACK").unwrap();
        bytes[at + 20] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        znippy::verify::check_new_generation(snapshot)
    };
    let options = GcOptions {
        force: true,
        check: Some(&spoil),
        ..GcOptions::default()
    };
    let error = archive::gc(&path, options, &mut WritePolicy::default()).unwrap_err();
    assert!(error.to_string().contains("not what is read"), "{error}");
    assert!(std::fs::read(&path).unwrap() == before);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
}

/// Proves what is not proven, and runs `work` once when the first pack is being read.
fn catch_up_while(path: &Path, policy: &mut WritePolicy<'_>, work: impl Fn()) -> archive::CaughtUp {
    let done = Cell::new(false);
    let mut progress = |_, _| {
        if !done.replace(true) {
            work();
        }
    };
    let caught_up = archive::catch_up(path, false, policy, &mut progress).unwrap();
    assert!(done.get(), "nothing was read");
    caught_up.expect("no other run")
}

/// R6: what is proven of a pack while others are pushed, and the batch that it is in is merged with theirs, still is about that
/// pack: the row names it by its transaction, and the list of batches is made from the newest footer.
#[test]
fn r6_catch_up_beside_pushes_that_merge() {
    let (_directory, path) = fixture();
    let caught_up = catch_up_while(&path, &mut WritePolicy::default(), || {
        for n in 0..140 {
            let object = blob(&format!("new {n}"));
            let id = id_of(&object);
            commit(&path, vec![pack(&[object])], vec![set(&format!("refs/x/n/{n}"), id)]).unwrap();
        }
    });
    assert_eq!((caught_up.proven, caught_up.unsound.len()), (1, 0));
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(snapshot.info().unwrap().unproven_packs, 140);
    assert_eq!(snapshot.refs().unwrap().len(), 1 + 2 + 140);
    verified(&path);
    let caught_up = catch_up_while(&path, &mut WritePolicy::default(), || ());
    assert_eq!((caught_up.proven, caught_up.unsound.len()), (140, 0));
    assert!(Snapshot::open(&path).unwrap().is_closed());
    verified(&path);
}

/// R6: where a gc was faster the rows that a catch-up is about are gone, and it has nothing to say. The two meet only where the
/// disk cannot keep them apart.
#[test]
fn r6_catch_up_beside_a_gc() {
    let (_directory, path) = fixture();
    commit(
        &path,
        vec![pack(&[blob("c")])],
        vec![set("refs/x/c", id_of(&blob("c")))],
    )
    .unwrap();
    let disk = OddDisk {
        locks_lie: true,
        ..OddDisk::default()
    };
    let policy = || WritePolicy {
        disk: &disk,
        lock: LockMode::File,
        ..WritePolicy::default()
    };
    catch_up_while(&path, &mut policy(), || {
        let options = GcOptions {
            force: true,
            ..GcOptions::default()
        };
        archive::gc(&path, options, &mut policy()).unwrap();
    });
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!((snapshot.generation(), snapshot.packs()), (2, 1));
    // A gc proves what it copies, and writes two commits: no row of the catch-up came behind them.
    assert_eq!((snapshot.is_closed(), snapshot.sequence()), (true, 2));
    assert_eq!(snapshot.refs().unwrap().len(), 1 + 3);
    verified(&path);
}

/// R9: a push that relies on an object that is just being pruned is not lost, and does not become a hole.
#[test]
fn r9_an_object_that_a_push_relies_on_is_not_pruned() {
    let (_directory, path) = fixture();
    commit(&path, vec![], vec![delete("refs/x/b")]).unwrap();
    let b = id_of(&blob("b"));
    let relying = tree("b", &b);
    let id = id_of(&relying);
    let report = gc_while(&path, Expire::Now, || {
        commit(&path, vec![pack(&[tree("b", &b)])], vec![set("refs/x/tree", id)]).unwrap();
    });
    let report = report.unwrap();
    assert_eq!(
        (report.pruned, report.carried),
        (0, 0),
        "a second attempt found it reachable"
    );
    let snapshot = Snapshot::open(&path).unwrap();
    assert!(snapshot.lookup(&b).unwrap().is_some());
    assert_eq!(snapshot.packs(), 1);

    // The same without a pack: a reference to what is being pruned.
    commit(&path, vec![], vec![delete("refs/x/tree")]).unwrap();
    let report = gc_while(&path, Expire::Now, || {
        commit(&path, vec![], vec![set("refs/x/rescued", b)]).unwrap();
    });
    assert_eq!(report.unwrap().pruned, 1, "the tree, not the blob");
    verified(&path);
    assert!(Snapshot::open(&path).unwrap().lookup(&b).unwrap().is_some());
}

/// R9: what is carried over with a proof leads to nothing that came after it, which is what readers take a proof for.
#[test]
fn r9_what_came_later_does_not_make_up_for_what_was_pruned() {
    let (_directory, path) = fixture();
    commit(&path, vec![], vec![delete("refs/x/b")]).unwrap();
    let b = id_of(&blob("b"));
    let relying = tree("b", &b);
    let report = gc_while(&path, Expire::Now, || {
        commit(
            &path,
            vec![pack(std::slice::from_ref(&relying))],
            vec![set("refs/x/tree", id_of(&relying))],
        )
        .unwrap();
        commit(&path, vec![pack(&[blob("b")])], vec![set("refs/x/late", b)]).unwrap();
    });
    report.unwrap();
    let snapshot = Snapshot::open(&path).unwrap();
    assert!(snapshot.is_closed());
    let (tree, b) = (
        snapshot.lookup(&id_of(&relying)).unwrap().unwrap().pack,
        snapshot.lookup(&b).unwrap().unwrap().pack,
    );
    assert!(
        tree >= b || !snapshot.is_closed_before(b).unwrap(),
        "tree in {tree}, blob in {b}"
    );
    verified(&path);
}

/// A reader that opened the old generation goes on with it.
#[test]
fn readers_keep_what_they_opened() {
    let (_directory, path) = fixture();
    let old = Snapshot::open(&path).unwrap();
    let b = id_of(&blob("b"));
    commit(&path, vec![], vec![delete("refs/x/b")]).unwrap();
    gc_while(&path, Expire::Now, || ()).unwrap();
    assert_eq!(ObjectReader::new(&old).require(&b).unwrap().data.as_slice(), b"b");
    assert!(old.find_ref("refs/x/b".into()).unwrap().is_some());
    assert!(
        Snapshot::open(&path)
            .unwrap()
            .find_ref("refs/x/b".into())
            .unwrap()
            .is_none()
    );
}

/// Two rewrites at once: one of them says so.
#[test]
fn one_rewrite_at_a_time() {
    let (_directory, path) = fixture();
    let inner = Cell::new(None);
    gc_while(&path, Expire::Never, || {
        inner.set(Some(archive::gc(
            &path,
            GcOptions::default(),
            &mut WritePolicy::default(),
        )));
    })
    .unwrap();
    assert!(matches!(inner.into_inner().unwrap(), Err(znippy::Error::Locked { .. })));
}
