//! Commits and tags as a graph: what a tag points at, and whether a commit is an ancestor of another.

use std::collections::{BinaryHeap, HashSet};

use gix_hash::{ObjectId, oid};

use super::{CommitNode, Kind, object::ObjectReader, oid_table::OidTable, parse};
use crate::error::{Error, Result};

/// Returns the kind of object `id` and, where it is a tag, what it finally points at.
///
/// # Errors
/// Fails where the object or one on the way is missing, or malformed, or where tags point at each other in a circle.
pub fn peel(reader: &ObjectReader<'_>, id: &oid) -> Result<(Kind, Option<ObjectId>)> {
    let (kind, _) = reader.header(id)?.ok_or_else(|| reader.missing(id, ""))?;
    if kind != Kind::Tag {
        return Ok((kind, None));
    }
    let mut passed = HashSet::new();
    let mut at = ObjectId::from(id);
    loop {
        if !passed.insert(at) {
            return Err(malformed(id, "its tags point at each other in a circle"));
        }
        let object = reader.require(&at)?;
        let (target, target_kind) =
            parse::tag(&object.data, reader.store().object_format()).map_err(|why| malformed(&at, why))?;
        let (found, _) = reader
            .header(&target)?
            .ok_or_else(|| reader.missing(&target, &format!(" (tag {at} names it)")))?;
        if found != target_kind {
            return Err(malformed(
                &at,
                &format!("it says that {target} is a {target_kind}, which is a {found}"),
            ));
        }
        at = target;
        if found != Kind::Tag {
            return Ok((kind, Some(at)));
        }
    }
}

/// Returns whether commit `old` is `new` or an ancestor of it, or `None` where that is not known after `bound` commits.
///
/// Commits are looked at newest first, so that a near ancestor is found after about as many commits as lie between. Dates only
/// order the walk: a wrong one makes it longer, never the answer wrong. Where the store knows the graph, no commit is read, and
/// what is not above `old` in it is not looked at; else a `false` needs the whole history of `new`.
///
/// # Errors
/// Fails where a commit on the way is missing or malformed, or where an argument is no commit.
pub fn is_ancestor(reader: &ObjectReader<'_>, old: &oid, new: &oid, bound: Option<usize>) -> Result<Option<bool>> {
    if old == new {
        return Ok(Some(true));
    }
    let mut met = OidTable::new(reader.store().object_format().len_in_bytes());
    let mut queue = BinaryHeap::new();
    met.insert(new.as_bytes());
    queue.push((i64::MAX, 0u32));
    let mut visited = 0;
    // Looked up when there is something to compare it with: most pushes end before.
    let mut old_generation = None;
    while let Some((_, number)) = queue.pop() {
        if bound.is_some_and(|bound| visited >= bound) {
            return Ok(None);
        }
        visited += 1;
        let id = met.id(number).to_owned();
        let node = node(reader, &id)?;
        if let Some(generation) = node.generation {
            let old_generation = match old_generation {
                Some(known) => known,
                None => *old_generation.insert(reader.store().commit_node(old)?.and_then(|node| node.generation)),
            };
            if old_generation.is_some_and(|old| generation <= old) {
                continue;
            }
        }
        for parent in &node.parents {
            if **parent == *old {
                return Ok(Some(true));
            }
            if let (number, true) = met.insert(parent.as_slice()) {
                // A child's date stands for its parent's, which is not read yet: near enough for an order.
                queue.push((node.time, number));
            }
        }
    }
    Ok(Some(false))
}

/// Returns a commit's place in the graph: as the store knows it, else as the commit says.
pub(super) fn node(reader: &ObjectReader<'_>, id: &oid) -> Result<CommitNode> {
    if let Some(node) = reader.store().commit_node(id)? {
        return Ok(node);
    }
    let CommitLinks { parents, time, .. } = read_commit(reader, id)?;
    Ok(CommitNode {
        parents,
        time,
        generation: None,
    })
}

/// A commit's links and date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitLinks {
    pub tree: ObjectId,
    pub parents: Vec<ObjectId>,
    /// The committer's time in seconds since 1970.
    pub time: i64,
}

/// Reads the commit `id`.
///
/// # Errors
/// Fails where it is missing, malformed, or another kind of object.
pub fn read_commit(reader: &ObjectReader<'_>, id: &oid) -> Result<CommitLinks> {
    let object = reader.require(id)?;
    if object.kind != Kind::Commit {
        return Err(malformed(
            id,
            &format!("it should be a commit but is a {}", object.kind),
        ));
    }
    let parsed = parse::commit(&object.data, reader.store().object_format()).map_err(|why| malformed(id, why))?;
    Ok(CommitLinks {
        tree: parsed.tree,
        parents: parsed.parents,
        time: parsed.time,
    })
}

/// Returns the error that object `id` is malformed.
pub(crate) fn malformed(id: &oid, why: &str) -> Error {
    Error::MalformedObject {
        oid: ObjectId::from(id),
        why: why.to_owned(),
    }
}
