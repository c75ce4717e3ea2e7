//! Whether the client has told enough of what it has.

use std::collections::HashSet;

use gix_hash::ObjectId;

use super::View;
use crate::{
    error::Result,
    pack::{
        Kind,
        graph::{peel, read_commit},
    },
};

/// What the client has in common with the archive.
#[derive(Debug, Default)]
pub(super) struct Common {
    /// Objects that both have, in the order in which the client named them.
    pub haves: Vec<ObjectId>,
    /// The commits among them, and their parents: who has a commit has those.
    known: HashSet<ObjectId>,
    /// The date of the oldest of them.
    oldest: Option<i64>,
    /// All of `haves`, to take each once.
    named: HashSet<ObjectId>,
    /// Commits that were found to lead to a known one.
    leads: HashSet<ObjectId>,
    /// Commits that lead to none of those that are known now.
    tried: HashSet<ObjectId>,
    /// So many commits were read to find these.
    steps: u64,
}

/// So many commits are read in one conversation to find whether the client has told enough; then it tells all it has. Each commit that
/// becomes known asks for another look at what did not lead to one: a client that mixes what is here with what is not could ask for
/// that without end.
const MOST_STEPS: u64 = 2_000_000;

impl View<'_> {
    /// Notes that the client has `id`. Returns whether the archive has it too.
    pub(super) fn note_have(&self, common: &mut Common, id: ObjectId) -> Result<bool> {
        let Some((kind, _)) = self.reader.header(&id)? else {
            return Ok(false);
        };
        if !common.named.insert(id) {
            return Ok(true);
        }
        common.haves.push(id);
        if kind == Kind::Commit {
            let commit = read_commit(&self.reader, &id)?;
            common.known.insert(id);
            common.known.extend(commit.parents);
            common.oldest = Some(common.oldest.map_or(commit.time, |oldest| oldest.min(commit.time)));
            common.tried.clear();
        }
        Ok(true)
    }

    /// Returns whether every want leads to a commit that both have: then more haves would make the pack smaller at best.
    pub(super) fn is_enough(&self, common: &mut Common, wants: &[ObjectId]) -> Result<bool> {
        let Some(oldest) = common.oldest else {
            return Ok(false);
        };
        for want in wants {
            let (kind, target) = peel(&self.reader, want)?;
            let start = target.unwrap_or(*want);
            if kind != Kind::Commit && target.is_none()
                || !matches!(self.reader.header(&start)?, Some((Kind::Commit, _)))
            {
                continue;
            }
            if !self.leads_to_known(common, start, oldest)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Walks from `start` to a known commit, depth first, not to commits older than `oldest`.
    fn leads_to_known(&self, common: &mut Common, start: ObjectId, oldest: i64) -> Result<bool> {
        // Each commit on the way with its parents still to be tried.
        let mut way: Vec<(ObjectId, Vec<ObjectId>)> = Vec::new();
        let mut next = Some(start);
        loop {
            if let Some(id) = next.take() {
                if common.leads.contains(&id) || common.known.contains(&id) {
                    common.leads.extend(way.into_iter().map(|(id, _)| id));
                    return Ok(true);
                }
                // Met again on another way, it is being tried already: no use for now.
                if common.tried.insert(id) {
                    common.steps += 1;
                    if common.steps > MOST_STEPS {
                        return Ok(false);
                    }
                    let commit = read_commit(&self.reader, &id)?;
                    if commit.time >= oldest {
                        way.push((id, commit.parents));
                    }
                }
            }
            match way.last_mut() {
                None => return Ok(false),
                Some((_, parents)) => match parents.pop() {
                    Some(parent) => next = Some(parent),
                    None => drop(way.pop()),
                },
            }
        }
    }
}
