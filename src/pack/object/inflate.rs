//! Compressed data read and inflated for an [`ObjectReader`].

use gix_zlib::{FlushDecompress, Status};

use super::{ObjectReader, State};
use crate::{
    error::Result,
    pack::{PackRank, delta},
};

impl ObjectReader<'_> {
    /// Inflates `size` bytes from `at` to `out`, which is cleared first.
    pub(super) fn inflate(
        &self,
        state: &mut State,
        pack: PackRank,
        entry: u64,
        at: u64,
        size: u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let size = usize::try_from(size)
            .ok()
            .filter(|_| size <= self.options.object_limit)
            .ok_or_else(|| self.invalid(pack, entry, "it exceeds the size limit of an object"))?;
        out.clear();
        out.resize(size.min(delta::TRUSTED_CAPACITY), 0);
        let (mut at, mut filled) = (at, 0);
        state.inflate.reset();
        loop {
            if filled == out.len() && filled < size {
                // Grown only after so much data has come: by half, so that memory follows the data, not the header.
                let len = (out.len() + out.len() / 2).min(size);
                out.resize(len, 0);
            }
            // Where `out` is full, one byte of room finds the stream's end, or data that should not be there.
            let mut excess = [0];
            let full = filled == size;
            let room = if full { &mut excess[..] } else { &mut out[filled..] };
            let (status, read, written) = self.inflate_step(state, pack, entry, at, room)?;
            at += read;
            filled += if full { 0 } else { written };
            match status {
                _ if full && written > 0 => return Err(self.invalid(pack, entry, "it is longer than its header says")),
                Status::StreamEnd if filled == size => return Ok(()),
                Status::StreamEnd => return Err(self.invalid(pack, entry, "it is shorter than its header says")),
                _ => {}
            }
        }
    }

    /// Inflates the first bytes from `at` to `start` and returns how many there are.
    pub(super) fn inflate_start(
        &self,
        state: &mut State,
        pack: PackRank,
        entry: u64,
        at: u64,
        start: &mut [u8],
    ) -> Result<usize> {
        let (mut at, mut filled) = (at, 0);
        state.inflate.reset();
        while filled < start.len() {
            let (status, read, written) = self.inflate_step(state, pack, entry, at, &mut start[filled..])?;
            at += read;
            filled += written;
            if status == Status::StreamEnd {
                break;
            }
        }
        Ok(filled)
    }

    /// Inflates `size` bytes from `at` to nowhere and returns where the stream ends.
    pub(super) fn skip(&self, state: &mut State, pack: PackRank, entry: u64, at: u64, size: u64) -> Result<u64> {
        let (mut at, mut filled) = (at, 0);
        let mut sink = std::mem::take(&mut state.delta);
        sink.resize(64 * 1024, 0);
        state.inflate.reset();
        loop {
            let (status, read, written) = self.inflate_step(state, pack, entry, at, &mut sink)?;
            at += read;
            filled += written as u64;
            match status {
                _ if filled > size => return Err(self.invalid(pack, entry, "it is longer than its header says")),
                Status::StreamEnd if filled == size => break,
                Status::StreamEnd => return Err(self.invalid(pack, entry, "it is shorter than its header says")),
                _ => {}
            }
        }
        state.delta = sink;
        Ok(at)
    }

    /// Inflates from the block at `at` to `room`; returns the state of the stream and the bytes read and written.
    fn inflate_step(
        &self,
        state: &mut State,
        pack: PackRank,
        entry: u64,
        at: u64,
        room: &mut [u8],
    ) -> Result<(Status, u64, usize)> {
        let input = state.blocks.at(self.store, pack, at)?;
        if input.is_empty() {
            return Err(self.invalid(pack, entry, "its compressed data is cut off"));
        }
        let (read, written) = (state.inflate.total_in(), state.inflate.total_out());
        let status = state
            .inflate
            .decompress(input, room, FlushDecompress::None)
            .map_err(|_| self.invalid(pack, entry, "its compressed data is damaged"))?;
        let (read, written) = (state.inflate.total_in() - read, state.inflate.total_out() - written);
        if read == 0 && written == 0 && status != Status::StreamEnd {
            return Err(self.invalid(pack, entry, "its compressed data is damaged"));
        }
        Ok((status, read, written as usize))
    }
}
