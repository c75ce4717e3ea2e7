//! Where the references lie after a commit: in the footer, in a run, or in a new base.

use bstr::BString;
use gix_hash::Kind;

use crate::{
    format::{
        footer::{RefsRow, RefsState},
        row::RefRow,
    },
    refs::{
        Target,
        inline::{self, Changes},
        view::{RefView, ref_row},
    },
};

/// Decides where the references lie after `changes`, and returns the rows of a checkpoint where one is due.
///
/// The footer keeps the newest changes while they are few; then they move into a run, which is rewritten with what comes
/// after it until it would be a good part of the base; then all references become the new base. So a push writes some
/// hundred bytes for references on average, and a reader needs one read for the base and one for the run.
pub fn place_refs(
    refs: &mut RefsState,
    view: &RefView,
    changes: &Changes,
    block: usize,
    row: usize,
    kind: Kind,
) -> Option<Vec<RefRow>> {
    let mut inline = view.inline.clone();
    inline.extend(changes.clone());
    let own = |row| {
        Some(RefsRow {
            block,
            row,
            prefix_len: 0,
        })
    };
    if refs.base.is_none() {
        // The first commit holds all references there are.
        *refs = RefsState {
            base: own(row),
            run: None,
            inline: vec![],
            rewound: refs.rewound,
        };
        return None;
    }
    if let Some(bytes) = inline::encode(&inline).filter(|bytes| bytes.len() <= inline::MAX_LEN) {
        refs.inline = bytes;
        return None;
    }
    refs.inline = vec![];
    let mut run = view.changes_since_base();
    run.extend(changes.clone());
    let ref_len = |name_len: usize| 3 * kind.len_in_bytes() + name_len;
    let run_len: usize = run.keys().map(|name| ref_len(name.len())).sum();
    let base_len = view.base.as_ref().map_or(0, |base| base.len() * ref_len(24));
    // Rewriting a run of length R every MAX_LEN bytes of changes, and a base of length B every R bytes, costs least where R is
    // about the root of B × MAX_LEN.
    let best_len = ((base_len * inline::MAX_LEN) as f64).sqrt() as usize;
    if run_len <= best_len.max(16 << 10) {
        refs.run = own(row + 1);
        return Some(
            run.iter()
                .map(|(name, target)| restated(name, target.as_ref()))
                .collect(),
        );
    }
    let mut all = view.all();
    for (name, target) in changes {
        match target {
            Some(target) => drop(all.insert(name.clone(), target.clone())),
            None => drop(all.remove(name)),
        }
    }
    (refs.base, refs.run) = (own(row + 1), None);
    Some(all.iter().map(|(name, target)| restated(name, Some(target))).collect())
}

/// Returns a row element of a checkpoint, which says what is: old and new value are the same.
pub fn restated(name: &BString, target: Option<&Target>) -> RefRow {
    ref_row(name.clone(), target, target)
}

/// Returns the row elements of a push.
pub fn ref_rows(view: &RefView, changes: &Changes) -> Vec<RefRow> {
    let row = |(name, new): (&BString, &Option<Target>)| {
        ref_row(name.clone(), view.find(name.as_ref()).as_ref(), new.as_ref())
    };
    changes.iter().map(row).collect()
}
