//! The trees and blobs to send.

use gix_hash::{ObjectId, oid};

use super::{Contents, PROGRESS_STEP, commits::Graph};
use crate::{
    error::{Error, Result},
    pack::{
        Kind, Location,
        changes::{IndexedTree, visit_changes},
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
const HIDDEN: u8 = 1;
/// Selected.
const TAKEN: u8 = 2;

/// A walk over trees.
pub(super) struct Trees<'a, 's> {
    reader: &'a ObjectReader<'s>,
    selection: &'a mut Selection,
    contents: Contents,
    progress: &'a mut dyn FnMut(u64),
    /// Ids of trees and blobs met; their numbers are places in `flags`.
    ids: OidTable,
    flags: Vec<u8>,
    recent: Recent,
    neighbours: Neighbours,
    stack: Vec<Open>,
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
        contents: Contents,
        progress: &'a mut dyn FnMut(u64),
    ) -> Self {
        Trees {
            reader,
            selection,
            contents,
            progress,
            ids: OidTable::new(reader.store().object_format().len_in_bytes()),
            flags: Vec::new(),
            recent: Recent::new(),
            neighbours: Neighbours::default(),
            stack: Vec::new(),
        }
    }

    /// Selects the trees and blobs of `graph`, and the trees and blobs that are `shown` by name, apart from what is hidden.
    pub fn run(mut self, graph: &Graph, hidden: &[(ObjectId, Kind)], shown: &[(ObjectId, Kind)]) -> Result<()> {
        for (id, kind) in hidden {
            self.hide(id, *kind)?;
        }
        if self.contents != Contents::Nothing {
            for id in &graph.boundary {
                self.hide(id, Kind::Tree)?;
            }
        }
        // What was met on the other side means nothing on this one.
        self.recent.forget();
        self.neighbours = Neighbours::default();
        if self.contents != Contents::Nothing {
            for (tree, commit) in &graph.shown {
                self.take(tree, Kind::Tree, 0, &|| format!(" (the tree of commit {commit})"))?;
                self.descend(TAKEN)?;
            }
        }
        for (id, kind) in shown {
            self.take(id, *kind, 0, &String::new)?;
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
        while let Some(Open { number, at, path }) = self.stack.pop() {
            let depth = self.stack.len();
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
            self.stack[depth..].reverse();
        }
        Ok(())
    }

    fn entry(&mut self, tree: &oid, path: u64, side: u8, entry: TreeEntry<'_>) -> Result<(), Trouble> {
        let kind = match entry.mode {
            EntryMode::Tree => Kind::Tree,
            EntryMode::Blob => Kind::Blob,
            EntryMode::Submodule => return Ok(()),
        };
        if kind == Kind::Blob && self.contents == Contents::Trees || self.recent.knows(entry.id, kind) {
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
        self.flags[number as usize] = TAKEN;
        let at = self
            .reader
            .find(id)?
            .ok_or_else(|| self.reader.missing(id, &named_by()))?;
        self.selection.push_met(id, kind_code(kind), path as u32, at);
        if self.selection.len().is_multiple_of(PROGRESS_STEP) {
            (self.progress)(self.selection.len() as u64);
        }
        if kind == Kind::Tree {
            self.stack.push(Open { number, at, path });
        }
        Ok(())
    }

    /// Hides an object unless that was done; a tree also goes onto the stack. The receiver's own gaps are not followed.
    fn mark_hidden(&mut self, id: &[u8], kind: Kind, path: u64) -> Result<()> {
        let number = self.number(id);
        if self.flags[number as usize] != 0 {
            return Ok(());
        }
        self.flags[number as usize] = HIDDEN;
        if kind == Kind::Tree
            && let Some(at) = self.reader.find(id_of(id))?
        {
            self.stack.push(Open { number, at, path });
        }
        Ok(())
    }

    fn number(&mut self, id: &[u8]) -> u32 {
        let (number, new) = self.ids.insert(id);
        if new {
            self.flags.push(0);
        }
        number
    }
}

fn id_of(bytes: &[u8]) -> &oid {
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
fn path_below(path: u64, name: &[u8]) -> u64 {
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
