//! A part of a pack in memory.

use super::order::Order;
use crate::{
    error::Result,
    pack::{PackRank, PackStore},
};

/// The most bytes that are read at once.
pub(super) const LEN: usize = 1 << 20;
/// What is not sent between two entries is read with them up to so many bytes: cheaper than a read of its own.
const GAP: u64 = 32 * 1024;

/// Bytes of a pack from `start` on.
#[derive(Default)]
pub(super) struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Reads the entries from `first` on that lie close together, and returns the index after the last of them; `first`
    /// itself where that entry alone is too large.
    pub fn load(&mut self, store: &dyn PackStore, order: &Order<'_>, first: usize) -> Result<usize> {
        let (pack, start): (PackRank, u64) = (order.pack(first), order.start(first));
        let mut end = start;
        let mut last = first;
        while last < order.len()
            && order.pack(last) == pack
            && order.end(last) - start <= LEN as u64
            && order.start(last) - end <= GAP
        {
            end = order.end(last);
            last += 1;
        }
        self.start = start;
        self.bytes.resize((end - start) as usize, 0);
        store.read_exact_at(pack, start, &mut self.bytes)?;
        Ok(last)
    }

    /// Returns the bytes from `start` to `end` of the pack, which the window must hold.
    pub fn bytes(&self, start: u64, end: u64) -> &[u8] {
        &self.bytes[(start - self.start) as usize..(end - self.start) as usize]
    }
}
