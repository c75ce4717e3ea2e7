//! What a fetch sends.

use std::collections::HashSet;

use anyhow::Result;
use gix_hash::ObjectId;
use znippy::{
    pack::{
        PackStore,
        object::ObjectReader,
        select::{SelectOptions, everything, select},
        selection::Selection,
        tags::add_following_tags,
    },
    policy::Service,
    refs::{Ref, Target},
};

use crate::{fetch::Fetch, ui::Progress};

/// What to send.
pub enum Plan {
    Nothing,
    /// The only pack, as it is.
    Verbatim,
    Objects(Selection),
}

impl Fetch<'_> {
    /// Decides what to send of what `wants` reach and `haves` do not. `shown` are the values of `refs`.
    ///
    /// # Errors
    /// Fails where the archive cannot be read or does not have what it should.
    pub fn plan(
        &self,
        reader: &ObjectReader<'_>,
        refs: &[Ref],
        shown: &HashSet<ObjectId>,
        wants: &[ObjectId],
        haves: &[ObjectId],
    ) -> Result<Plan> {
        if haves.is_empty()
            && let Some(plan) = self.everything(reader, shown, wants)?
        {
            return Ok(plan);
        }
        let mut progress = Progress::new(self.options.voice, "Counting objects", false);
        let options = SelectOptions {
            parentless: self.client.shallow_commits(),
            filter: self.filter.cloned().unwrap_or_default(),
            progress: Some(&mut |done| progress.update(done, 0)),
            ..SelectOptions::default()
        };
        let mut selection = select(reader, wants, haves, options)?;
        if self.options.follow_tags {
            let tags = refs.iter().filter(|each| each.name.starts_with(b"refs/tags/"));
            let annotated = tags.filter_map(|each| match each.target {
                Target::Object { oid, peeled } => Some((oid, peeled?)),
                Target::Symbolic(_) => None,
            });
            add_following_tags(reader, annotated, &mut selection)?;
        }
        Ok(if selection.is_empty() {
            Plan::Nothing
        } else {
            Plan::Objects(selection)
        })
    }

    /// Returns the plan for who wants all references and has nothing. `None` where that is not so, or where there may be
    /// more objects than references reach: those are sent only to who asks for them by name.
    fn everything(
        &self,
        reader: &ObjectReader<'_>,
        shown: &HashSet<ObjectId>,
        wants: &[ObjectId],
    ) -> Result<Option<Plan>> {
        if self.snapshot.has_unreachable() || self.snapshot.policy().hides_any(Service::UploadPack) {
            return Ok(None);
        }
        let wanted: HashSet<&ObjectId> = wants.iter().collect();
        // With damage, what is wanted may be outside of it.
        if !shown.iter().all(|value| wanted.contains(value)) || !self.snapshot.lost()?.is_empty() {
            return Ok(None);
        }
        match self.filter {
            None if self.snapshot.packs() == 1 => Ok(Some(Plan::Verbatim)),
            filter => {
                let filter = filter.cloned().unwrap_or_default();
                Ok(everything(reader, &filter, wants)?.map(Plan::Objects))
            }
        }
    }
}
