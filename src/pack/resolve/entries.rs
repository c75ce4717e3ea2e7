//! Entries read and inflated for a worker.

use gix_zlib::{FlushDecompress, Status};

use super::{
    check::object_hasher,
    worker::{Trouble, Worker},
};
use crate::pack::{Kind, delta, header};

/// Bytes read at once where an entry is not held: few enough to be at hand for all that is done with them.
const CHUNK: usize = 64 * 1024;
/// No zlib stream grows by more than this factor: what claims to is damaged, and no memory is taken for it.
pub(super) const MAX_INFLATION: u64 = 1032;

/// Compressed data is seldom longer than the object, and then by little: never by so much besides twice the object.
const ROOM: u64 = 1 << 20;

impl Worker<'_, '_> {
    /// Makes the object of the delta `at`.
    pub(super) fn made_from(&mut self, at: u32, base: &[u8]) -> Result<Vec<u8>, Trouble> {
        self.read(at)?;
        let entry = header::parse_entry_header(&self.compressed, self.shared.store.object_format())?;
        let buf = std::mem::take(&mut self.delta);
        let delta = self.inflated(entry.len, entry.size, buf)?;
        let mut data = Vec::new();
        delta::apply(base, &delta, self.shared.object_limit, &mut data)?;
        self.delta = delta;
        self.delta.shrink_to(delta::TRUSTED_CAPACITY);
        Ok(data)
    }

    /// Reads an entry and checks its CRC-32.
    pub(super) fn read(&mut self, at: u32) -> Result<(), Trouble> {
        let (start, end) = self.place(at);
        if end - start > ROOM {
            // No memory is taken for a hole in a sparse file.
            let mut head = [0; header::MAX_ENTRY_HEADER_LEN];
            self.shared.store.read_exact_at(self.shared.pack, start, &mut head)?;
            let entry = header::parse_entry_header(&head, self.shared.store.object_format())?;
            if end - start > entry.size.saturating_mul(2).saturating_add(ROOM) {
                return Err("something follows its compressed data".into());
            }
        }
        self.compressed.shrink_to(delta::TRUSTED_CAPACITY);
        self.compressed.resize((end - start) as usize, 0);
        self.shared
            .store
            .read_exact_at(self.shared.pack, start, &mut self.compressed)?;
        self.check_crc32(at, crc32fast::hash(&self.compressed))
    }

    fn check_crc32(&self, at: u32, found: u32) -> Result<(), Trouble> {
        let expected = self.shared.table.crc32s[self.shared.families.rows[at as usize] as usize];
        if found == expected {
            return Ok(());
        }
        Err(Trouble::Altered(format!(
            "its CRC-32 is {found:08x}, expected {expected:08x}"
        )))
    }

    fn check_size(&self, size: u64, compressed: u64) -> Result<(), Trouble> {
        if size > self.shared.object_limit {
            return Err("it exceeds the size limit of an object".into());
        }
        if size / MAX_INFLATION > compressed {
            return Err("its header claims more than its data can hold".into());
        }
        Ok(())
    }

    /// Inflates what follows the header of the entry that was read, into `out`.
    pub(super) fn inflated(&mut self, header_len: usize, size: u64, mut out: Vec<u8>) -> Result<Vec<u8>, Trouble> {
        let data = &self.compressed[header_len..];
        self.check_size(size, data.len() as u64)?;
        out.resize(size as usize, 0);
        self.inflate.reset();
        let status = self.inflate.decompress(data, &mut out, FlushDecompress::None);
        match status {
            Err(_) => Err("its compressed data is damaged".into()),
            Ok(Status::StreamEnd) if self.inflate.total_out() != size => {
                Err("it is shorter than its header says".into())
            }
            Ok(Status::StreamEnd) if self.inflate.total_in() != data.len() as u64 => {
                Err("something follows its compressed data".into())
            }
            Ok(Status::StreamEnd) => Ok(out),
            Ok(_) if self.inflate.total_out() == size => Err("it is longer than its header says".into()),
            Ok(_) => Err("its compressed data is cut off".into()),
        }
    }

    /// Inflates and hashes a large object without holding it.
    pub(super) fn stream(&mut self, at: u32, kind: Kind, size: u64, header_len: usize) -> Result<(), Trouble> {
        let (start, end) = self.place(at);
        self.check_size(size, end - start)?;
        let mut crc32 = crc32fast::Hasher::new();
        let mut hasher = object_hasher(self.shared.store.object_format(), kind, size);
        let (mut input, mut output) = (vec![0; CHUNK], vec![0; CHUNK]);
        let (mut from, mut skip, mut ended) = (start, header_len, false);
        self.inflate.reset();
        while from < end {
            let part = &mut input[..(CHUNK as u64).min(end - from) as usize];
            self.shared.store.read_exact_at(self.shared.pack, from, part)?;
            crc32.update(part);
            from += part.len() as u64;
            let mut rest = &part[skip.min(part.len())..];
            skip = 0;
            while !rest.is_empty() {
                if ended {
                    return Err("something follows its compressed data".into());
                }
                let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
                let status = self.inflate.decompress(rest, &mut output, FlushDecompress::None);
                let status = status.map_err(|_| Trouble::from("its compressed data is damaged"))?;
                let (read, written) = (self.inflate.total_in() - read, self.inflate.total_out() - written);
                hasher.update(&output[..written as usize]);
                rest = &rest[read as usize..];
                ended = status == Status::StreamEnd;
                if self.inflate.total_out() > size {
                    return Err("it is longer than its header says".into());
                }
                if read == 0 && written == 0 && !ended {
                    return Err("its compressed data is damaged".into());
                }
            }
        }
        self.check_crc32(at, crc32.finalize())?;
        if !ended || self.inflate.total_out() != size {
            return Err("its compressed data is cut off".into());
        }
        self.check_id(at, hasher)?;
        self.note(at, kind, size);
        Ok(())
    }
}
