//! The edits that bring about the steps of a plan, made for one state of the archive.

use std::collections::BTreeMap;

use bstr::{BString, ByteSlice};
use znippy::{
    archive::Snapshot,
    refs::{Expected, RefEdit, Target},
};

use super::{
    objects::Objects,
    plan::{New, Old, Step},
};
use crate::cli::exit;

/// Symbolic references are followed this far, as in git.
const MAX_DEPTH: usize = 5;

/// The edits for a snapshot.
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
        let mut links: BTreeMap<BString, BString> = BTreeMap::new();
        let mut ends: BTreeMap<BString, (&Step, Option<Target>)> = BTreeMap::new();
        for step in steps {
            let (name, value) = follow(snapshot, step, &mut links)?;
            if ends.insert(name.clone(), (step, value)).is_some() {
                return Err(exit::usage(format!(
                    "{name}: more than one change of the same reference"
                )));
            }
        }
        let objects = Objects::new(snapshot);
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
}

/// Returns the reference that `step` is about, with its value, and notes the symbolic references on the way.
fn follow(
    snapshot: &Snapshot,
    step: &Step,
    links: &mut BTreeMap<BString, BString>,
) -> anyhow::Result<(BString, Option<Target>)> {
    let mut name = step.name.clone();
    for _ in 0..=MAX_DEPTH {
        match snapshot.find_ref(name.as_bstr())? {
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
