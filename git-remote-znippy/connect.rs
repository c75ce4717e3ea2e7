//! `connect git-upload-pack`: git talks to a server for what it does not do itself with `list` and `fetch`.
//!
//! With `fetch`, packs go into the client's store as they are. With a server, git writes down itself where a history is cut
//! (`.git/shallow`) and what was left out (`.promisor`), learns the name of a branch that is not born yet, and need not see
//! the references to get an object that it knows by name. So the server is for these, and `fetch` for all else.

use std::io::{Read, Write};

use anyhow::Result;
use bstr::{BStr, ByteSlice};
use znippy::{
    archive::Snapshot,
    refs::Target,
    wire::{
        Version, WireError,
        upload::{self, Wants},
    },
};

use crate::{
    client::Client,
    config::{Config, Pending},
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
pub fn is_better(options: &Options, snapshot: &Snapshot) -> Result<bool> {
    Ok(options.is_partial() || client_is_partial() || head_is_unborn(snapshot)?)
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
    input: &mut dyn Read,
    output: &mut dyn Write,
) -> Result<()> {
    let config = Pending::start()?.finish()?;
    if remote.is_relative() {
        match remote.is_being_cloned(&config) {
            true => remote.make_absolute(&config)?,
            false => remote.refuse_relative(&config)?,
        }
    }
    remote.check_identity(&config, &snapshot.uuid())?;
    output.write_all(b"\n").map_err(|_| GitWentAway)?;
    let mut remember = || remote.remember(&config, &snapshot.uuid(), options.voice);
    let served = upload::serve(
        snapshot,
        input,
        output,
        upload::Options {
            version: version(&config),
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
