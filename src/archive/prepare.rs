//! Laying a transaction out as rows and bytes behind a state.

use std::{
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use super::{
    NewPack,
    append::PackSource,
    merge::Merge,
    place_refs::{place_refs, ref_rows},
};
use crate::{
    error::{Error, Result},
    format::{
        MAX_FOOTER_LEN, columns,
        commit::{EncodedCommit, encode},
        footer::Totals,
        object_index,
        recover::State,
        row::{PackMeta, Proof, Row, RowKind},
    },
    refs::{inline::Changes, view::RefView},
};

/// A previous time further than this ahead of the clock is a mistake that must not be inherited.
const MAX_CLOCK_LEAD_US: i64 = 24 * 60 * 60 * 1_000_000;

/// What to append: the rows' contents before they have numbers and places.
#[derive(Default)]
pub struct Addition {
    pub packs: Vec<NewPack>,
    pub changes: Changes,
    pub rewound: bool,
    pub actor: Option<bstr::BString>,
    pub settings: Vec<(String, Vec<u8>)>,
    /// Something that was found out about an older row.
    pub index: Option<IndexAddition>,
    /// All settings of the archive, where they are others than before.
    pub policy: Option<Vec<(String, Vec<u8>)>>,
    /// How many objects are damaged then without another copy, and how many entries, where that is not none.
    pub damage: Option<(u64, u64)>,
    /// Older rows that move along.
    pub merge: Option<Merge>,
    /// Where the commit counts before it is synced; `None` for one that is synced before it is told of.
    pub residence: Option<String>,
}

/// A row about an older row, and what it changes in the totals.
pub struct IndexAddition {
    /// Number and time are set when it is appended.
    pub row: Row,
    /// A pack is proven that was not.
    pub proven: bool,
    /// Objects that are resolved and were not.
    pub resolved: u64,
}

/// An addition that is laid out behind a state, with the packs whose bytes are still to be copied.
pub struct Prepared {
    pub commit: EncodedCommit,
    pub packs: Vec<PackSource>,
}

/// Lays an addition out behind `state`.
///
/// The last pack goes into the row with the reference changes; every other pack has a row of its own before it, so that no
/// row shows a reference before its objects.
pub fn prepare(path: &Path, state: &State, view: &RefView, addition: Addition) -> Result<Prepared> {
    let kind = state.footer.ident.object_format;
    let mut footer = state.footer.clone();
    footer.sequence += 1;
    footer.totals.dead_bytes += state.footer_len + (state.append - state.footer_end);
    let (mut rows, mut packs, mut level) = (vec![], vec![], 0);
    if let Some(merge) = addition.merge {
        let moved = |row: &mut crate::format::footer::RefsRow| {
            let block = &state.footer.blocks[row.block];
            row.block = merge
                .kept
                .iter()
                .position(|kept| kept == block)
                .expect("batches of references are not merged");
        };
        [&mut footer.refs.base, &mut footer.refs.run]
            .into_iter()
            .flatten()
            .for_each(moved);
        footer.blocks = merge.kept;
        footer.totals.dead_bytes += merge.dead_bytes;
        (rows, packs, level) = (merge.rows, merge.packs, merge.level);
    }
    if let Some(damage) = addition.damage {
        (footer.totals.damaged, footer.totals.damaged_entries) = damage;
    }
    let time_us = now_us(state.footer.totals.last_time_us);
    footer.totals.last_time_us = time_us;
    let moved_rows = rows.len();
    let totals = &mut footer.totals;
    let last_pack = addition.packs.len().saturating_sub(1);
    for (nth, mut pack) in addition.packs.into_iter().enumerate() {
        // R12: what it leads to may be in a pack behind it, and a row must be true by itself.
        if nth < last_pack && pack.proof == Proof::Closed {
            pack.proof = Proof::Names;
        }
        let mut row = new_row(totals, time_us, RowKind::Push);
        let source = PackSource::new(&pack)?;
        add_pack(&mut row, totals, pack, source.len());
        rows.push(row);
        packs.push(source);
    }
    if let Some(IndexAddition { row, proven, resolved }) = addition.index {
        totals.unproven = totals.unproven.saturating_sub(u64::from(proven));
        totals.unresolved = totals.unresolved.saturating_sub(resolved);
        let Row { txn, time_us, .. } = new_row(totals, time_us, RowKind::Index);
        rows.push(Row { txn, time_us, ..row });
    }
    let config_actor = addition.policy.as_ref().and_then(|_| addition.actor.clone());
    if !addition.changes.is_empty() {
        if rows.len() == moved_rows {
            rows.push(new_row(totals, time_us, RowKind::Push));
        }
        let last = rows.len() - 1;
        rows[last].actor = addition.actor;
        rows[last].settings = addition.settings;
        rows[last].refs = ref_rows(view, &addition.changes);
        let block = footer.blocks.len();
        if let Some(refs) = place_refs(&mut footer.refs, view, &addition.changes, block, last, kind) {
            let mut row = new_row(&mut footer.totals, time_us, RowKind::Checkpoint);
            row.covers = footer.refs.run.is_none().then(|| (0, row.txn - 1));
            row.refs = refs;
            rows.push(row);
        }
    }
    if let Some(policy) = addition.policy {
        let mut row = new_row(&mut footer.totals, time_us, RowKind::Config);
        row.settings = policy.iter().map(policy_setting).collect();
        row.actor = config_actor;
        rows.push(row);
        footer.policy = policy;
    }
    footer.refs.rewound |= addition.rewound;
    let pack_ids: Vec<u8> = rows
        .iter()
        .flat_map(|row| row.pack)
        .flat_map(|pack| pack.id.as_slice().to_vec())
        .collect();
    let columns = columns::encode(rows, kind).map_err(|why| Error::Invalid(format!("{}: {why}", path.display())))?;
    let (previous, residence) = (state.footer.commit_id, addition.residence.as_deref());
    let commit = encode(columns, state.append, previous, &pack_ids, footer, level, residence);
    if commit.footer_bytes.len() as u64 > MAX_FOOTER_LEN {
        // Readers would refuse it.
        let batches = commit.footer.blocks.len();
        return Err(Error::Invalid(format!(
            "{}: {batches} live batches are too many for one archive",
            path.display()
        )));
    }
    Ok(Prepared { commit, packs })
}

/// Gives a row its pack's table and metadata, and counts them.
fn add_pack(row: &mut Row, totals: &mut Totals, pack: NewPack, len: u64) {
    let entries = pack.entries;
    totals.packs += 1;
    totals.pack_bytes += len;
    totals.objects += entries.len() as u64;
    totals.unresolved += match entries.kinds.is_empty() {
        true => entries.len() as u64,
        false => entries.kinds.iter().filter(|kind| **kind == 0).count() as u64,
    };
    totals.unproven += u64::from(pack.proof == Proof::None);
    row.proof = pack.proof;
    row.index = (entries.len() >= object_index::MIN_OBJECTS).then(|| object_index::encode(&entries));
    row.objects = entries;
    row.commits = pack.commits;
    row.pack = Some(PackMeta { len, id: pack.id });
}

/// Starts the row of a new transaction.
pub fn new_row(totals: &mut Totals, time_us: i64, kind: RowKind) -> Row {
    totals.last_txn += 1;
    Row::new(totals.last_txn, time_us, kind)
}

/// Returns how the log states a setting.
fn policy_setting((key, value): &(String, Vec<u8>)) -> (String, Vec<u8>) {
    ("policy".into(), [key.as_bytes(), b"=", value].concat())
}

/// Returns the time of a new row: now, but never before the row before it, unless that one is impossibly far ahead.
pub fn now_us(previous_us: i64) -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as i64);
    not_before(previous_us, now)
}

fn not_before(previous_us: i64, now: i64) -> i64 {
    if previous_us > now + MAX_CLOCK_LEAD_US {
        now
    } else {
        now.max(previous_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R15: a clock that went back does not make times go back, and one that was a day ahead is not followed.
    #[test]
    fn r15_times_do_not_go_back_and_a_mad_clock_is_not_followed() {
        let now = 1_800_000_000_000_000;
        assert_eq!(not_before(now - 5, now), now);
        assert_eq!(not_before(now + 5, now), now + 5);
        assert_eq!(not_before(now + MAX_CLOCK_LEAD_US, now), now + MAX_CLOCK_LEAD_US);
        assert_eq!(not_before(now + MAX_CLOCK_LEAD_US + 1, now), now);
        assert_eq!(MAX_CLOCK_LEAD_US, 86_400_000_000);
    }
}
