//! The references that a client may see.

use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;

use super::{View, Wants};
use crate::{
    error::Result,
    policy::Service,
    refs::{Ref, Target},
};

/// A reference as it is shown.
pub(super) struct Shown {
    pub name: BString,
    /// The object that it holds or leads to.
    pub oid: ObjectId,
    /// What an annotated tag finally points at.
    pub peeled: Option<ObjectId>,
    /// The reference that it names.
    pub symref: Option<BString>,
}

impl View<'_> {
    /// Returns whether any stored object may be asked for without a look at the references: because the client may have all of
    /// them, or because references reach all of them.
    pub(super) fn everything_is_allowed(&self) -> bool {
        self.wants == Wants::Stored || !self.hides_any() && !self.snapshot.has_unreachable()
    }

    /// Returns whether there may be hidden references.
    pub(super) fn hides_any(&self) -> bool {
        self.snapshot.policy().hides_any(Service::UploadPack)
    }

    pub(super) fn is_hidden(&self, name: &BStr) -> bool {
        self.snapshot.policy().hides(Service::UploadPack, name)
    }

    /// Returns the references that a client may see, `HEAD` first. What leads nowhere is not among them.
    pub(super) fn shown(&self) -> Result<Vec<Shown>> {
        let mut shown = Vec::new();
        for Ref { name, target } in self.snapshot.refs()? {
            if self.is_hidden(name.as_bstr()) {
                continue;
            }
            let (oid, peeled, symref) = match target {
                Target::Object { oid, peeled } => (oid, peeled, None),
                Target::Symbolic(to) => match self.follow(to.as_bstr())? {
                    Some((oid, peeled)) => (oid, peeled, Some(to)),
                    None => continue,
                },
            };
            shown.push(Shown {
                name,
                oid,
                peeled,
                symref,
            });
        }
        Ok(shown)
    }

    /// Returns the object that a reference leads to, and what that finally points at if it is a tag.
    pub(super) fn follow(&self, name: &BStr) -> Result<Option<(ObjectId, Option<ObjectId>)>> {
        let mut name = name.to_owned();
        for _ in 0..=5 {
            match self.snapshot.find_ref(name.as_bstr())? {
                Some(Target::Object { oid, peeled }) => return Ok(Some((oid, peeled))),
                Some(Target::Symbolic(next)) => name = next,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns the values of the references that a short name may mean, by the rules of gitrevisions(7).
    pub(super) fn expand(&self, short: &BStr) -> Result<Vec<ObjectId>> {
        let mut values = Vec::new();
        for (before, after) in [
            ("", ""),
            ("refs/", ""),
            ("refs/tags/", ""),
            ("refs/heads/", ""),
            ("refs/remotes/", ""),
            ("refs/remotes/", "/HEAD"),
        ] {
            let name: BString = [before.as_bytes(), short, after.as_bytes()].concat().into();
            if !self.is_hidden(name.as_bstr())
                && let Some((oid, _)) = self.follow(name.as_bstr())?
            {
                values.push(oid);
            }
        }
        Ok(values)
    }
}
