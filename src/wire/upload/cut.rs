//! Shallow histories: what the client is told of its boundary, and what follows for the pack.

use std::collections::HashSet;

use gix_hash::ObjectId;

use super::{
    View,
    request::{INFINITE, Request},
};
use crate::{
    pack::{
        Kind,
        graph::read_commit,
        shallow::{self, Cut},
    },
    wire::{WireError, WireResult},
};

/// What a cut history means for a fetch.
#[derive(Debug, Default)]
pub(super) struct Boundary {
    /// Commits that become shallow.
    pub shallow: Vec<ObjectId>,
    /// Commits that were shallow and get their parents.
    pub unshallow: Vec<ObjectId>,
    /// Commits whose parents the pack ignores.
    pub parentless: HashSet<ObjectId>,
    /// What is wanted in addition: the parents of what is no longer shallow.
    pub wants: Vec<ObjectId>,
}

impl View<'_> {
    /// Finds the boundary that a request asks for.
    pub(super) fn boundary(&self, request: &Request) -> WireResult<Boundary> {
        let mut stored = Vec::with_capacity(request.shallow.len());
        for id in &request.shallow {
            match self.reader.header(id)? {
                Some((Kind::Commit, _)) => stored.push(*id),
                Some(_) => return Err(WireError::refused(format!("invalid shallow object {id}"))),
                // The client's other remotes may have it.
                None => {}
            }
        }
        let mut boundary = Boundary {
            parentless: stored.iter().copied().collect(),
            ..Boundary::default()
        };
        if !request.deepens() {
            return Ok(boundary);
        }
        let cut = self.cut(request, &stored)?;
        for id in cut.boundary {
            if !boundary.parentless.contains(&id) {
                boundary.shallow.push(id);
            }
        }
        for id in stored {
            if cut.inside.contains(&id) {
                boundary.wants.extend(read_commit(&self.reader, &id)?.parents);
                boundary.unshallow.push(id);
            }
        }
        boundary.parentless.extend(&boundary.shallow);
        Ok(boundary)
    }

    fn cut(&self, request: &Request, stored: &[ObjectId]) -> WireResult<Cut> {
        let by_rule = request.since.is_some() || !request.not.is_empty();
        let Some(depth) = request.depth else {
            let mut not = Vec::new();
            for name in &request.not {
                match self.expand(name.as_ref())?.as_slice() {
                    [oid] => not.push(*oid),
                    _ => {
                        let text = format!("git upload-pack: ambiguous deepen-not: {name}");
                        return Err(WireError::refused(text));
                    }
                }
            }
            let cut = shallow::by_rule(&self.reader, &request.wants, stored, request.since, &not)?;
            return match cut.boundary.is_empty() && cut.inside.is_empty() {
                true => Err(WireError::refused("no commits selected for shallow requests")),
                false => Ok(cut),
            };
        };
        if by_rule {
            return Err(WireError::refused(
                "git upload-pack: deepen and deepen-since (or deepen-not) cannot be used together",
            ));
        }
        if depth == INFINITE {
            return Ok(Cut {
                boundary: Vec::new(),
                inside: self.reachable_of(stored)?.into_iter().collect(),
            });
        }
        if request.relative {
            let heads = self.reachable_of(stored)?;
            return Ok(shallow::by_depth(&self.reader, &heads, depth.saturating_add(1))?);
        }
        Ok(shallow::by_depth(&self.reader, &request.wants, depth)?)
    }

    /// Returns which of `commits` a client may have: what lies below them comes with them.
    fn reachable_of(&self, commits: &[ObjectId]) -> WireResult<Vec<ObjectId>> {
        if self.everything_is_allowed() {
            return Ok(commits.to_vec());
        }
        let allowed = self.allowed_of(commits)?;
        let pairs = commits.iter().zip(allowed);
        Ok(pairs.filter(|(_, allowed)| *allowed).map(|(id, _)| *id).collect())
    }
}
