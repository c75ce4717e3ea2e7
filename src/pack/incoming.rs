//! A pack that comes as a stream: it is stored as it comes and indexed, so that it is known to be whole.
//!
//! The first pass goes with the stream: it finds where each entry ends, hashes what is no delta, and leaves the stream right
//! behind the pack, where the sender may wait for an answer. The second builds every delta from its base, to name it. Where the
//! sender left bases out, these are then added.

mod deltas;
mod stream;
mod thin;

use std::{
    fs::File,
    io::{self, BufRead, BufWriter, Write},
};

use gix_hash::{Kind as Format, ObjectId};

use self::{
    stream::Stream,
    thin::{Lender, Thin},
};
use super::{EntryTable, PackStore, header, header::EntryKind};

/// What to accept.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most bytes of the pack.
    pub pack: u64,
    /// The most bytes of an object.
    pub object: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            pack: u64::MAX,
            object: 4 << 30,
        }
    }
}

/// A pack that was received.
#[derive(Debug)]
pub struct Received {
    /// The trailing hash, which is that of the bytes: not the one that came where objects were added.
    pub id: ObjectId,
    /// Where each object is. Kinds and sizes are left to who resolves the pack.
    pub entries: EntryTable,
}

/// Why a pack was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum IncomingError {
    /// The stream ended or failed.
    #[error("the pack was cut off: {0}")]
    Stream(#[source] io::Error),
    /// The file that it goes into failed.
    #[error("cannot store the pack: {0}")]
    Spool(#[source] io::Error),
    /// It is no pack, or one that needs others.
    #[error("{0}")]
    Invalid(String),
    /// It is larger than the limits allow. The words are those of git's own server.
    #[error("pack exceeds maximum allowed size")]
    TooLarge,
    /// An object in it is larger than the limits allow.
    #[error("an object of {size} bytes exceeds the limit of {limit}")]
    ObjectTooLarge { size: u64, limit: u64 },
    /// An object that a delta is made from is larger than the limits allow.
    #[error(
        "the pack needs object {oid}, whose {size} bytes exceed the limit of {limit} (git push --no-thin needs no others)"
    )]
    BaseTooLarge { oid: ObjectId, size: u64, limit: u64 },
    /// No good copy of an object that a delta is made from can be read.
    #[error("the pack needs object {oid}, which cannot be read: {source} (git push --no-thin needs no others)")]
    Base {
        oid: ObjectId,
        #[source]
        source: Box<crate::Error>,
    },
}

impl IncomingError {
    /// Returns the error that nobody has the object that a delta is made from.
    fn needs(id: &ObjectId) -> IncomingError {
        IncomingError::Invalid(format!(
            "the pack needs object {id}, which is neither in it nor here already"
        ))
    }
}

/// An entry of the pack, in the order of the stream.
struct Entry {
    offset: u64,
    crc32: u32,
    /// Where the compressed data starts, counted from `offset`.
    header_len: u32,
    /// Bytes of the inflated data.
    size: u64,
    kind: EntryKind,
}

/// Reads one pack from `input` into the empty file `spool`, and returns what is in it.
///
/// Deltas may be made from objects that only `here` has: these are added at the end, so that what is in `spool` needs no other
/// pack.
///
/// # Errors
/// Fails for anything but a pack within the limits, which is within them with what is added, too. What is in `spool` then is of
/// no use.
pub fn receive(
    input: &mut dyn BufRead,
    spool: &File,
    format: Format,
    limits: Limits,
    here: Option<&dyn PackStore>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Received, IncomingError> {
    let mut stream = Stream::new(input, BufWriter::with_capacity(1 << 18, spool), format, limits.pack);
    let mut head = [0; header::PACK_HEADER_LEN as usize];
    stream.bytes(&mut head)?;
    let count = header::parse_pack_header(&head).map_err(IncomingError::Invalid)?;
    let mut entries = Vec::new();
    let mut ids = Vec::new();
    for done in 0..u64::from(count) {
        let (entry, id) = stream.entry(limits.object)?;
        entries.push(entry);
        ids.push(id);
        if done.is_multiple_of(1024) {
            progress(done, u64::from(count));
        }
    }
    let (mut id, end) = stream.trailer()?;
    let lender = here.map(|store| Lender::new(store, limits.object));
    let missing = deltas::name(spool, format, &entries, end, limits.object, lender.as_ref(), &mut ids)?;
    if let (Some(lender), false) = (&lender, missing.is_empty()) {
        let mut thin = Thin {
            spool,
            format,
            entries: &mut entries,
            ids: &mut ids,
            end,
        };
        id = thin.complete(&missing, lender, limits)?;
    }
    progress(u64::from(count), u64::from(count));
    let ids = ids.into_iter().map(|id| id.expect("every delta was built"));
    Ok(Received {
        id,
        entries: table(&entries, ids.collect(), format)?,
    })
}

/// Returns the entries sorted by id.
fn table(entries: &[Entry], ids: Vec<ObjectId>, format: Format) -> Result<EntryTable, IncomingError> {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_unstable_by_key(|at| ids[*at]);
    if let Some(twice) = order.windows(2).find(|pair| ids[pair[0]] == ids[pair[1]]) {
        return Err(IncomingError::Invalid(format!(
            "object {} is in the pack twice",
            ids[twice[0]]
        )));
    }
    let mut table = EntryTable {
        oid_len: format.len_in_bytes(),
        ..EntryTable::default()
    };
    for at in order {
        table.oids.extend_from_slice(ids[at].as_slice());
        table.offsets.push(entries[at].offset);
        table.crc32s.push(entries[at].crc32);
    }
    Ok(table)
}

/// Writes to the spool.
fn store(out: &mut impl Write, bytes: &[u8]) -> Result<(), IncomingError> {
    out.write_all(bytes).map_err(IncomingError::Spool)
}
