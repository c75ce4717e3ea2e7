//! Many packs and reference edits in one commit, with one sync.

use std::{collections::BTreeMap, sync::Arc};

use bstr::BString;
use gix_hash::ObjectId;

use super::{Appender, CheckedPack, HeadHint, NewPack, Outcome, PackData, Transaction};
use crate::{
    error::{Error, Result},
    refs::{Expected, RefEdit, Target},
};

/// Pack files up to this size are read when they are added, so that thousands of them need no thousands of open files.
const READ_UP_TO: u64 = 256 << 10;

/// What is collected for one commit: nothing of it is in the archive before [`Batch::finish`], and then all of it.
///
/// Small packs are kept in memory, large ones as the open files that they are.
pub struct Batch<'b, 'a> {
    appender: &'b mut Appender<'a>,
    packs: Vec<NewPack>,
    /// By name: a later edit of a reference goes on from where the one before leads.
    edits: BTreeMap<BString, RefEdit>,
    actor: Option<BString>,
    head: HeadHint,
}

impl<'b, 'a> Batch<'b, 'a> {
    pub(super) fn new(appender: &'b mut Appender<'a>) -> Self {
        Batch {
            appender,
            packs: vec![],
            edits: BTreeMap::new(),
            actor: None,
            head: HeadHint::default(),
        }
    }

    /// Says who did it: free bytes, for the log only.
    pub fn actor(&mut self, actor: BString) {
        self.actor = Some(actor);
    }

    /// Says what HEAD should name if it names no branch afterwards.
    pub fn head(&mut self, hint: HeadHint) {
        self.head = hint;
    }

    /// Returns how many packs were added.
    pub fn packs(&self) -> usize {
        self.packs.len()
    }

    /// Adds a pack.
    ///
    /// # Errors
    /// Fails where a small pack cannot be read, or is not what it is named after. The batch is as it was.
    pub fn add_pack(&mut self, mut pack: NewPack) -> Result<()> {
        if let PackData::File(_) = &pack.data {
            let len = pack.data.len().map_err(Error::io(&pack.path, "stat"))?;
            if len <= READ_UP_TO {
                let mut bytes = vec![0; len as usize];
                pack.data
                    .read_exact_at(&mut bytes, 0)
                    .map_err(Error::io(&pack.path, "read"))?;
                let checked = CheckedPack::new(bytes, pack.id.kind(), &pack.path.display().to_string())?;
                pack.data = PackData::Checked(Arc::new(checked));
            }
        }
        self.packs.push(pack);
        Ok(())
    }

    /// Adds an edit of a reference. One of a reference that was edited in this batch before expects what that edit made of it.
    ///
    /// # Errors
    /// Fails where it expects something else. The batch is as it was.
    pub fn edit(&mut self, edit: RefEdit) -> Result<()> {
        let Some(before) = self.edits.get_mut(&edit.name) else {
            self.edits.insert(edit.name.clone(), edit);
            return Ok(());
        };
        if !meets(&edit.expected, before.new.as_ref()) {
            return Err(Error::Invalid(format!(
                "{}: an earlier edit of the same batch makes it something else than a later one expects",
                edit.name
            )));
        }
        before.new = edit.new;
        before.rewinds |= edit.rewinds;
        Ok(())
    }

    /// Commits all that was added, with all edits or none.
    ///
    /// # Errors
    /// Nothing was committed, with one exception that says so: [`Error::DurabilityUnknown`].
    pub fn finish(self) -> Result<Outcome> {
        let transaction = Transaction {
            packs: self.packs,
            edits: self.edits.into_values().collect(),
            atomic: true,
            actor: self.actor,
            head: self.head,
            ..Transaction::default()
        };
        self.appender.commit(transaction)
    }
}

fn meets(expected: &Expected, value: Option<&Target>) -> bool {
    let is = |id: &ObjectId| matches!(value, Some(Target::Object { oid, .. }) if oid == id);
    match expected {
        Expected::Any => true,
        Expected::Absent => value.is_none(),
        Expected::Present => value.is_some(),
        Expected::Oid(oid) => is(oid),
        Expected::Symbolic(name) => matches!(value, Some(Target::Symbolic(target)) if target == name),
    }
}
