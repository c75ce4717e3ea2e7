//! What a damaged file says, and what it never says.

use super::*;

/// R2: one slot or both.
#[test]
fn unreadable_slots_are_healed() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(4);
    for (n, spoiled) in [(20, &[0][..]), (21, &[1]), (22, &[0, 1])] {
        let mut bytes = fs::read(&path).unwrap();
        for slot in spoiled {
            let at = SLOT_OFFSETS[*slot] as usize;
            bytes[at..at + SLOT_LEN].fill(0xaa);
        }
        fs::write(&path, &bytes).unwrap();
        let snapshot = Snapshot::open(&path).unwrap();
        assert_eq!(value(&snapshot, "refs/heads/b4"), Some(oid(4)));
        push(&path, pack(n, n + 1, 20), vec![set(&format!("refs/heads/{n}"), n)]);
        push(&path, pack(n, n + 1, 20), vec![set(&format!("refs/heads/{n}again"), n)]);
        assert!(Snapshot::open(&path).unwrap().warnings().is_empty());
    }
}

#[test]
fn a_truncated_archive_shows_an_earlier_state_loudly_and_takes_no_push() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(3);
    let whole = fs::read(&path).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for len in (0..whole.len()).step_by(97) {
        fs::write(&path, &whole[..len]).unwrap();
        match Snapshot::open(&path) {
            Ok(snapshot) => {
                assert!(!snapshot.warnings().is_empty(), "silent at {len}");
                seen.insert(snapshot.sequence());
            }
            Err(Error::Truncated { .. } | Error::NotAnArchive { .. } | Error::Damaged { .. }) => {}
            Err(Error::BeingCreated { .. }) if len == 0 => {}
            Err(other) => panic!("cut at {len}: {other}"),
        }
        let transaction = Transaction {
            packs: vec![pack(9, 10, 10)],
            edits: vec![set("refs/heads/x", 9)],
            ..Transaction::default()
        };
        assert!(
            commit(&path, transaction, WritePolicy::default()).is_err(),
            "pushed into a file cut at {len}"
        );
        assert_eq!(fs::metadata(&path).unwrap().len(), len as u64);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
}

/// R28: a flipped bit of the columns and metadata is an error, never another answer and never a panic.
#[test]
fn every_flipped_byte_is_noticed() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(2);
    let whole = fs::read(&path).unwrap();
    let good = Snapshot::open(&path).unwrap();
    let good_refs = good.refs().unwrap();
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at / 3 % 8);
        fs::write(&path, &bytes).unwrap();
        let Ok(snapshot) = Snapshot::open(&path) else { continue };
        let Ok(refs) = snapshot.refs() else { continue };
        if snapshot.sequence() == good.sequence() {
            assert_eq!(refs, good_refs, "byte {at}");
            for n in [1, 2] {
                // Without a pack, others have other ranks.
                let place = |snapshot: &Snapshot| {
                    let found = snapshot.lookup(&oid(n))?;
                    Ok::<_, Error>(found.map(|at| (snapshot.pack_id(at.pack).unwrap(), at.offset, at.crc32)))
                };
                if let Ok(found) = place(&snapshot) {
                    let expected = place(&good).unwrap();
                    let same = found.zip(expected).is_some_and(|(a, b)| (a.1, a.2) == (b.1, b.2));
                    assert!(same, "byte {at}");
                }
            }
        } else {
            assert!(
                !snapshot.warnings().is_empty(),
                "byte {at} silently shows an earlier state"
            );
        }
    }
}
