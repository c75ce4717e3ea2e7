//! `znippy config`: what an archive allows.

use std::{ffi::OsString, os::unix::ffi::OsStrExt, path::PathBuf};

use bstr::{BStr, ByteSlice};
use serde::Serialize;
use znippy::{
    archive::{self, Snapshot, WritePolicy},
    policy::{self, Key, PolicyError},
};

use super::{
    Done, escape, exit,
    exit::Exit,
    git,
    locking::{Locking, configured_durability},
    open,
    output::Output,
};

/// Look at and change what an archive allows
///
/// The settings are stored in the archive. They hold for everyone who pushes to it, by whatever way, with or without
/// --force, and for `znippy refs`. Without an option all settings are listed.
#[derive(clap::Args)]
#[command(after_long_help = "\
Settings:
  znippy.readOnly                true: no reference may be changed
  receive.denyNonFastForwards    true: a branch may only move forward, even with --force
  receive.denyDeletes            true: branches may not be deleted
  receive.maxInputSize           the most bytes of packs in one push, such as 500m; 0: no limit
  znippy.maxObjectSize           the most bytes of one object; 0: no limit
  receive.fsckObjects            true: pushed objects must pass the checks of git fsck, which needs git
  transfer.fsckObjects           the same, where receive.fsckObjects is not set
  receive.fsck.MSG-ID            error, warn or ignore: what these checks make of what is found, see git-fsck(1);
                                 needs git 2.44
  transfer.hideRefs              references that are not listed, not fetched by name and not pushed to
  uploadpack.hideRefs            the same for fetches only
  receive.hideRefs               the same for pushes only

Those that git has too mean what they mean in git, see git-config(1). receive.fsck.skipList is none of them: it names a
file of one machine, and an archive is pushed to from many. Names are compared without regard to case.
The value of a hideRefs setting is the start of names, such as refs/pull; !refs/pull/1 makes an exception of
what an earlier value hides. These three may have several values, of which the last that fits decides.
Whoever can read the file can read everything in it: hidden references are secrets only behind a server.

Examples:
  znippy config app                                           all settings
  znippy config app --set receive.denyNonFastForwards true
  znippy config app --add transfer.hideRefs refs/internal
  znippy config app --unset znippy.readOnly

JSON keys: key, value.

The exit code is 1 if KEY is not set.")]
pub struct Args {
    #[command(flatten)]
    action: Action,

    /// One JSON object a line for each setting
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    locking: Locking,

    /// The archive
    path: PathBuf,
}

/// What to do; at most one of these.
#[derive(clap::Args)]
#[group(multiple = false)]
struct Action {
    /// List all settings, one KEY=VALUE a line
    #[arg(long)]
    list: bool,

    /// Print the values of a setting
    #[arg(long, value_name = "KEY")]
    get: Option<String>,

    /// Give a setting this value in place of those it has
    #[arg(long, num_args = 2, value_names = ["KEY", "VALUE"])]
    set: Option<Vec<OsString>>,

    /// Add a value to a setting that can have several
    #[arg(long, num_args = 2, value_names = ["KEY", "VALUE"])]
    add: Option<Vec<OsString>>,

    /// Take a setting away
    #[arg(long, value_name = "KEY")]
    unset: Option<String>,
}

#[derive(Serialize)]
struct Record<'a> {
    key: &'a str,
    value: &'a str,
}

/// Shows or changes settings.
pub fn run(args: &Args, output: &mut Output) -> Done {
    let snapshot = open::snapshot(&args.path, output)?;
    let Action {
        get, set, add, unset, ..
    } = &args.action;
    match (get, set, add, unset) {
        (Some(name), ..) => {
            known(name)?;
            show(&snapshot, Some(name), args.json, output)
        }
        (_, Some(pair), ..) => {
            let (name, _, value) = key_and_value(pair)?;
            change(&snapshot, &args.locking, output, |policy| policy.set(&name, value))
        }
        (_, _, Some(pair), _) => {
            let (name, key, value) = key_and_value(pair)?;
            if !key.is_list() {
                return Err(exit::usage(format!("{} has one value: use --set", key.name)));
            }
            change(&snapshot, &args.locking, output, |policy| policy.add(&name, value))
        }
        (.., Some(name)) => {
            known(name)?;
            let mut was_set = false;
            change(&snapshot, &args.locking, output, |policy| {
                was_set = policy.unset(name)?;
                Ok(())
            })?;
            match was_set {
                true => Ok(Exit::Done),
                false => Err(exit::no(format!("{}: {name} is not set", args.path.display()))),
            }
        }
        _ => show(&snapshot, None, args.json, output),
    }
}

fn show(snapshot: &Snapshot, key: Option<&str>, json: bool, output: &mut Output) -> Done {
    let policy = snapshot.policy();
    let mut found = key.is_none();
    for (name, value) in policy.entries() {
        if key.is_some_and(|key| !key.eq_ignore_ascii_case(name)) {
            continue;
        }
        found = true;
        let shown = output.name(value).into_owned();
        if json {
            output.json(&Record {
                key: name,
                value: &value.to_str_lossy(),
            })?;
        } else if key.is_some() {
            output.line(shown)?;
        } else {
            output.line([name.as_bytes(), b"=", &shown].concat())?;
        }
    }
    Ok(if found { Exit::Done } else { Exit::No })
}

fn change(
    snapshot: &Snapshot,
    locking: &Locking,
    output: &Output,
    change: impl FnOnce(&mut policy::Policy) -> Result<(), PolicyError>,
) -> Done {
    let mut on_wait = |text: &str| output.note(text);
    let lock = WritePolicy {
        durability: configured_durability()?,
        timeout: locking.timeout()?,
        lock: locking.mode()?,
        on_wait: Some(&mut on_wait),
        ..WritePolicy::default()
    };
    for warning in archive::configure(snapshot.path(), git::committer(), lock, change)? {
        output.warning(&format!("{}: {warning}", snapshot.path().display()));
    }
    Ok(Exit::Done)
}

fn key_and_value(pair: &[OsString]) -> anyhow::Result<(String, &'static Key, &BStr)> {
    let [name, value] = pair else {
        unreachable!("clap takes exactly two values")
    };
    let name = name.to_string_lossy().into_owned();
    let key = known(&name)?;
    Ok((name, key, BStr::new(value.as_bytes())))
}

/// Finds a setting, or says which there are.
fn known(name: &str) -> anyhow::Result<&'static Key> {
    if name.eq_ignore_ascii_case("receive.denyCurrentBranch") {
        return Err(exit::usage(
            "an archive has no work tree that a push could disturb: receive.denyCurrentBranch means nothing here",
        ));
    }
    if name.eq_ignore_ascii_case("receive.fsck.skipList") {
        return Err(exit::usage(
            "receive.fsck.skipList names a file of one machine, and an archive is pushed to from many: set receive.fsck.MSG-ID \
             to warn or ignore what is in the objects",
        ));
    }
    policy::key(name).map_err(|_| {
        let all: Vec<&str> = policy::KEYS.iter().map(|key| key.name).collect();
        let name = escape::text(name.as_bytes());
        exit::usage(format!("there is no setting '{name}' (there are: {})", all.join(", ")))
    })
}
