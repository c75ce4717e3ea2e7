//! One transaction: its commit, and what is said about it.

use std::path::Path;

use bstr::BString;
use znippy::{
    archive::{self, Snapshot, Transaction, WritePolicy},
    refs::{EditResult, RefEdit, Rejection},
};

use super::Writing;
use crate::cli::{exit, git, output::Output};

/// Commits `edits`, all or nothing, and returns what became of each.
pub fn commit(
    snapshot: &Snapshot,
    edits: Vec<RefEdit>,
    writing: &Writing,
    dry_run: bool,
    output: &Output,
) -> anyhow::Result<Vec<EditResult>> {
    let mut on_wait = |text: &str| output.note(text);
    let lock = WritePolicy {
        durability: writing.durability()?,
        timeout: writing.locking.timeout()?,
        lock: writing.locking.mode()?,
        on_wait: Some(&mut on_wait),
        ..WritePolicy::default()
    };
    let transaction = Transaction {
        edits,
        atomic: true,
        dry_run,
        actor: if dry_run { None } else { git::committer() },
        ..Transaction::default()
    };
    let outcome = archive::commit(snapshot.path(), transaction, lock)?;
    if !dry_run {
        for note in &outcome.notes {
            output.note(&format!("{}: {note}", snapshot.path().display()));
        }
        for warning in &outcome.warnings {
            output.warning(&format!("{}: {warning}", snapshot.path().display()));
        }
        if let Some(head) = &outcome.head_moved {
            output.note(&format!("{}: HEAD names {head} now", snapshot.path().display()));
        }
        if outcome.head_unborn {
            let path = snapshot.path().display();
            output.warning(&format!(
                "{path}: HEAD names no branch now (set one with: znippy refs head {path} BRANCH)"
            ));
        }
    }
    Ok(outcome.results)
}

/// Fails with exit code 1 where one of the edits of `names` was rejected, and says which and why.
pub fn refuse(path: &Path, names: &[BString], results: &[EditResult]) -> anyhow::Result<()> {
    let rejected = names.iter().zip(results).filter_map(|(name, result)| match result {
        EditResult::Rejected(Rejection::Atomic) | EditResult::Applied { .. } | EditResult::Unchanged => None,
        EditResult::Rejected(why) => Some(format!("{name}: {why}")),
    });
    let rejected: Vec<String> = rejected.collect();
    if rejected.is_empty() {
        return Ok(());
    }
    Err(exit::no(format!(
        "{}: {}; nothing was changed",
        path.display(),
        rejected.join("; ")
    )))
}
