//! Committing to an archive that exists: edits are judged under the writer lock, and appended with their packs.

use std::path::Path;

use gix_hash::oid;

use super::{
    Outcome, Snapshot, Transaction, WritePolicy,
    enforce::Rules,
    prepare::Addition,
    writer::{Writer, with_writer},
};
use crate::{
    error::Result,
    pack::{EntryTable, PackStore},
    refs::{
        EditResult,
        apply::{Applied, apply},
    },
};

/// Commits `transaction` to the archive at `path` in one durable append.
///
/// Returns when the data is on the disk. Edits that were rejected are told in the outcome, not as an error; where all were
/// rejected, or changed nothing, nothing is written.
///
/// # Errors
/// Nothing was committed, with one exception that says so: [`crate::Error::DurabilityUnknown`].
pub fn commit(path: &Path, transaction: Transaction, mut policy: WritePolicy<'_>) -> Result<Outcome> {
    if transaction.dry_run {
        return dry_run(path, &transaction, &policy);
    }
    let basis = transaction.basis.clone();
    with_writer(path, basis.as_ref(), &mut policy, |writer, policy| {
        commit_locked(writer, transaction, policy)
    })
}

/// Judges a transaction without lock or write.
fn dry_run(path: &Path, transaction: &Transaction, policy: &WritePolicy<'_>) -> Result<Outcome> {
    let snapshot = Snapshot::open_on(policy.disk, path)?;
    let applied = judge(&snapshot, transaction)?;
    Ok(outcome(applied, false, snapshot.warnings().to_vec()))
}

fn commit_locked(writer: Writer<'_>, transaction: Transaction, policy: &mut WritePolicy<'_>) -> Result<Outcome> {
    let applied = judge(&writer.snapshot, &transaction)?;
    if applied.changes.is_empty() {
        let warnings = writer.snapshot.warnings().to_vec();
        return Ok(outcome(applied, false, warnings));
    }
    let addition = Addition {
        packs: transaction.packs,
        changes: applied.changes.clone(),
        rewound: applied.rewound,
        actor: transaction.actor,
        settings: transaction.settings,
        ..Addition::default()
    };
    let warnings = writer.append(addition, policy)?;
    Ok(outcome(applied, true, warnings))
}

/// Judges the edits against a snapshot, its settings, and the transaction's own packs.
fn judge(snapshot: &Snapshot, transaction: &Transaction) -> Result<Applied> {
    let exists = |id: &oid| {
        let in_pack = |entries: &EntryTable| entries.find(id).is_some();
        Ok(transaction.packs.iter().any(|pack| in_pack(&pack.entries)) || snapshot.lookup(id)?.is_some())
    };
    let rules = Rules::new(snapshot, transaction)?;
    apply(
        snapshot.ref_view()?,
        &transaction.edits,
        transaction.atomic,
        &transaction.head.candidates,
        &exists,
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
    }
}
