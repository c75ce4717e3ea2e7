//! Everything that can be asked of a damaged archive, and what it may answer.

use std::{fmt::Display, path::Path};

use znippy::{
    Error,
    archive::Snapshot,
    pack::{
        Location, PackStore,
        emit::{Naming, emit_with},
        object::{ObjectReader, check_id},
        selection::Selection,
    },
    verify::{Level, Options, Report, verify},
};

use crate::{
    archive::{Known, Model},
    disk::MemDisk,
};

/// Runs `work` on all processors, each with its number and how many there are.
pub fn in_parallel(work: impl Fn(usize, usize) + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || work(thread, threads));
        }
    });
}

/// What damage may cost.
pub struct Allowed<'a> {
    /// Whether the references may be unreadable.
    pub refs: bool,
    /// Whether an earlier state may be shown.
    pub earlier: bool,
    /// Whether nothing at all may be shown.
    pub all: bool,
    /// Whether an object may be unreadable.
    pub object: &'a dyn Fn(&Known) -> bool,
}

/// Opens the archive on `disk` and asks for everything. Returns what is wrong with the answers.
pub fn examine(disk: &MemDisk, model: &Model, allowed: &Allowed<'_>) -> Result<(), String> {
    let path = Path::new("damaged");
    let snapshot = match Snapshot::open_on(disk, path) {
        Ok(snapshot) => snapshot,
        Err(
            Error::Damaged { .. }
            | Error::BeingCreated { .. }
            | Error::Truncated { .. }
            | Error::NotAnArchive { .. }
            | Error::UnsupportedVersion { .. }
            | Error::UnsupportedObjectFormat { .. },
        ) if allowed.all => return Ok(()),
        Err(error) => return Err(format!("it does not open: {error}")),
    };
    let state = snapshot.sequence() as usize - 1;
    let newest = model.refs.len() - 1;
    if state < newest && (!allowed.earlier || snapshot.warnings().is_empty()) {
        return Err(format!(
            "state {state} is shown, with warnings {:?}",
            snapshot.warnings()
        ));
    }
    match snapshot.refs() {
        Ok(refs) if refs == model.refs[state] => {}
        Ok(refs) => return Err(format!("other references: {refs:?}")),
        Err(Error::Damaged { .. }) if allowed.refs => {}
        Err(error) => return Err(format!("no references: {error}")),
    }
    let reader = ObjectReader::new(&snapshot);
    for known in model.objects.iter().filter(|known| known.commit <= state) {
        let named = |why: &dyn Display| Err(format!("object {} of commit {}: {why}", known.id, known.commit));
        match read(&snapshot, &reader, known) {
            Ok(()) => {}
            Err(Wrong::Lie(why)) => return named(&why),
            Err(Wrong::Error(error)) if !(allowed.object)(known) => return named(&error),
            Err(Wrong::Error(_)) => {}
        }
    }
    Ok(())
}

enum Wrong {
    /// An answer that is not true.
    Lie(String),
    Error(Error),
}

/// Reads an object, and sends it.
fn read(snapshot: &Snapshot, reader: &ObjectReader<'_>, known: &Known) -> Result<(), Wrong> {
    let at: Location = match snapshot.lookup(&known.id).map_err(Wrong::Error)? {
        Some(at) => at,
        None => return Err(Wrong::Lie("it is said to be absent".into())),
    };
    // A reader is for walks, which hash what they hand on.
    let read = reader.read_at(at).and_then(|object| {
        check_id(snapshot, &known.id, &object)?;
        Ok(object)
    });
    let mut selection = Selection::new(snapshot.object_format());
    selection.push(&known.id, None, at);
    let mut sent = vec![];
    match emit_with(reader, &selection, Naming::Offset, &mut sent, &mut |_, _| ()) {
        Ok(_) => {
            let object = read.map_err(|error| Wrong::Lie(format!("it was sent, but cannot be read: {error}")))?;
            match object.kind == known.kind && *object.data == known.data {
                true => Ok(()),
                false => Err(Wrong::Lie("it is another object".into())),
            }
        }
        Err(error) => Err(Wrong::Error(error)),
    }
}

/// Checks the archive on `disk`; fails where no damage is named.
pub fn named(disk: &MemDisk) -> Result<Option<Report>, String> {
    let options = Options {
        level: Level::Full,
        disk,
        threads: 1,
        ..Options::default()
    };
    match verify(Path::new("damaged"), options) {
        Ok(report) if report.findings.is_empty() => Err("verify finds nothing wrong".into()),
        Ok(report) => Ok(Some(report)),
        Err(_) => Ok(None),
    }
}
