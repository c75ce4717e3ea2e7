//! Commits whose rows were merged into later ones: nothing of them counts, but a disk that changes these bytes changes others.

use super::{Check, Code, Finding, Severity, structure::Walked};
use crate::{
    archive::Snapshot,
    format::{
        batch::{Batch, ReadError},
        recover::check_pack_hash,
    },
};

/// Checks columns and packs of all dead commits.
pub(super) fn check(check: &mut Check<'_>, snapshot: &Snapshot, walked: &Walked) {
    let medium = snapshot.medium();
    for block in &walked.dead {
        let mut tell = |error: ReadError, place: std::ops::Range<u64>| {
            let (severity, why) = match error {
                ReadError::Io(error) => (Severity::Unreadable, error.to_string()),
                ReadError::Damaged(why) => (Severity::Warning, why),
            };
            let what = format!("bytes that do not count any more are damaged ({why})");
            check.find(Finding::new(severity, Code::DeadBytes, what).at(place));
        };
        let batch = match Batch::load(medium, *block, snapshot.object_format()) {
            Ok(batch) => batch,
            Err(error) => {
                tell(error, block.offset..block.end());
                continue;
            }
        };
        for (index, place) in batch.section_places().into_iter().enumerate() {
            if let Err(error) = batch.check_section_of(medium, index) {
                tell(error, place);
            }
        }
        for pack in batch.packs(medium).unwrap_or_default() {
            if let Err(error) = check_pack_hash(medium, pack.at, pack.len, &pack.id) {
                tell(error, pack.at..pack.at + pack.len);
            }
        }
    }
}
