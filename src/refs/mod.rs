//! References: their values, the edits that change them, and git's rules for their names.

pub mod alias;
pub mod apply;
pub mod inline;
pub mod name;
pub mod view;

use bstr::BString;
use gix_hash::ObjectId;

/// git reads at most so many references in a row (SYMREF_MAXDEPTH): symbolic ones, and the one with the object.
pub const MAX_IN_A_ROW: usize = 5;

/// What a reference holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An object, with what an annotated tag finally points at (`None` where the object is no tag).
    Object { oid: ObjectId, peeled: Option<ObjectId> },
    /// Another reference.
    Symbolic(BString),
}

/// A reference and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ref {
    /// The full name: `HEAD`, or a name below `refs/`.
    pub name: BString,
    pub target: Target,
}

/// What an edit expects a reference to hold when it is applied: the compare of compare-and-swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Anything, or nothing.
    Any,
    /// The reference must not exist.
    Absent,
    /// The reference must exist, with any value.
    Present,
    /// The reference must hold this object.
    Oid(ObjectId),
    /// The reference must be symbolic and hold this name.
    Symbolic(BString),
}

/// One change of one reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefEdit {
    pub name: BString,
    pub expected: Expected,
    /// The new value; `None` deletes.
    pub new: Option<Target>,
    /// Whether the old value may become unreachable: a deletion, or an update that is not known to be a fast-forward.
    /// The archive remembers it, because a verbatim clone would then carry unreachable objects. Deletions need not set it.
    pub rewinds: bool,
}

/// Why an edit was not applied. The texts of the helper's status lines are made from these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The reference does not hold what the edit expected.
    #[error("stale info: expected {expected}, found {found}")]
    Stale { expected: String, found: String },
    /// git's name rules forbid it.
    #[error("invalid ref name: {0}")]
    InvalidName(String),
    /// `refs/heads/a` beside `refs/heads/a/b`: no client could store both.
    #[error("name conflicts with {0}")]
    Conflict(BString),
    /// The new value is in neither the archive nor the new packs.
    #[error("object {0} is missing")]
    MissingObject(ObjectId),
    /// A branch may only point at a commit, and HEAD only into refs/heads/.
    #[error("{0}")]
    WrongTarget(String),
    /// The settings of the archive forbid it.
    #[error("{0}")]
    Policy(String),
    /// The settings of the archive forbid to store the packs: not for what any reference is to hold.
    #[error("{0}")]
    Pack(String),
    /// Another edit of the same atomic transaction was rejected.
    #[error("atomic push failure")]
    Atomic,
}

/// What became of one edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditResult {
    /// Applied; the value before.
    Applied {
        old: Option<Target>,
    },
    /// The reference already held the new value.
    Unchanged,
    Rejected(Rejection),
}
