//! What must be proven of a pack before it is stored.
//!
//! `git pack-objects` copies without hashing: from a damaged store it makes a pack whose index names one object and whose
//! bytes hold another. And from a shallow, partial or grafted repository it makes packs with holes. Both succeed.

use anyhow::{Context, Result, bail};
use bstr::ByteSlice;
use gix_hash::{ObjectId, oid};
use znippy::{
    archive::{self, Proven},
    pack::{
        PackStore,
        disk::DiskPack,
        fsck,
        object::ObjectReader,
        select::{SelectOptions, select},
    },
};

use crate::{client, judge::Update, push::Push, spool::Spool, ui::Progress};

/// Packs up to this many bytes are re-hashed before the commit, unless `znippy.resolve` says otherwise: that takes less
/// time than a push takes anyway.
const INLINE_LIMIT: u64 = 32 << 20;

impl Push<'_> {
    /// Proves the pack, if `znippy.resolve` or its size says so: that every object bears its name, and that all it needs
    /// is there. `None` leaves that to `znippy index`.
    ///
    /// # Errors
    /// Fails where an object is not what its name says, or is missing.
    pub fn proven(&self, pack: &DiskPack, updates: &[Update]) -> Result<Option<Proven>> {
        let inline = match self.config.get("znippy.resolve").map(|value| value.as_bytes()) {
            None | Some(b"auto") => pack.pack_len(0)? <= INLINE_LIMIT || self.client.may_have_holes(self.config),
            Some(b"always") => true,
            Some(b"defer") => false,
            Some(other) => bail!(
                "znippy.resolve must be auto, always or defer, not '{}'",
                other.as_bstr()
            ),
        };
        if !inline {
            return Ok(None);
        }
        let tips: Vec<ObjectId> = updates.iter().filter_map(|update| update.new).collect();
        let mut progress = Progress::new(self.options.voice, "Checking objects", false);
        let mut on_progress = |done, total| progress.update(done, total);
        let objects = &mut *self.objects.borrow_mut();
        let mut theirs = |id: &oid| objects.read(id);
        let proven = archive::prove(self.snapshot, pack, 0, &tips, Some(&mut theirs), Some(&mut on_progress));
        Ok(Some(proven.context("nothing was stored")?))
    }

    /// Returns whether git finds nothing wrong in the objects of a pack, where the archive's settings ask for that. What git
    /// says goes to the user.
    ///
    /// # Errors
    /// Fails where git cannot be run.
    pub fn passes_fsck(&self, spool: &Spool) -> Result<bool> {
        let Some(snapshot) = self.snapshot else { return Ok(true) };
        let policy = snapshot.policy();
        if !policy.checks_objects() {
            return Ok(true);
        }
        let directory = spool.directory.below("fsck")?;
        let checked = fsck::fsck(&spool.pack, snapshot, policy.check_levels(), &client::git, &directory)?;
        for line in checked.told.lines() {
            self.options.voice.reason(line.as_bstr());
        }
        Ok(checked.passes)
    }

    /// Refuses updates whose history the client does not have completely and the archive cannot complete.
    pub fn refuse_holes(&self, updates: &mut [Update], reader: &ObjectReader<'_>, tips: &[ObjectId]) -> Result<()> {
        let shown: Vec<ObjectId> = self.listed.shown().into_iter().collect();
        let mut progress = Progress::new(self.options.voice, "Checking connectivity", false);
        let mut has_hole = |tips: &[ObjectId]| {
            let options = SelectOptions {
                progress: Some(&mut |done| progress.update(done, 0)),
                ..Default::default()
            };
            match select(reader, tips, &shown, options) {
                Ok(_) => Ok(false),
                Err(znippy::Error::MissingObject { .. }) => Ok(true),
                Err(error) => Err(error),
            }
        };
        if !has_hole(tips)? {
            return Ok(());
        }
        let why = match self.client.is_shallow() {
            true => "shallow update not allowed",
            false => "objects are missing in this repository",
        };
        for update in updates.iter_mut().filter(|update| update.applies()) {
            if let Some(new) = update.new
                && tips.contains(&new)
                && has_hole(&[new])?
            {
                update.refuse(why);
            }
        }
        Ok(())
    }
}
