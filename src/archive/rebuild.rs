//! A footer that was damaged after its commit had been confirmed, made again.
//!
//! Everything that a footer says follows from the footer before it and from the rows of its commit; which commit that must be is
//! in the slot. So where the commit itself is whole, the state that it made can be told, and the next commit continues it. Where
//! it is not, the state before counts again, and the bytes behind it are kept as damaged bytes are.

use std::{collections::HashSet, path::Path, sync::Arc};

use super::{
    Snapshot, WritePolicy, damage,
    place_refs::place_refs,
    prepare::{Addition, IndexAddition},
    writer::{self, Handle, with_handle, with_writer},
};
use crate::{
    error::Result,
    format::{
        align_up,
        batch::{Batch, ReadError},
        footer::{BlockRef, Footer},
        geometry::{Geometry, PREFIX_LEN, decode_prefix},
        recover::{Check, Recovered, Scrutiny, State, Tail, check_commit, check_pack_hash, follow_tail},
        row::{Proof, RefRow, Row, RowKind},
        slot::Slot,
    },
    media::{DiskFile, read_vec},
    refs::{Target, inline::Changes},
};

/// The key of the setting of the row that the repair appends.
const KEY: &str = "repaired";
/// How the reason begins for which a commit is taken for damaged bytes.
const LOST: &str = "its footer cannot be made again: ";

/// Repairs an archive whose newest footer cannot be read, and says what was done. To be called only where that is so.
///
/// # Errors
/// As a commit.
pub fn rebuild_footer(path: &Path, policy: &mut WritePolicy<'_>) -> Result<String> {
    let mut handle = Handle::new(policy.durability);
    handle.mend = Some(mend);
    let done = with_handle(&mut handle, path, None, policy, |writer, policy| {
        match writer.tail().clone() {
            Tail::Damaged { why, .. } if why.starts_with(LOST) => {
                let why = &why[LOST.len()..];
                writer::confirm(writer)?;
                Ok(format!(
                    "the newest commit cannot be told from what is left of it ({why}): the state before it counts again, its bytes are kept"
                ))
            }
            _ => {
                let commit = writer.snapshot.state().footer.commit_id.to_string();
                let row = Row {
                    settings: vec![(KEY.into(), format!("footer of {commit}").into_bytes())],
                    ..Row::new(0, 0, RowKind::Index)
                };
                let index = Some(IndexAddition {
                    row,
                    proven: false,
                    resolved: 0,
                });
                let addition = Addition {
                    index,
                    ..Addition::default()
                };
                writer.append(addition, policy)?;
                Ok(format!("the footer of commit {commit} was made again from its rows"))
            }
        }
    })?;
    // Now both slots name a footer that can be read.
    with_writer(path, None, policy, |writer, _| writer::restate_slot(writer))?;
    Ok(done)
}

/// Returns the state that `slot` names, whose footer cannot be read, or the one before it with what is behind that as damage.
pub(super) fn mend(
    path: &Path,
    file: &Arc<dyn DiskFile>,
    slot: Slot,
    len: u64,
    found: Recovered,
) -> Result<Recovered, ReadError> {
    let mut found = found;
    // The last readable state may be several commits back.
    loop {
        let State { footer, append, .. } = &found.state;
        let previous = (footer.commit_id, footer.sequence);
        match check_commit(
            file.as_ref(),
            Some(&footer.ident),
            previous,
            *append,
            len,
            Scrutiny::EveryByte,
        )? {
            Check::Whole(state) if state.footer_end < slot.footer_end => found.state = *state,
            _ => break,
        }
    }
    let before = Snapshot::new(path, file.clone(), found.clone(), len);
    match rebuild(&before, &slot) {
        Ok(state) => {
            let mut rebuilt = Recovered {
                state,
                slot: Some(slot),
                tail: Tail::Clean,
                ..found
            };
            // Commits may follow that no slot names yet.
            follow_tail(file.as_ref(), &mut rebuilt, len, Scrutiny::EveryByte);
            Ok(rebuilt)
        }
        Err(ReadError::Damaged(why)) => Ok(Recovered {
            tail: Tail::Damaged {
                commits: 0,
                at: found.state.append,
                why: format!("{LOST}{why}"),
            },
            slot: Some(slot),
            ..found
        }),
        Err(error) => Err(error),
    }
}

/// Makes the state of the commit behind that of `before` from its rows.
fn rebuild(before: &Snapshot, slot: &Slot) -> Result<State, ReadError> {
    let (medium, old) = (before.medium(), before.state());
    let kind = old.footer.ident.object_format;
    let at = old.append;
    let damaged = |what: &str| ReadError::Damaged(what.into());
    let prefix = read_vec(medium, at, PREFIX_LEN)?;
    let metadata_len = decode_prefix(&prefix).ok_or_else(|| damaged("no message follows the commit before"))?;
    let metadata = read_vec(medium, at, metadata_len as usize)?;
    let geometry = Geometry::decode(&metadata, kind)?;
    let block = BlockRef {
        offset: at,
        metadata_len,
        body_len: geometry.body_len,
        level: 0,
    };
    if geometry.previous != old.footer.commit_id || block.end() != slot.footer_end {
        return Err(damaged("more than one commit follows the one before"));
    }
    let batch = Batch::from_metadata(&metadata, block, kind)?;
    let packs = batch.packs(medium)?;
    let ids: Vec<u8> = packs.iter().flat_map(|pack| pack.id.as_slice().to_vec()).collect();
    let sequence = old.footer.sequence + 1;
    let name = old
        .footer
        .ident
        .commit_id(sequence, geometry.previous, &geometry.row_checksum, &ids);
    if name != slot.commit_id {
        return Err(damaged(
            "what follows the commit before is not the commit that the slot names",
        ));
    }
    for pack in &packs {
        check_pack_hash(medium, pack.at, pack.len, &pack.id)?;
    }
    let rows = batch.rows(medium)?;
    if rows.iter().any(|row| row.is_foreign) {
        return Err(damaged("it has rows of a later version"));
    }
    let mut footer = old.footer.clone();
    (footer.sequence, footer.commit_id) = (sequence, name);
    footer.totals.dead_bytes += old.footer_len + (old.append - old.footer_end);
    let level = drop_moved(before, &rows, &mut footer)?;
    let last_txn = old.footer.totals.last_txn;
    let own = footer.blocks.len();
    footer.blocks.push(BlockRef { level, ..block });
    if let Some(edits) = rows
        .iter()
        .position(|row| row.txn > last_txn && row.kind == RowKind::Push && !row.refs.is_empty())
    {
        let changes = changes(&rows[edits]);
        let view = before
            .ref_view()
            .map_err(|error| ReadError::Damaged(error.to_string()))?;
        let checkpoint = place_refs(&mut footer.refs, view, &changes, own, edits, kind).is_some();
        let has_one = rows.get(edits + 1).is_some_and(|row| row.kind == RowKind::Checkpoint);
        if checkpoint != has_one {
            return Err(damaged("where its references are cannot be told"));
        }
        let prefix_len = metadata_len + geometry.sections()[0].end;
        for row in [&mut footer.refs.base, &mut footer.refs.run].into_iter().flatten() {
            if row.block == own {
                row.prefix_len = prefix_len;
            }
        }
        // Not known any more, and so to be taken for granted.
        footer.refs.rewound |= rows[edits].refs.iter().any(|edit| edit.old_oid.is_some());
    }
    for row in rows.iter().filter(|row| row.txn > last_txn) {
        count(row, &mut footer);
    }
    let footer_at = block.body_at() + align_up(geometry.pack_data().end);
    Ok(State {
        footer,
        footer_len: slot.footer_end - footer_at,
        footer_end: slot.footer_end,
        append: slot.append,
    })
}

/// Takes the batches out of a footer whose rows moved into a later one, and returns that one's level.
fn drop_moved(before: &Snapshot, rows: &[Row], footer: &mut Footer) -> Result<u8, ReadError> {
    let last_txn = footer.totals.last_txn;
    let moved: HashSet<u64> = rows.iter().map(|row| row.txn).filter(|txn| *txn <= last_txn).collect();
    if moved.is_empty() {
        return Ok(0);
    }
    let (mut kept, mut level) = (vec![], 0);
    for block in &footer.blocks {
        let batch = Batch::load(before.medium(), *block, footer.ident.object_format)?;
        let own = batch.head_rows(before.medium())?;
        let mut counted = own.iter().filter(|row| row.kind != RowKind::Checkpoint).peekable();
        if counted.peek().is_none() || !counted.all(|row| moved.contains(&row.txn)) {
            kept.push(*block);
            continue;
        }
        level = level.max(block.level + 1);
        footer.totals.dead_bytes += block.metadata_len + align_up(batch.geometry.pack_data().end);
    }
    for row in [&mut footer.refs.base, &mut footer.refs.run].into_iter().flatten() {
        let block = &footer.blocks[row.block];
        let place = kept.iter().position(|kept| kept == block);
        row.block = place.ok_or_else(|| ReadError::Damaged("where its references are cannot be told".into()))?;
    }
    footer.blocks = kept;
    Ok(level)
}

/// Counts a new row.
fn count(row: &Row, footer: &mut Footer) {
    let totals = &mut footer.totals;
    totals.last_txn = totals.last_txn.max(row.txn);
    totals.last_time_us = row.time_us;
    let unresolved = |row: &Row| match row.objects.kinds.is_empty() {
        true => row.objects.len() as u64,
        false => row.objects.kinds.iter().filter(|kind| **kind == 0).count() as u64,
    };
    if let Some(pack) = row.pack {
        totals.packs += 1;
        totals.pack_bytes += pack.len;
        totals.objects += row.objects.len() as u64;
        totals.unresolved += unresolved(row);
        totals.unproven += u64::from(row.proof == Proof::None);
    } else if row.kind == RowKind::Index && row.covers.is_some() {
        let resolved = row.objects.len() as u64 - unresolved(row);
        totals.unresolved = totals.unresolved.saturating_sub(resolved);
        totals.unproven = totals.unproven.saturating_sub(u64::from(row.proof != Proof::None));
        // The next commit counts them; until then it is enough that there are some.
        totals.damaged_entries += u64::from(row.settings.iter().any(|(key, _)| key == damage::KEY));
    }
    if row.kind == RowKind::Config {
        let pair = |(_, value): &(String, Vec<u8>)| {
            let at = value.iter().position(|byte| *byte == b'=')?;
            Some((String::from_utf8(value[..at].to_vec()).ok()?, value[at + 1..].to_vec()))
        };
        let settings = row.settings.iter().filter(|(key, _)| key == "policy");
        footer.policy = settings.filter_map(pair).collect();
    }
}

/// Returns what a row changes.
fn changes(row: &Row) -> Changes {
    let target = |edit: &RefRow| match &edit.symref {
        Some(to) => Some(Target::Symbolic(to.clone())),
        None => edit.new_oid.map(|oid| Target::Object {
            oid,
            peeled: edit.peeled_oid,
        }),
    };
    row.refs.iter().map(|edit| (edit.name.clone(), target(edit))).collect()
}
