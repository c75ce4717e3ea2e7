//! Archives that were changed by somebody who can compute checksums: they may be refused or show what was put there, but no
//! answer takes the program along.

use std::{panic, sync::Arc};

use super::*;
use crate::{
    format::{
        batch::Batch,
        digest, encode_hex,
        footer::{BlockRef, TRAILER_LEN},
        geometry::{Geometry, section_sum},
        head::Head,
        recover::{Scrutiny, recover},
    },
    media::{Medium, MemMedium},
};

/// A small generator of numbers that repeat from run to run (splitmix64, public domain by S. Vigna).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// An archive in memory, and where its checksums are.
struct Target {
    bytes: Vec<u8>,
    batches: Vec<(BlockRef, Geometry)>,
    footer_at: usize,
}

impl Target {
    fn new(path: &Path) -> Target {
        let snapshot = Snapshot::open(path).unwrap();
        let state = snapshot.state();
        let load = |block: &BlockRef| {
            (
                *block,
                Batch::load(snapshot.medium(), *block, Kind::Sha1).unwrap().geometry,
            )
        };
        Target {
            bytes: fs::read(path).unwrap(),
            batches: state.footer.blocks.iter().map(load).collect(),
            footer_at: (state.footer_end - state.footer_len) as usize,
        }
    }

    /// Makes all checksums of metadata, columns and footer right again.
    fn seal(&self, bytes: &mut [u8]) {
        for (block, geometry) in &self.batches {
            let (start, body) = (block.offset as usize, block.body_at() as usize);
            for (section, old) in geometry.sections().into_iter().zip(&geometry.sums) {
                let new = section_sum(&[&bytes[body + section.start as usize..body + section.end as usize]]);
                let (old, new) = (encode_hex(old), encode_hex(&new));
                if let Some(at) = bytes[start..body].find(old.as_bytes()) {
                    bytes[start + at..start + at + new.len()].copy_from_slice(new.as_bytes());
                }
            }
            let sum = digest(&[&bytes[start..body - 32]]);
            bytes[body - 32..body].copy_from_slice(&sum);
        }
        let end = bytes.len() - TRAILER_LEN;
        let sum = digest(&[&bytes[self.footer_at..end - 32]]);
        bytes[end - 32..end].copy_from_slice(&sum);
    }

    /// Changes a number or a byte somewhere in metadata, columns or footer.
    fn mutate(&self, numbers: &mut Numbers) -> (usize, Vec<u8>) {
        let mut bytes = self.bytes.clone();
        let (block, geometry) = &self.batches[numbers.below(self.batches.len())];
        let (start, body) = (block.offset as usize, block.body_at() as usize);
        let range = match numbers.below(4) {
            0 => self.footer_at..bytes.len() - TRAILER_LEN - 32,
            1 => start + 8..body - 32,
            2 => body..body + (geometry.pack_data().start as usize).min(4096),
            _ => {
                let end = body + geometry.pack_data().start as usize;
                end - (end - body).min(1024)..end
            }
        };
        let at = range.start + numbers.below(range.len());
        let special = [
            0,
            1,
            7,
            8,
            0x7f,
            0x80,
            0xff,
            i32::MAX as u64,
            u32::MAX as u64,
            i64::MAX as u64,
            u64::MAX,
        ];
        let value = match numbers.below(3) {
            0 => special[numbers.below(special.len())],
            1 => numbers.next(),
            _ => numbers.next() & 0xffff,
        };
        let width = [1, 4, 8][numbers.below(3)];
        let at = if numbers.below(2) == 0 { at } else { at / width * width };
        let end = (at + width).min(range.end);
        if at >= range.start {
            bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
        }
        self.seal(&mut bytes);
        (at, bytes)
    }
}

/// Asks everything that can be asked of an archive.
fn ask_everything(bytes: Vec<u8>) {
    let len = bytes.len() as u64;
    let Ok(head) = Head::decode(&bytes[..HEAD_LEN as usize]) else {
        return;
    };
    let medium = Arc::new(MemMedium::new(bytes));
    let Ok(recovered) = recover(medium.as_ref(), &head, len, Some(Scrutiny::EveryByte)) else {
        return;
    };
    let state = recovered.state.clone();
    let snapshot = Snapshot::new(Path::new("hostile"), medium.clone() as Arc<dyn Medium>, recovered, len);
    let _ = (
        snapshot.refs(),
        snapshot.info(),
        snapshot.resolve_ref("HEAD".into()),
        snapshot.proofs(),
    );
    for n in [0, 1, 2, 66, 1000, 3333, 5999, 6000] {
        let _ = (snapshot.lookup(&oid(n)), snapshot.commit_generation(&oid(n)));
    }
    for rank in 0..snapshot.packs().min(100) {
        let _ = (snapshot.entries(rank), snapshot.pack_id(rank));
        let _ = snapshot.read_exact_at(
            rank,
            snapshot.pack_len(rank).unwrap_or(0).saturating_sub(20),
            &mut [0; 20],
        );
    }
    for block in &state.footer.blocks {
        let Ok(batch) = Batch::load(medium.as_ref(), *block, Kind::Sha1) else {
            continue;
        };
        let _ = batch.rows(medium.as_ref());
    }
    let _ = super::super::merge::plan(medium.as_ref(), &state);
}

fn archive_with_everything(sandbox: &Sandbox) -> std::path::PathBuf {
    let path = sandbox.archive(1);
    let mut large = pack(1000, 6000, 9000);
    large.commits = (1000..1010)
        .map(|n| crate::format::commit_rows::CommitRow {
            oid: oid(n),
            tree: oid(n + 1),
            parents: vec![oid(n + 2)],
            author: Some("A <a@b>".into()),
            committed_at: 5,
            generation: n,
        })
        .collect();
    push(&path, large, vec![set("refs/heads/large", 1000)]);
    for n in 2..70 {
        push(
            &path,
            pack(n, n + 1, 50),
            vec![set(&format!("refs/heads/b{}", n % 50), n)],
        );
    }
    path
}

#[test]
fn no_answer_about_a_forged_archive_takes_the_program_along() {
    let sandbox = Sandbox::new();
    let path = archive_with_everything(&sandbox);
    let target = Target::new(&path);
    assert!(target.batches.iter().any(|(block, _)| block.level > 0));
    let mut sealed = target.bytes.clone();
    target.seal(&mut sealed);
    assert!(sealed == target.bytes);
    let mut numbers = Numbers(1);
    for round in 0..600 {
        let (at, bytes) = target.mutate(&mut numbers);
        let asked = panic::catch_unwind(|| ask_everything(bytes));
        assert!(asked.is_ok(), "round {round}: a change at {at}");
    }
}

/// A push into a forged archive is refused or works; it does not panic half-way.
#[test]
fn no_push_into_a_forged_archive_panics() {
    let sandbox = Sandbox::new();
    let path = archive_with_everything(&sandbox);
    let target = Target::new(&path);
    let mut numbers = Numbers(2);
    for round in 0..400 {
        let (at, bytes) = target.mutate(&mut numbers);
        fs::write(&path, bytes).unwrap();
        let transaction = Transaction {
            packs: vec![pack(9000, 9001, 30)],
            edits: vec![set("refs/heads/new", 9000), set("refs/heads/b3", 1000)],
            ..Transaction::default()
        };
        let pushed = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            commit(&path, transaction, WritePolicy::default()).map(drop)
        }));
        assert!(pushed.is_ok(), "round {round}: a change at {at}");
        if pushed.is_ok_and(|pushed| pushed.is_ok()) {
            let snapshot = Snapshot::open(&path).unwrap();
            assert_eq!(
                value(&snapshot, "refs/heads/new"),
                Some(oid(9000)),
                "round {round}: a change at {at}"
            );
        }
    }
}

/// A name with a line break would put lines into the protocol that git reads.
#[test]
fn forged_names_are_not_passed_on() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(60);
    let target = Target::new(&path);
    // The first branch of a table, so that the names stay sorted, in the newest of the tables.
    let at = target.bytes.rfind(b"HEADrefs/heads/b1refs/heads/b10").unwrap();
    let mut bytes = target.bytes.clone();
    bytes[at + b"HEADrefs/heads/".len()] = b'\n';
    target.seal(&mut bytes);
    fs::write(&path, bytes).unwrap();
    let refused = Snapshot::open(&path).and_then(|snapshot| snapshot.refs()).unwrap_err();
    assert!(refused.to_string().contains("impossible name"), "{refused}");
}

/// Within version 1 there may be new kinds of rows and proofs: they are read over, and neither merged nor rewritten.
#[test]
fn rows_of_a_later_version_are_read_over_and_left_alone() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(3);
    let set_policy = |policy: &mut crate::policy::Policy| policy.set("receive.denyDeletes", b"true".into());
    configure(&path, None, WritePolicy::default(), set_policy).unwrap();
    let target = Target::new(&path);
    let mut bytes = target.bytes.clone();
    let at = bytes.rfind(b"config").unwrap();
    bytes[at..at + 6].copy_from_slice(b"dreams");
    // The proof of the push before it.
    let at = bytes.rfind(b"pushnone").or_else(|| bytes[..at].rfind(b"none")).unwrap();
    let at = at + bytes[at..].find(b"none").unwrap();
    bytes[at..at + 4].copy_from_slice(b"sure");
    target.seal(&mut bytes);
    fs::write(&path, &bytes).unwrap();
    let place = target.batches.last().unwrap().0;
    let stored = bytes[place.offset as usize..(place.offset + place.metadata_len) as usize].to_vec();
    let check = |pushes: u32| {
        let snapshot = Snapshot::open(&path).unwrap();
        assert_eq!(
            snapshot.refs().unwrap().len() as u32,
            1 + pushes,
            "HEAD and the branches"
        );
        assert_eq!(snapshot.edits().unwrap().len() as u32, 1 + pushes);
        assert!((1..=pushes).all(|n| snapshot.lookup(&oid(n)).unwrap().is_some()));
        assert!(snapshot.proofs().unwrap().iter().all(|proof| *proof == Proof::None));
    };
    check(3);
    for n in 4..150 {
        push(&path, pack(n, n + 1, 100), vec![set(&format!("refs/heads/b{n}"), n)]);
    }
    check(149);
    let footer = Snapshot::open(&path).unwrap().state().footer.clone();
    assert!(footer.blocks.len() < 80, "others are merged");
    assert!(
        footer.blocks.iter().any(|block| block.offset == place.offset),
        "it is not"
    );
    let now = fs::read(&path).unwrap();
    assert!(now[place.offset as usize..].starts_with(&stored));
    let refused = gc(&path, GcOptions::default(), &mut WritePolicy::default()).unwrap_err();
    assert!(refused.to_string().contains("later version"), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), now);
}
