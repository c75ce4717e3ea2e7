//! The edits that bring about the steps of a plan, made for one state of the archive.

use std::collections::{BTreeMap, BTreeSet};

use bstr::{BString, ByteSlice};
use gix_hash::ObjectId;
use znippy::{
    archive::Snapshot,
    refs::{Expected, MAX_IN_A_ROW, RefEdit, Target},
};

use super::{
    objects::Objects,
    plan::{New, Old, Step},
};
use crate::cli::exit;

/// The edits for a snapshot.
#[derive(Default)]
pub struct Edits {
    pub edits: Vec<RefEdit>,
    /// Whether the expectation of the edit is the caller's, and not filled in.
    pub asked: Vec<bool>,
}

impl Edits {
    /// Makes the edits that bring about `steps` if the archive is as in `snapshot`.
    ///
    /// # Errors
    /// Fails where two steps are about the same reference, and where an object is not there or of the wrong kind.
    pub fn make(snapshot: &Snapshot, steps: &[Step]) -> anyhow::Result<Edits> {
        let mut passed = Passed::default();
        let mut changed: BTreeSet<BString> = BTreeSet::new();
        let mut made = Edits::default();
        let objects = Objects::new(snapshot, steps.len());
        for step in steps {
            let (name, value) = passed.follow(snapshot, &step.name, step.deref)?;
            let old = match (&step.old, &value) {
                // git compares with the object that a symbolic reference leads to, also where it changes the reference itself.
                (Old::Oid(oid), Some(Target::Symbolic(_))) => {
                    passed.compare(snapshot, &name, *oid)?;
                    &Old::Any
                }
                (old, _) => old,
            };
            if !changed.insert(name.clone()) {
                let why = "more than one change of the same reference";
                return Err(exit::usage(format!("{name}: {why}")));
            }
            if let Some(edit) = edit(&objects, name, old, &step.new, value)? {
                made.push(edit, !matches!(old, Old::Any));
            }
        }
        for (name, value, asked) in passed.comparisons() {
            if changed.contains(&name) {
                let why = "it is changed itself, and through a symbolic reference, in one transaction";
                return Err(exit::usage(format!("{name}: {why}")));
            }
            made.push(unchanged(name, value), asked);
        }
        Ok(made)
    }

    fn push(&mut self, edit: RefEdit, asked: bool) {
        self.edits.push(edit);
        self.asked.push(asked);
    }
}

/// What else than the changed references the changes depend on.
#[derive(Default)]
struct Passed {
    /// Symbolic references on the way to a changed reference, and their targets.
    links: BTreeMap<BString, BString>,
    /// References that must hold an object, because a changed symbolic reference leads to them.
    compared: BTreeMap<BString, ObjectId>,
}

impl Passed {
    /// Returns the reference that `name` stands for, with its value, and notes the symbolic references on the way.
    fn follow(
        &mut self,
        snapshot: &Snapshot,
        name: &BString,
        deref: bool,
    ) -> anyhow::Result<(BString, Option<Target>)> {
        let mut at = name.clone();
        for _ in 0..MAX_IN_A_ROW {
            match snapshot.find_ref(at.as_bstr())? {
                Some(Target::Symbolic(target)) if deref => {
                    self.links.insert(at, target.clone());
                    at = target;
                }
                value => return Ok((at, value)),
            }
        }
        let why = "too many symbolic references in a row, or a circle of them";
        Err(exit::no(format!("{name}: {why}")))
    }

    /// Returns the values that must not change, and whether the caller asked for them.
    fn comparisons(self) -> impl Iterator<Item = (BString, Target, bool)> {
        let links = self
            .links
            .into_iter()
            .map(|(name, target)| (name, Target::Symbolic(target), false));
        let object = |oid| Target::Object { oid, peeled: None };
        links.chain(
            self.compared
                .into_iter()
                .map(move |(name, oid)| (name, object(oid), true)),
        )
    }

    /// Checks that the symbolic reference `name` leads to `oid`, and notes where.
    fn compare(&mut self, snapshot: &Snapshot, name: &BString, oid: ObjectId) -> anyhow::Result<()> {
        match Passed::default().follow(snapshot, name, true)? {
            (end, Some(Target::Object { oid: found, .. })) if found == oid => {
                self.compared.insert(end, oid);
                Ok(())
            }
            (end, _) => Err(exit::no(format!(
                "{name}: it leads to {end}, which does not hold {oid}; nothing was changed"
            ))),
        }
    }
}

/// Makes an edit that only compares.
fn unchanged(name: BString, value: Target) -> RefEdit {
    let expected = match &value {
        Target::Object { oid, .. } => Expected::Oid(*oid),
        Target::Symbolic(target) => Expected::Symbolic(target.clone()),
    };
    RefEdit {
        name,
        expected,
        new: Some(value),
        rewinds: false,
    }
}

/// Makes the edit of the reference `name`, which holds `value`. `None` where there is nothing to do or to compare.
fn edit(
    objects: &Objects<'_>,
    name: BString,
    old: &Old,
    new: &New,
    value: Option<Target>,
) -> anyhow::Result<Option<RefEdit>> {
    let expected = match (old, &value) {
        (Old::Absent, _) | (Old::Any, None) => Expected::Absent,
        (Old::Oid(oid), _) | (Old::Any, Some(Target::Object { oid, .. })) => Expected::Oid(*oid),
        (Old::Symbolic(target), _) | (Old::Any, Some(Target::Symbolic(target))) => Expected::Symbolic(target.clone()),
    };
    let mut rewinds = false;
    let new = match new {
        New::Delete if name == "HEAD" => {
            return Err(exit::no("HEAD: it cannot be deleted, only be set to another branch"));
        }
        New::Delete if value.is_none() && matches!(old, Old::Any) => return Ok(None),
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
        New::Keep => match old {
            Old::Symbolic(target) => Some(Target::Symbolic(target.clone())),
            Old::Oid(oid) => Some(Target::Object {
                oid: *oid,
                peeled: None,
            }),
            Old::Absent => None,
            Old::Any => value,
        },
    };
    Ok(Some(RefEdit {
        name,
        expected,
        new,
        rewinds,
    }))
}
