//! `znippy refs list`.

use std::{collections::HashMap, ffi::OsString, os::unix::ffi::OsStrExt, path::PathBuf};

use bstr::{BStr, ByteSlice};
use gix_hash::ObjectId;
use serde::Serialize;
use znippy::refs::{MAX_IN_A_ROW, Ref, Target};

use super::glob;
use crate::cli::{Done, exit::Exit, open, output::Output};

/// List references as `git ls-remote --symref` does
///
/// A line is an object id, a tab and a name. An annotated tag has a second line, its name with ^{} and the object that
/// it finally points at. A symbolic reference has a line `ref: TARGET`, a tab and its name in front.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  znippy refs list app
  znippy refs list app main 'refs/tags/v1.*'
  znippy refs list --json app | jq -r 'select(.symref | not) | .name'

JSON keys: name, oid (null if HEAD names a branch that does not exist), peeled (only for annotated tags), symref (only
for symbolic references), name_hex (only if the name is not UTF-8; name then has replacement characters).

With patterns the exit code is 1 if nothing matches.")]
pub struct Args {
    /// One JSON object a line for each reference
    #[arg(long)]
    json: bool,

    /// The archive
    path: PathBuf,

    /// Only names whose last parts match: main matches refs/heads/main; *, ? and [] are wildcards and match / too
    #[arg(value_name = "PATTERN")]
    patterns: Vec<OsString>,
}

/// The JSON record of a reference.
#[derive(Serialize)]
struct Record<'a> {
    name: &'a str,
    oid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peeled: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    symref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
}

/// Lists the references in the order of their names, HEAD first.
pub fn run(args: &Args, output: &mut Output) -> Done {
    let refs = open::snapshot(&args.path, output)?.refs()?;
    let by_name = refs.iter().map(|r| (r.name.as_bstr(), &r.target)).collect();
    let mut found = args.patterns.is_empty();
    for r in &refs {
        if args.patterns.is_empty()
            || args
                .patterns
                .iter()
                .any(|pattern| glob::matches_tail(pattern.as_bytes(), &r.name))
        {
            found = true;
            show(r, object(&r.target, &by_name), args.json, output)?;
        }
    }
    Ok(if found { Exit::Done } else { Exit::No })
}

/// Returns the object that `target` leads to, and what that object finally points at if it is a tag.
fn object<'a>(mut target: &'a Target, by_name: &HashMap<&'a BStr, &'a Target>) -> Option<(ObjectId, Option<ObjectId>)> {
    for _ in 0..MAX_IN_A_ROW {
        match target {
            Target::Object { oid, peeled } => return Some((*oid, *peeled)),
            Target::Symbolic(name) => target = by_name.get(name.as_bstr())?,
        }
    }
    None
}

fn show(r: &Ref, object: Option<(ObjectId, Option<ObjectId>)>, json: bool, output: &mut Output) -> anyhow::Result<()> {
    let (oid, peeled) = object.unzip();
    let peeled = peeled.flatten();
    let symref = match &r.target {
        Target::Symbolic(target) => Some(target),
        Target::Object { .. } => None,
    };
    if json {
        output.json(&Record {
            name: &r.name.to_str_lossy(),
            oid: oid.map(|oid| oid.to_string()),
            peeled: peeled.map(|oid| oid.to_string()),
            symref: symref.map(|target| target.to_str_lossy().into_owned()),
            name_hex: r.name.to_str().is_err().then(|| hex(&r.name)),
        })?;
        return Ok(());
    }
    let name = output.name(&r.name).into_owned();
    if let Some(target) = symref {
        output.line([b"ref: ", &*output.name(target), b"\t", &name].concat())?;
    }
    if let Some(oid) = oid {
        output.line([oid.to_string().as_bytes(), b"\t", &name].concat())?;
    }
    if let Some(peeled) = peeled {
        output.line([peeled.to_string().as_bytes(), b"\t", &name, b"^{}"].concat())?;
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbolic_references_are_followed_but_not_in_circles() {
        let oid = ObjectId::null(gix_hash::Kind::Sha1);
        let end = Target::Object { oid, peeled: None };
        let names: Vec<String> = (0..8).map(|n| format!("refs/{n}")).collect();
        let links: Vec<Target> = names
            .iter()
            .map(|name| Target::Symbolic(name.as_str().into()))
            .collect();
        // refs/0 is an object, refs/1 names refs/0, and so on.
        let mut by_name: HashMap<&BStr, &Target> = HashMap::from([("refs/0".into(), &end)]);
        for n in 1..8 {
            by_name.insert(names[n].as_str().into(), &links[n - 1]);
        }
        assert_eq!(object(&links[0], &by_name), Some((oid, None)));
        assert_eq!(object(&links[3], &by_name), Some((oid, None)));
        assert_eq!(object(&links[4], &by_name), None, "git reads five references, not six");
        by_name.insert("refs/0".into(), &links[1]);
        assert_eq!(object(&links[0], &by_name), None, "a circle");
        by_name.remove(&BStr::new("refs/0"));
        assert_eq!(object(&links[0], &by_name), None, "nothing there");
    }
}
