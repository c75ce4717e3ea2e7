//! An archive that stays open for many commits.
//!
//! Between commits the lock is free, and anybody may append, clean up, or replace the file. What is remembered is used only where
//! a few bytes, read under the lock, show that nothing of it has changed:
//!
//! - the path still names the open file;
//! - the head is the same from the identity line to the last tombstone, byte for byte: slots name the last confirmed commit by its id, so the confirmed state is the same;
//! - the length is the same, and where commits lie beyond the slot, so are the last bytes of the file: they end with the digest
//!   of the footer, which names the last commit by its id.

use std::path::{Path, PathBuf};

use super::{
    Batch, Outcome, Transaction, WritePolicy, commit,
    writer::{Handle, confirm, with_handle},
};
use crate::error::Result;

/// An archive that is open for appending, for as long as there is something to append.
pub struct Appender<'a> {
    path: PathBuf,
    policy: WritePolicy<'a>,
    handle: Handle,
}

impl<'a> Appender<'a> {
    /// Prepares to append to the archive at `path`, which is opened by the first commit.
    pub fn new(path: &Path, policy: WritePolicy<'a>) -> Appender<'a> {
        Appender {
            path: path.into(),
            handle: Handle::new(policy.durability),
            policy,
        }
    }

    /// Commits `transaction`. See [`commit()`](super::commit()).
    ///
    /// # Errors
    /// Nothing was committed, with one exception that says so: [`crate::Error::DurabilityUnknown`].
    pub fn commit(&mut self, transaction: Transaction) -> Result<Outcome> {
        let Appender { path, policy, handle } = self;
        if transaction.dry_run {
            return commit::dry_run(path, &transaction, policy);
        }
        let basis = transaction.basis.clone();
        let done = with_handle(handle, path, basis.as_ref(), policy, |writer, policy| {
            commit::commit_locked(writer, transaction, policy)
        });
        let mut outcome = done?;
        outcome.notes.extend(handle.note());
        Ok(outcome)
    }

    /// Starts a batch: many packs and reference edits in one commit.
    pub fn batch(&mut self) -> Batch<'_, 'a> {
        Batch::new(self)
    }

    /// Makes commits durable that are not: after this all that readers see survives a power loss.
    ///
    /// # Errors
    /// Fails where the disk does. Then it is not known what is durable of commits that were not before.
    pub fn confirm(&mut self) -> Result<()> {
        let Appender { path, policy, handle } = self;
        with_handle(handle, path, None, policy, |writer, _| confirm(writer))
    }
}
