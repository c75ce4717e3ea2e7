//! What goes into a pack.

use std::collections::HashSet;

use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;

use super::{View, cut::Boundary, request::Request};
use crate::{
    error::Result,
    pack::{
        Kind, PackStore,
        filter::Filter,
        graph::{peel, read_commit},
        parse::tree_entry,
        select::{SelectOptions, everything, select},
        selection::Selection,
        tags::add_following_tags,
    },
    wire::{WireError, WireResult},
};

/// What to send.
pub(super) enum Plan {
    /// The only pack, as it is.
    Verbatim,
    Objects(Selection),
}

impl View<'_> {
    /// Decides what to send of what `request` wants and `haves` do not reach.
    pub fn plan(
        &self,
        request: &Request,
        haves: &[ObjectId],
        boundary: Boundary,
        filter: Filter,
        progress: &mut dyn FnMut(u64),
    ) -> WireResult<Plan> {
        if haves.is_empty()
            && !request.is_cut()
            && let Some(plan) = self.everything(&request.wants, &filter)?
        {
            return Ok(plan);
        }
        let wants: Vec<ObjectId> = request.wants.iter().chain(&boundary.wants).copied().collect();
        // Who has a commit has what is in its tree, though not what is before it.
        let haves: Vec<ObjectId> = haves.iter().chain(&boundary.unshallow).copied().collect();
        let options = SelectOptions {
            all_haves: request.thin_pack && !boundary.parentless.is_empty(),
            parentless: boundary.parentless,
            filter,
            progress: Some(progress),
        };
        let mut selection = select(&self.reader, &wants, &haves, options)?;
        if request.include_tag {
            let mut tags = Vec::new();
            for each in self.shown()? {
                if each.name.starts_with(b"refs/tags/")
                    && let Some(peeled) = each.peeled
                {
                    tags.push((each.oid, peeled));
                }
            }
            add_following_tags(&self.reader, tags, &mut selection)?;
        }
        Ok(Plan::Objects(selection))
    }

    /// Returns the plan for who wants all references and has nothing: no history needs to be walked then. `None` where
    /// that is not so, or where there may be more objects than references reach.
    fn everything(&self, wants: &[ObjectId], filter: &Filter) -> Result<Option<Plan>> {
        if self.hides_any() || self.snapshot.has_unreachable() {
            return Ok(None);
        }
        // A partial clone that completes itself wants trees and blobs. For these the references are not even looked at.
        if let Some(first) = wants.first()
            && let Some((Kind::Tree | Kind::Blob, _)) = self.reader.header(first)?
        {
            return Ok(None);
        }
        let wanted: HashSet<&ObjectId> = wants.iter().collect();
        if !self.shown()?.iter().all(|each| wanted.contains(&each.oid)) {
            return Ok(None);
        }
        if filter.is_everything() && self.snapshot.packs() == 1 {
            return Ok(Some(Plan::Verbatim));
        }
        Ok(everything(&self.reader, filter, wants)?.map(Plan::Objects))
    }

    /// Returns the filter of a request.
    pub fn filter(&self, request: &Request) -> WireResult<Filter> {
        let Some(spec) = &request.filter else {
            return Ok(Filter::default());
        };
        let mut trouble = None;
        let filter = Filter::parse(spec.as_bstr(), &mut |name| {
            self.patterns(name)
                .unwrap_or_else(|error| {
                    trouble = Some(error);
                    None
                })
                .ok_or_else(|| format!("unable to access sparse blob in '{name}'"))
        });
        match trouble {
            Some(error) => Err(error),
            None => filter.map_err(WireError::refused),
        }
    }

    /// Returns the content of the blob that `name` names, as an object id or as `<revision>:<path>`.
    fn patterns(&self, name: &BStr) -> WireResult<Option<Vec<u8>>> {
        let id = match name.split_once_str(":") {
            None => self.revision(name)?,
            Some((revision, path)) => match self.revision(revision.as_bstr())? {
                Some(id) => self.blob_at(&id, path.as_bstr())?,
                None => None,
            },
        };
        let Some(id) = id else {
            return Ok(None);
        };
        if !self.allowed_of(&[id])?[0] {
            return Ok(None);
        }
        let object = self.reader.read(&id)?;
        Ok(object
            .filter(|object| object.kind == Kind::Blob)
            .map(|object| object.data.to_vec()))
    }

    fn revision(&self, name: &BStr) -> Result<Option<ObjectId>> {
        if let Ok(id) = ObjectId::from_hex(name) {
            return Ok(Some(id));
        }
        Ok(self.expand(name)?.first().copied())
    }

    /// Returns the id of what is at `path` of the tree, the commit or the tag `id`.
    fn blob_at(&self, id: &ObjectId, path: &BStr) -> Result<Option<ObjectId>> {
        let Some((kind, _)) = self.reader.header(id)? else {
            return Ok(None);
        };
        let mut at = match kind {
            Kind::Tag => peel(&self.reader, id)?.1.unwrap_or(*id),
            _ => *id,
        };
        if let Some((Kind::Commit, _)) = self.reader.header(&at)? {
            at = read_commit(&self.reader, &at)?.tree;
        }
        let parts: Vec<BString> = path.split_str("/").map(BString::from).collect();
        for part in parts {
            let tree = match self.reader.read(&at)? {
                Some(object) if object.kind == Kind::Tree => object,
                _ => return Ok(None),
            };
            let mut rest = &tree.data[..];
            let mut found = None;
            while let Ok(Some((entry, after))) = tree_entry(rest, at.as_slice().len()) {
                rest = after;
                if entry.name == part.as_bytes() {
                    found = ObjectId::try_from(entry.id).ok();
                    break;
                }
            }
            match found {
                Some(id) => at = id,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }
}
