//! Which objects a client may ask for.

use std::collections::HashSet;

use gix_hash::ObjectId;

use super::View;
use crate::{
    error::Result,
    pack::{Kind, PackStore, reach::Search},
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
        let mut left = HashSet::new();
        for (id, stored) in ids.iter().zip(&allowed) {
            if *stored {
                left.insert(*id);
            }
        }
        let first = left.iter().next().copied();
        let mut search = Search::new(&self.reader, left);
        // A partial clone that completes its checkout wants trees and blobs: for that, the other references are not even listed.
        if let Some(first) = first
            && let Some((Kind::Tree | Kind::Blob, _)) = self.reader.header(&first)?
            && !self.is_hidden("HEAD".into())
            && let Some((oid, _)) = self.follow("HEAD".into())?
        {
            search.checkout(&oid)?;
        }
        if !search.is_done() {
            let shown = self.shown()?;
            for each in &shown {
                search.found(&each.oid);
                each.peeled.iter().for_each(|peeled| search.found(peeled));
            }
            if !search.is_done() {
                search.all(shown.into_iter().map(|each| each.oid))?;
            }
        }
        let left = search.left();
        for (id, allowed) in ids.iter().zip(&mut allowed) {
            *allowed &= !left.contains(id);
        }
        Ok(allowed)
    }
}
