//! How to wait for other writers and keep them away, for the verbs that write.

use std::time::Duration;

use znippy::{
    archive::{Durability, WritePolicy},
    media::LockMode,
};

use super::{exit, git};

/// The longest wait where nothing else was asked for, in seconds.
const DEFAULT_WAIT: u64 = 60;

#[derive(clap::Args)]
pub struct Locking {
    /// How long to wait for another process that is writing to the archive but makes no progress [default: git's setting znippy.lockTimeout, else 60]
    #[arg(long = "wait", value_name = "SECONDS")]
    wait_seconds: Option<u64>,

    /// How to keep other writers away: os, local or file
    ///
    /// os: by a lock, on disks where that is known to reach all machines. local: by the same lock on any disk, because no
    /// other machine writes to the archive. file: by a lock file beside the archive (see znippy-unlock(1)), which all writers
    /// must then use. Without it: git's setting znippy.lock, else os.
    #[arg(long = "lock", value_name = "MODE", value_parser = ["os", "local", "file"])]
    lock: Option<String>,
}

impl Locking {
    /// Returns how long to wait.
    pub fn timeout(&self) -> anyhow::Result<Duration> {
        match self.wait_seconds {
            Some(seconds) => Ok(Duration::from_secs(seconds)),
            None => configured_timeout(),
        }
    }

    /// Returns how to keep other writers away.
    pub fn mode(&self) -> anyhow::Result<LockMode> {
        match &self.lock {
            Some(name) => Ok(name.parse().expect("clap let nothing else through")),
            None => configured_mode(),
        }
    }
}

/// Returns how git's settings want an archive to be written to, by verbs that have no options for that.
pub fn configured<'a>() -> anyhow::Result<WritePolicy<'a>> {
    Ok(WritePolicy {
        durability: configured_durability()?,
        timeout: configured_timeout()?,
        lock: configured_mode()?,
        ..WritePolicy::default()
    })
}

/// Returns what git's setting says of when a change counts as done.
pub fn configured_durability() -> anyhow::Result<Durability> {
    match git::config("znippy.durability") {
        Some(name) => name
            .parse()
            .map_err(|why| exit::usage(format!("znippy.durability: {why}"))),
        None => Ok(Durability::default()),
    }
}

/// Returns what git's setting says of how long to wait.
fn configured_timeout() -> anyhow::Result<Duration> {
    match git::config("znippy.lockTimeout") {
        Some(text) => match text.parse() {
            Ok(seconds) => Ok(Duration::from_secs(seconds)),
            Err(_) => Err(exit::usage(format!(
                "znippy.lockTimeout: '{text}' is no number of seconds"
            ))),
        },
        None => Ok(Duration::from_secs(DEFAULT_WAIT)),
    }
}

/// Returns what git's setting says of how to keep other writers away.
fn configured_mode() -> anyhow::Result<LockMode> {
    match git::config("znippy.lock") {
        Some(name) => name.parse().map_err(|why| exit::usage(format!("znippy.lock: {why}"))),
        None => Ok(LockMode::default()),
    }
}
