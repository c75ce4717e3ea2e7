//! Where a new branch leaves what the archive has.
//!
//! To tell `git pack-objects` of every tip of a large archive takes longer than all the rest of a push. A new branch usually
//! leaves the default branch, or one of them, after a few commits, so that is looked for first.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader, BufWriter, Write},
    process::Stdio,
};

use anyhow::{Context, Result};
use bstr::ByteSlice;
use gix_hash::ObjectId;
use znippy::{
    archive::Snapshot,
    pack::{PackStore, object::ObjectReader},
};

use crate::{cleanup::Guard, client, reach::reaches_all};

/// So many new commits are looked at before the search is given up.
const BOUND: usize = 256;

/// Returns the commits where the client's history from `commits` on meets what the archive has: `shown`, the archive's tips, or
/// what is below its `default` branch. `None` where that is not found soon: then all tips that the client has are to be used.
///
/// # Errors
/// Fails where git cannot be run or the archive cannot be read.
pub fn nearest(
    commits: &[ObjectId],
    shown: &HashSet<ObjectId>,
    default: Option<ObjectId>,
    snapshot: &Snapshot,
) -> Result<Option<Vec<ObjectId>>> {
    let mut command = client::git();
    command.args(["rev-list", "--parents", "--stdin"]);
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let (_guard, mut child) = Guard::child(command).context("cannot run git rev-list")?;
    let mut input = BufWriter::new(child.stdin.take().expect("stdin is piped"));
    for commit in commits {
        let _ = writeln!(input, "{commit}");
    }
    drop(input);
    let mut search = Search::new(commits);
    let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).split(b'\n');
    let mut below = Vec::new();
    let mut whole = false;
    for line in lines {
        let line = line.context("cannot read from git rev-list")?;
        let mut end = |id: &ObjectId| -> Result<bool> {
            let is_below = !shown.contains(id) && snapshot.lookup(id)?.is_some();
            below.extend(is_below.then_some(*id));
            Ok(is_below || shown.contains(id))
        };
        if !search.take(&line, &mut end)? {
            break;
        }
        whole = search.awaited.is_empty();
        if whole {
            break;
        }
    }
    // It would go on to the first commit of all.
    let _ = child.kill();
    child.wait().context("cannot wait for git rev-list")?;
    // What the archive has but no reference there reaches may be gone when the push is committed.
    let found = whole && reaches_all(&ObjectReader::new(snapshot), default, below)?;
    Ok(found.then_some(search.met))
}

/// A walk along the lines of `git rev-list --parents`.
struct Search {
    /// Commits that belong to the new history or end it, and whose lines are still to come.
    awaited: HashSet<ObjectId>,
    seen: HashSet<ObjectId>,
    /// Commits that end it.
    met: Vec<ObjectId>,
    passed: usize,
}

impl Search {
    fn new(commits: &[ObjectId]) -> Self {
        Search {
            awaited: commits.iter().copied().collect(),
            seen: HashSet::new(),
            met: Vec::new(),
            passed: 0,
        }
    }

    /// Takes the next line, `<commit> <parent>...`; `ends` tells where the new history ends. Returns false where the search
    /// is to be given up: it took too long, or the lines are out of order.
    fn take(&mut self, line: &[u8], ends: &mut dyn FnMut(&ObjectId) -> Result<bool>) -> Result<bool> {
        let ids: Vec<ObjectId> = line.fields().map(ObjectId::from_hex).collect::<Result<_, _>>()?;
        let Some((id, parents)) = ids.split_first() else {
            return Ok(false);
        };
        self.seen.insert(*id);
        if !self.awaited.remove(id) {
            // Below a commit that ended the search.
            return Ok(true);
        }
        if ends(id)? {
            self.met.push(*id);
            return Ok(true);
        }
        self.passed += 1;
        for parent in parents {
            // A wrong date made a commit come before its child.
            let is_late = self.seen.contains(parent) && !self.met.contains(parent);
            if is_late || self.passed == BOUND {
                return Ok(false);
            }
            if !self.met.contains(parent) {
                self.awaited.insert(*parent);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digit: char) -> ObjectId {
        ObjectId::from_hex(digit.to_string().repeat(40).as_bytes()).expect("hex")
    }

    /// Plays lines such as `a b c`: commit a with parents b and c. Returns what ends the history, and whether all of it does.
    fn play(start: char, ends: &str, lines: &[&str]) -> Option<(Vec<ObjectId>, bool)> {
        let ends: HashSet<ObjectId> = ends.chars().map(id).collect();
        let mut search = Search::new(&[id(start)]);
        for line in lines {
            let line: Vec<String> = line.split(' ').map(|word| word.repeat(40)).collect();
            let went_on = search.take(line.join(" ").as_bytes(), &mut |id| Ok(ends.contains(id)));
            went_on.expect("well formed").then_some(())?;
        }
        Some((search.met, search.awaited.is_empty()))
    }

    #[test]
    fn the_walk_ends_where_it_meets_what_is_there() {
        assert_eq!(play('a', "c", &["a b", "b c", "c d"]), Some((vec![id('c')], true)));
        // A merge of two ways, of which one is still open.
        assert_eq!(play('a', "c", &["a b c", "c d", "b e"]), Some((vec![id('c')], false)));
        assert_eq!(play('a', "", &["a b", "b"]), Some((vec![], true)));
        assert_eq!(
            play('a', "bc", &["a b c", "b d", "c d"]),
            Some((vec![id('b'), id('c')], true))
        );
    }

    #[test]
    fn a_parent_before_its_child_ends_the_search() {
        assert_eq!(play('a', "c", &["a b c", "c e", "e", "b e"]), None);
    }
}
