//! What is committed is found again.

use super::*;

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
    assert_eq!(bytes[5000..], *snapshot.pack_id(4).unwrap().as_slice());
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
