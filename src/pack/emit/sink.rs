//! Where the new pack goes: written and hashed at once.

use std::{
    io::{self, Write},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::JoinHandle,
};

use gix_hash::{Hasher, ObjectId, hasher};

use crate::error::{Error, Result};

/// Writes are gathered to so many bytes.
const CAPACITY: usize = 256 * 1024;
/// After so many bytes, a second thread does the hashing: it takes as long as all the rest.
const THREAD_FROM: u64 = 4 << 20;
/// Gathered writes that may wait for the hashing thread.
const WAITING: usize = 4;

pub(super) struct Sink<'o> {
    out: &'o mut dyn Write,
    hashing: Hashing,
    gathered: Vec<u8>,
    passed: u64,
}

enum Hashing {
    Here(Hasher),
    There {
        full: SyncSender<Vec<u8>>,
        empty: Receiver<Vec<u8>>,
        thread: JoinHandle<Hasher>,
    },
}

impl<'o> Sink<'o> {
    pub fn new(out: &'o mut dyn Write, format: gix_hash::Kind) -> Self {
        Sink {
            out,
            hashing: Hashing::Here(hasher(format)),
            gathered: Vec::with_capacity(CAPACITY),
            passed: 0,
        }
    }

    /// Writes `bytes`, at the latest when the pack is finished.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(CAPACITY - self.gathered.len()));
            self.gathered.extend_from_slice(part);
            bytes = rest;
            if self.gathered.len() == CAPACITY {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes up to `most` bytes that `read` puts into the buffer it is given, and returns how many.
    pub fn write_from(&mut self, most: u64, read: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<u64> {
        let (start, room) = (self.gathered.len(), CAPACITY - self.gathered.len());
        let len = most.min(room as u64);
        self.gathered.resize(start + len as usize, 0);
        read(&mut self.gathered[start..])?;
        if self.gathered.len() == CAPACITY {
            self.flush()?;
        }
        Ok(len)
    }

    fn flush(&mut self) -> Result<()> {
        self.out.write_all(&self.gathered).map_err(cannot_write)?;
        // A buffer that comes back from the thread is full: it is emptied below.
        self.passed += self.gathered.len() as u64;
        match &mut self.hashing {
            Hashing::Here(hasher) => {
                hasher.update(&self.gathered);
                if self.passed >= THREAD_FROM
                    && std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
                    && let Some(there) = Hashing::in_a_thread(hasher.clone())
                {
                    self.hashing = there;
                }
            }
            Hashing::There { full, empty, .. } => {
                let next = empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(CAPACITY));
                full.send(std::mem::replace(&mut self.gathered, next))
                    .expect("the thread ends when this sender does");
            }
        }
        self.gathered.clear();
        Ok(())
    }

    /// Writes what is gathered and returns the hash of all that was written.
    pub fn hash(&mut self) -> Result<ObjectId> {
        self.flush()?;
        let done = Hashing::Here(hasher(gix_hash::Kind::Sha1));
        let hasher = match std::mem::replace(&mut self.hashing, done) {
            Hashing::Here(hasher) => hasher,
            Hashing::There { full, thread, .. } => {
                drop(full);
                thread.join().expect("hashing does not panic")
            }
        };
        hasher
            .try_finalize()
            .map_err(|err| Error::Invalid(format!("the pack cannot be hashed: {err}")))
    }

    /// Writes the trailer and returns the number of all bytes.
    pub fn finish(self, trailer: &ObjectId) -> Result<u64> {
        self.out
            .write_all(trailer.as_slice())
            .and_then(|()| self.out.flush())
            .map_err(cannot_write)?;
        Ok(self.passed + trailer.as_slice().len() as u64)
    }
}

impl Hashing {
    /// Goes on in a thread, or returns `None` where the system has none to give.
    fn in_a_thread(mut hasher: Hasher) -> Option<Self> {
        let (full, to_hash) = sync_channel::<Vec<u8>>(WAITING);
        let (hashed, empty) = sync_channel(WAITING + 2);
        let thread = std::thread::Builder::new().spawn(move || {
            for bytes in to_hash {
                hasher.update(&bytes);
                // Where nobody wants the buffer, it goes.
                let _ = hashed.try_send(bytes);
            }
            hasher
        });
        Some(Hashing::There {
            full,
            empty,
            thread: thread.ok()?,
        })
    }
}

/// What stands for the writer that a caller gave, in the place of a path, which only the caller knows.
pub const OUTPUT: &str = "the new pack";

/// Wraps an error of the writer that a caller gave.
fn cannot_write(source: io::Error) -> Error {
    Error::Io {
        path: OUTPUT.into(),
        action: "write",
        source,
    }
}
