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
