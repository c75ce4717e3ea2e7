//! Repairing an archive: good copies of what is damaged or missing are stored, and the damaged ones marked.
//!
//! Everything that is done is an ordinary commit, so that a crash leaves the archive before or after it, and a run that was
//! interrupted can be made again:
//!
//! 0. Where the newest footer cannot be read, the state that it described is made again from the rows of its commit, or the one
//!    before it is continued.
//! 1. Objects of which no good copy is left are asked for. What comes is hashed, what it refers to and is missing too is asked
//!    for in turn, and all of it becomes one pack.
//! 2. An index row about each pack with damaged entries says which they are: from then on look-ups take the other copy, and a gc
//!    leaves the damaged one behind.

use std::{
    collections::{HashSet, VecDeque},
    fs::File,
    io,
    path::Path,
};

use gix_hash::ObjectId;

use super::Report;
use crate::{
    archive::{self, NewPack, Snapshot, Transaction, WritePolicy, prove},
    error::{Error, Result},
    format::{commit_rows::CommitRows, row::Proof},
    pack::{
        Kind,
        finder::Finder,
        parse::{self, EntryMode},
        whole::WholePack,
    },
};

/// What to call the new pack in errors.
const SPOOL: &str = "the pack of good copies";

/// How many objects are asked for at once.
const ASKED_AT_ONCE: usize = 1000;

/// Takes an object that was asked for.
pub type OnObject<'a> = dyn FnMut(ObjectId, Kind, Vec<u8>) -> Result<()> + 'a;

/// Looks for objects somewhere else and hands over those that are there; nothing of them is believed.
pub type Source<'a> = dyn FnMut(&[ObjectId], &mut OnObject<'_>) -> Result<()> + 'a;

/// What can be repaired, as a full check finds it.
#[derive(Debug, Clone, Default)]
pub struct Repairable {
    /// Objects that are damaged or missing, and of which no good copy is there.
    pub lost: Vec<ObjectId>,
    /// Transactions whose packs have damaged entries.
    pub packs: HashSet<u64>,
    /// The newest footer cannot be read: an earlier state is shown, and no push is taken.
    pub footer: bool,
}

/// What a repair did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Objects that were stored again.
    pub objects: u64,
    /// Objects that were handed over with another content than their name says.
    pub refused: u64,
    /// Packs whose damaged entries are marked.
    pub packs: u64,
    /// What became of a footer that could not be read. Then that was all: what it hid is to be checked first.
    pub footer: Option<String>,
    pub warnings: Vec<String>,
}

/// Repairs the archive at `path`, of which `report` was just made with a full check. `spool` makes an empty file for the pack.
///
/// # Errors
/// Fails where the archive cannot be read or appended to, and where `source` or the spool does.
pub fn repair(
    path: &Path,
    report: &Report,
    source: Option<&mut Source<'_>>,
    spool: &dyn Fn() -> io::Result<File>,
    policy: &mut WritePolicy<'_>,
) -> Result<Repaired> {
    let mut repaired = Repaired::default();
    if report.repairable.footer {
        repaired.footer = Some(archive::rebuild_footer(path, policy)?);
        // The rest is about the state that was checked.
        return Ok(repaired);
    }
    if let Some(source) = source.filter(|_| !report.repairable.lost.is_empty()) {
        store(path, &report.repairable.lost, source, spool, policy, &mut repaired)?;
    }
    let packs = &report.repairable.packs;
    if !packs.is_empty() {
        archive::recheck(path, packs, policy)?;
        repaired.packs = packs.len() as u64;
    }
    Ok(repaired)
}

/// Stores what `source` has of `lost`, and of what that refers to and is missing as well.
fn store(
    path: &Path,
    lost: &[ObjectId],
    source: &mut Source<'_>,
    spool: &dyn Fn() -> io::Result<File>,
    policy: &mut WritePolicy<'_>,
    repaired: &mut Repaired,
) -> Result<()> {
    let snapshot = Snapshot::open_on(policy.disk, path)?;
    let format = snapshot.object_format();
    let finder = Finder::new(&snapshot);
    let file = spool().map_err(Error::io(SPOOL, "make room for"))?;
    let mut pack = WholePack::new(file, Path::new(SPOOL), format);
    let mut asked: HashSet<ObjectId> = lost.iter().copied().collect();
    let mut queue: VecDeque<ObjectId> = lost.iter().copied().collect();
    let mut stored = HashSet::new();
    while !queue.is_empty() {
        let part: Vec<ObjectId> = queue.drain(..queue.len().min(ASKED_AT_ONCE)).collect();
        source(&part, &mut |id, kind, data| {
            if !asked.contains(&id) || !stored.insert(id) {
                return Ok(());
            }
            if !pack.add(&id, kind, &data)? {
                repaired.refused += 1;
                return Ok(());
            }
            for link in links(kind, &data, format) {
                if finder.find(&link)?.is_none() && asked.insert(link) {
                    queue.push_back(link);
                }
            }
            Ok(())
        })?;
    }
    if pack.is_empty() {
        return Ok(());
    }
    repaired.objects = pack.len() as u64;
    let pack = pack.finish()?;
    // Where even the source has not everything, what there is is stored all the same, and stays unproven.
    let (proof, commits) = match prove(Some(&snapshot), &pack, 0, &[], None, None) {
        Ok(proven) => (proven.proof, proven.commits),
        Err(error @ Error::Io { .. }) => return Err(error),
        Err(_) => (Proof::None, CommitRows::default()),
    };
    let (data, name, id, entries) = pack.into_parts();
    let transaction = Transaction {
        packs: vec![NewPack {
            data: data.into(),
            path: name,
            id,
            entries: entries.as_ref().clone(),
            proof,
            commits,
        }],
        ..Transaction::default()
    };
    let outcome = archive::commit(path, transaction, policy.reborrow())?;
    repaired.warnings.extend(outcome.warnings);
    Ok(())
}

/// Returns what an object refers to, as far as that can be told.
fn links(kind: Kind, data: &[u8], format: gix_hash::Kind) -> Vec<ObjectId> {
    match kind {
        Kind::Blob => vec![],
        Kind::Tag => parse::tag(data, format).map(|(target, _)| target).into_iter().collect(),
        Kind::Commit => parse::commit(data, format)
            .map(|commit| commit.parents.iter().copied().chain([commit.tree]).collect())
            .unwrap_or_default(),
        Kind::Tree => {
            let (mut links, mut rest) = (vec![], data);
            while let Ok(Some((entry, after))) = parse::tree_entry(rest, format.len_in_bytes()) {
                rest = after;
                if entry.mode != EntryMode::Submodule {
                    links.push(ObjectId::from_bytes_or_panic(entry.id));
                }
            }
            links
        }
    }
}
