//! Trees and blobs by their paths: for filters by which one object counts at one path and not at another.

use std::collections::HashMap;

use bstr::BStr;
use gix_hash::{ObjectId, oid};

use super::trees::{HIDDEN, TAKEN, Trees, id_of, path_below};
use crate::{
    error::Result,
    pack::{
        Kind, Location,
        graph::malformed,
        object::Object,
        parse::{EntryMode, tree_entry},
    },
};

/// A tree to be walked.
struct Visit {
    number: u32,
    at: Location,
    /// How many steps from a root tree what it contains is.
    depth: u64,
    /// Whether each list of patterns wants what it contains, where it says nothing else.
    wanted: Vec<bool>,
    path: Vec<u8>,
}

/// The least depth at which each tree's content was looked at, by the tree's number and, where patterns count, its path.
type Seen = HashMap<(u32, u64), u64>;

impl Trees<'_, '_> {
    /// Selects what the filter wants of the trees that are wanted by `name`, which are selected themselves already, and of the
    /// `roots` of commits.
    pub(super) fn take_by_path(&mut self, named: &[(ObjectId, Kind)], roots: &[(ObjectId, ObjectId)]) -> Result<()> {
        let mut seen = Seen::new();
        for (id, _) in named.iter().filter(|(_, kind)| *kind == Kind::Tree) {
            let number = self.number(id.as_bytes());
            if self.flags[number as usize] != HIDDEN {
                let at = self.locate(id, &String::new)?;
                let top = self.top(number, at, 0);
                self.walk_paths(top, &mut seen)?;
            }
        }
        for (id, commit) in roots {
            let number = self.number(id.as_bytes());
            if self.flags[number as usize] == HIDDEN {
                continue;
            }
            let at = self.locate(id, &|| format!(" (the tree of commit {commit})"))?;
            self.take_once(number, id, Kind::Tree, 0, at);
            let top = self.top(number, at, 1);
            self.walk_paths(top, &mut seen)?;
        }
        Ok(())
    }

    fn top(&self, number: u32, at: Location, depth: u64) -> Visit {
        Visit {
            number,
            at,
            depth,
            wanted: vec![false; self.filter.sparse().len()],
            path: Vec::new(),
        }
    }

    fn walk_paths(&mut self, top: Visit, seen: &mut Seen) -> Result<()> {
        let mut stack = vec![top];
        while let Some(visit) = stack.pop() {
            if visit.depth >= self.filter.depth() || !self.is_news(&visit, seen) {
                continue;
            }
            let id = self.ids.id(visit.number).to_owned();
            let Object { kind, data } = self.reader.read_at(visit.at)?;
            if kind != Kind::Tree {
                return Err(malformed(&id, &format!("it should be a tree but is a {kind}")));
            }
            let mut rest = &data[..];
            while let Some((entry, after)) = tree_entry(rest, id.as_slice().len()).map_err(|why| malformed(&id, why))? {
                rest = after;
                let kind = match entry.mode {
                    EntryMode::Tree => Kind::Tree,
                    EntryMode::Blob => Kind::Blob,
                    EntryMode::Submodule => continue,
                };
                self.entry_at_path(&id, &visit, entry.name, id_of(entry.id), kind, &mut stack)?;
            }
        }
        Ok(())
    }

    /// Returns whether the content of a tree was not looked at before at this depth or a lower one.
    fn is_news(&self, visit: &Visit, seen: &mut Seen) -> bool {
        let path = match self.filter.sparse() {
            [] => 0,
            _ => path_below(0, &visit.path),
        };
        let least = seen.entry((visit.number, path)).or_insert(u64::MAX);
        // Only with a bound on it does depth matter at all.
        let depth = visit.depth.min(self.filter.depth() - 1);
        let news = depth < *least && (*least == u64::MAX || self.filter.depth() != u64::MAX);
        *least = depth.min(*least);
        news
    }

    fn entry_at_path(
        &mut self,
        tree: &oid,
        parent: &Visit,
        name: &[u8],
        id: &oid,
        kind: Kind,
        stack: &mut Vec<Visit>,
    ) -> Result<()> {
        let number = self.number(id.as_bytes());
        let flags = self.flags[number as usize];
        if flags == HIDDEN || kind == Kind::Blob && flags == TAKEN {
            return Ok(());
        }
        let mut path = Vec::new();
        let mut wanted = Vec::new();
        if !self.filter.sparse().is_empty() {
            path.extend_from_slice(&parent.path);
            if !path.is_empty() {
                path.push(b'/');
            }
            let name_at = path.len();
            path.extend_from_slice(name);
            let sparse = self.filter.sparse().iter().zip(&parent.wanted);
            wanted.extend(sparse.map(|(sparse, inherited)| {
                sparse
                    .wants(BStr::new(&path), name_at, kind == Kind::Tree)
                    .unwrap_or(*inherited)
            }));
        }
        if kind == Kind::Blob && !wanted.iter().all(|wanted| *wanted) {
            return Ok(());
        }
        let at = self.locate(id, &|| format!(" (tree {tree} names it)"))?;
        if kind == Kind::Tree {
            self.take_once(number, id, kind, 0, at);
            let depth = parent.depth + 1;
            stack.push(Visit {
                number,
                at,
                depth,
                wanted,
                path,
            });
        } else if self.filter.allows(Kind::Blob) && !self.is_too_large(at)? {
            self.take_once(number, id, kind, 0, at);
        }
        Ok(())
    }

    fn take_once(&mut self, number: u32, id: &oid, kind: Kind, path: u32, at: Location) {
        if self.flags[number as usize] == 0 {
            self.flags[number as usize] = TAKEN;
            self.select(id, kind, path, at);
        }
    }
}
