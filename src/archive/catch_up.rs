//! Catching up: proving packs that were stored without proof, and storing what is found.
//!
//! Each pack is read and hashed outside of the lock, and its index row appended under it: an interrupted run has lost one
//! pack's work, and pushes go on meanwhile. A row that was made twice by two runs says the same.

use std::{collections::HashSet, path::Path};

use super::{
    Snapshot, WritePolicy,
    commits::Commits,
    damage,
    file::{open_file, read_error},
    locking::take_maintenance_lock,
    prepare::{Addition, IndexAddition},
    writer::with_writer,
};
use crate::{
    error::{Error, Result},
    format::{
        batch::{Batch, PackSpan, ReadError},
        row::{Proof, Row, RowKind},
    },
    pack::{
        EntryTable, PackRank, PackStore,
        finder::Finder,
        resolve::{Damage, Dangling, ResolveOptions, Resolved, ResolvedCommit, resolve},
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
    /// Why nothing was found out about it, where that is so.
    pub why: Option<String>,
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
        .filter(|rank| proofs.get(*rank as usize).is_none_or(|proof| *proof == Proof::None))
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
    run(path, &|_, is_proven| again || !is_proven, policy, on_progress)
}

/// Looks at the packs of some transactions again, proven or not, and notes what of them is damaged, or is not any more.
///
/// # Errors
/// As [`catch_up`], and [`Error::Locked`] where another run is at work on the archive.
pub fn recheck(path: &Path, txns: &HashSet<u64>, policy: &mut WritePolicy<'_>) -> Result<CaughtUp> {
    let done = run(path, &|txn, _| txns.contains(&txn), policy, &mut |_, _| ())?;
    done.ok_or_else(|| Error::Locked {
        path: path.into(),
        holder: " (another gc or index run)".into(),
        waited_s: 0,
    })
}

/// Looks at the packs that `is_due` tells by their transactions and whether they are proven.
fn run(
    path: &Path,
    is_due: &dyn Fn(u64, bool) -> bool,
    policy: &mut WritePolicy<'_>,
    on_progress: &mut OnProgress<'_>,
) -> Result<Option<CaughtUp>> {
    let (file, _) = open_file(policy.disk, path, true)?;
    let Some(_only_one) = take_maintenance_lock(file.as_ref(), path, policy.lock)? else {
        return Ok(None);
    };
    let mut caught_up = CaughtUp::default();
    let snapshot = Snapshot::open_on(policy.disk, path)?;
    let mut known = Known::default();
    known.read(&snapshot)?;
    let mut todo = snapshot.pack_spans()?;
    todo.retain(|(_, span)| is_due(span.txn, known.proven.contains(&span.txn)));
    let total = todo.len() as u64;
    let finder = Finder::new(&snapshot);
    for (done, (rank, PackSpan { txn, id, .. })) in todo.into_iter().enumerate() {
        let table = match snapshot.read_entries(rank) {
            Ok(table) => table,
            Err(Error::Damaged { what, .. }) => {
                caught_up.unsound.push(Unsound {
                    pack: id,
                    damaged: vec![],
                    dangling: vec![],
                    why: Some(what),
                });
                continue;
            }
            Err(error) => return Err(error),
        };
        let is_there = |id: &gix_hash::oid, _| Ok(finder.find(id)?.is_some());
        let mut commits = Commits::of(&table);
        let mut on_commit = |commit: ResolvedCommit<'_>| commits.add(commit);
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
        let was_proven = known.proven.contains(&txn);
        if sound && was_proven && marked_entries(&snapshot, rank)?.is_empty() {
            continue;
        }
        let Resolved {
            kinds,
            sizes,
            damaged,
            dangling,
            ..
        } = resolved;
        let resolved = kinds.iter().filter(|kind| **kind != 0).count() as u64;
        // Packs build on each other, and the graph of the one before may have been stored just now.
        let graph = match done {
            0 => snapshot.clone(),
            _ => Snapshot::open_on(policy.disk, path)?,
        };
        let commits = commits.finish(Some(&graph))?;
        let objects = EntryTable { kinds, sizes, ..table };
        let index = IndexAddition {
            row: Row {
                proof: if sound { Proof::Closed } else { Proof::None },
                settings: damaged.iter().take(DAMAGE_TOLD).map(damage_setting).collect(),
                commits,
                covers: Some((txn, txn)),
                objects,
                ..Row::new(0, 0, RowKind::Index)
            },
            proven: sound && !was_proven,
            // What is noted about a pack that was proven before changes nothing of what was resolved.
            resolved: if was_proven { 0 } else { resolved },
        };
        let bad: HashSet<u64> = damaged.iter().map(|damage| damage.offset).collect();
        let noted = damaged.len().min(DAMAGE_TOLD);
        let generation = snapshot.generation();
        with_writer(path, Some(&snapshot), policy, |writer, policy| {
            // After a gc the row may be gone, and another run may have been faster: then there is nothing to say.
            let is_stale = writer.snapshot.generation() != generation || {
                known.read(&writer.snapshot)?;
                marked_entries(&writer.snapshot, rank)? == bad && !known.lacks(txn, sound, noted)
            };
            if is_stale {
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
                pack: id,
                damaged,
                dangling,
                why: None,
            });
        }
    }
    Ok(Some(caught_up))
}

/// Returns the offsets of the entries of a pack that are known to be damaged.
fn marked_entries(snapshot: &Snapshot, rank: PackRank) -> Result<HashSet<u64>> {
    let marked = snapshot.damaged_entries()?;
    let of_pack = marked
        .iter()
        .flat_map(|all| all.keys())
        .filter(|(pack, _)| *pack == rank);
    Ok(of_pack.map(|(_, offset)| *offset).collect())
}

/// What an archive says of its packs. Each batch is read once: under the lock, only what others appended meanwhile.
#[derive(Default)]
struct Known {
    /// Offsets of the batches that were read.
    batches: HashSet<u64>,
    /// Transactions whose packs are proven.
    proven: HashSet<u64>,
    /// Transactions whose packs were found unsound, each with the number of damaged objects that were noted.
    unsound: HashSet<(u64, usize)>,
}

impl Known {
    /// Reads what is not known yet. A damaged batch says nothing.
    fn read(&mut self, snapshot: &Snapshot) -> Result<()> {
        for block in &snapshot.state().footer.blocks {
            if !self.batches.insert(block.offset) {
                continue;
            }
            let medium = snapshot.medium();
            let read = Batch::load(medium, *block, snapshot.object_format())
                .and_then(|batch| Ok((batch.proofs(medium)?, batch.findings(medium)?)));
            let (proofs, findings) = match read {
                Ok(read) => read,
                Err(ReadError::Damaged(_)) => continue,
                Err(error) => return Err(read_error(snapshot.path(), error)),
            };
            let proven = proofs.into_iter().filter(|row| row.proof != Proof::None);
            self.proven.extend(proven.map(|row| row.of));
            self.unsound.extend(findings);
        }
        Ok(())
    }

    /// Returns whether a finding about the pack of transaction `txn` is news: a proof, or damage that was not noted with as many
    /// objects before.
    fn lacks(&self, txn: u64, sound: bool, noted: usize) -> bool {
        match sound {
            true => !self.proven.contains(&txn),
            false => !self.unsound.contains(&(txn, noted)),
        }
    }
}

fn damage_setting(damage: &Damage) -> (String, Vec<u8>) {
    (
        damage::KEY.into(),
        format!("{} {} {}", damage.oid, damage.offset, damage.why).into_bytes(),
    )
}
