//! The commits to send, and the boundary.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
};

use gix_hash::{ObjectId, oid};

use super::PROGRESS_STEP;
use crate::{
    error::Result,
    pack::{
        Kind, Location, PackRank, graph::malformed, object::ObjectReader, oid_table::OidTable, parse,
        selection::Selection,
    },
};

/// After the last commit to send was found, so many more commits of the haves are looked at whether they reach one of
/// those: only wrong dates can hide that. git stops after 5.
const SLOP: u32 = 64;

/// The haves reach it.
const HIDDEN: u8 = 1;
/// It was read and put into the queue.
const QUEUED: u8 = 2;
/// It was taken out of the queue, so that its parents were met.
const PASSED: u8 = 4;
/// It is not in the store.
const MISSING: u8 = 8;

/// A commit that the walk has met, if only as a parent; all but the flags are known once it was queued.
struct Node {
    tree: ObjectId,
    at: Location,
    /// Where its parents' numbers are in [`Commits::parents`].
    first_parent: u32,
    parent_count: u32,
    flags: u8,
}

/// A walk over commits from the newest date to the oldest.
pub(super) struct Commits<'a, 's> {
    reader: &'a ObjectReader<'s>,
    parentless: &'a HashSet<ObjectId>,
    /// Ids of commits met; their numbers are places in `nodes`.
    ids: OidTable,
    nodes: Vec<Node>,
    parents: Vec<u32>,
    /// Newest first; of equal dates the one that was met first.
    queue: BinaryHeap<(i64, Reverse<u32>)>,
    /// How many commits in the queue are not hidden.
    shown_in_queue: usize,
    /// Commits that were taken out of the queue while they were not hidden, in that order.
    shown: Vec<u32>,
}

/// What the trees of a selection are found from, by root tree.
pub(super) struct Graph {
    /// The trees of the commits to send, newest commit first, with those commits.
    pub shown: Vec<(ObjectId, ObjectId)>,
    /// The trees of boundary commits.
    pub boundary: Vec<ObjectId>,
    /// All boundary commits are in packs before this one.
    pub boundary_before: PackRank,
}

impl<'a, 's> Commits<'a, 's> {
    pub fn new(reader: &'a ObjectReader<'s>, parentless: &'a HashSet<ObjectId>) -> Self {
        Commits {
            reader,
            parentless,
            ids: OidTable::new(reader.store().object_format().len_in_bytes()),
            nodes: Vec::new(),
            parents: Vec::new(),
            queue: BinaryHeap::new(),
            shown_in_queue: 0,
            shown: Vec::new(),
        }
    }

    /// Adds a commit to start from.
    pub fn add(&mut self, id: ObjectId, hidden: bool) -> Result<()> {
        let number = self.meet(&id);
        if hidden {
            self.hide(number);
        }
        self.enqueue(number, None)
    }

    /// Returns the number of the commit `id`.
    fn meet(&mut self, id: &oid) -> u32 {
        let (number, new) = self.ids.insert(id.as_bytes());
        if new {
            let at = Location {
                pack: 0,
                offset: 0,
                crc32: 0,
            };
            let tree = ObjectId::null(self.reader.store().object_format());
            self.nodes.push(Node {
                tree,
                at,
                first_parent: 0,
                parent_count: 0,
                flags: 0,
            });
        }
        number
    }

    /// Reads a commit and queues it, unless that was done before. A hidden one may be missing.
    fn enqueue(&mut self, number: u32, child: Option<u32>) -> Result<()> {
        let flags = self.nodes[number as usize].flags;
        if flags & QUEUED != 0 || flags & HIDDEN != 0 && flags & MISSING != 0 {
            return Ok(());
        }
        let store = self.reader.store();
        let id = self.ids.id(number).to_owned();
        let Some(at) = self.reader.find(&id)? else {
            if flags & HIDDEN != 0 {
                self.nodes[number as usize].flags |= MISSING;
                return Ok(());
            }
            let why = child.map_or(String::new(), |child| format!(" (a parent of {})", self.ids.id(child)));
            return Err(self.reader.missing(&id, &why));
        };
        let object = self.reader.read_at(at)?;
        if object.kind != Kind::Commit {
            return Err(malformed(
                &id,
                &format!("it should be a commit but is a {}", object.kind),
            ));
        }
        let commit = parse::commit(&object.data, store.object_format()).map_err(|why| malformed(&id, why))?;
        let first_parent = self.parents.len() as u32;
        if !self.parentless.contains(&id) {
            for parent in &commit.parents {
                let parent = self.meet(parent);
                self.parents.push(parent);
            }
        }
        let parent_count = self.parents.len() as u32 - first_parent;
        let flags = flags | QUEUED;
        self.nodes[number as usize] = Node {
            tree: commit.tree,
            at,
            first_parent,
            parent_count,
            flags,
        };
        self.queue.push((commit.time, Reverse(number)));
        self.shown_in_queue += usize::from(flags & HIDDEN == 0);
        Ok(())
    }

    fn parents_of(&self, number: u32) -> std::ops::Range<usize> {
        let node = &self.nodes[number as usize];
        node.first_parent as usize..(node.first_parent + node.parent_count) as usize
    }

    /// Hides a commit, and those of its ancestors that were passed already.
    fn hide(&mut self, number: u32) {
        let mut stack = vec![number];
        while let Some(number) = stack.pop() {
            let node = &mut self.nodes[number as usize];
            if node.flags & HIDDEN != 0 {
                continue;
            }
            node.flags |= HIDDEN;
            if node.flags & PASSED != 0 {
                stack.extend_from_slice(&self.parents[self.parents_of(number)]);
            } else if node.flags & QUEUED != 0 {
                self.shown_in_queue -= 1;
            }
        }
    }

    /// Walks until no commit to send can be left, and adds those to `selection`.
    pub fn walk(&mut self, selection: &mut Selection, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let mut oldest = i64::MAX;
        let mut slop = SLOP;
        while let Some((time, Reverse(number))) = self.queue.pop() {
            let node = &mut self.nodes[number as usize];
            node.flags |= PASSED;
            let hidden = node.flags & HIDDEN != 0;
            let parents = self.parents_of(number);
            if !hidden {
                self.shown_in_queue -= 1;
                self.shown.push(number);
                oldest = oldest.min(time);
                if self.shown.len().is_multiple_of(PROGRESS_STEP) {
                    progress(self.shown.len() as u64);
                }
            }
            for at in parents {
                let parent = self.parents[at];
                if hidden {
                    self.hide(parent);
                }
                self.enqueue(parent, Some(number))?;
            }
            if self.shown_in_queue == 0 {
                if self.shown.is_empty() {
                    // Everything wanted is had.
                    break;
                }
                let passed_all = self.queue.peek().is_none_or(|(next, _)| *next < oldest);
                slop = if passed_all { slop - 1 } else { SLOP };
                if slop == 0 {
                    break;
                }
            } else {
                slop = SLOP;
            }
        }
        for &number in &self.shown {
            let node = &self.nodes[number as usize];
            if node.flags & HIDDEN == 0 {
                selection.push(self.ids.id(number), Some(Kind::Commit), node.at);
            }
        }
        Ok(())
    }

    /// Returns the trees to send and to leave out: those of boundary commits, and of `had`.
    pub fn finish(self, had: &[ObjectId]) -> Graph {
        let mut shown = Vec::with_capacity(self.shown.len());
        let mut graph = Graph {
            shown: Vec::new(),
            boundary: Vec::new(),
            boundary_before: 0,
        };
        let mut border_on = |node: &Node| {
            graph.boundary.push(node.tree);
            graph.boundary_before = graph.boundary_before.max(node.at.pack + 1);
        };
        let mut edges = HashSet::new();
        for &number in &self.shown {
            let node = &self.nodes[number as usize];
            if node.flags & HIDDEN != 0 {
                continue;
            }
            shown.push((node.tree, self.ids.id(number).to_owned()));
            for &parent in &self.parents[self.parents_of(number)] {
                let parent_node = &self.nodes[parent as usize];
                if parent_node.flags & HIDDEN != 0 && parent_node.flags & QUEUED != 0 && edges.insert(parent) {
                    border_on(parent_node);
                }
            }
        }
        let had = had.iter().filter_map(|id| self.ids.get(id.as_bytes()));
        for node in had
            .map(|number| &self.nodes[number as usize])
            .filter(|node| node.flags & QUEUED != 0)
        {
            border_on(node);
        }
        graph.shown = shown;
        graph
    }
}
