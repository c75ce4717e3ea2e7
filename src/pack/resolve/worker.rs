//! One thread's part of resolving a pack.

use std::sync::{Arc, atomic::Ordering};

use gix_hash::{Hasher, ObjectId, hasher, oid};
use gix_zlib::{Decompress, FlushDecompress, Status};

use super::{DANGLING_TOLD, Damage, Dangling, Kind, ResolvedCommit, Shared, families::NONE};
use crate::{
    error::{Error, Result},
    pack::{
        changes::{IndexedTree, visit_changes},
        delta,
        header::{self, EntryKind, kind_code},
        idx,
        parse::{self, EntryMode, TreeEntry},
        recent::Recent,
    },
};

/// Roots that a thread takes at once.
const ROOTS_TAKEN: usize = 16;
/// Objects without children from this size on are hashed while they are inflated, and never held.
const STREAM_FROM: u64 = 8 << 20;
/// Bytes read at once where an entry is not held.
const CHUNK: usize = 256 * 1024;
/// No zlib stream grows by more than this factor: what claims to is damaged, and no memory is taken for it.
const MAX_INFLATION: u64 = 1032;

/// Why an object could not be resolved: the pack is damaged there, or reading failed altogether.
enum Trouble {
    Damage(String),
    Failure(Error),
}

impl From<&'static str> for Trouble {
    fn from(why: &'static str) -> Self {
        Trouble::Damage(why.into())
    }
}

impl From<Error> for Trouble {
    fn from(err: Error) -> Self {
        Trouble::Failure(err)
    }
}

/// An object whose deltas are being applied.
struct Base {
    /// Its place in the order of entries.
    at: u32,
    /// The next entry to make from it, and the one after that in the list of its deltas.
    upcoming: u32,
    cursor: u32,
    /// First come the deltas that are no bases in turn, so that nothing waits for them.
    leaves: bool,
    /// Empty where it was dropped to save memory.
    tree: Option<IndexedTree>,
}

pub(super) struct Worker<'a, 'b> {
    shared: &'a Shared<'b>,
    inflate: Decompress,
    compressed: Vec<u8>,
    delta: Vec<u8>,
    recent: Recent,
    /// From a root to the object whose deltas are applied now; only those of which deltas are left.
    waiting: Vec<Base>,
    waiting_bytes: usize,
}

impl<'a, 'b> Worker<'a, 'b> {
    pub fn new(shared: &'a Shared<'b>) -> Self {
        Worker {
            shared,
            inflate: Decompress::new(),
            compressed: Vec::new(),
            delta: Vec::new(),
            recent: Recent::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
        }
    }

    /// Takes families until there are none left.
    pub fn run(&mut self, progress: &mut dyn FnMut(u64, u64)) {
        let roots = &self.shared.families.roots;
        let total = self.shared.table.len() as u64;
        while !self.shared.stop.load(Ordering::Relaxed) {
            let first = self.shared.next_root.fetch_add(ROOTS_TAKEN, Ordering::Relaxed);
            if first >= roots.len() {
                break;
            }
            for root in &roots[first..roots.len().min(first + ROOTS_TAKEN)] {
                if let Err(err) = self.family(*root) {
                    return self.shared.fail(err);
                }
                progress(self.shared.done.load(Ordering::Relaxed), total);
            }
        }
    }

    /// Resolves a root and everything that is made from it.
    fn family(&mut self, root: u32) -> Result<()> {
        let kind = match self.root(root) {
            Ok((kind, Some(tree))) => {
                self.wait(root, tree);
                kind
            }
            Ok((_, None)) => return Ok(()),
            Err(trouble) => return self.damaged(root, trouble),
        };
        while let Some(at) = self.waiting.last().map(|base| base.at) {
            let tree = match self.take_tree() {
                Ok(tree) => tree,
                Err(trouble) => {
                    // It was built once, so that this is no damage that children would share.
                    self.waiting.clear();
                    self.waiting_bytes = 0;
                    return match trouble {
                        Trouble::Failure(err) => Err(err),
                        Trouble::Damage(why) => Err(self.changed(at, &why)),
                    };
                }
            };
            let (child, tree) = tree;
            match self.child(child, kind, &tree) {
                Ok(Some(tree)) => self.wait(child, tree),
                Ok(None) => {}
                Err(trouble) => self.damaged(child, trouble)?,
            }
        }
        Ok(())
    }

    /// Reads and checks a root. Returns it where deltas are made from it.
    fn root(&mut self, at: u32) -> Result<(Kind, Option<IndexedTree>), Trouble> {
        let mut head = [0; header::MAX_ENTRY_HEADER_LEN];
        let (start, end) = self.place(at);
        let head = &mut head[..(end - start).min(header::MAX_ENTRY_HEADER_LEN as u64) as usize];
        self.shared.store.read_exact_at(self.shared.pack, start, head)?;
        let entry = header::parse_entry_header(head, self.shared.store.object_format())?;
        let EntryKind::Base(kind) = entry.kind else {
            return Err("its header has changed".into());
        };
        let is_leaf = self.shared.families.first_child[at as usize] == NONE;
        if is_leaf && kind == Kind::Blob && entry.size >= STREAM_FROM {
            self.stream(at, kind, entry.size, entry.len)?;
            return Ok((kind, None));
        }
        self.read(at)?;
        let data = self.inflated(entry.len, entry.size, Vec::new())?;
        let tree = self.check(at, kind, data, &IndexedTree::default())?;
        Ok((kind, (!is_leaf).then_some(tree)))
    }

    /// Makes and checks a delta's object. Returns it where deltas are made from it.
    fn child(&mut self, at: u32, kind: Kind, base: &IndexedTree) -> Result<Option<IndexedTree>, Trouble> {
        let data = self.made_from(at, &base.data)?;
        let tree = self.check(at, kind, data, base)?;
        let is_leaf = self.shared.families.first_child[at as usize] == NONE;
        Ok((!is_leaf).then_some(tree))
    }

    /// Makes the object of the delta `at`.
    fn made_from(&mut self, at: u32, base: &[u8]) -> Result<Vec<u8>, Trouble> {
        self.read(at)?;
        let entry = header::parse_entry_header(&self.compressed, self.shared.store.object_format())?;
        let buf = std::mem::take(&mut self.delta);
        let delta = self.inflated(entry.len, entry.size, buf)?;
        let mut data = Vec::new();
        delta::apply(base, &delta, self.shared.object_limit, &mut data)?;
        self.delta = delta;
        self.delta.shrink_to(delta::TRUSTED_CAPACITY);
        Ok(data)
    }

    /// Puts an object aside whose deltas are to be applied.
    fn wait(&mut self, at: u32, tree: IndexedTree) {
        let cursor = self.shared.families.first_child[at as usize];
        self.waiting_bytes += tree.data.len();
        let mut base = Base {
            at,
            upcoming: NONE,
            cursor,
            leaves: true,
            tree: Some(tree),
        };
        base.upcoming = self.next_child(&mut base);
        self.waiting.push(base);
        let mut bases = self.waiting.iter_mut();
        bases.next_back();
        for base in bases {
            if self.waiting_bytes <= self.shared.waiting_bytes {
                break;
            }
            if let Some(tree) = base.tree.take() {
                self.waiting_bytes -= tree.data.len();
            }
        }
    }

    fn next_child(&self, base: &mut Base) -> u32 {
        let families = self.shared.families;
        loop {
            while base.cursor != NONE {
                let child = base.cursor;
                base.cursor = families.next_sibling[child as usize];
                if (families.first_child[child as usize] == NONE) == base.leaves {
                    return child;
                }
            }
            if !base.leaves {
                return NONE;
            }
            base.leaves = false;
            base.cursor = families.first_child[base.at as usize];
        }
    }

    /// Returns the next child of the object put aside last, and that object; the last child takes it away.
    fn take_tree(&mut self) -> Result<(u32, IndexedTree), Trouble> {
        let mut base = self.waiting.pop().expect("the caller saw one");
        let child = base.upcoming;
        base.upcoming = self.next_child(&mut base);
        let tree = match base.tree.take() {
            Some(tree) => {
                self.waiting_bytes -= tree.data.len();
                tree
            }
            None => self.rebuilt(base.at)?,
        };
        if base.upcoming != NONE {
            self.waiting_bytes += tree.data.len();
            base.tree = Some(tree.clone());
            self.waiting.push(base);
        }
        Ok((child, tree))
    }

    /// Builds an object again that was dropped.
    fn rebuilt(&mut self, at: u32) -> Result<IndexedTree, Trouble> {
        let mut chain = vec![at];
        let mut root = at;
        while self.shared.families.bases[root as usize] != NONE {
            root = self.shared.families.bases[root as usize];
            chain.push(root);
        }
        chain.pop();
        self.read(root)?;
        let entry = header::parse_entry_header(&self.compressed, self.shared.store.object_format())?;
        let mut data = self.inflated(entry.len, entry.size, Vec::new())?;
        while let Some(at) = chain.pop() {
            data = self.made_from(at, &data)?;
        }
        Ok(IndexedTree {
            data: Arc::new(data),
            starts: Vec::new(),
        })
    }

    fn place(&self, at: u32) -> (u64, u64) {
        let starts = &self.shared.families.starts;
        (starts[at as usize], starts[at as usize + 1])
    }

    /// Reads an entry and checks its CRC-32.
    fn read(&mut self, at: u32) -> Result<(), Trouble> {
        let (start, end) = self.place(at);
        self.compressed.shrink_to(delta::TRUSTED_CAPACITY);
        self.compressed.resize((end - start) as usize, 0);
        self.shared
            .store
            .read_exact_at(self.shared.pack, start, &mut self.compressed)?;
        self.check_crc32(at, crc32fast::hash(&self.compressed))
    }

    fn check_crc32(&self, at: u32, found: u32) -> Result<(), Trouble> {
        let expected = self.shared.table.crc32s[self.shared.families.rows[at as usize] as usize];
        if found == expected {
            return Ok(());
        }
        Err(Trouble::Damage(format!(
            "its CRC-32 is {found:08x}, expected {expected:08x}"
        )))
    }

    fn check_size(&self, size: u64, compressed: u64) -> Result<(), Trouble> {
        if size > self.shared.object_limit {
            return Err("it exceeds the size limit of an object".into());
        }
        if size / MAX_INFLATION > compressed {
            return Err("its header claims more than its data can hold".into());
        }
        Ok(())
    }

    /// Inflates what follows the header of the entry that was read, into `out`.
    fn inflated(&mut self, header_len: usize, size: u64, mut out: Vec<u8>) -> Result<Vec<u8>, Trouble> {
        let data = &self.compressed[header_len..];
        self.check_size(size, data.len() as u64)?;
        out.resize(size as usize, 0);
        self.inflate.reset();
        let status = self.inflate.decompress(data, &mut out, FlushDecompress::None);
        match status {
            Err(_) => Err("its compressed data is damaged".into()),
            Ok(Status::StreamEnd) if self.inflate.total_out() != size => {
                Err("it is shorter than its header says".into())
            }
            Ok(Status::StreamEnd) if self.inflate.total_in() != data.len() as u64 => {
                Err("something follows its compressed data".into())
            }
            Ok(Status::StreamEnd) => Ok(out),
            Ok(_) if self.inflate.total_out() == size => Err("it is longer than its header says".into()),
            Ok(_) => Err("its compressed data is cut off".into()),
        }
    }

    /// Inflates and hashes a large object without holding it.
    fn stream(&mut self, at: u32, kind: Kind, size: u64, header_len: usize) -> Result<(), Trouble> {
        let (start, end) = self.place(at);
        self.check_size(size, end - start)?;
        let mut crc32 = crc32fast::Hasher::new();
        let mut hasher = object_hasher(self.shared.store.object_format(), kind, size);
        let (mut input, mut output) = (vec![0; CHUNK], vec![0; CHUNK]);
        let (mut from, mut skip, mut ended) = (start, header_len, false);
        self.inflate.reset();
        while from < end {
            let part = &mut input[..(CHUNK as u64).min(end - from) as usize];
            self.shared.store.read_exact_at(self.shared.pack, from, part)?;
            crc32.update(part);
            from += part.len() as u64;
            let mut rest = &part[skip.min(part.len())..];
            skip = 0;
            while !rest.is_empty() {
                if ended {
                    return Err("something follows its compressed data".into());
                }
                let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
                let status = self.inflate.decompress(rest, &mut output, FlushDecompress::None);
                let status = status.map_err(|_| Trouble::from("its compressed data is damaged"))?;
                let (read, written) = (self.inflate.total_in() - read, self.inflate.total_out() - written);
                hasher.update(&output[..written as usize]);
                rest = &rest[read as usize..];
                ended = status == Status::StreamEnd;
                if self.inflate.total_out() > size {
                    return Err("it is longer than its header says".into());
                }
                if read == 0 && written == 0 && !ended {
                    return Err("its compressed data is damaged".into());
                }
            }
        }
        self.check_crc32(at, crc32.finalize())?;
        if !ended || self.inflate.total_out() != size {
            return Err("its compressed data is cut off".into());
        }
        self.check_id(at, hasher)?;
        self.note(at, kind, size);
        Ok(())
    }

    /// Checks an object's id and follows its links.
    fn check(&mut self, at: u32, kind: Kind, data: Vec<u8>, base: &IndexedTree) -> Result<IndexedTree, Trouble> {
        let format = self.shared.store.object_format();
        let mut hasher = object_hasher(format, kind, data.len() as u64);
        hasher.update(&data);
        self.check_id(at, hasher)?;
        self.note(at, kind, data.len() as u64);
        let table = self.shared.table;
        let id = table.oid(self.shared.families.rows[at as usize] as usize);
        let mut tree = IndexedTree {
            data: Arc::new(data),
            starts: Vec::new(),
        };
        let links = match kind {
            Kind::Commit => self.commit(id, &tree.data),
            Kind::Tag if self.shared.is_there.is_some() => match parse::tag(&tree.data, format) {
                Ok((target, kind)) => self.link(id, &target, kind).map_err(Trouble::from),
                Err(why) => Err(why.into()),
            },
            Kind::Tree if self.shared.is_there.is_some() => {
                let width = format.len_in_bytes();
                visit_changes(&tree.data, base, width, &mut tree.starts, |entry| {
                    self.tree_entry(id, entry)
                })
            }
            Kind::Tag | Kind::Tree | Kind::Blob => Ok(()),
        };
        match links {
            Ok(()) => {}
            // It is what its id says; what is made from it may be sound.
            Err(Trouble::Damage(why)) => {
                tree.starts.clear();
                self.tell(at, format!("it is malformed: {why}"));
            }
            Err(failure) => return Err(failure),
        }
        Ok(tree)
    }

    fn commit(&mut self, id: &oid, data: &[u8]) -> Result<(), Trouble> {
        if self.shared.is_there.is_none() && self.shared.on_commit.is_none() {
            return Ok(());
        }
        let links = parse::commit(data, self.shared.store.object_format())?;
        self.link(id, &links.tree, Kind::Tree)?;
        for parent in &links.parents {
            self.link(id, parent, Kind::Commit)?;
        }
        if let Some(on_commit) = &self.shared.on_commit {
            on_commit.lock().expect("no thread panicked with the lock")(ResolvedCommit { id, links });
        }
        Ok(())
    }

    fn tree_entry(&mut self, tree: &oid, entry: TreeEntry<'_>) -> Result<(), Trouble> {
        let kind = match entry.mode {
            EntryMode::Tree => Kind::Tree,
            EntryMode::Blob => Kind::Blob,
            EntryMode::Submodule => return Ok(()),
        };
        if !self.recent.knows(entry.id, kind) {
            self.link(tree, oid::from_bytes_unchecked(entry.id), kind)?;
        }
        Ok(())
    }

    /// Notes that `from` says that `to` is there and a `kind`.
    fn link(&self, from: &oid, to: &oid, kind: Kind) -> Result<()> {
        let Some(is_there) = self.shared.is_there else {
            return Ok(());
        };
        if let Some(row) = idx::find(self.shared.table, &self.shared.fan_out, to) {
            let bit = 1 << kind_code(kind);
            // Mostly set already: a look is cheaper than a write that other threads' caches must follow.
            if self.shared.linked_as[row].load(Ordering::Relaxed) & bit == 0 {
                self.shared.linked_as[row].fetch_or(bit, Ordering::Relaxed);
            }
            return Ok(());
        }
        if !is_there(to)? {
            let mut found = self.shared.found.lock().expect("no thread panicked with the lock");
            if found.dangling.len() < DANGLING_TOLD {
                found.dangling.push(Dangling {
                    from: Some(from.to_owned()),
                    to: to.to_owned(),
                    kind,
                });
            }
        }
        Ok(())
    }

    fn check_id(&self, at: u32, hasher: Hasher) -> Result<(), Trouble> {
        let expected = self.shared.table.oid(self.shared.families.rows[at as usize] as usize);
        match hasher.try_finalize() {
            Ok(found) if *found == *expected => Ok(()),
            Ok(found) => Err(Trouble::Damage(format!("its content is that of object {found}"))),
            Err(err) => Err(Trouble::Damage(err.to_string())),
        }
    }

    fn note(&self, at: u32, kind: Kind, size: u64) {
        let row = self.shared.families.rows[at as usize] as usize;
        self.shared.kinds[row].store(kind_code(kind), Ordering::Relaxed);
        self.shared.sizes[row].store(size, Ordering::Relaxed);
        self.shared.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells that an object is damaged, and with it everything that is made from it; a failure to read is passed on.
    fn damaged(&mut self, at: u32, trouble: Trouble) -> Result<()> {
        let why = match trouble {
            Trouble::Damage(why) => why,
            Trouble::Failure(err) => return Err(err),
        };
        self.tell(at, why);
        let families = self.shared.families;
        let mut stack = vec![at];
        while let Some(base) = stack.pop() {
            let mut child = families.first_child[base as usize];
            while child != NONE {
                self.tell(child, "its delta base is damaged".into());
                stack.push(child);
                child = families.next_sibling[child as usize];
            }
        }
        Ok(())
    }

    fn tell(&self, at: u32, why: String) {
        let oid = self
            .shared
            .table
            .oid(self.shared.families.rows[at as usize] as usize)
            .to_owned();
        let damage = Damage {
            oid,
            offset: self.place(at).0,
            why,
        };
        self.shared
            .found
            .lock()
            .expect("no thread panicked with the lock")
            .damaged
            .push(damage);
    }

    fn changed(&self, at: u32, why: &str) -> Error {
        let name = self.shared.store.pack_name(self.shared.pack);
        Error::InvalidPack {
            name,
            why: format!(
                "the entry at offset {} changed while it was read: {why}",
                self.place(at).0
            ),
        }
    }
}

/// Returns a hasher that was given an object's header.
fn object_hasher(format: gix_hash::Kind, kind: Kind, size: u64) -> Hasher {
    let mut hasher = hasher(format);
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = size;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    hasher.update(kind.as_bytes());
    hasher.update(b" ");
    hasher.update(&digits[at..]);
    hasher.update(b"\0");
    hasher
}

/// Hashes the whole pack; returns what it hashes to where that is not its id.
pub(super) fn hash_pack(shared: &Shared<'_>) -> Result<Option<ObjectId>> {
    let (store, pack) = (shared.store, shared.pack);
    let id = store.pack_id(pack);
    let end = store.pack_len(pack).saturating_sub(id.as_slice().len() as u64);
    let mut hasher = hasher(id.kind());
    let mut chunk = vec![0; CHUNK];
    let mut at = 0;
    while at < end && !shared.stop.load(Ordering::Relaxed) {
        let part = &mut chunk[..(CHUNK as u64).min(end - at) as usize];
        store.read_exact_at(pack, at, part)?;
        hasher.update(part);
        at += part.len() as u64;
    }
    match hasher.try_finalize() {
        Ok(found) if found == id => Ok(None),
        Ok(found) => Ok(Some(found)),
        Err(err) => Err(Error::InvalidPack {
            name: store.pack_name(pack),
            why: err.to_string(),
        }),
    }
}
