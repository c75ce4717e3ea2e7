//! From requested changes to the edits of one transaction.
//!
//! A request says what it wants of the archive as it will be under the lock; an edit says what the reference must hold.
//! What the caller left open (any old value, where a symbolic reference leads) is filled in from a snapshot and expected
//! of the archive. If somebody changes just that in between, the edits are made anew from the newer state.

use std::{collections::BTreeMap, time::Duration};

use bstr::{BString, ByteSlice};
use gix_hash::ObjectId;
use znippy::{
    archive::{self, LockPolicy, Snapshot, Transaction},
    refs::{EditResult, Expected, RefEdit, Rejection, Target},
};

use super::{
    grammar::{Change, SymrefOld},
    objects::Objects,
};
use crate::cli::{escape, exit, output::Output};

/// Symbolic references are followed this far, as in git.
const MAX_DEPTH: usize = 5;
/// How often the edits are made anew before it is called a failure: each time some other writer got on.
const MAX_ATTEMPTS: usize = 100;

/// The changes of one transaction.
pub struct Plan {
    snapshot: Snapshot,
    steps: Vec<Step>,
}

/// A change whose values are known.
struct Step {
    name: BString,
    deref: bool,
    old: Old,
    new: New,
}

enum Old {
    Any,
    Absent,
    Oid(ObjectId),
    Symbolic(BString),
}

enum New {
    /// Change nothing, only compare.
    Keep,
    Delete,
    Oid(ObjectId),
    Symbolic(BString),
}

/// The edits for a snapshot.
struct Edits {
    edits: Vec<RefEdit>,
    /// Whether the expectation of the edit is the caller's, and not filled in.
    asked: Vec<bool>,
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
        let kind = znippy::pack::PackStore::object_format(&self.snapshot);
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
    pub fn check(&mut self, wait: u64, output: &Output) -> anyhow::Result<()> {
        self.run(wait, true, output)
    }

    /// Applies all changes in one commit, or none.
    ///
    /// # Errors
    /// Fails with exit code 1 where a reference does not hold what was expected or may not hold the new value.
    pub fn commit(&mut self, wait: u64, output: &Output) -> anyhow::Result<()> {
        self.run(wait, false, output)
    }

    fn run(&mut self, wait: u64, dry_run: bool, output: &Output) -> anyhow::Result<()> {
        for _ in 0..MAX_ATTEMPTS {
            let Edits { edits, asked } = self.edits()?;
            if edits.is_empty() {
                return Ok(());
            }
            let names: Vec<BString> = edits.iter().map(|edit| edit.name.clone()).collect();
            let path = self.snapshot.path().to_owned();
            let results = commit(&self.snapshot, edits, wait, dry_run, output)?;
            let overtaken = results
                .iter()
                .zip(&asked)
                .any(|(result, &asked)| !asked && matches!(result, EditResult::Rejected(Rejection::Stale { .. })));
            if !overtaken {
                return refuse(&path, &names, &results);
            }
            self.snapshot = Snapshot::open(&path)?;
        }
        anyhow::bail!(
            "{}: other writers were faster {MAX_ATTEMPTS} times in a row",
            self.snapshot.path().display()
        )
    }

    /// Makes the edits that fit the plan's snapshot.
    fn edits(&self) -> anyhow::Result<Edits> {
        let mut links: BTreeMap<BString, BString> = BTreeMap::new();
        let mut ends: BTreeMap<BString, (&Step, Option<Target>)> = BTreeMap::new();
        for step in &self.steps {
            let (name, value) = self.follow(step, &mut links)?;
            if ends.insert(name.clone(), (step, value)).is_some() {
                return Err(exit::usage(format!(
                    "{name}: more than one change of the same reference"
                )));
            }
        }
        let objects = Objects::new(&self.snapshot);
        let mut made = Edits {
            edits: Vec::new(),
            asked: Vec::new(),
        };
        for (name, target) in links {
            if ends.contains_key(&name) {
                return Err(exit::usage(format!(
                    "{name}: it is changed, and changed through, in one transaction"
                )));
            }
            let target_now = Target::Symbolic(target.clone());
            let expected = Expected::Symbolic(target);
            made.edits.push(RefEdit {
                name,
                expected,
                new: Some(target_now),
                rewinds: false,
            });
            made.asked.push(false);
        }
        for (name, (step, value)) in ends {
            if let Some(edit) = edit(&objects, name, step, value)? {
                made.edits.push(edit);
                made.asked.push(!matches!(step.old, Old::Any));
            }
        }
        Ok(made)
    }

    /// Returns the reference that `step` is about, with its value, and notes the symbolic references on the way.
    fn follow(&self, step: &Step, links: &mut BTreeMap<BString, BString>) -> anyhow::Result<(BString, Option<Target>)> {
        let mut name = step.name.clone();
        for _ in 0..=MAX_DEPTH {
            match self.snapshot.find_ref(name.as_bstr())? {
                Some(Target::Symbolic(target)) if step.deref => {
                    links.insert(name, target.clone());
                    name = target;
                }
                value => return Ok((name, value)),
            }
        }
        Err(exit::no(format!(
            "{}: too many symbolic references in a row, or a circle of them",
            step.name
        )))
    }
}

/// Makes the edit of the reference `name`, which holds `value`. `None` where there is nothing to do or to compare.
fn edit(objects: &Objects<'_>, name: BString, step: &Step, value: Option<Target>) -> anyhow::Result<Option<RefEdit>> {
    let expected = match (&step.old, &value) {
        (Old::Absent, _) | (Old::Any, None) => Expected::Absent,
        (Old::Oid(oid), _) | (Old::Any, Some(Target::Object { oid, .. })) => Expected::Oid(*oid),
        (Old::Symbolic(target), _) | (Old::Any, Some(Target::Symbolic(target))) => Expected::Symbolic(target.clone()),
    };
    let mut rewinds = false;
    let new = match &step.new {
        New::Delete if value.is_none() && matches!(step.old, Old::Any) => return Ok(None),
        New::Delete => None,
        New::Symbolic(target) => {
            rewinds = matches!(value, Some(Target::Object { .. }));
            Some(Target::Symbolic(target.clone()))
        }
        New::Oid(new) => {
            let target = objects.target(name.as_bstr(), *new)?;
            rewinds = match &value {
                Some(Target::Object { oid, .. }) => !objects.is_fast_forward(*oid, *new),
                _ => false,
            };
            Some(target)
        }
        New::Keep => match &step.old {
            Old::Symbolic(target) => Some(Target::Symbolic(target.clone())),
            Old::Oid(oid) => match value {
                Some(Target::Object { oid: now, peeled }) if now == *oid => Some(Target::Object { oid: now, peeled }),
                _ => Some(Target::Object {
                    oid: *oid,
                    peeled: None,
                }),
            },
            Old::Any | Old::Absent => None,
        },
    };
    Ok(Some(RefEdit {
        name,
        expected,
        new,
        rewinds,
    }))
}

/// Commits `edits`, all or nothing, and returns what became of each.
pub fn commit(
    snapshot: &Snapshot,
    edits: Vec<RefEdit>,
    wait: u64,
    dry_run: bool,
    output: &Output,
) -> anyhow::Result<Vec<EditResult>> {
    let mut on_wait = |text: &str| output.note(text);
    let lock = LockPolicy {
        timeout: Duration::from_secs(wait),
        on_wait: Some(&mut on_wait),
        ..LockPolicy::default()
    };
    let transaction = Transaction {
        edits,
        atomic: true,
        dry_run,
        ..Transaction::default()
    };
    let outcome = archive::commit(snapshot.path(), transaction, lock)?;
    if !dry_run {
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
pub fn refuse(path: &std::path::Path, names: &[BString], results: &[EditResult]) -> anyhow::Result<()> {
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

/// Returns `name` if git allows it as the full name of a reference.
fn checked(name: BString) -> anyhow::Result<BString> {
    let full = name == "HEAD" || name.starts_with(b"refs/");
    if full && gix_validate::reference::name(name.as_bstr()).is_ok() {
        return Ok(name);
    }
    Err(exit::usage(format!(
        "'{}' is not the full name of a reference (HEAD, or refs/…)",
        escape::text(&name)
    )))
}
