//! `git-remote-znippy`: what git runs for a URL that begins with `znippy::`.
//!
//! git starts it as `git-remote-znippy <remote> <address>` and talks to it over standard input and output
//! (gitremote-helpers(7)). Nothing but that protocol goes to standard output. Exit codes: 0, or 128 after a `fatal:`
//! message on standard error, as for git's own commands.

mod bounds;
mod catch_up;
mod cleanup;
mod client;
mod config;
mod connect;
mod dialogue;
mod fetch;
mod haves;
mod heal;
mod install;
mod judge;
mod listing;
mod objects;
mod options;
mod plan;
mod prove;
mod push;
mod reach;
mod remote;
mod report;
mod request;
mod spool;
mod submit;
mod ui;

use std::{ffi::OsString, os::unix::ffi::OsStringExt, process::ExitCode};

use bstr::BString;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os()
        .skip(1)
        .map(|text| BString::from(OsString::into_vec(text)));
    let (Some(name), address) = (arguments.next(), arguments.next()) else {
        ui::fatal(&anyhow::anyhow!(
            "usage: git-remote-znippy <remote> <address> (git runs it for znippy:: URLs)"
        ));
        return ExitCode::from(128);
    };
    let result = cleanup::install_signal_handlers().and_then(|()| dialogue::run(name, address));
    cleanup::everything();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // git went away: it has its own reasons, and nobody is left to tell.
        Err(error) if ui::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            ui::fatal(&error);
            ExitCode::from(128)
        }
    }
}
