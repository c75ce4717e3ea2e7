//! Temporary files and child processes, so that an interrupt leaves nothing behind.
//!
//! What is registered here is removed when its guard is dropped, when the program ends, and on SIGINT, SIGTERM and
//! SIGHUP. Only `kill -9` leaves something: names in the client's store that `git gc` sweeps, and the spool directory, which the next
//! push sweeps.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::{consts, iterator::Signals, low_level};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    File(PathBuf),
    Directory(PathBuf),
    Child(u32),
}

static ITEMS: Mutex<Vec<Item>> = Mutex::new(Vec::new());

fn items() -> MutexGuard<'static, Vec<Item>> {
    ITEMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what is registered when a signal asks the program to end, and then lets the signal do what it does.
pub fn install_signal_handlers() -> Result<()> {
    let mut signals =
        Signals::new([consts::SIGINT, consts::SIGTERM, consts::SIGHUP]).context("cannot watch for signals")?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // The list stays locked until the process is gone, so that nothing new is created after this.
            let mut items = items();
            remove_all(&mut items);
            let _ = low_level::emulate_default_handler(signal);
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Removes everything that is still registered.
pub fn everything() {
    remove_all(&mut items());
}

fn remove_all(items: &mut Vec<Item>) {
    // The newest first: children before the files they write, files before their directory.
    while let Some(item) = items.pop() {
        remove(&item);
    }
}

/// What cannot be removed is not worth a message beside the reason why the program ends.
fn remove(item: &Item) {
    match item {
        Item::File(path) => drop(std::fs::remove_file(path)),
        Item::Directory(path) => drop(std::fs::remove_dir_all(path)),
        Item::Child(pid) => {
            if let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
    }
}

/// Keeps something registered. Dropping it removes the thing.
#[must_use]
#[derive(Debug)]
pub struct Guard(Option<Item>);

impl Guard {
    /// Registers a file, runs `create` to make it, and takes it off the list where that fails: then it is not ours.
    pub fn file<T>(path: &Path, create: impl FnOnce(&Path) -> std::io::Result<T>) -> std::io::Result<(Guard, T)> {
        Self::created(Item::File(path.to_owned()), || create(path))
    }

    /// The same for a directory with everything in it.
    pub fn directory(path: &Path, create: impl FnOnce(&Path) -> std::io::Result<()>) -> std::io::Result<Guard> {
        Ok(Self::created(Item::Directory(path.to_owned()), || create(path))?.0)
    }

    /// Starts a child process that ends with this one.
    pub fn child(command: &mut std::process::Command) -> std::io::Result<(Guard, std::process::Child)> {
        let mut items = items();
        let child = command.spawn()?;
        let item = Item::Child(child.id());
        items.push(item.clone());
        Ok((Guard(Some(item)), child))
    }

    fn created<T>(item: Item, create: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<(Guard, T)> {
        // Created under the lock: a signal comes either before both steps or after both.
        let mut items = items();
        let made = create()?;
        items.push(item.clone());
        Ok((Guard(Some(item)), made))
    }

    /// Gives the thing up without removing it: a finished child, or a file that is somebody else's business now.
    pub fn release(mut self) {
        if let Some(item) = self.0.take() {
            items().retain(|other| *other != item);
        }
    }

    /// Renames the file to `to`, which then is no longer ours to remove.
    pub fn rename(mut self, to: &Path) -> std::io::Result<()> {
        let Some(Item::File(from)) = self.0.clone() else {
            unreachable!("only files are renamed")
        };
        let mut items = items();
        std::fs::rename(&from, to)?;
        items.retain(|other| *other != Item::File(from.clone()));
        self.0 = None;
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(item) = self.0.take() {
            let mut items = items();
            // Not on the list any more: somebody else removed it.
            if let Some(at) = items.iter().position(|other| *other == item) {
                items.remove(at);
                remove(&item);
            }
        }
    }
}
