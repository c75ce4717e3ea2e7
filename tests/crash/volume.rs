//! A disk in memory that records what is done to it, and fails where it is told to.
//!
//! It has one directory. A file is known by its number, as an inode is: it may have no name, and a name may come to mean
//! another file.

use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, MutexGuard},
};

/// A file's number.
pub type Ino = usize;

/// One thing that was done to the disk, in the order in which it was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A file came to be, without a name.
    Create {
        ino: Ino,
    },
    Write {
        ino: Ino,
        at: u64,
        bytes: Vec<u8>,
    },
    SetLen {
        ino: Ino,
        len: u64,
    },
    /// A sync of a file that returned success.
    Sync {
        ino: Ino,
    },
    /// A sync that failed: the cache holds the written bytes to be clean from now on, whether they reached the disk or not.
    FailedSync {
        ino: Ino,
    },
    /// A name came to mean a file, or nothing.
    Name {
        name: String,
        ino: Option<Ino>,
    },
    /// A sync of the directory.
    SyncDir,
    /// The caller was told that what it asked for is done and durable.
    Acknowledged {
        state: usize,
    },
}

/// A kind of call, as faults are planned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    Open,
    Len,
    Read,
    Write,
    SetLen,
    Sync,
    Create,
    Link,
    Rename,
    SyncDir,
    Identity,
    Lock,
}

/// What happens instead of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with this error number and does nothing.
    Error(i32),
    /// A write stores its first half and then fails with this error number.
    Half(i32),
}

/// Faults that are still to come.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub call: Call,
    /// Which call of the kind it hits, counted from 1.
    pub nth: u64,
    pub fault: Fault,
    /// It hits every later call of the kind too: a disk that stays broken, or full.
    pub stays: bool,
}

/// A file as the running system sees it.
#[derive(Debug, Clone, Default)]
struct Inode {
    bytes: Vec<u8>,
    links: u64,
}

#[derive(Debug, Default)]
struct State {
    files: Vec<Inode>,
    names: BTreeMap<String, Ino>,
    /// Who holds which lock: the number of an open file.
    locks: BTreeMap<(Ino, u64), u64>,
    opened: u64,
    events: Vec<Event>,
    calls: BTreeMap<Call, u64>,
    plan: Option<Plan>,
    /// The number that the next look at a file adds to its own, where numbers are not stable.
    instability: Option<u64>,
    /// Whether other machines may write to it.
    is_on_network: bool,
}

/// The disk.
#[derive(Debug, Default)]
pub struct Volume {
    state: Mutex<State>,
}

/// What a disk holds while nothing runs: names, and the bytes that they lead to.
pub type Image = BTreeMap<String, Vec<u8>>;

impl Volume {
    /// Makes a disk from what is on it. All of it is durable.
    pub fn new(image: &Image) -> Volume {
        let mut state = State::default();
        for (name, bytes) in image {
            state.names.insert(name.clone(), state.files.len());
            state.files.push(Inode {
                bytes: bytes.clone(),
                links: 1,
            });
        }
        Volume {
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Counts a call and fails it where a fault is planned for it.
    fn call(state: &mut State, call: Call) -> Result<(), Fault> {
        let count = state.calls.entry(call).or_default();
        *count += 1;
        match state.plan {
            Some(plan) if plan.call == call && (plan.nth == *count || plan.stays && plan.nth < *count) => {
                Err(plan.fault)
            }
            _ => Ok(()),
        }
    }

    fn simple(state: &mut State, call: Call) -> io::Result<()> {
        Self::call(state, call).map_err(|fault| match fault {
            Fault::Error(number) | Fault::Half(number) => io::Error::from_raw_os_error(number),
        })
    }

    /// Plans a fault and counts calls from here on.
    pub fn fail(&self, plan: Option<Plan>) {
        let mut state = self.state();
        state.plan = plan;
        state.calls.clear();
    }

    /// Makes files have another number each time that somebody asks.
    pub fn unstable_ids(&self, unstable: bool) {
        self.state().instability = unstable.then_some(1);
    }

    /// Says whether other machines may write to the disk.
    pub fn on_network(&self, is_on_network: bool) {
        self.state().is_on_network = is_on_network;
    }

    pub fn is_on_network(&self) -> bool {
        self.state().is_on_network
    }

    /// Returns the number by which a file is known now.
    pub fn id(&self, ino: Ino) -> u64 {
        let mut state = self.state();
        match &mut state.instability {
            None => ino as u64,
            Some(step) => {
                *step += 1;
                ino as u64 + (*step << 32)
            }
        }
    }

    /// Returns how many calls of each kind there were since faults were planned.
    pub fn calls(&self) -> BTreeMap<Call, u64> {
        self.state().calls.clone()
    }

    /// Notes that the caller was told of a durable state.
    pub fn acknowledge(&self, state: usize) {
        self.state().events.push(Event::Acknowledged { state });
    }

    /// Returns what was done since the disk was made.
    pub fn events(&self) -> Vec<Event> {
        self.state().events.clone()
    }

    /// Returns what a process would see now: the image after a crash of all processes but not of the machine.
    pub fn visible(&self) -> Image {
        let state = self.state();
        let bytes = |(name, ino): (&String, &Ino)| (name.clone(), state.files[*ino].bytes.clone());
        state.names.iter().map(bytes).collect()
    }

    pub fn open(&self, name: &str) -> io::Result<Ino> {
        let mut state = self.state();
        Self::simple(&mut state, Call::Open)?;
        state
            .names
            .get(name)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub fn create(&self) -> io::Result<Ino> {
        let mut state = self.state();
        Self::simple(&mut state, Call::Create)?;
        let ino = state.files.len();
        state.files.push(Inode::default());
        state.events.push(Event::Create { ino });
        Ok(ino)
    }

    pub fn link(&self, ino: Ino, name: &str) -> io::Result<()> {
        let mut state = self.state();
        Self::simple(&mut state, Call::Link)?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Self::set_name(&mut state, name, Some(ino));
        Ok(())
    }

    /// Makes `to` mean what `from` means, and `from` nothing.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        Self::simple(&mut state, Call::Rename)?;
        let ino = *state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        Self::set_name(&mut state, to, Some(ino));
        Self::set_name(&mut state, from, None);
        Ok(())
    }

    pub fn unlink(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        Self::set_name(&mut state, name, None);
        Ok(())
    }

    fn set_name(state: &mut State, name: &str, ino: Option<Ino>) {
        let before = match ino {
            Some(ino) => state.names.insert(name.into(), ino),
            None => state.names.remove(name),
        };
        if let Some(before) = before {
            state.files[before].links -= 1;
        }
        if let Some(ino) = ino {
            state.files[ino].links += 1;
        }
        state.events.push(Event::Name { name: name.into(), ino });
    }

    pub fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        Self::simple(&mut state, Call::SyncDir)?;
        state.events.push(Event::SyncDir);
        Ok(())
    }

    /// Returns what a name means now.
    pub fn named(&self, name: &str) -> io::Result<Option<Ino>> {
        let mut state = self.state();
        Self::simple(&mut state, Call::Identity)?;
        Ok(state.names.get(name).copied())
    }

    /// Returns how many names a file has.
    pub fn links(&self, ino: Ino) -> u64 {
        self.state().files[ino].links
    }

    /// Returns a number for a file that is being opened: locks belong to it.
    pub fn handle(&self) -> u64 {
        let mut state = self.state();
        state.opened += 1;
        state.opened
    }

    pub fn try_lock(&self, ino: Ino, byte: u64, handle: u64) -> io::Result<bool> {
        let mut state = self.state();
        Self::simple(&mut state, Call::Lock)?;
        Ok(*state.locks.entry((ino, byte)).or_insert(handle) == handle)
    }

    pub fn unlock(&self, byte: u64, handle: u64) {
        self.state()
            .locks
            .retain(|(_, of), holder| (*of, *holder) != (byte, handle));
    }

    /// Gives back all locks of an open file, as closing it does.
    pub fn close(&self, handle: u64) {
        self.state().locks.retain(|_, holder| *holder != handle);
    }

    pub fn is_locked(&self, ino: Ino, byte: u64, handle: u64) -> bool {
        self.state()
            .locks
            .get(&(ino, byte))
            .is_some_and(|holder| *holder != handle)
    }

    pub fn len(&self, ino: Ino) -> io::Result<u64> {
        let mut state = self.state();
        Self::simple(&mut state, Call::Len)?;
        Ok(state.files[ino].bytes.len() as u64)
    }

    pub fn read(&self, ino: Ino, at: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut state = self.state();
        Self::simple(&mut state, Call::Read)?;
        let source = state.files[ino]
            .bytes
            .get(at as usize..)
            .and_then(|bytes| bytes.get(..buf.len()));
        buf.copy_from_slice(source.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    pub fn write(&self, ino: Ino, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let (stored, outcome) = match Self::call(&mut state, Call::Write) {
            Ok(()) => (bytes, Ok(())),
            Err(Fault::Error(number)) => return Err(io::Error::from_raw_os_error(number)),
            Err(Fault::Half(number)) => (&bytes[..bytes.len() / 2], Err(io::Error::from_raw_os_error(number))),
        };
        let file = &mut state.files[ino].bytes;
        let end = at as usize + stored.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[at as usize..end].copy_from_slice(stored);
        state.events.push(Event::Write {
            ino,
            at,
            bytes: stored.to_vec(),
        });
        outcome
    }

    pub fn set_len(&self, ino: Ino, len: u64) -> io::Result<()> {
        let mut state = self.state();
        Self::simple(&mut state, Call::SetLen)?;
        state.files[ino].bytes.resize(len as usize, 0);
        state.events.push(Event::SetLen { ino, len });
        Ok(())
    }

    pub fn sync(&self, ino: Ino) -> io::Result<()> {
        let mut state = self.state();
        let outcome = Self::simple(&mut state, Call::Sync);
        let event = match outcome {
            Ok(()) => Event::Sync { ino },
            Err(_) => Event::FailedSync { ino },
        };
        state.events.push(event);
        outcome
    }
}
