//! Small archives with real objects, and what is in them.

use std::{collections::HashMap, io::Write, path::Path};

use gix_hash::{Kind as Format, ObjectId, hasher};
use gix_zlib::{
    Compression,
    stream::deflate::{Compress, FlushCompress},
};
use znippy::{
    archive::{NewPack, Snapshot, Transaction, WritePolicy, commit, create_with, prove},
    pack::{
        EntryTable, Kind, PackStore, delta,
        disk::DiskPack,
        header::{EntryKind, pack_header, write_entry_header},
    },
    refs::{Expected, Ref, RefEdit, Target},
};

const FORMAT: Format = Format::Sha1;

/// An object, and where its entry is.
#[derive(Clone)]
pub struct Known {
    pub id: ObjectId,
    pub kind: Kind,
    pub data: Vec<u8>,
    /// Which commit of the archive brought it, from 0.
    pub commit: usize,
    /// Offset of its entry in the pack, and its end.
    pub entry: std::ops::Range<u64>,
    /// The entry that it is made from.
    pub base: Option<u64>,
}

/// An archive as it should be, and each of its states.
pub struct Model {
    pub bytes: Vec<u8>,
    pub objects: Vec<Known>,
    /// The id of the pack of each commit; null where it has none.
    pub packs: Vec<ObjectId>,
    /// References after each commit.
    pub refs: Vec<Vec<Ref>>,
    /// Lengths of the file after each commit, and its head then.
    pub lens: Vec<usize>,
    pub heads: Vec<Vec<u8>>,
    last: Option<ObjectId>,
}

fn id_of(kind: Kind, data: &[u8]) -> ObjectId {
    let mut hasher = hasher(FORMAT);
    hasher.update(format!("{kind} {}\0", data.len()).as_bytes());
    hasher.update(data);
    hasher.try_finalize().unwrap()
}

fn deflated(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; data.len() + 100];
    let mut compress = Compress::new(Compression::BEST_SPEED);
    compress.compress(data, &mut out, FlushCompress::Finish).unwrap();
    out.truncate(compress.total_out() as usize);
    out
}

/// A pack under construction.
struct Builder {
    bytes: Vec<u8>,
    objects: Vec<Known>,
    crc32s: HashMap<ObjectId, u32>,
}

impl Builder {
    fn new(count: u32) -> Builder {
        Builder {
            bytes: pack_header(count).to_vec(),
            objects: vec![],
            crc32s: HashMap::new(),
        }
    }

    fn add(&mut self, commit: usize, kind: Kind, data: Vec<u8>, base: Option<usize>) -> ObjectId {
        let id = id_of(kind, &data);
        let start = self.bytes.len() as u64;
        let base = base.map(|at| &self.objects[at]);
        let (entry, payload) = match base {
            None => (EntryKind::Base(kind), data.clone()),
            Some(base) => {
                let delta = delta::encode(&base.data, &data, data.len()).unwrap();
                (EntryKind::OfsDelta(start - base.entry.start), delta)
            }
        };
        let base = base.map(|base| base.entry.start);
        write_entry_header(entry, payload.len() as u64, &mut self.bytes);
        self.bytes.extend(deflated(&payload));
        let crc32 = crc32fast::hash(&self.bytes[start as usize..]);
        self.crc32s.insert(id, crc32);
        let entry = start..self.bytes.len() as u64;
        self.objects.push(Known {
            id,
            kind,
            data,
            commit,
            entry,
            base,
        });
        id
    }

    /// Writes the pack, and returns it as a store and its file.
    fn finish(mut self, directory: &Path) -> (DiskPack, Vec<Known>) {
        let mut hasher = hasher(FORMAT);
        hasher.update(&self.bytes);
        let pack_id = hasher.try_finalize().unwrap();
        self.bytes.extend_from_slice(pack_id.as_slice());
        let path = directory.join(format!("{pack_id}.pack"));
        std::fs::File::create(&path).unwrap().write_all(&self.bytes).unwrap();
        let mut sorted: Vec<&Known> = self.objects.iter().collect();
        sorted.sort_by_key(|known| known.id);
        let table = EntryTable {
            oids: sorted.iter().flat_map(|known| known.id.as_slice().to_vec()).collect(),
            oid_len: FORMAT.len_in_bytes(),
            offsets: sorted.iter().map(|known| known.entry.start).collect(),
            crc32s: sorted.iter().map(|known| self.crc32s[&known.id]).collect(),
            ..EntryTable::default()
        };
        (DiskPack::with_entries(&path, table, pack_id).unwrap(), self.objects)
    }
}

impl Model {
    pub fn new() -> Model {
        Model {
            bytes: vec![],
            objects: vec![],
            packs: vec![],
            refs: vec![],
            lens: vec![],
            heads: vec![],
            last: None,
        }
    }

    /// Builds the pack of one more push: a commit, its tree, and `blobs` blobs, of which the second is a delta.
    pub fn next_push(&self, directory: &Path, blobs: u32, branch: &str) -> (Transaction, Vec<Known>) {
        let nth = self.refs.len();
        let mut builder = Builder::new(blobs + 2);
        let mut tree = vec![];
        for blob in 0..blobs {
            let mut data = format!("blob {blob} of push {nth}\n").into_bytes();
            if blob < 2 {
                // Alike, but not compressible away.
                data.extend((0..150u32).map(|byte| (byte * byte * 7 + nth as u32) as u8));
            }
            let id = builder.add(nth, Kind::Blob, data, (blob == 1).then_some(0));
            tree.extend_from_slice(format!("100644 {blob:05}\0").as_bytes());
            tree.extend_from_slice(id.as_slice());
        }
        let tree = builder.add(nth, Kind::Tree, tree, None);
        let parent = self.last.map_or(String::new(), |last| format!("parent {last}\n"));
        let who = "A <a@b> 1700000000 +0000";
        let text = format!("tree {tree}\n{parent}author {who}\ncommitter {who}\n\npush {nth}\n");
        let tip = builder.add(nth, Kind::Commit, text.into_bytes(), None);
        let (pack, objects) = builder.finish(directory);
        let archive = directory.join("a.znippy");
        let before = archive.exists().then(|| Snapshot::open(&archive).unwrap());
        let proven = prove_any(before.as_ref(), &pack, tip);
        let mut entries = pack.entries(0).unwrap().as_ref().clone();
        (entries.kinds, entries.sizes) = (proven.kinds, proven.sizes);
        let (file, path, id, _) = pack.into_parts();
        let pack = NewPack {
            data: file.into(),
            path,
            id,
            entries,
            proof: proven.proof,
            commits: proven.commits,
        };
        let edit = RefEdit {
            name: branch.into(),
            expected: Expected::Any,
            new: Some(Target::Object { oid: tip, peeled: None }),
            rewinds: false,
        };
        let transaction = Transaction {
            packs: vec![pack],
            edits: vec![edit],
            actor: Some("A <a@b>".into()),
            ..Transaction::default()
        };
        (transaction, objects)
    }

    /// Pushes once more.
    pub fn push(&mut self, directory: &Path, blobs: u32, branch: &str) {
        let archive = directory.join("a.znippy");
        let (transaction, objects) = self.next_push(directory, blobs, branch);
        let pack = transaction.packs[0].id;
        self.last = objects.last().map(|known| known.id);
        let policy = WritePolicy::default();
        let outcome = match archive.exists() {
            true => commit(&archive, transaction, policy),
            false => create_with(&archive, FORMAT, transaction, policy),
        };
        assert!(outcome.unwrap().written);
        self.objects.extend(objects);
        self.note(&archive, pack);
    }

    /// Takes down a state of the archive.
    pub fn note(&mut self, archive: &Path, pack: ObjectId) {
        self.packs.push(pack);
        self.bytes = std::fs::read(archive).unwrap();
        self.refs.push(Snapshot::open(archive).unwrap().refs().unwrap());
        self.lens.push(self.bytes.len());
        self.heads.push(self.bytes[..12288].to_vec());
    }

    /// An archive of `pushes` pushes with three objects each.
    pub fn small(directory: &Path, pushes: usize) -> Model {
        let mut model = Model::new();
        for push in 0..pushes {
            model.push(directory, 2, &format!("refs/heads/b{push}"));
        }
        model
    }
}

fn prove_any(archive: Option<&Snapshot>, pack: &DiskPack, tip: ObjectId) -> znippy::archive::Proven {
    prove(archive, pack, 0, &[tip], None, None).unwrap()
}
