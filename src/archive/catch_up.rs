//! Catching up: proving packs that were stored without proof, and storing what is found.
//!
//! Each pack is read and hashed outside of the lock, and its index row appended under it: an interrupted run has lost one
//! pack's work, and pushes go on meanwhile. A row that was made twice by two runs says the same.

use std::{io, path::Path, time::Duration};

use super::{
    Snapshot, WritePolicy,
    open::open_file,
    prepare::{Addition, IndexAddition},
    prove::Commits,
    writer::with_writer,
};
use crate::{
    error::{Error, Result},
    format::columns::{Proof, Row, RowKind},
    media::{LockByte, lock_with_timeout},
    pack::{
        PackRank, PackStore,
        finder::Finder,
        resolve::{Damage, Dangling, ResolveOptions, Resolved, resolve},
    },
};

/// How many damaged objects a row names; the rest is counted.
const DAMAGE_TOLD: usize = 1000;

/// What a run found.
#[derive(Debug, Default)]
pub struct CaughtUp {
    /// Packs that are proven now and were not before.
    pub proven: u64,
    /// Packs that have no proof because something is wrong with them.
    pub unsound: Vec<Unsound>,
}

/// A pack that cannot be proven.
#[derive(Debug)]
pub struct Unsound {
    pub pack: gix_hash::ObjectId,
    pub damaged: Vec<Damage>,
    pub dangling: Vec<Dangling>,
}

/// Called with the packs done and of all, and the objects done and of all in the current one.
pub type OnProgress<'a> = dyn FnMut((u64, u64), (u64, u64)) + 'a;

/// Returns the packs of a snapshot that are not proven.
pub fn unproven(snapshot: &Snapshot) -> Result<Vec<PackRank>> {
    if snapshot.is_closed() {
        return Ok(vec![]);
    }
    let proofs = snapshot.proofs()?;
    Ok((0..snapshot.packs())
        .filter(|rank| proofs[*rank as usize] == Proof::None)
        .collect())
}

/// Proves every pack that is not proven yet; with `again`, every pack. `None` where another run is at work on the archive.
///
/// # Errors
/// Fails where the archive cannot be read or appended to. Damage is no error: it is in the result, and is noted in the archive.
pub fn catch_up(
    path: &Path,
    again: bool,
    policy: &mut WritePolicy<'_>,
    on_progress: &mut OnProgress<'_>,
) -> Result<Option<CaughtUp>> {
    let (file, _) = open_file(policy.disk, path, true)?;
    let _only_one = match lock_with_timeout(file.as_ref(), LockByte::Maintenance, Duration::ZERO, |_, _| {}) {
        Ok(guard) => guard,
        Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(None),
        Err(source) => {
            return Err(Error::CannotLock {
                path: path.into(),
                source,
            });
        }
    };
    let mut caught_up = CaughtUp::default();
    let snapshot = Snapshot::open_on(policy.disk, path)?;
    let todo = if again {
        (0..snapshot.packs()).collect()
    } else {
        unproven(&snapshot)?
    };
    let proofs = snapshot.proofs()?;
    let total = todo.len() as u64;
    let finder = Finder::new(&snapshot);
    for (done, rank) in todo.into_iter().enumerate() {
        let table = snapshot.entries(rank)?;
        let is_there = |id: &gix_hash::oid, _| Ok(finder.find(id)?.is_some());
        let mut commits = Commits::default();
        let mut on_commit = |commit: crate::pack::resolve::ResolvedCommit<'_>| commits.add(commit);
        let mut on_objects = |objects, of| on_progress((done as u64, total), (objects, of));
        let options = ResolveOptions {
            is_there: Some(&is_there),
            on_commit: Some(&mut on_commit),
            progress: Some(&mut on_objects),
            check_pack_id: true,
            ..ResolveOptions::default()
        };
        let resolved = resolve(&snapshot, rank, &table, options)?;
        let sound = resolved.is_sound();
        let was_proven = proofs[rank as usize] != Proof::None;
        if sound && was_proven {
            continue;
        }
        let Resolved {
            kinds,
            sizes,
            damaged,
            dangling,
            ..
        } = resolved;
        let txn = snapshot.pack_txn(rank)?;
        let resolved = kinds.iter().filter(|kind| **kind != 0).count() as u64;
        // Packs build on each other, and the graph of the one before may have been stored just now.
        let graph = match done {
            0 => snapshot.clone(),
            _ => Snapshot::open(path)?,
        };
        let mut objects = table.as_ref().clone();
        (objects.kinds, objects.sizes) = (kinds, sizes);
        let index = IndexAddition {
            row: Row {
                proof: if sound { Proof::Closed } else { Proof::None },
                settings: damaged.iter().take(DAMAGE_TOLD).map(damage_setting).collect(),
                commits: commits.finish(Some(&graph))?,
                covers: Some((txn, txn)),
                objects,
                ..Row::new(0, 0, RowKind::Index)
            },
            proven: sound && !was_proven,
            // What is noted about a pack that was proven before changes nothing of what was resolved.
            resolved: if was_proven { 0 } else { resolved },
            damaged: damaged.len() as u64,
        };
        let noted = damaged.len().min(DAMAGE_TOLD);
        let generation = snapshot.generation();
        with_writer(path, Some(&snapshot), policy, |writer, policy| {
            // After a gc the row may be gone, and another run may have been faster: then there is nothing to say.
            let stale = writer.snapshot.generation() != generation || !is_news(&writer.snapshot, txn, sound, noted)?;
            if stale {
                Ok(vec![])
            } else {
                writer.append(
                    Addition {
                        index: Some(index),
                        ..Addition::default()
                    },
                    policy,
                )
            }
        })?;
        if sound {
            caught_up.proven += 1;
        } else {
            caught_up.unsound.push(Unsound {
                pack: snapshot.pack_id(rank),
                damaged,
                dangling,
            });
        }
    }
    Ok(Some(caught_up))
}

/// Returns whether a finding about the pack of transaction `txn` is news to the archive: a proof that it lacks, or damage that
/// was not noted with as many objects before.
fn is_news(snapshot: &Snapshot, txn: u64, sound: bool, noted: usize) -> Result<bool> {
    if !sound {
        return Ok(!snapshot.findings()?.contains(&(txn, noted)));
    }
    let proofs = snapshot.proofs()?;
    for rank in 0..snapshot.packs() {
        if snapshot.pack_txn(rank)? == txn {
            return Ok(proofs[rank as usize] == Proof::None);
        }
    }
    Ok(false)
}

fn damage_setting(damage: &Damage) -> (String, Vec<u8>) {
    (
        "damaged".into(),
        format!("{} {} {}", damage.oid, damage.offset, damage.why).into_bytes(),
    )
}
