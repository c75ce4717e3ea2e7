//! The columns of the live commits: checksums, rows against each other and against the footer.

use std::collections::{HashMap, HashSet};

use gix_hash::ObjectId;

use super::{Check, Code, Finding, Level, Severity, ref_log, structure::Walked, tables};
use crate::{
    archive::Snapshot,
    format::{
        batch::{Batch, ReadError},
        commit_rows::CommitRows,
        row::{Proof, Row, RowKind},
    },
    pack::EntryTable,
};

/// A row that says something about the pack of an older one.
pub(super) struct IndexRow {
    pub txn: u64,
    pub proof: Proof,
    pub objects: EntryTable,
    pub commits: CommitRows,
}

/// An object that an earlier check found damaged, as a row says.
pub(super) struct Mark {
    /// The transaction of the row that says so, and of the pack's.
    pub txn: u64,
    pub pack_txn: u64,
    pub oid: ObjectId,
    pub offset: u64,
    pub why: String,
}

/// What the rows say, for comparison with the packs. Graphs and tables are kept only where they will be compared.
#[derive(Default)]
pub(super) struct Stored {
    /// Commit graphs of rows with a pack, by transaction; only rows that were read.
    pub commits: HashMap<u64, CommitRows>,
    /// By the transaction that they cover.
    pub index_rows: HashMap<u64, Vec<IndexRow>>,
    pub marks: Vec<Mark>,
}

/// Sums over the rows, to be compared with the footer's.
#[derive(Default)]
struct Tally {
    txns: HashSet<u64>,
    last_txn: u64,
    packs: u64,
    objects: u64,
    pack_bytes: u64,
    /// Transactions with a pack whose own row has no proof.
    unproven: HashSet<u64>,
    proven: HashSet<u64>,
}

/// Checks the columns of all live commits.
pub(super) fn check(check: &mut Check<'_>, snapshot: &Snapshot, walked: &Walked) -> Stored {
    let (medium, footer) = (snapshot.medium(), &snapshot.state().footer);
    let (mut stored, mut tally, mut log) = (Stored::default(), Tally::default(), vec![]);
    let mut is_whole = true;
    for (done, block) in footer.blocks.iter().enumerate() {
        check.progress("checking rows", done as u64, footer.blocks.len() as u64, "commits");
        let batch = match Batch::load(medium, *block, snapshot.object_format()) {
            Ok(batch) => batch,
            Err(error) => {
                is_whole = false;
                if !walked.bad.contains(&block.offset) {
                    check.fail(Code::Metadata, error);
                }
                continue;
            }
        };
        match check_sections(check, snapshot, &batch) {
            true => match batch.rows(medium) {
                Ok(rows) => {
                    for row in rows {
                        check_row(check, row, &mut tally, &mut stored, &mut log);
                    }
                }
                Err(error) => {
                    is_whole = false;
                    check.fail(Code::Rows, error);
                }
            },
            false => is_whole = false,
        }
    }
    if is_whole {
        compare(check, snapshot, &tally);
        ref_log::check(check, snapshot, log);
    }
    stored
}

/// Checks the checksums of a commit's columns.
fn check_sections(check: &mut Check<'_>, snapshot: &Snapshot, batch: &Batch) -> bool {
    let medium = snapshot.medium();
    let mut sound = true;
    for (index, place) in batch.section_places().into_iter().enumerate() {
        let Err(error) = batch.check_section_of(medium, index) else {
            continue;
        };
        sound = false;
        let (severity, what) = match error {
            ReadError::Io(error) => (Severity::Unreadable, format!("columns cannot be read: {error}")),
            ReadError::Damaged(what) => (Severity::Damage, what),
        };
        let mut finding = Finding::new(severity, Code::Columns, what).at(place);
        if let Ok([pack]) = batch.packs(medium).as_deref() {
            (finding.pack, finding.txn) = (Some(pack.id), Some(pack.txn));
        }
        check.find(finding);
    }
    sound
}

/// Checks a row by itself, counts it, and takes out of it what is compared later.
fn check_row(
    check: &mut Check<'_>,
    row: Row,
    tally: &mut Tally,
    stored: &mut Stored,
    log: &mut Vec<ref_log::LoggedRow>,
) {
    check.checked.rows += 1;
    let about = |finding: Finding| Finding {
        txn: Some(row.txn),
        pack: row.pack.map(|pack| pack.id),
        ..finding
    };
    if !tally.txns.insert(row.txn) {
        let what = "two rows have the same number";
        check.find(about(Finding::new(Severity::Damage, Code::Rows, what)));
    }
    tally.last_txn = tally.last_txn.max(row.txn);
    if let Some(pack) = row.pack {
        tally.packs += 1;
        tally.objects += row.objects.len() as u64;
        tally.pack_bytes += pack.len;
        if row.proof == Proof::None {
            tally.unproven.insert(row.txn);
        }
        for (code, what) in tables::problems(&row.objects, row.index.as_deref(), pack.len, pack.id.kind()) {
            check.find(about(Finding::new(Severity::Damage, code, what)));
        }
    }
    let covered = row.covers.map(|(from, _)| from).filter(|_| row.kind == RowKind::Index);
    if let Some(covered) = covered {
        if row.proof != Proof::None {
            tally.proven.insert(covered);
        }
        let marks = row.settings.iter().filter(|(key, _)| key == "damaged");
        stored.marks.extend(marks.filter_map(|(_, value)| {
            let text = String::from_utf8_lossy(value);
            let mut fields = text.splitn(3, ' ');
            Some(Mark {
                txn: row.txn,
                pack_txn: covered,
                oid: ObjectId::from_hex(fields.next()?.as_bytes()).ok()?,
                offset: fields.next()?.parse().ok()?,
                why: fields.next().unwrap_or_default().into(),
            })
        }));
    }
    if row.is_foreign {
        let what = "the row was written by a later version: what is new in it is not checked";
        check.find(about(Finding::new(Severity::Warning, Code::Rows, what)));
    }
    if row.kind != RowKind::Other {
        log.push(ref_log::LoggedRow {
            txn: row.txn,
            kind: row.kind,
            covers: row.covers,
            refs: row.refs,
        });
    }
    if check.level < Level::Full {
        return;
    }
    if let Some(covered) = covered {
        stored.index_rows.entry(covered).or_default().push(IndexRow {
            txn: row.txn,
            proof: row.proof,
            objects: row.objects,
            commits: row.commits,
        });
    } else if row.pack.is_some() {
        stored.commits.insert(row.txn, row.commits);
    }
}

/// Compares the footer's totals with those of the rows.
fn compare(check: &mut Check<'_>, snapshot: &Snapshot, tally: &Tally) {
    let totals = &snapshot.state().footer.totals;
    let unproven = tally.unproven.difference(&tally.proven).count() as u64;
    if tally.last_txn > totals.last_txn {
        let what = format!("row {} is newer than the footer knows", tally.last_txn);
        check.find(Finding::new(Severity::Damage, Code::Rows, what));
    }
    for (name, told, counted) in [
        ("packs", totals.packs, tally.packs),
        ("objects", totals.objects, tally.objects),
        ("pack bytes", totals.pack_bytes, tally.pack_bytes),
        ("unproven packs", totals.unproven, unproven),
    ] {
        if told != counted {
            let what = format!("the footer says {told} ({name}), the rows say {counted}");
            check.find(Finding::new(Severity::Damage, Code::Rows, what));
        }
    }
}
