//! What a closed archive is known to have without a look-up: everything that the parents of new commits refer to.
//!
//! A new commit shares nearly all of its files with its parent. Where the parent is in an archive that is closed, so is every
//! entry of every directory of the parent, and it does not matter who tells what these are: an object that hashes to its id is
//! that object. So they are read from the repository that pushes, which is near, and not from the archive, which may be far.

use std::collections::{HashMap, HashSet};

use gix_hash::{ObjectId, oid};

use super::Snapshot;
use crate::{
    error::Result,
    pack::{
        Kind, PackStore,
        object::{Object, ObjectReader, check_id},
        parse::{self, EntryMode},
    },
};

/// How many pairs of trees are compared before the rest is looked up object by object.
const MAX_TREE_PAIRS: usize = 2000;
/// How many commits are looked at to find where the new history leaves the old.
const MAX_COMMITS: usize = 1000;

/// Reads an object from the repository that pushes; `None` where it cannot. The answer is hashed before it is believed.
pub type Theirs<'a> = dyn FnMut(&oid) -> Option<Object> + Send + 'a;

/// What an archive is known to have.
#[derive(Default)]
pub struct Known {
    pub objects: HashSet<ObjectId>,
    /// The commits that this follows from.
    pub parents: Vec<ObjectId>,
}

/// Returns objects that are in `archive`, which is closed, because a commit or tree there refers to them: the entries of the
/// directories that the new commits changed, as they were in the parents. Fewer than there are where that would take long.
///
/// `store` has the new objects, and `tips` are where they start.
///
/// # Errors
/// Fails where an object cannot be read or is malformed.
pub fn reached_by_parents(
    archive: &Snapshot,
    store: &dyn PackStore,
    tips: &[ObjectId],
    theirs: Option<&mut Theirs<'_>>,
) -> Result<Known> {
    let format = store.object_format();
    let mut objects = Objects {
        new: ObjectReader::new(store),
        old: ObjectReader::new(archive),
        theirs,
    };
    let (mut known, mut live_parents) = (HashSet::new(), vec![]);
    let mut pairs = vec![];
    let (mut seen, mut queue) = (HashSet::new(), tips.to_vec());
    while let Some(id) = queue.pop().filter(|_| seen.len() < MAX_COMMITS) {
        if !seen.insert(id) {
            continue;
        }
        let Some((tree, parents)) = objects.in_pack(&id)?.and_then(|object| commit(&object, format)) else {
            continue;
        };
        for parent in parents {
            queue.push(parent);
            let old_tree = match objects.in_pack(&parent)? {
                Some(object) => commit(&object, format).map(|(tree, _)| tree),
                None if archive.shows(&parent)? || archive.lookup(&parent)?.is_some() => {
                    let old_tree = objects.in_archive(&parent)?.and_then(|object| commit(&object, format));
                    known.insert(parent);
                    live_parents.push(parent);
                    old_tree.map(|(tree, _)| {
                        known.insert(tree);
                        tree
                    })
                }
                // The proof finds that it is missing.
                None => None,
            };
            pairs.extend(old_tree.map(|old_tree| (tree, old_tree)));
        }
    }
    let mut compared = HashSet::new();
    while let Some((new, old)) = pairs.pop().filter(|_| compared.len() < MAX_TREE_PAIRS) {
        if new == old || !compared.insert((new, old)) {
            continue;
        }
        let Some(new_tree) = objects.in_pack(&new)? else {
            continue;
        };
        let (old_tree, is_known) = match objects.in_pack(&old)? {
            Some(tree) => (Some(tree), false),
            None => {
                let is_known = known.contains(&old) || archive.lookup(&old)?.is_some();
                (if is_known { objects.in_archive(&old)? } else { None }, is_known)
            }
        };
        let Some(old_tree) = old_tree else { continue };
        let mut subtrees = HashMap::new();
        for_each_entry(&old_tree.data, format, |entry| {
            if is_known && entry.mode != EntryMode::Submodule {
                known.insert(ObjectId::from_bytes_or_panic(entry.id));
            }
            if entry.mode == EntryMode::Tree {
                subtrees.insert(entry.name.to_vec(), ObjectId::from_bytes_or_panic(entry.id));
            }
        });
        for_each_entry(&new_tree.data, format, |entry| {
            if let Some(old) = subtrees.get(entry.name).filter(|_| entry.mode == EntryMode::Tree) {
                pairs.push((ObjectId::from_bytes_or_panic(entry.id), *old));
            }
        });
    }
    Ok(Known {
        objects: known,
        parents: live_parents,
    })
}

/// Where objects are read: new ones from the pack, old ones from whoever pushes, else from the archive.
struct Objects<'a, 't> {
    new: ObjectReader<'a>,
    old: ObjectReader<'a>,
    theirs: Option<&'a mut Theirs<'t>>,
}

impl Objects<'_, '_> {
    fn in_pack(&self, id: &oid) -> Result<Option<Object>> {
        self.new.read(id)
    }

    fn in_archive(&mut self, id: &oid) -> Result<Option<Object>> {
        let theirs = self.theirs.as_mut().and_then(|read| read(id));
        match theirs.filter(|object| check_id(self.old.store(), id, object).is_ok()) {
            Some(object) => Ok(Some(object)),
            None => self.old.read(id),
        }
    }
}

/// Returns tree and parents of a commit; `None` of anything else.
fn commit(object: &Object, format: gix_hash::Kind) -> Option<(ObjectId, Vec<ObjectId>)> {
    let links = (object.kind == Kind::Commit).then(|| parse::commit(&object.data, format).ok())??;
    Some((links.tree, links.parents))
}

/// Calls `on_entry` for each entry of a tree, up to the first malformed one.
fn for_each_entry(mut tree: &[u8], format: gix_hash::Kind, mut on_entry: impl FnMut(parse::TreeEntry<'_>)) {
    while let Ok(Some((entry, rest))) = parse::tree_entry(tree, format.len_in_bytes()) {
        on_entry(entry);
        tree = rest;
    }
}
