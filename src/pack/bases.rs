//! Objects kept because they may be the base of a delta that is read next.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::Arc,
};

use super::{Kind, PackRank};

/// The place of an entry: its pack and offset.
pub(super) type Place = (PackRank, u64);

const NONE: u32 = u32::MAX;

struct Node {
    place: Place,
    kind: Kind,
    data: Arc<Vec<u8>>,
    newer: u32,
    older: u32,
}

/// A cache of whole objects by place, bounded by their bytes; the one that was not used for the longest time goes first.
pub(super) struct Bases {
    by_place: HashMap<Place, u32, BuildHasherDefault<PlaceHasher>>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    bytes: usize,
    budget: usize,
}

/// Bytes that an object costs beside its data.
const NODE_COST: usize = 96;

impl Bases {
    /// Creates a cache of at most `budget` bytes.
    pub fn new(budget: usize) -> Self {
        Bases {
            by_place: HashMap::default(),
            nodes: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            bytes: 0,
            budget,
        }
    }

    /// Returns the object at `place`, and notes that it was used.
    pub fn get(&mut self, place: Place) -> Option<(Kind, Arc<Vec<u8>>)> {
        let at = *self.by_place.get(&place)?;
        if at != self.newest {
            self.unlink(at);
            self.link(at);
        }
        let node = &self.nodes[at as usize];
        Some((node.kind, Arc::clone(&node.data)))
    }

    /// Keeps an object, unless it alone would displace most of the others.
    pub fn insert(&mut self, place: Place, kind: Kind, data: &Arc<Vec<u8>>) {
        let cost = data.capacity() + NODE_COST;
        if cost > self.budget / 4 || self.by_place.contains_key(&place) {
            return;
        }
        while self.bytes + cost > self.budget {
            self.drop_oldest();
        }
        let node = Node {
            place,
            kind,
            data: Arc::clone(data),
            newer: NONE,
            older: NONE,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.by_place.insert(place, at);
        self.bytes += cost;
        self.link(at);
    }

    /// Drops an object.
    pub fn remove(&mut self, place: Place) {
        if let Some(at) = self.by_place.get(&place) {
            self.drop_node(*at);
        }
    }

    fn drop_oldest(&mut self) {
        self.drop_node(self.oldest);
    }

    fn drop_node(&mut self, at: u32) {
        self.unlink(at);
        let node = &mut self.nodes[at as usize];
        self.bytes -= node.data.capacity() + NODE_COST;
        node.data = Arc::default();
        self.by_place.remove(&node.place);
        self.free.push(at);
    }

    fn unlink(&mut self, at: u32) {
        let (newer, older) = (self.nodes[at as usize].newer, self.nodes[at as usize].older);
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }

    fn link(&mut self, at: u32) {
        self.nodes[at as usize].newer = NONE;
        self.nodes[at as usize].older = self.newest;
        match self.newest {
            NONE => self.oldest = at,
            newest => self.nodes[newest as usize].newer = at,
        }
        self.newest = at;
    }
}

/// Mixes pack and offset. Offsets are not chosen freely by anyone who would gain from collisions in a cache.
#[derive(Default)]
pub(super) struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(29) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(len: usize) -> Arc<Vec<u8>> {
        Arc::new(vec![1; len])
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut bases = Bases::new(10 * (1000 + NODE_COST));
        for offset in 0..10 {
            bases.insert((0, offset), Kind::Tree, &object(1000));
        }
        assert!(bases.get((0, 0)).is_some());
        bases.insert((1, 0), Kind::Blob, &object(1000));
        assert!(bases.get((0, 0)).is_some(), "was used");
        assert!(bases.get((0, 1)).is_none(), "went");
        assert_eq!(bases.get((1, 0)).unwrap().0, Kind::Blob);
        for offset in 100..1000 {
            bases.insert((0, offset), Kind::Tree, &object(1000));
            assert!(bases.bytes <= bases.budget);
        }
        assert_eq!(bases.by_place.len(), 10);
        assert_eq!(bases.nodes.len(), 10, "places are used again");
    }

    #[test]
    fn a_huge_object_displaces_nothing() {
        let mut bases = Bases::new(8000);
        bases.insert((0, 1), Kind::Tree, &object(1000));
        bases.insert((0, 2), Kind::Tree, &object(7000));
        assert!(bases.get((0, 1)).is_some());
        assert!(bases.get((0, 2)).is_none());
    }
}
