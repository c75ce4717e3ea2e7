//! Many pushes, deletions, merges of batches and rewrites at once.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use gix_hash::ObjectId;
use znippy::{
    archive::{self, Expire, GcOptions, Snapshot, Transaction, WritePolicy},
    pack::object::ObjectReader,
};

use crate::packs::{blob, commit, delete, id_of, pack, set, tree};

const THREADS: usize = 3;
const ROUNDS: usize = 1000;
/// A slow machine goes on for longer.
const REWRITES: usize = 5;

/// R9, R16, R17: whatever was acknowledged is there at the end, whole, and nothing that was deleted comes back.
#[test]
fn r16_a_thousand_rounds_of_pushes_deletions_merges_and_rewrites() {
    // In memory where that is possible: what is raced for is not the disk.
    let directory = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let path = &directory.path().join("app.znippy");
    archive::create(path, gix_hash::Kind::Sha1, "refs/heads/main".into()).unwrap();
    let (round, rewrites) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let done = AtomicBool::new(false);
    let acknowledged = thread::scope(|scope| {
        let pushers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (round, rewrites) = (&round, &rewrites);
                scope.spawn(move || {
                    let mut mine = BTreeMap::new();
                    loop {
                        let n = round.fetch_add(1, Ordering::Relaxed);
                        if n >= ROUNDS && rewrites.load(Ordering::Relaxed) >= REWRITES {
                            return mine;
                        }
                        push(path, thread, n, &mut mine);
                    }
                })
            })
            .collect();
        let done_ref = &done;
        // What is read meanwhile is one state or the other, never a mix.
        let reader = scope.spawn(move || {
            let mut generations = std::collections::BTreeSet::new();
            while !done_ref.load(Ordering::Relaxed) {
                let snapshot = Snapshot::open(path).unwrap();
                generations.insert(snapshot.generation());
                values(&snapshot);
            }
            generations
        });
        let count = &rewrites;
        let collector = scope.spawn(move || {
            while !done_ref.load(Ordering::Relaxed) {
                let expire = if count.load(Ordering::Relaxed) % 2 == 0 {
                    Expire::Now
                } else {
                    Expire::Never
                };
                let options = GcOptions {
                    expire,
                    force: true,
                    ..GcOptions::default()
                };
                match archive::gc(path, options, &mut WritePolicy::default()) {
                    Ok(report) => drop(count.fetch_add(usize::from(report.rewritten), Ordering::Relaxed)),
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let mut acknowledged = BTreeMap::new();
        for pusher in pushers {
            acknowledged.extend(pusher.join().unwrap());
        }
        done.store(true, Ordering::Relaxed);
        collector.join().unwrap();
        assert!(reader.join().unwrap().len() > 1, "the reader saw several generations");
        acknowledged
    });
    let found = values(&Snapshot::open(path).unwrap());
    assert!(
        found == acknowledged,
        "{} references, {} acknowledged",
        found.len(),
        acknowledged.len()
    );
    let last = archive::gc(path, GcOptions::default(), &mut WritePolicy::default()).unwrap();
    assert_eq!(last.packs_after, 1);
    assert!(Snapshot::open(path).unwrap().is_closed());
}

/// Returns the references of a snapshot, all of whose objects it must have.
fn values(snapshot: &Snapshot) -> BTreeMap<String, ObjectId> {
    let reader = ObjectReader::new(snapshot);
    let mut found = BTreeMap::new();
    for reference in snapshot.refs().unwrap() {
        if let znippy::refs::Target::Object { oid, .. } = reference.target {
            let object = reader.require(&oid).unwrap();
            if object.kind == gix_object::Kind::Tree {
                let blob = ObjectId::from_bytes_or_panic(&object.data[object.data.len() - 20..]);
                reader.require(&blob).unwrap();
            }
            found.insert(reference.name.to_string(), oid);
        }
    }
    found
}

/// Pushes a tree whose blob comes with it, or is there and may be on its way out; or deletes something.
fn push(path: &std::path::Path, thread: usize, n: usize, mine: &mut BTreeMap<String, ObjectId>) {
    if n % 5 == 4
        && let Some(name) = mine.keys().next().cloned()
    {
        commit(path, vec![], vec![delete(&name)]).unwrap();
        mine.remove(&name);
        return;
    }
    let name = format!("refs/x/{thread}/{}", n % 40);
    let content = blob(&format!("blob {}", n % 20));
    let blob_id = id_of(&content);
    let object = tree(&format!("file{n}"), &blob_id);
    let id = id_of(&object);
    let basis = Snapshot::open(path).unwrap();
    let done = if n.is_multiple_of(2) && basis.shows(&blob_id).unwrap() {
        let transaction = Transaction {
            packs: vec![pack(std::slice::from_ref(&object))],
            edits: vec![set(&name, id)],
            basis: Some(basis),
            relies_on: vec![blob_id],
            ..Transaction::default()
        };
        match archive::commit(path, transaction, WritePolicy::default()) {
            Ok(_) => true,
            // R9: what it relied on went meanwhile.
            Err(znippy::Error::Rewritten { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    } else {
        false
    };
    if !done {
        // This one shows the blob too, for others to rely on.
        let blob_name = format!("refs/blobs/{thread}/{}", n % 20);
        let edits = vec![set(&name, id), set(&blob_name, blob_id)];
        commit(path, vec![pack(&[object, content])], edits).unwrap();
        mine.insert(blob_name, blob_id);
    }
    mine.insert(name, id);
}
