//! From a path on the command line to an archive.

use std::path::{Path, PathBuf};

use znippy::archive::Snapshot;

use super::output::Output;

/// Opens the newest state of the archive that `path` names, and passes on its warnings.
pub fn snapshot(path: &Path, output: &Output) -> anyhow::Result<Snapshot> {
    let snapshot = Snapshot::open(&existing_path(path))?;
    for warning in snapshot.warnings() {
        output.warning(&format!("{}: {warning}", snapshot.path().display()));
    }
    Ok(snapshot)
}

/// Returns the file that `path` means: itself where it exists, else with `.znippy` added where that exists.
pub fn existing_path(path: &Path) -> PathBuf {
    let longer = with_extension(path);
    if !path.exists() && longer.exists() {
        longer
    } else {
        path.to_owned()
    }
}

/// Returns the file that a creation at `path` makes.
pub fn new_path(path: &Path) -> anyhow::Result<PathBuf> {
    let named = path.as_os_str().as_encoded_bytes().ends_with(b".znippy");
    Ok(if named { path.to_owned() } else { with_extension(path) })
}

fn with_extension(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".znippy");
    name.into()
}
