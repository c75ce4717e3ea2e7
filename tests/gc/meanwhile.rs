//! What is pushed while a rewrite is under way, at a moment that the test chooses.

use std::{cell::Cell, path::Path};

use znippy::{
    archive::{self, Expire, GcOptions, GcProgress, GcReport, Snapshot, WritePolicy},
    pack::{PackStore, object::ObjectReader},
};

use crate::packs::{blob, commit, delete, id_of, pack, set, tree};

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
fn r16_pushes_are_carried_over() {
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
