//! Proving a pack before it is stored: every object bears its name, and everything it needs is there.
//!
//! git does not hash what it copies from its packs, and grafts or a shallow history make it leave objects out without a
//! word: a pack that was merely built is not yet one that can be cloned.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, PoisonError},
};

use gix_hash::{ObjectId, oid};

use super::{
    Snapshot,
    parents::{Known, Theirs, reached_by_parents},
};
use crate::{
    error::{Error, Result},
    format::columns::{CommitRow, Proof},
    pack::{
        PackRank, PackStore,
        finder::Finder,
        resolve::{Dangling, ResolveOptions, Resolved, ResolvedCommit, resolve},
    },
};

/// What a proof gives besides certainty: what is to be stored with the pack.
#[derive(Debug)]
pub struct Proven {
    pub proof: Proof,
    /// git's number of each object's kind, and each size in bytes, by the rows of the pack's table.
    pub kinds: Vec<u8>,
    pub sizes: Vec<u64>,
    /// The pack's commits, sorted by id.
    pub commits: Vec<CommitRow>,
    /// Objects of the archive that the proof found there: it holds as long as these do.
    pub relies_on: Vec<ObjectId>,
}

/// Reads and hashes every object of `pack`, and checks that whatever it refers to is in it or in `archive`.
///
/// `tips` are new values of references. Where everything in the archive is proven, so is then everything that the tips reach;
/// else the proof is of names only. Changed directories are compared with those of the parents, whose other entries are
/// known to be there, so that a small push costs no read of the archive, however large its directories are: `theirs` gives the
/// parents as the repository that pushes has them.
///
/// # Errors
/// Fails where an object is not what its name says, or where one is missing: the pack must not be stored.
pub fn prove(
    archive: Option<&Snapshot>,
    store: &dyn PackStore,
    pack: PackRank,
    tips: &[ObjectId],
    theirs: Option<&mut Theirs<'_>>,
    mut progress: Option<&mut dyn FnMut(u64, u64)>,
) -> Result<Proven> {
    let table = store.entries(pack)?;
    let closed = archive.is_none_or(Snapshot::is_closed);
    let known = Mutex::new((None, theirs));
    let looked_up = Mutex::new(vec![]);
    let finder = archive.map(|archive| Finder::new(archive));
    let is_there = |id: &oid, _| -> Result<bool> {
        let Some(archive) = archive else { return Ok(false) };
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if closed {
            let (known, theirs) = &mut *known;
            // Only a pack that refers to something outside of it asks.
            let known = known.get_or_insert_with(|| {
                reached_by_parents(archive, store, tips, theirs.as_deref_mut()).unwrap_or_default()
            });
            if known.objects.contains(id) {
                return Ok(true);
            }
        }
        drop(known);
        match &finder {
            Some(finder) => {
                let found = finder.find(id)?.is_some();
                if found {
                    looked_up
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(id.to_owned());
                }
                Ok(found)
            }
            None => Ok(false),
        }
    };
    let mut commits = Commits::default();
    let mut on_commit = |commit: ResolvedCommit<'_>| commits.add(commit);
    let mut on_progress = |done, total| {
        if let Some(progress) = &mut progress {
            progress(done, total);
        }
    };
    let options = ResolveOptions {
        is_there: Some(&is_there),
        on_commit: Some(&mut on_commit),
        progress: Some(&mut on_progress),
        ..ResolveOptions::default()
    };
    let resolved = resolve(store, pack, &table, options)?;
    refuse_unsound(&store.pack_name(pack), &resolved)?;
    let commits = commits.finish(archive)?;
    let Resolved { kinds, sizes, .. } = resolved;
    let mut relies_on = looked_up.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (known, _) = known.into_inner().unwrap_or_else(PoisonError::into_inner);
    relies_on.extend(known.into_iter().flat_map(|known: Known| known.parents));
    relies_on.sort_unstable();
    relies_on.dedup();
    Ok(Proven {
        proof: if closed { Proof::Closed } else { Proof::Names },
        kinds,
        sizes,
        commits,
        relies_on,
    })
}

/// Collects the commits of a pack for the graph.
#[derive(Default)]
pub struct Commits(Vec<CommitRow>);

impl Commits {
    pub fn add(&mut self, commit: ResolvedCommit<'_>) {
        self.0.push(CommitRow {
            oid: commit.id.to_owned(),
            tree: commit.links.tree,
            parents: commit.links.parents,
            author: Some(author_name(commit.links.author).into()).filter(|name: &bstr::BString| !name.is_empty()),
            committed_at: commit.links.time,
            generation: 0,
        });
    }

    /// Adds a commit that was parsed before.
    pub fn add_row(&mut self, commit: CommitRow) {
        self.0.push(commit);
    }

    /// Returns the commits sorted by id, without generations.
    pub fn sorted(self) -> Vec<CommitRow> {
        let Commits(mut commits) = self;
        commits.sort_unstable_by_key(|commit| commit.oid);
        commits
    }

    /// Returns the commits sorted by id, with their generations. Parents outside of the pack are looked up in `archive`.
    pub fn finish(self, archive: Option<&Snapshot>) -> Result<Vec<CommitRow>> {
        let mut commits = self.sorted();
        number(&mut commits, archive)?;
        Ok(commits)
    }
}

fn refuse_unsound(name: &str, resolved: &Resolved) -> Result<()> {
    let invalid = |why: String| Err(Error::InvalidPack { name: name.into(), why });
    if let Some(damage) = resolved.damaged.first() {
        let more = match resolved.damaged.len() {
            1 => String::new(),
            count => format!(", and {} more", count - 1),
        };
        return invalid(format!(
            "object {} is damaged: {}{more} (`git fsck` tells more)",
            damage.oid, damage.why
        ));
    }
    match resolved.dangling.first() {
        None => Ok(()),
        Some(&Dangling { from, to, kind }) => match from {
            Some(from) => Err(Error::Incomplete {
                name: name.into(),
                kind,
                oid: to,
                from,
            }),
            None => invalid(format!(
                "object {to} is not a {kind}, as an object that refers to it says (`git fsck` tells more)"
            )),
        },
    }
}

/// Returns `name <address>` of an author line.
fn author_name(line: &[u8]) -> &[u8] {
    line.iter().rposition(|b| *b == b'>').map_or(line, |end| &line[..=end])
}

/// Gives each commit its generation: 1 more than the greatest of its parents'. A parent's that is not known makes it 0, which
/// means "not known" in turn.
fn number(commits: &mut [CommitRow], archive: Option<&Snapshot>) -> Result<()> {
    // The rows of all parents, one after the other: each is sought once, however often a commit is come back to.
    let (mut rows, mut ends) = (Vec::with_capacity(commits.len()), Vec::with_capacity(commits.len()));
    let mut outside = HashMap::new();
    for commit in &*commits {
        for parent in &commit.parents {
            let found = commits.binary_search_by_key(parent, |commit| commit.oid).ok();
            if let (None, Entry::Vacant(vacant)) = (found, outside.entry(*parent)) {
                let known = archive.map(|archive| archive.commit_generation(parent)).transpose()?;
                vacant.insert(known.flatten());
            }
            rows.push(found);
        }
        ends.push(rows.len());
    }
    let parents_of = |at: usize| at.checked_sub(1).map_or(0, |before| ends[before])..ends[at];
    let mut done = vec![false; commits.len()];
    let mut stack = Vec::new();
    for start in 0..commits.len() {
        stack.push(start);
        while let Some(&at) = stack.last() {
            let parents = &rows[parents_of(at)];
            let waiting = stack.len();
            if !done[at] {
                stack.extend(parents.iter().flatten().copied().filter(|row| !done[*row]));
            }
            if stack.len() > waiting {
                continue;
            }
            let mut greatest = Some(0);
            for (id, row) in commits[at].parents.iter().zip(parents) {
                let generation = match row {
                    Some(row) => Some(commits[*row].generation).filter(|generation| *generation > 0),
                    None => outside[id],
                };
                greatest = greatest.zip(generation).map(|(a, b)| a.max(b));
            }
            commits[at].generation = greatest.map_or(0, |greatest| greatest.saturating_add(1));
            done[at] = true;
            stack.pop();
        }
    }
    Ok(())
}
