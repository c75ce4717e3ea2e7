//! The references of a snapshot: a sorted base, a sorted run of later changes, and the newest changes from the footer.

use std::{borrow::Cow, collections::BTreeMap, convert::Infallible};

use arrow_array::{Array, BinaryArray, FixedSizeBinaryArray, RecordBatch, StructArray, cast::AsArray};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::oid;

use super::{Ref, Target, inline::Changes, name::is_line};
use crate::format::{batch::object_id, row::RefRow, schema::column};

/// The `refs` of one row, sorted by name. Names are found by binary search, without materialising the others. Cheap to clone.
#[derive(Clone)]
pub struct RefTable {
    rows: StructArray,
}

impl RefTable {
    /// Takes the references of `row` out of a decoded batch.
    ///
    /// # Errors
    /// Fails where there is no such row, its references are not sorted, or a name is not one.
    pub fn new(batch: &RecordBatch, row: usize) -> Result<RefTable, String> {
        let lists = batch.column(column::REFS).as_list::<i32>();
        if row >= lists.len() {
            return Err(format!("there is no row {row}"));
        }
        let table = RefTable {
            rows: lists.value(row).as_struct().clone(),
        };
        let (names, symrefs) = (table.names(), table.symrefs());
        for index in 0..table.len() {
            let name = names.value(index);
            if index > 0 && names.value(index - 1) >= name {
                return Err("references are not sorted".into());
            }
            if !is_line(name.as_bstr()) || (symrefs.is_valid(index) && !is_line(symrefs.value(index).as_bstr())) {
                return Err("a reference has an impossible name".into());
            }
        }
        Ok(table)
    }

    /// Returns the number of references, deletions included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn names(&self) -> &BinaryArray {
        self.rows.column(0).as_binary()
    }

    fn symrefs(&self) -> &BinaryArray {
        self.rows.column(3).as_binary()
    }

    /// Returns the name at `index`.
    pub fn name(&self, index: usize) -> &BStr {
        self.names().value(index).as_bstr()
    }

    /// Returns the names that get the value `id` here, without a look at any other column.
    fn names_of<'a>(&'a self, id: &'a oid) -> impl Iterator<Item = &'a BStr> {
        let oids: &FixedSizeBinaryArray = self.rows.column(2).as_fixed_size_binary();
        let holds = move |index: &usize| oids.is_valid(*index) && oids.value(*index) == id.as_bytes();
        (0..self.len()).filter(holds).map(|index| self.name(index))
    }

    /// Returns the value at `index`; `None` means deleted.
    pub fn target(&self, index: usize) -> Option<Target> {
        let oid = |column: usize| {
            let oids: &FixedSizeBinaryArray = self.rows.column(column).as_fixed_size_binary();
            oids.is_valid(index).then(|| object_id(oids.value(index)))
        };
        let symrefs = self.symrefs();
        if symrefs.is_valid(index) {
            return Some(Target::Symbolic(symrefs.value(index).into()));
        }
        oid(2).map(|new| Target::Object {
            oid: new,
            peeled: oid(4),
        })
    }

    /// Returns the index of the first name that is not before `name`.
    fn lower_bound(&self, name: &BStr) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.name(middle) < name {
                low = middle + 1
            } else {
                high = middle
            }
        }
        low
    }

    fn find(&self, name: &BStr) -> Option<usize> {
        Some(self.lower_bound(name)).filter(|index| *index < self.len() && self.name(*index) == name)
    }
}

/// All references of one state.
#[derive(Clone, Default)]
pub struct RefView {
    pub base: Option<RefTable>,
    pub run: Option<RefTable>,
    pub inline: Changes,
}

impl RefView {
    /// Returns the value of one reference.
    pub fn find(&self, name: &BStr) -> Option<Target> {
        if let Some(target) = self.inline.get(name) {
            return target.clone();
        }
        let tables = [&self.run, &self.base].into_iter().flatten();
        let mut found = tables.filter_map(|table| table.find(name).map(|index| table.target(index)));
        found.next().flatten()
    }

    /// Returns whether a reference holds the object `id` by itself.
    pub fn holds(&self, id: &oid) -> bool {
        let is_it = |target: &Option<Target>| matches!(target, Some(Target::Object { oid, .. }) if *oid == id);
        let tables = [&self.run, &self.base].into_iter().flatten();
        // What an older table says may be superseded.
        self.inline.values().any(is_it)
            || tables
                .flat_map(|table| table.names_of(id))
                .any(|name| is_it(&self.find(name)))
    }

    /// Returns a reference below `name/`, where there is one that `skip` does not take away.
    pub fn child_of(&self, name: &BStr, skip: impl Fn(&BStr) -> bool) -> Option<BString> {
        let mut prefix = name.to_owned();
        prefix.push(b'/');
        let mut candidates: Vec<Cow<'_, BStr>> = vec![];
        for table in [&self.base, &self.run].into_iter().flatten() {
            let start = table.lower_bound(prefix.as_ref());
            let below = (start..table.len())
                .map(|index| table.name(index))
                .take_while(|n| n.starts_with(&prefix));
            candidates.extend(below.map(Cow::Borrowed));
        }
        let below = self.inline.range(prefix.clone()..).map(|(name, _)| name);
        candidates.extend(
            below
                .take_while(|n| n.starts_with(&prefix))
                .map(|n| Cow::Borrowed(n.as_ref())),
        );
        let mut live = candidates
            .into_iter()
            .filter(|name| !skip(name) && self.find(name).is_some());
        live.next().map(Cow::into_owned)
    }

    /// Returns what the run and the footer changed since the base, as one.
    pub fn changes_since_base(&self) -> Changes {
        let mut changes = Changes::new();
        if let Some(run) = &self.run {
            changes.extend((0..run.len()).map(|index| (run.name(index).to_owned(), run.target(index))));
        }
        changes.extend(self.inline.clone());
        changes
    }

    /// Returns all references by name.
    pub fn all(&self) -> BTreeMap<BString, Target> {
        self.in_order().into_iter().collect()
    }

    /// Calls `on_ref` with each reference in name order, without making a list of them. Ends with its first error.
    pub fn for_each<E>(&self, on_ref: &mut dyn FnMut(&BStr, &Target) -> Result<(), E>) -> Result<(), E> {
        let mut changes = self.changes_since_base().into_iter().peekable();
        if let Some(base) = &self.base {
            for index in 0..base.len() {
                let name = base.name(index);
                while let Some((before, target)) = changes.next_if(|(changed, _)| changed.as_bstr() < name) {
                    if let Some(target) = target {
                        on_ref(before.as_ref(), &target)?;
                    }
                }
                let target = match changes.next_if(|(changed, _)| changed == name) {
                    Some((_, target)) => target,
                    None => base.target(index),
                };
                if let Some(target) = target {
                    on_ref(name, &target)?;
                }
            }
        }
        for (name, target) in changes {
            if let Some(target) = target {
                on_ref(name.as_ref(), &target)?;
            }
        }
        Ok(())
    }

    /// Returns all references in name order.
    pub fn in_order(&self) -> Vec<(BString, Target)> {
        let mut all = Vec::with_capacity(self.base.as_ref().map_or(0, RefTable::len));
        let collected: Result<(), Infallible> = self.for_each(&mut |name, target| {
            all.push((name.to_owned(), target.clone()));
            Ok(())
        });
        collected.unwrap_or_else(|never| match never {});
        all
    }

    /// Returns the first branch where it is the only one.
    pub fn only_branch(branches: impl IntoIterator<Item = BString>) -> Option<BString> {
        let mut branches = branches.into_iter().filter(|name| name.starts_with(b"refs/heads/"));
        branches.next().filter(|_| branches.next().is_none())
    }
}

/// Returns a row element that sets `name` from `old` to `new`.
pub fn ref_row(name: BString, old: Option<&Target>, new: Option<&Target>) -> RefRow {
    let oid = |target: Option<&Target>| match target {
        Some(Target::Object { oid, .. }) => Some(*oid),
        _ => None,
    };
    let (symref, peeled_oid) = match new {
        Some(Target::Symbolic(target)) => (Some(target.clone()), None),
        Some(Target::Object { peeled, .. }) => (None, *peeled),
        None => (None, None),
    };
    RefRow {
        name,
        old_oid: oid(old),
        new_oid: oid(new),
        symref,
        peeled_oid,
    }
}

impl From<(BString, Target)> for Ref {
    fn from((name, target): (BString, Target)) -> Self {
        Ref { name, target }
    }
}
