//! What a worker checks of each object: its id, and its links.

use std::sync::{Arc, atomic::Ordering};

use gix_hash::{Hasher, ObjectId, hasher, oid};

use super::{
    DANGLING_TOLD, Dangling, Kind, ResolvedCommit, Shared,
    worker::{Trouble, Worker},
};
use crate::{
    error::{Error, Result},
    pack::{
        changes::{IndexedTree, visit_changes},
        header::kind_code,
        idx,
        parse::{self, EntryMode, TreeEntry},
    },
};

/// Bytes of the pack hashed at once.
const CHUNK: usize = 256 * 1024;

impl Worker<'_, '_> {
    /// Checks an object's id and follows its links.
    pub(super) fn check(
        &mut self,
        at: u32,
        kind: Kind,
        data: Vec<u8>,
        base: &IndexedTree,
    ) -> Result<IndexedTree, Trouble> {
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
            Kind::Commit => self.commit(at, id, &tree.data),
            Kind::Tag if self.shared.is_there.is_some() => match parse::tag(&tree.data, format) {
                Ok((target, kind)) => self.link(id, &target, kind).map(|_| ()).map_err(Trouble::from),
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
                self.tell(at, format!("it is malformed: {why}"), false);
            }
            Err(failure) => return Err(failure),
        }
        Ok(tree)
    }

    fn commit(&mut self, at: u32, id: &oid, data: &[u8]) -> Result<(), Trouble> {
        if self.shared.is_there.is_none() && self.shared.on_commit.is_none() {
            return Ok(());
        }
        let links = parse::commit(data, self.shared.store.object_format())?;
        self.linked.clear();
        let tree = self.link(id, &links.tree, Kind::Tree)?;
        self.linked.push(tree);
        for parent in &links.parents {
            let parent = self.link(id, parent, Kind::Commit)?;
            self.linked.push(parent);
        }
        if let Some(on_commit) = &self.shared.on_commit {
            on_commit.lock().expect("no thread panicked with the lock")(ResolvedCommit {
                row: self.shared.families.rows[at as usize],
                links,
                linked: &self.linked,
            });
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

    /// Notes that `from` says that `to` is there and a `kind`. Returns its row, where it is in the pack.
    fn link(&self, from: &oid, to: &oid, kind: Kind) -> Result<Option<u32>> {
        if let Some(row) = idx::find(self.shared.table, &self.shared.fan_out, to) {
            if let Some(linked_as) = self.shared.linked_as.get(row) {
                let bit = 1 << kind_code(kind);
                // Mostly set already: a look is cheaper than a write that other threads' caches must follow.
                if linked_as.load(Ordering::Relaxed) & bit == 0 {
                    linked_as.fetch_or(bit, Ordering::Relaxed);
                }
            }
            return Ok(Some(row as u32));
        }
        let Some(is_there) = self.shared.is_there else {
            return Ok(None);
        };
        if !is_there(to, kind)? {
            let mut found = self.shared.found.lock().expect("no thread panicked with the lock");
            if found.dangling.len() < DANGLING_TOLD {
                found.dangling.push(Dangling {
                    from: Some(from.to_owned()),
                    to: to.to_owned(),
                    kind,
                });
            }
        }
        Ok(None)
    }

    pub(super) fn check_id(&self, at: u32, hasher: Hasher) -> Result<(), Trouble> {
        let expected = self.shared.table.oid(self.shared.families.rows[at as usize] as usize);
        match hasher.try_finalize() {
            Ok(found) if *found == *expected => Ok(()),
            Ok(found) => Err(Trouble::Damage(format!("its content is that of object {found}"))),
            Err(err) => Err(Trouble::Damage(err.to_string())),
        }
    }

    pub(super) fn note(&self, at: u32, kind: Kind, size: u64) {
        let row = self.shared.families.rows[at as usize] as usize;
        self.shared.kinds[row].store(kind_code(kind), Ordering::Relaxed);
        self.shared.sizes[row].store(size, Ordering::Relaxed);
        self.shared.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns a hasher that was given an object's header.
pub(super) fn object_hasher(format: gix_hash::Kind, kind: Kind, size: u64) -> Hasher {
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
    let id = store.pack_id(pack)?;
    let end = store.pack_len(pack)?.saturating_sub(id.as_slice().len() as u64);
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
