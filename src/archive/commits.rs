//! The commits of a pack, collected for the graph while its objects are looked at.

use std::collections::{HashMap, hash_map::Entry};

use bstr::BString;
use gix_hash::oid;

use super::Snapshot;
use crate::{
    error::Result,
    format::commit_rows::{CommitRow, CommitRows},
    pack::{EntryTable, oid_table::OidTable, parse, resolve::ResolvedCommit},
};

/// Commits in any order, some 50 bytes each: objects are named by their rows in the pack's table, and authors by numbers.
pub struct Commits<'a> {
    table: &'a EntryTable,
    commits: Vec<Collected>,
    /// Tree and parents of each commit, one commit after the other.
    linked: Vec<Linked>,
    /// What is not in the table.
    outside: OidTable,
    authors: HashMap<BString, u32>,
}

struct Collected {
    row: u32,
    author: u32,
    committed_at: i64,
    /// Where its links start.
    linked_at: usize,
    links: u32,
}

#[derive(Clone, Copy)]
enum Linked {
    Row(u32),
    Outside(u32),
}

impl<'a> Commits<'a> {
    /// Starts with no commits; they are in the pack with the entries `table`.
    pub fn of(table: &'a EntryTable) -> Commits<'a> {
        Commits {
            table,
            commits: vec![],
            linked: vec![],
            outside: OidTable::new(table.oid_len),
            authors: HashMap::new(),
        }
    }

    pub fn add(&mut self, commit: ResolvedCommit<'_>) {
        let links = commit.links;
        let author = author_name(links.author);
        let author = match self.authors.get(author) {
            Some(number) => *number,
            None => {
                let number = self.authors.len() as u32;
                self.authors.insert(author.into(), number);
                number
            }
        };
        self.commits.push(Collected {
            row: commit.row,
            author,
            committed_at: links.time,
            linked_at: self.linked.len(),
            links: commit.linked.len() as u32,
        });
        let ids = std::iter::once(&links.tree).chain(&links.parents);
        for (id, row) in ids.zip(commit.linked) {
            self.linked.push(match row {
                Some(row) => Linked::Row(*row),
                None => Linked::Outside(self.outside.insert(id.as_slice()).0),
            });
        }
    }

    /// Returns the commits sorted by id, without generations.
    pub fn sorted(mut self) -> CommitRows {
        // The rows of a table are sorted by id.
        self.commits.sort_unstable_by_key(|commit| commit.row);
        let mut authors = vec![&b""[..]; self.authors.len()];
        for (name, number) in &self.authors {
            authors[*number as usize] = name;
        }
        let id = |linked: &Linked| match linked {
            Linked::Row(row) => self.table.oid(*row as usize),
            Linked::Outside(number) => self.outside.id(*number),
        };
        let count = self.commits.len();
        let author_bytes = self.commits.iter().map(|commit| authors[commit.author as usize].len());
        let mut rows =
            CommitRows::with_capacity(count, self.linked.len() - count, author_bytes.sum(), self.table.oid_len);
        for commit in &self.commits {
            let linked = &self.linked[commit.linked_at..][..commit.links as usize];
            let (tree, parents) = linked.split_first().expect("every commit has a tree");
            rows.push(
                self.table.oid(commit.row as usize),
                id(tree),
                parents.iter().map(id),
                authors[commit.author as usize],
                commit.committed_at,
            );
        }
        rows
    }

    /// Returns the commits sorted by id, with their generations. Parents outside of the pack are looked up in `archive`.
    pub fn finish(self, archive: Option<&Snapshot>) -> Result<CommitRows> {
        let mut commits = self.sorted();
        number(&mut commits, archive)?;
        Ok(commits)
    }
}

/// Returns the row of a commit that was parsed, without a generation.
pub fn parsed_row(id: &oid, links: parse::Commit<'_>) -> CommitRow {
    CommitRow {
        oid: id.to_owned(),
        tree: links.tree,
        parents: links.parents,
        author: Some(author_name(links.author).into()).filter(|name: &BString| !name.is_empty()),
        committed_at: links.time,
        generation: 0,
    }
}

/// Returns `name <address>` of an author line.
fn author_name(line: &[u8]) -> &[u8] {
    line.iter().rposition(|b| *b == b'>').map_or(line, |end| &line[..=end])
}

/// Gives each commit its generation: 1 more than the greatest of its parents'. A parent's that is not known makes it 0, which
/// means "not known" in turn.
///
/// # Errors
/// Fails where the graph of `archive` cannot be read.
pub fn number(commits: &mut CommitRows, archive: Option<&Snapshot>) -> Result<()> {
    // The rows of all parents, one after the other: each is sought once, however often a commit is come back to.
    let (mut rows, mut ends) = (
        Vec::with_capacity(commits.parent_count()),
        Vec::with_capacity(commits.len()),
    );
    let mut outside = HashMap::new();
    for at in 0..commits.len() {
        for parent in commits.parents(at) {
            let found = commits.find(parent).map(|row| row as u32);
            if let (None, Entry::Vacant(vacant)) = (found, outside.entry(parent.to_owned())) {
                let known = archive.map(|archive| archive.commit_generation(parent)).transpose()?;
                vacant.insert(known.flatten());
            }
            rows.push(found);
        }
        ends.push(rows.len());
    }
    let parents_of = |at: usize| at.checked_sub(1).map_or(0, |before| ends[before])..ends[at];
    // Rows that are in an archive may say anything, even that a commit comes before itself: each is entered once.
    let mut entered = vec![false; commits.len()];
    let mut stack = Vec::new();
    for start in 0..commits.len() {
        stack.push(start);
        while let Some(&at) = stack.last() {
            let parents = &rows[parents_of(at)];
            let waiting = stack.len();
            if !std::mem::replace(&mut entered[at], true) {
                let rows = parents.iter().flatten().map(|row| *row as usize);
                stack.extend(rows.filter(|row| !entered[*row]));
            }
            if stack.len() > waiting {
                continue;
            }
            let mut greatest = Some(0);
            for (id, row) in commits.parents(at).zip(parents) {
                let generation = match row {
                    Some(row) => Some(commits.generation(*row as usize)).filter(|generation| *generation > 0),
                    None => outside[id],
                };
                greatest = greatest.zip(generation).map(|(a, b)| a.max(b));
            }
            commits.set_generation(at, greatest.map_or(0, |greatest| greatest.saturating_add(1)));
            stack.pop();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gix_hash::ObjectId;

    use super::*;

    fn numbered(parents: &[&[u8]]) -> Vec<u32> {
        let id = |n: u8| ObjectId::from_bytes_or_panic(&[n; 20]);
        let row = |(n, parents): (u8, &&[u8])| CommitRow {
            oid: id(n),
            tree: id(200),
            parents: parents.iter().map(|parent| id(*parent)).collect(),
            author: None,
            committed_at: 0,
            generation: 0,
        };
        let mut rows: CommitRows = (0..).zip(parents).map(row).collect();
        number(&mut rows, None).unwrap();
        (0..rows.len()).map(|at| rows.generation(at)).collect()
    }

    #[test]
    fn a_commit_comes_after_all_its_parents() {
        assert_eq!(numbered(&[&[1, 2], &[2, 3], &[3], &[]]), [4, 3, 2, 1]);
        assert_eq!(numbered(&[&[], &[0], &[9], &[2, 0]]), [1, 2, 0, 0], "9 is nowhere");
    }

    /// Only rows that somebody made up go in a circle.
    #[test]
    fn a_circle_has_no_generations_and_an_end() {
        assert_eq!(numbered(&[&[0]]), [0]);
        assert_eq!(numbered(&[&[1], &[2], &[0], &[1, 4], &[]]), [0, 0, 0, 0, 1]);
    }
}
