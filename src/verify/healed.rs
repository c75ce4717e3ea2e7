//! Damaged entries of which there is another copy, and objects of which there is none.

use std::collections::HashSet;

use gix_hash::ObjectId;

use super::{Check, Code, Level, Severity, affected::Suspects};
use crate::{
    archive::Snapshot,
    pack::{PackRank, PackStore},
};

/// Says of each damaged entry where a good copy of its object is. Where look-ups take that one, because the archive knows of the
/// damage, nothing that counts is lost.
pub(super) fn settle(check: &mut Check<'_>, snapshot: &Snapshot, suspects: &mut Suspects) {
    if suspects.damaged.is_empty() {
        return;
    }
    let bad = suspects.damaged_places();
    let known = snapshot.damaged_entries().ok().flatten();
    let mut healed = HashSet::new();
    for (number, rank, oid) in suspects.objects() {
        let finding = &mut check.findings[*number];
        let Some(offset) = finding
            .pack_offset
            .filter(|_| matches!(finding.code, Code::Entry | Code::Object))
        else {
            continue;
        };
        let Some(copy) = good_copy(snapshot, oid, &bad) else {
            continue;
        };
        let name = snapshot.pack_name(copy);
        let is_known = known.as_ref().is_some_and(|known| known.contains_key(&(*rank, offset)));
        if is_known {
            finding.severity = Severity::Warning;
            finding.what = format!(
                "{}; the good copy in pack {name} counts, and a gc leaves this one behind",
                finding.what
            );
            healed.insert(*number);
        } else {
            finding.what = format!("{}; a good copy is in pack {name}", finding.what);
        }
    }
    suspects.clear(|number| healed.contains(&number));
}

/// Notes what is lost, for a repair: damaged without a good copy, or missing.
pub(super) fn note_lost(check: &mut Check<'_>, snapshot: &Snapshot, suspects: &Suspects) {
    if check.level < Level::Full {
        return;
    }
    let bad = suspects.damaged_places();
    let damaged = suspects.damaged.iter().map(|(.., oid)| *oid);
    let mut lost: HashSet<ObjectId> = damaged.filter(|oid| good_copy(snapshot, oid, &bad).is_none()).collect();
    let missing = check.findings.iter().filter(|finding| finding.code == Code::Missing);
    lost.extend(missing.filter_map(|finding| finding.oid));
    check.repairable.lost = lost.into_iter().collect();
    check.repairable.lost.sort_unstable();
}

/// Returns the pack with a copy of an object that is not among the bad ones.
fn good_copy(snapshot: &Snapshot, oid: &ObjectId, bad: &HashSet<(PackRank, u64)>) -> Option<PackRank> {
    (0..snapshot.packs()).find(|rank| {
        let Ok(table) = snapshot.entries(*rank) else {
            return false;
        };
        table
            .find(oid)
            .is_some_and(|row| !bad.contains(&(*rank, table.offsets[row])))
    })
}
