//! Files that claim to be much longer than what was written into them.

use std::path::Path;

use gix_hash::Kind as Format;
use znippy::{
    archive::{Snapshot, WritePolicy, commit},
    format::{HEAD_LEN, batch::Batch, digest, head::Head, recover::recover},
    media::{Medium, MemMedium},
    pack::PackStore,
    verify::{Level, Options, verify},
};

use crate::{archive::Model, disk::MemDisk, examine::named, memory};

const TIB: u64 = 1 << 40;

/// Zeros behind the last commit are an unfinished write, however many there are.
#[test]
fn a_tebibyte_of_zeros_behind_the_last_commit() {
    let directory = tempfile::tempdir().unwrap();
    let model = Model::small(directory.path(), 2);
    let disk = MemDisk::new(model.bytes.clone());
    disk.file.set_len(TIB).unwrap();
    let snapshot = Snapshot::open_on(&disk, Path::new("sparse")).unwrap();
    assert_eq!(snapshot.refs().unwrap(), model.refs[1]);
    let report = named(&disk).unwrap().unwrap();
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    let (transaction, _) = model.next_push(directory.path(), 2, "refs/heads/next");
    let policy = WritePolicy {
        disk: &disk,
        ..WritePolicy::default()
    };
    commit(Path::new("sparse"), transaction, policy).unwrap();
    assert!(disk.file.len().unwrap() < 1 << 20);
    memory::check(&"zeros");
}

/// R28: numbers in the metadata that claim gigabytes of columns, with the file long enough for them and the digest right: no
/// memory is taken for what has no checksum.
#[test]
fn r28_columns_that_claim_the_whole_of_a_sparse_file() {
    let directory = tempfile::tempdir().unwrap();
    let model = Model::small(directory.path(), 2);
    let medium = MemMedium::new(model.bytes.clone());
    let head = Head::decode(&model.bytes[..HEAD_LEN as usize]).unwrap();
    let state = recover(&medium, &head, model.bytes.len() as u64, None).unwrap().state;
    for (block, claimed) in state
        .footer
        .blocks
        .iter()
        .flat_map(|block| [1u64 << 29, 3 << 30, 1 << 35, 1 << 39].map(|claimed| (block, claimed)))
    {
        let batch = Batch::load(&medium, *block, Format::Sha1).unwrap();
        let (start, end) = (block.offset as usize, block.body_at() as usize);
        // Each length in the metadata in turn: those of buffers, of nodes, and of the body.
        for at in (start + 8..end - 40).step_by(4) {
            let mut bytes = model.bytes.clone();
            let old = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            if old > batch.geometry.body_len {
                continue;
            }
            bytes[at..at + 8].copy_from_slice(&claimed.to_le_bytes());
            let sum = digest(&[&bytes[start..end - 32]]);
            bytes[end - 32..end].copy_from_slice(&sum);
            let disk = MemDisk::new(bytes);
            // Neither the slot's footer nor a whole commit may say what comes first.
            disk.file.set_len(TIB).unwrap();
            ask(&disk);
            memory::check(&format!("{claimed} at {at}"));
        }
    }
}

fn ask(disk: &MemDisk) {
    let options = Options {
        level: Level::Full,
        disk,
        ..Options::default()
    };
    let _ = verify(Path::new("sparse"), options);
    if let Ok(snapshot) = Snapshot::open_on(disk, Path::new("sparse")) {
        let _ = (snapshot.refs(), snapshot.info());
        for pack in 0..snapshot.packs() {
            let _ = snapshot.entries(pack);
        }
    }
}
