//! The references of a state: git's rules for their names and values, and whether the objects that they name are there.

use bstr::{BString, ByteSlice};
use gix_hash::ObjectId;

use super::{Check, Code, Finding, Level, Severity, affected::Suspects};
use crate::{
    archive::Snapshot,
    error::Error,
    pack::{Kind, PackStore, graph::peel, object::ObjectReader},
    refs::{Ref, Target, name},
};

/// Symbolic references are followed this far.
const MAX_SYMREF_DEPTH: usize = 5;

/// A reference and an object that it names.
pub(super) struct Tip {
    pub name: BString,
    pub oid: ObjectId,
    pub peeled: Option<ObjectId>,
}

/// Checks all references, and returns those that name objects.
pub(super) fn check(check: &mut Check<'_>, snapshot: &Snapshot, suspects: &mut Suspects) -> Vec<Tip> {
    let refs = match snapshot.refs() {
        Ok(refs) => refs,
        Err(error) => {
            check.fail_with(Code::Refs, &error);
            if let Some(finding) = check.findings.last_mut() {
                finding.what = format!("the references cannot be read ({})", finding.what);
            }
            return vec![];
        }
    };
    check.checked.refs = refs.len() as u64;
    let mut broken: Vec<(BString, String)> = vec![];
    for (at, reference) in refs.iter().enumerate() {
        if let Err(why) = rules(snapshot, &refs, at) {
            broken.push((reference.name.clone(), why));
        }
    }
    let mut tips = vec![];
    let reader = ObjectReader::new(snapshot);
    let (mut lost, mut why_lost) = (vec![], None);
    for (done, reference) in refs.iter().enumerate() {
        let Target::Object { oid, peeled } = reference.target else {
            continue;
        };
        if done % 256 == 0 {
            check.progress("checking references", done as u64, refs.len() as u64, "references");
        }
        let name = reference.name.clone();
        match snapshot.lookup(&oid) {
            Ok(Some(_)) if check.level >= Level::Full => {
                if let Err(why) = names_what_it_says(&reader, &name, &oid, peeled) {
                    broken.push((name.clone(), why));
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                let what = "the object that a reference names is missing";
                let mut finding = Finding::new(Severity::Damage, Code::Missing, what);
                finding.oid = Some(oid);
                check.find(finding);
                suspects.add_object(check.findings.len() - 1, 0, oid);
            }
            Err(error) => {
                lost.push(name.clone());
                why_lost.get_or_insert(error);
            }
        }
        tips.push(Tip { name, oid, peeled });
    }
    if let Some(error) = why_lost {
        check.fail_with(Code::Missing, &error);
        if let Some(finding) = check.findings.last_mut() {
            let (count, what) = (lost.len(), &finding.what);
            finding.what = format!("{count} references name objects that cannot be looked up ({what})");
            finding.affects(lost);
        }
    }
    for (name, why) in broken {
        let mut finding = Finding::new(Severity::Damage, Code::RefRule, why);
        finding.affects([name]);
        check.find(finding);
    }
    tips
}

/// Checks a reference against git's rules; `refs` are sorted but for HEAD, which comes first.
fn rules(snapshot: &Snapshot, refs: &[Ref], at: usize) -> Result<(), String> {
    let Ref { name, target } = &refs[at];
    name::validate(name.as_bstr())?;
    for parent in name::parents(name.as_bstr()) {
        if refs.binary_search_by(|other| other.name.as_bstr().cmp(parent)).is_ok() {
            return Err(format!("it cannot exist beside {parent}"));
        }
    }
    let Target::Symbolic(to) = target else {
        return match name == "HEAD" {
            true => Err("HEAD names an object, not a branch".into()),
            false => Ok(()),
        };
    };
    if name == "HEAD" && !to.starts_with(b"refs/heads/") {
        return Err(format!("HEAD names {to}, which is no branch"));
    }
    let mut next = to.clone();
    for _ in 0..MAX_SYMREF_DEPTH {
        match snapshot.find_ref(next.as_bstr()) {
            Ok(Some(Target::Symbolic(further))) => next = further,
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("symbolic references lead too far, or in a circle".into())
}

/// Checks the kind of the object that a reference names, and what it is said to peel to.
fn names_what_it_says(
    reader: &ObjectReader<'_>,
    name: &BString,
    oid: &ObjectId,
    peeled: Option<ObjectId>,
) -> Result<(), String> {
    let (kind, target) = match peel(reader, oid) {
        Ok(found) => found,
        // Damage was told with the object.
        Err(Error::InvalidPack { .. } | Error::MissingObject { .. } | Error::Damaged { .. }) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    if name.starts_with(b"refs/heads/") && kind != Kind::Commit {
        return Err(format!("a branch names a {kind}"));
    }
    match (peeled, target) {
        (peeled, target) if peeled == target => Ok(()),
        (Some(peeled), _) => Err(format!("it says that its tag points at {peeled}, which it does not")),
        (None, _) => Err("it does not say what its tag points at".into()),
    }
}
