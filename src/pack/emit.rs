//! Builds a pack of exactly the objects asked for.
//!
//! The pack is self-contained. An entry is copied byte for byte where it holds its object whole; a delta is copied where its
//! base is sent too, with a new header where the base is at another distance now. Any other object is built anew, as a
//! delta of a relative that is sent where there is one. Which base an object has decides how it is encoded, never what the pack contains.

mod copy;
mod encode;
mod order;
mod relatives;
mod sink;
mod window;

use std::io::Write;

use gix_hash::ObjectId;

use self::{encode::Encoder, order::Order, sink::Sink, window::Window};
use super::{EntryTable, PackRank, PackStore, header, object::ObjectReader, selection::Selection};
use crate::error::{Error, Result};

pub use self::{copy::copy_verbatim, sink::OUTPUT};

/// What became of an emission.
#[derive(Debug, Clone)]
pub struct Receipt {
    /// Bytes of the pack, from its header to its trailer.
    pub bytes: u64,
    /// Entries of the pack.
    pub objects: u64,
    /// Entries whose compressed data was copied.
    pub copied: u64,
    /// Entries that were built anew, because their delta's base is not in the pack.
    pub recompressed: u64,
    /// Objects of which the stored entry is damaged: they are in the pack, from another copy that the store has.
    pub healed: Vec<ObjectId>,
    /// The pack's trailing hash.
    pub pack_id: ObjectId,
    /// The entries of the new pack. Kinds and sizes are not filled in.
    pub entries: EntryTable,
}

/// Progress is told once in so many entries.
const PROGRESS_STEP: usize = 1024;

/// Writes a pack of exactly the objects of `set` to `out`, as version 2, in the order of packs and offsets.
///
/// The number of objects is known before the first byte is written. `progress` is called now and then with the number of
/// entries written so far and in all. Memory: about 100 bytes an object, 1 MiB, and what the largest rebuilt object needs.
///
/// # Errors
/// Fails where an entry is damaged (its stored CRC-32 does not fit, or what was rebuilt is not what its id says) and the store
/// has no sound copy of the object, where the store cannot be read, and where `out` cannot be written. What was written before is then no valid pack.
pub fn emit(
    store: &dyn PackStore,
    set: &Selection,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Receipt> {
    emit_with(&ObjectReader::new(store), set, Naming::Offset, out, progress)
}

/// How a delta names its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Naming {
    /// By distance: shorter, and quicker to read.
    #[default]
    Offset,
    /// By object id: for receivers that know nothing else. Nothing is made a delta that is none as stored.
    Id,
}

/// As [`emit`], with a reader whose caches may be warm already, and a choice of how deltas name their bases.
///
/// # Errors
/// As [`emit`].
pub fn emit_with(
    reader: &ObjectReader<'_>,
    set: &Selection,
    naming: Naming,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Receipt> {
    let store = reader.store();
    let order = Order::new(reader, set)?;
    let objects = u32::try_from(order.len()).map_err(|_| Error::Invalid("a pack cannot hold 2^32 objects".into()))?;
    let mut sink = Sink::new(out, store.object_format());
    sink.write(&header::pack_header(objects))?;
    let mut emitter = Emitter {
        store,
        order: &order,
        encoder: Encoder::new(reader, &order, naming),
        sink,
        written: Written {
            offsets: Vec::with_capacity(order.len()),
            crc32s: Vec::with_capacity(order.len()),
        },
        position: header::PACK_HEADER_LEN,
        run: Run {
            pack: 0,
            start: 0,
            end: 0,
        },
    };
    emitter.run(progress)?;
    let Emitter {
        encoder,
        mut sink,
        written,
        ..
    } = emitter;
    let (recompressed, healed) = encoder.finish();
    let pack_id = sink.hash()?;
    let bytes = sink.finish(&pack_id)?;
    let entries = order.table(&written);
    let objects = u64::from(objects);
    Ok(Receipt {
        bytes,
        objects,
        copied: objects - recompressed,
        recompressed,
        healed,
        pack_id,
        entries,
    })
}

/// What is known of the entries written so far, in the order of the new pack.
struct Written {
    /// Offsets in the new pack.
    offsets: Vec<u64>,
    /// CRC-32 of the entries as written.
    crc32s: Vec<u32>,
}

/// A part of a stored pack that was copied without gap or change, so that distances inside of it hold.
struct Run {
    pack: PackRank,
    start: u64,
    end: u64,
}

struct Emitter<'a, 's, 'o> {
    store: &'s dyn PackStore,
    order: &'a Order<'a>,
    encoder: Encoder<'a, 's>,
    sink: Sink<'o>,
    written: Written,
    /// The offset of the next entry in the new pack.
    position: u64,
    run: Run,
}

impl Emitter<'_, '_, '_> {
    fn run(&mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let (order, total) = (self.order, self.order.len() as u64);
        let mut window = Window::default();
        let mut at = 0;
        while at < order.len() {
            let last = window.load(self.store, order, at)?;
            if last == at {
                self.copy_large(at)?;
                at += 1;
                continue;
            }
            // Entries that go unchanged wait until they can go together.
            let mut unsent = order.start(at)..order.start(at);
            for index in at..last {
                let (start, end) = (order.start(index), order.end(index));
                let bytes = window.bytes(start, end);
                let crc32 = crc32fast::hash(bytes);
                let intact = crc32 == order.crc32(index);
                self.enter(order.pack(index), start);
                if unsent.end != start {
                    self.sink.write(window.bytes(unsent.start, unsent.end))?;
                    unsent = start..start;
                }
                if intact
                    && self
                        .encoder
                        .goes_unchanged(index, bytes, self.run.start, self.position, &self.written)?
                {
                    self.note(end - start, order.crc32(index));
                    self.run.end = end;
                    unsent.end = end;
                } else {
                    self.sink.write(window.bytes(unsent.start, unsent.end))?;
                    let (entry, rest): (&[u8], &[u8]) = if intact {
                        self.encoder.encode(index, bytes, self.position, &self.written)?
                    } else {
                        match self.encoder.rebuild(index, self.position, &self.written) {
                            Ok(entry) => (entry, &[]),
                            Err(err) => return Err(damaged(self.store, order, index, crc32, err)),
                        }
                    };
                    let mut crc32 = crc32fast::Hasher::new();
                    crc32.update(entry);
                    crc32.update(rest);
                    self.sink.write(entry)?;
                    self.sink.write(rest)?;
                    let (len, crc32) = ((entry.len() + rest.len()) as u64, crc32.finalize());
                    self.note(len, crc32);
                    unsent = end..end;
                    self.run = Run {
                        pack: order.pack(index),
                        start: end,
                        end,
                    };
                }
                if index % PROGRESS_STEP == 0 {
                    progress(index as u64, total);
                }
            }
            self.sink.write(window.bytes(unsent.start, unsent.end))?;
            at = last;
        }
        progress(total, total);
        Ok(())
    }

    /// Starts a new run unless the last one ends at `start` of `pack`.
    fn enter(&mut self, pack: PackRank, start: u64) {
        if self.run.pack != pack || self.run.end != start {
            self.run = Run {
                pack,
                start,
                end: start,
            };
        }
    }

    /// Notes that an entry of `len` bytes was, or will next be, written.
    fn note(&mut self, len: u64, crc32: u32) {
        self.written.offsets.push(self.position);
        self.written.crc32s.push(crc32);
        self.position += len;
    }

    /// Copies an entry that is too large to be held, or builds it anew. It is read twice: nothing unchecked is written.
    fn copy_large(&mut self, index: usize) -> Result<()> {
        let (store, pack) = (self.store, self.order.pack(index));
        let (start, end) = (self.order.start(index), self.order.end(index));
        let mut crc32 = crc32fast::Hasher::new();
        for_each_chunk(store, pack, start..end, |chunk| {
            crc32.update(chunk);
            Ok(())
        })?;
        let crc32 = crc32.finalize();
        let intact = crc32 == self.order.crc32(index);
        // More than any header, so that something is left of it.
        let mut head = [0; header::MAX_ENTRY_HEADER_LEN + 1];
        store.read_exact_at(pack, start, &mut head)?;
        self.enter(pack, start);
        let (entry, rest_at): (&[u8], u64) = if intact
            && self
                .encoder
                .goes_unchanged(index, &head, self.run.start, self.position, &self.written)?
        {
            self.run.end = end;
            (&[], start)
        } else {
            self.run = Run { pack, start: end, end };
            if intact {
                let (entry, rest) = self.encoder.encode(index, &head, self.position, &self.written)?;
                // What is left of the head is where the stored data starts; nothing is left of one that was rebuilt.
                (
                    entry,
                    if rest.is_empty() {
                        end
                    } else {
                        start + (head.len() - rest.len()) as u64
                    },
                )
            } else {
                match self.encoder.rebuild(index, self.position, &self.written) {
                    Ok(entry) => (entry, end),
                    Err(err) => return Err(damaged(store, self.order, index, crc32, err)),
                }
            }
        };
        let mut crc32 = crc32fast::Hasher::new();
        crc32.update(entry);
        self.sink.write(entry)?;
        let len = entry.len() as u64 + (end - rest_at);
        for_each_chunk(store, pack, rest_at..end, |chunk| {
            crc32.update(chunk);
            self.sink.write(chunk)
        })?;
        self.note(len, crc32.finalize());
        Ok(())
    }
}

/// Reads a part of a pack piece by piece.
fn for_each_chunk(
    store: &dyn PackStore,
    pack: PackRank,
    range: std::ops::Range<u64>,
    mut visit: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut chunk = vec![0; (window::LEN as u64).min(range.end - range.start) as usize];
    let mut at = range.start;
    while at < range.end {
        let part = &mut chunk[..(window::LEN as u64).min(range.end - at) as usize];
        store.read_exact_at(pack, at, part)?;
        visit(part)?;
        at += part.len() as u64;
    }
    Ok(())
}

/// Returns the error that an entry is damaged and, as `err` says, could not be built from elsewhere.
fn damaged(store: &dyn PackStore, order: &Order<'_>, index: usize, found: u32, err: Error) -> Error {
    if let Error::Io { .. } = err {
        return err;
    }
    let (id, offset, expected) = (order.oid(index), order.start(index), order.crc32(index));
    Error::InvalidPack {
        name: store.pack_name(order.pack(index)),
        why: format!(
            "object {id}: the entry at offset {offset} is damaged (CRC-32 {found:08x}, expected {expected:08x}), and there is no other copy of it"
        ),
    }
}
