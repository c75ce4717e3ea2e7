//! Proving a pack before it is stored: every object bears its name, and everything it needs is there.
//!
//! git does not hash what it copies from its packs, and grafts or a shallow history make it leave objects out without a
//! word: a pack that was merely built is not yet one that can be cloned.

use std::sync::{Mutex, PoisonError};

use gix_hash::{ObjectId, oid};

use super::{
    Snapshot,
    commits::Commits,
    parents::{Known, Theirs, reached_by_parents},
};
use crate::{
    error::{Error, Result},
    format::{commit_rows::CommitRows, row::Proof},
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
    pub commits: CommitRows,
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
    let mut commits = Commits::of(&table);
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
