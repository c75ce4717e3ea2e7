//! A batch of `push` lines: pack, judge, commit, report.
//!
//! No lock is held before the commit: a hook of the client may push to the same archive meanwhile. What was decided on
//! goes into the commit as the value each reference must still have.

use std::cell::{Cell, RefCell};

use anyhow::{Context, Result};
use bstr::BString;
use gix_hash::{Kind, ObjectId};
use znippy::{
    archive::Snapshot,
    pack::{PackStore, disk::Layered, object::ObjectReader},
    refs::{EditResult, Rejection},
};

use crate::{
    client::Client,
    config::Config,
    judge::{Update, refuse_all_for_one},
    listing::Listing,
    objects::Objects,
    options::Options,
    remote::Remote,
    report::status,
    request::Request,
    spool::{self, Spool},
    ui::{self, Progress},
};

/// A push under way: what it was asked, and what it works with.
pub struct Push<'a> {
    pub remote: &'a Remote,
    pub options: &'a Options,
    pub config: &'a Config,
    pub client: &'a Client,
    /// The client's object format.
    pub format: Kind,
    /// The archive as it was listed; `None` where there is none yet.
    pub snapshot: Option<&'a Snapshot>,
    /// The references that `list for-push` showed.
    pub listed: &'a Listing,
    /// The objects of the client.
    pub objects: RefCell<Objects>,
    /// Set where something was stored that is yet to be proven.
    pub unproven: Cell<bool>,
    /// Set where the pack was not taken, whatever the references are to hold.
    pub pack_refused: Cell<bool>,
}

impl Push<'_> {
    /// Carries out `request`, and returns the status lines.
    ///
    /// # Errors
    /// Fails where nothing can be said about single references; nothing is stored then.
    pub fn run(&self, request: Request) -> Result<Vec<BString>> {
        let Request { mut updates, bounds } = request;
        if self.snapshot.is_some_and(|snapshot| snapshot.policy().is_read_only()) {
            // Judged again under the lock; this saves building a pack for nothing.
            for update in updates.iter_mut().filter(|update| update.applies()) {
                update.refuse("the archive is read-only (znippy.readOnly)");
            }
        }
        let Some(prepared) = self.prepare(&mut updates, &bounds)? else {
            return Ok(updates.iter().map(|update| status(update, None)).collect());
        };
        let results = self.commit(&updates, prepared)?;
        let why = results.iter().find_map(|result| match result {
            EditResult::Rejected(Rejection::Pack(why)) => Some(why),
            _ => None,
        });
        if let Some(why) = why {
            self.options.voice.reason(why);
            self.pack_refused.set(true);
        }
        let mut results = results.into_iter();
        // The edits of the transaction are the updates that apply, in their order.
        Ok(updates
            .iter()
            .map(|update| status(update, update.applies().then(|| results.next()).flatten()))
            .collect())
    }

    /// Builds the pack and judges with its objects, until pack and verdicts agree: what is refused must not be stored.
    /// `None` where nothing is left to do.
    fn prepare(&self, updates: &mut [Update], bounds: &[ObjectId]) -> Result<Option<Prepared>> {
        loop {
            if self.options.atomic {
                refuse_all_for_one(updates);
            }
            if !updates.iter().any(Update::applies) {
                return Ok(None);
            }
            let (tips, incomplete) = self.tips(updates);
            let relies_on = self.relied_on(updates, bounds);
            let spool = match tips.is_empty() {
                true => None,
                false => spool::build(self.client, self.format, &tips, bounds, self.options.voice)?,
            };
            let before = updates.iter().filter(|update| update.applies()).count();
            self.judge(updates, spool.as_ref(), &tips, incomplete)?;
            let unchanged = updates.iter().filter(|update| update.applies()).count() == before;
            if let (true, Some(spool)) = (unchanged && !self.options.dry_run, &spool)
                && !self.passes_fsck(spool)?
            {
                // As git's own server says it: nothing of such a push is done, not even deletions.
                self.pack_refused.set(true);
                for update in updates.iter_mut().filter(|update| update.applies()) {
                    update.refuse("unpacker error");
                }
                return Ok(None);
            }
            if unchanged {
                return Ok(Some(Prepared {
                    spool,
                    incomplete,
                    relies_on,
                }));
            }
        }
    }

    /// Returns the new values that the archive does not show yet, and whether some of them were left out: a dry run
    /// takes only those that need a look.
    fn tips(&self, updates: &[Update]) -> (Vec<ObjectId>, bool) {
        let shown = self.listed.shown();
        let new = |update: &Update| update.new.filter(|new| update.applies() && !shown.contains(new));
        let looks = |update: &&Update| !self.options.dry_run || update.old.is_some();
        let mut tips: Vec<ObjectId> = updates.iter().filter(looks).filter_map(new).collect();
        let incomplete = tips.len() < updates.iter().filter_map(new).count();
        tips.sort_unstable();
        tips.dedup();
        (tips, incomplete)
    }

    /// Returns what the archive must still have when this is committed: what the pack was built on, and new values that were not
    /// packed because they are there.
    fn relied_on(&self, updates: &[Update], bounds: &[ObjectId]) -> Vec<ObjectId> {
        let shown = self.listed.shown();
        let new = updates
            .iter()
            .filter(|update| update.applies())
            .filter_map(|update| update.new);
        let mut relies_on: Vec<ObjectId> = new
            .filter(|new| shown.contains(new))
            .chain(bounds.iter().copied())
            .collect();
        relies_on.sort_unstable();
        relies_on.dedup();
        relies_on
    }

    /// Judges what is still to be applied with the objects of the archive and of the new pack.
    fn judge(&self, updates: &mut [Update], spool: Option<&Spool>, tips: &[ObjectId], incomplete: bool) -> Result<()> {
        // New objects first: most questions are about them, and the archive may be far away.
        let mut stores: Vec<&dyn PackStore> = Vec::new();
        stores.extend(spool.map(|spool| &spool.pack as &dyn PackStore));
        stores.extend(self.snapshot.map(|snapshot| snapshot as &dyn PackStore));
        if stores.is_empty() {
            // A dry run that creates everything.
            return Ok(());
        }
        let store = Layered::new(&stores)?;
        let reader = ObjectReader::new(&store);
        if !tips.is_empty() && self.client.may_have_holes(self.config) {
            self.refuse_holes(updates, &reader, tips)?;
        }
        let mut progress = Progress::new(self.options.voice, "Checking references", false);
        let total = updates.len() as u64;
        for (done, update) in updates.iter_mut().enumerate() {
            progress.update(done as u64, total);
            if incomplete && update.new.is_none_or(|new| tips.binary_search(&new).is_err()) {
                continue;
            }
            update
                .judge(&reader)
                .with_context(|| format!("cannot judge the update of {}", ui::text(&update.name)))?;
        }
        Ok(())
    }
}

/// A push that is ready to be committed.
pub struct Prepared {
    pub spool: Option<Spool>,
    /// Objects were left out, because it is a dry run.
    pub incomplete: bool,
    /// What is not in the pack because the archive has it.
    pub relies_on: Vec<ObjectId>,
}
