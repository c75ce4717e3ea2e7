//! What merging keeps.

use std::sync::Arc;

use super::*;
use crate::{
    archive::{
        append,
        prepare::{Addition, prepare},
    },
    format::{batch::Batch, row::Row, slot::Slot},
    media::{FileMedium, Medium},
};

/// Returns every live row, in the order of their numbers.
fn all_rows(path: &Path) -> Vec<Row> {
    let snapshot = Snapshot::open(path).unwrap();
    let footer = &snapshot.state().footer;
    let rows = |block: &_| {
        let batch = Batch::load(snapshot.medium(), *block, Kind::Sha1).unwrap();
        batch.rows(snapshot.medium()).unwrap()
    };
    let mut rows: Vec<Row> = footer.blocks.iter().flat_map(rows).collect();
    rows.sort_by_key(|row| row.txn);
    rows
}

/// Appends a commit that a writer made whose clock was an hour ahead.
fn push_from_the_future(path: &Path, edit: RefEdit) {
    let snapshot = Snapshot::open(path).unwrap();
    let mut state = snapshot.state().clone();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as i64;
    state.footer.totals.last_time_us = now + 3_600_000_000;
    let addition = Addition {
        changes: [(edit.name, edit.new)].into(),
        ..Addition::default()
    };
    let prepared = prepare(path, &state, snapshot.ref_view().unwrap(), addition).unwrap();
    let medium = Arc::new(FileMedium::new(
        fs::File::options().read(true).write(true).open(path).unwrap(),
    ));
    append::write(
        medium.as_ref(),
        path,
        &prepared,
        &mut durability::Fast,
        &|| Ok(()),
        |_, _| (),
    )
    .unwrap();
    let end = prepared.commit.end();
    let slot = Slot {
        write: state.footer.sequence + 1,
        append: end,
        footer_end: end,
        commit_id: prepared.commit.footer.commit_id,
    };
    medium.write_all_at(slot.offset(), &slot.encode()).unwrap();
}

/// R15, R17: where the clock went back all rows have the same time, and a push without a pack that merges is still a row.
#[test]
fn r17_rows_that_move_along_keep_their_references() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(1);
    push_from_the_future(&path, set("refs/heads/future", 1));
    let mut expected = vec![];
    for n in 2..200 {
        let name = format!("refs/heads/b{n}");
        if n % 3 == 0 {
            let transaction = Transaction {
                edits: vec![set(&name, 1)],
                actor: Some(name.clone().into()),
                ..Transaction::default()
            };
            assert!(commit(&path, transaction, WritePolicy::default()).unwrap().written);
        } else {
            push(&path, pack(n, n + 1, 700), vec![set(&name, n)]);
        }
        expected.push(name);
    }
    let footer = Snapshot::open(&path).unwrap().state().footer.clone();
    assert!(footer.blocks.iter().any(|block| block.level > 0), "nothing was merged");
    let rows = all_rows(&path);
    assert!(rows.windows(2).all(|pair| pair[0].txn < pair[1].txn));
    assert!(rows.windows(2).skip(3).all(|pair| pair[0].time_us == pair[1].time_us));
    let pushes = rows.iter().filter(|row| row.kind == crate::format::row::RowKind::Push);
    let names: Vec<String> = pushes
        .flat_map(|row| &row.refs)
        .map(|r| r.name.to_string())
        .filter(|name| expected.contains(name))
        .collect();
    assert_eq!(names, expected);
}

/// R19: a damaged batch stays where it is, is not spread, and does not keep the others from being merged.
#[test]
fn a_damaged_batch_does_not_stop_merging() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(20);
    let snapshot = Snapshot::open(&path).unwrap();
    let mut place = vec![0; 100];
    snapshot.read_exact_at(9, 0, &mut place).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.find(&place).unwrap();
    bytes[at + 50] ^= 1;
    fs::write(&path, &bytes).unwrap();
    for n in 21..150 {
        push(&path, pack(n, n + 1, 100), vec![set("refs/heads/x", n)]);
    }
    let snapshot = Snapshot::open(&path).unwrap();
    let footer = &snapshot.state().footer;
    assert!(footer.blocks.len() < 80, "{} live batches", footer.blocks.len());
    for n in 1..150 {
        assert_eq!(snapshot.lookup(&oid(n)).unwrap().unwrap().pack, n - 1);
    }
    snapshot.read_exact_at(9, 0, &mut place).unwrap();
    assert_eq!(place, bytes[at..at + 100], "the damaged pack lies where it lay");
    let now = fs::read(&path).unwrap();
    assert_eq!(now.find_iter(&place).collect::<Vec<_>>(), [at]);
}

/// R17: thousands of pushes leave a short footer, and every row keeps its number, pack and references.
#[test]
fn r17_small_batches_merge_and_nothing_changes_for_readers() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(1);
    push(
        &path,
        pack(100_000, 105_000, 400_000),
        vec![set("refs/heads/large", 100_000)],
    );
    let pushes = 4300;
    let mut appended = 0;
    for n in 2..pushes {
        let before = fs::metadata(&path).unwrap().len();
        push(
            &path,
            pack(n, n + 1, 700),
            vec![set(&format!("refs/heads/b{}", n % 7), n), set("refs/heads/main", n)],
        );
        appended += fs::metadata(&path).unwrap().len() - before - 720;
    }
    let snapshot = Snapshot::open(&path).unwrap();
    let footer = &snapshot.state().footer;
    assert!(footer.blocks.len() < 140, "{} live batches", footer.blocks.len());
    assert!(
        snapshot.state().footer_len <= 8 << 10,
        "a footer of {} bytes",
        snapshot.state().footer_len
    );
    assert!(
        appended / u64::from(pushes) <= 16 << 10,
        "{} bytes a push",
        appended / u64::from(pushes)
    );
    assert_eq!(snapshot.packs(), pushes);
    assert_eq!(footer.totals.objects, u64::from(pushes) - 1 + 5000);
    for n in (1..pushes).chain([100_000, 104_999]) {
        let location = snapshot.lookup(&oid(n)).unwrap().unwrap();
        let rank = match n {
            1 => 0,
            100_000.. => 1,
            n => n,
        };
        assert_eq!(location.pack, rank, "object {n}");
        let trailer = snapshot.pack_len(rank).unwrap() - 20;
        let mut id = [0; 20];
        snapshot.read_exact_at(rank, trailer, &mut id).unwrap();
        assert_eq!(ObjectId::from(id), snapshot.pack_id(rank).unwrap());
    }
    assert_eq!(value(&snapshot, "refs/heads/main"), Some(oid(pushes - 1)));
    assert_eq!(value(&snapshot, "refs/heads/large"), Some(oid(100_000)));
    let live: u64 = footer.blocks.iter().map(|block| block.end() - block.offset).sum();
    assert!(footer.totals.dead_bytes + live >= snapshot.file_len() - HEAD_LEN - snapshot.state().footer_len);
}
