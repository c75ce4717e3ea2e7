//! Where to cut a history: the boundary of a shallow clone.
//!
//! A commit *at the boundary* is sent, its parents are not. What lies *inside* is sent with its parents.

use std::collections::{HashMap, HashSet, VecDeque};

use gix_hash::ObjectId;

use super::{
    graph::{peel, read_commit},
    object::ObjectReader,
    select::commits_between,
};
use crate::error::Result;

/// A history that was cut.
#[derive(Debug, Default)]
pub struct Cut {
    /// Commits whose parents are not sent, in the order in which they were met.
    pub boundary: Vec<ObjectId>,
    /// Commits that are sent with their parents.
    pub inside: HashSet<ObjectId>,
}

/// Cuts the history of `heads` so that it is `depth` commits deep; each head counts as the first. Heads that are no commits are
/// passed over.
///
/// # Errors
/// Fails where a commit is missing or malformed.
pub fn by_depth(reader: &ObjectReader<'_>, heads: &[ObjectId], depth: u64) -> Result<Cut> {
    let mut cut = Cut::default();
    let mut met = HashSet::new();
    let mut queue: VecDeque<(ObjectId, u64)> = VecDeque::new();
    for head in commits_of(reader, heads)? {
        if met.insert(head) {
            queue.push_back((head, 1));
        }
    }
    // First come those that are near, so each commit is met at its least depth.
    while let Some((id, at)) = queue.pop_front() {
        if at >= depth {
            cut.boundary.push(id);
            continue;
        }
        for parent in read_commit(reader, &id)?.parents {
            if met.insert(parent) {
                queue.push_back((parent, at + 1));
            }
        }
        cut.inside.insert(id);
    }
    Ok(cut)
}

/// Cuts the history of `heads` so that no commit is older than `since` (in seconds since 1970) and none is reached by `not`.
///
/// `ends` are commits that the client has without their parents. One of them that the rule keeps gets its parents even where
/// it is behind the boundary: the client comes to it on other ways.
///
/// # Errors
/// Fails where a commit is missing or malformed. A cut that leaves nothing is no error here.
pub fn by_rule(
    reader: &ObjectReader<'_>,
    heads: &[ObjectId],
    ends: &[ObjectId],
    since: Option<i64>,
    not: &[ObjectId],
) -> Result<Cut> {
    let heads = commits_of(reader, heads)?;
    let allowed: Option<HashSet<ObjectId>> = match not {
        [] => None,
        _ => Some(
            commits_between(reader, &heads, &commits_of(reader, not)?)?
                .into_iter()
                .collect(),
        ),
    };
    let mut met = HashSet::new();
    let mut kept: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
    let mut stack = heads.clone();
    while let Some(id) = stack.pop() {
        if !met.insert(id) || allowed.as_ref().is_some_and(|allowed| !allowed.contains(&id)) {
            continue;
        }
        let commit = read_commit(reader, &id)?;
        if since.is_some_and(|since| commit.time < since) {
            continue;
        }
        stack.extend_from_slice(&commit.parents);
        kept.insert(id, commit.parents);
    }
    // A merge with one parent that is not kept is cut off from all of them, and what only it leads to is not sent. git names
    // the boundary there too, and its clients then know commits as shallow that they do not have.
    let mut cut = Cut::default();
    let starts = heads.iter().chain(ends).copied();
    stack.extend(starts.filter(|start| kept.contains_key(start)));
    met.clear();
    while let Some(id) = stack.pop() {
        if !met.insert(id) {
            continue;
        }
        let parents = &kept[&id];
        if parents.iter().all(|parent| kept.contains_key(parent)) {
            stack.extend_from_slice(parents);
            cut.inside.insert(id);
        } else {
            cut.boundary.push(id);
        }
    }
    Ok(cut)
}

/// Returns the commits that `tips` are or, through tags, point at.
fn commits_of(reader: &ObjectReader<'_>, tips: &[ObjectId]) -> Result<Vec<ObjectId>> {
    let mut commits = Vec::with_capacity(tips.len());
    for tip in tips {
        let (kind, peeled) = peel(reader, tip)?;
        let id = peeled.unwrap_or(*tip);
        let kind = match peeled {
            Some(_) => reader.header(&id)?.map(|(kind, _)| kind),
            None => Some(kind),
        };
        if kind == Some(super::Kind::Commit) {
            commits.push(id);
        }
    }
    Ok(commits)
}
