//! Merging small batches, so that footers stay small and snapshots quick to open after thousands of pushes.
//!
//! Every push adds a batch, and every footer lists all live ones. Where 64 small batches of one level are live, the next push
//! carries their rows along in its own message, and its footer lists that one batch of the next level instead of the 64.
//! Rows are not changed, only moved: each keeps its number, time, actor and pack, and ranks of packs follow the numbers.
//! A row is thus copied once a level, and after N pushes there are at most 64 small batches for each power of 64 in N.
//!
//! Nothing is lost by a crash: until the commit that holds the copies is whole, the footer before it lists the originals.

use std::sync::Arc;

use gix_hash::Kind;

use super::{CheckedPack, append::PackSource};
use crate::{
    format::{
        align_up,
        batch::{Batch, PackSpan, ReadError},
        footer::BlockRef,
        recover::{State, check_pack_hash},
        row::{Row, RowKind},
    },
    media::{Medium, read_vec},
};

/// How many batches of a level are merged into one.
const FAN_IN: usize = 64;

/// Packs of level 0 up to this size are read once, and held until they are written, while they are not more than so much together.
const HELD: u64 = 32 << 10;
const HELD_TOGETHER: u64 = 4 << 20;

/// Returns the size in bytes from which a batch of a level stays as it is. A push then never copies more than 64 of these.
fn size_limit(level: u8) -> u64 {
    match level {
        0 => 256 << 10,
        1 => 4 << 20,
        _ => 16 << 20,
    }
}

/// Batches whose rows move into the commit that is being made.
pub struct Merge {
    /// The live batches that stay, in order.
    pub kept: Vec<BlockRef>,
    /// The moved rows, in order, with their packs.
    pub rows: Vec<Row>,
    pub packs: Vec<PackSource>,
    /// The level of the batch that they move into.
    pub level: u8,
    /// Bytes of the file that become dead.
    pub dead_bytes: u64,
}

/// Decides whether a merge is due, and reads what it moves.
///
/// # Errors
/// Fails where the medium does: then nothing must be moved, and the push goes on without.
pub fn plan(medium: &dyn Medium, state: &State) -> Result<Option<Merge>, ReadError> {
    let footer = &state.footer;
    let holds_refs = |index| {
        [&footer.refs.base, &footer.refs.run]
            .into_iter()
            .flatten()
            .any(|row| row.block == index)
    };
    let small = |index: usize| {
        let block = &footer.blocks[index];
        block.end() - block.offset < size_limit(block.level) && !holds_refs(index)
    };
    let count = |level| {
        (0..footer.blocks.len())
            .filter(|i| footer.blocks[*i].level == level && small(*i))
            .count()
    };
    let highest = footer.blocks.iter().map(|block| block.level).max().unwrap_or(0);
    let Some(level) = (0..=highest).rev().find(|level| count(*level) >= FAN_IN) else {
        return Ok(None);
    };
    let mut merge = Merge {
        kept: vec![],
        rows: vec![],
        packs: vec![],
        level: level + 1,
        dead_bytes: 0,
    };
    for (index, block) in footer.blocks.iter().enumerate() {
        if block.level != level || !small(index) {
            merge.kept.push(*block);
            continue;
        }
        match move_rows(medium, &mut merge, *block, footer.ident.object_format) {
            Ok(()) => {}
            Err(ReadError::Io(error)) => return Err(error.into()),
            // It stays where it is, for whoever can repair or read it, and does not keep the others from moving.
            Err(ReadError::Damaged(_)) => merge.kept.push(*block),
        }
    }
    Ok(Some(merge).filter(|merge| merge.kept.len() + FAN_IN / 2 < footer.blocks.len()))
}

/// Adds the rows of a batch to what is moved; all or none.
fn move_rows(medium: &dyn Medium, merge: &mut Merge, block: BlockRef, kind: Kind) -> Result<(), ReadError> {
    let batch = Batch::load(medium, block, kind)?;
    let held = merge.packs.iter().filter(|pack| matches!(pack, PackSource::Memory(_)));
    let mut room = HELD_TOGETHER.saturating_sub(held.map(PackSource::len).sum());
    let mut packs = vec![];
    for pack in batch.packs(medium)? {
        let pack = checked(medium, pack, if block.level == 0 { HELD.min(room) } else { 0 })?;
        if let PackSource::Memory(_) = pack {
            room -= pack.len();
        }
        packs.push(pack);
    }
    let rows = batch.rows(medium)?;
    if rows.iter().any(|row| row.is_foreign) {
        return Err("a row of a later version, which knows what may be done with it"
            .to_string()
            .into());
    }
    // The footer inside the batch was dead before.
    merge.dead_bytes += block.metadata_len + align_up(batch.geometry.pack_data().end);
    merge.packs.extend(packs);
    // References that a checkpoint restates stand in the rows before it; the current one is in a batch that stays.
    let moved = rows.into_iter().filter(|row| row.kind != RowKind::Checkpoint);
    merge.rows.extend(moved);
    Ok(())
}

/// Checks a pack that is to move, and holds it if it has no more than `most` bytes.
fn checked(medium: &dyn Medium, pack: PackSpan, most: u64) -> Result<PackSource, ReadError> {
    let PackSpan { at, len, id, .. } = pack;
    if len > most {
        check_pack_hash(medium, at, len, &id)?;
        return Ok(PackSource::Archive { at, len });
    }
    let bytes = read_vec(medium, at, len as usize)?;
    match CheckedPack::new(bytes, id.kind(), "") {
        Ok(pack) if pack.id() == id => Ok(PackSource::Memory(Arc::new(pack))),
        _ => Err(format!("the bytes of pack {id} changed on the disk").into()),
    }
}
