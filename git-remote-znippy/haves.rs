//! What the client has of what it asks for.
//!
//! A repository with ten thousand references has ten thousand tips, but a fetch of a few new commits meets one or two of
//! them. So the walk starts at the wanted end, and only where that leads too far are all tips looked at.

use std::collections::{BinaryHeap, HashSet};

use anyhow::Result;
use bstr::BString;
use gix_hash::ObjectId;
use znippy::{
    archive::Snapshot,
    pack::{Kind, PackStore, graph::read_commit, object::ObjectReader, parse},
};

use crate::{
    objects::{Objects, are_reached_by_references},
    reach::reaches_all,
};

/// So many commits are followed from the wanted end before the client is asked about them.
const BOUND: usize = 2048;

/// Returns what the client has, as far as the archive knows it too: enough to tell exactly what it lacks of `wants`. `tips` are
/// the client's references; in a `shallow` clone, what is below one of them is not always there.
///
/// # Errors
/// Fails where git or the archive cannot be read.
pub fn haves(
    snapshot: &Snapshot,
    reader: &ObjectReader<'_>,
    wants: &[ObjectId],
    tips: Vec<ObjectId>,
    shallow: bool,
) -> Result<Vec<ObjectId>> {
    let tips: HashSet<ObjectId> = tips.into_iter().collect();
    if tips.is_empty() {
        return Ok(Vec::new());
    }
    if !shallow && let Some(near) = near_haves(snapshot, reader, wants, &tips)? {
        return Ok(near);
    }
    let mut known = Vec::new();
    for tip in tips {
        if snapshot.lookup(&tip)?.is_some() {
            known.push(tip);
        }
    }
    // In an order of its own, so that the same request always gets the same pack.
    known.sort_unstable();
    Ok(known)
}

/// Looks from the wanted end. `None` where that leads too far.
fn near_haves(
    snapshot: &Snapshot,
    reader: &ObjectReader<'_>,
    wants: &[ObjectId],
    tips: &HashSet<ObjectId>,
) -> Result<Option<Vec<ObjectId>>> {
    let mut objects = Objects::default();
    // git gets ready while the walk goes on.
    objects.start()?;
    let Near { met, passed, open } = near(reader, wants, tips)?;
    // A commit on the way that the client has, though it is no tip, is below one that is not on the way: a branch that left
    // the middle of another. Or it is left over from something, and not complete.
    let names: Vec<BString> = passed.iter().chain(&open).map(|id| id.to_string().into()).collect();
    let has: HashSet<ObjectId> = objects.resolve(&names)?.into_iter().flatten().collect();
    let ends = open.iter().all(|id| has.contains(id));
    let complete = || -> Result<bool> {
        let near_tips = met
            .iter()
            .copied()
            .chain(snapshot.resolve_ref("HEAD".into())?.filter(|id| tips.contains(id)));
        Ok(has.is_empty()
            || reaches_all(reader, near_tips, has.iter().copied())?
            || are_reached_by_references(has.iter())?)
    };
    if !ends || !complete()? {
        return Ok(None);
    }
    let mut haves: Vec<ObjectId> = met.into_iter().chain(has).collect();
    haves.sort_unstable();
    Ok(Some(haves))
}

/// The part of the history between wants and tips.
struct Near {
    /// Tips on the way, behind which the walk did not go.
    met: Vec<ObjectId>,
    /// Commits before them.
    passed: Vec<ObjectId>,
    /// Commits where the walk was broken off.
    open: Vec<ObjectId>,
}

/// Walks from `wants` until every way has ended at one of `tips` or at a root, or for [`BOUND`] commits.
fn near(reader: &ObjectReader<'_>, wants: &[ObjectId], tips: &HashSet<ObjectId>) -> Result<Near> {
    let mut near = Near {
        met: Vec::new(),
        passed: Vec::new(),
        open: Vec::new(),
    };
    let mut seen: HashSet<ObjectId> = HashSet::new();
    // A child's date stands for that of its parents: it only orders the walk.
    let mut queue: BinaryHeap<(i64, ObjectId)> = BinaryHeap::new();
    for want in wants {
        if let Some(start) = start(reader, want, tips, &mut near.met)? {
            queue.push((i64::MAX, start));
        }
    }
    while let Some((_, id)) = queue.pop() {
        if !seen.insert(id) {
            continue;
        }
        if tips.contains(&id) {
            near.met.push(id);
            continue;
        }
        if near.passed.len() == BOUND {
            near.open.push(id);
            continue;
        }
        near.passed.push(id);
        let commit = read_commit(reader, &id)?;
        queue.extend(commit.parents.iter().map(|parent| (commit.time, *parent)));
    }
    Ok(near)
}

/// Returns the commit where the walk from `want` starts: behind tags; `None` where there is none.
fn start(
    reader: &ObjectReader<'_>,
    want: &ObjectId,
    tips: &HashSet<ObjectId>,
    met: &mut Vec<ObjectId>,
) -> Result<Option<ObjectId>> {
    let mut id = *want;
    loop {
        if tips.contains(&id) {
            met.push(id);
            return Ok(None);
        }
        match reader.header(&id)? {
            Some((Kind::Commit, _)) => return Ok(Some(id)),
            Some((Kind::Tag, _)) => {
                let tag = reader.require(&id)?;
                match parse::tag(&tag.data, reader.store().object_format()) {
                    Ok((target, _)) => id = target,
                    // The selection names the object and what is wrong with it.
                    Err(_) => return Ok(None),
                }
            }
            _ => return Ok(None),
        }
    }
}
