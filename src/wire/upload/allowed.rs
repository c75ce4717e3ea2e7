//! Which objects a client may ask for.

use std::collections::HashSet;

use gix_hash::ObjectId;

use super::View;
use crate::{
    error::Result,
    pack::{
        Kind, PackStore,
        select::{SelectOptions, commits_between, select},
    },
    wire::{WireError, WireResult},
};

impl View<'_> {
    /// Checks that a client may have what it wants.
    ///
    /// # Errors
    /// Names what it cannot have; whether that is stored is not told.
    pub(super) fn check_wants(&self, wants: &[ObjectId]) -> WireResult<()> {
        let allowed = self.allowed_of(wants)?;
        match wants.iter().zip(allowed).find(|(_, allowed)| !allowed) {
            Some((want, _)) => Err(WireError::refused(format!("upload-pack: not our ref {want}"))),
            None => Ok(()),
        }
    }

    /// Returns of each object whether a client may have it. What is not stored, it may not.
    pub(super) fn allowed_of(&self, ids: &[ObjectId]) -> Result<Vec<bool>> {
        let mut allowed = Vec::with_capacity(ids.len());
        for id in ids {
            allowed.push(self.snapshot.lookup(id)?.is_some());
        }
        if self.everything_is_allowed() {
            return Ok(allowed);
        }
        let shown = self.shown_values()?;
        let mut left: Vec<usize> = (0..ids.len())
            .filter(|&index| allowed[index] && !shown.contains(&ids[index]))
            .collect();
        // Commits are found by a walk over commits. The rest needs one over everything: it is made only for who asks for it.
        for everything in [false, true] {
            if left.is_empty() {
                break;
            }
            if !everything && !self.any_commit(&left, ids)? {
                continue;
            }
            let reached = self.reached(&shown, everything)?;
            left.retain(|&index| !reached.contains(&ids[index]));
            if !everything {
                for &index in &left {
                    let is_commit = matches!(self.reader.header(&ids[index])?, Some((Kind::Commit, _)));
                    allowed[index] &= !is_commit;
                }
                left.retain(|&index| allowed[index]);
            }
        }
        for index in left {
            allowed[index] = false;
        }
        Ok(allowed)
    }

    /// Returns the objects that shown references hold, and what their tags point at.
    pub(super) fn shown_values(&self) -> Result<HashSet<ObjectId>> {
        let mut values = HashSet::new();
        for each in self.shown()? {
            values.insert(each.oid);
            values.extend(each.peeled);
        }
        Ok(values)
    }

    fn any_commit(&self, of: &[usize], ids: &[ObjectId]) -> Result<bool> {
        for &index in of {
            if let Some((Kind::Commit, _)) = self.reader.header(&ids[index])? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns what `shown` reach: commits only, or everything.
    fn reached(&self, shown: &HashSet<ObjectId>, everything: bool) -> Result<HashSet<ObjectId>> {
        if everything {
            let wants: Vec<ObjectId> = shown.iter().copied().collect();
            let selection = select(&self.reader, &wants, &[], SelectOptions::default())?;
            return Ok(selection.oids().collect());
        }
        let mut commits = Vec::new();
        for id in shown {
            if let Some((Kind::Commit, _)) = self.reader.header(id)? {
                commits.push(*id);
            }
        }
        Ok(commits_between(&self.reader, &commits, &[])?.into_iter().collect())
    }
}
