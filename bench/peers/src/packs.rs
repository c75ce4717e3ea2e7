//! Packs to store: distinct, incompressible, and each a small history of its own.

use std::{io::Write, sync::Arc};

use anyhow::{Result, ensure};
use flate2::{Compression, write::ZlibEncoder};
use gix_hash::{Kind, ObjectId};
use znippy::archive::CheckedPack;

/// A pack of three objects: a blob of random bytes, the tree that holds it, and the commit of that tree. No objects are shared
/// between packs, so that no arm can skip one.
pub struct Pack {
    /// In memory once, whichever arm reads it.
    pub checked: Arc<CheckedPack>,
    pub id: ObjectId,
    pub commit: ObjectId,
    /// By object id.
    pub entries: Vec<Entry>,
}

impl Pack {
    pub fn bytes(&self) -> &[u8] {
        self.checked.bytes()
    }

    /// Does what whoever receives a pack does: hashes it.
    pub fn check(&self) -> Result<()> {
        let (body, trailer) = self.bytes().split_at(self.bytes().len() - self.id.as_slice().len());
        let mut hasher = gix_hash::hasher(Kind::Sha1);
        hasher.update(body);
        ensure!(hasher.try_finalize()?.as_slice() == trailer, "the pack is damaged");
        Ok(())
    }
}

/// Where an object is in its pack.
pub struct Entry {
    pub oid: ObjectId,
    pub offset: u64,
    pub crc32: u32,
}

/// Makes `count` packs of about `target` bytes.
pub fn make(target: usize, count: usize, seed: u64) -> Result<Vec<Pack>> {
    // What header, commit, tree, the blob's entry and the trailer take. A commit alone takes more than 200 bytes with a tree and
    // a blob, so the smallest packs are a little larger than asked for.
    let payload = target.saturating_sub(OVERHEAD).max(8);
    (0..count)
        .map(|n| pack(payload, seed ^ (n as u64) << 20 ^ target as u64))
        .collect()
}

const OVERHEAD: usize = 192;

fn pack(payload: usize, seed: u64) -> Result<Pack> {
    let blob = random(seed, payload);
    let blob_id = object_id("blob", &blob)?;
    let mut tree = b"100644 f\0".to_vec();
    tree.extend_from_slice(blob_id.as_slice());
    let tree_id = object_id("tree", &tree)?;
    let commit = format!("tree {tree_id}\nauthor b <b> 1 +0000\ncommitter b <b> 1 +0000\n\n");
    let commit_id = object_id("commit", commit.as_bytes())?;
    let mut bytes = b"PACK\0\0\0\x02\0\0\0\x03".to_vec();
    let mut entries = vec![];
    for (kind, oid, data) in [
        (1, commit_id, commit.as_bytes()),
        (2, tree_id, &tree),
        (3, blob_id, &blob),
    ] {
        let offset = bytes.len();
        header(&mut bytes, kind, data.len() as u64);
        // Random bytes do not get smaller: storing them says the same and makes large packs quick to make.
        let level = if kind == 3 {
            Compression::none()
        } else {
            Compression::best()
        };
        let mut zlib = ZlibEncoder::new(&mut bytes, level);
        zlib.write_all(data)?;
        zlib.finish()?;
        entries.push(Entry {
            oid,
            offset: offset as u64,
            crc32: crc32fast::hash(&bytes[offset..]),
        });
    }
    entries.sort_by_key(|entry| entry.oid);
    let mut hasher = gix_hash::hasher(Kind::Sha1);
    hasher.update(&bytes);
    let id = hasher.try_finalize()?;
    bytes.extend_from_slice(id.as_slice());
    Ok(Pack {
        checked: Arc::new(CheckedPack::new(bytes, Kind::Sha1, "pack")?),
        id,
        commit: commit_id,
        entries,
    })
}

fn header(bytes: &mut Vec<u8>, kind: u8, mut size: u64) {
    let mut byte = kind << 4 | (size & 15) as u8;
    size >>= 4;
    while size > 0 {
        bytes.push(byte | 0x80);
        byte = (size & 0x7f) as u8;
        size >>= 7;
    }
    bytes.push(byte);
}

fn object_id(kind: &str, data: &[u8]) -> Result<ObjectId> {
    let mut hasher = gix_hash::hasher(Kind::Sha1);
    hasher.update(format!("{kind} {}\0", data.len()).as_bytes());
    hasher.update(data);
    Ok(hasher.try_finalize()?)
}

/// Returns bytes that do not compress (xorshift64*, Vigna 2014).
fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
