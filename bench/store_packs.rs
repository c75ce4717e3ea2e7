//! Stores all packs of a directory in an archive, each with a branch at its commit. For `bench/fsync`.

use std::path::Path;

use gix_hash::Kind;
use znippy::{
    archive::{Appender, Durability, NewPack, Outcome, Transaction, WritePolicy},
    format::row::Proof,
    pack::disk::DiskPack,
    refs::{Expected, RefEdit, Target},
};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [durability, archive, directory] = args.as_slice() else {
        return Err("usage: store_packs fast|safe|uring|batch ARCHIVE DIRECTORY".into());
    };
    let durability: Durability = durability.parse()?;
    let policy = WritePolicy {
        durability,
        ..WritePolicy::default()
    };
    let mut appender = Appender::new(Path::new(archive), policy);
    let mut packs = std::fs::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>, Failure>>()?;
    packs.retain(|path| path.extension().is_some_and(|extension| extension == "pack"));
    packs.sort();
    if durability == Durability::Batch {
        let mut batch = appender.batch();
        for path in &packs {
            let (pack, edit) = load(path)?;
            batch.add_pack(pack)?;
            batch.edit(edit)?;
        }
        return check(&batch.finish()?);
    }
    for path in &packs {
        let (pack, edit) = load(path)?;
        let transaction = Transaction {
            packs: vec![pack],
            edits: vec![edit],
            ..Transaction::default()
        };
        check(&appender.commit(transaction)?)?;
    }
    Ok(())
}

/// Returns a pack and the branch that is to point at its commit: the file is named after it.
fn load(path: &Path) -> Result<(NewPack, RefEdit), Failure> {
    let name = path
        .file_stem()
        .and_then(|name| name.to_str())
        .ok_or("a pack without a name")?;
    let commit = name.parse::<gix_hash::ObjectId>()?;
    let (file, path, id, table) = DiskPack::open(path, Kind::Sha1)?.into_parts();
    let pack = NewPack {
        data: file.into(),
        path,
        id,
        entries: table.as_ref().clone(),
        proof: Proof::None,
        commits: Default::default(),
    };
    let edit = RefEdit {
        name: format!("refs/heads/{name}").into(),
        expected: Expected::Absent,
        new: Some(Target::Object {
            oid: commit,
            peeled: None,
        }),
        rewinds: false,
    };
    Ok((pack, edit))
}

fn check(outcome: &Outcome) -> Result<(), Failure> {
    for note in outcome.notes.iter().chain(&outcome.warnings) {
        eprintln!("{note}");
    }
    outcome
        .written
        .then_some(())
        .ok_or_else(|| format!("{:?}", outcome.results).into())
}
