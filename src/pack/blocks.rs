//! Pack bytes in aligned blocks, so that a read of a few bytes is seldom a system call.

use super::{PackRank, PackStore};
use crate::error::Result;

/// Bytes of a block: large enough that most entries lie in one, small enough that a cold read of one object is cheap.
const BLOCK_LEN: u64 = 32 * 1024;
/// The number of blocks kept: 8 MiB.
const SLOTS: usize = 256;

struct Slot {
    /// The block in it; meaningful where `bytes` is not empty.
    pack: PackRank,
    block: u64,
    bytes: Vec<u8>,
}

/// A direct-mapped cache of blocks: neighbouring blocks never displace each other, whatever the order of reads.
#[derive(Default)]
pub(super) struct Blocks {
    slots: Vec<Slot>,
    /// Where the entries of the pack read last end.
    end: Option<(PackRank, u64)>,
}

impl Blocks {
    /// Returns the bytes from `offset` of `pack` to the end of their block, or of the pack's entries; empty at that end.
    pub fn at(&mut self, store: &dyn PackStore, pack: PackRank, offset: u64) -> Result<&[u8]> {
        let end = self.entries_end(store, pack)?;
        if offset >= end {
            return Ok(&[]);
        }
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, || Slot {
                pack: 0,
                block: 0,
                bytes: Vec::new(),
            });
        }
        let block = offset / BLOCK_LEN;
        let index = (block ^ u64::from(pack).wrapping_mul(0x9e37_79b9)) as usize % SLOTS;
        let slot = &mut self.slots[index];
        if slot.bytes.is_empty() || slot.pack != pack || slot.block != block {
            let start = block * BLOCK_LEN;
            // Emptied first: a failed read must not leave bytes behind that are taken for another block.
            let mut bytes = std::mem::take(&mut slot.bytes);
            bytes.resize(BLOCK_LEN.min(end - start) as usize, 0);
            store.read_exact_at(pack, start, &mut bytes)?;
            *slot = Slot { pack, block, bytes };
        }
        Ok(&slot.bytes[(offset % BLOCK_LEN) as usize..])
    }

    /// Copies bytes from `offset` of `pack` to `buf` and returns how many there are before the pack's entries end.
    pub fn peek(&mut self, store: &dyn PackStore, pack: PackRank, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buf.len() {
            let bytes = self.at(store, pack, offset + filled as u64)?;
            if bytes.is_empty() {
                break;
            }
            let len = bytes.len().min(buf.len() - filled);
            buf[filled..filled + len].copy_from_slice(&bytes[..len]);
            filled += len;
        }
        Ok(filled)
    }

    fn entries_end(&mut self, store: &dyn PackStore, pack: PackRank) -> Result<u64> {
        match self.end {
            Some((of, end)) if of == pack => Ok(end),
            _ => {
                let end = store
                    .pack_len(pack)?
                    .saturating_sub(store.object_format().len_in_bytes() as u64);
                self.end = Some((pack, end));
                Ok(end)
            }
        }
    }
}
