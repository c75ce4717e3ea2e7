//! Every object of every pack: made, hashed, its links followed; and what is stored about the packs compared with them.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use gix_hash::{ObjectId, oid};

use super::{
    Check, Code, Finding, Severity, TOLD,
    affected::Suspects,
    columns::{IndexRow, Stored},
    packs,
};
use crate::{
    archive::{Commits, Snapshot},
    error::Error,
    format::{batch::PackSpan, commit_rows::CommitRows, row::Proof},
    pack::{
        EntryTable, Kind, PackRank, PackStore,
        finder::Finder,
        header::{kind_code, kind_of_code},
        idx::rows_by_offset,
        resolve::{Damage, ResolveOptions, Resolved, ResolvedCommit, resolve},
    },
};

/// What all packs together tell.
#[derive(Default)]
struct Whole {
    /// Kinds of the objects of each pack, by rank and row; 0 where one is damaged.
    kinds: HashMap<PackRank, Vec<u8>>,
    /// Generations as they are stored, and parents.
    graph: HashMap<ObjectId, (u32, Vec<ObjectId>, u64)>,
}

/// Links from one pack into another: for each entry a bit for each kind that a link says it has.
type CrossLinks = Mutex<HashMap<(PackRank, u64), u8>>;

/// Checks all objects.
pub(super) fn check(check: &mut Check<'_>, snapshot: &Snapshot, stored: &Stored, suspects: &mut Suspects) {
    let mut whole = Whole::default();
    let cross = CrossLinks::default();
    let finder = Finder::new(snapshot);
    for (rank, span) in check.pack_spans(snapshot) {
        match snapshot.entries(rank) {
            Ok(table) => check_pack(
                check,
                snapshot,
                (rank, span),
                &table,
                stored,
                &finder,
                &cross,
                &mut whole,
                suspects,
            ),
            // That was told with the columns. The bytes of the pack may still be sound.
            Err(_) => packs::check_pack(check, snapshot, rank, span, 0, suspects),
        }
    }
    check_kinds(check, snapshot, &whole, cross, suspects);
    check_generations(check, &whole);
}

#[expect(clippy::too_many_arguments, reason = "one step of a loop with its state")]
fn check_pack(
    check: &mut Check<'_>,
    snapshot: &Snapshot,
    (rank, span): (PackRank, PackSpan),
    table: &EntryTable,
    stored: &Stored,
    finder: &Finder<'_>,
    cross: &CrossLinks,
    whole: &mut Whole,
    suspects: &mut Suspects,
) {
    let is_lost = AtomicBool::new(false);
    let is_there = |id: &oid, kind: Kind| match finder.find(id) {
        Ok(Some(at)) => {
            let mut links = cross.lock().unwrap_or_else(PoisonError::into_inner);
            *links.entry((at.pack, at.offset)).or_default() |= 1 << kind_code(kind);
            Ok(true)
        }
        Ok(None) => Ok(false),
        Err(Error::Damaged { .. }) => {
            is_lost.store(true, Ordering::Relaxed);
            Ok(true)
        }
        Err(error) => Err(error),
    };
    let mut commits = Commits::of(table);
    let mut on_commit = |commit: ResolvedCommit<'_>| commits.add(commit);
    let (threads, before) = (check.threads, check.checked.objects);
    let total = snapshot.state().footer.totals.objects;
    let mut on_progress = |done, _| check.progress("checking objects", before + done, total, "objects");
    let options = ResolveOptions {
        threads,
        check_pack_id: true,
        is_there: Some(&is_there),
        on_commit: Some(&mut on_commit),
        progress: Some(&mut on_progress),
        ..ResolveOptions::default()
    };
    let resolved = match resolve(snapshot, rank, table, options) {
        Ok(resolved) => resolved,
        Err(error) => {
            // The disk fails somewhere in the pack: which objects that hits is told by a read that goes on behind it.
            check.fail_with(Code::Pack, &error);
            return packs::check_pack(check, snapshot, rank, span, 0, suspects);
        }
    };
    check.checked.packs += 1;
    check.checked.pack_bytes += span.len;
    check.checked.entries += table.len() as u64;
    check.checked.objects += table.len() as u64;
    let about = |finding: Finding| Finding {
        txn: Some(span.txn),
        pack: Some(span.id),
        ..finding
    };
    for (
        nth,
        Damage {
            oid,
            offset,
            why,
            is_altered,
        },
    ) in resolved.damaged.iter().enumerate()
    {
        if nth == TOLD {
            let what = format!("{} more objects are damaged", resolved.damaged.len() - TOLD);
            check.find(about(Finding::new(Severity::Damage, Code::Object, what)));
            break;
        }
        let code = match is_altered {
            true => Code::Entry,
            false => Code::Object,
        };
        let mut finding = about(Finding::new(
            Severity::Damage,
            code,
            format!("the object is damaged: {why}"),
        ));
        (finding.oid, finding.pack_offset, finding.offset) = (Some(*oid), Some(*offset), Some(span.at + offset));
        check.find(finding);
        suspects.add_object(check.findings.len() - 1, rank, *oid);
    }
    if !resolved.damaged.is_empty() {
        check.repairable.packs.insert(span.txn);
        let damaged = resolved.damaged.iter().map(|damage| (rank, damage.offset, damage.oid));
        suspects.damaged.extend(damaged);
    }
    for dangling in &resolved.dangling {
        let mut finding = match dangling.from {
            Some(from) => {
                let what = format!("a {}, which {from} refers to, is missing", dangling.kind);
                Finding::new(Severity::Damage, Code::Missing, what)
            }
            None => {
                let what = format!("a link says that the object is a {}, which it is not", dangling.kind);
                Finding::new(Severity::Damage, Code::Kind, what)
            }
        };
        finding.oid = Some(dangling.to);
        check.find(about(finding));
        suspects.add_object(check.findings.len() - 1, rank, dangling.to);
    }
    if is_lost.into_inner() {
        let what = "whether all objects that the pack refers to are there is not known, because a table is damaged";
        check.find(about(Finding::new(Severity::Damage, Code::Missing, what)));
    }
    let mut trailer = vec![0; span.id.as_slice().len()];
    let at = span.len.saturating_sub(trailer.len() as u64);
    if snapshot.read_exact_at(rank, at, &mut trailer).is_ok() && trailer != span.id.as_slice() {
        let what = "the hash at the end of the pack is damaged";
        let place = span.at + at..span.at + span.len;
        check.find(about(Finding::new(Severity::Damage, Code::Pack, what).at(place)));
    }
    if resolved.other_pack_id.is_some() && resolved.damaged.is_empty() {
        let what = "the bytes of the pack do not have its hash; its objects are sound";
        let place = span.at..span.at + span.len;
        check.find(about(Finding::new(Severity::Damage, Code::Pack, what).at(place)));
    }
    let index_rows = stored.index_rows.get(&span.txn).map_or(&[][..], Vec::as_slice);
    compare_tables(check, table, &resolved, index_rows, &about);
    let found = commits.sorted();
    let proven = |row: &&IndexRow| row.proof != Proof::None;
    let graph = match (stored.commits.get(&span.txn), index_rows.iter().rfind(proven)) {
        (Some(own), Some(row)) if own.is_empty() => Some(&row.commits),
        (own, _) => own,
    };
    // A pack that nobody looked at yet has no graph.
    if let Some(graph) = graph.filter(|graph| !graph.is_empty() || !index_rows.is_empty()) {
        let damaged: HashSet<ObjectId> = resolved.damaged.iter().map(|damage| damage.oid).collect();
        compare_graph(check, graph, &found, &damaged, &about);
        for commit in graph.iter() {
            let node = (commit.generation, commit.parents, span.txn);
            whole.graph.entry(commit.oid).or_insert(node);
        }
    }
    whole.kinds.insert(rank, resolved.kinds);
}

/// Compares kinds and sizes in the stored tables with what the objects are.
fn compare_tables(
    check: &mut Check<'_>,
    table: &EntryTable,
    resolved: &Resolved,
    index_rows: &[IndexRow],
    about: &dyn Fn(Finding) -> Finding,
) {
    let differs = |stored: &EntryTable| {
        (0..stored.kinds.len()).find(|row| {
            let is_sound = resolved.kinds[*row] != 0;
            let says = (stored.kinds[*row], stored.sizes[*row]);
            is_sound && says.0 != 0 && says != (resolved.kinds[*row], resolved.sizes[*row])
        })
    };
    let mut tell = |row: usize, what: String| {
        let mut finding = about(Finding::new(Severity::Damage, Code::ObjectTable, what));
        (finding.oid, finding.pack_offset) = (Some(table.oid(row).to_owned()), Some(table.offsets[row]));
        check.find(finding);
    };
    if let Some(row) = differs(table) {
        tell(
            row,
            "the table of objects says another kind or size than the object has".into(),
        );
    }
    for IndexRow { txn, objects, .. } in index_rows {
        let same_entries =
            (&objects.oids, &objects.offsets, &objects.crc32s) == (&table.oids, &table.offsets, &table.crc32s);
        if !same_entries {
            tell(0, format!("index row {txn} lists other objects than the pack has"));
        } else if let Some(row) = differs(objects) {
            tell(
                row,
                format!("index row {txn} says another kind or size than the object has"),
            );
        }
    }
}

/// Compares a stored commit graph with the commits of the pack; both are sorted.
fn compare_graph(
    check: &mut Check<'_>,
    stored: &CommitRows,
    found: &CommitRows,
    damaged: &HashSet<ObjectId>,
    about: &dyn Fn(Finding) -> Finding,
) {
    let mut tell = |oid: ObjectId, what: &str| {
        let mut finding = about(Finding::new(Severity::Damage, Code::CommitGraph, what));
        finding.oid = Some(oid);
        check.find(finding);
    };
    let mut told = 0;
    let mut found = found.iter().peekable();
    for commit in stored.iter() {
        while let Some(absent) = found.next_if(|found| found.oid < commit.oid) {
            if told < TOLD {
                tell(absent.oid, "the commit graph lacks a commit of the pack");
            }
            told += 1;
        }
        let what = match found.next_if(|found| found.oid == commit.oid) {
            Some(mut found) => {
                // Generations depend on other packs and are checked for themselves.
                found.generation = commit.generation;
                if found == commit {
                    continue;
                }
                "the commit graph says something else than the commit"
            }
            // It may be right about a commit that cannot be read.
            None if damaged.contains(&commit.oid) => continue,
            None => "the commit graph has a commit that the pack lacks",
        };
        if told < TOLD {
            tell(commit.oid, what);
        }
        told += 1;
    }
    for absent in found.take(TOLD.saturating_sub(told)) {
        tell(absent.oid, "the commit graph lacks a commit of the pack");
    }
}

/// Checks that each generation that is known is one more than the greatest of the parents'.
fn check_generations(check: &mut Check<'_>, whole: &Whole) {
    let mut told = 0;
    for (id, (generation, parents, txn)) in &whole.graph {
        let of_parents = parents
            .iter()
            .map(|parent| whole.graph.get(parent).map_or(0, |node| node.0));
        // Where a parent's is not known here, it may have been known from a copy in another pack.
        let known: Option<u32> = of_parents
            .map(|parent| (parent > 0).then_some(parent))
            .try_fold(0, |max, parent| Some(max.max(parent?)));
        let fits = *generation == 0 || known.is_none_or(|greatest| *generation == greatest.saturating_add(1));
        if !fits && told < TOLD {
            told += 1;
            let what = format!(
                "the commit graph gives the commit generation {generation}, which does not follow from its parents"
            );
            let mut finding = Finding::new(Severity::Damage, Code::CommitGraph, what);
            (finding.oid, finding.txn) = (Some(*id), Some(*txn));
            check.find(finding);
        }
    }
}

/// Checks that links from one pack into another lead to objects of the kinds that they say.
fn check_kinds(check: &mut Check<'_>, snapshot: &Snapshot, whole: &Whole, cross: CrossLinks, suspects: &mut Suspects) {
    let mut links: Vec<_> = cross
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .into_iter()
        .collect();
    links.sort_unstable();
    for of_pack in links.chunk_by(|a, b| a.0.0 == b.0.0) {
        let rank = of_pack[0].0.0;
        let (Ok(table), Some(kinds)) = (snapshot.entries(rank), whole.kinds.get(&rank)) else {
            continue;
        };
        let rows = rows_by_offset(&table.offsets);
        for ((_, offset), linked) in of_pack {
            let Ok(at) = rows.binary_search_by_key(offset, |row| table.offsets[*row as usize]) else {
                continue;
            };
            let row = rows[at] as usize;
            // A damaged one was told already.
            let wrong = if kinds[row] == 0 {
                0
            } else {
                linked & !(1 << kinds[row])
            };
            let Some(kind) = kind_of_code(wrong.trailing_zeros() as u8).filter(|_| wrong != 0) else {
                continue;
            };
            let what = format!("a link says that the object is a {kind}, which it is not");
            let mut finding = Finding::new(Severity::Damage, Code::Kind, what);
            (finding.oid, finding.pack) = (Some(table.oid(row).to_owned()), snapshot.pack_id(rank).ok());
            finding.pack_offset = Some(*offset);
            check.find(finding);
            suspects.add_object(check.findings.len() - 1, rank, table.oid(row).to_owned());
        }
    }
}

/// Tells of objects that an earlier run found damaged and this one did not look at or did not find so.
pub(super) fn tell_marks(check: &mut Check<'_>, snapshot: &Snapshot, stored: &Stored, suspects: &mut Suspects) {
    // A later row may say that the pack is sound, and another copy may count in the place of a damaged one.
    let lost: HashSet<ObjectId> = snapshot.damaged_objects().unwrap_or_default().into_iter().collect();
    let told: HashSet<ObjectId> = check.findings.iter().filter_map(|finding| finding.oid).collect();
    let mut marked = HashSet::new();
    for mark in stored
        .marks
        .iter()
        .filter(|mark| !told.contains(&mark.oid) && lost.contains(&mark.oid))
    {
        if !marked.insert((mark.oid, mark.pack_txn)) {
            continue;
        }
        let what = format!("row {} notes that the object is damaged: {}", mark.txn, mark.why);
        let mut finding = Finding::new(Severity::Warning, Code::Object, what);
        (finding.oid, finding.txn, finding.pack_offset) = (Some(mark.oid), Some(mark.pack_txn), Some(mark.offset));
        check.find(finding);
        suspects.add_object(check.findings.len() - 1, 0, mark.oid);
    }
}
