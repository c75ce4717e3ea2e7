//! From a path on the command line to an archive.

use std::{
    borrow::Cow,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use bstr::BStr;
use znippy::{
    Error,
    archive::Snapshot,
    locate::{self, Located, Places},
};

use super::{exit, output::Output};

/// Opens the newest state of the archive that `path` names, and passes on its warnings.
pub fn snapshot(path: &Path, output: &Output) -> anyhow::Result<Snapshot> {
    let snapshot = quiet_snapshot(path)?;
    for warning in snapshot.warnings() {
        output.warning(&format!("{}: {warning}", snapshot.path().display()));
    }
    Ok(snapshot)
}

/// Opens the newest state of the archive that a client of a server asks for by `path`.
pub fn served(path: &Path, output: &Output) -> anyhow::Result<Snapshot> {
    snapshot(path, output).map_err(|error| match error.downcast_ref() {
        Some(Error::NotFound { path }) => exit::not_served(path),
        _ => error,
    })
}

/// Opens the newest state of the archive that `path` names.
pub fn quiet_snapshot(path: &Path) -> anyhow::Result<Snapshot> {
    Ok(Snapshot::open(&existing(path)?)?)
}

/// Returns the file that `path` names, which is there.
pub fn existing(path: &Path) -> anyhow::Result<PathBuf> {
    let located = find(path)?;
    if !located.exists {
        return Err(Error::NotFound { path: path.to_owned() }.into());
    }
    Ok(as_written(path, located))
}

/// Returns the file that a creation at `path` makes.
pub fn new_path(path: &Path) -> anyhow::Result<PathBuf> {
    let located = find(path)?;
    match located.exists {
        true => Err(Error::AlreadyExists {
            path: as_written(path, located),
        }
        .into()),
        false => Ok(as_written(path, located)),
    }
}

/// Finds the file by the rules for addresses of remotes. A `~` is left to the shell.
fn find(path: &Path) -> anyhow::Result<Located> {
    let text = path.as_os_str().as_bytes();
    // What git calls it is as good as its path.
    let text = text
        .strip_prefix(b"znippy::")
        .filter(|_| !path.exists())
        .unwrap_or(text);
    let text = match text.starts_with(b"~") {
        true => Cow::Owned([b"./", text].concat()),
        false => Cow::Borrowed(text),
    };
    if text.is_empty() {
        return Err(exit::usage("the path of the archive is empty"));
    }
    let cwd = std::env::current_dir().context("cannot tell the current directory")?;
    let places = Places {
        cwd: &cwd,
        home: &|_| None,
    };
    Ok(locate::locate(BStr::new(&text), &places)?)
}

/// Returns the path of `located` relative as `path` was, so that messages show what the user knows.
fn as_written(path: &Path, located: Located) -> PathBuf {
    let written = path.as_os_str().as_bytes();
    let found = located.path.as_os_str().as_bytes();
    let extra = match found.ends_with(locate::EXTENSION.as_bytes()) && !written.ends_with(locate::EXTENSION.as_bytes())
    {
        true => locate::EXTENSION.as_bytes(),
        false => b"",
    };
    let candidate = [written, extra].concat();
    match located.relative && found.ends_with(&candidate) {
        true => PathBuf::from(OsStr::from_bytes(&candidate)),
        false => located.path,
    }
}
