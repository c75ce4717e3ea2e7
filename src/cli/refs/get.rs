//! `znippy refs get`.

use std::{ffi::OsString, os::unix::ffi::OsStrExt, path::PathBuf};

use bstr::BStr;

use crate::cli::{Done, exit, exit::Exit, open, output::Output};

/// Print the object id of one reference
///
/// A symbolic reference is followed.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  znippy refs get app refs/heads/main
  znippy -q refs get app refs/heads/topic || echo 'no such branch'

The exit code is 1 if there is no such reference, or if it is HEAD and names a branch that does not exist.")]
pub struct Args {
    /// The archive
    path: PathBuf,

    /// The full name: HEAD, or refs/...
    name: OsString,
}

/// Prints one line.
pub fn run(args: &Args, output: &mut Output) -> Done {
    let snapshot = open::snapshot(&args.path, output)?;
    let name = BStr::new(args.name.as_bytes());
    match snapshot.resolve_ref(name)? {
        Some(oid) => {
            output.line(oid.to_string())?;
            Ok(Exit::Done)
        }
        None if snapshot.find_ref(name)?.is_some() => Err(exit::no(format!(
            "{}: {name} leads to no object yet",
            snapshot.path().display()
        ))),
        None => Err(exit::no(format!(
            "{}: there is no reference {name}{}",
            snapshot.path().display(),
            hint(name)
        ))),
    }
}

/// Returns what may help somebody who wrote a short name.
fn hint(name: &BStr) -> &'static str {
    if name == "HEAD" || name.starts_with(b"refs/") {
        ""
    } else {
        " (names are full, such as refs/heads/main)"
    }
}
