//! The bytes of the packs: each pack's hash, and each entry's CRC-32, in one read.

use std::{io, ops::Range, sync::mpsc::sync_channel};

use gix_hash::ObjectId;

use super::{Check, Code, Finding, Severity, TOLD, affected::Suspects};
use crate::{
    archive::Snapshot,
    format::batch::PackSpan,
    media::Medium,
    pack::{EntryTable, PackRank, PackStore, header, idx::rows_by_offset},
};

/// Bytes read at once.
const CHUNK: u64 = 1 << 20;
/// Where a chunk cannot be read, pieces of this size are tried.
const SECTOR: u64 = 4096;
/// Chunks that may wait to be hashed.
const WAITING: usize = 8;

/// Checks all packs.
pub(super) fn check(check: &mut Check<'_>, snapshot: &Snapshot, suspects: &mut Suspects) {
    let total = snapshot.state().footer.totals.pack_bytes;
    for (rank, span) in check.pack_spans(snapshot) {
        check_pack(check, snapshot, rank, span, total, suspects);
    }
}

/// Checks one pack.
pub(super) fn check_pack(
    check: &mut Check<'_>,
    snapshot: &Snapshot,
    rank: PackRank,
    span: PackSpan,
    total: u64,
    suspects: &mut Suspects,
) {
    // A table that cannot be read was told with the columns.
    let table = snapshot.entries(rank).ok();
    let before = check.checked.pack_bytes;
    let found = read_through(snapshot.medium(), span, table.as_deref(), |done| {
        check.progress("checking packs", before + done, total, "bytes");
    });
    check.checked.packs += 1;
    check.checked.pack_bytes += span.len;
    check.checked.entries += table.as_ref().map_or(0, |table| table.len() as u64);
    let about = |finding: Finding| Finding {
        txn: Some(span.txn),
        pack: Some(span.id),
        ..finding
    };
    for bad in found.unreadable.iter().take(TOLD) {
        let what = "the disk cannot read these bytes of a pack";
        let place = span.at + bad.start..span.at + bad.end;
        check.find(about(Finding::new(Severity::Unreadable, Code::Pack, what).at(place)));
        suspects.add_pack(check.findings.len() - 1, rank);
    }
    for (nth, entry) in found.entries.iter().enumerate() {
        if nth == TOLD {
            let what = format!("{} more entries are damaged", found.entries.len() - TOLD);
            check.find(about(Finding::new(Severity::Damage, Code::Entry, what)));
            break;
        }
        let place = span.at + entry.place.start..span.at + entry.place.end;
        let mut finding = about(Finding::new(Severity::Damage, Code::Entry, entry.why.clone()).at(place));
        (finding.pack_offset, finding.oid) = (Some(entry.place.start), Some(entry.oid));
        check.find(finding);
        suspects.add_object(check.findings.len() - 1, rank, entry.oid);
    }
    let damaged = found.entries.iter().map(|entry| (rank, entry.place.start, entry.oid));
    suspects.damaged.extend(damaged);
    let hash_fits = found.hash == Some(span.id) && found.trailer == span.id.as_slice();
    let explained = !found.entries.is_empty() || !found.unreadable.is_empty();
    let header_fits = match (&table, header::parse_pack_header(&found.header)) {
        (Some(table), Ok(count)) => count as usize == table.len(),
        (None, Ok(_)) => true,
        (_, Err(_)) => false,
    };
    let what = match (hash_fits, explained, header_fits) {
        (true, false, true) => return,
        (true, true, _) => "the pack has its hash, but not the checksums that its table of objects says",
        (_, _, false) => "the header of the pack is damaged",
        (false, true, true) => return,
        (false, false, true) => "the bytes of the pack do not have its hash; its entries are sound",
    };
    check.find(about(
        Finding::new(Severity::Damage, Code::Pack, what).at(span.at..span.at + span.len),
    ));
    if table.is_none() {
        suspects.add_pack(check.findings.len() - 1, rank);
    }
}

/// What a read through a pack found. Places are relative to the pack.
#[derive(Default)]
struct Found {
    hash: Option<ObjectId>,
    trailer: Vec<u8>,
    header: [u8; header::PACK_HEADER_LEN as usize],
    entries: Vec<BadEntry>,
    unreadable: Vec<Range<u64>>,
}

struct BadEntry {
    oid: ObjectId,
    place: Range<u64>,
    why: String,
}

/// Reads a pack from its first byte to its last; hashes it in another thread.
fn read_through(
    medium: &dyn Medium,
    span: PackSpan,
    table: Option<&EntryTable>,
    mut on_bytes: impl FnMut(u64),
) -> Found {
    let hash_len = span.id.as_slice().len() as u64;
    let end = span.len.saturating_sub(hash_len);
    let mut found = Found::default();
    let mut sums = table.map(|table| EntrySums::new(table, end));
    let (send, receive) = sync_channel::<Vec<u8>>(WAITING);
    found.hash = std::thread::scope(|scope| {
        let hashing = scope.spawn(move || {
            let mut hasher = gix_hash::hasher(span.id.kind());
            receive.iter().for_each(|chunk| hasher.update(&chunk));
            hasher.try_finalize().ok()
        });
        let mut at = 0;
        while at < end {
            let len = CHUNK.min(end - at);
            let mut chunk = vec![0; len as usize];
            if medium.read_exact_at(span.at + at, &mut chunk).is_err() {
                read_pieces(medium, span.at, at, &mut chunk, &mut found.unreadable);
            }
            if at == 0 {
                let header_len = chunk.len().min(found.header.len());
                found.header[..header_len].copy_from_slice(&chunk[..header_len]);
            }
            if let Some(sums) = &mut sums {
                sums.update(at, &chunk, &mut found.entries, &found.unreadable);
            }
            at += len;
            on_bytes(at);
            // The receiver lives as long as the sender.
            let _ = send.send(chunk);
        }
        drop(send);
        hashing.join().ok().flatten()
    });
    found.trailer = vec![0; (span.len - end) as usize];
    if medium.read_exact_at(span.at + end, &mut found.trailer).is_err() {
        found.unreadable.push(end..span.len);
    }
    found
}

/// Reads what can be read of a chunk that cannot be read as a whole.
fn read_pieces(medium: &dyn Medium, pack_at: u64, at: u64, chunk: &mut [u8], unreadable: &mut Vec<Range<u64>>) {
    for (nth, piece) in chunk.chunks_mut(SECTOR as usize).enumerate() {
        let start = at + nth as u64 * SECTOR;
        let read: io::Result<()> = medium.read_exact_at(pack_at + start, piece);
        if read.is_ok() {
            continue;
        }
        let end = start + piece.len() as u64;
        match unreadable.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => unreadable.push(start..end),
        }
    }
}

/// The CRC-32 of each entry, as the bytes go by.
struct EntrySums<'a> {
    table: &'a EntryTable,
    rows: Vec<u32>,
    end: u64,
    /// The entry that is summed, and its sum so far.
    at: usize,
    sum: crc32fast::Hasher,
}

impl<'a> EntrySums<'a> {
    fn new(table: &'a EntryTable, end: u64) -> Self {
        EntrySums {
            table,
            rows: rows_by_offset(&table.offsets),
            end,
            at: 0,
            sum: crc32fast::Hasher::new(),
        }
    }

    /// Returns where entry `at`, in the order of offsets, starts; the end of the entries behind the last.
    fn start(&self, at: usize) -> u64 {
        let row = self.rows.get(at).map(|row| self.table.offsets[*row as usize]);
        row.unwrap_or(self.end).min(self.end)
    }

    fn update(&mut self, from: u64, chunk: &[u8], bad: &mut Vec<BadEntry>, unreadable: &[Range<u64>]) {
        let until = from + chunk.len() as u64;
        while self.at < self.rows.len() {
            let place = self.start(self.at)..self.start(self.at + 1);
            let (start, end) = (place.start.clamp(from, until), place.end.clamp(from, until));
            if start < end {
                self.sum.update(&chunk[(start - from) as usize..(end - from) as usize]);
            }
            if place.end > until {
                return;
            }
            let row = self.rows[self.at] as usize;
            let (sum, expected) = (std::mem::take(&mut self.sum).finalize(), self.table.crc32s[row]);
            let is_unreadable = unreadable
                .iter()
                .any(|bad| bad.start < place.end && place.start < bad.end);
            if is_unreadable || sum != expected {
                let why = match is_unreadable {
                    true => "the object's bytes cannot be read".into(),
                    false => {
                        format!("the object's bytes are damaged: their CRC-32 is {sum:08x}, expected {expected:08x}")
                    }
                };
                let oid = self.table.oid(row).to_owned();
                bad.push(BadEntry { oid, place, why });
            }
            self.at += 1;
        }
    }
}
