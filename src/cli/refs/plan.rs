//! From requested changes to the edits of one transaction.
//!
//! A request says what it wants of the archive as it will be under the lock; an edit says what the reference must hold.
//! What the caller left open (any old value, where a symbolic reference leads) is filled in from a snapshot and expected
//! of the archive. If somebody changes just that in between, the edits are made anew from the newer state.

use bstr::{BString, ByteSlice};
use gix_hash::ObjectId;
use znippy::{
    archive::Snapshot,
    pack::PackStore,
    refs::{EditResult, Rejection},
};

use super::{
    Writing, apply,
    edits::Edits,
    grammar::{Change, SymrefOld},
};
use crate::cli::{escape, exit, output::Output};

/// How often the edits are made anew before it is called a failure: each time some other writer got on.
const MAX_ATTEMPTS: usize = 100;

/// The changes of one transaction.
pub struct Plan {
    snapshot: Snapshot,
    steps: Vec<Step>,
}

/// A change whose values are known.
pub struct Step {
    pub name: BString,
    /// Whether a symbolic reference stands for the one that it names.
    pub deref: bool,
    pub old: Old,
    pub new: New,
}

/// What a reference must hold.
pub enum Old {
    Any,
    Absent,
    Oid(ObjectId),
    Symbolic(BString),
}

/// What it shall hold.
pub enum New {
    /// Change nothing, only compare.
    Keep,
    Delete,
    Oid(ObjectId),
    Symbolic(BString),
}

impl Plan {
    /// Returns an empty plan for the archive of `snapshot`.
    pub fn new(snapshot: Snapshot) -> Plan {
        Plan {
            snapshot,
            steps: Vec::new(),
        }
    }

    /// Adds a change; `deref` says that a symbolic reference stands for the one it names.
    ///
    /// # Errors
    /// Fails where a value is none, or makes no sense for the change.
    pub fn add(&mut self, change: Change, deref: bool) -> anyhow::Result<()> {
        let step = |name, old, new| Step { name, deref, old, new };
        let step = match change {
            Change::Update { name, new, old } => {
                let old = match old {
                    Some(old) => self.expected(&name, &old)?,
                    None => Old::Any,
                };
                let new = self.value(&name, &new)?;
                step(name, old, if new.is_null() { New::Delete } else { New::Oid(new) })
            }
            Change::Create { name, new } => {
                let new = self.value(&name, &new)?;
                if new.is_null() {
                    return Err(exit::usage(format!("create {name}: the new value is all zeros")));
                }
                step(name, Old::Absent, New::Oid(new))
            }
            Change::Delete { name, old } => {
                let old = match old.map(|old| self.expected(&name, &old)).transpose()? {
                    Some(Old::Absent) => return Err(exit::usage(format!("delete {name}: the old value is all zeros"))),
                    Some(old) => old,
                    None => Old::Any,
                };
                step(name, old, New::Delete)
            }
            Change::Verify { name, old } => {
                let old = self.expected(&name, &old.unwrap_or_default())?;
                step(name, old, New::Keep)
            }
            Change::SymrefUpdate { name, target, old } => {
                let old = match old {
                    Some(SymrefOld::Target(target)) => Old::Symbolic(checked(target)?),
                    Some(SymrefOld::Oid(oid)) => self.expected(&name, &oid)?,
                    None => Old::Any,
                };
                step(name, old, New::Symbolic(checked(target)?))
            }
            Change::SymrefCreate { name, target } => step(name, Old::Absent, New::Symbolic(checked(target)?)),
            Change::SymrefDelete { name, .. } | Change::SymrefVerify { name, .. } if deref => {
                return Err(exit::usage(format!(
                    "{name}: this request needs 'option no-deref' before it"
                )));
            }
            Change::SymrefDelete { name, old } => step(
                name,
                old.map(checked).transpose()?.map_or(Old::Any, Old::Symbolic),
                New::Delete,
            ),
            Change::SymrefVerify { name, old } => step(
                name,
                old.map(checked).transpose()?.map_or(Old::Absent, Old::Symbolic),
                New::Keep,
            ),
        };
        let step = Step {
            name: checked(step.name)?,
            ..step
        };
        self.steps.push(step);
        Ok(())
    }

    /// Returns the object that `text` stands for: an id, or the full name of a reference. Zeros for nothing.
    fn value(&self, name: &BString, text: &BString) -> anyhow::Result<ObjectId> {
        let kind = PackStore::object_format(&self.snapshot);
        if text.iter().all(|&byte| byte == b'0') && [0, kind.len_in_hex()].contains(&text.len()) {
            return Ok(kind.null());
        }
        if let Ok(oid) = ObjectId::from_hex(text)
            && oid.kind() == kind
        {
            return Ok(oid);
        }
        let full = text == "HEAD" || text.starts_with(b"refs/");
        let found = if full {
            self.snapshot.resolve_ref(text.as_bstr())?
        } else {
            None
        };
        found.ok_or_else(|| {
            let (name, text) = (escape::text(name), escape::text(text));
            let digits = kind.len_in_hex();
            exit::usage(format!(
                "{name}: '{text}' is no object id of {digits} digits and no name of a reference"
            ))
        })
    }

    fn expected(&self, name: &BString, text: &BString) -> anyhow::Result<Old> {
        let oid = self.value(name, text)?;
        Ok(if oid.is_null() { Old::Absent } else { Old::Oid(oid) })
    }

    /// Checks everything and writes nothing.
    pub fn check(&mut self, writing: &Writing, output: &Output) -> anyhow::Result<()> {
        self.run(writing, true, output)
    }

    /// Applies all changes in one commit, or none.
    ///
    /// # Errors
    /// Fails with exit code 1 where a reference does not hold what was expected or may not hold the new value.
    pub fn commit(&mut self, writing: &Writing, output: &Output) -> anyhow::Result<()> {
        self.run(writing, false, output)
    }

    fn run(&mut self, writing: &Writing, dry_run: bool, output: &Output) -> anyhow::Result<()> {
        for _ in 0..MAX_ATTEMPTS {
            let Edits { edits, asked } = Edits::make(&self.snapshot, &self.steps)?;
            if edits.is_empty() {
                return Ok(());
            }
            let names: Vec<BString> = edits.iter().map(|edit| edit.name.clone()).collect();
            let path = self.snapshot.path().to_owned();
            let results = apply::commit(&self.snapshot, edits, writing, dry_run, output)?;
            let overtaken = results
                .iter()
                .zip(&asked)
                .any(|(result, &asked)| !asked && matches!(result, EditResult::Rejected(Rejection::Stale { .. })));
            if !overtaken {
                return apply::refuse(&path, &names, &results);
            }
            self.snapshot = Snapshot::open(&path)?;
        }
        anyhow::bail!(
            "{}: other writers were faster {MAX_ATTEMPTS} times in a row",
            self.snapshot.path().display()
        )
    }
}

/// Returns `name` if git allows it as the full name of a reference.
fn checked(name: BString) -> anyhow::Result<BString> {
    let full = name == "HEAD" || name.starts_with(b"refs/");
    if full && gix_validate::reference::name(name.as_bstr()).is_ok() {
        return Ok(name);
    }
    Err(exit::usage(format!(
        "'{}' is not the full name of a reference (HEAD, or refs/...)",
        escape::text(&name)
    )))
}
