//! The trees and blobs to send.

use std::collections::HashMap;

use gix_hash::{ObjectId, oid};

use super::{PROGRESS_STEP, commits::Graph};
use crate::{
    error::{Error, Result},
    pack::{
        Kind, Location, PackRank,
        changes::{IndexedTree, visit_changes},
        filter::{Filter, Walk},
        graph::malformed,
        header::kind_code,
        object::{Object, ObjectReader},
        oid_table::OidTable,
        parse::{EntryMode, TreeEntry},
        recent::Recent,
        selection::Selection,
    },
};

/// In a tree of the boundary, or in a tree that the receiver is known to have.
pub(super) const HIDDEN: u8 = 1;
/// Selected, or left out by a filter for good.
pub(super) const TAKEN: u8 = 2;

/// A walk over trees.
pub(super) struct Trees<'a, 's> {
    pub(super) reader: &'a ObjectReader<'s>,
    selection: &'a mut Selection,
    pub(super) filter: &'a Filter,
    walk: Walk,
    progress: &'a mut dyn FnMut(u64),
    /// Ids of trees and blobs met; their numbers are places in `flags`.
    pub(super) ids: OidTable,
    pub(super) flags: Vec<u8>,
    recent: Recent,
    neighbours: Neighbours,
    stack: Vec<Open>,
    unread: Option<Unread>,
}

/// Trees of the boundary that were not read yet: few are needed where it is known which objects can be in them.
struct Unread {
    /// All that is in trees of the boundary is in packs before this one.
    before: PackRank,
    /// Numbers of trees, by what stands for their path.
    by_path: HashMap<u64, Vec<u32>>,
}

/// A tree to be walked.
struct Open {
    number: u32,
    at: Location,
    /// What stands for its path.
    path: u64,
}

impl<'a, 's> Trees<'a, 's> {
    pub fn new(
        reader: &'a ObjectReader<'s>,
        selection: &'a mut Selection,
        filter: &'a Filter,
        progress: &'a mut dyn FnMut(u64),
    ) -> Self {
        Trees {
            reader,
            selection,
            filter,
            walk: filter.walk(),
            progress,
            ids: OidTable::new(reader.store().object_format().len_in_bytes()),
            flags: Vec::new(),
            recent: Recent::new(),
            neighbours: Neighbours::default(),
            stack: Vec::new(),
            unread: None,
        }
    }

    /// Selects the trees and blobs of `graph`, and the trees and blobs that are `shown` by name, apart from what is hidden.
    pub fn run(mut self, graph: &Graph, hidden: &[(ObjectId, Kind)], shown: &[(ObjectId, Kind)]) -> Result<()> {
        for (id, kind) in hidden {
            self.hide(id, *kind)?;
        }
        // What is wanted by name comes first: no filter leaves it out, and a receiver that has a commit of the boundary may lack
        // it all the same, if its clone is partial.
        for (id, kind) in shown {
            self.take_wanted(id, *kind)?;
        }
        match self.walk {
            Walk::Nothing => {}
            // What came after all that the boundary leads to cannot be in it. So of the boundary, only the trees are read at whose
            // paths something changed, until something old turns up: whether that is in the boundary, only all of it can tell.
            // Were it wrong, something would be sent that the receiver has.
            Walk::All | Walk::Trees if self.reader.store().seems_closed_before(graph.boundary_before)? => {
                self.unread = Some(Unread {
                    before: graph.boundary_before,
                    by_path: HashMap::new(),
                });
                for id in &graph.boundary {
                    self.mark_hidden(id.as_bytes(), Kind::Tree, 0)?;
                }
            }
            _ => {
                for id in &graph.boundary {
                    self.hide(id, Kind::Tree)?;
                }
            }
        }
        // What was met on the other side means nothing on this one.
        self.recent.forget();
        self.neighbours = Neighbours::default();
        match self.walk {
            Walk::Nothing => {}
            Walk::Paths => self.take_by_path(shown, &graph.shown)?,
            Walk::All | Walk::Trees => {
                for (id, _) in shown.iter().filter(|(_, kind)| *kind == Kind::Tree) {
                    self.descend_from(id)?;
                }
                for (tree, commit) in &graph.shown {
                    self.take(tree, Kind::Tree, 0, &|| format!(" (the tree of commit {commit})"))?;
                    self.descend(TAKEN)?;
                }
            }
        }
        Ok(())
    }

    /// Selects an object whatever the filter says, without what is below it.
    fn take_wanted(&mut self, id: &oid, kind: Kind) -> Result<()> {
        let number = self.number(id.as_bytes());
        if self.flags[number as usize] == 0 {
            self.flags[number as usize] = TAKEN;
            let at = self.locate(id, &String::new)?;
            self.select(id, kind, 0, at);
        }
        Ok(())
    }

    /// Selects what is below a tree that was taken already.
    fn descend_from(&mut self, id: &oid) -> Result<()> {
        let number = self.number(id.as_bytes());
        if self.flags[number as usize] == TAKEN {
            let at = self.locate(id, &String::new)?;
            self.stack.push(Open { number, at, path: 0 });
            self.descend(TAKEN)?;
        }
        Ok(())
    }

    fn hide(&mut self, id: &oid, kind: Kind) -> Result<()> {
        self.mark_hidden(id.as_bytes(), kind, 0)?;
        self.descend(HIDDEN)
    }

    /// Walks the trees on the stack and all below them. Each is read in one go; its subtrees come next, first one first.
    fn descend(&mut self, side: u8) -> Result<()> {
        while let Some(open) = self.stack.pop() {
            let depth = self.stack.len();
            if side == TAKEN {
                self.read_boundary_at(open.path)?;
            }
            self.walk_tree(open, side)?;
            self.stack[depth..].reverse();
        }
        Ok(())
    }

    /// Hides what the unread trees of the boundary at `path` hold.
    fn read_boundary_at(&mut self, path: u64) -> Result<()> {
        let unread = self.unread.as_mut();
        for number in unread
            .and_then(|unread| unread.by_path.remove(&path))
            .unwrap_or_default()
        {
            if let Some(at) = self.reader.find(self.ids.id(number))? {
                self.walk_tree(Open { number, at, path }, HIDDEN)?;
            }
        }
        Ok(())
    }

    /// Hides all that is in the boundary.
    fn read_boundary(&mut self) -> Result<()> {
        let Some(unread) = self.unread.take() else {
            return Ok(());
        };
        let stack = std::mem::take(&mut self.stack);
        // The entry that is just being looked at was met, but nothing was decided yet.
        self.recent.forget();
        for (path, numbers) in unread.by_path {
            for number in numbers {
                if let Some(at) = self.reader.find(self.ids.id(number))? {
                    self.stack.push(Open { number, at, path });
                }
            }
        }
        self.descend(HIDDEN)?;
        self.stack = stack;
        Ok(())
    }

    /// Walks the entries of a tree that are not in the tree that was walked last at its path.
    fn walk_tree(&mut self, Open { number, at, path }: Open, side: u8) -> Result<()> {
        let id = self.ids.id(number).to_owned();
        let Object { kind, data } = self.reader.read_at(at)?;
        if kind != Kind::Tree {
            return Err(malformed(&id, &format!("it should be a tree but is a {kind}")));
        }
        let mut tree = IndexedTree {
            starts: self.neighbours.unused(),
            data,
        };
        let neighbour = self.neighbours.take(path);
        let width = id.as_slice().len();
        visit_changes(&tree.data, &neighbour, width, &mut tree.starts, |entry| {
            self.entry(&id, path, side, entry)
        })
        .map_err(|trouble| match trouble {
            Trouble::Malformed(why) => malformed(&id, why),
            Trouble::Other(err) => err,
        })?;
        self.neighbours.put(path, tree, neighbour);
        Ok(())
    }

    fn entry(&mut self, tree: &oid, path: u64, side: u8, entry: TreeEntry<'_>) -> Result<(), Trouble> {
        let kind = match entry.mode {
            EntryMode::Tree => Kind::Tree,
            EntryMode::Blob => Kind::Blob,
            EntryMode::Submodule => return Ok(()),
        };
        if kind == Kind::Blob && self.walk == Walk::Trees || self.recent.knows(entry.id, kind) {
            return Ok(());
        }
        let path = path_below(path, entry.name);
        if side == HIDDEN {
            self.mark_hidden(entry.id, kind, path)?;
        } else {
            self.take(id_of(entry.id), kind, path, &|| format!(" (tree {tree} names it)"))?;
        }
        Ok(())
    }

    /// Selects an object unless it is hidden or selected already; a tree also goes onto the stack.
    fn take(&mut self, id: &oid, kind: Kind, path: u64, named_by: &dyn Fn() -> String) -> Result<()> {
        let number = self.number(id.as_bytes());
        if self.flags[number as usize] != 0 {
            return Ok(());
        }
        let at = self.locate(id, named_by)?;
        if self.unread.as_ref().is_some_and(|unread| at.pack < unread.before) {
            self.read_boundary()?;
            if self.flags[number as usize] != 0 {
                return Ok(());
            }
        }
        self.flags[number as usize] = TAKEN;
        if kind == Kind::Blob && self.is_too_large(at)? {
            return Ok(());
        }
        self.select(id, kind, path as u32, at);
        if kind == Kind::Tree {
            self.stack.push(Open { number, at, path });
        }
        Ok(())
    }

    pub(super) fn locate(&self, id: &oid, named_by: &dyn Fn() -> String) -> Result<Location> {
        let found = self.reader.find(id)?;
        found.ok_or_else(|| self.reader.missing(id, &named_by()))
    }

    /// Returns whether the filter leaves out the blob at `at` for its size.
    pub(super) fn is_too_large(&self, at: Location) -> Result<bool> {
        match self.filter.blobs_below() {
            Some(limit) => Ok(limit == 0 || self.reader.header_at(at)?.1 >= limit),
            None => Ok(false),
        }
    }

    pub(super) fn select(&mut self, id: &oid, kind: Kind, path: u32, at: Location) {
        self.selection.push_met(id, kind_code(kind), path, at);
        if self.selection.len().is_multiple_of(PROGRESS_STEP) {
            (self.progress)(self.selection.len() as u64);
        }
    }

    /// Hides an object unless that was done; a tree also goes onto the stack. The receiver's own gaps are not followed.
    fn mark_hidden(&mut self, id: &[u8], kind: Kind, path: u64) -> Result<()> {
        let number = self.number(id);
        if self.flags[number as usize] != 0 {
            return Ok(());
        }
        self.flags[number as usize] = HIDDEN;
        if kind != Kind::Tree {
            return Ok(());
        }
        if let Some(unread) = &mut self.unread {
            unread.by_path.entry(path).or_default().push(number);
        } else if let Some(at) = self.reader.find(id_of(id))? {
            self.stack.push(Open { number, at, path });
        }
        Ok(())
    }

    pub(super) fn number(&mut self, id: &[u8]) -> u32 {
        let (number, new) = self.ids.insert(id);
        if new {
            self.flags.push(0);
        }
        number
    }
}

pub(super) fn id_of(bytes: &[u8]) -> &oid {
    oid::from_bytes_unchecked(bytes)
}

/// Why a tree's entry could not be walked.
enum Trouble {
    Malformed(&'static str),
    Other(Error),
}

impl From<&'static str> for Trouble {
    fn from(why: &'static str) -> Self {
        Trouble::Malformed(why)
    }
}

impl From<Error> for Trouble {
    fn from(err: Error) -> Self {
        Trouble::Other(err)
    }
}

/// Returns what stands for the path `name` below `path`.
pub(super) fn path_below(path: u64, name: &[u8]) -> u64 {
    // FNV-1a. Paths that fall together only make a worse neighbour.
    name.iter()
        .fold((path ^ 0x2f).wrapping_mul(0x100_0000_01b3), |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        })
}

/// Slots for trees; with the limit below at most 64 MiB, usually a few.
const NEIGHBOURS: usize = 256;
/// Larger trees are not kept, in bytes.
const NEIGHBOUR_LEN: usize = 256 * 1024;

/// The tree that was walked last at a path, whose entries need not be looked at again.
#[derive(Default)]
struct Neighbours {
    slots: Vec<IndexedTree>,
    /// An index that is not needed any more: its memory is.
    spare: Vec<u32>,
}

impl Neighbours {
    /// Returns an empty list for the places of entries.
    fn unused(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.spare)
    }

    fn take(&mut self, path: u64) -> IndexedTree {
        match self.slots.get_mut(path as usize % NEIGHBOURS) {
            Some(slot) => std::mem::take(slot),
            None => IndexedTree::default(),
        }
    }

    /// Keeps `tree` instead of the one that was taken.
    fn put(&mut self, path: u64, tree: IndexedTree, taken: IndexedTree) {
        if self.slots.is_empty() {
            self.slots.resize_with(NEIGHBOURS, IndexedTree::default);
        }
        self.spare = taken.starts;
        if tree.data.len() <= NEIGHBOUR_LEN {
            self.slots[path as usize % NEIGHBOURS] = tree;
        }
    }
}
