//! The commit graph in the columns: found wherever its rows went, and read no further than needed.

use super::*;
use crate::{format::commit_rows::CommitRow, pack::CommitNode};

/// A pack with commit `n`, child of `parents`.
fn commit_pack(n: u32, parents: &[u32], generation: u32) -> NewPack {
    let row = CommitRow {
        oid: oid(n),
        tree: oid(9999),
        parents: parents.iter().map(|parent| oid(*parent)).collect(),
        author: None,
        committed_at: i64::from(n) * 60,
        generation,
    };
    NewPack {
        commits: [row].into_iter().collect(),
        proof: Proof::Closed,
        ..pack(n, n + 1, 100)
    }
}

#[test]
fn commits_are_found_in_every_batch_before_and_after_merging() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(0);
    for n in 1..=150 {
        let parents: &[u32] = if n == 1 { &[] } else { &[n - 1] };
        push(&path, commit_pack(n, parents, n), vec![set("refs/heads/main", n)]);
        if ![1, 2, 63, 66, 150].contains(&n) {
            continue;
        }
        // Each with a snapshot of its own: nothing is read before it is asked for.
        for at in [1, n / 2 + 1, n] {
            let snapshot = Snapshot::open(&path).unwrap();
            let node = snapshot.commit_node(&oid(at)).unwrap().unwrap();
            let expected = CommitNode {
                parents: (1..at).next_back().map(oid).into_iter().collect(),
                time: i64::from(at) * 60,
                generation: Some(at),
            };
            assert_eq!(node, expected, "commit {at} of {n}");
        }
        let snapshot = Snapshot::open(&path).unwrap();
        assert_eq!(snapshot.commit_node(&oid(n + 1)).unwrap(), None);
        for at in (1..=n).rev() {
            assert_eq!(snapshot.commit_generation(&oid(at)).unwrap(), Some(at), "{at} of {n}");
        }
    }
}

#[test]
fn a_generation_of_zero_is_not_known() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(0);
    push(&path, commit_pack(1, &[], 0), vec![set("refs/heads/main", 1)]);
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(snapshot.commit_generation(&oid(1)).unwrap(), None);
    assert!(snapshot.commit_node(&oid(1)).unwrap().is_some());
}

#[test]
fn a_snapshot_shows_what_a_reference_holds_now() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(3);
    push(
        &path,
        pack(4, 5, 100),
        vec![set("refs/heads/b1", 4), delete("refs/heads/b2")],
    );
    let snapshot = Snapshot::open(&path).unwrap();
    let shown: Vec<bool> = (1..=5).map(|n| snapshot.shows(&oid(n)).unwrap()).collect();
    assert_eq!(shown, [false, false, true, true, false]);
}

#[test]
fn a_branch_points_at_a_commit_even_for_the_library() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(1);
    let kinds = |kind| {
        let mut pack = pack(7, 8, 100);
        (pack.entries.kinds, pack.entries.sizes) = (vec![kind], vec![1]);
        pack
    };
    let outcome = push(&path, kinds(3), vec![set("refs/heads/x", 7)]);
    assert!(matches!(
        outcome.results[..],
        [EditResult::Rejected(Rejection::WrongTarget(_))]
    ));
    assert!(!outcome.written);
    assert!(push(&path, kinds(3), vec![set("refs/tags/x", 7)]).written);
    // The same of what is there already, and of an archive that this would create.
    let outcome = push(&path, kinds(1), vec![set("refs/heads/x", 7)]);
    assert!(outcome.written, "{:?}", outcome.results);
    let new = sandbox.directory.path().join("new.znippy");
    let transaction = Transaction {
        packs: vec![kinds(2)],
        edits: vec![set("refs/heads/x", 7)],
        ..Transaction::default()
    };
    let outcome = create_with(&new, Kind::Sha1, transaction, WritePolicy::default()).unwrap();
    assert!(matches!(
        outcome.results[..],
        [EditResult::Rejected(Rejection::WrongTarget(_))]
    ));
}

#[test]
fn r9_a_state_continues_another_only_on_the_same_way() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(2);
    let copy = sandbox.directory.path().join("copy.znippy");
    fs::copy(&path, &copy).unwrap();
    let start = Snapshot::open(&path).unwrap();
    push(&path, pack(3, 4, 100), vec![set("refs/heads/b3", 3)]);
    let later = Snapshot::open(&path).unwrap();
    push(&path, pack(4, 5, 100), vec![set("refs/heads/b4", 4)]);
    let latest = Snapshot::open(&path).unwrap();
    for (now, then, expected) in [
        (&latest, &start, true),
        (&latest, &later, true),
        (&latest, &latest, true),
        (&start, &later, false),
    ] {
        assert_eq!(now.continues(then).unwrap(), expected);
    }
    // The copy went on by itself: the same number of commits, of the same size, at the same places.
    push(&copy, pack(5, 6, 100), vec![set("refs/heads/b5", 5)]);
    push(&copy, pack(6, 7, 100), vec![set("refs/heads/b6", 6)]);
    let diverged = Snapshot::open(&copy).unwrap();
    assert!(diverged.continues(&start).unwrap());
    assert!(!diverged.continues(&later).unwrap());
    assert!(!diverged.continues(&latest).unwrap());
    let transaction = Transaction {
        basis: Some(later),
        packs: vec![pack(8, 9, 100)],
        edits: vec![set("refs/heads/b8", 8)],
        relies_on: vec![oid(3)],
        ..Transaction::default()
    };
    let refused = commit(&copy, transaction, WritePolicy::default());
    assert!(matches!(refused, Err(Error::Rewritten { oid: gone, .. }) if gone == oid(3)));
}

/// R12: what a row says is true of it and of the rows before it.
#[test]
fn r12_only_the_last_of_several_packs_is_closed() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(0);
    // The first pack's commit has its parent in the second.
    let transaction = Transaction {
        packs: vec![commit_pack(2, &[1], 2), commit_pack(1, &[], 1)],
        edits: vec![set("refs/heads/main", 2)],
        ..Transaction::default()
    };
    commit(&path, transaction, WritePolicy::default()).unwrap();
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(*snapshot.proofs().unwrap(), [Proof::Names, Proof::Closed]);
    let is_closed = crate::pack::PackStore::is_closed_before(&snapshot, 1).unwrap();
    assert!(!is_closed, "the first pack leads to the second");
    push(&path, commit_pack(3, &[2], 3), vec![set("refs/heads/main", 3)]);
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(snapshot.proofs().unwrap()[2], Proof::Closed);
}
