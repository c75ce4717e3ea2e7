//! The first pass: the stream is stored, hashed, and divided into entries.

use std::{
    fs::File,
    io::{self, BufRead, BufWriter, Write},
};

use gix_hash::{Hasher, Kind as Format, ObjectId};
use gix_zlib::{Decompress, FlushDecompress, Status};

use super::{Entry, IncomingError, store};
use crate::pack::header::{self, EntryKind, HeaderError};

/// A pack on its way into a file.
pub(super) struct Stream<'i, 'f> {
    input: &'i mut dyn BufRead,
    out: BufWriter<&'f File>,
    format: Format,
    /// Over the pack so far.
    hasher: Hasher,
    crc32: crc32fast::Hasher,
    at: u64,
    most: u64,
    inflate: Decompress,
    room: Vec<u8>,
}

impl<'i, 'f> Stream<'i, 'f> {
    pub fn new(input: &'i mut dyn BufRead, out: BufWriter<&'f File>, format: Format, most: u64) -> Self {
        Stream {
            input,
            out,
            format,
            hasher: gix_hash::hasher(format),
            crc32: crc32fast::Hasher::new(),
            at: 0,
            most,
            inflate: Decompress::new(),
            room: vec![0; 1 << 16],
        }
    }

    /// Takes the next bytes, exactly as many as there is room for.
    pub fn bytes(&mut self, bytes: &mut [u8]) -> Result<(), IncomingError> {
        self.input.read_exact(bytes).map_err(IncomingError::Stream)?;
        self.pass(bytes)
    }

    /// Notes bytes that were taken from the stream.
    fn pass(&mut self, bytes: &[u8]) -> Result<(), IncomingError> {
        self.at += bytes.len() as u64;
        if self.at > self.most {
            return Err(IncomingError::TooLarge);
        }
        self.hasher.update(bytes);
        self.crc32.update(bytes);
        store(&mut self.out, bytes)
    }

    /// Takes the next entry, and returns the name of its object where it is no delta.
    pub fn entry(&mut self, most: u64) -> Result<(Entry, Option<ObjectId>), IncomingError> {
        let offset = self.at;
        self.crc32 = crc32fast::Hasher::new();
        let (kind, size, header_len) = self.entry_header()?;
        if size > most {
            return Err(IncomingError::ObjectTooLarge { size, limit: most });
        }
        let mut name = match kind {
            EntryKind::Base(kind) => {
                let mut name = gix_hash::hasher(self.format);
                name.update(format!("{kind} {size}\0").as_bytes());
                Some(name)
            }
            _ => None,
        };
        self.data(offset, size, name.as_mut())?;
        let id = name.map(|name| name.try_finalize().map_err(|error| invalid(offset, &error.to_string())));
        let entry = Entry {
            offset,
            crc32: std::mem::take(&mut self.crc32).finalize(),
            header_len,
            size,
            kind,
        };
        Ok((entry, id.transpose()?))
    }

    fn entry_header(&mut self) -> Result<(EntryKind, u64, u32), IncomingError> {
        let mut bytes = Vec::with_capacity(header::MAX_ENTRY_HEADER_LEN);
        let offset = self.at;
        loop {
            // Byte by byte: what follows the header must stay in the stream.
            let mut byte = [0];
            self.bytes(&mut byte)?;
            bytes.push(byte[0]);
            match header::begin_entry_header(&bytes, self.format) {
                Ok(entry) => return Ok((entry.kind, entry.size, bytes.len() as u32)),
                Err(HeaderError::Short) if bytes.len() < header::MAX_ENTRY_HEADER_LEN => {}
                Err(HeaderError::Short) => return Err(invalid(offset, "its header does not end")),
                Err(HeaderError::Invalid(why)) => return Err(invalid(offset, why)),
            }
        }
    }

    /// Inflates the data of an entry of `size` bytes.
    fn data(&mut self, offset: u64, size: u64, mut name: Option<&mut Hasher>) -> Result<(), IncomingError> {
        self.inflate.reset();
        loop {
            let input = self.input.fill_buf().map_err(IncomingError::Stream)?;
            if input.is_empty() {
                return Err(IncomingError::Stream(io::ErrorKind::UnexpectedEof.into()));
            }
            let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self
                .inflate
                .decompress(input, &mut self.room, FlushDecompress::None)
                .map_err(|_| invalid(offset, "its compressed data is damaged"))?;
            let read = (self.inflate.total_in() - read) as usize;
            let total = self.inflate.total_out();
            let written = (total - written) as usize;
            if let Some(name) = &mut name {
                name.update(&self.room[..written]);
            }
            self.at += read as u64;
            if self.at > self.most {
                return Err(IncomingError::TooLarge);
            }
            self.hasher.update(&input[..read]);
            self.crc32.update(&input[..read]);
            store(&mut self.out, &input[..read])?;
            self.input.consume(read);
            match status {
                Status::StreamEnd if total == size => return Ok(()),
                Status::StreamEnd => return Err(invalid(offset, "its size is not the one that its header says")),
                _ if total > size => return Err(invalid(offset, "it is longer than its header says")),
                _ if read == 0 && written == 0 => return Err(invalid(offset, "its compressed data is damaged")),
                _ => {}
            }
        }
    }

    /// Takes the hash that ends the pack, and compares it. Returns it, and where it starts.
    pub fn trailer(mut self) -> Result<(ObjectId, u64), IncomingError> {
        let end = self.at;
        let hasher = std::mem::replace(&mut self.hasher, gix_hash::hasher(self.format));
        let expected = hasher
            .try_finalize()
            .map_err(|error| IncomingError::Invalid(error.to_string()))?;
        let mut id = ObjectId::null(self.format);
        self.bytes(id.as_mut_slice())?;
        if id != expected {
            return Err(IncomingError::Invalid(
                "the pack does not have the hash that it ends with".into(),
            ));
        }
        self.out.flush().map_err(IncomingError::Spool)?;
        Ok((id, end))
    }
}

/// Returns the error that the entry at `offset` is no good.
pub(super) fn invalid(offset: u64, why: &str) -> IncomingError {
    IncomingError::Invalid(format!(
        "the entry at offset {offset} of the pack cannot be read: {why}"
    ))
}
