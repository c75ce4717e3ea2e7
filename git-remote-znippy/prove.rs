//! What must be proven of a pack before it is stored.
//!
//! `git pack-objects` copies without hashing: from a damaged store it makes a pack whose index names one object and whose
//! bytes hold another. And from a shallow, partial or grafted repository it makes packs with holes. Both succeed.

use anyhow::{Result, bail};
use bstr::ByteSlice;
use gix_hash::ObjectId;
use znippy::{
    format::columns::Proof,
    pack::{
        EntryTable, PackStore,
        disk::DiskPack,
        object::ObjectReader,
        resolve::{ResolveOptions, resolve},
        select::{SelectOptions, select},
    },
};

use crate::{judge::Update, push::Push, ui::Progress};

/// Packs up to this many bytes are re-hashed before the commit, unless `znippy.resolve` says otherwise: that takes less
/// time than a push takes anyway.
const INLINE_LIMIT: u64 = 32 << 20;

impl Push<'_> {
    /// Re-hashes every object of `pack`, if `znippy.resolve` or its size says so. Returns the entries with kinds and sizes.
    ///
    /// # Errors
    /// Fails where an object is not what its name says.
    pub fn proven_entries(&self, pack: &DiskPack) -> Result<(Option<EntryTable>, Proof)> {
        let inline = match self.config.get("znippy.resolve").map(|value| value.as_bytes()) {
            None | Some(b"auto") => pack.pack_len(0) <= INLINE_LIMIT,
            Some(b"always") => true,
            Some(b"defer") => false,
            Some(other) => bail!(
                "znippy.resolve must be auto, always or defer, not '{}'",
                other.as_bstr()
            ),
        };
        if !inline {
            return Ok((None, Proof::None));
        }
        let mut progress = Progress::new(self.options.voice, "Checking objects", false);
        let mut on_progress = |done, total| progress.update(done, total);
        let mut table = EntryTable::clone(pack.table());
        let options = ResolveOptions {
            // A few objects are done before a second thread has started.
            threads: match table.len() {
                0..1000 => 1,
                _ => ResolveOptions::default().threads,
            },
            progress: Some(&mut on_progress),
            ..ResolveOptions::default()
        };
        let resolved = resolve(pack, 0, &table, options)?;
        if let Some(damage) = resolved.damaged.first() {
            bail!(
                "object {} is damaged in this repository ({}); nothing was stored; `git fsck` tells more",
                damage.oid,
                damage.why
            );
        }
        resolved.fill(&mut table);
        Ok((Some(table), Proof::Names))
    }

    /// Refuses updates whose history the client does not have completely and the archive cannot complete.
    pub fn refuse_holes(&self, updates: &mut [Update], reader: &ObjectReader<'_>, tips: &[ObjectId]) -> Result<()> {
        let shown: Vec<ObjectId> = self.listed.values.values().copied().collect();
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
