//! Reads objects out of a store of packs.

mod inflate;

use std::{cell::RefCell, sync::Arc};

use gix_hash::{ObjectId, oid};
use gix_zlib::Decompress;

use super::{
    Kind, Location, PackRank, PackStore,
    bases::{Bases, Place},
    blocks::Blocks,
    delta,
    finder::Finder,
    header::{self, EntryHeader, EntryKind},
};
use crate::error::{Error, Result};

/// An object, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub kind: Kind,
    /// Its content, without the header that is hashed with it; shared with the reader's cache.
    pub data: Arc<Vec<u8>>,
}

/// How much memory a reader may use.
#[derive(Debug, Clone, Copy)]
pub struct ReaderOptions {
    /// Bytes of objects to keep as bases of deltas.
    pub cache_bytes: usize,
    /// The largest object to read whole, in bytes. Larger ones are an error, so that a pack of a few bytes cannot ask
    /// for all memory.
    pub object_limit: u64,
}

impl Default for ReaderOptions {
    fn default() -> Self {
        ReaderOptions {
            cache_bytes: 32 << 20,
            object_limit: 4 << 30,
        }
    }
}

/// Reads objects out of a [`PackStore`], with a cache of pack blocks and of delta bases.
///
/// One thread uses it at a time; another thread takes a reader of its own. Nothing is hashed here: an object is what the
/// store's index says it is. Delta chains may be of any length: they are followed in a loop, and only two of their objects
/// and one delta are in memory at a time.
pub struct ObjectReader<'a> {
    store: &'a dyn PackStore,
    options: ReaderOptions,
    finder: Finder<'a>,
    state: RefCell<State>,
}

struct State {
    blocks: Blocks,
    bases: Bases,
    inflate: Decompress,
    /// The delta being applied.
    delta: Vec<u8>,
}

/// A delta on the way from an object to its base.
struct Link {
    pack: PackRank,
    offset: u64,
    /// Where the delta's compressed data starts.
    data_at: u64,
    /// Bytes of the inflated delta.
    size: u64,
}

impl<'a> ObjectReader<'a> {
    /// Creates a reader with the default options. Memory is taken when it is needed.
    pub fn new(store: &'a dyn PackStore) -> Self {
        ObjectReader::with_options(store, ReaderOptions::default())
    }

    /// Creates a reader.
    pub fn with_options(store: &'a dyn PackStore, options: ReaderOptions) -> Self {
        let state = State {
            blocks: Blocks::default(),
            bases: Bases::new(options.cache_bytes),
            inflate: Decompress::new(),
            delta: Vec::new(),
        };
        ObjectReader {
            store,
            options,
            finder: Finder::new(store),
            state: RefCell::new(state),
        }
    }

    /// Returns the store that is read.
    pub fn store(&self) -> &'a dyn PackStore {
        self.store
    }

    /// Returns where the object is, or `None` where the store does not have it. Quick for many look-ups, too.
    ///
    /// # Errors
    /// Fails where the store's index cannot be read.
    pub fn find(&self, id: &oid) -> Result<Option<Location>> {
        self.finder.find(id)
    }

    /// Returns whether the store has the object, without reading it.
    ///
    /// # Errors
    /// Fails where the store's index cannot be read.
    pub fn contains(&self, id: &oid) -> Result<bool> {
        Ok(self.find(id)?.is_some())
    }

    /// Returns kind and size of an object, or `None` where the store does not have it. Content is not inflated.
    ///
    /// # Errors
    /// Fails where the pack cannot be read or is damaged there.
    pub fn header(&self, id: &oid) -> Result<Option<(Kind, u64)>> {
        match self.find(id)? {
            Some(at) => self.header_at(at).map(Some).map_err(|err| name_object(err, id)),
            None => Ok(None),
        }
    }

    /// Returns kind and size of the object whose entry is at `at`.
    ///
    /// # Errors
    /// As [`ObjectReader::header`].
    pub fn header_at(&self, at: Location) -> Result<(Kind, u64)> {
        let state = &mut *self.state.borrow_mut();
        let (mut pack, mut offset) = (at.pack, at.offset);
        let mut size = None;
        let mut cycle = CycleGuard::new((pack, offset));
        loop {
            let entry = self.entry_header(state, pack, offset)?;
            let base = match entry.kind {
                EntryKind::Base(kind) => return Ok((kind, size.unwrap_or(entry.size))),
                EntryKind::OfsDelta(_) | EntryKind::RefDelta(_) => self.base_of(pack, offset, &entry)?,
            };
            if size.is_none() {
                let mut start = [0; 20];
                let len = self.inflate_start(state, pack, offset, offset + entry.len as u64, &mut start)?;
                let parsed = delta::parse_header(&start[..len]).map_err(|why| self.invalid(pack, offset, why))?;
                size = Some(parsed.result_size);
            }
            (pack, offset) = base;
            if cycle.closes((pack, offset)) {
                return Err(self.invalid(pack, offset, "its deltas go in a circle"));
            }
        }
    }

    /// Reads an object, or returns `None` where the store does not have it.
    ///
    /// # Errors
    /// Fails where the pack cannot be read or is damaged there, and where the object exceeds the size limit.
    pub fn read(&self, id: &oid) -> Result<Option<Object>> {
        match self.find(id)? {
            Some(at) => self.read_at(at).map(Some).map_err(|err| name_object(err, id)),
            None => Ok(None),
        }
    }

    /// Reads an object that must be there.
    ///
    /// # Errors
    /// As [`ObjectReader::read`], and [`Error::MissingObject`].
    pub fn require(&self, id: &oid) -> Result<Object> {
        self.read(id)?.ok_or_else(|| self.missing(id, ""))
    }

    /// Reads the object whose entry is at `at`.
    ///
    /// # Errors
    /// As [`ObjectReader::read`].
    pub fn read_at(&self, at: Location) -> Result<Object> {
        let state = &mut *self.state.borrow_mut();
        let (mut pack, mut offset) = (at.pack, at.offset);
        let mut chain: Vec<Link> = Vec::new();
        let mut cycle = CycleGuard::new((pack, offset));
        let (kind, mut data) = loop {
            if let Some(base) = state.bases.get((pack, offset)) {
                break base;
            }
            let entry = self.entry_header(state, pack, offset)?;
            let data_at = offset + entry.len as u64;
            if let EntryKind::Base(kind) = entry.kind {
                let mut data = Vec::new();
                self.inflate(state, pack, offset, data_at, entry.size, &mut data)?;
                let data = Arc::new(data);
                state.bases.insert((pack, offset), kind, &data);
                break (kind, data);
            }
            chain.push(Link {
                pack,
                offset,
                data_at,
                size: entry.size,
            });
            (pack, offset) = self.base_of(pack, offset, &entry)?;
            if cycle.closes((pack, offset)) {
                return Err(self.invalid(pack, offset, "its deltas go in a circle"));
            }
        };
        let mut delta = std::mem::take(&mut state.delta);
        while let Some(Link {
            pack,
            offset,
            data_at,
            size,
        }) = chain.pop()
        {
            self.inflate(state, pack, offset, data_at, size, &mut delta)?;
            let mut result = Vec::new();
            delta::apply(&data, &delta, self.options.object_limit, &mut result)
                .map_err(|why| self.invalid(pack, offset, why))?;
            data = Arc::new(result);
            state.bases.insert((pack, offset), kind, &data);
        }
        delta.shrink_to(delta::TRUSTED_CAPACITY);
        state.delta = delta;
        Ok(Object { kind, data })
    }

    /// Returns the chain of entries that the entry at `at` is made from: its delta base first, no delta last.
    pub(super) fn bases_of(&self, at: Location) -> Result<Vec<Place>> {
        let state = &mut *self.state.borrow_mut();
        let mut place = (at.pack, at.offset);
        let mut cycle = CycleGuard::new(place);
        let mut bases = Vec::new();
        loop {
            let entry = self.entry_header(state, place.0, place.1)?;
            if let EntryKind::Base(_) = entry.kind {
                return Ok(bases);
            }
            place = self.base_of(place.0, place.1, &entry)?;
            if cycle.closes(place) {
                return Err(self.invalid(place.0, place.1, "its deltas go in a circle"));
            }
            bases.push(place);
        }
    }

    /// Returns the offset at which the entry at `at` ends, found by inflating it.
    pub(super) fn entry_end(&self, at: Location) -> Result<u64> {
        let state = &mut *self.state.borrow_mut();
        let entry = self.entry_header(state, at.pack, at.offset)?;
        self.skip(state, at.pack, at.offset, at.offset + entry.len as u64, entry.size)
    }

    /// Returns the error that `id` is missing.
    pub(super) fn missing(&self, id: &oid, why: &str) -> Error {
        missing_object(self.store, id, why)
    }

    fn entry_header(&self, state: &mut State, pack: PackRank, offset: u64) -> Result<EntryHeader> {
        let mut bytes = [0; header::MAX_ENTRY_HEADER_LEN];
        let len = state.blocks.peek(self.store, pack, offset, &mut bytes)?;
        header::parse_entry_header(&bytes[..len], self.store.object_format())
            .map_err(|why| self.invalid(pack, offset, why))
    }

    /// Returns where the base of the delta entry at `offset` of `pack` is.
    fn base_of(&self, pack: PackRank, offset: u64, entry: &EntryHeader) -> Result<(PackRank, u64)> {
        match entry.kind {
            EntryKind::OfsDelta(distance) => header::base_offset(offset, distance)
                .map(|base| (pack, base))
                .map_err(|why| self.invalid(pack, offset, why)),
            EntryKind::RefDelta(base) => match self.find(&base)? {
                Some(at) => Ok((at.pack, at.offset)),
                None => Err(self.invalid(pack, offset, &format!("its delta base {base} is missing"))),
            },
            EntryKind::Base(_) => unreachable!("only deltas have a base"),
        }
    }

    fn invalid(&self, pack: PackRank, offset: u64, why: &str) -> Error {
        let why = format!("the entry at offset {offset} cannot be read: {why}");
        Error::InvalidPack {
            name: self.store.pack_name(pack),
            why,
        }
    }
}

/// Adds to an error about a pack which object was wanted.
fn name_object(err: Error, id: &oid) -> Error {
    match err {
        Error::InvalidPack { name, why } => Error::InvalidPack {
            name,
            why: format!("object {id}: {why}"),
        },
        other => other,
    }
}

/// Returns the name of an object.
///
/// # Errors
/// Fails where the content was made to collide with another's.
pub(super) fn id_of(format: gix_hash::Kind, kind: Kind, data: &[u8]) -> Result<ObjectId, String> {
    let mut hasher = gix_hash::hasher(format);
    hasher.update(format!("{kind} {}\0", data.len()).as_bytes());
    hasher.update(data);
    hasher.try_finalize().map_err(|error| error.to_string())
}

/// Checks that `object` is what its id says, in the object format of `store`.
///
/// # Errors
/// Fails with [`Error::MalformedObject`] where it is not.
pub fn check_id(store: &dyn PackStore, id: &oid, object: &Object) -> Result<()> {
    match id_of(store.object_format(), object.kind, &object.data) {
        Ok(found) if *found == *id => Ok(()),
        Ok(found) => Err(Error::MalformedObject {
            oid: id.to_owned(),
            why: format!("its content is that of object {found}"),
        }),
        Err(why) => Err(Error::MalformedObject {
            oid: id.to_owned(),
            why,
        }),
    }
}

/// Returns the error that `store` does not have `id`.
pub(super) fn missing_object(store: &dyn PackStore, id: &oid, why: &str) -> Error {
    Error::MissingObject {
        path: store.store_path(),
        oid: ObjectId::from(id),
        why: why.to_owned(),
    }
}

/// Finds out that a walk from base to base goes in a circle, in constant memory (Brent's algorithm).
///
/// Bases at an earlier offset cannot; bases named by id can, where an index lies.
struct CycleGuard {
    mark: (PackRank, u64),
    steps: u64,
    next_mark: u64,
}

impl CycleGuard {
    fn new(start: (PackRank, u64)) -> Self {
        CycleGuard {
            mark: start,
            steps: 0,
            next_mark: 1,
        }
    }

    fn closes(&mut self, place: (PackRank, u64)) -> bool {
        if place == self.mark {
            return true;
        }
        self.steps += 1;
        if self.steps == self.next_mark {
            self.mark = place;
            self.next_mark *= 2;
        }
        false
    }
}
