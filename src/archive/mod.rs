//! An archive: create it, open a snapshot of it, commit to it.

mod append;
mod appender;
mod batch;
mod catch_up;
mod commit;
mod commits;
mod configure;
mod create;
mod damage;
pub mod durability;
mod enforce;
mod file;
mod gc;
mod graph;
mod incoming;
mod locking;
mod log;
mod merge;
mod new_pack;
mod open;
mod packs;
mod parents;
mod place_refs;
mod prepare;
mod prove;
mod rebuild;
mod settle;
#[cfg(test)]
mod tests;
mod writer;

use std::{path::PathBuf, time::Duration};

use bstr::BString;
use gix_hash::ObjectId;

pub use appender::Appender;
pub use batch::Batch;
pub use catch_up::{CaughtUp, Unsound, catch_up, recheck, unproven};
pub use commit::commit;
pub(crate) use commits::Commits;
pub use configure::configure;
pub use create::{create, create_with};
pub use durability::Durability;
pub use gc::{
    CheckGeneration, Expire, GcOptions, GcReport, OnProgress as OnGcProgress, Progress as GcProgress, gc,
    temporary_path,
};
pub use locking::{Unlocked, unlock};
pub use new_pack::{CheckedPack, PackData};
pub(crate) use open::Opened;
pub use open::Snapshot;
pub use parents::Theirs;
pub use prove::{Proven, prove};
pub use rebuild::rebuild_footer;

use crate::{
    format::{commit_rows::CommitRows, row::Proof},
    media::{Disk, LocalDisk, LockMode},
    pack::EntryTable,
    refs::{EditResult, RefEdit},
};

/// What `znippy info` shows.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Info {
    pub path: PathBuf,
    pub format_version: u32,
    pub object_format: String,
    pub uuid: String,
    pub generation: u64,
    pub sequence: u64,
    pub commit_id: String,
    pub head: Option<String>,
    pub refs: u64,
    pub packs: u64,
    pub objects: u64,
    /// Objects whose type, size and content have not been checked yet.
    pub unresolved_objects: u64,
    /// Packs of which it is not proven that their objects bear their names and that all these refer to is here.
    pub unproven_packs: u64,
    /// Objects that are known to be damaged.
    pub damaged_objects: u64,
    pub file_bytes: u64,
    pub pack_bytes: u64,
    /// Columns, metadata and the live footer.
    pub index_bytes: u64,
    /// Superseded footers and batches: what a gc gives back at least.
    pub dead_bytes: u64,
}

/// A pack to be stored: finished and self-contained.
pub struct NewPack {
    pub data: PackData,
    /// What to call it in an error message.
    pub path: PathBuf,
    /// Its trailing hash.
    pub id: ObjectId,
    pub entries: EntryTable,
    /// What was proven of it. Of several packs of one transaction, only the last can be [`Proof::Closed`]: the others are stored as
    /// [`Proof::Names`], because what they lead to may be in one behind them.
    pub proof: Proof,
    /// Its commits, where they were parsed: for the graph.
    pub commits: CommitRows,
}

/// Which branch HEAD of the archive should name if it names no existing branch after the transaction.
#[derive(Debug, Clone, Default)]
pub struct HeadHint {
    /// In order of preference, full names. After these: main, master, the only branch.
    pub candidates: Vec<BString>,
}

/// What to do in one commit: any number of packs and reference edits, all or nothing on disk.
#[derive(Default)]
pub struct Transaction {
    /// The state that the edits were decided on, if there is one: saves reading it again where it is still the newest.
    pub basis: Option<Snapshot>,
    pub packs: Vec<NewPack>,
    /// The packs were made for more edits than these: others were refused before, and what they were about stays unreached.
    pub has_surplus: bool,
    pub edits: Vec<RefEdit>,
    /// Objects of `basis` that the packs and edits build on: what is not in the packs because it is there already.
    pub relies_on: Vec<ObjectId>,
    /// If one edit is rejected, reject all.
    pub atomic: bool,
    /// Check everything, write nothing.
    pub dry_run: bool,
    /// Who did it: free bytes, for the log only.
    pub actor: Option<BString>,
    /// Further settings of the row: `push-option` names and the like.
    pub settings: Vec<(String, Vec<u8>)>,
    pub head: HeadHint,
    /// The edits come from a push: references that are hidden from pushes may not be changed by them.
    pub is_push: bool,
}

/// What a commit did.
#[derive(Debug)]
pub struct Outcome {
    /// One result per edit, in the order given.
    pub results: Vec<EditResult>,
    /// HEAD's new target, where the commit moved it.
    pub head_moved: Option<BString>,
    /// HEAD names no branch now, because the one it named was deleted and no other fits.
    pub head_unborn: bool,
    /// False where there was nothing to write.
    pub written: bool,
    pub warnings: Vec<String>,
    /// What only a curious user wants to know.
    pub notes: Vec<String>,
}

/// How to write: on which disk, how long and how loudly to wait for the writer lock, and when it is done.
pub struct WritePolicy<'a> {
    /// The file system that the archive is on.
    pub disk: &'a dyn Disk,
    pub durability: Durability,
    /// How other writers are kept away.
    pub lock: LockMode,
    /// How long to wait for another writer that makes no progress.
    pub timeout: Duration,
    /// Called now and then while waiting, with a text for the user.
    pub on_wait: Option<&'a mut dyn FnMut(&str)>,
    /// Called while pack bytes are copied: (done, total) bytes.
    pub on_copy: Option<&'a mut dyn FnMut(u64, u64)>,
}

impl WritePolicy<'_> {
    /// Returns the same policy for a shorter time.
    pub fn reborrow(&mut self) -> WritePolicy<'_> {
        WritePolicy {
            disk: self.disk,
            durability: self.durability,
            lock: self.lock,
            timeout: self.timeout,
            on_wait: self
                .on_wait
                .as_mut()
                .map(|on_wait| &mut **on_wait as &mut dyn FnMut(&str)),
            on_copy: self
                .on_copy
                .as_mut()
                .map(|on_copy| &mut **on_copy as &mut dyn FnMut(u64, u64)),
        }
    }
}

impl Default for WritePolicy<'_> {
    fn default() -> Self {
        WritePolicy {
            disk: &LocalDisk,
            durability: Durability::default(),
            lock: LockMode::default(),
            timeout: Duration::from_secs(60),
            on_wait: None,
            on_copy: None,
        }
    }
}
