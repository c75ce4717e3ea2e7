//! Small packs without git, for thousands of commits.

use std::{io::Write, path::Path};

use bstr::BString;
use gix_hash::{Kind, ObjectId};
use znippy::{
    archive::{self, NewPack, Outcome, PackData, Transaction, WritePolicy},
    format::row::Proof,
    pack::{EntryTable, header},
    refs::{EditResult, Expected, RefEdit, Target},
};

/// An object: its kind and its content.
pub type Content = (gix_object::Kind, Vec<u8>);

pub fn blob(text: &str) -> Content {
    (gix_object::Kind::Blob, text.as_bytes().to_vec())
}

/// A tree with one file.
pub fn tree(name: &str, blob: &ObjectId) -> Content {
    let mut data = format!("100644 {name}\0").into_bytes();
    data.extend_from_slice(blob.as_slice());
    (gix_object::Kind::Tree, data)
}

pub fn id_of((kind, data): &Content) -> ObjectId {
    gix_object::compute_hash(Kind::Sha1, *kind, data).unwrap()
}

/// Builds a pack of whole objects.
pub fn pack(objects: &[Content]) -> NewPack {
    let mut bytes = header::pack_header(objects.len() as u32).to_vec();
    let mut entries = vec![];
    for object @ (kind, data) in objects {
        let start = bytes.len();
        header::write_entry_header(header::EntryKind::Base(*kind), data.len() as u64, &mut bytes);
        store(data, &mut bytes);
        entries.push((id_of(object), start as u64, crc32fast::hash(&bytes[start..])));
    }
    let mut hasher = gix_hash::hasher(Kind::Sha1);
    hasher.update(&bytes);
    let id = hasher.try_finalize().unwrap();
    bytes.extend_from_slice(id.as_slice());
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    entries.sort();
    let mut table = EntryTable {
        oid_len: 20,
        ..EntryTable::default()
    };
    for (id, offset, crc32) in entries {
        table.oids.extend_from_slice(id.as_slice());
        table.offsets.push(offset);
        table.crc32s.push(crc32);
    }
    NewPack {
        data: PackData::File(file),
        path: "test.pack".into(),
        id,
        entries: table,
        proof: Proof::None,
        commits: Default::default(),
    }
}

/// Appends `data` as a zlib stream that compresses nothing.
fn store(data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[0x78, 0x01]);
    let blocks: Vec<&[u8]> = data.chunks(0xffff).collect();
    for (index, block) in blocks.iter().enumerate() {
        let len = block.len() as u16;
        out.push(u8::from(index + 1 == blocks.len()));
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&(!len).to_le_bytes());
        out.extend_from_slice(block);
    }
    let adler = data.iter().fold((1u32, 0u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (a + b) % 65521)
    });
    out.extend_from_slice(&(adler.1 << 16 | adler.0).to_be_bytes());
}

pub fn set(name: &str, oid: ObjectId) -> RefEdit {
    RefEdit {
        name: name.into(),
        expected: Expected::Any,
        new: Some(Target::Object { oid, peeled: None }),
        rewinds: true,
    }
}

pub fn delete(name: &str) -> RefEdit {
    RefEdit {
        name: name.into(),
        expected: Expected::Present,
        new: None,
        rewinds: true,
    }
}

/// Commits, all or nothing.
pub fn commit(path: &Path, packs: Vec<NewPack>, edits: Vec<RefEdit>) -> znippy::Result<Outcome> {
    let transaction = Transaction {
        packs,
        edits,
        actor: Some(BString::from("tester")),
        ..Transaction::default()
    };
    let outcome = archive::commit(path, transaction, WritePolicy::default())?;
    let is_rejected = |result: &EditResult| matches!(result, EditResult::Rejected(_));
    assert!(!outcome.results.iter().any(is_rejected), "{:?}", outcome.results);
    Ok(outcome)
}

/// Builds a pack of the objects that a file in the sandbox lists, from a repository.
pub fn whole_pack(s: &crate::common::Sandbox, repository: &str, ids: &str) -> NewPack {
    let line = format!("git pack-objects -q ../made < ../{ids}");
    let name = s.ok(repository, &line).stdout;
    let path = s.path(&format!("made-{}.pack", name.trim()));
    let index = std::fs::read(path.with_extension("idx")).unwrap();
    let index = znippy::pack::idx::read(&index, Kind::Sha1).unwrap();
    NewPack {
        data: PackData::File(std::fs::File::open(&path).unwrap()),
        path,
        id: index.pack_id,
        entries: index.entries,
        proof: Proof::None,
        commits: Default::default(),
    }
}
