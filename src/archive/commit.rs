//! Committing to an archive that exists: edits are judged under the writer lock, and appended with their packs.

use std::{cell::LazyCell, path::Path};

use gix_hash::oid;

use super::{
    Appender, Outcome, Snapshot, Transaction, WritePolicy, enforce::Rules, incoming::Incoming, prepare::Addition,
    writer::Writer,
};
use crate::{
    error::{Error, Result},
    pack::{Kind, PackStore, disk::Layered, graph::is_ancestor, object::ObjectReader},
    refs::{
        EditResult, Target,
        apply::{Applied, Objects, apply},
    },
};

/// How many commits are looked at to find one below the default branch.
const MAX_COMMITS: usize = 100_000;

/// Commits `transaction` to the archive at `path` in one durable append.
///
/// Returns when the data is on the disk. Edits that were rejected are told in the outcome, not as an error; where all were
/// rejected, or changed nothing, nothing is written.
///
/// # Errors
/// Nothing was committed, with one exception that says so: [`crate::Error::DurabilityUnknown`].
pub fn commit(path: &Path, transaction: Transaction, policy: WritePolicy<'_>) -> Result<Outcome> {
    Appender::new(path, policy).commit(transaction)
}

/// Judges a transaction without lock or write.
pub(super) fn dry_run(path: &Path, transaction: &Transaction, policy: &WritePolicy<'_>) -> Result<Outcome> {
    let snapshot = Snapshot::open_on(policy.disk, path)?;
    let applied = judge(&snapshot, transaction)?;
    Ok(outcome(applied, false, snapshot.warnings().to_vec()))
}

pub(super) fn commit_locked(
    writer: Writer<'_>,
    transaction: Transaction,
    policy: &mut WritePolicy<'_>,
) -> Result<Outcome> {
    check_basis(&writer.snapshot, &transaction)?;
    let applied = judge(&writer.snapshot, &transaction)?;
    // Packs whose references were all refused are nothing to keep; packs that came without any are.
    let only_packs = transaction.edits.is_empty() && !transaction.packs.is_empty();
    if only_packs && let Some(why) = Rules::new(&writer.snapshot, &transaction)?.forbid_all() {
        return Err(Error::Invalid(format!("{}: {why}", writer.snapshot.path().display())));
    }
    if applied.changes.is_empty() && !only_packs {
        let warnings = writer.snapshot.warnings().to_vec();
        return Ok(outcome(applied, false, warnings));
    }
    let is_refused = |result: &EditResult| matches!(result, EditResult::Rejected(_));
    let leaves_unreached =
        !transaction.packs.is_empty() && (transaction.has_surplus || applied.results.iter().any(is_refused));
    let addition = Addition {
        packs: transaction.packs,
        changes: applied.changes.clone(),
        rewound: applied.rewound || leaves_unreached,
        actor: transaction.actor,
        settings: transaction.settings,
        ..Addition::default()
    };
    let warnings = writer.append(addition, policy)?;
    Ok(outcome(applied, true, warnings))
}

/// Checks that what the packs build on is still there. Nothing is ever taken away from a file that only grew; but since it was
/// read, it may have been rewritten by a gc, or replaced by another copy.
fn check_basis(snapshot: &Snapshot, transaction: &Transaction) -> Result<()> {
    let Some(basis) = &transaction.basis else { return Ok(()) };
    if transaction.relies_on.is_empty() || snapshot.continues(basis)? {
        return Ok(());
    }
    let reader = ObjectReader::new(snapshot);
    let head = snapshot.resolve_ref("HEAD".into())?;
    for id in &transaction.relies_on {
        // What no reference reaches may be there, and yet not all that it needs.
        let is_live = snapshot.shows(id)?
            || match head {
                Some(head) if matches!(reader.header(id)?, Some((Kind::Commit, _))) => {
                    is_ancestor(&reader, id, &head, Some(MAX_COMMITS))? == Some(true)
                }
                _ => false,
            };
        if !is_live {
            return Err(Error::Rewritten {
                path: snapshot.path().into(),
                oid: *id,
            });
        }
    }
    Ok(())
}

/// Refuses packs and values of another object format than the archive's. Who began with no archive may find one when it is done.
fn check_format(snapshot: &Snapshot, transaction: &Transaction) -> Result<()> {
    let values = transaction.edits.iter().filter_map(|edit| match &edit.new {
        Some(Target::Object { oid, .. }) => Some(oid.kind()),
        _ => None,
    });
    let mut formats = transaction.packs.iter().map(|pack| pack.id.kind()).chain(values);
    let archive = snapshot.object_format();
    match formats.find(|format| *format != archive) {
        None => Ok(()),
        Some(client) => Err(Error::ObjectFormatMismatch {
            path: snapshot.path().into(),
            archive,
            client,
        }),
    }
}

/// Judges the edits against a snapshot, its settings, and the transaction's own packs.
fn judge(snapshot: &Snapshot, transaction: &Transaction) -> Result<Applied> {
    check_format(snapshot, transaction)?;
    let incoming = Incoming::new(&transaction.packs, snapshot.object_format());
    let store = Layered::new(&[&incoming, snapshot])?;
    // Seldom needed: the pack that comes with an edit has its commit.
    let reader = LazyCell::new(|| ObjectReader::new(&store));
    let exists = |id: &oid| Ok(incoming.has(id) || snapshot.lookup(id)?.is_some());
    let is_commit = |id: &oid| match incoming.is_commit(id) {
        Some(is_commit) => Ok(is_commit),
        None => Ok(reader.header(id)?.is_some_and(|(kind, _)| kind == Kind::Commit)),
    };
    let rules = Rules::new(snapshot, transaction)?;
    apply(
        snapshot.ref_view()?,
        &transaction.edits,
        transaction.atomic,
        &transaction.head.candidates,
        &Objects {
            exists: &exists,
            is_commit: &is_commit,
        },
        &|edit, old| rules.forbid(edit, old),
    )
}

fn outcome(applied: Applied, written: bool, warnings: Vec<String>) -> Outcome {
    let Applied {
        results,
        head_moved,
        head_unborn,
        ..
    } = applied;
    let head_unborn = head_unborn
        && results
            .iter()
            .any(|result| matches!(result, EditResult::Applied { .. }));
    Outcome {
        results,
        head_moved,
        head_unborn,
        written,
        warnings,
        notes: vec![],
    }
}
