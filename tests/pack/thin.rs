//! Thin packs, made by hand: what is stored needs nothing that is elsewhere, and what cannot be completed is refused.

use std::{fs::File, path::Path};

use gix_hash::{Kind, ObjectId};
use znippy::pack::{
    PackStore,
    disk::DiskPack,
    incoming::{self, IncomingError, Limits, Received},
    resolve::{ResolveOptions, resolve},
};

use crate::repo::Repo;

/// Data as zlib stores it uncompressed.
fn stored(data: &[u8]) -> Vec<u8> {
    let len = data.len() as u16;
    let (mut a, mut b) = (1u32, 0u32);
    for byte in data {
        a = (a + u32::from(*byte)) % 65521;
        b = (b + a) % 65521;
    }
    let head = [&[0x78, 0x01, 0x01][..], &len.to_le_bytes(), &(!len).to_le_bytes()].concat();
    [&head[..], data, &(b << 16 | a).to_be_bytes()].concat()
}

/// A number below 2^14 in groups of seven bits, the lowest first.
fn number(value: usize) -> Vec<u8> {
    match value {
        0..128 => vec![value as u8],
        _ => vec![value as u8 & 0x7f | 0x80, (value >> 7) as u8],
    }
}

/// An entry that makes `result` out of the object `base`, by bytes alone.
fn delta(base: &ObjectId, base_len: usize, result: &[u8]) -> Vec<u8> {
    let mut delta = [number(base_len), number(result.len())].concat();
    for part in result.chunks(127) {
        delta.push(part.len() as u8);
        delta.extend_from_slice(part);
    }
    let size = delta.len();
    let header = match size {
        0..16 => vec![7 << 4 | size as u8],
        _ => [vec![7 << 4 | 0x80 | size as u8 & 15], number(size >> 4)].concat(),
    };
    [&header[..], base.as_slice(), &stored(&delta)].concat()
}

fn pack(format: Kind, entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = [&b"PACK\0\0\0\x02"[..], &(entries.len() as u32).to_be_bytes()].concat();
    bytes.extend(entries.iter().flatten());
    let mut hasher = gix_hash::hasher(format);
    hasher.update(&bytes);
    bytes.extend_from_slice(hasher.try_finalize().unwrap().as_slice());
    bytes
}

/// Two blobs that are here, and one that is not.
struct Stage {
    repo: Repo,
    here: DiskPack,
    blobs: [(ObjectId, Vec<u8>); 3],
}

impl Stage {
    fn new(format: Kind) -> Stage {
        let repo = Repo::empty(format);
        let texts = ["one", "two", "three"].map(|word| word.repeat(100).into_bytes());
        let blobs = texts.map(|text| {
            let id = repo.git_with(&["hash-object", "--stdin"], &text);
            (ObjectId::from_hex(id.as_bytes()).unwrap(), text)
        });
        for (number, (_, text)) in blobs.iter().enumerate().take(2) {
            let id = repo.git_with(&["hash-object", "-w", "--stdin"], text);
            repo.git(&["update-ref", &format!("refs/blobs/{number}"), &id]);
        }
        let here = repo.open(&repo.repack(&[]));
        Stage { repo, here, blobs }
    }

    /// An entry that makes blob `to` out of blob `from`.
    fn delta(&self, from: usize, to: usize) -> Vec<u8> {
        delta(&self.blobs[from].0, self.blobs[from].1.len(), &self.blobs[to].1)
    }

    fn receive(&self, bytes: &[u8], limits: Limits) -> (Result<Received, IncomingError>, File) {
        let spool = tempfile::tempfile().unwrap();
        let (format, here) = (self.repo.format, Some(&self.here as &dyn PackStore));
        let received = incoming::receive(&mut &*bytes, &spool, format, limits, here, &mut |_, _| ());
        (received, spool)
    }

    /// Takes a pack of `entries`, and returns the blobs of what is stored, of which every object was looked at.
    #[track_caller]
    fn stored(&self, entries: &[Vec<u8>]) -> Vec<usize> {
        let (received, spool) = self.receive(&pack(self.repo.format, entries), Limits::default());
        let received = received.unwrap();
        let pack = DiskPack::with_file(spool, Path::new("spool"), received.entries, received.id).unwrap();
        let options = ResolveOptions {
            check_pack_id: true,
            ..ResolveOptions::default()
        };
        let resolved = resolve(&pack, 0, pack.table(), options).unwrap();
        assert!(resolved.is_sound(), "{resolved:?}");
        let blobs = (0..3).filter(|blob| pack.table().find(&self.blobs[*blob].0).is_some());
        assert_eq!(pack.table().len(), blobs.clone().count());
        blobs.collect()
    }
}

#[test]
fn bases_that_are_here_are_added() {
    for format in [Kind::Sha1, Kind::Sha256] {
        let stage = Stage::new(format);
        assert_eq!(stage.stored(&[stage.delta(0, 2)]), [0, 2]);
        // Of a chain only the first; and what the pack has itself is not taken from elsewhere, wherever it comes.
        assert_eq!(stage.stored(&[stage.delta(0, 1), stage.delta(1, 2)]), [0, 1, 2]);
        assert_eq!(stage.stored(&[stage.delta(1, 2), stage.delta(0, 1)]), [0, 1, 2]);
        // One that is not here, made from one that is and comes later.
        assert_eq!(stage.stored(&[stage.delta(2, 1), stage.delta(0, 2)]), [0, 1, 2]);
    }
}

#[test]
fn what_cannot_be_completed_is_refused() {
    let stage = Stage::new(Kind::Sha1);
    let refused = |entries: &[Vec<u8>]| {
        let (received, _) = stage.receive(&pack(Kind::Sha1, entries), Limits::default());
        received.unwrap_err().to_string()
    };
    let nowhere = refused(&[stage.delta(2, 1)]);
    assert!(
        nowhere.contains(&stage.blobs[2].0.to_string()) && nowhere.contains("neither in it nor here"),
        "{nowhere}"
    );
    for circle in [
        vec![stage.delta(0, 1), stage.delta(1, 0)],
        vec![stage.delta(2, 0), stage.delta(0, 1), stage.delta(1, 2)],
    ] {
        let why = refused(&circle);
        assert!(why.contains("circle"), "{why}");
    }
    let itself = refused(&[stage.delta(0, 0)]);
    assert!(itself.contains("circle"), "{itself}");
    let twice = refused(&[stage.delta(0, 2), stage.delta(1, 2)]);
    assert!(twice.contains("twice"), "{twice}");
    let (id, text) = &stage.blobs[0];
    let wrong_len = refused(&[delta(id, text.len() + 1, b"x")]);
    assert!(wrong_len.contains("at offset 12"), "{wrong_len}");
}

#[test]
fn no_byte_of_a_thin_pack_may_be_another() {
    let stage = Stage::new(Kind::Sha1);
    let bytes = pack(Kind::Sha1, &[stage.delta(0, 2)]);
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(
            stage.receive(&changed, Limits::default()).0.is_err(),
            "byte {at} changed"
        );
        assert!(stage.receive(&bytes[..at], Limits::default()).0.is_err(), "cut at {at}");
    }
}

/// What is added counts as what comes.
#[test]
fn limits_hold_for_what_is_added() {
    let stage = Stage::new(Kind::Sha1);
    let entry = delta(&stage.blobs[0].0, stage.blobs[0].1.len(), b"x");
    let bytes = pack(Kind::Sha1, &[entry]);
    let limits = |pack, object| Limits { pack, object };
    let (refused, _) = stage.receive(&bytes, limits(bytes.len() as u64, u64::MAX));
    assert!(matches!(refused, Err(IncomingError::TooLarge)), "{refused:?}");
    let (refused, _) = stage.receive(&bytes, limits(u64::MAX, 100));
    assert!(
        matches!(refused, Err(IncomingError::BaseTooLarge { limit: 100, .. })),
        "{refused:?}"
    );
    let (taken, spool) = stage.receive(&bytes, limits(u64::MAX, 300));
    let len = spool.metadata().unwrap().len();
    assert_eq!(taken.unwrap().entries.len(), 2);
    assert!(stage.receive(&bytes, limits(len, 300)).0.is_ok());
    assert!(stage.receive(&bytes, limits(len - 1, 300)).0.is_err());
}
