//! Object ids numbered in the order in which they are met.

use std::hash::{BuildHasher, Hasher};

use gix_hash::oid;

/// A set of object ids, each with a number: the first one 0, and so on. About 30 bytes an id.
pub(crate) struct OidTable {
    width: usize,
    ids: Vec<u8>,
    /// The number of an id plus one, at the first free slot from the id's hash on; 0 = free.
    slots: Vec<u32>,
    /// Ids can be made to share their first bits at will; where they land must not be known beforehand.
    seed: u64,
}

impl OidTable {
    /// Creates a table of ids of `width` bytes.
    pub fn new(width: usize) -> Self {
        let seed = std::collections::hash_map::RandomState::new().build_hasher().finish();
        OidTable {
            width,
            ids: Vec::new(),
            slots: vec![0; 1024],
            seed,
        }
    }

    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        self.ids.len() / self.width
    }

    /// Returns id `number`.
    pub fn id(&self, number: u32) -> &oid {
        let at = number as usize * self.width;
        oid::from_bytes_unchecked(&self.ids[at..at + self.width])
    }

    /// Returns the number of `id`, and whether it is new.
    pub fn insert(&mut self, id: &[u8]) -> (u32, bool) {
        debug_assert_eq!(id.len(), self.width);
        let mut slot = self.first_slot(id);
        loop {
            match self.slots[slot] {
                0 => break,
                number if self.ids[(number - 1) as usize * self.width..][..self.width] == *id => {
                    return (number - 1, false);
                }
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
        }
        let number = self.len() as u32;
        self.ids.extend_from_slice(id);
        self.slots[slot] = number + 1;
        if self.len() * 2 > self.slots.len() {
            self.grow();
        }
        (number, true)
    }

    /// Returns the number of `id`, if it is in the table.
    pub fn get(&self, id: &[u8]) -> Option<u32> {
        let mut slot = self.first_slot(id);
        loop {
            match self.slots[slot] {
                0 => return None,
                number if self.ids[(number - 1) as usize * self.width..][..self.width] == *id => {
                    return Some(number - 1);
                }
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
        }
    }

    fn first_slot(&self, id: &[u8]) -> usize {
        let word = u64::from_le_bytes(id[..8].try_into().expect("ids have at least 20 bytes"));
        let mixed = (word ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.slots.len() - 1)
    }

    fn grow(&mut self) {
        self.slots = vec![0; self.slots.len() * 2];
        for (number, id) in self.ids.chunks_exact(self.width).enumerate() {
            let mut slot = self.first_slot(id);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (self.slots.len() - 1);
            }
            self.slots[slot] = number as u32 + 1;
        }
    }
}
