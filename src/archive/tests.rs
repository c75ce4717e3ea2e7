//! The archive without git: commits, snapshots, tails, and what a damaged file says.

use std::{fs, path::Path};

use bstr::ByteSlice;
use gix_hash::{Kind, ObjectId};

mod arms;
mod commits;
mod damage;
mod graph;
mod hostile;
mod identity;
mod marks;
mod merging;
mod races;
mod rebuild;
mod references;
mod tails;

use super::*;
use crate::{
    error::Error,
    format::{
        HEAD_LEN,
        slot::{SLOT_LEN, SLOT_OFFSETS},
    },
    pack::PackStore,
    refs::{EditResult, Expected, Ref, RefEdit, Rejection, Target},
};

fn oid(n: u32) -> ObjectId {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&n.to_be_bytes());
    bytes[19] = 1;
    ObjectId::Sha1(bytes)
}

fn set(name: &str, n: u32) -> RefEdit {
    let new = Some(Target::Object {
        oid: oid(n),
        peeled: None,
    });
    RefEdit {
        name: name.into(),
        expected: Expected::Any,
        new,
        rewinds: false,
    }
}

fn delete(name: &str) -> RefEdit {
    RefEdit {
        name: name.into(),
        expected: Expected::Present,
        new: None,
        rewinds: true,
    }
}

/// A file that is no pack but ends with its own hash, named as the home of the objects `from..to`: each of its bytes reads as
/// the start of a small commit.
fn pack(from: u32, to: u32, len: usize) -> NewPack {
    use std::io::Write;
    let mut bytes: Vec<u8> = (0..len).map(|i| (i as u32 * 7 + from) as u8 & 0xf | 0x11).collect();
    bytes[..4].copy_from_slice(&from.to_le_bytes());
    let mut hasher = gix_hash::hasher(Kind::Sha1);
    hasher.update(&bytes);
    let id = hasher.try_finalize().unwrap();
    bytes.extend_from_slice(id.as_slice());
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    let entries = EntryTable {
        oids: (from..to).flat_map(|n| oid(n).as_slice().to_vec()).collect(),
        oid_len: 20,
        offsets: (from..to).map(|n| 12 + u64::from(n - from)).collect(),
        crc32s: (from..to).collect(),
        ..EntryTable::default()
    };
    NewPack {
        data: file.into(),
        path: "test.pack".into(),
        id,
        entries,
        proof: Proof::None,
        commits: CommitRows::default(),
    }
}

fn push(path: &Path, pack: NewPack, edits: Vec<RefEdit>) -> Outcome {
    let transaction = Transaction {
        packs: vec![pack],
        edits,
        ..Transaction::default()
    };
    commit(path, transaction, WritePolicy::default()).unwrap()
}

fn value(snapshot: &Snapshot, name: &str) -> Option<ObjectId> {
    match snapshot.find_ref(name.as_bytes().as_bstr()).unwrap() {
        Some(Target::Object { oid, .. }) => Some(oid),
        _ => None,
    }
}

struct Sandbox {
    directory: tempfile::TempDir,
}

impl Sandbox {
    fn new() -> Sandbox {
        Sandbox {
            directory: tempfile::tempdir().unwrap(),
        }
    }
    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("a.znippy")
    }
    /// An archive with `pushes` commits after its creation: objects and refs 1, 2, …
    fn archive(&self, pushes: u32) -> std::path::PathBuf {
        let path = self.path();
        create(&path, Kind::Sha1, "refs/heads/main".into()).unwrap();
        for n in 1..=pushes {
            let outcome = push(&path, pack(n, n + 1, 100), vec![set(&format!("refs/heads/b{n}"), n)]);
            assert!(outcome.written);
        }
        path
    }
}
