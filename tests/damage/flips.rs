//! Every single bit of an archive, flipped.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicUsize, Ordering},
};

use gix_hash::Kind as Format;
use znippy::{
    format::{HEAD_LEN, batch::Batch, head::Head, recover::recover},
    media::{Medium, MemMedium},
};

use crate::{
    archive::{Known, Model},
    disk::MemDisk,
    examine::{Allowed, examine, in_parallel, named},
    memory,
};

/// What lies at a place of the file. Commits are counted from 0 in the order of the file; those that were merged into later
/// ones count no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Head,
    Metadata,
    Refs,
    Objects,
    BehindObjects,
    /// Bytes of a pack; where the pack starts.
    Pack(u64),
    Padding,
    Footer,
    Dead,
}

struct Piece {
    place: Range<u64>,
    part: Part,
    /// The commits whose packs it holds or describes.
    commits: Range<usize>,
    /// Whether the references are read from this commit.
    has_refs: bool,
    is_newest: bool,
}

/// Returns what lies where in a sound archive.
fn pieces(model: &Model) -> Vec<Piece> {
    let medium = MemMedium::new(model.bytes.clone());
    let head = Head::decode(&model.bytes[..HEAD_LEN as usize]).unwrap();
    let state = recover(&medium, &head, model.bytes.len() as u64, None).unwrap().state;
    let refs = [&state.footer.refs.base, &state.footer.refs.run].map(|row| row.as_ref().map(|row| row.block));
    let mut pieces = vec![];
    let mut at = HEAD_LEN;
    let plain = |place, part| Piece {
        place,
        part,
        commits: 0..0,
        has_refs: false,
        is_newest: false,
    };
    pieces.push(plain(0..HEAD_LEN, Part::Head));
    for (nth, block) in state.footer.blocks.iter().enumerate() {
        if at < block.offset {
            pieces.push(plain(at..block.offset, Part::Dead));
        }
        at = block.end();
        let batch = Batch::load(&medium, *block, Format::Sha1).unwrap();
        let packs = batch.packs(&medium).unwrap();
        // Each push has one row with a pack, and the first commit is number 0.
        let by_txn = |txn: u64| model_commit(model, &packs.iter().find(|pack| pack.txn == txn).unwrap().id);
        let commits: Vec<usize> = packs.iter().map(|pack| by_txn(pack.txn)).collect();
        let commits = commits
            .iter()
            .min()
            .map_or(0..0, |first| *first..commits.iter().max().unwrap() + 1);
        let has_refs = refs.contains(&Some(nth));
        let is_newest = block.end() == state.footer_end;
        let mut push = |place: Range<u64>, part, commits: &Range<usize>| {
            pieces.push(Piece {
                place,
                part,
                commits: commits.clone(),
                has_refs,
                is_newest,
            });
        };
        push(block.offset..block.body_at(), Part::Metadata, &commits);
        let [section_0, section_1, section_2] = batch.section_places();
        push(section_0, Part::Refs, &commits);
        push(section_1, Part::Objects, &commits);
        push(section_2, Part::BehindObjects, &commits);
        let mut end = block.body_at() + batch.geometry.pack_data().start;
        for pack in &packs {
            end = pack.at + pack.len;
            let commit = by_txn(pack.txn);
            push(pack.at..end, Part::Pack(pack.at), &(commit..commit + 1));
        }
        push(end..end.next_multiple_of(8), Part::Padding, &(0..0));
        push(end.next_multiple_of(8)..block.end(), Part::Footer, &commits);
    }
    assert_eq!(at, model.bytes.len() as u64);
    pieces
}

/// Returns the commit that brought the pack: the one whose objects the pack has.
fn model_commit(model: &Model, pack: &gix_hash::ObjectId) -> usize {
    model.packs.iter().position(|id| id == pack).unwrap()
}

/// Returns whether damage at `at`, in `piece`, may cost an object.
fn may_cost(piece: &Piece, at: u64, known: &Known, model: &Model) -> bool {
    let described = piece.commits.contains(&known.commit);
    match piece.part {
        Part::Head | Part::Padding | Part::Dead | Part::Refs => false,
        // Of the newest, an earlier state is shown.
        Part::Footer => false,
        Part::Metadata | Part::Objects | Part::BehindObjects => described,
        Part::Pack(start) => {
            let hit = at - start;
            let is_hit = |entry: &Range<u64>| entry.contains(&hit);
            let base = model
                .objects
                .iter()
                .find(|other| other.commit == known.commit && Some(other.entry.start) == known.base);
            described && (is_hit(&known.entry) || base.is_some_and(|base| is_hit(&base.entry)))
        }
    }
}

/// Flips bits of every `step`th byte, all or one, and examines the archive each time.
fn flip(model: &Model, step: usize, all_bits: bool) {
    let pieces = pieces(model);
    let images = AtomicUsize::new(0);
    in_parallel(|thread, threads| {
        let disk = MemDisk::new(model.bytes.clone());
        for at in (0..model.bytes.len()).step_by(step).skip(thread).step_by(threads) {
            let piece = pieces.iter().find(|piece| piece.place.contains(&(at as u64))).unwrap();
            let bits = if all_bits { 0..8 } else { at % 8..at % 8 + 1 };
            for bit in bits {
                let flipped = model.bytes[at] ^ 1 << bit;
                disk.file.write_all_at(at as u64, &[flipped]).unwrap();
                let result = catch_unwind(AssertUnwindSafe(|| look(&disk, model, piece, at as u64)));
                let place = format!(
                    "bit {bit} of byte {at}, {:?} of commits {:?}",
                    piece.part, piece.commits
                );
                match result {
                    Ok(Ok(())) => memory::check(&place),
                    Ok(Err(why)) => panic!("{place}: {why}"),
                    Err(_) => panic!("{place}: a panic"),
                }
                images.fetch_add(1, Ordering::Relaxed);
            }
            disk.file.write_all_at(at as u64, &[model.bytes[at]]).unwrap();
        }
    });
    println!("{} images", images.into_inner());
}

fn look(disk: &MemDisk, model: &Model, piece: &Piece, at: u64) -> Result<(), String> {
    let allowed = Allowed {
        refs: piece.has_refs && matches!(piece.part, Part::Metadata | Part::Refs),
        earlier: piece.part == Part::Footer && piece.is_newest,
        all: false,
        object: &|known| may_cost(piece, at, known, model),
    };
    examine(disk, model, &allowed)?;
    let report = named(disk)?.ok_or("verify does not open it")?;
    // The object that was hit is named, by name.
    let hit = model.objects.iter().find(|known| {
        matches!(piece.part, Part::Pack(start) if piece.commits.contains(&known.commit) && known.entry.contains(&(at - start)))
    });
    match hit {
        Some(known) if !report.findings.iter().any(|finding| finding.oid == Some(known.id)) => Err(format!(
            "verify does not name object {}: {:?}",
            known.id, report.findings
        )),
        _ => Ok(()),
    }
}

/// R19, R28: head, metadata, columns, packs, padding, footers of a few pushes.
#[test]
fn every_bit_of_a_few_pushes() {
    let directory = tempfile::tempdir().unwrap();
    flip(&Model::small(directory.path(), 3), 1, true);
}

/// An archive of one push has no earlier state to fall back to; what its footer says can be told from the rest.
#[test]
fn every_bit_of_one_push_and_an_empty_archive() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.znippy");
    znippy::archive::create(&path, Format::Sha1, "refs/heads/main".into()).unwrap();
    let mut model = Model::new();
    model.note(&path, Format::Sha1.null());
    model.push(directory.path(), 2, "refs/heads/main");
    flip(&model, 11, false);
}

/// Merged batches, dead ones, references in a run and a base.
#[test]
fn bits_of_merged_pushes() {
    let directory = tempfile::tempdir().unwrap();
    flip(&Model::small(directory.path(), 67), 251, false);
}

/// R19: a pack with a block index.
#[test]
fn bits_of_a_large_table() {
    let directory = tempfile::tempdir().unwrap();
    let mut model = Model::small(directory.path(), 1);
    model.push(directory.path(), 4100, "refs/heads/large");
    flip(&model, 4999, false);
}
