//! Footers that are damaged after their commit was confirmed.

use super::*;

/// Flips a bit in the middle of the newest footer.
fn damage_footer(path: &Path) -> Snapshot {
    let snapshot = Snapshot::open(path).unwrap();
    // Read while they can be.
    snapshot.refs().unwrap();
    let (end, len) = (
        snapshot.state().footer_end as usize,
        snapshot.state().footer_len as usize,
    );
    let mut bytes = fs::read(path).unwrap();
    bytes[end - len / 2] ^= 4;
    fs::write(path, bytes).unwrap();
    snapshot
}

/// R19: a footer says nothing that its commit and the one before do not say: it is made again, whatever the commit did.
#[test]
fn r19_a_damaged_footer_is_made_again() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(2);
    for n in 3..140 {
        match n % 9 {
            0 => {
                let name = format!("refs/heads/b{}", n - 1);
                push(&path, pack(n, n + 1, 100), vec![delete(&name)]);
            }
            1 => {
                let name = format!("refs/hidden/b{n}");
                let add = |policy: &mut crate::policy::Policy| policy.add("transfer.hideRefs", name.as_str().into());
                configure(&path, None, WritePolicy::default(), add).unwrap();
            }
            _ => drop(push(
                &path,
                pack(n, n + 1, 100),
                vec![set(&format!("refs/heads/b{n}"), n)],
            )),
        }
        let whole = fs::read(&path).unwrap();
        let good = damage_footer(&path);
        let transaction = || Transaction {
            edits: vec![set("refs/heads/x", 1)],
            ..Transaction::default()
        };
        assert!(Snapshot::open(&path).unwrap().sequence() < good.sequence());
        commit(&path, transaction(), WritePolicy::default()).unwrap_err();
        let done = rebuild_footer(&path, &mut WritePolicy::default()).unwrap();
        assert!(done.contains("made again"), "commit {n}: {done}");
        let now = Snapshot::open(&path).unwrap();
        assert!(now.warnings().is_empty(), "{:?}", now.warnings());
        assert_eq!(now.refs().unwrap(), good.refs().unwrap(), "commit {n}");
        let (was, is) = (&good.state().footer, &now.state().footer);
        assert_eq!(is.policy, was.policy);
        assert_eq!(is.sequence, was.sequence + 1);
        let blocks = was.blocks.len();
        if is.blocks.len() == blocks + 1 {
            assert_eq!(is.blocks[..blocks], was.blocks, "commit {n}");
        }
        let same = |totals: crate::format::footer::Totals| {
            [
                totals.packs,
                totals.objects,
                totals.unresolved,
                totals.unproven,
                totals.pack_bytes,
            ]
        };
        assert_eq!(same(is.totals), same(was.totals));
        // Both slots name something that can be read.
        let repaired = fs::read(&path).unwrap();
        for slot in SLOT_OFFSETS {
            let mut bytes = repaired.clone();
            bytes[slot as usize..slot as usize + SLOT_LEN].fill(b' ');
            fs::write(&path, bytes).unwrap();
            assert_eq!(Snapshot::open(&path).unwrap().refs().unwrap(), good.refs().unwrap());
        }
        fs::write(&path, &repaired).unwrap();
        assert!(commit(&path, transaction(), WritePolicy::default()).unwrap().written);
        // On with the archive that was never damaged.
        fs::write(&path, whole).unwrap();
    }
}

/// Where the commit is damaged too, the one before counts again, and what was behind it stays in the file.
#[test]
fn r19_without_its_commit_a_footer_is_gone() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(3);
    let before = Snapshot::open(&path).unwrap();
    let refs = before.refs().unwrap();
    push(&path, pack(9, 10, 300), vec![set("refs/heads/nine", 9)]);
    damage_footer(&path);
    let mut bytes = fs::read(&path).unwrap();
    let at = before.state().append as usize + 100;
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let done = rebuild_footer(&path, &mut WritePolicy::default()).unwrap();
    assert!(done.contains("counts again"), "{done}");
    assert_eq!(Snapshot::open(&path).unwrap().refs().unwrap(), refs);
    push(&path, pack(11, 12, 300), vec![set("refs/heads/eleven", 11)]);
    let now = Snapshot::open(&path).unwrap();
    assert_eq!(value(&now, "refs/heads/eleven"), Some(oid(11)));
    let kept = fs::read(&path).unwrap();
    assert!(kept[HEAD_LEN as usize..].starts_with(&bytes[HEAD_LEN as usize..]));
}

/// Commits that no slot names follow the one whose footer is damaged, and others came between the slots: all of them stay.
#[test]
fn r19_what_surrounds_a_damaged_footer_stays() {
    let sandbox = Sandbox::new();
    let path = sandbox.archive(3);
    let fast = |n: u32| {
        let transaction = Transaction {
            packs: vec![pack(n, n + 1, 300)],
            edits: vec![set(&format!("refs/heads/f{n}"), n)],
            ..Transaction::default()
        };
        let policy = WritePolicy {
            durability: Durability::Fast,
            ..WritePolicy::default()
        };
        commit(&path, transaction, policy).unwrap()
    };
    fast(20);
    fast(21);
    push(&path, pack(22, 23, 300), vec![set("refs/heads/safe", 22)]);
    let end = Snapshot::open(&path).unwrap().state().footer_end as usize;
    fast(23);
    let refs = Snapshot::open(&path).unwrap().refs().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[end - 700] ^= 4;
    fs::write(&path, bytes).unwrap();
    let done = rebuild_footer(&path, &mut WritePolicy::default()).unwrap();
    assert!(done.contains("made again"), "{done}");
    assert_eq!(Snapshot::open(&path).unwrap().refs().unwrap(), refs);
}
