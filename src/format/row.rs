//! One transaction, before it is laid out as columns and after it was read.

use bstr::BString;
use gix_hash::ObjectId;

use super::commit_rows::CommitRows;
use crate::pack::EntryTable;

/// What a row records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// Reference edits and, mostly, a pack.
    Push,
    /// The references as they are, so that nobody needs to read what led there.
    Checkpoint,
    /// Something derived from earlier rows.
    Index,
    /// A rewrite of the archive.
    Gc,
    /// The settings of the archive were changed.
    Config,
    /// One that a later program made: such rows are left alone.
    Other,
}

impl RowKind {
    /// Returns the text of the `kind` column.
    pub fn name(self) -> &'static str {
        match self {
            RowKind::Push => "push",
            RowKind::Checkpoint => "checkpoint",
            RowKind::Index => "index",
            RowKind::Gc => "gc",
            RowKind::Config => "config",
            RowKind::Other => "other",
        }
    }

    /// Parses the text of the `kind` column. `None` for a kind that this version does not know.
    pub fn from_name(name: &str) -> Option<RowKind> {
        let kinds = [
            RowKind::Push,
            RowKind::Checkpoint,
            RowKind::Index,
            RowKind::Gc,
            RowKind::Config,
        ];
        kinds.into_iter().find(|kind| kind.name() == name)
    }
}

/// What was proven of a pack before it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// Nothing but the pack's trailing hash.
    None,
    /// Every object was re-hashed: it bears its name.
    Names,
    /// Besides, everything that the new tips reach is in the archive.
    Closed,
}

impl Proof {
    /// Returns the text of the `proof` column.
    pub fn name(self) -> &'static str {
        match self {
            Proof::None => "none",
            Proof::Names => "names",
            Proof::Closed => "closed",
        }
    }

    /// Parses the text of the `proof` column.
    pub fn from_name(name: &str) -> Option<Proof> {
        [Proof::None, Proof::Names, Proof::Closed]
            .into_iter()
            .find(|proof| proof.name() == name)
    }
}

/// One element of the `refs` column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefRow {
    pub name: BString,
    pub old_oid: Option<ObjectId>,
    pub new_oid: Option<ObjectId>,
    pub symref: Option<BString>,
    pub peeled_oid: Option<ObjectId>,
}

/// Length and trailing hash of a row's pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackMeta {
    pub len: u64,
    pub id: ObjectId,
}

/// One transaction, as it is written. `objects` and `refs` are sorted.
#[derive(Debug, Clone)]
pub struct Row {
    pub txn: u64,
    /// Microseconds since 1970.
    pub time_us: i64,
    pub kind: RowKind,
    pub actor: Option<BString>,
    pub proof: Proof,
    pub settings: Vec<(String, Vec<u8>)>,
    pub refs: Vec<RefRow>,
    pub objects: EntryTable,
    pub commits: CommitRows,
    pub covers: Option<(u64, u64)>,
    pub index: Option<Vec<u8>>,
    pub pack: Option<PackMeta>,
    /// Its kind or proof is of a later program. It can be read as far as it is known, and must not be written again.
    pub is_foreign: bool,
}

impl Row {
    /// Makes a row without content.
    pub fn new(txn: u64, time_us: i64, kind: RowKind) -> Row {
        Row {
            txn,
            time_us,
            kind,
            actor: None,
            proof: Proof::None,
            settings: vec![],
            refs: vec![],
            objects: EntryTable::default(),
            commits: CommitRows::default(),
            covers: None,
            index: None,
            pack: None,
            is_foreign: false,
        }
    }
}
