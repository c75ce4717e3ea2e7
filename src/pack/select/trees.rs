//! The trees and blobs to send.

use std::sync::Arc;

use gix_hash::{ObjectId, oid};

use super::{Contents, PROGRESS_STEP, commits::Graph};
use crate::{
    error::Result,
    pack::{
        Kind,
        graph::malformed,
        object::ObjectReader,
        oid_table::OidTable,
        parse::{self, EntryMode},
        selection::Selection,
    },
};

/// In a tree of the boundary, or in a tree that the receiver is known to have.
const HIDDEN: u8 = 1;
/// Selected.
const TAKEN: u8 = 2;

/// Slots of the filter of entries met last; with 32 bytes each they fit into the second-level cache.
const RECENT: usize = 1 << 14;

/// A walk over trees whose ids have `W` bytes.
///
/// Most of a history's trees differ from the one before in a single entry. So nearly all entries were met a moment ago, and a
/// small direct-mapped filter of whole ids answers for them before the table of all ids, which is out of cache, is asked.
pub(super) struct Trees<'a, 's, const W: usize> {
    reader: &'a ObjectReader<'s>,
    selection: &'a mut Selection,
    contents: Contents,
    progress: &'a mut dyn FnMut(u64),
    /// Ids of trees and blobs met; their numbers are places in `flags`.
    ids: OidTable,
    flags: Vec<u8>,
    recent: Vec<[u8; W]>,
    stack: Vec<Open>,
}

/// A tree being walked.
struct Open {
    number: u32,
    data: Arc<Vec<u8>>,
    /// The next entry's place in `data`.
    next: usize,
}

impl<'a, 's, const W: usize> Trees<'a, 's, W> {
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
            ids: OidTable::new(W),
            flags: Vec::new(),
            recent: Vec::new(),
            stack: Vec::new(),
        }
    }

    /// Selects the trees and blobs of `graph`, and the trees and blobs that are `shown` by name, apart from what is hidden.
    pub fn run(mut self, graph: &Graph, hidden: &[(ObjectId, Kind)], shown: &[(ObjectId, Kind)]) -> Result<()> {
        self.forget();
        for (id, kind) in hidden {
            self.hide(id, *kind)?;
        }
        if self.contents != Contents::Nothing {
            for id in &graph.boundary {
                self.hide(id, Kind::Tree)?;
            }
        }
        // What was met on the other side means nothing on this one.
        self.forget();
        if self.contents != Contents::Nothing {
            for (tree, commit) in &graph.shown {
                self.take(tree, Kind::Tree, &|| format!(" (the tree of commit {commit})"))?;
                self.descend(TAKEN)?;
            }
        }
        for (id, kind) in shown {
            self.take(id, *kind, &String::new)?;
            self.descend(TAKEN)?;
        }
        Ok(())
    }

    /// Empties the filter.
    fn forget(&mut self) {
        self.recent.clear();
        self.recent.resize(RECENT, [0; W]);
        // The null id belongs into the first slot, and must not be found there; this one belongs elsewhere.
        self.recent[0] = [1; W];
    }

    fn hide(&mut self, id: &oid, kind: Kind) -> Result<()> {
        self.mark_hidden(id.as_bytes(), kind)?;
        self.descend(HIDDEN)
    }

    /// Walks the trees on the stack and all below them.
    fn descend(&mut self, side: u8) -> Result<()> {
        while let Some(Open { number, data, mut next }) = self.stack.pop() {
            let depth = self.stack.len();
            while let Some((entry, rest)) =
                parse::tree_entry(&data[next..], W).map_err(|why| malformed(self.ids.id(number), why))?
            {
                next = data.len() - rest.len();
                let kind = match entry.mode {
                    EntryMode::Tree => Kind::Tree,
                    EntryMode::Blob => Kind::Blob,
                    EntryMode::Submodule => continue,
                };
                let id: &[u8; W] = entry
                    .id
                    .try_into()
                    .expect("an entry's id has the width it was parsed with");
                let word = u32::from_le_bytes([id[0], id[1], id[2], id[3]]);
                let slot = &mut self.recent[word as usize % RECENT];
                if slot == id {
                    continue;
                }
                *slot = *id;
                if kind == Kind::Blob && self.contents == Contents::Trees {
                    continue;
                }
                if side == HIDDEN {
                    self.mark_hidden(id, kind)?;
                } else {
                    let ids = &self.ids;
                    let tree = ids.id(number).to_owned();
                    self.take(id_of(id), kind, &|| format!(" (tree {tree} names it)"))?;
                }
                if self.stack.len() > depth {
                    // Into the subtree first: what it was stored as a delta against was probably read a moment ago.
                    self.stack.insert(depth, Open { number, data, next });
                    break;
                }
            }
        }
        Ok(())
    }

    /// Selects an object unless it is hidden or selected already; a tree also goes onto the stack.
    fn take(&mut self, id: &oid, kind: Kind, named_by: &dyn Fn() -> String) -> Result<()> {
        let number = self.number(id.as_bytes());
        if self.flags[number as usize] != 0 {
            return Ok(());
        }
        self.flags[number as usize] = TAKEN;
        let at = self
            .reader
            .store()
            .lookup(id)?
            .ok_or_else(|| self.reader.missing(id, &named_by()))?;
        self.selection.push(id, Some(kind), at);
        if self.selection.len().is_multiple_of(PROGRESS_STEP) {
            (self.progress)(self.selection.len() as u64);
        }
        if kind == Kind::Tree {
            let object = self.reader.read_at(at)?;
            self.open(number, object.kind, object.data)?;
        }
        Ok(())
    }

    /// Hides an object unless that was done; a tree also goes onto the stack. The receiver's own gaps are not followed.
    fn mark_hidden(&mut self, id: &[u8], kind: Kind) -> Result<()> {
        let number = self.number(id);
        if self.flags[number as usize] != 0 {
            return Ok(());
        }
        self.flags[number as usize] = HIDDEN;
        if kind == Kind::Tree
            && let Some(object) = self.reader.read(id_of(id))?
        {
            self.open(number, object.kind, object.data)?;
        }
        Ok(())
    }

    fn open(&mut self, number: u32, kind: Kind, data: Arc<Vec<u8>>) -> Result<()> {
        if kind != Kind::Tree {
            return Err(malformed(
                self.ids.id(number),
                &format!("it should be a tree but is a {kind}"),
            ));
        }
        self.stack.push(Open { number, data, next: 0 });
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
