//! Entries that rows say are damaged.

use super::*;
use crate::{
    archive::{
        prepare::{Addition, IndexAddition},
        writer::with_writer,
    },
    format::row::{Row, RowKind},
    pack::selection::Selection,
};

/// Appends a row about the pack of transaction `txn`, whose objects `from..to` are sound but for those of `damaged`.
fn note(path: &Path, txn: u64, from: u32, to: u32, damaged: &[u32]) {
    let mut objects = pack(from, to, 100).entries;
    objects.kinds = (from..to).map(|n| if damaged.contains(&n) { 0 } else { 3 }).collect();
    objects.sizes = vec![1; objects.len()];
    let setting = |n: &u32| ("damaged".to_string(), format!("{} 12 a test", oid(*n)).into_bytes());
    let index = IndexAddition {
        row: Row {
            // One name is enough: the table tells the others.
            settings: damaged.iter().take(1).map(setting).collect(),
            covers: Some((txn, txn)),
            objects,
            ..Row::new(0, 0, RowKind::Index)
        },
        proven: false,
        resolved: 0,
    };
    let addition = Addition {
        index: Some(index),
        ..Addition::default()
    };
    with_writer(path, None, &mut WritePolicy::default(), |writer, policy| {
        writer.append(addition, policy)
    })
    .unwrap();
}

fn counts(path: &Path) -> (u64, u64) {
    let totals = Snapshot::open(path).unwrap().state().footer.totals;
    (totals.damaged, totals.damaged_entries)
}

/// R19, R21: of the copies of an object the earliest that is not known to be damaged counts, in every kind of look-up.
#[test]
fn r21_a_copy_that_is_known_to_be_damaged_counts_last() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(0);
    let txn = |rank| Snapshot::open(&path).unwrap().pack_txn(rank).unwrap();
    let ranks = |n: u32| {
        let snapshot = Snapshot::open(&path).unwrap();
        let single = snapshot.lookup(&oid(n)).unwrap().unwrap().pack;
        // All of them at once.
        let all = Selection::all(&snapshot).unwrap();
        let at = (0..all.len()).find(|at| *all.oid(*at) == *oid(n)).unwrap();
        assert_eq!(all.location(at).pack, single, "object {n}");
        let finder = crate::pack::finder::Finder::new(&snapshot);
        for _ in 0..600 {
            assert_eq!(finder.find(&oid(n)).unwrap().unwrap().pack, single, "object {n}");
        }
        single
    };
    push(&path, pack(1, 10, 200), vec![set("refs/heads/a", 1)]);
    push(&path, pack(3, 12, 300), vec![set("refs/heads/a", 3)]);
    assert_eq!([1, 3, 4, 11].map(ranks), [0, 0, 0, 1]);
    note(&path, txn(0), 1, 10, &[3, 4]);
    assert_eq!(counts(&path), (0, 2), "there are other copies");
    assert_eq!([1, 3, 4, 5, 11].map(ranks), [0, 1, 1, 0, 1]);
    // The other copy of one is no good either: then the damage is found where it always was.
    note(&path, txn(1), 3, 12, &[3]);
    assert_eq!(counts(&path), (1, 3));
    assert_eq!(Snapshot::open(&path).unwrap().damaged_objects().unwrap(), [oid(3)]);
    assert_eq!([3, 4].map(ranks), [0, 1]);
    // A push brings a good one.
    push(&path, pack(3, 4, 400), vec![set("refs/heads/a", 4)]);
    assert_eq!(counts(&path), (0, 3));
    assert_eq!([1, 3, 4].map(ranks), [0, 2, 1]);
    // The first pack is sound again: somebody put its bytes back.
    note(&path, txn(0), 1, 10, &[]);
    assert_eq!(counts(&path), (0, 1));
    assert_eq!([3, 4, 11].map(ranks), [0, 0, 1]);
    // Many packs, and merged rows, change nothing about it.
    note(&path, txn(0), 1, 10, &[4]);
    for n in 100..250 {
        push(&path, pack(n, n + 1, 100), vec![set("refs/heads/a", n)]);
    }
    assert_eq!(counts(&path), (0, 2));
    assert_eq!([1, 4, 11, 200].map(ranks), [0, 1, 1, 103]);
}

/// The same where a table is so large that it is searched in the file.
#[test]
fn r21_a_damaged_copy_in_a_large_pack_counts_last() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(0);
    push(&path, pack(1, 9000, 20_000), vec![set("refs/heads/a", 1)]);
    push(&path, pack(5, 8, 300), vec![set("refs/heads/a", 5)]);
    push(&path, pack(5, 9005, 20_000), vec![set("refs/heads/a", 6)]);
    let rank = |n| Snapshot::open(&path).unwrap().lookup(&oid(n)).unwrap().unwrap().pack;
    assert_eq!([5, 10, 9001].map(rank), [0, 0, 2]);
    let txn = Snapshot::open(&path).unwrap().pack_txn(0).unwrap();
    note(&path, txn, 1, 9000, &[1, 5, 10]);
    assert_eq!([1, 5, 6, 10, 11].map(rank), [0, 1, 0, 2, 0]);
    assert_eq!(counts(&path), (1, 3));
}
