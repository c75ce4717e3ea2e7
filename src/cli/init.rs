//! `znippy init`: a new, empty archive.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf};

use bstr::{BString, ByteSlice};
use znippy::archive;

use super::{Done, escape, exit, exit::Exit, git, open, output::Output};

/// Create an empty archive
///
/// A push creates an archive too, so this is needed only to choose the object format or HEAD beforehand, or to have
/// something to clone before the first push. The file must not exist, its directory must.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  znippy init /mnt/nas/app                           an empty archive /mnt/nas/app.znippy
  znippy init --object-format=sha256 -b trunk app    for a sha256 repository with a branch trunk

Environment:
  GIT_DEFAULT_HASH    the object format where no option names one, as for `git init`")]
pub struct Args {
    /// The hash function of the object ids; a repository can only be pushed to an archive of its own format
    ///
    /// Without it, as with `git init`: what GIT_DEFAULT_HASH names, else git's setting init.defaultObjectFormat, else sha1.
    #[arg(long, value_name = "FORMAT", value_parser = ["sha1", "sha256"])]
    object_format: Option<String>,

    /// The branch that HEAD will name
    ///
    /// Without it: git's setting init.defaultBranch, else main.
    #[arg(short = 'b', long, value_name = "BRANCH")]
    initial_branch: Option<std::ffi::OsString>,

    /// The file to create; .znippy is added where it is missing
    path: PathBuf,
}

/// Creates the archive and says where it is.
pub fn run(args: &Args, output: &mut Output) -> Done {
    let format = match &args.object_format {
        Some(format) => object_format(format.as_ref(), "--object-format")?,
        None => default_format()?,
    };
    let head = match &args.initial_branch {
        Some(branch) => branch_ref(branch.as_encoded_bytes())?,
        None => branch_ref(
            git::config("init.defaultBranch")
                .unwrap_or_else(|| "main".into())
                .as_bytes(),
        )?,
    };
    let path = open::new_path(&args.path)?;
    archive::create(&path, format, head.as_bstr())?;
    output.note(&format!("created an empty {format} archive at {}", path.display()));
    Ok(Exit::Done)
}

/// Returns the hash function of a new repository here: the environment before the configuration, as `git init` has it.
fn default_format() -> anyhow::Result<gix_hash::Kind> {
    const VARIABLE: &str = "GIT_DEFAULT_HASH";
    const SETTING: &str = "init.defaultObjectFormat";
    if let Some(name) = std::env::var_os(VARIABLE) {
        return object_format(&name, VARIABLE);
    }
    git::config(SETTING).map_or(Ok(gix_hash::Kind::Sha1), |name| object_format(name.as_ref(), SETTING))
}

/// Returns the hash function called `name`, which stands in `place`. As with git, case counts.
fn object_format(name: &OsStr, place: &str) -> anyhow::Result<gix_hash::Kind> {
    match name.as_bytes() {
        b"sha1" => Ok(gix_hash::Kind::Sha1),
        b"sha256" => Ok(gix_hash::Kind::Sha256),
        _ => Err(exit::usage(format!(
            "{place}: '{}' is not known (use --object-format=sha1 or sha256)",
            escape::text(name.as_bytes())
        ))),
    }
}

/// Returns the full name of the branch `name`, which may be the full name already.
pub fn branch_ref(name: &[u8]) -> anyhow::Result<BString> {
    let full: BString = if name.starts_with(b"refs/heads/") {
        name.into()
    } else {
        [b"refs/heads/", name].concat().into()
    };
    let short = full["refs/heads/".len()..].as_bstr();
    if short == "HEAD" || short.starts_with(b"-") || gix_validate::reference::name(full.as_bstr()).is_err() {
        return Err(exit::usage(format!(
            "'{}' is not a valid branch name",
            escape::text(name)
        )));
    }
    Ok(full)
}

#[cfg(test)]
mod tests {
    use super::branch_ref;

    #[test]
    fn branches_are_named_in_full_or_in_short() {
        assert_eq!(branch_ref(b"main").unwrap(), "refs/heads/main");
        assert_eq!(branch_ref(b"refs/heads/a/b").unwrap(), "refs/heads/a/b");
        assert_eq!(branch_ref(b"refs/tags/x").unwrap(), "refs/heads/refs/tags/x");
        for bad in [
            &b""[..],
            b"HEAD",
            b"-x",
            b"a..b",
            b"a b",
            b"a.lock",
            b"/a",
            b"a/",
            b"\xff\x01",
        ] {
            assert!(branch_ref(bad).is_err(), "{bad:?}");
        }
    }
}
