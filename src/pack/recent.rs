//! A filter of object ids met a moment ago.

use super::Kind;

/// With 48 bytes each, the slots fit into the second-level cache.
const SLOTS: usize = 1 << 14;

/// A direct-mapped set of whole ids of trees and blobs, as which they were met: what it says it knows, it was given; what it was given it may have forgotten.
///
/// Most trees of a history differ from the one before in a single entry, so nearly all entries were met a moment ago. This
/// answers for them before a table that is out of cache is asked.
pub(super) struct Recent {
    slots: Vec<([u128; 2], Kind)>,
}

impl Recent {
    pub fn new() -> Self {
        let mut it = Recent { slots: Vec::new() };
        it.forget();
        it
    }

    /// Empties the filter.
    pub fn forget(&mut self) {
        self.slots.clear();
        // No link says commit here, so that nothing is known, the null id neither.
        self.slots.resize(SLOTS, ([0; 2], Kind::Commit));
    }

    /// Returns whether `id` is known as `kind`, and knows it from now on.
    #[inline]
    pub fn knows(&mut self, id: &[u8], kind: Kind) -> bool {
        let start = u128::from_le_bytes(*id.first_chunk().expect("ids have at least 20 bytes"));
        let end = match id.last_chunk::<16>() {
            Some(end) if id.len() == 32 => u128::from_le_bytes(*end),
            _ => u128::from(u32::from_le_bytes(
                *id.last_chunk().expect("ids have at least 20 bytes"),
            )),
        };
        let slot = &mut self.slots[start as usize % SLOTS];
        let known = *slot == ([start, end], kind);
        *slot = ([start, end], kind);
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_given_is_known() {
        let mut recent = Recent::new();
        for width in [20, 32] {
            let null = vec![0; width];
            assert!(
                !recent.knows(&null, Kind::Blob),
                "the null id is not known from the start"
            );
            assert!(recent.knows(&null, Kind::Blob));
            assert!(!recent.knows(&null, Kind::Tree), "the kind counts");
            for at in 0..width {
                let mut other = null.clone();
                other[at] = 1;
                assert!(!recent.knows(&other, Kind::Blob), "byte {at} counts");
                assert!(recent.knows(&other, Kind::Blob));
            }
            recent.forget();
        }
    }
}
