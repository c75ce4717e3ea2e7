//! A gc that is told to stop removes the file that it was writing.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use anyhow::Context as _;
use signal_hook::{consts, iterator::Signals, low_level};

/// What is being written.
static TEMPORARY: Mutex<Option<PathBuf>> = Mutex::new(None);

fn temporary() -> MutexGuard<'static, Option<PathBuf>> {
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what is being written when a signal asks the program to end, and then lets the signal do what it does.
pub fn install() -> anyhow::Result<()> {
    let mut signals =
        Signals::new([consts::SIGINT, consts::SIGTERM, consts::SIGHUP]).context("cannot watch for signals")?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // Stays locked until the process is gone.
            let temporary = temporary();
            if let Some(path) = &*temporary {
                // What cannot be removed now is removed by the next gc.
                let _ = std::fs::remove_file(path);
            }
            let _ = low_level::emulate_default_handler(signal);
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Notes that `path` is ours and unfinished.
pub fn remember(path: &Path) {
    let mut temporary = temporary();
    if temporary.is_none() {
        *temporary = Some(path.into());
    }
}

/// Notes that nothing is unfinished any more.
pub fn forget() {
    *temporary() = None;
}
