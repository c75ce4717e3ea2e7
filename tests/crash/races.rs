//! Many at once on a real disk: pushes, deletions, merges, catch-up and gc; copies that are taken meanwhile.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use gix_hash::Kind;
use znippy::{
    Error,
    archive::{self, Expire, GcOptions, Snapshot, Transaction, WritePolicy},
    refs::{EditResult, RefEdit},
};

use crate::work::{Blob, TestPack, delete, set, view_of};

/// Rounds of the race, over all threads.
const ROUNDS: u32 = 1000;
const WRITERS: u32 = 4;

fn transaction(pack: Option<&TestPack>, edits: Vec<RefEdit>) -> Transaction {
    Transaction {
        packs: pack.into_iter().map(TestPack::new_pack).collect(),
        edits,
        ..Transaction::default()
    }
}

fn commit(path: &Path, pack: Option<&TestPack>, edits: Vec<RefEdit>) {
    let outcome = archive::commit(path, transaction(pack, edits), WritePolicy::default()).unwrap();
    let applied = |result: &EditResult| matches!(result, EditResult::Applied { .. } | EditResult::Unchanged);
    assert!(outcome.results.iter().all(applied), "{outcome:?}");
}

fn blob(number: u32) -> Blob {
    Blob {
        number,
        len: 60 + number as usize % 90,
    }
}

/// A thousand rounds of push, deletion and catch-up by four writers, who merge as they go, with gc running all the while and
/// readers looking on: at the end each writer finds exactly what it left.
#[test]
fn a_thousand_rounds_of_push_delete_merge_and_gc() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.znippy");
    let first = TestPack::new(&[blob(0)]);
    let created = transaction(Some(&first), vec![set("refs/tags/first", blob(0))]);
    archive::create_with(&path, Kind::Sha1, created, WritePolicy::default()).unwrap();
    let done = AtomicBool::new(false);
    let (generations, looks) = (AtomicU64::new(0), AtomicU64::new(0));
    let expected = std::thread::scope(|scope| {
        let (path, done) = (&path, &done);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let mut left = BTreeMap::new();
                    for round in 0..ROUNDS / WRITERS {
                        let number = 1 + writer + round * WRITERS;
                        let name = format!("refs/tags/{writer}/{}", round % 20);
                        // Two names that always move together.
                        let twin = format!("refs/tags/{writer}/twin/{}", round % 20);
                        if round % 5 == 4 && left.contains_key(&name) {
                            commit(path, None, vec![delete(&name), delete(&twin)]);
                            left.remove(&name);
                            left.remove(&twin);
                        } else {
                            let pack = TestPack::new(&[blob(number)]);
                            commit(
                                path,
                                Some(&pack),
                                vec![set(&name, blob(number)), set(&twin, blob(number))],
                            );
                            left.insert(name, blob(number).id());
                            left.insert(twin, blob(number).id());
                        }
                        if round % 50 == 17 {
                            archive::catch_up(path, false, &mut WritePolicy::default(), &mut |_, _| ()).unwrap();
                        }
                    }
                    left
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let options = GcOptions {
                    expire: Expire::Now,
                    force: true,
                    ..GcOptions::default()
                };
                match archive::gc(path, options, &mut WritePolicy::default()) {
                    Ok(report) => generations.store(report.generation, Ordering::Relaxed),
                    Err(Error::Locked { .. }) => {}
                    Err(error) => panic!("gc: {error}"),
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let snapshot = Snapshot::open(path).unwrap();
                    let view = view_of(&snapshot).unwrap();
                    assert!(view.warnings.is_empty(), "{:?}", view.warnings);
                    for (name, twin) in (0..WRITERS).flat_map(|w| {
                        (0..20).map(move |n| (format!("refs/tags/{w}/{n}"), format!("refs/tags/{w}/twin/{n}")))
                    }) {
                        assert_eq!(view.find(&name), view.find(&twin), "a reader saw half of a push");
                    }
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let joined: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        let mut all = BTreeMap::from([("refs/tags/first".to_string(), blob(0).id())]);
        joined
            .into_iter()
            .for_each(|left| all.extend(left.expect("a writer failed")));
        all
    });
    let view = view_of(&Snapshot::open(&path).unwrap()).unwrap();
    let found: BTreeMap<_, _> = view
        .refs
        .iter()
        .map(|r| r.name.to_string())
        .filter(|name| name != "HEAD")
        .map(|name| (name.clone(), view.find(&name).expect("an object")))
        .collect();
    assert_eq!(found, expected);
    let (generations, looks) = (generations.into_inner(), looks.into_inner());
    println!("{ROUNDS} rounds, {generations} generations, {looks} looks");
    assert!(generations > 1, "gc never got through");
    let names: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["a.znippy"], "something was left behind");
}

/// A copy that is taken at any moment is an archive: it opens, every byte of it that counts is sound, and it takes a push.
#[test]
fn a_copy_during_pushes_is_an_archive() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.znippy");
    let first = TestPack::new(&[blob(0)]);
    let created = transaction(Some(&first), vec![set("refs/tags/0", blob(0))]);
    archive::create_with(&path, Kind::Sha1, created, WritePolicy::default()).unwrap();
    let pushed = AtomicU64::new(1);
    let mut copies = 0;
    std::thread::scope(|scope| {
        let pusher = scope.spawn(|| {
            for number in 1..=100 {
                let pack = TestPack::new(&[Blob { number, len: 30_000 }]);
                commit(
                    &path,
                    Some(&pack),
                    vec![set(&format!("refs/tags/{number}"), Blob { number, len: 30_000 })],
                );
                pushed.fetch_add(1, Ordering::Relaxed);
            }
        });
        while !pusher.is_finished() || copies == 0 {
            let at_least = pushed.load(Ordering::Relaxed) as usize;
            let copy = directory.path().join("copy.znippy");
            fs::copy(&path, &copy).unwrap();
            let view = view_of(&Snapshot::open(&copy).unwrap()).unwrap();
            assert!(view.packs.len() >= at_least, "{} packs of {at_least}", view.packs.len());
            assert!(
                view.warnings.iter().all(|warning| !warning.contains("damaged")),
                "{:?}",
                view.warnings
            );
            let pack = TestPack::new(&[blob(5000)]);
            commit(&copy, Some(&pack), vec![set("refs/tags/copy", blob(5000))]);
            copies += 1;
        }
    });
    println!("{copies} copies");
}
