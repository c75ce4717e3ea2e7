//! Holding a transaction to the settings of the archive, under the writer lock: whoever commits, and whatever was asked for
//! with `+`.

use bstr::ByteSlice;
use gix_hash::oid;

use super::{NewPack, Snapshot, Transaction, incoming::Incoming};
use crate::{
    error::{Error, Result},
    pack::{
        Kind, Location, PackRank,
        disk::Layered,
        graph::{is_ancestor, peel},
        object::ObjectReader,
    },
    policy::{MAX_INPUT_SIZE, MAX_OBJECT_SIZE, Policy, Service},
    refs::{RefEdit, Rejection, Target},
};

/// The settings that a transaction must keep to.
pub struct Rules<'a> {
    snapshot: &'a Snapshot,
    transaction: &'a Transaction,
    policy: Policy,
    /// Why nothing of the transaction may be done.
    all: Option<Rejection>,
}

impl<'a> Rules<'a> {
    /// Reads the settings, and judges the transaction as a whole.
    ///
    /// # Errors
    /// Fails where the new packs cannot be read.
    pub fn new(snapshot: &'a Snapshot, transaction: &'a Transaction) -> Result<Rules<'a>> {
        let policy = snapshot.policy();
        let all = match policy.is_read_only() {
            true => Some(Rejection::Policy("the archive is read-only (znippy.readOnly)".into())),
            false => too_large(snapshot, &policy, &transaction.packs)?.map(Rejection::Pack),
        };
        Ok(Rules {
            snapshot,
            transaction,
            policy,
            all,
        })
    }

    /// Returns why nothing of the transaction may be done, not even what changes no reference.
    pub fn forbid_all(&self) -> Option<&Rejection> {
        self.all.as_ref()
    }

    /// Returns why the settings forbid to change a reference that holds `old`. The words are those of git's own server.
    ///
    /// # Errors
    /// Fails where the history that the answer needs cannot be read.
    pub fn forbid(&self, edit: &RefEdit, old: Option<&Target>) -> Result<Option<Rejection>> {
        if self.policy.is_empty() {
            return Ok(None);
        }
        if let Some(all) = &self.all {
            return Ok(Some(all.clone()));
        }
        let name = edit.name.as_bstr();
        if self.transaction.is_push && self.policy.hides(Service::ReceivePack, name) {
            let what = if edit.new.is_some() { "updating" } else { "deleting" };
            return Ok(Some(Rejection::Policy(format!("deny {what} a hidden ref"))));
        }
        if !name.starts_with(b"refs/heads/") {
            return Ok(None);
        }
        let why = match (old, &edit.new) {
            (Some(_), None) if self.policy.denies_deletes() => "deletion prohibited",
            (Some(Target::Object { oid: old, .. }), Some(Target::Object { oid: new, .. }))
                if self.policy.denies_non_fast_forwards() && !self.is_fast_forward(old, new)? =>
            {
                "non-fast-forward"
            }
            (Some(Target::Object { .. }), Some(Target::Symbolic(_))) if self.policy.denies_non_fast_forwards() => {
                "non-fast-forward"
            }
            _ => return Ok(None),
        };
        Ok(Some(Rejection::Policy(why.into())))
    }

    /// Judges by the commits of the archive and of the new packs alone, not by what the edit says.
    fn is_fast_forward(&self, old: &oid, new: &oid) -> Result<bool> {
        let incoming = Incoming::new(&self.transaction.packs, self.snapshot.object_format());
        let store = Layered::new(&[&incoming, self.snapshot])?;
        let reader = ObjectReader::new(&store);
        for id in [old, new] {
            if reader.find(id)?.is_none() || peel(&reader, id)?.0 != Kind::Commit {
                return Ok(false);
            }
        }
        Ok(is_ancestor(&reader, old, new, None)? == Some(true))
    }
}

/// Returns why the packs are too large for the archive's settings.
fn too_large(snapshot: &Snapshot, policy: &Policy, packs: &[NewPack]) -> Result<Option<String>> {
    if let Some(limit) = policy.max_input_size() {
        let mut bytes = 0;
        for pack in packs {
            bytes += pack.data.len().map_err(Error::io(&pack.path, "stat"))?;
        }
        if bytes > limit {
            return Ok(Some(format!(
                "the pack of {bytes} bytes exceeds the limit of {limit} ({MAX_INPUT_SIZE})"
            )));
        }
    }
    let Some(limit) = policy.max_object_size() else {
        return Ok(None);
    };
    let incoming = Incoming::new(packs, snapshot.object_format());
    let reader = ObjectReader::new(&incoming);
    for (rank, pack) in packs.iter().enumerate() {
        let table = &pack.entries;
        for row in 0..table.len() {
            let size = match table.kinds.get(row) {
                Some(kind) if *kind != 0 => table.sizes[row],
                _ => {
                    let at = Location {
                        pack: rank as PackRank,
                        offset: table.offsets[row],
                        crc32: table.crc32s[row],
                    };
                    reader.header_at(at)?.1
                }
            };
            if size > limit {
                return Ok(Some(format!(
                    "object {} of {size} bytes exceeds the limit of {limit} ({MAX_OBJECT_SIZE})",
                    table.oid(row)
                )));
            }
        }
    }
    Ok(None)
}
