//! Where the new pack goes: written and hashed at once.

use std::io::{self, Write};

use gix_hash::{Hasher, ObjectId, hasher};

use crate::error::{Error, Result};

/// Small writes are gathered to so many bytes.
const CAPACITY: usize = 64 * 1024;

pub(super) struct Sink<'o> {
    out: &'o mut dyn Write,
    hasher: Hasher,
    gathered: Vec<u8>,
    passed: u64,
}

impl<'o> Sink<'o> {
    pub fn new(out: &'o mut dyn Write, format: gix_hash::Kind) -> Self {
        Sink {
            out,
            hasher: hasher(format),
            gathered: Vec::with_capacity(CAPACITY),
            passed: 0,
        }
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.gathered.len() + bytes.len() > CAPACITY {
            self.flush()?;
            if bytes.len() >= CAPACITY {
                self.hasher.update(bytes);
                self.passed += bytes.len() as u64;
                return self.out.write_all(bytes).map_err(cannot_write);
            }
        }
        self.gathered.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.hasher.update(&self.gathered);
        self.passed += self.gathered.len() as u64;
        self.out.write_all(&self.gathered).map_err(cannot_write)?;
        self.gathered.clear();
        Ok(())
    }

    /// Writes the trailer and returns the number of all bytes, and the trailer.
    pub fn finish(mut self) -> Result<(u64, ObjectId)> {
        self.flush()?;
        let id = self
            .hasher
            .try_finalize()
            .map_err(|err| Error::Invalid(format!("the pack cannot be hashed: {err}")))?;
        self.out
            .write_all(id.as_slice())
            .and_then(|()| self.out.flush())
            .map_err(cannot_write)?;
        Ok((self.passed + id.as_slice().len() as u64, id))
    }
}

/// Wraps an error of the writer that a caller gave: the path is what the caller knows.
pub(super) fn cannot_write(source: io::Error) -> Error {
    Error::Io {
        path: "the new pack".into(),
        action: "write",
        source,
    }
}
