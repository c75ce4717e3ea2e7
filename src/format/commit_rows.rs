//! The commits of a row, as they stand in the `commits` column: field by field.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, FixedSizeBinaryArray, ListArray, StructArray, TimestampSecondArray, UInt32Array,
    cast::AsArray,
    types::{TimestampSecondType, UInt32Type},
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use bstr::BString;
use gix_hash::{Kind, ObjectId, oid};

use super::{batch::object_id, schema};
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

/// Builds the elements of the `commits` column. Those of a single row are moved, not copied.
///
/// # Panics
/// Panics where offsets of 32 bits do not suffice.
pub(super) fn arrays(rows: Vec<CommitRows>, kind: Kind) -> Vec<ArrayRef> {
    let mut rows = rows.into_iter().filter(|commits| !commits.is_empty());
    let mut all = rows.next().unwrap_or_default();
    rows.for_each(|next| all.append(next));
    let ids = |ids| FixedSizeBinaryArray::new(kind.len_in_bytes() as i32, Buffer::from_vec(ids), None);
    let lengths = |ends: &[usize]| {
        let starts = std::iter::once(0).chain(ends.iter().copied());
        OffsetBuffer::<i32>::from_lengths(ends.iter().zip(starts).map(|(end, start)| end - start))
    };
    let author_offsets = lengths(&all.author_ends);
    let authors = NullBuffer::from_iter(author_offsets.lengths().map(|len| len > 0));
    vec![
        Arc::new(ids(all.oids)),
        Arc::new(ids(all.trees)),
        Arc::new(ListArray::new(
            schema::item(schema::oid_type(kind)),
            lengths(&all.parent_ends),
            Arc::new(ids(all.parents)),
            None,
        )),
        Arc::new(BinaryArray::new(
            author_offsets,
            Buffer::from_vec(all.authors),
            Some(authors),
        )),
        Arc::new(TimestampSecondArray::from(all.times).with_timezone("UTC")),
        Arc::new(UInt32Array::from(all.generations)),
    ]
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: u8, parents: &[u8], author: Option<&str>) -> CommitRow {
        let id = |n: u8| ObjectId::from_bytes_or_panic(&[n; 20]);
        CommitRow {
            oid: id(n),
            tree: id(200),
            parents: parents.iter().map(|parent| id(*parent)).collect(),
            author: author.map(Into::into),
            committed_at: -i64::from(n),
            generation: u32::from(n),
        }
    }

    #[test]
    fn commits_of_several_rows_come_back_out_of_the_column() {
        let first = [
            row(1, &[], None),
            row(2, &[1], Some("A <a@b>")),
            row(3, &[1, 2, 9], None),
        ];
        let second = [row(4, &[3], Some("\u{e9}"))];
        let rows = vec![
            CommitRows::default(),
            first.iter().cloned().collect(),
            second.iter().cloned().collect(),
        ];
        let fields = schema::list_fields(Kind::Sha1, schema::column::COMMITS);
        let column = StructArray::new(fields, arrays(rows, Kind::Sha1), None);
        let back = from_array(&column);
        assert_eq!(back.iter().collect::<Vec<_>>(), [&first[..], &second].concat());
        assert_eq!(from_array(&column.slice(3, 1)).get(0), second[0]);
        assert_eq!(back.find(&second[0].oid), Some(3));
        assert_eq!(back.find(&row(9, &[], None).oid), None);
        assert!(from_array(&column.slice(0, 0)).is_empty());
    }
}
