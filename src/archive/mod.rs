//! An archive: create it, open a snapshot of it, commit to it.

use std::{path::{Path, PathBuf}, sync::Arc, time::Duration};

use bstr::{BStr, BString};
use gix_hash::{ObjectId, oid};

use crate::{error::Result, pack::{EntryTable, Location, PackRank, PackStore}, refs::{EditResult, Ref, RefEdit, Target}};

/// A state of an archive, fixed at the moment it was opened: no lock is held, later commits are not seen.
/// Cheap to clone, may be shared between threads.
#[derive(Clone)]
pub struct Snapshot { _inner: Arc<()> }

impl Snapshot {
    /// Opens the newest committed state of the archive at `path`. Never writes.
    pub fn open(_path: &Path) -> Result<Snapshot> { unimplemented!() }
    pub fn path(&self) -> &Path { unimplemented!() }
    pub fn object_format(&self) -> gix_hash::Kind { unimplemented!() }
    /// Returns the archive's identity, 36 characters; survives gc, is lost by nothing but a new creation.
    pub fn uuid(&self) -> String { unimplemented!() }
    /// Returns which rewrite (gc) of the archive this is.
    pub fn generation(&self) -> u64 { unimplemented!() }
    /// Returns the number of commits in this generation.
    pub fn sequence(&self) -> u64 { unimplemented!() }
    /// Returns everything a careful caller tells the user: truncated, one slot bad, unconfirmed tail, …
    pub fn warnings(&self) -> &[String] { unimplemented!() }
    /// Returns all references in name order, HEAD among them (first), a dangling HEAD too.
    pub fn refs(&self) -> Result<Vec<Ref>> { unimplemented!() }
    /// Reads one reference without materialising all of them.
    pub fn find_ref(&self, _name: &BStr) -> Result<Option<Target>> { unimplemented!() }
    /// Follows symbolic references from `name` (at most 5) to an object. `None` where the end is unborn or a loop.
    pub fn resolve_ref(&self, _name: &BStr) -> Result<Option<ObjectId>> { unimplemented!() }
    /// Returns whether a reference was ever deleted or rewound in this generation, so that packs may hold objects no reference reaches.
    pub fn has_unreachable(&self) -> bool { unimplemented!() }
    /// Returns figures for `znippy info`.
    pub fn info(&self) -> Result<Info> { unimplemented!() }
}

impl PackStore for Snapshot {
    fn object_format(&self) -> gix_hash::Kind { unimplemented!() }
    fn packs(&self) -> PackRank { unimplemented!() }
    fn pack_len(&self, _pack: PackRank) -> u64 { unimplemented!() }
    fn pack_id(&self, _pack: PackRank) -> ObjectId { unimplemented!() }
    fn pack_name(&self, _pack: PackRank) -> String { unimplemented!() }
    fn read_exact_at(&self, _pack: PackRank, _offset: u64, _buf: &mut [u8]) -> Result<()> { unimplemented!() }
    fn lookup(&self, _id: &oid) -> Result<Option<Location>> { unimplemented!() }
    fn entries(&self, _pack: PackRank) -> Result<Arc<EntryTable>> { unimplemented!() }
}

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
    pub file_bytes: u64,
    pub pack_bytes: u64,
    /// Columns, metadata and the live footer.
    pub index_bytes: u64,
    /// Superseded footers and batches: what a gc gives back at least.
    pub dead_bytes: u64,
}

/// A pack to be stored: a finished, self-contained file on the local disk.
pub struct NewPack {
    /// The pack file. Read from its start; not needed after the commit.
    pub file: std::fs::File,
    /// What to call it in an error message.
    pub path: PathBuf,
    /// Its trailing hash; checked while the bytes are copied.
    pub id: ObjectId,
    pub entries: EntryTable,
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
    pub packs: Vec<NewPack>,
    pub edits: Vec<RefEdit>,
    /// If one edit is rejected, reject all.
    pub atomic: bool,
    /// Check everything, write nothing.
    pub dry_run: bool,
    /// Who did it: free bytes, for the log only.
    pub actor: Option<BString>,
    /// Further settings of the row: `push-option` names and the like.
    pub settings: Vec<(String, Vec<u8>)>,
    pub head: HeadHint,
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
}

/// How long and how loudly to wait for the writer lock.
pub struct LockPolicy<'a> {
    pub timeout: Duration,
    /// Called now and then while waiting, with a text for the user.
    pub on_wait: Option<&'a mut dyn FnMut(&str)>,
    /// Called while pack bytes are copied: (done, total) bytes.
    pub on_copy: Option<&'a mut dyn FnMut(u64, u64)>,
}

impl Default for LockPolicy<'_> {
    fn default() -> Self {
        LockPolicy { timeout: Duration::from_secs(60), on_wait: None, on_copy: None }
    }
}

/// Creates an empty archive whose HEAD names `head` (unborn). Fails where the file exists or its parent does not.
pub fn create(_path: &Path, _format: gix_hash::Kind, _head: &BStr) -> Result<()> { unimplemented!() }

/// Commits `transaction` to the archive at `path` in one durable append.
///
/// Returns when the data is on the disk. Edits that were rejected are told in the outcome, not as an error; where all were
/// rejected nothing is written.
pub fn commit(_path: &Path, _transaction: Transaction, _lock: LockPolicy<'_>) -> Result<Outcome> { unimplemented!() }

/// Creates the archive with `transaction` as its first commit, so that no empty state is ever visible. Where another
/// process created it first, commits to the winner (after which edits that expected nothing are judged as usual).
pub fn create_with(_path: &Path, _format: gix_hash::Kind, _transaction: Transaction, _lock: LockPolicy<'_>) -> Result<Outcome> { unimplemented!() }
