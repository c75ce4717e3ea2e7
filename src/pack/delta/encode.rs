//! Makes deltas: quickly, and good enough for versions of one file or directory.
//!
//! The base is indexed by blocks at fixed places; the object is searched for them at every place, and a block that is found
//! is extended in both directions. (The idea of rsync and of git's own encoder; this one keeps a single place for each hash.)

use crate::pack::changes::common_prefix;

/// Bytes of a block.
const BLOCK: usize = 16;
/// The longest insert instruction.
const MAX_INSERT: usize = 0x7f;
/// The longest copy that readers of version 2 packs all know.
const MAX_COPY: usize = 0x1_0000;

/// Returns a delta that makes `object` out of `base`, or `None` where it would be longer than `limit`.
///
/// Memory: half the size of `base`. Both must be smaller than 4 GiB.
pub fn encode(base: &[u8], object: &[u8], limit: usize) -> Option<Vec<u8>> {
    u32::try_from(base.len().max(object.len())).ok()?;
    let index = Index::new(base);
    let mut delta = Delta {
        bytes: Vec::with_capacity(256),
        limit,
    };
    delta.size(base.len());
    delta.size(object.len());
    // Everything before `done` is in the delta.
    let (mut at, mut done) = (0, 0);
    while let Some(block) = object.get(at..at + BLOCK) {
        match index.find(base, block.try_into().expect("blocks have their size")) {
            None => at += 1,
            Some(place) => {
                let back = common_suffix(&base[..place], &object[done..at]);
                let (from, start) = (place - back, at - back);
                let len = common_prefix(&base[from..], &object[start..]);
                delta.insert(&object[done..start])?;
                delta.copy(from, len)?;
                done = start + len;
                at = done;
            }
        }
    }
    delta.insert(&object[done..])?;
    Some(delta.bytes)
}

/// The places of a base's blocks by their hashes.
struct Index {
    /// A block's number plus one, 0 = none.
    slots: Vec<u32>,
    shift: u32,
}

impl Index {
    fn new(base: &[u8]) -> Self {
        let blocks = base.chunks_exact(BLOCK);
        let bits = (2 * blocks.len()).next_power_of_two().trailing_zeros().max(4);
        let mut index = Index {
            slots: vec![0; 1 << bits],
            shift: 64 - bits,
        };
        // Backwards, so that of equal blocks the first one counts.
        for (number, block) in blocks.enumerate().rev() {
            let slot = index.slot(block.try_into().expect("blocks have their size"));
            index.slots[slot] = number as u32 + 1;
        }
        index
    }

    fn slot(&self, block: &[u8; BLOCK]) -> usize {
        let word = u128::from_le_bytes(*block);
        let folded = (word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (word >> 64) as u64;
        (folded.wrapping_mul(0xd6e8_feb8_6659_fd93) >> self.shift) as usize
    }

    fn find(&self, base: &[u8], block: &[u8; BLOCK]) -> Option<usize> {
        let place = (self.slots[self.slot(block)] as usize).checked_sub(1)? * BLOCK;
        (base[place..place + BLOCK] == *block).then_some(place)
    }
}

struct Delta {
    bytes: Vec<u8>,
    limit: usize,
}

impl Delta {
    fn size(&mut self, mut size: usize) {
        while size > 0x7f {
            self.bytes.push(size as u8 | 0x80);
            size >>= 7;
        }
        self.bytes.push(size as u8);
    }

    fn insert(&mut self, bytes: &[u8]) -> Option<()> {
        for part in bytes.chunks(MAX_INSERT) {
            self.bytes.push(part.len() as u8);
            self.bytes.extend_from_slice(part);
            self.check()?;
        }
        Some(())
    }

    fn copy(&mut self, mut from: usize, mut len: usize) -> Option<()> {
        while len > 0 {
            let part = len.min(MAX_COPY);
            let code_at = self.bytes.len();
            self.bytes.push(0x80);
            // The longest copy is written as no size at all.
            for (value, bytes, first_bit) in [(from, 4, 0), (part & 0xffff, 2, 4)] {
                for (number, byte) in (value as u32).to_le_bytes().into_iter().take(bytes).enumerate() {
                    if byte != 0 {
                        self.bytes.push(byte);
                        self.bytes[code_at] |= 1 << (first_bit + number);
                    }
                }
            }
            from += part;
            len -= part;
            self.check()?;
        }
        Some(())
    }

    fn check(&self) -> Option<()> {
        (self.bytes.len() <= self.limit).then_some(())
    }
}

fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::delta::apply;

    fn round(base: &[u8], object: &[u8]) -> usize {
        let delta = encode(base, object, usize::MAX).unwrap();
        let mut out = Vec::new();
        apply(base, &delta, 1 << 40, &mut out).unwrap();
        assert!(out == object);
        delta.len()
    }

    #[test]
    fn what_is_made_is_applied() {
        let mut state = 5u64;
        let mut random = |bound: usize| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as usize % bound
        };
        for _ in 0..300 {
            let alphabet = 1 + random(255);
            let base: Vec<u8> = (0..random(3000)).map(|_| random(alphabet) as u8).collect();
            let mut object = base.clone();
            for _ in 0..random(6) {
                let (from, to) = (random(object.len() + 1), random(object.len() + 1));
                let cut = from.min(to)..from.max(to).min(from.min(to) + 50);
                let new: Vec<u8> = (0..random(60)).map(|_| random(256) as u8).collect();
                object.splice(cut, new);
            }
            round(&base, &object);
            round(&object, &base);
            round(&base, b"");
            round(b"", &object);
        }
    }

    #[test]
    fn a_small_change_makes_a_small_delta() {
        let base: Vec<u8> = (0..200_000u32)
            .flat_map(|number| (number / 7 * 31 % 1009).to_le_bytes())
            .collect();
        let mut object = base.clone();
        object[300_001] ^= 1;
        object.splice(500_000..500_000, *b"something new");
        let len = round(&base, &object);
        assert!(len < 200, "{len} bytes");
        assert!(encode(&base, &object, len - 1).is_none(), "over the limit");
        assert!(encode(&base, &object, len).is_some());
        assert!(round(&base, &base) < 120);
    }
}
