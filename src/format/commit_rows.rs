//! The commits of a row, as they stand in the `commits` column: field by field.

use arrow_array::{
    Array, BinaryArray, FixedSizeBinaryArray, ListArray, StructArray,
    cast::AsArray,
    types::{TimestampSecondType, UInt32Type},
};
use bstr::BString;
use gix_hash::{ObjectId, oid};

use super::{
    batch::object_id,
    layout::{Layout, Valid},
};
use crate::pack::find_sorted;

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitRow {
    pub oid: ObjectId,
    pub tree: ObjectId,
    pub parents: Vec<ObjectId>,
    /// Name and address as in the commit: any bytes, but not none.
    pub author: Option<BString>,
    /// Seconds since 1970.
    pub committed_at: i64,
    /// 1 + the greatest generation of the parents.
    pub generation: u32,
}

/// Commits, field by field: with a few large vectors they take a third of what as many [`CommitRow`]s would, and are moved into
/// a column without a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitRows {
    oids: Vec<u8>,
    trees: Vec<u8>,
    parents: Vec<u8>,
    /// How many parents the commits up to each have, with its own.
    parent_ends: Vec<usize>,
    authors: Vec<u8>,
    /// Where each author's name ends.
    author_ends: Vec<usize>,
    times: Vec<i64>,
    generations: Vec<u32>,
}

impl CommitRows {
    /// Makes room for so many commits, parents and bytes of authors' names; ids have `width` bytes.
    pub fn with_capacity(commits: usize, parents: usize, author_bytes: usize, width: usize) -> CommitRows {
        CommitRows {
            oids: Vec::with_capacity(commits * width),
            trees: Vec::with_capacity(commits * width),
            parents: Vec::with_capacity(parents * width),
            parent_ends: Vec::with_capacity(commits),
            authors: Vec::with_capacity(author_bytes),
            author_ends: Vec::with_capacity(commits),
            times: Vec::with_capacity(commits),
            generations: Vec::with_capacity(commits),
        }
    }

    /// Returns the number of commits.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Returns how many parents all commits have together.
    pub fn parent_count(&self) -> usize {
        self.parent_ends.last().copied().unwrap_or(0)
    }

    /// Returns how many bytes all authors' names have.
    pub fn author_bytes(&self) -> usize {
        self.authors.len()
    }

    /// Adds a commit without a generation.
    pub fn push<'a>(
        &mut self,
        oid: &oid,
        tree: &oid,
        parents: impl IntoIterator<Item = &'a oid>,
        author: &[u8],
        committed_at: i64,
    ) {
        self.oids.extend_from_slice(oid.as_bytes());
        self.trees.extend_from_slice(tree.as_bytes());
        let mut end = self.parent_count();
        for parent in parents {
            self.parents.extend_from_slice(parent.as_bytes());
            end += 1;
        }
        self.parent_ends.push(end);
        self.authors.extend_from_slice(author);
        self.author_ends.push(self.authors.len());
        self.times.push(committed_at);
        self.generations.push(0);
    }

    /// Returns the id of commit `at`.
    pub fn oid(&self, at: usize) -> &oid {
        self.id(&self.oids, at)
    }

    /// Returns the ids of the parents of commit `at`.
    pub fn parents(&self, at: usize) -> impl ExactSizeIterator<Item = &oid> {
        let start = before(&self.parent_ends, at);
        (start..self.parent_ends[at]).map(|nth| self.id(&self.parents, nth))
    }

    /// Returns the generation of commit `at`; 0 where it is not known.
    pub fn generation(&self, at: usize) -> u32 {
        self.generations[at]
    }

    /// Sets the generation of commit `at`.
    pub fn set_generation(&mut self, at: usize, generation: u32) {
        self.generations[at] = generation;
    }

    /// Returns where a commit is, by binary search: they must be sorted by id.
    pub fn find(&self, id: &oid) -> Option<usize> {
        find_sorted(self.len(), id, |at| self.oid(at).as_bytes())
    }

    /// Returns commit `at`.
    pub fn get(&self, at: usize) -> CommitRow {
        let author = &self.authors[before(&self.author_ends, at)..self.author_ends[at]];
        CommitRow {
            oid: self.oid(at).to_owned(),
            tree: self.id(&self.trees, at).to_owned(),
            parents: self.parents(at).map(oid::to_owned).collect(),
            author: (!author.is_empty()).then(|| author.into()),
            committed_at: self.times[at],
            generation: self.generations[at],
        }
    }

    /// Returns all commits.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = CommitRow> {
        (0..self.len()).map(|at| self.get(at))
    }

    fn id<'a>(&self, ids: &'a [u8], at: usize) -> &'a oid {
        let width = self.oids.len() / self.len();
        oid::from_bytes_unchecked(&ids[at * width..(at + 1) * width])
    }

    /// Adds the `commits` column. Elements of a single row are moved, not copied.
    ///
    /// # Errors
    /// Fails where offsets of 32 bits do not suffice.
    pub(super) fn push_all(rows: Vec<CommitRows>, layout: &mut Layout, width: usize) -> Result<(), String> {
        layout.structs(rows.iter().map(CommitRows::len))?;
        let mut rows = rows.into_iter().filter(|commits| !commits.is_empty());
        let mut all = rows.next().unwrap_or_default();
        rows.for_each(|next| all.append(next));
        let count = all.len();
        layout.joined_ids(all.oids, width);
        layout.joined_ids(all.trees, width);
        layout.node(count);
        layout.offsets(all.parent_ends.into_iter());
        layout.joined_ids(all.parents, width);
        let has_author = |at: usize| all.author_ends[at] > before(&all.author_ends, at);
        let have_authors: Valid = (0..count).map(has_author).collect();
        layout.nullable(&have_authors);
        layout.offsets(all.author_ends.into_iter());
        layout.buffer(all.authors);
        layout.node(count);
        layout.buffer(all.times);
        layout.node(count);
        layout.buffer(all.generations);
        Ok(())
    }

    fn append(&mut self, mut next: CommitRows) {
        let (parents, authors) = (self.parent_count(), self.authors.len());
        self.oids.append(&mut next.oids);
        self.trees.append(&mut next.trees);
        self.parents.append(&mut next.parents);
        self.parent_ends
            .extend(next.parent_ends.iter().map(|end| parents + end));
        self.authors.append(&mut next.authors);
        self.author_ends
            .extend(next.author_ends.iter().map(|end| authors + end));
        self.times.append(&mut next.times);
        self.generations.append(&mut next.generations);
    }
}

impl FromIterator<CommitRow> for CommitRows {
    fn from_iter<T: IntoIterator<Item = CommitRow>>(rows: T) -> CommitRows {
        let mut all = CommitRows::default();
        for row in rows {
            let author = row.author.as_ref().map_or(&b""[..], |name| name);
            let parents = row.parents.iter().map(AsRef::as_ref);
            all.push(&row.oid, &row.tree, parents, author, row.committed_at);
            all.set_generation(all.len() - 1, row.generation);
        }
        all
    }
}

/// Returns where element `at` starts whose predecessors end at `ends`.
fn before(ends: &[usize], at: usize) -> usize {
    at.checked_sub(1).map_or(0, |before| ends[before])
}

/// Returns the commits of a row, from the elements that it has of the column.
pub(super) fn from_array(commits: &StructArray) -> CommitRows {
    let ids = |column: usize| -> &FixedSizeBinaryArray { commits.column(column).as_fixed_size_binary() };
    let (oids, trees) = (ids(0), ids(1));
    let lists: &ListArray = commits.column(2).as_list();
    let authors: &BinaryArray = commits.column(3).as_binary();
    let times = commits.column(4).as_primitive::<TimestampSecondType>();
    let generations = commits.column(5).as_primitive::<UInt32Type>();
    let mut all = CommitRows::default();
    for at in 0..commits.len() {
        let parents = lists.value(at);
        let parents: &FixedSizeBinaryArray = parents.as_fixed_size_binary();
        let parents = (0..parents.len()).map(|nth| oid::from_bytes_unchecked(parents.value(nth)));
        let author = if authors.is_valid(at) { authors.value(at) } else { &[] };
        let (id, tree) = (object_id(oids.value(at)), object_id(trees.value(at)));
        all.push(&id, &tree, parents, author, times.value(at));
        all.set_generation(at, generations.value(at));
    }
    all
}
