//! An archive cut at every byte, and a push into what is left.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use znippy::{
    archive::{Snapshot, WritePolicy, commit},
    media::Medium,
    pack::PackStore,
};

use crate::{
    archive::Model,
    disk::MemDisk,
    examine::in_parallel,
    examine::{Allowed, examine, named},
    memory,
};

/// A file that lost its end shows what is left, loudly; nothing of it is wrong.
#[test]
fn a_file_cut_at_every_byte() {
    let directory = tempfile::tempdir().unwrap();
    let model = Model::small(directory.path(), 4);
    in_parallel(|thread, threads| {
        let disk = MemDisk::new(model.bytes.clone());
        for len in (0..model.bytes.len()).rev().skip(thread).step_by(threads) {
            disk.file.set_len(len as u64).unwrap();
            cut(&disk, &model, len);
        }
    });
}

fn cut(disk: &MemDisk, model: &Model, len: usize) {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let allowed = Allowed {
            refs: false,
            earlier: true,
            // The first commit must be whole.
            all: len < model.lens[0],
            object: &|_| false,
        };
        examine(disk, model, &allowed)?;
        named(disk).map(drop)
    }));
    match result {
        Ok(Ok(())) => memory::check(&len),
        Ok(Err(why)) => panic!("cut at {len}: {why}"),
        Err(_) => panic!("cut at {len}: a panic"),
    }
}

/// R4: a write that stopped at any byte: the state before is shown, verify names the tail, and the next push cuts it off.
#[test]
fn a_push_behind_every_torn_tail() {
    let directory = tempfile::tempdir().unwrap();
    let mut model = Model::small(directory.path(), 2);
    let before = model.bytes.len();
    model.push(directory.path(), 2, "refs/heads/torn");
    let torn = [&model.heads[1][..], &model.bytes[12288..]].concat();
    // A push as another client would make it, of what the archive held before.
    in_parallel(|thread, threads| {
        let other = tempfile::tempdir().unwrap();
        let old = Model::small(other.path(), 2);
        assert_eq!(old.objects.len(), 8);
        for len in (before..torn.len()).skip(thread).step_by(threads) {
            let disk = MemDisk::new(torn[..len].to_vec());
            if len > before {
                let report = named(&disk).unwrap().unwrap();
                assert_eq!(report.worst, Some(znippy::verify::Severity::Warning), "cut at {len}");
            }
            let (transaction, objects) = old.next_push(other.path(), 2, "refs/heads/next");
            let policy = WritePolicy {
                disk: &disk,
                ..WritePolicy::default()
            };
            let outcome = commit(Path::new("torn"), transaction, policy).unwrap();
            assert!(outcome.written, "cut at {len}");
            let snapshot = Snapshot::open_on(&disk, Path::new("torn")).unwrap();
            assert!(
                snapshot.warnings().is_empty(),
                "cut at {len}: {:?}",
                snapshot.warnings()
            );
            for known in model.objects.iter().filter(|known| known.commit < 2).chain(&objects) {
                assert!(snapshot.lookup(&known.id).unwrap().is_some(), "cut at {len}");
            }
            let found = named(&disk);
            assert!(found.is_err(), "cut at {len}: all is well again, but {found:?}");
        }
    });
}
