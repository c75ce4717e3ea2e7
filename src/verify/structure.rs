//! Head, slots, tail, and the chain of commits.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Check, Code, Finding, Severity};
use crate::{
    archive::{Opened, Snapshot},
    format::{
        CommitId, HEAD_LEN,
        batch::{Batch, ReadError},
        footer::BlockRef,
        geometry::{Geometry, PREFIX_LEN, decode_prefix},
        head::{self, IDENT_AT},
        recover::{Tail, read_footer},
        slot::{SLOT_LEN, SLOT_OFFSETS, Slot, TOMBSTONE_AT},
    },
    media::{Medium, read_vec},
};

/// What a walk over the commits met.
#[derive(Default)]
pub(super) struct Walked {
    /// Commits whose rows do not count any more.
    pub dead: Vec<BlockRef>,
    /// Offsets of live commits whose metadata is no good, which was told.
    pub bad: HashSet<u64>,
}

/// Checks every byte of the head.
pub(super) fn check_head(check: &mut Check<'_>, opened: &Opened) {
    let Opened {
        file,
        len,
        head,
        recovered,
        ..
    } = opened;
    if let Some(confirmed) = recovered.truncated {
        let what = format!("the file is truncated: {len} bytes of {confirmed} are left; an earlier state is shown");
        check.find(Finding::new(Severity::Damage, Code::Truncated, what).at(*len..confirmed));
    } else if let (None, Some(slot)) = (recovered.slot, head.newest_slot()) {
        let what = "the footer that the newer slot names is damaged; an earlier state is shown";
        check.find(Finding::new(Severity::Damage, Code::Footer, what).at(slot.footer_end..slot.footer_end));
        check.repairable.footer = true;
    }
    if head.newest_slot().is_none() {
        let what = "both slots are unreadable; the state was found by walking the file";
        check.find(Finding::new(Severity::Damage, Code::Slot, what).at(SLOT_OFFSETS[0]..HEAD_LEN));
        if recovered.state.append < *len {
            let what = "bytes behind the last commit that was found cannot be read as one";
            check.find(Finding::new(Severity::Damage, Code::TailDamaged, what).at(recovered.state.append..*len));
        }
    }
    let bytes = match read_vec(file.as_ref(), 0, HEAD_LEN as usize) {
        Ok(bytes) => bytes,
        Err(error) => return check.fail(Code::Head, error.into()),
    };
    let ident = &recovered.state.footer.ident;
    match &head.ident {
        Some(found) if found != ident => {
            let what = "the identity line and the newest footer name different archives";
            check.find(Finding::new(Severity::Damage, Code::Head, what).at(IDENT_AT as u64..IDENT_AT as u64 + 256));
        }
        _ => {}
    }
    // A copy of such a file is an archive of its own.
    let superseder = file.stat().ok().and_then(|stat| head.superseder_of(stat.id));
    if let Some(generation) = superseder {
        let what = format!("the file was replaced by generation {generation} under another name");
        check.find(Finding::new(Severity::Warning, Code::Superseded, what));
    }
    // What the head should be, with the slots and tombstones as far as they can be read.
    let mut expected = head::encode(ident);
    let newest = head.newest_slot();
    for (nth, (at, slot)) in SLOT_OFFSETS.into_iter().zip(&head.slots).enumerate() {
        let place = at as usize..at as usize + SLOT_LEN;
        match slot {
            Some(slot) if slot.offset() == at => expected[place].copy_from_slice(&slot.encode()),
            Some(_) => {
                expected[place.clone()].copy_from_slice(&bytes[place]);
                let what = format!("slot {nth} lies where the other one belongs");
                check.find(Finding::new(Severity::Warning, Code::Slot, what).at(at..at + SLOT_LEN as u64));
            }
            None if newest.is_some_and(|newest| newest.write > 1) => {
                expected[place.clone()].copy_from_slice(&bytes[place]);
                let what = format!("slot {nth} is unreadable; the next push writes it again");
                check.find(Finding::new(Severity::Warning, Code::Slot, what).at(at..at + SLOT_LEN as u64));
            }
            None if newest.is_none() => expected[place.clone()].copy_from_slice(&bytes[place]),
            None => {}
        }
        let tombstone = (at + TOMBSTONE_AT) as usize..(at + TOMBSTONE_AT) as usize + SLOT_LEN;
        if head.superseded_by.is_some() {
            expected[tombstone.clone()].copy_from_slice(&bytes[tombstone]);
        }
    }
    let mut at = 0;
    while let Some(start) = (at..bytes.len()).find(|at| bytes[*at] != expected[*at]) {
        // Neighbouring differences are one.
        let mut end = start + 1;
        while let Some(next) = (end..bytes.len().min(end + 64)).find(|at| bytes[*at] != expected[*at]) {
            end = next + 1;
        }
        let in_slot = |slot: &u64| (*slot as usize..*slot as usize + SLOT_LEN).contains(&start);
        let (code, what) = match start {
            0..IDENT_AT => (
                Code::Head,
                "the schema in the head is not as it was written; only stream readers of Arrow use it",
            ),
            IDENT_AT..3840 => (Code::Head, "the identity line is damaged; the footer repeats it"),
            _ if SLOT_OFFSETS.iter().any(in_slot) => {
                (Code::Slot, "a slot is unreadable; the next push writes it again")
            }
            _ => (Code::Head, "what should be blank in the head is not"),
        };
        check.find(Finding::new(Severity::Warning, code, what).at(start as u64..end as u64));
        at = end;
    }
}

/// Tells what lies behind the confirmed state.
pub(super) fn check_tail(check: &mut Check<'_>, opened: &Opened) {
    let Opened { len, recovered, .. } = opened;
    let confirmed = recovered.slot.map_or(recovered.state.append, |slot| slot.append);
    if let Tail::Whole { commits } | Tail::Torn { commits, .. } | Tail::Damaged { commits, .. } = &recovered.tail
        && *commits > 0
    {
        let what = format!("the last {commits} commits are whole but not confirmed yet; the next push confirms them");
        let place = confirmed..recovered.state.append;
        check.find(Finding::new(Severity::Warning, Code::TailUnconfirmed, what).at(place));
    }
    let (severity, code, at, what) = match &recovered.tail {
        Tail::Clean | Tail::Whole { .. } => return,
        Tail::Torn { at, why, .. } => {
            let what = format!(
                "an unfinished write follows the last commit ({why}); the next push cuts it off, or on a network disk goes on behind it"
            );
            (Severity::Warning, Code::TailTorn, *at, what)
        }
        Tail::Damaged { at, why, .. } => {
            let what = format!("what follows the last good commit is complete but damaged ({why}); it is kept");
            (Severity::Damage, Code::TailDamaged, *at, what)
        }
        Tail::Unreadable { at, why, .. } => (Severity::Unreadable, Code::TailUnreadable, *at, why.clone()),
    };
    check.find(Finding::new(severity, code, what).at(at..*len));
}

/// Walks over all commits up to the newest, and checks that each follows from the one before.
pub(super) fn walk(check: &mut Check<'_>, snapshot: &Snapshot, slots: &[Option<Slot>; 2]) -> Walked {
    let (medium, state) = (snapshot.medium(), snapshot.state());
    let live: BTreeMap<u64, BlockRef> = state.footer.blocks.iter().map(|block| (block.offset, *block)).collect();
    let mut walked = Walked::default();
    let mut ends = HashMap::new();
    // Which commits the next one may follow: the one before it, and where that does not count, the one before that one. For
    // bytes that are damaged are kept, and the next commit follows what was good. Empty where it is not known.
    let (mut at, mut previous) = (HEAD_LEN, vec![(CommitId::NONE, 0)]);
    while at < state.footer_end {
        let is_live = live.contains_key(&at);
        let severity = match is_live {
            true => Severity::Damage,
            false => Severity::Warning,
        };
        let (block, metadata) = match read_metadata(medium, at, snapshot) {
            Ok((block, metadata)) if block.end() <= state.footer_end => (block, Some(metadata)),
            read => {
                let next = live.range(at + 1..).next().map_or(state.footer_end, |(next, _)| *next);
                let Some(block) = live.get(&at) else {
                    let what = "bytes that are no commit (damaged, or of a write to a network disk that failed); nothing that counts";
                    check.find(Finding::new(Severity::Warning, Code::DeadBytes, what).at(at..next));
                    (at, previous) = (next, vec![]);
                    continue;
                };
                let error = match read {
                    Err(error) => error,
                    Ok(_) => ReadError::Damaged("it reaches beyond the last commit".into()),
                };
                check.fail(Code::Metadata, error);
                let place = at..block.body_at();
                if let Some(finding) = check.findings.last_mut() {
                    finding.what = format!("the metadata of a commit is damaged ({})", finding.what);
                    *finding = finding.clone().at(place);
                }
                walked.bad.insert(at);
                (*block, None)
            }
        };
        check.checked.commits += 1;
        if !is_live {
            walked.dead.push(block);
        }
        let batch = metadata.and_then(|bytes| Batch::from_metadata(&bytes, block, snapshot.object_format()).ok());
        let named = |batch: &Batch| previous.iter().find(|(id, _)| *id == batch.geometry.previous).copied();
        let name = batch.as_ref().and_then(|batch| {
            let previous = named(batch)?;
            let ids: Vec<u8> = batch
                .packs(medium)
                .ok()?
                .iter()
                .flat_map(|pack| pack.id.as_slice().to_vec())
                .collect();
            let sequence = previous.1 + 1;
            let ident = &state.footer.ident;
            Some((
                ident.commit_id(sequence, previous.0, &batch.geometry.row_checksum, &ids),
                sequence,
            ))
        });
        if let Some(batch) = &batch
            && !previous.is_empty()
            && named(batch).is_none()
        {
            let what = "a commit does not name the one before it";
            check.find(Finding::new(severity, Code::Chain, what).at(at..block.body_at()));
        }
        match read_footer(medium, block.end()) {
            Ok((footer, footer_len)) => {
                let found = (footer.commit_id, footer.sequence);
                if name.is_some_and(|name| name != found) || footer.ident != state.footer.ident {
                    let what = "a commit does not bear the name that follows from its content";
                    check.find(Finding::new(severity, Code::Chain, what).at(at..block.end()));
                }
                if let Some(batch) = &batch {
                    check_padding(check, medium, batch, block.end() - footer_len);
                }
                previous.retain(|_| !is_live);
                previous.push(found);
            }
            Err(error) => {
                let is_io = matches!(error, ReadError::Io(_));
                let what = match error {
                    ReadError::Io(error) => error.to_string(),
                    ReadError::Damaged(why) => why,
                };
                let severity = if is_io { Severity::Unreadable } else { Severity::Warning };
                let what = format!("a footer that does not count any more is damaged ({what}); a gc leaves it behind");
                let start = batch.map_or(block.body_at(), |batch| {
                    batch.block.body_at() + batch.geometry.pack_data().end
                });
                check.find(Finding::new(severity, Code::Footer, what).at(start..block.end()));
                previous.retain(|_| !is_live);
                previous.extend(name);
            }
        }
        // One damaged tail after another is rare enough.
        previous.drain(..previous.len().saturating_sub(4));
        ends.insert(block.end(), previous.last().map(|(id, _)| *id));
        at = block.end();
    }
    if state.append > state.footer_end {
        let what = "bytes behind the last commit were kept (damaged, or of a write to a network disk that failed); nothing that counts";
        let place = state.footer_end..state.append;
        check.find(Finding::new(Severity::Warning, Code::DeadBytes, what).at(place));
    }
    for (nth, slot) in slots.iter().enumerate() {
        let Some(slot) = slot else { continue };
        let fits = match ends.get(&slot.footer_end) {
            Some(Some(id)) => *id == slot.commit_id,
            Some(None) => true,
            // Of a state that cannot be shown, which was told.
            None => slot.footer_end > state.footer_end,
        };
        if !fits {
            let what = format!("slot {nth} names a commit that is not in the file");
            let at = SLOT_OFFSETS[nth];
            check.find(Finding::new(Severity::Warning, Code::Slot, what).at(at..at + SLOT_LEN as u64));
        }
    }
    walked
}

/// Reads the metadata of the commit at `at`.
fn read_metadata(medium: &dyn Medium, at: u64, snapshot: &Snapshot) -> Result<(BlockRef, Vec<u8>), ReadError> {
    let prefix = read_vec(medium, at, PREFIX_LEN)?;
    let metadata_len = decode_prefix(&prefix).ok_or_else(|| "no message starts there".to_string())?;
    if at + metadata_len > snapshot.state().footer_end {
        return Err("it reaches beyond the last commit".to_string().into());
    }
    let metadata = read_vec(medium, at, metadata_len as usize)?;
    let geometry = Geometry::decode(&metadata, snapshot.object_format())?;
    let block = BlockRef {
        offset: at,
        metadata_len,
        body_len: geometry.body_len,
        level: 0,
    };
    Ok((block, metadata))
}

/// Checks the few zeros between the packs and the footer, the only bytes of a commit that no checksum covers.
fn check_padding(check: &mut Check<'_>, medium: &dyn Medium, batch: &Batch, footer_at: u64) {
    let pack_end = batch.block.body_at() + batch.geometry.pack_data().end;
    let len = footer_at.saturating_sub(pack_end).min(8) as usize;
    let padding = match read_vec(medium, pack_end, len) {
        Ok(padding) => padding,
        Err(error) => return check.fail(Code::DeadBytes, error.into()),
    };
    if padding.iter().any(|byte| *byte != 0) {
        let what = "the padding behind a pack is not blank; nothing that counts";
        check.find(Finding::new(Severity::Warning, Code::DeadBytes, what).at(pack_end..footer_at));
    }
}
