//! The history of the references: whether each change follows from the one before, and the last ones make what is shown.

use std::collections::BTreeMap;

use bstr::BString;
use gix_hash::ObjectId;

use super::{Check, Code, Finding, Severity};
use crate::{
    archive::Snapshot,
    format::row::{RefRow, RowKind},
    refs::Target,
};

/// What a row says of references.
pub(super) struct LoggedRow {
    pub txn: u64,
    pub kind: RowKind,
    pub covers: Option<(u64, u64)>,
    pub refs: Vec<RefRow>,
}

/// Replays the rows and compares with what a reader sees.
pub(super) fn check(check: &mut Check<'_>, snapshot: &Snapshot, mut log: Vec<LoggedRow>) {
    // A rewrite restates all references as of the last row that it keeps, in a row that stands before them.
    let restates_all = |row: &LoggedRow| row.covers.filter(|(from, _)| *from == 0 && row.kind != RowKind::Index);
    let place = |row: &LoggedRow| match (row.kind, restates_all(row)) {
        (RowKind::Gc, Some((_, to))) => (to, true),
        _ => (row.txn, false),
    };
    log.sort_by_key(place);
    let mut replay = Replay {
        now: BTreeMap::new(),
        // A rewrite may have left out what is too old.
        is_complete: log.first().is_some_and(|row| row.txn == 1) && log.iter().all(|row| row.kind != RowKind::Gc),
    };
    for row in &log {
        if restates_all(row).is_some() && !replay.is_complete {
            let targets = row
                .refs
                .iter()
                .filter_map(|edit| Some((edit.name.clone(), target(edit)?)));
            replay = Replay {
                now: targets.collect(),
                is_complete: true,
            };
            continue;
        }
        let restates = row.kind != RowKind::Push;
        let wrong: Vec<BString> = row
            .refs
            .iter()
            .filter_map(|edit| replay.apply(edit, restates))
            .collect();
        if replay.is_complete && !wrong.is_empty() {
            let what = format!("{} changes of references do not follow from those before", wrong.len());
            let mut finding = Finding::new(Severity::Warning, Code::RefLog, what);
            finding.txn = Some(row.txn);
            finding.affects(wrong);
            check.find(finding);
        }
    }
    let Ok(view) = snapshot.ref_view() else {
        return;
    };
    let shown = view.all();
    if !replay.is_complete || shown == replay.now {
        return;
    }
    let names = shown.keys().chain(replay.now.keys());
    let differ: Vec<BString> = names
        .filter(|name| shown.get(*name) != replay.now.get(*name))
        .cloned()
        .collect();
    let what = "the references that are shown are not what their history leads to";
    let mut finding = Finding::new(Severity::Damage, Code::Refs, what);
    finding.affects(differ);
    check.find(finding);
}

struct Replay {
    now: BTreeMap<BString, Target>,
    /// Whether all references as of now are known.
    is_complete: bool,
}

impl Replay {
    /// Applies a change, or checks one that is only restated. Returns the name where it does not fit what was before.
    fn apply(&mut self, edit: &RefRow, restated: bool) -> Option<BString> {
        let before = match self.now.get(&edit.name) {
            Some(Target::Object { oid, .. }) => Some(*oid),
            _ => None,
        };
        let new = target(edit);
        let fits = match restated && self.is_complete {
            true => self.now.get(&edit.name) == new.as_ref(),
            false => before == edit.old_oid,
        };
        match new {
            Some(new) => drop(self.now.insert(edit.name.clone(), new)),
            None => drop(self.now.remove(&edit.name)),
        }
        (!fits).then(|| edit.name.clone())
    }
}

fn target(edit: &RefRow) -> Option<Target> {
    let object = |oid: ObjectId| Target::Object {
        oid,
        peeled: edit.peeled_oid,
    };
    match &edit.symref {
        Some(symref) => Some(Target::Symbolic(symref.clone())),
        None => edit.new_oid.map(object),
    }
}
