//! What a fetch sends.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use gix_hash::ObjectId;
use znippy::{
    pack::{
        Kind, PackStore,
        object::ObjectReader,
        parse,
        select::{SelectOptions, everything, select},
        selection::Selection,
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
            add_following_tags(reader, refs, &mut selection)?;
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

/// Adds the annotated tags of what is selected, as git's own servers do with `include-tag`.
fn add_following_tags(reader: &ObjectReader<'_>, refs: &[Ref], selection: &mut Selection) -> Result<()> {
    let mut tags: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
    for reference in refs.iter().filter(|each| each.name.starts_with(b"refs/tags/")) {
        if let Target::Object {
            oid,
            peeled: Some(peeled),
        } = reference.target
        {
            tags.entry(peeled).or_default().push(oid);
        }
    }
    if tags.is_empty() {
        return Ok(());
    }
    let mut following: Vec<ObjectId> = selection.oids().filter_map(|oid| tags.remove(&oid)).flatten().collect();
    let is_tag = |&index: &usize| selection.kind(index) == Some(Kind::Tag);
    let mut selected: HashSet<ObjectId> = (0..selection.len())
        .filter(is_tag)
        .map(|index| selection.oid(index).to_owned())
        .collect();
    // A tag may name another tag, which then follows too.
    while let Some(tag) = following.pop() {
        let Some(at) = reader.store().lookup(&tag)? else {
            continue;
        };
        let object = reader.read_at(at)?;
        if object.kind == Kind::Tag && selected.insert(tag) {
            selection.push(&tag, Some(Kind::Tag), at);
            following.extend(parse::tag(&object.data, reader.store().object_format()).map(|(target, _)| target));
        }
    }
    Ok(())
}
