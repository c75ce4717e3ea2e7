//! Committing to an archive that exists: edits are judged under the writer lock, and appended with their packs.

use std::path::Path;

use gix_hash::oid;

use super::{Appender, Outcome, Snapshot, Transaction, WritePolicy, enforce::Rules, prepare::Addition, writer::Writer};
use crate::{
    error::{Error, Result},
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
        notes: vec![],
    }
}
