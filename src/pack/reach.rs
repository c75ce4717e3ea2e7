//! Whether references reach some objects, without a list of all that they reach.

use std::collections::{BinaryHeap, HashSet};

use gix_hash::{ObjectId, oid};

use super::{
    CommitNode, Kind, PackRank,
    graph::{malformed, node, read_commit},
    object::ObjectReader,
    oid_table::OidTable,
    parse::{self, EntryMode},
};
use crate::error::Result;

/// A search for objects. What is found is struck off; a search ends when nothing is left.
///
/// Each commit and each tree is looked at once in all calls together.
pub struct Search<'a, 's> {
    reader: &'a ObjectReader<'s>,
    wanted: HashSet<ObjectId>,
    /// Trees and tags that were looked at.
    seen: OidTable,
    /// What is in a pack before this one leads to nothing that is wanted; `None` = not known yet.
    first_pack: Option<PackRank>,
}

impl<'a, 's> Search<'a, 's> {
    /// Starts a search for `wanted`, which must be stored.
    pub fn new(reader: &'a ObjectReader<'s>, wanted: HashSet<ObjectId>) -> Self {
        Search {
            reader,
            wanted,
            seen: OidTable::new(reader.store().object_format().len_in_bytes()),
            first_pack: None,
        }
    }

    /// Returns whether the object may lead to one that is wanted, by the packs that they are in.
    fn may_lead_there(&mut self, id: &oid) -> Result<bool> {
        let first = match self.first_pack {
            Some(first) => first,
            None => *self.first_pack.insert(self.find_first_pack()?),
        };
        Ok(first == 0 || self.reader.find(id)?.is_none_or(|at| at.pack >= first))
    }

    /// Returns the first pack that has a wanted object, if what is before it is known to lead to nothing behind; else 0.
    fn find_first_pack(&self) -> Result<PackRank> {
        let mut first = PackRank::MAX;
        for id in &self.wanted {
            first = first.min(self.reader.find(id)?.map_or(0, |at| at.pack));
        }
        let is_known = first > 0 && self.reader.store().is_closed_before(first)?;
        Ok(if is_known { first } else { 0 })
    }

    /// Strikes off what is known to be reached.
    pub fn found(&mut self, id: &ObjectId) {
        self.wanted.remove(id);
    }

    /// Returns whether everything was found.
    pub fn is_done(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Returns what was not found.
    pub fn left(self) -> HashSet<ObjectId> {
        self.wanted
    }

    /// Looks at the tree of the commit `id`, or of this name: what a checkout needs.
    ///
    /// # Errors
    /// Fails where an object on the way is missing or malformed.
    pub fn checkout(&mut self, id: &oid) -> Result<()> {
        match self.reader.header(id)? {
            Some((Kind::Commit, _)) => {
                let tree = read_commit(self.reader, id)?.tree;
                self.tree(tree)
            }
            Some((Kind::Tree, _)) => self.tree(id.to_owned()),
            _ => Ok(()),
        }
    }

    /// Looks at everything that `tips` reach until nothing is left to be found: at the trees of the tips themselves, then at all
    /// commits, newest first.
    ///
    /// What is in packs before all that have a wanted object is passed over, where these are known not to refer to later ones.
    /// Where no tree or blob is wanted, only commits are read, and where the store knows the graph none that cannot be above a
    /// wanted one.
    ///
    /// # Errors
    /// Fails where an object on the way is missing or malformed.
    pub fn all(&mut self, tips: impl IntoIterator<Item = ObjectId>) -> Result<()> {
        let (contents, lowest) = self.what_is_wanted()?;
        let mut met = OidTable::new(self.reader.store().object_format().len_in_bytes());
        let mut queue = BinaryHeap::new();
        for tip in tips {
            self.tip(tip, &mut met, &mut queue)?;
        }
        if contents {
            // What is checked out is mostly one of these.
            for (_, number) in queue.clone().into_sorted_vec().into_iter().rev() {
                if self.is_done() {
                    break;
                }
                self.checkout(met.id(number))?;
            }
        }
        while !self.is_done()
            && let Some((_, number)) = queue.pop()
        {
            let id = met.id(number).to_owned();
            let CommitNode {
                parents, generation, ..
            } = node(self.reader, &id)?;
            if !contents && let Some((its, lowest)) = generation.zip(lowest) {
                if its <= lowest {
                    continue;
                }
            } else if !self.may_lead_there(&id)? {
                // Asked only where it saves more than a step in the graph: it is a look-up in the packs.
                continue;
            }
            if contents {
                self.checkout(&id)?;
            }
            for parent in parents {
                self.meet(parent, &mut met, &mut queue)?;
            }
        }
        Ok(())
    }

    /// Looks at the value of a reference: a tag leads to what it names.
    fn tip(&mut self, mut id: ObjectId, met: &mut OidTable, queue: &mut BinaryHeap<(i64, u32)>) -> Result<()> {
        loop {
            self.wanted.remove(&id);
            // Nearly all are, and are known to be without being looked up in the packs.
            if self.reader.store().commit_node(&id)?.is_some() {
                return self.meet(id, met, queue);
            }
            match self.reader.header(&id)? {
                Some((Kind::Tag, _)) => {
                    if !self.seen.insert(id.as_slice()).1 {
                        return Ok(());
                    }
                    let object = self.reader.require(&id)?;
                    let tag = parse::tag(&object.data, self.reader.store().object_format());
                    id = tag.map_err(|why| malformed(&id, why))?.0;
                }
                Some((Kind::Commit, _)) => return self.meet(id, met, queue),
                Some((Kind::Tree, _)) => return self.tree(id),
                Some((Kind::Blob, _)) | None => return Ok(()),
            }
        }
    }

    fn meet(&mut self, id: ObjectId, met: &mut OidTable, queue: &mut BinaryHeap<(i64, u32)>) -> Result<()> {
        if let (number, true) = met.insert(id.as_slice()) {
            self.wanted.remove(&id);
            queue.push((node(self.reader, &id)?.time, number));
        }
        Ok(())
    }

    /// Returns whether trees or blobs are wanted, and the least generation of the wanted commits, where it is known of all.
    fn what_is_wanted(&self) -> Result<(bool, Option<u32>)> {
        let (mut contents, mut generations) = (false, vec![]);
        for id in &self.wanted {
            match self.reader.header(id)? {
                Some((Kind::Commit, _)) => generations.push(node(self.reader, id)?.generation),
                Some((Kind::Tree | Kind::Blob, _)) => contents = true,
                _ => {}
            }
        }
        // One that is not known comes first. Where no commit is wanted, none needs to be looked at.
        Ok((contents, generations.into_iter().min().unwrap_or(Some(u32::MAX))))
    }

    fn tree(&mut self, root: ObjectId) -> Result<()> {
        let width = self.reader.store().object_format().len_in_bytes();
        let mut left = vec![root];
        while let Some(id) = left.pop() {
            if !self.seen.insert(id.as_slice()).1 {
                continue;
            }
            self.wanted.remove(&id);
            if self.is_done() {
                break;
            }
            if !self.may_lead_there(&id)? {
                continue;
            }
            let object = self.reader.require(&id)?;
            let mut rest = &object.data[..];
            while let Some((entry, after)) = parse::tree_entry(rest, width).map_err(|why| malformed(&id, why))? {
                rest = after;
                let child = ObjectId::from_bytes_or_panic(entry.id);
                match entry.mode {
                    EntryMode::Tree => left.push(child),
                    EntryMode::Blob => drop(self.wanted.remove(&child)),
                    EntryMode::Submodule => {}
                }
            }
        }
        Ok(())
    }
}
