//! One thread's part of resolving a pack.

use std::sync::{Arc, atomic::Ordering};

use gix_zlib::Decompress;

use super::{Damage, Kind, Shared, entries::MAX_INFLATION, families::NONE};
use crate::{
    error::{Error, Result},
    pack::{
        changes::IndexedTree,
        header::{self, EntryKind},
        recent::Recent,
    },
};

/// Roots that a thread takes at once.
const ROOTS_TAKEN: usize = 16;
/// Objects without children from this size on are hashed while they are inflated, and never held.
const STREAM_FROM: u64 = 8 << 20;
/// As are those whose stored bytes are so many: memory for them would cost more than to take them in parts.
const STREAM_FROM_STORED: u64 = 128 << 10;
/// Why an object could not be resolved: the pack is damaged there, or reading failed altogether.
pub(super) enum Trouble {
    /// The stored bytes are not those that the table is of.
    Altered(String),
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
    pub(super) shared: &'a Shared<'b>,
    pub(super) inflate: Decompress,
    /// The entry read last.
    pub(super) compressed: Vec<u8>,
    /// The delta inflated last.
    pub(super) delta: Vec<u8>,
    pub(super) recent: Recent,
    /// What the commit looked at last links to.
    pub(super) linked: Vec<Option<u32>>,
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
            linked: Vec::new(),
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
                        Trouble::Altered(why) | Trouble::Damage(why) => Err(self.changed(at, &why)),
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
        let (start, end) = self.place(at);
        let is_leaf = self.shared.families.first_child[at as usize] == NONE;
        if is_leaf && end - start >= STREAM_FROM / MAX_INFLATION {
            let mut head = [0; header::MAX_ENTRY_HEADER_LEN];
            self.shared.store.read_exact_at(self.shared.pack, start, &mut head)?;
            let entry = header::parse_entry_header(&head, self.shared.store.object_format())?;
            if let EntryKind::Base(Kind::Blob) = entry.kind
                && (entry.size >= STREAM_FROM || end - start >= STREAM_FROM_STORED)
            {
                self.stream(at, Kind::Blob, entry.size, entry.len)?;
                return Ok((Kind::Blob, None));
            }
        }
        self.read(at)?;
        let entry = header::parse_entry_header(&self.compressed, self.shared.store.object_format())?;
        let EntryKind::Base(kind) = entry.kind else {
            return Err("its header has changed".into());
        };
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
        let format = self.shared.store.object_format();
        let mut chain = vec![];
        let mut root = at;
        let mut data = loop {
            self.read(root)?;
            let entry = header::parse_entry_header(&self.compressed, format)?;
            let (start, _) = self.place(root);
            let base = self.shared.families.base(self.shared.table, start, entry.kind);
            match base.map_err(Trouble::Damage)? {
                // The pack was free of circles; but this time it was read anew.
                Some(_) if chain.len() == self.shared.table.len() => return Err("its bases go in a circle".into()),
                Some(base) => {
                    chain.push(root);
                    root = base;
                }
                None => break self.inflated(entry.len, entry.size, Vec::new())?,
            }
        };
        while let Some(at) = chain.pop() {
            data = self.made_from(at, &data)?;
        }
        Ok(IndexedTree {
            data: Arc::new(data),
            starts: Vec::new(),
        })
    }

    pub(super) fn place(&self, at: u32) -> (u64, u64) {
        self.shared.families.place(self.shared.table, at)
    }

    /// Tells that an object is damaged, and with it everything that is made from it; a failure to read is passed on.
    fn damaged(&mut self, at: u32, trouble: Trouble) -> Result<()> {
        match trouble {
            Trouble::Altered(why) => self.tell(at, why, true),
            Trouble::Damage(why) => self.tell(at, why, false),
            Trouble::Failure(err) => return Err(err),
        }
        let families = self.shared.families;
        let mut stack = vec![at];
        while let Some(base) = stack.pop() {
            let mut child = families.first_child[base as usize];
            while child != NONE {
                self.tell(child, "its delta base is damaged".into(), false);
                stack.push(child);
                child = families.next_sibling[child as usize];
            }
        }
        Ok(())
    }

    pub(super) fn tell(&self, at: u32, why: String, is_altered: bool) {
        let oid = self
            .shared
            .table
            .oid(self.shared.families.rows[at as usize] as usize)
            .to_owned();
        let damage = Damage {
            oid,
            offset: self.place(at).0,
            why,
            is_altered,
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
