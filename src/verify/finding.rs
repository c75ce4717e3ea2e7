//! What a check found: one thing that is not as it was written, where it is, and what it affects.

use std::ops::Range;

use bstr::BString;
use gix_hash::ObjectId;
use serde::{Serialize, Serializer};

/// How bad a finding is, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing that counts is lost: a tail that the next push settles, a slot that it writes again, bytes that are dead.
    Warning,
    /// Something that counts is not what was written, or is missing.
    Damage,
    /// The disk failed to give bytes: what they are is not known.
    Unreadable,
}

/// What kind of thing is wrong. The names are those of the JSON output; there may be more of them one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// Nothing of the archive can be shown.
    NoState,
    /// The file is shorter than what was confirmed.
    Truncated,
    /// The identity line, the schema, or what should be blank in the head.
    Head,
    /// One of the two slots.
    Slot,
    /// The file was replaced by a newer generation.
    Superseded,
    /// Whole commits that no slot names yet.
    TailUnconfirmed,
    /// An unfinished write.
    TailTorn,
    /// Complete but changed bytes behind the last commit.
    TailDamaged,
    /// What lies behind the last commit cannot be read.
    TailUnreadable,
    /// A commit's metadata.
    Metadata,
    /// A footer.
    Footer,
    /// A commit that does not follow from the one before.
    Chain,
    /// Bytes that no live row needs.
    DeadBytes,
    /// A section of a commit's columns.
    Columns,
    /// Rows that contradict each other or the footer.
    Rows,
    /// A row's table of objects.
    ObjectTable,
    /// The block index over a table of objects.
    BlockIndex,
    /// The commit graph of a row.
    CommitGraph,
    /// A pack as a whole: header, trailer, hash.
    Pack,
    /// A stored entry: its bytes changed.
    Entry,
    /// An object whose content is not that of its name, or that cannot be made from its entry.
    Object,
    /// An object that another one or a reference needs, and that is not there.
    Missing,
    /// An object that is not of the kind that a link says.
    Kind,
    /// References that cannot be read.
    Refs,
    /// A reference that git's rules forbid.
    RefRule,
    /// The history of the references.
    RefLog,
}

/// One thing that is wrong.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    pub severity: Severity,
    pub code: Code,
    /// What is wrong, as a sentence without its place.
    pub what: String,
    /// Where it is in the file, in bytes.
    pub offset: Option<u64>,
    /// How many bytes from there; what is wrong may be any of them.
    pub length: Option<u64>,
    /// The transaction that it belongs to.
    pub txn: Option<u64>,
    /// The id of the pack that it belongs to.
    #[serde(serialize_with = "id")]
    pub pack: Option<ObjectId>,
    /// Offset of the entry in the pack.
    pub pack_offset: Option<u64>,
    #[serde(serialize_with = "id")]
    pub oid: Option<ObjectId>,
    /// Names of references that it affects, in order; at most [`REFS_NAMED`].
    #[serde(serialize_with = "names")]
    pub refs: Vec<BString>,
    /// How many references it affects in all.
    pub refs_affected: u64,
}

/// How many references a finding names; the rest is counted.
pub const REFS_NAMED: usize = 100;

impl Finding {
    /// Makes a finding without a place.
    pub fn new(severity: Severity, code: Code, what: impl Into<String>) -> Finding {
        Finding {
            severity,
            code,
            what: what.into(),
            offset: None,
            length: None,
            txn: None,
            pack: None,
            pack_offset: None,
            oid: None,
            refs: vec![],
            refs_affected: 0,
        }
    }

    /// Adds the place in the file.
    pub fn at(mut self, place: Range<u64>) -> Finding {
        (self.offset, self.length) = (Some(place.start), Some(place.end.saturating_sub(place.start)));
        self
    }

    /// Adds references, each of which counts once.
    pub(super) fn affects(&mut self, names: impl IntoIterator<Item = BString>) {
        for name in names {
            if self.refs.contains(&name) {
                continue;
            }
            self.refs_affected += 1;
            if self.refs.len() < REFS_NAMED {
                self.refs.push(name);
            }
        }
    }
}

fn id<S: Serializer>(id: &Option<ObjectId>, serializer: S) -> Result<S::Ok, S::Error> {
    id.map(|id| id.to_string()).serialize(serializer)
}

fn names<S: Serializer>(names: &[BString], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(names.iter().map(ToString::to_string))
}
