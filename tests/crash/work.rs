//! What is done to an archive on a crashing disk, and what can be seen of it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use bstr::BString;
use gix_hash::{Kind, ObjectId};
use znippy::{
    Result,
    archive::{
        self, CheckedPack, Durability, Expire, GcOptions, GcProgress, GcReport, NewPack, Outcome, PackData, Snapshot,
        Transaction, WritePolicy,
    },
    format::{HEAD_LEN, row::Proof},
    pack::{EntryTable, PackStore},
    refs::{EditResult, Expected, Ref, RefEdit, Target},
};

use crate::{
    disk::{CrashDisk, DIRECTORY},
    volume::{Image, Volume},
};

/// The name of the archive on the disk.
pub const NAME: &str = "a.znippy";

/// Returns the path of the archive.
pub fn path() -> PathBuf {
    Path::new(DIRECTORY).join(NAME)
}

/// A blob, whose content follows from its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blob {
    pub number: u32,
    pub len: usize,
}

impl Blob {
    pub fn content(self) -> Vec<u8> {
        let mut content = format!("blob {} ", self.number).into_bytes();
        // No zeros, so that a hole is a hole.
        content.extend((content.len()..self.len).map(|i| (i as u32).wrapping_mul(self.number * 2 + 7) as u8 | 1));
        content.truncate(self.len);
        content
    }

    pub fn id(self) -> ObjectId {
        let mut hasher = gix_hash::hasher(Kind::Sha1);
        hasher.update(format!("blob {}\0", self.len).as_bytes());
        hasher.update(&self.content());
        hasher.try_finalize().expect("no collision attack in a test")
    }
}

/// Returns a pack entry of a blob, stored without compression: header, and a zlib stream (RFC 1950) of one stored block.
fn entry(blob: Blob) -> Vec<u8> {
    let content = blob.content();
    let mut size = content.len();
    let mut header = vec![3 << 4 | (size & 15) as u8];
    size >>= 4;
    while size > 0 {
        *header.last_mut().expect("a first byte") |= 0x80;
        header.push((size & 0x7f) as u8);
        size >>= 7;
    }
    let len = u16::try_from(content.len()).expect("small blobs");
    header.extend_from_slice(&[0x78, 0x01, 0x01]);
    header.extend_from_slice(&len.to_le_bytes());
    header.extend_from_slice(&(!len).to_le_bytes());
    header.extend_from_slice(&content);
    let (mut a, mut b) = (1u32, 0u32);
    for byte in &content {
        a = (a + u32::from(*byte)) % 65521;
        b = (b + a) % 65521;
    }
    header.extend_from_slice(&(b << 16 | a).to_be_bytes());
    header
}

/// A pack of blobs in memory, ready to be pushed any number of times.
pub struct TestPack {
    data: PackData,
    id: ObjectId,
    entries: EntryTable,
}

impl TestPack {
    pub fn new(blobs: &[Blob]) -> TestPack {
        let mut bytes = b"PACK\0\0\0\x02".to_vec();
        bytes.extend_from_slice(&(blobs.len() as u32).to_be_bytes());
        let mut rows = vec![];
        for blob in blobs {
            let entry = entry(*blob);
            rows.push((blob.id(), bytes.len() as u64, crc32fast::hash(&entry)));
            bytes.extend(entry);
        }
        rows.sort();
        let mut hasher = gix_hash::hasher(Kind::Sha1);
        hasher.update(&bytes);
        let id = hasher.try_finalize().expect("no collision attack in a test");
        bytes.extend_from_slice(id.as_slice());
        let data = CheckedPack::new(bytes, Kind::Sha1, "test.pack").unwrap().into();
        let entries = EntryTable {
            oids: rows.iter().flat_map(|(id, ..)| id.as_slice().to_vec()).collect(),
            oid_len: 20,
            offsets: rows.iter().map(|(_, offset, _)| *offset).collect(),
            crc32s: rows.iter().map(|(.., crc)| *crc).collect(),
            ..EntryTable::default()
        };
        TestPack { data, id, entries }
    }

    pub fn new_pack(&self) -> NewPack {
        NewPack {
            data: self.data.try_clone().unwrap(),
            path: "test.pack".into(),
            id: self.id,
            entries: self.entries.clone(),
            proof: Proof::None,
            commits: Default::default(),
        }
    }
}

/// Returns an edit that sets a tag to a blob.
pub fn set(name: &str, blob: Blob) -> RefEdit {
    RefEdit {
        name: name.into(),
        expected: Expected::Any,
        new: Some(Target::Object {
            oid: blob.id(),
            peeled: None,
        }),
        rewinds: false,
    }
}

/// Returns an edit that deletes a reference.
pub fn delete(name: &str) -> RefEdit {
    RefEdit {
        name: name.into(),
        expected: Expected::Present,
        new: None,
        rewinds: true,
    }
}

/// Returns how to write to a disk: nobody waits long.
pub fn policy(disk: &CrashDisk) -> WritePolicy<'_> {
    WritePolicy {
        disk,
        timeout: std::time::Duration::ZERO,
        ..WritePolicy::default()
    }
}

/// Pushes a pack with edits, and creates the archive where it is missing.
pub fn push(volume: &Arc<Volume>, pack: &TestPack, edits: Vec<RefEdit>) -> Result<Outcome> {
    push_as(Durability::Safe, volume, pack, edits)
}

/// As [`push`], with another durability.
pub fn push_as(durability: Durability, volume: &Arc<Volume>, pack: &TestPack, edits: Vec<RefEdit>) -> Result<Outcome> {
    let disk = CrashDisk(volume.clone());
    let policy = || WritePolicy {
        durability,
        ..policy(&disk)
    };
    let transaction = || Transaction {
        packs: vec![pack.new_pack()],
        edits: edits.clone(),
        ..Transaction::default()
    };
    let outcome = match archive::commit(&path(), transaction(), policy()) {
        Err(znippy::Error::NotFound { .. }) => archive::create_with(&path(), Kind::Sha1, transaction(), policy()),
        other => other,
    }?;
    let applied = |result: &EditResult| matches!(result, EditResult::Applied { .. } | EditResult::Unchanged);
    assert!(outcome.results.iter().all(applied), "{outcome:?}");
    Ok(outcome)
}

/// Writes the archive anew, without anything that no reference reaches.
pub fn gc(volume: &Arc<Volume>, progress: &mut dyn FnMut(GcProgress)) -> Result<GcReport> {
    let disk = CrashDisk(volume.clone());
    let options = GcOptions {
        expire: Expire::Now,
        force: true,
        progress: Some(progress),
        ..GcOptions::default()
    };
    archive::gc(&path(), options, &mut policy(&disk))
}

/// What can be seen of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub refs: Vec<Ref>,
    pub unproven: u64,
    pub packs: Vec<ObjectId>,
    pub generation: u64,
    pub warnings: Vec<String>,
}

impl View {
    /// Returns whether two views show the same references, objects and proofs. Generations and warnings may differ.
    pub fn same_content(&self, other: &View) -> bool {
        self.refs == other.refs && self.unproven == other.unproven && self.packs == other.packs
    }

    pub fn find(&self, name: &str) -> Option<ObjectId> {
        let name: BString = name.into();
        let found = self.refs.iter().find(|r| r.name == name)?;
        match &found.target {
            Target::Object { oid, .. } => Some(*oid),
            Target::Symbolic(_) => None,
        }
    }
}

/// Opens the archive and reads every byte that counts: references, tables, packs. `None` where there is no archive.
pub fn view(volume: &Arc<Volume>) -> Result<Option<View>, String> {
    let disk = CrashDisk(volume.clone());
    match Snapshot::open_on(&disk, &path()) {
        Err(znippy::Error::NotFound { .. }) => Ok(None),
        other => view_of(&other.map_err(|error| format!("does not open: {error}"))?).map(Some),
    }
}

/// Reads every byte that counts.
pub fn view_of(snapshot: &Snapshot) -> Result<View, String> {
    let text = |error: znippy::Error| error.to_string();
    let refs = snapshot.refs().map_err(text)?;
    let mut packs = vec![];
    for rank in 0..snapshot.packs() {
        let mut bytes = vec![0; snapshot.pack_len(rank).map_err(text)? as usize];
        snapshot.read_exact_at(rank, 0, &mut bytes).map_err(text)?;
        let (body, trailer) = bytes.split_at(bytes.len() - 20);
        let mut hasher = gix_hash::hasher(Kind::Sha1);
        hasher.update(body);
        let id = hasher.try_finalize().map_err(|error| error.to_string())?;
        if id.as_slice() != trailer || id != snapshot.pack_id(rank).map_err(text)? {
            return Err(format!("pack {rank} is not what was pushed"));
        }
        let entries = snapshot.entries(rank).map_err(text)?;
        for index in 0..entries.len() {
            if snapshot.lookup(entries.oid(index)).map_err(text)?.is_none() {
                return Err(format!("object {} of pack {rank} is not found", entries.oid(index)));
            }
        }
        packs.push(id);
    }
    for r in &refs {
        if let Target::Object { oid, .. } = &r.target
            && snapshot.lookup(oid).map_err(text)?.is_none()
        {
            return Err(format!("{} names an object that is not there", r.name));
        }
    }
    packs.sort();
    Ok(View {
        refs,
        unproven: snapshot.info().map_err(text)?.unproven_packs,
        packs,
        generation: snapshot.generation(),
        warnings: snapshot.warnings().to_vec(),
    })
}

/// Returns whether the archive opens and a reference names the blob.
pub fn is_pushed(volume: &Arc<Volume>, name: &str, blob: Blob) -> Result<bool, String> {
    let disk = CrashDisk(volume.clone());
    let text = |error: znippy::Error| error.to_string();
    let snapshot = Snapshot::open_on(&disk, &path()).map_err(text)?;
    Ok(snapshot.resolve_ref(name.into()).map_err(text)? == Some(blob.id()))
}

/// Views that were read once, with the bytes that they were read from: where the same bytes show up again in the same state of
/// the file, they are not read again.
#[derive(Default)]
pub struct Known(Vec<(u64, Vec<u8>, View)>);

impl Known {
    /// Does what [`view`] does, from memory where that is certain to be the same.
    pub fn view(&mut self, image: &Image) -> Result<Option<View>, String> {
        let disk = CrashDisk(Arc::new(Volume::new(image)));
        let snapshot = match Snapshot::open_on(&disk, &path()) {
            Err(znippy::Error::NotFound { .. }) => return Ok(None),
            other => other.map_err(|error| format!("does not open: {error}"))?,
        };
        let bytes = &image[NAME][HEAD_LEN as usize..];
        let is_known = |(sequence, prefix, view): &&(u64, Vec<u8>, View)| {
            (*sequence, view.generation) == (snapshot.sequence(), snapshot.generation()) && bytes.starts_with(prefix)
        };
        let mut found = match self.0.iter().find(is_known) {
            Some((.., view)) => view.clone(),
            None => {
                let view = view_of(&snapshot)?;
                // Where the state ends is not known here: all that is in the file will do, if it comes up again.
                self.0.push((snapshot.sequence(), bytes.to_vec(), view.clone()));
                view
            }
        };
        found.warnings = snapshot.warnings().to_vec();
        Ok(Some(found))
    }

    /// Notes what is seen of a disk on which nothing lies behind the last commit.
    pub fn learn(&mut self, image: &Image) -> Result<(), String> {
        self.view(image).map(drop)
    }
}

/// Returns the disk with an archive that was pushed to `pushes` times, blob n of some hundred bytes by the n-th push.
pub fn archive_of(pushes: u32) -> Image {
    let volume = Arc::new(Volume::default());
    for number in 1..=pushes {
        let blob = small(number);
        push(&volume, &TestPack::new(&[blob]), vec![set(&tag(number), blob)]).unwrap();
    }
    volume.visible()
}

/// Returns the name that push `number` sets.
pub fn tag(number: u32) -> String {
    format!("refs/tags/{number}")
}

/// Returns the blob that push `number` brings.
pub fn small(number: u32) -> Blob {
    Blob {
        number,
        len: 100 + number as usize * 97 % 300,
    }
}
