//! `znippy refs cas`: compare and swap.

use std::{ffi::OsString, os::unix::ffi::OsStrExt, path::PathBuf};

use bstr::BStr;

use super::{Writing, grammar::Change, plan::Plan};
use crate::cli::{Done, exit, exit::Exit, open, output::Output};

/// Change one reference if it still has the value it had
///
/// Compares the reference with OLD and sets it to NEW as one step, so that of several writers exactly one wins.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  znippy refs cas app refs/heads/main $old $new            move main, unless somebody else did
  znippy refs cas app refs/locks/nightly '' $new           create; exit code 1 if it exists
  znippy refs cas app refs/heads/done $old 0000000000000000000000000000000000000000     delete

The object NEW must be in the archive already, and a commit if NAME is a branch. Any new value is accepted, also one
that is no descendant of OLD. The exit code is 1 if the reference does not hold OLD; then nothing was changed.")]
pub struct Args {
    #[command(flatten)]
    writing: Writing,

    /// Change a symbolic reference itself, not the reference it names
    #[arg(long)]
    no_deref: bool,

    /// The archive
    path: PathBuf,

    /// The full name: HEAD, or refs/...
    name: OsString,

    /// What the reference must hold: an object id, or a full name for the object it leads to; all zeros or empty: it must
    /// not exist
    old: OsString,

    /// What it shall hold: an object id, or a full name for the object it leads to; all zeros: delete it
    new: OsString,
}

/// Applies one edit.
pub fn run(args: &Args, output: &mut Output) -> Done {
    if args.new.is_empty() {
        // An unset shell variable must not delete a reference.
        return Err(exit::usage(
            "NEW is empty; to delete the reference give an id of all zeros",
        ));
    }
    let field = |text: &OsString| BStr::new(text.as_bytes()).to_owned();
    let mut plan = Plan::new(open::snapshot(&args.path, output)?);
    let change = Change::Update {
        name: field(&args.name),
        new: field(&args.new),
        old: Some(field(&args.old)),
    };
    plan.add(change, !args.no_deref)?;
    plan.commit(&args.writing, output)?;
    Ok(Exit::Done)
}
