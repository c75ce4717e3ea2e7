//! Applying a transaction's edits to the references, under git's rules.

use bstr::{BStr, BString, ByteSlice};
use gix_hash::oid;

use super::{EditResult, Expected, MAX_IN_A_ROW, RefEdit, Rejection, Target, inline::Changes, name, view::RefView};
use crate::error::Result;

/// Tells why an edit of a reference is not allowed; the value is the one that it holds.
pub type Forbids<'a> = dyn Fn(&RefEdit, Option<&Target>) -> Result<Option<Rejection>> + 'a;

/// What a transaction does to the references.
#[derive(Debug)]
pub struct Applied {
    /// One result an edit, in the order given.
    pub results: Vec<EditResult>,
    /// The new values, the move of HEAD included.
    pub changes: Changes,
    /// HEAD's new target, where this moved it without being asked to.
    pub head_moved: Option<BString>,
    /// The transaction deleted the branch that HEAD named, and no other fits.
    pub head_unborn: bool,
    /// An old value may have become unreachable.
    pub rewound: bool,
}

/// What is known of the objects in the archive and of those that come with the transaction.
pub struct Objects<'a> {
    /// Tells whether an object is there.
    pub exists: &'a dyn Fn(&oid) -> Result<bool>,
    /// Tells whether an object that is there is a commit.
    pub is_commit: &'a dyn Fn(&oid) -> Result<bool>,
}

/// Judges the edits against `view` and each other. `objects` is what they may name. HEAD is moved along where it would name no branch: to the first of `head_candidates` that exists
/// afterwards, else main, master, or the only branch. `forbids` tells why a reference with this value may not be changed.
///
/// # Errors
/// Only what `objects` and `forbids` report.
pub fn apply(
    view: &RefView,
    edits: &[RefEdit],
    atomic: bool,
    head_candidates: &[BString],
    objects: &Objects<'_>,
    forbids: &Forbids<'_>,
) -> Result<Applied> {
    let mut applied = Applied {
        results: vec![EditResult::Unchanged; edits.len()],
        changes: Changes::new(),
        head_moved: None,
        head_unborn: false,
        rewound: false,
    };
    // Deletions first: they make room for names that conflict with what they delete.
    let order = (0..edits.len()).filter(|i| edits[*i].new.is_none());
    for index in order.chain((0..edits.len()).filter(|i| edits[*i].new.is_some())) {
        applied.results[index] = one(view, &edits[index], &mut applied, objects, forbids)?;
    }
    let rejected = |result: &EditResult| matches!(result, EditResult::Rejected(_));
    if atomic && applied.results.iter().any(rejected) {
        for result in applied.results.iter_mut().filter(|result| !rejected(result)) {
            *result = EditResult::Rejected(Rejection::Atomic);
        }
        applied.changes.clear();
        applied.rewound = false;
    }
    if !applied.changes.is_empty() {
        move_head(view, head_candidates, &mut applied);
    }
    Ok(applied)
}

fn one(
    view: &RefView,
    edit: &RefEdit,
    applied: &mut Applied,
    objects: &Objects<'_>,
    forbids: &Forbids<'_>,
) -> Result<EditResult> {
    let rejected = |rejection| Ok(EditResult::Rejected(rejection));
    let edit_name = edit.name.as_bstr();
    if edit.new.is_some()
        && let Err(why) = name::validate(edit_name)
    {
        return rejected(Rejection::InvalidName(why));
    }
    if applied.changes.contains_key(edit_name) {
        return rejected(Rejection::InvalidName(format!(
            "'{edit_name}' occurs twice in one transaction"
        )));
    }
    if edit_name == "HEAD" && edit.new.is_none() {
        return rejected(Rejection::WrongTarget("HEAD cannot be deleted".into()));
    }
    let old = view.find(edit_name);
    // First of all: of a reference that is hidden from the caller, its value is not to be told.
    if !same(old.as_ref(), edit.new.as_ref())
        && let Some(rejection) = forbids(edit, old.as_ref())?
    {
        return rejected(rejection);
    }
    if let Some(rejection) = compare(&edit.expected, old.as_ref()) {
        return rejected(rejection);
    }
    if same(old.as_ref(), edit.new.as_ref()) {
        return Ok(EditResult::Unchanged);
    }
    if let Some(new) = &edit.new {
        if let Some(conflict) = old
            .is_none()
            .then(|| conflict(view, &applied.changes, edit_name))
            .flatten()
        {
            return rejected(Rejection::Conflict(conflict));
        }
        if old.is_none()
            && let Err(why) = name::fits(edit_name)
        {
            return rejected(Rejection::InvalidName(why));
        }
        match new {
            Target::Object { oid, .. } if edit_name == "HEAD" => {
                return rejected(Rejection::WrongTarget(format!(
                    "HEAD must name a branch, not object {oid}"
                )));
            }
            Target::Object { oid, .. } if !(objects.exists)(oid)? => return rejected(Rejection::MissingObject(*oid)),
            Target::Object { oid, .. } if edit_name.starts_with(b"refs/heads/") && !(objects.is_commit)(oid)? => {
                return rejected(Rejection::WrongTarget(format!(
                    "a branch must point at a commit, and {oid} is none"
                )));
            }
            Target::Object { .. } => {}
            Target::Symbolic(target) => {
                if let Err(why) = check_symref(view, &applied.changes, edit_name, target.as_ref()) {
                    return rejected(Rejection::WrongTarget(why));
                }
            }
        }
    }
    applied.rewound |= edit.rewinds || edit.new.is_none() && old.is_some();
    applied.changes.insert(edit.name.clone(), edit.new.clone());
    Ok(EditResult::Applied { old })
}

/// Returns the rejection where a reference does not hold what was expected.
fn compare(expected: &Expected, found: Option<&Target>) -> Option<Rejection> {
    let describe = |target: Option<&Target>| match target {
        None => "nothing".to_string(),
        Some(Target::Object { oid, .. }) => oid.to_string(),
        Some(Target::Symbolic(name)) => format!("ref: {name}"),
    };
    let (fits, wanted) = match (expected, found) {
        (Expected::Any, _) => (true, String::new()),
        (Expected::Absent, found) => (found.is_none(), describe(None)),
        (Expected::Present, found) => (found.is_some(), "any value".into()),
        (Expected::Oid(wanted), found) => (
            matches!(found, Some(Target::Object { oid, .. }) if oid == wanted),
            wanted.to_string(),
        ),
        (Expected::Symbolic(wanted), found) => (
            matches!(found, Some(Target::Symbolic(name)) if name == wanted),
            format!("ref: {wanted}"),
        ),
    };
    (!fits).then(|| Rejection::Stale {
        expected: wanted,
        found: describe(found),
    })
}

/// Two values are the same where the object or the name is; what a tag peels to follows from the object.
fn same(old: Option<&Target>, new: Option<&Target>) -> bool {
    match (old, new) {
        (None, None) => true,
        (Some(Target::Object { oid: old, .. }), Some(Target::Object { oid: new, .. })) => old == new,
        (Some(Target::Symbolic(old)), Some(Target::Symbolic(new))) => old == new,
        _ => false,
    }
}

/// Returns the reference's value after the changes so far.
fn after(view: &RefView, changes: &Changes, name: &BStr) -> Option<Target> {
    changes.get(name).cloned().unwrap_or_else(|| view.find(name))
}

/// Returns a reference that `name` cannot exist beside: one that it is below of, or one below it.
fn conflict(view: &RefView, changes: &Changes, name: &BStr) -> Option<BString> {
    let above = name::parents(name).find(|parent| after(view, changes, parent).is_some());
    let below = || {
        let prefix = [name.as_bytes(), b"/"].concat();
        let new = changes
            .range(BString::from(prefix.clone())..)
            .take_while(|(n, _)| n.starts_with(&prefix));
        let mut new = new.filter(|(_, target)| target.is_some()).map(|(n, _)| n.clone());
        new.next()
            .or_else(|| view.child_of(name, |child| changes.contains_key(child)))
    };
    above.map(ToOwned::to_owned).or_else(below)
}

fn check_symref(view: &RefView, changes: &Changes, name: &BStr, target: &BStr) -> Result<(), String> {
    name::validate(target)?;
    name::fits(target)?;
    if name == "HEAD" && !target.starts_with(b"refs/heads/") {
        return Err(format!("HEAD must name a branch below refs/heads/, not '{target}'"));
    }
    let mut at = target.to_owned();
    let above = levels_above(view, changes, name);
    for _ in above + 1..MAX_IN_A_ROW {
        if at == name {
            return Err(format!("'{name}' would refer to itself"));
        }
        match after(view, changes, at.as_ref()) {
            Some(Target::Symbolic(next)) => at = next,
            _ => return Ok(()),
        }
    }
    Err(format!(
        "with '{name}' naming '{target}', more than {MAX_IN_A_ROW} references would follow each other: git does not read that"
    ))
}

/// Returns how many symbolic references lead to `name`, one by way of the other, on the longest way.
fn levels_above(view: &RefView, changes: &Changes, name: &BStr) -> usize {
    let mut links = view.all();
    for (name, target) in changes {
        match target {
            Some(target) => links.insert(name.clone(), target.clone()),
            None => links.remove(name),
        };
    }
    links.retain(|_, target| matches!(target, Target::Symbolic(_)));
    let mut level = vec![name.to_owned()];
    for above in 0..MAX_IN_A_ROW {
        let leads_here = |target: &Target| matches!(target, Target::Symbolic(to) if level.contains(to));
        let next: Vec<_> = links
            .iter()
            .filter(|(_, target)| leads_here(target))
            .map(|(name, _)| name.clone())
            .collect();
        if next.is_empty() {
            return above;
        }
        level = next;
    }
    MAX_IN_A_ROW
}

/// Lets HEAD name a branch that exists, where the transaction took its branch away or brings the first branches.
fn move_head(view: &RefView, candidates: &[BString], applied: &mut Applied) {
    let head: &BStr = "HEAD".into();
    let changes = &applied.changes;
    if changes.contains_key(head) {
        return;
    }
    let is_branch = |name: &BStr| name.starts_with(b"refs/heads/");
    let exists = |name: &BStr| after(view, changes, name).is_some();
    let old = match view.find(head) {
        Some(Target::Symbolic(name)) if exists(name.as_ref()) => return,
        Some(Target::Symbolic(name)) => Some(name),
        Some(Target::Object { .. }) => return,
        None => None,
    };
    let deleted = old.as_ref().is_some_and(|name| matches!(changes.get(name), Some(None)));
    // A HEAD that somebody set to a branch yet to come stays, unless there was no branch at all to name.
    if !deleted && old.is_some() && view.child_of("refs/heads".into(), |_| false).is_some() {
        return;
    }
    let defaults = ["refs/heads/main", "refs/heads/master"].map(BString::from);
    let branch = |name: &&BString| is_branch(name.as_ref());
    let wanted = candidates
        .iter()
        .chain(old.iter().filter(|_| !deleted))
        .chain(&defaults);
    let mut existing = wanted.filter(branch).filter(|name| exists(name.as_ref())).cloned();
    let only = || {
        let new = changes
            .iter()
            .filter(|(_, target)| target.is_some())
            .map(|(name, _)| name.clone());
        let kept = view.all().into_keys().filter(|name| !changes.contains_key(name));
        RefView::only_branch(new.chain(kept))
    };
    let target = match existing.next().or_else(only) {
        Some(target) => target,
        None if old.is_none() => candidates
            .iter()
            .find(branch)
            .cloned()
            .unwrap_or_else(|| defaults[0].clone()),
        None => {
            applied.head_unborn = deleted;
            return;
        }
    };
    applied.head_moved = Some(target.clone());
    applied.changes.insert(head.to_owned(), Some(Target::Symbolic(target)));
}
