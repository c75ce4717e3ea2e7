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

/// In larger sets nearly every object's delta base is sent, and paths are not looked at.
const MOST_BY_PATH: usize = 1 << 18;

/// An object of the new pack.
pub(super) struct Relative {
    pub data: Arc<Vec<u8>>,
    /// Where it starts in the new pack.
    pub offset: u64,
    /// How many deltas it is made from there, as far as they were made there.
    pub depth: u32,
}

/// Finds for an object whose own delta base is not sent the nearest relative that is: what its base was made from, else the
/// last object that went back to the same root, else the object before it at the same path.
pub(super) struct Relatives<'a, 's> {
    reader: &'a ObjectReader<'s>,
    order: &'a Order<'a>,
    kept: Bases,
    /// Offset in the new pack and depth of what is kept, and of some that is not any more.
    places: HashMap<Place, (u64, u32)>,
    /// Paths with the objects at them, sorted; made when it is needed.
    by_path: Option<Vec<(u32, u32)>>,
}

impl<'a, 's> Relatives<'a, 's> {
    pub fn new(reader: &'a ObjectReader<'s>, order: &'a Order<'a>) -> Self {
        Relatives {
            reader,
            order,
            kept: Bases::new(KEPT),
            places: HashMap::new(),
            by_path: None,
        }
    }

    /// Returns a relative of object `index` that was written already; `bases` is the chain of entries that the object is
    /// stored on.
    pub fn nearest(&mut self, index: usize, bases: &[Place], written: &Written) -> Result<Option<Relative>> {
        for &place in bases {
            if let Some(relative) = self.kept(place) {
                return Ok(Some(relative));
            }
            if let Some(base) = self.order.find(place.0, place.1).filter(|base| *base < index) {
                return self.read(base, written);
            }
        }
        match self.before_at_path(index) {
            Some(before) => {
                let at = self.order.location(before);
                match self.kept((at.pack, at.offset)) {
                    Some(relative) => Ok(Some(relative)),
                    None => self.read(before, written),
                }
            }
            None => Ok(None),
        }
    }

    fn kept(&mut self, place: Place) -> Option<Relative> {
        let (_, data) = self.kept.get(place)?;
        let (offset, depth) = self.places[&place];
        Some(Relative { data, offset, depth })
    }

    /// Reads an object that was written, and keeps it.
    fn read(&mut self, index: usize, written: &Written) -> Result<Option<Relative>> {
        let at = self.order.location(index);
        // What was copied was checked as bytes; what stands on it must be right as an object. Where it is not, another copy
        // of it was written.
        let Ok(object) = self.reader.read_at(at) else {
            return Ok(None);
        };
        if check_id(self.reader.store(), self.order.oid(index), &object).is_err() {
            return Ok(None);
        }
        let offset = written.offsets[index];
        let depth = self.places.get(&(at.pack, at.offset)).map_or(0, |(_, depth)| *depth);
        self.keep((at.pack, at.offset), object.kind, &object.data, offset, depth);
        Ok(Some(Relative {
            data: object.data,
            offset,
            depth,
        }))
    }

    /// Returns the last object before `index` that was met at the same path.
    fn before_at_path(&mut self, index: usize) -> Option<usize> {
        let path = self.order.path(index);
        if path == 0 || self.order.len() > MOST_BY_PATH {
            return None;
        }
        let by_path = self.by_path.get_or_insert_with(|| {
            let mut by_path: Vec<_> = (0..self.order.len())
                .map(|index| (self.order.path(index), index as u32))
                .collect();
            by_path.sort_unstable();
            by_path
        });
        let after = by_path.partition_point(|entry| *entry < (path, index as u32));
        let (other, before) = *by_path.get(after.checked_sub(1)?)?;
        (other == path).then_some(before as usize)
    }

    /// Notes an object that was built anew, at `offset` of the new pack.
    pub fn note(&mut self, at: Place, bases: &[Place], object: &Object, offset: u64, depth: u32) {
        self.keep(at, object.kind, &object.data, offset, depth);
        if let Some(root) = bases.last() {
            self.keep(*root, object.kind, &object.data, offset, depth);
        }
    }

    fn keep(&mut self, place: Place, kind: Kind, data: &Arc<Vec<u8>>, offset: u64, depth: u32) {
        // Data and offset must be those of the same object.
        self.kept.remove(place);
        self.kept.insert(place, kind, data);
        self.places.insert(place, (offset, depth));
    }
}
