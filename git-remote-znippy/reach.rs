//! Whether some commits of the archive are below others.

use std::collections::{BinaryHeap, HashSet};

use anyhow::Result;
use gix_hash::ObjectId;
use znippy::pack::{graph::read_commit, object::ObjectReader};

/// So many commits are looked at before the answer is no.
const BOUND: usize = 2048;

/// Returns whether `commits` are all among the ancestors of `tips` that a short walk finds. Tips that are no commits lead
/// nowhere.
///
/// # Errors
/// Fails where a commit on the way cannot be read.
pub fn reaches_all(
    reader: &ObjectReader<'_>,
    tips: impl IntoIterator<Item = ObjectId>,
    commits: impl IntoIterator<Item = ObjectId>,
) -> Result<bool> {
    let mut sought: HashSet<ObjectId> = commits.into_iter().collect();
    let mut seen = HashSet::new();
    // A child's date stands for that of its parents: it only orders the walk.
    let mut queue: BinaryHeap<(i64, ObjectId)> = tips.into_iter().map(|tip| (i64::MAX, tip)).collect();
    while let Some((_, id)) = queue.pop() {
        if sought.is_empty() || seen.len() == BOUND {
            break;
        }
        if !seen.insert(id) {
            continue;
        }
        sought.remove(&id);
        if let Ok(commit) = read_commit(reader, &id) {
            queue.extend(commit.parents.iter().map(|parent| (commit.time, *parent)));
        }
    }
    Ok(sought.is_empty())
}
