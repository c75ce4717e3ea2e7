//! What must not be cut off, and what readers see while others write.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::format::slot::Slot;

/// Returns where each commit's footer ends.
fn ends(path: &Path) -> Vec<u64> {
    let snapshot = Snapshot::open(path).unwrap();
    snapshot.state().footer.blocks.iter().map(|block| block.end()).collect()
}

fn try_push(path: &Path, n: u32) -> Result<Outcome, Error> {
    let transaction = Transaction {
        packs: vec![pack(n, n + 1, 20)],
        edits: vec![set("refs/heads/x", n)],
        ..Transaction::default()
    };
    commit(path, transaction, WritePolicy::default())
}

/// Where both slots are gone and a commit in the middle is damaged, the good ones behind it are not cut off.
#[test]
fn nothing_behind_a_damage_is_cut_off_without_a_slot() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(6);
    let ends = ends(&path);
    let whole = fs::read(&path).unwrap();
    for at in [ends[2] + 100, ends[3] - 30, ends[3] + 3] {
        let mut bytes = whole.clone();
        for slot in SLOT_OFFSETS {
            bytes[slot as usize..slot as usize + SLOT_LEN].fill(b'x');
        }
        bytes[at as usize] ^= 4;
        fs::write(&path, &bytes).unwrap();
        let snapshot = Snapshot::open(&path).unwrap();
        assert!(snapshot.warnings().len() > 1, "{:?}", snapshot.warnings());
        assert!(matches!(try_push(&path, 50), Err(Error::Damaged { .. })), "byte {at}");
        assert!(fs::read(&path).unwrap() == bytes, "byte {at}: the file was changed");
    }
}

/// A footer that cannot be read costs the state that it names, not those before it.
#[test]
fn the_older_slot_is_used_where_the_newest_footer_is_damaged() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(6);
    let ends = ends(&path);
    let mut bytes = fs::read(&path).unwrap();
    // The walk from the first commit would end here.
    bytes[ends[2] as usize + 100] ^= 1;
    let last = bytes.len() - 100;
    bytes[last] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(snapshot.sequence(), 6);
    assert_eq!(snapshot.warnings().len(), 1, "{:?}", snapshot.warnings());
    assert!(matches!(try_push(&path, 50), Err(Error::Damaged { .. })));
}

/// A changed byte of a pack is damage, however many zeros there are elsewhere in its commit: as in the table of objects that
/// nobody read yet.
#[test]
fn zeros_in_sound_columns_do_not_make_a_tail_torn() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(1);
    let before = fs::read(&path).unwrap();
    push(&path, pack(1000, 5000, 100_000), vec![set("refs/heads/big", 1000)]);
    let good = fs::read(&path).unwrap();
    let footer_at = good.len() - Snapshot::open(&path).unwrap().state().footer_len as usize;
    for at in [footer_at - 5000, footer_at + 40, good.len() - 3] {
        let mut image = good.clone();
        image[..HEAD_LEN as usize].copy_from_slice(&before[..HEAD_LEN as usize]);
        image[at] ^= 1;
        fs::write(&path, &image).unwrap();
        assert_eq!(Snapshot::open(&path).unwrap().sequence(), 2);
        assert!(try_push(&path, 1).unwrap().written);
        let now = fs::read(&path).unwrap();
        assert!(
            now[before.len()..good.len()] == image[before.len()..],
            "byte {at}: cut off"
        );
    }
}

/// An append of which only the first or the last bytes of a sector are missing is torn, not damaged.
#[test]
fn a_hole_smaller_than_a_sector_is_a_hole() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(2);
    let before = fs::read(&path).unwrap();
    push(&path, pack(7, 8, 3000), vec![set("refs/heads/seven", 7)]);
    let mut after = fs::read(&path).unwrap();
    after[..HEAD_LEN as usize].copy_from_slice(&before[..HEAD_LEN as usize]);
    let (start, end) = (before.len(), after.len());
    for hole in [start..start.next_multiple_of(512), end - 16..end] {
        let mut image = after.clone();
        image[hole.clone()].fill(0);
        fs::write(&path, &image).unwrap();
        let snapshot = Snapshot::open(&path).unwrap();
        assert!(snapshot.warnings().is_empty(), "{hole:?}: {:?}", snapshot.warnings());
        assert!(try_push(&path, 9).unwrap().written);
        assert!(fs::metadata(&path).unwrap().len() < end as u64, "{hole:?} was kept");
    }
}

/// Readers beside a writer see one state after the other, and are told of no damage.
#[test]
fn readers_are_not_alarmed_by_a_writer() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(1);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let snapshot = Snapshot::open(&path).unwrap();
                    assert!(snapshot.warnings().is_empty(), "{:?}", snapshot.warnings());
                    assert!(snapshot.sequence() >= last);
                    last = snapshot.sequence();
                }
            });
        }
        for n in 2..400 {
            push(&path, pack(n, n + 1, 5000), vec![set("refs/heads/x", n)]);
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// A crash while the push that skips a damage is written, and again while the next one repairs that.
#[test]
fn a_second_crash_during_a_repair_is_survived() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(2);
    let before = Snapshot::open(&path).unwrap().state().clone();
    let head = fs::read(&path).unwrap()[..HEAD_LEN as usize].to_vec();
    push(&path, pack(7, 8, 3000), vec![set("refs/heads/seven", 7)]);
    let mut damaged = fs::read(&path).unwrap();
    damaged[..HEAD_LEN as usize].copy_from_slice(&head);
    let at = damaged.len() - 4000;
    damaged[at] ^= 0x10;
    fs::write(&path, &damaged).unwrap();
    push(&path, pack(9, 10, 2000), vec![set("refs/heads/nine", 9)]);
    let after = fs::read(&path).unwrap();
    // What the settling of the damage leaves before the push is appended: the older slot names the place behind it.
    let settled = Slot {
        write: before.footer.sequence + 1,
        append: damaged.len() as u64,
        footer_end: before.footer_end,
        commit_id: before.footer.commit_id,
    };
    let mut settled_head = head.clone();
    let at = settled.offset() as usize;
    settled_head[at..at + SLOT_LEN].copy_from_slice(&settled.encode());
    for len in (damaged.len()..after.len()).step_by(101) {
        let image = [&settled_head, &after[HEAD_LEN as usize..len]].concat();
        fs::write(&path, &image).unwrap();
        let snapshot = Snapshot::open(&path).unwrap();
        assert_eq!(value(&snapshot, "refs/heads/b2"), Some(oid(2)), "cut at {len}");
        assert_eq!(value(&snapshot, "refs/heads/nine"), None, "cut at {len}");
        assert!(try_push(&path, 11).unwrap().written);
        let snapshot = Snapshot::open(&path).unwrap();
        assert_eq!(value(&snapshot, "refs/heads/x"), Some(oid(11)), "cut at {len}");
        assert!(
            snapshot.warnings().is_empty(),
            "cut at {len}: {:?}",
            snapshot.warnings()
        );
        let now = fs::read(&path).unwrap();
        assert!(now[head.len()..damaged.len()] == damaged[head.len()..], "cut at {len}");
    }
    // Whole, but for the slot: it counts.
    fs::write(&path, [&settled_head, &after[HEAD_LEN as usize..]].concat()).unwrap();
    assert_eq!(value(&Snapshot::open(&path).unwrap(), "refs/heads/nine"), Some(oid(9)));
    assert!(try_push(&path, 11).unwrap().written);
    assert_eq!(value(&Snapshot::open(&path).unwrap(), "refs/heads/nine"), Some(oid(9)));
}

/// R3, R7: the commit is there although its slot was never written; the next writer confirms it.
#[test]
fn a_whole_tail_counts_and_is_confirmed_by_the_next_push() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(1);
    let slots = fs::read(&path).unwrap()[..HEAD_LEN as usize].to_vec();
    push(&path, pack(7, 8, 3000), vec![set("refs/heads/seven", 7)]);
    let mut bytes = fs::read(&path).unwrap();
    bytes[..HEAD_LEN as usize].copy_from_slice(&slots);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(value(&Snapshot::open(&path).unwrap(), "refs/heads/seven"), Some(oid(7)));
    push(&path, pack(8, 9, 3000), vec![set("refs/heads/eight", 8)]);
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(value(&snapshot, "refs/heads/seven"), Some(oid(7)));
    assert_eq!(value(&snapshot, "refs/heads/eight"), Some(oid(8)));
}

/// R4 and the table of tails: whatever part of an append is on the disk, readers show the state before or after, and the next
/// push works.
#[test]
fn every_cut_and_every_hole_of_an_append_is_survived() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(2);
    let before = fs::read(&path).unwrap();
    push(&path, pack(7, 8, 3000), vec![set("refs/heads/seven", 7)]);
    let after = fs::read(&path).unwrap();
    let head = HEAD_LEN as usize;
    let mut images: Vec<(String, Vec<u8>)> = (before.len()..after.len())
        .step_by(13)
        .map(|len| (format!("cut at {len}"), [&before[..head], &after[head..len]].concat()))
        .collect();
    for at in (before.len().next_multiple_of(512)..after.len()).step_by(512) {
        let mut image = [&before[..head], &after[head..]].concat();
        let end = (at + 512).min(image.len());
        image[at..end].fill(0);
        images.push((format!("hole at {at}"), image));
    }
    assert!(images.len() > 400);
    for (what, image) in images {
        fs::write(&path, &image).unwrap();
        let snapshot = Snapshot::open(&path).unwrap();
        assert_eq!(value(&snapshot, "refs/heads/seven"), None, "{what}");
        assert_eq!(value(&snapshot, "refs/heads/b2"), Some(oid(2)), "{what}");
        push(&path, pack(9, 10, 200), vec![set("refs/heads/nine", 9)]);
        let snapshot = Snapshot::open(&path).unwrap();
        assert_eq!(value(&snapshot, "refs/heads/nine"), Some(oid(9)), "{what}");
        assert_eq!(snapshot.packs(), 3, "{what}");
        assert!(snapshot.warnings().is_empty(), "{what}: {:?}", snapshot.warnings());
    }
}

/// Complete but changed bytes are damage: they stay, and work goes on behind them.
#[test]
fn a_damaged_tail_is_kept_and_skipped() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(1);
    let before = fs::read(&path).unwrap();
    push(&path, pack(7, 8, 3000), vec![set("refs/heads/seven", 7)]);
    let mut image = fs::read(&path).unwrap();
    image[..HEAD_LEN as usize].copy_from_slice(&before[..HEAD_LEN as usize]);
    let at = image.len() - 4000;
    image[at] ^= 0x10;
    fs::write(&path, &image).unwrap();
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(value(&snapshot, "refs/heads/seven"), None);
    assert_eq!(snapshot.warnings().len(), 1, "{:?}", snapshot.warnings());
    push(&path, pack(9, 10, 200), vec![set("refs/heads/nine", 9)]);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(
        bytes[before.len()..image.len()],
        image[before.len()..],
        "the damaged bytes are kept"
    );
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(value(&snapshot, "refs/heads/nine"), Some(oid(9)));
    assert_eq!(value(&snapshot, "refs/heads/b1"), Some(oid(1)));
}
