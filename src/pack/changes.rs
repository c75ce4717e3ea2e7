//! The entries of a tree that another tree does not have.
//!
//! A tree is mostly equal to the tree that it was stored as a delta against, and to the one that was at its path a commit
//! before. What is equal there is found by comparing bytes, without looking at entries: parsing them is what a walk over a
//! history's trees would spend most of its time on.

use std::sync::Arc;

use super::parse::{TreeEntry, tree_entry};

/// A tree with the places of its entries.
#[derive(Clone, Default)]
pub(super) struct IndexedTree {
    pub data: Arc<Vec<u8>>,
    /// Where entries start, and where the last one ends.
    pub starts: Vec<u32>,
}

/// Visits the entries of `tree`, whose ids have `width` bytes, except ones that `base` has too; it may also visit some of
/// those. Fills `starts` with the places of all entries, so that the tree can be a base in turn.
///
/// # Errors
/// Fails with the reason where `tree` is malformed, after entries before that place were visited, and as `visit` does.
pub(super) fn visit_changes<E: From<&'static str>>(
    tree: &[u8],
    base: &IndexedTree,
    width: usize,
    starts: &mut Vec<u32>,
    mut visit: impl FnMut(TreeEntry<'_>) -> Result<(), E>,
) -> Result<(), E> {
    starts.clear();
    if u32::try_from(tree.len()).is_err() {
        return Err("a tree of 4 GiB or more is not supported".into());
    }
    // `at` is the start of an entry of `tree`, `row` one of an entry of `base` (the last one: its end).
    let (mut at, mut row) = (0, 0);
    loop {
        if let Some(&base_at) = base.starts.get(row) {
            let equal_end = base_at as usize + common_prefix(&tree[at..], &base.data[base_at as usize..]);
            // Whole entries that are equal, from entry starts on in both: their places can be taken over.
            let equal_rows = base.starts[row..].partition_point(|start| *start as usize <= equal_end) - 1;
            let shift = (at as u32).wrapping_sub(base_at);
            starts.extend(
                base.starts[row..row + equal_rows]
                    .iter()
                    .map(|start| start.wrapping_add(shift)),
            );
            row += equal_rows;
            at += (base.starts[row] - base_at) as usize;
        }
        starts.push(at as u32);
        let Some((entry, rest)) = tree_entry(&tree[at..], width)? else {
            return Ok(());
        };
        at = tree.len() - rest.len();
        // On to the base's next entry in order. Where order is broken, more is visited than needs to be.
        while row + 1 < base.starts.len() {
            let of_base = &base.data[base.starts[row] as usize..base.starts[row + 1] as usize];
            match tree_entry(of_base, width)? {
                Some((other, _)) if other.name <= entry.name => row += 1,
                _ => break,
            }
        }
        visit(entry)?;
    }
}

/// Returns how many bytes at the start of both are equal.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let word = |bytes: &[u8]| u128::from_le_bytes(bytes.try_into().expect("chunks have 16 bytes"));
    let mut equal = 0;
    for (a, b) in a.chunks_exact(16).zip(b.chunks_exact(16)) {
        let difference = word(a) ^ word(b);
        if difference != 0 {
            return equal + difference.trailing_zeros() as usize / 8;
        }
        equal += 16;
    }
    equal + a[equal..].iter().zip(&b[equal..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Entries = BTreeMap<Vec<u8>, u8>;

    fn encode(entries: &Entries) -> Vec<u8> {
        let mut tree = Vec::new();
        for (name, id) in entries {
            tree.extend_from_slice(b"100644 ");
            tree.extend_from_slice(name);
            tree.push(0);
            tree.extend([*id; 20]);
        }
        tree
    }

    fn index(tree: &[u8], base: &IndexedTree) -> (IndexedTree, Vec<(Vec<u8>, u8)>) {
        let (mut starts, mut seen) = (Vec::new(), Vec::new());
        visit_changes::<&str>(tree, base, 20, &mut starts, |entry| {
            seen.push((entry.name.to_vec(), entry.id[0]));
            Ok(())
        })
        .unwrap();
        (
            IndexedTree {
                data: Arc::new(tree.to_vec()),
                starts,
            },
            seen,
        )
    }

    #[test]
    fn nothing_new_is_passed_over() {
        let mut state = 7u64;
        let mut random = |bound: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % bound
        };
        let mut entries = Entries::new();
        let mut base = IndexedTree::default();
        let mut visited = 0;
        for _ in 0..3000 {
            let before = entries.clone();
            for _ in 0..random(4) {
                let name = format!("name{}", random(60)).into_bytes();
                match random(3) {
                    0 => entries.remove(&name),
                    // Few ids, so that equal bytes turn up at wrong places too.
                    id => entries.insert(name, id as u8 + 1),
                };
            }
            let tree = encode(&entries);
            let (indexed, seen) = index(&tree, &base);
            visited += seen.len();
            for (name, id) in &entries {
                assert!(before.get(name) == Some(id) || seen.contains(&(name.clone(), *id)));
            }
            assert!(seen.iter().all(|(name, id)| entries.get(name) == Some(id)));
            let plain = index(&tree, &IndexedTree::default());
            assert_eq!(indexed.starts, plain.0.starts);
            assert_eq!(plain.1.len(), entries.len());
            base = indexed;
        }
        assert!(visited < 3000 * 4, "{visited} entries visited");
    }

    #[test]
    fn malformed_trees_are_refused() {
        let good = encode(&Entries::from([(b"a".to_vec(), 1), (b"b".to_vec(), 2)]));
        let (base, _) = index(&good, &IndexedTree::default());
        for len in 1..good.len() {
            let result = visit_changes::<&str>(&good[..len], &base, 20, &mut Vec::new(), |_| Ok(()));
            assert_eq!(result.is_ok(), len == good.len() / 2, "cut at {len}");
        }
        assert_eq!(common_prefix(&good, &good), good.len());
        assert_eq!(common_prefix(&good, b""), 0);
    }
}
