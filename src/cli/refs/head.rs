//! `znippy refs head`.

use std::{ffi::OsString, os::unix::ffi::OsStrExt, path::PathBuf};

use bstr::{BStr, ByteSlice};
use znippy::refs::{Expected, RefEdit, Target};

use super::{Writing, apply};
use crate::cli::{Done, exit, exit::Exit, init::branch_ref, open, output::Output};

/// Show or set the branch that HEAD names: the one a clone checks out
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  znippy refs head app             refs/heads/main
  znippy refs head app trunk       clones check out trunk from now on

HEAD may name a branch that does not exist yet; it is shown with exit code 0 all the same.")]
pub struct Args {
    #[command(flatten)]
    writing: Writing,

    /// The archive
    path: PathBuf,

    /// The new branch: trunk, or refs/heads/trunk
    #[arg(value_name = "NEW")]
    new: Option<OsString>,
}

/// Prints HEAD's target, or changes it.
pub fn run(args: &Args, output: &mut Output) -> Done {
    let snapshot = open::snapshot(&args.path, output)?;
    let shown = snapshot.path().display();
    let Some(new) = &args.new else {
        return match snapshot.find_ref("HEAD".into())? {
            Some(Target::Symbolic(name)) => {
                let name = output.name(&name).into_owned();
                output.line(name)?;
                Ok(Exit::Done)
            }
            Some(Target::Object { oid, .. }) => {
                output.line(oid.to_string())?;
                Ok(Exit::Done)
            }
            None => Err(exit::no(format!("{shown}: there is no HEAD"))),
        };
    };
    let branch = branch_ref(new.as_bytes())?;
    if snapshot.find_ref(branch.as_bstr())?.is_none() {
        output.warning(&format!(
            "{shown}: there is no branch {branch} yet; until there is, clones check out nothing"
        ));
    }
    let edit = RefEdit {
        name: BStr::new("HEAD").to_owned(),
        expected: Expected::Any,
        new: Some(Target::Symbolic(branch)),
        rewinds: false,
    };
    let results = apply::commit(&snapshot, vec![edit], &args.writing, false, output)?;
    apply::refuse(snapshot.path(), &["HEAD".into()], &results)?;
    Ok(Exit::Done)
}
