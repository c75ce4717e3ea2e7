//! `connect git-upload-pack`: git talks to a server for what it does not do itself with `list` and `fetch`.
//!
//! With `fetch`, packs go into the client's store as they are. With a server, git writes down itself where a history is cut
//! (`.git/shallow`), learns the name of a branch that is not born yet, and need not see the references to get an object
//! that it knows by name. So the server is for these, and `fetch` for all else. A new partial clone is no reason for a
//! server, unless its filter depends on what is in the repository, or git is to check what it gets: to index the pack takes
//! git most of the time, and one file beside it says what it is.

use std::io::{Read, Write};

use anyhow::Result;
use bstr::{BStr, ByteSlice};
use znippy::{
    archive::Snapshot,
    pack::filter::Filter,
    refs::Target,
    wire::{
        Version, WireError,
        upload::{self, Wants},
    },
};

use crate::{
    client::Client,
    config::{Config, get_or_read},
    install::strictness,
    options::Options,
    remote::Remote,
    ui::GitWentAway,
};

/// The service of a fetch.
pub const UPLOAD_PACK: &str = "git-upload-pack";

/// Returns whether git had better talk to a server: for what it asks, for what the client is, or for what the archive is.
///
/// # Errors
/// Fails where the archive cannot be read.
pub fn is_better(options: &Options, filter: Option<&Filter>, snapshot: &Snapshot) -> Result<bool> {
    Ok(options.is_cut() || filter.is_none() || client_is_partial() || head_is_unborn(snapshot)?)
}

/// Returns what a fetch leaves out, or `None` where a server had better look after that. The configuration is read where it matters.
///
/// # Errors
/// Fails where the configuration cannot be read or is malformed.
pub fn own_filter(options: &Options, config: &mut Option<Config>) -> Result<Option<Filter>> {
    let Some(spec) = &options.filter else {
        return Ok(Some(Filter::default()));
    };
    // What is wrong with it, the server tells.
    let parsed = Filter::parse(spec.as_bstr(), &mut |_| Err("sparse".into()));
    let Ok(filter) = parsed else { return Ok(None) };
    let is_checked = strictness(get_or_read(config)?, &|_| true)?.is_some();
    Ok((!is_checked).then_some(filter))
}

/// Returns whether the client lacks a part of its history or of its objects. A glance at its files: ls-remote pays for it too.
fn client_is_partial() -> bool {
    // There may be no repository, which is fine for ls-remote.
    Client::from_environment().is_ok_and(|client| client.is_shallow() || client.may_be_partial())
}

/// Returns whether HEAD names a branch that does not exist, which a listing cannot say.
fn head_is_unborn(snapshot: &Snapshot) -> Result<bool> {
    match snapshot.find_ref("HEAD".into())? {
        Some(Target::Symbolic(to)) => Ok(snapshot.resolve_ref(to.as_bstr())?.is_none()),
        _ => Ok(false),
    }
}

/// Takes over: serves git from `snapshot` until it is done.
///
/// # Errors
/// Fails where the remote is not what it was, and where the conversation does: git was told why as far as possible.
pub fn serve(
    remote: &Remote,
    options: &Options,
    snapshot: &Snapshot,
    config: &mut Option<Config>,
    input: &mut dyn Read,
    output: &mut dyn Write,
) -> Result<()> {
    let config = get_or_read(config)?;
    if remote.is_relative() {
        match remote.is_being_cloned(config) {
            true => remote.make_absolute(config)?,
            false => remote.refuse_relative(config)?,
        }
    }
    remote.check_identity(config, &snapshot.uuid())?;
    output.write_all(b"\n").map_err(|_| GitWentAway)?;
    let mut remember = || remote.remember(config, &snapshot.uuid(), options.voice);
    let served = upload::serve(
        snapshot,
        input,
        output,
        upload::Options {
            version: version(config),
            // Who runs this can read the file.
            wants: Wants::Stored,
            before_pack: Some(&mut remember),
            ..Default::default()
        },
    );
    match served {
        Ok(()) | Err(WireError::HungUp) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the version of the protocol that the user wants: git does not say, but takes what comes.
fn version(config: &Config) -> Version {
    match config.get("protocol.version").map(|version| version.as_bytes()) {
        Some(b"0") => Version::V0,
        Some(b"1") => Version::V1,
        _ => Version::V2,
    }
}

/// Returns whether `service` is one that a server is there for.
pub fn is_served(service: &BStr) -> bool {
    service == UPLOAD_PACK
}
