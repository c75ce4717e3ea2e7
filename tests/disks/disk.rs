//! A file system that passes everything on to a directory, and misbehaves as it is told to.
//!
//! Several mounts of one [`Disk`] are several machines with the same network disk: the locks are its own, so that one machine
//! sees those of the others. What is changed in the directory itself is changed by a machine that nobody asked.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use fuser::{BackgroundSession, Config, MountOption};

use crate::machine::Machine;

/// What becomes of a lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Locks {
    /// It keeps all machines away.
    #[default]
    Kept,
    /// It is said to be taken, and is not.
    Ignored,
    /// There are none.
    Refused(i32),
}

/// How long a machine believes what it saw of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cached {
    /// Until it looks again.
    #[default]
    Never,
    /// Until it is opened again, as NFS does it.
    UntilOpened,
    /// Until it is asked for the truth in so many words.
    Always,
}

/// A call that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    Create,
    Rename,
    Read,
    Write,
    Sync,
}

/// What happens at the `nth` call of a kind from now on, once.
pub enum Event {
    Error(i32),
    /// Another machine does this meanwhile.
    Meanwhile(Box<dyn FnOnce() + Send>),
}

/// How a disk misbehaves. Numbers are those of errors.
#[derive(Debug, Clone, Default)]
pub struct Manners {
    pub locks: Locks,
    pub directory_sync: Option<i32>,
    pub chmod: Option<i32>,
    pub link: Option<i32>,
    /// Renames that must not replace.
    pub exclusive_rename: Option<i32>,
    /// Renames over a file that somebody has open.
    pub rename_over_open: Option<i32>,
    /// No call reads or writes more bytes than this.
    pub at_most: Option<usize>,
    /// Every look at a file finds another inode number.
    pub unstable: bool,
    /// Who has a file open that lost its name gets ESTALE.
    pub stale: bool,
    pub cached: Cached,
}

#[derive(Default)]
pub struct State {
    pub manners: Manners,
    /// Calls until the event, and the event.
    events: HashMap<Call, (usize, Event)>,
    calls: HashMap<Call, usize>,
    /// Who holds which byte of which file: the number of an open file.
    pub locks: HashMap<(u64, u64), u64>,
    pub opened: u64,
    pub seen: u64,
}

/// A directory that several machines mount.
pub struct Disk {
    pub root: PathBuf,
    state: Mutex<State>,
}

/// A mount of a [`Disk`]; it ends with this.
pub struct Mounted {
    _session: BackgroundSession,
}

impl Disk {
    pub fn new(root: PathBuf) -> Arc<Disk> {
        Arc::new(Disk {
            root,
            state: Mutex::default(),
        })
    }

    /// Mounts the disk at a directory.
    pub fn mount(self: &Arc<Disk>, point: &Path) -> io::Result<Mounted> {
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("misbehaving".into()),
            MountOption::Subtype("misbehaving".into()),
        ];
        Ok(Mounted {
            _session: fuser::spawn_mount(Machine::new(self.clone()), point, &config)?,
        })
    }

    /// Makes the disk behave like this from now on.
    pub fn behave(&self, manners: Manners) {
        let mut state = self.state();
        state.manners = manners;
        state.events.clear();
    }

    /// Lets something happen at the `nth` call of a kind from now on, counted from 1.
    pub fn at(&self, call: Call, nth: usize, event: Event) {
        self.state().events.insert(call, (nth, event));
    }

    /// Returns how many calls of a kind there were.
    pub fn count(&self, call: Call) -> usize {
        self.state().calls.get(&call).copied().unwrap_or(0)
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn manners(&self) -> Manners {
        self.state().manners.clone()
    }

    /// Counts a call, and lets what is to happen at it happen.
    pub fn called(&self, call: Call) -> io::Result<()> {
        let mut state = self.state();
        *state.calls.entry(call).or_default() += 1;
        let Some((left, _)) = state.events.get_mut(&call) else {
            return Ok(());
        };
        *left -= 1;
        if *left > 0 {
            return Ok(());
        }
        let event = state.events.remove(&call).map(|(_, event)| event);
        drop(state);
        match event {
            Some(Event::Error(number)) => Err(io::Error::from_raw_os_error(number)),
            Some(Event::Meanwhile(act)) => {
                act();
                Ok(())
            }
            None => Ok(()),
        }
    }
}
