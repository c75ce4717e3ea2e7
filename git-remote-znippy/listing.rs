//! What the archive shows: to a fetch, and to a push.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Write},
};

use anyhow::Result;
use bstr::{BStr, BString, ByteSlice};
use gix_hash::{Kind, ObjectId};
use znippy::{archive::Snapshot, policy::Service, refs::Target};

use crate::ui::GitWentAway;

/// What `list for-push` showed: git, and the user, decided on that.
#[derive(Debug, Default)]
pub struct Listing {
    /// The value of each reference; of a symbolic one, the value of the one it leads to.
    pub values: HashMap<BString, ObjectId>,
    /// What each symbolic reference names.
    pub symbolic: HashMap<BString, BString>,
    /// What references hold now, where the archive was rewritten after it was listed: only on these a pack may build.
    pub live: Option<HashSet<ObjectId>>,
}

impl Listing {
    /// Returns the objects that references hold: what the archive has with all that it needs.
    pub fn shown(&self) -> HashSet<ObjectId> {
        match &self.live {
            Some(live) => live.clone(),
            None => self.values.values().copied().collect(),
        }
    }
}

/// Returns the line that must come first: git reads the ids after it by it.
pub fn object_format_line(format: Kind) -> Vec<u8> {
    format!(":object-format {format}\n").into()
}

/// Writes `<id> <name>`.
fn value_line(oid: &ObjectId, name: &BStr, suffix: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut hex = Kind::hex_buf();
    out.write_all(oid.hex_to_buf(&mut hex).as_bytes())?;
    out.write_all(b" ")?;
    out.write_all(name)?;
    out.write_all(suffix.as_bytes())?;
    out.write_all(b"\n")
}

/// Lists everything a fetch may want: HEAD, where it leads somewhere, and what annotated tags point at.
///
/// Lines are written as references are read, so that git reads them meanwhile and no list of all is made. Returns how many there
/// are.
pub fn list_refs(snapshot: &Snapshot, out: &mut dyn Write) -> Result<usize> {
    let policy = snapshot.policy();
    let hidden = |name: &BStr| policy.hides(Service::UploadPack, name);
    let mut count = 0;
    snapshot.for_each_ref(&mut |name, target| -> Result<()> {
        if hidden(name) {
            return Ok(());
        }
        count += 1;
        let line = |oid: &ObjectId, suffix, out: &mut dyn Write| {
            value_line(oid, name, suffix, out).map_err(|_: io::Error| GitWentAway)
        };
        match target {
            Target::Object { oid, peeled } => {
                line(oid, "", out)?;
                if let Some(peeled) = peeled {
                    line(peeled, "^{}", out)?;
                }
            }
            Target::Symbolic(to) => {
                // git takes an unborn target for a wish to fetch the null id.
                let Some(oid) = snapshot.resolve_ref(to.as_bstr())? else {
                    return Ok(());
                };
                match name == "HEAD" && !hidden(to.as_bstr()) {
                    true => out
                        .write_all(&[b"@", &to[..], b" HEAD\n"].concat())
                        .map_err(|_: io::Error| GitWentAway)?,
                    false => line(&oid, "", out)?,
                }
            }
        }
        Ok(())
    })?;
    Ok(count)
}

/// Lists what a push may change, and returns it: only real references below `refs/`, or `--mirror` would delete the others.
pub fn list_for_push(snapshot: &Snapshot, out: &mut dyn Write) -> Result<Listing> {
    let mut listing = Listing::default();
    let policy = snapshot.policy();
    snapshot.for_each_ref(&mut |name, target| -> Result<()> {
        if !name.starts_with(b"refs/") || policy.hides(Service::ReceivePack, name) {
            return Ok(());
        }
        let value = match target {
            Target::Object { oid, .. } => Some(*oid),
            Target::Symbolic(to) => {
                listing.symbolic.insert(name.into(), to.clone());
                snapshot.resolve_ref(to.as_bstr())?
            }
        };
        if let Some(oid) = value {
            value_line(&oid, name, "", out).map_err(|_: io::Error| GitWentAway)?;
            listing.values.insert(name.into(), oid);
        }
        Ok(())
    })?;
    Ok(listing)
}
