//! A row's table of objects: whether it can be that of its pack, and whether its block index is what follows from it.

use gix_hash::Kind;

use super::Code;
use crate::{
    format::object_index,
    pack::{EntryTable, header::PACK_HEADER_LEN, idx::rows_by_offset},
};

/// Returns what is wrong with the table of a pack of `pack_len` bytes, and with its index.
pub(super) fn problems(table: &EntryTable, index: Option<&[u8]>, pack_len: u64, format: Kind) -> Vec<(Code, String)> {
    let mut problems = vec![];
    let mut tell = |what: String| problems.push((Code::ObjectTable, what));
    if (1..table.len()).any(|row| table.oid(row - 1) >= table.oid(row)) {
        tell("the table of objects is not in order, or names one twice".into());
    }
    let end = pack_len.saturating_sub(format.len_in_bytes() as u64);
    let rows = rows_by_offset(&table.offsets);
    let offsets: Vec<u64> = rows.iter().map(|row| table.offsets[*row as usize]).collect();
    let starts_well = offsets.first().is_none_or(|first| *first == PACK_HEADER_LEN);
    let ascends = offsets.is_sorted_by(|a, b| a < b) && offsets.last().is_none_or(|last| *last < end);
    if !starts_well || !ascends {
        tell("the offsets of the table of objects cannot be those of its pack".into());
    }
    match index {
        Some(stored) if object_index::is_one(stored) && object_index::encode(table) != stored => {
            problems.push((
                Code::BlockIndex,
                "the block index is not that of the table of objects".into(),
            ));
        }
        None if table.len() >= object_index::MIN_OBJECTS => {
            problems.push((Code::BlockIndex, "a large table of objects has no block index".into()));
        }
        _ => {}
    }
    problems
}
