//! What the archive shows: to a fetch, and to a push.

use std::collections::HashMap;

use anyhow::Result;
use bstr::{BStr, BString, ByteSlice};
use gix_hash::{Kind, ObjectId};
use znippy::{
    archive::Snapshot,
    policy::Service,
    refs::{Ref, Target},
};

/// What `list for-push` showed: git, and the user, decided on that.
#[derive(Debug, Default)]
pub struct Listing {
    /// The value of each reference; of a symbolic one, the value of the one it leads to.
    pub values: HashMap<BString, ObjectId>,
    /// What each symbolic reference names.
    pub symbolic: HashMap<BString, BString>,
}

/// Returns the line that must come first: git reads the ids after it by it.
pub fn object_format_line(format: Kind) -> Vec<u8> {
    format!(":object-format {format}\n").into()
}

/// Appends `<id> <name>`.
pub fn value_line(oid: &ObjectId, name: &BStr, suffix: &str, lines: &mut Vec<u8>) {
    let mut hex = Kind::hex_buf();
    lines.extend_from_slice(oid.hex_to_buf(&mut hex).as_bytes());
    lines.push(b' ');
    lines.extend_from_slice(name);
    lines.extend_from_slice(suffix.as_bytes());
    lines.push(b'\n');
}

/// Lists everything a fetch may want: HEAD, where it leads somewhere, and what annotated tags point at.
pub fn list_refs(snapshot: &Snapshot, lines: &mut Vec<u8>) -> Result<()> {
    let policy = snapshot.policy();
    let hidden = |name: &BString| policy.hides(Service::UploadPack, name.as_bstr());
    for Ref { name, target } in snapshot.refs()?.into_iter().filter(|each| !hidden(&each.name)) {
        match target {
            Target::Object { oid, peeled } => {
                value_line(&oid, name.as_bstr(), "", lines);
                if let Some(peeled) = peeled {
                    value_line(&peeled, name.as_bstr(), "^{}", lines);
                }
            }
            Target::Symbolic(to) => {
                // git takes an unborn target for a wish to fetch the null id.
                let Some(oid) = snapshot.resolve_ref(to.as_bstr())? else {
                    continue;
                };
                match name == "HEAD" && !hidden(&to) {
                    true => lines.extend_from_slice(&[b"@", &to[..], b" HEAD\n"].concat()),
                    false => value_line(&oid, name.as_bstr(), "", lines),
                }
            }
        }
    }
    Ok(())
}

/// Reads what a push may change: only real references below `refs/`, or `--mirror` would delete the others.
pub fn listing_of(snapshot: &Snapshot) -> Result<Listing> {
    let mut listing = Listing::default();
    let policy = snapshot.policy();
    for Ref { name, target } in snapshot.refs()? {
        if !name.starts_with(b"refs/") || policy.hides(Service::ReceivePack, name.as_bstr()) {
            continue;
        }
        match target {
            Target::Object { oid, .. } => {
                listing.values.insert(name, oid);
            }
            Target::Symbolic(to) => {
                if let Some(oid) = snapshot.resolve_ref(to.as_bstr())? {
                    listing.values.insert(name.clone(), oid);
                }
                listing.symbolic.insert(name, to);
            }
        }
    }
    Ok(listing)
}
