//! `upload-archive`: the trees that `git archive --remote` asks for.
//!
//! Making tar and zip files, with attributes and all, is git's business. It is given a repository that has the references of the
//! archive and just the objects of the trees that are asked for.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
};

use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;

use crate::{
    archive::Snapshot,
    error::{Error, Result},
    pack::{
        Kind,
        emit::{Naming, emit_with},
        graph::peel,
        idx,
        object::ObjectReader,
        select::{SelectOptions, select},
    },
    policy::Service,
    refs::Target,
};

/// git's way from a short name to a reference; see gitrevisions(7).
const RULES: [(&str, &str); 6] = [
    ("", ""),
    ("refs/", ""),
    ("refs/tags/", ""),
    ("refs/heads/", ""),
    ("refs/remotes/", ""),
    ("refs/remotes/", "/HEAD"),
];

/// Makes a bare repository in the empty directory `at` that is enough to answer a request with these arguments.
///
/// # Errors
/// Fails where the archive cannot be read or the directory cannot be written to.
pub fn prepare(snapshot: &Snapshot, arguments: &[BString], at: &Path) -> Result<()> {
    let put = |name: &str, bytes: &[u8]| {
        let path = at.join(name);
        fs::write(&path, bytes).map_err(Error::io(path, "write"))
    };
    for name in ["objects/pack", "objects/info", "refs"] {
        let path = at.join(name);
        fs::create_dir_all(&path).map_err(Error::io(path, "create"))?;
    }
    let config = match snapshot.object_format() {
        gix_hash::Kind::Sha256 => {
            "[core]\n\tbare = true\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n"
        }
        _ => "[core]\n\tbare = true\n\trepositoryformatversion = 0\n",
    };
    put("config", config.as_bytes())?;
    let policy = snapshot.policy();
    let is_hidden = |name: &BStr| policy.hides(Service::UploadPack, name);
    let mut head = b"ref: refs/heads/main\n".to_vec();
    let mut packed = b"# pack-refs with: peeled fully-peeled sorted \n".to_vec();
    for each in snapshot.refs()? {
        let name = each.name.as_bstr();
        if name == "HEAD" {
            head = match &each.target {
                Target::Symbolic(to) if !is_hidden(to.as_bstr()) => [b"ref: ", &to[..], b"\n"].concat(),
                _ => snapshot
                    .resolve_ref(name)?
                    .map_or(head, |id| format!("{id}\n").into_bytes()),
            };
            continue;
        }
        if is_hidden(name) {
            continue;
        }
        let (value, peeled) = match &each.target {
            Target::Object { oid, peeled } => (Some(*oid), *peeled),
            Target::Symbolic(to) => (snapshot.resolve_ref(to.as_bstr())?, None),
        };
        if let Some(value) = value {
            packed.extend_from_slice(&[value.to_string().as_bytes(), b" ", name, b"\n"].concat());
        }
        if let Some(peeled) = peeled {
            packed.extend_from_slice(format!("^{peeled}\n").as_bytes());
        }
    }
    put("HEAD", &head)?;
    put("packed-refs", &packed)?;
    let wants = wants(snapshot, arguments, &is_hidden)?;
    if wants.is_empty() {
        return Ok(());
    }
    pack(snapshot, &wants, &at.join("objects/pack"))
}

/// Returns what the arguments may mean: whatever is the name of a reference, be it meant as one or not.
fn wants(snapshot: &Snapshot, arguments: &[BString], is_hidden: &dyn Fn(&BStr) -> bool) -> Result<Vec<ObjectId>> {
    let mut wants = Vec::new();
    for argument in arguments.iter().filter(|argument| !argument.starts_with(b"-")) {
        // `BRANCH:DIRECTORY` is a tree of that branch.
        let short = argument.split(|byte| *byte == b':').next().unwrap_or_default();
        for (before, after) in RULES {
            let name = BString::from([before.as_bytes(), short, after.as_bytes()].concat());
            let full = name == "HEAD" || name.starts_with(b"refs/");
            if full && !is_hidden(name.as_bstr()) {
                wants.extend(snapshot.resolve_ref(name.as_bstr())?);
            }
        }
    }
    wants.sort_unstable();
    wants.dedup();
    Ok(wants)
}

/// Packs the commits `wants` with their trees, but without their history.
fn pack(snapshot: &Snapshot, wants: &[ObjectId], at: &Path) -> Result<()> {
    let reader = ObjectReader::new(snapshot);
    let mut parentless = HashSet::new();
    for want in wants {
        let (kind, peeled) = peel(&reader, want)?;
        parentless.extend(match kind {
            Kind::Commit => Some(*want),
            _ => peeled,
        });
    }
    let options = SelectOptions {
        parentless,
        ..SelectOptions::default()
    };
    let selection = select(&reader, wants, &[], options)?;
    let create = |path: &Path| {
        let file = File::create(path).map_err(Error::io(path, "create"))?;
        Ok(BufWriter::with_capacity(1 << 18, file))
    };
    let path = at.join("pack-archive.pack");
    let mut file = create(&path)?;
    let receipt = emit_with(&reader, &selection, Naming::Offset, &mut file, &mut |_, _| ())?;
    file.flush().map_err(Error::io(&path, "write"))?;
    let path = at.join("pack-archive.idx");
    let mut file = create(&path)?;
    idx::write_idx(
        &receipt.entries,
        &receipt.pack_id,
        idx::LARGE_OFFSET_THRESHOLD,
        &mut file,
    )
    .and_then(|_| file.flush())
    .map_err(Error::io(&path, "write"))
}
