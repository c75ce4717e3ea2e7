//! Many writers at once.

use super::*;

/// R6: the list of batches is made under the lock, from the newest state.
#[test]
fn r6_twenty_writers_all_land() {
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

/// R14: a name that is taken by a symbolic link to nowhere is neither created nor waited for.
#[test]
fn r14_a_link_that_leads_nowhere_is_no_place_for_an_archive() {
    let sandbox = Sandbox::new();
    let path = sandbox.path();
    std::os::unix::fs::symlink(sandbox.directory.path().join("gone/app.znippy"), &path).unwrap();
    let transaction = Transaction {
        packs: vec![pack(1, 2, 500)],
        edits: vec![set("refs/heads/main", 1)],
        ..Transaction::default()
    };
    let error = create_with(&path, Kind::Sha1, transaction, WritePolicy::default()).unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
    assert!(path.is_symlink());
    assert_eq!(fs::read_dir(sandbox.directory.path()).unwrap().count(), 1);
}

/// R14: who finds that another was faster, and made an archive for names of another kind, does not add to that.
#[test]
fn r14_a_first_push_does_not_go_into_an_archive_of_another_object_format() {
    let sandbox = Sandbox::new();
    let path = sandbox.path();
    create(&path, Kind::Sha256, "refs/heads/main".into()).unwrap();
    let before = fs::read(&path).unwrap();
    let transaction = Transaction {
        packs: vec![pack(1, 2, 500)],
        edits: vec![set("refs/heads/main", 1)],
        ..Transaction::default()
    };
    let result = create_with(&path, Kind::Sha1, transaction, WritePolicy::default());
    assert!(matches!(result, Err(Error::ObjectFormatMismatch { .. })), "{result:?}");
    assert_eq!(fs::read(&path).unwrap(), before);
}
