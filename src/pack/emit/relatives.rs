//! Objects of the new pack that others can be made from.

use std::{collections::HashMap, sync::Arc};

use super::{Written, order::Order};
use crate::{
    error::Result,
    pack::{
        Kind,
        bases::{Bases, Place},
        object::{Object, ObjectReader, check_id},
    },
};

/// Bytes of objects to keep for that.
const KEPT: usize = 16 << 20;

/// An object of the new pack.
pub(super) struct Relative {
    pub data: Arc<Vec<u8>>,
    /// Where it starts in the new pack.
    pub offset: u64,
    /// How many deltas it is made from there, as far as they were made there.
    pub depth: u32,
}

/// Finds for an object whose own delta base is not sent the nearest relative that is: what its base was made from, or
/// else the last object that went back to the same root.
pub(super) struct Relatives<'a, 's> {
    reader: &'a ObjectReader<'s>,
    order: &'a Order<'a>,
    kept: Bases,
    /// Offset in the new pack and depth of what is kept, and of some that is not any more.
    places: HashMap<Place, (u64, u32)>,
}

impl<'a, 's> Relatives<'a, 's> {
    pub fn new(reader: &'a ObjectReader<'s>, order: &'a Order<'a>) -> Self {
        Relatives {
            reader,
            order,
            kept: Bases::new(KEPT),
            places: HashMap::new(),
        }
    }

    /// Returns a relative that was written already; `bases` is the chain of entries that the object is stored on.
    pub fn nearest(&mut self, bases: &[Place], written: &Written) -> Result<Option<Relative>> {
        for &place in bases {
            if let Some((_, data)) = self.kept.get(place) {
                let (offset, depth) = self.places[&place];
                return Ok(Some(Relative { data, offset, depth }));
            }
            let Some(index) = self
                .order
                .find(place.0, place.1)
                .filter(|index| *index < written.offsets.len())
            else {
                continue;
            };
            let object = self.reader.read_at(self.order.location(index))?;
            // What was copied was checked as bytes; what stands on it must be right as an object.
            if check_id(self.reader.store(), self.order.oid(index), &object).is_err() {
                return Ok(None);
            }
            let offset = written.offsets[index];
            self.keep(place, object.kind, &object.data, offset, 0);
            return Ok(Some(Relative {
                data: object.data,
                offset,
                depth: 0,
            }));
        }
        Ok(None)
    }

    /// Notes an object that was built anew, at `offset` of the new pack.
    pub fn note(&mut self, at: Place, bases: &[Place], object: &Object, offset: u64, depth: u32) {
        self.keep(at, object.kind, &object.data, offset, depth);
        if let Some(root) = bases.last() {
            self.kept.remove(*root);
            self.keep(*root, object.kind, &object.data, offset, depth);
        }
    }

    fn keep(&mut self, place: Place, kind: Kind, data: &Arc<Vec<u8>>, offset: u64, depth: u32) {
        self.kept.insert(place, kind, data);
        self.places.insert(place, (offset, depth));
    }
}
