//! The second pass: every delta is built from its base, which gives it its name.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    os::unix::fs::FileExt,
    sync::Arc,
};

use gix_hash::{Kind as Format, ObjectId};
use gix_zlib::{Decompress, FlushDecompress, Status};

use super::{Entry, IncomingError, stream::invalid, thin::Lender};
use crate::pack::{
    Kind, delta,
    header::{self, EntryKind},
    object::id_of,
};

/// Names the deltas among `entries`. Those that are none have their names in `ids`; the last entry ends at `end`. Bases that are
/// not in the pack are taken from `lender`.
///
/// Returns the bases that the pack lacks.
///
/// # Errors
/// Fails where a base is nowhere, or a delta was not made for it.
pub(super) fn name(
    spool: &File,
    format: Format,
    entries: &[Entry],
    end: u64,
    most: u64,
    lender: Option<&Lender<'_>>,
    ids: &mut [Option<ObjectId>],
) -> Result<Vec<ObjectId>, IncomingError> {
    let mut waiting = Waiting::new(entries)?;
    let mut builder = Builder {
        spool,
        format,
        entries,
        end,
        most,
        inflate: Decompress::new(),
    };
    for at in 0..entries.len() {
        let (EntryKind::Base(kind), Some(id)) = (entries[at].kind, ids[at]) else {
            continue;
        };
        let children = waiting.take(at, &id);
        if children.is_empty() {
            continue;
        }
        let data = Arc::new(builder.inflate(at)?);
        builder.name_family(kind, data, children, &mut waiting, ids)?;
    }
    let mut lent = Vec::new();
    if let Some(lender) = lender {
        for at in 0..entries.len() {
            // One that is not here either may be made from another that is.
            if let (EntryKind::RefDelta(base), None) = (entries[at].kind, ids[at])
                && let Some(object) = lender.read(&base)?
            {
                let children = waiting.by_id.remove(&base).unwrap_or_default();
                builder.name_family(object.kind, object.data, children, &mut waiting, ids)?;
                lent.push(base);
            }
        }
    }
    if let Some(at) = ids.iter().position(Option::is_none) {
        return Err(match entries[at].kind {
            EntryKind::RefDelta(base) => IncomingError::needs(&base),
            _ => invalid(entries[at].offset, "no object leads to it"),
        });
    }
    if !lent.is_empty() {
        let own: HashSet<ObjectId> = ids.iter().flatten().copied().collect();
        let before = lent.len();
        lent.retain(|id| !own.contains(id));
        // What was built from an object that was here already may be that very object's way to be built.
        if lent.len() < before
            && let Some(at) = circle(entries, ids)
        {
            return Err(invalid(entries[at].offset, "the chain of its bases goes in a circle"));
        }
    }
    Ok(lent)
}

/// Returns an entry from which the chain of bases within the pack goes in a circle, if there is one.
fn circle(entries: &[Entry], ids: &[Option<ObjectId>]) -> Option<usize> {
    let places: HashMap<ObjectId, usize> = ids.iter().flatten().copied().zip(0..).collect();
    let base_of = |entry: &Entry| match entry.kind {
        EntryKind::Base(_) => None,
        EntryKind::RefDelta(id) => places.get(&id).copied(),
        EntryKind::OfsDelta(distance) => {
            let base = header::base_offset(entry.offset, distance).ok()?;
            entries.binary_search_by_key(&base, |entry| entry.offset).ok()
        }
    };
    let mut ends = vec![false; entries.len()];
    let mut chain = Vec::new();
    for start in 0..entries.len() {
        let mut next = Some(start);
        while let Some(at) = next.filter(|at| !ends[*at]) {
            if chain.len() == entries.len() {
                return Some(start);
            }
            chain.push(at);
            next = base_of(&entries[at]);
        }
        chain.drain(..).for_each(|at| ends[at] = true);
    }
    None
}

/// Deltas that wait for their base.
struct Waiting {
    by_entry: HashMap<usize, Vec<usize>>,
    by_id: HashMap<ObjectId, Vec<usize>>,
}

impl Waiting {
    fn new(entries: &[Entry]) -> Result<Waiting, IncomingError> {
        let mut waiting = Waiting {
            by_entry: HashMap::new(),
            by_id: HashMap::new(),
        };
        for (at, entry) in entries.iter().enumerate() {
            match entry.kind {
                EntryKind::Base(_) => {}
                EntryKind::RefDelta(base) => waiting.by_id.entry(base).or_default().push(at),
                EntryKind::OfsDelta(distance) => {
                    let base = header::base_offset(entry.offset, distance).map_err(|why| invalid(entry.offset, why))?;
                    let base = entries[..at]
                        .binary_search_by_key(&base, |entry| entry.offset)
                        .map_err(|_| invalid(entry.offset, "its delta base is no entry of the pack"))?;
                    waiting.by_entry.entry(base).or_default().push(at);
                }
            }
        }
        Ok(waiting)
    }

    /// Returns the deltas that are made from entry `at`, whose object is `id`.
    fn take(&mut self, at: usize, id: &ObjectId) -> Vec<usize> {
        let mut children = self.by_entry.remove(&at).unwrap_or_default();
        children.extend(self.by_id.remove(id).into_iter().flatten());
        children
    }
}

/// Builds objects from the stored pack.
struct Builder<'a> {
    spool: &'a File,
    format: Format,
    entries: &'a [Entry],
    end: u64,
    most: u64,
    inflate: Decompress,
}

impl Builder<'_> {
    /// Returns the inflated data of an entry. Its size was found to be right in the first pass.
    fn inflate(&mut self, at: usize) -> Result<Vec<u8>, IncomingError> {
        let entry = &self.entries[at];
        let start = entry.offset + u64::from(entry.header_len);
        let end = self.entries.get(at + 1).map_or(self.end, |next| next.offset);
        let mut packed = vec![0; (end - start) as usize];
        self.spool
            .read_exact_at(&mut packed, start)
            .map_err(IncomingError::Spool)?;
        // One byte more, so that an empty object has room to end in.
        let mut data = vec![0; entry.size as usize + 1];
        self.inflate.reset();
        let status = self.inflate.decompress(&packed, &mut data, FlushDecompress::Finish);
        if !matches!(status, Ok(Status::StreamEnd)) || self.inflate.total_out() != entry.size {
            return Err(invalid(entry.offset, "its compressed data changed on the disk"));
        }
        data.pop();
        Ok(data)
    }

    /// Names `children`, deltas made from an object of `kind` that is `data`, and all that is made from them.
    fn name_family(
        &mut self,
        kind: Kind,
        data: Arc<Vec<u8>>,
        children: Vec<usize>,
        waiting: &mut Waiting,
        ids: &mut [Option<ObjectId>],
    ) -> Result<(), IncomingError> {
        let mut open: Vec<_> = children.into_iter().map(|child| (child, Arc::clone(&data))).collect();
        drop(data);
        // Depth first, so that few bases are held at a time.
        while let Some((child, base)) = open.pop() {
            let built = Arc::new(self.build(child, &base)?);
            let id = id_of(self.format, kind, &built).map_err(|why| invalid(self.entries[child].offset, &why))?;
            ids[child] = Some(id);
            let children = waiting.take(child, &id);
            open.extend(children.into_iter().map(|child| (child, Arc::clone(&built))));
        }
        Ok(())
    }

    fn build(&mut self, at: usize, base: &[u8]) -> Result<Vec<u8>, IncomingError> {
        let delta = self.inflate(at)?;
        let wrong = |why| invalid(self.entries[at].offset, why);
        let size = delta::parse_header(&delta).map_err(wrong)?.result_size;
        if size > self.most {
            let limit = self.most;
            return Err(IncomingError::ObjectTooLarge { size, limit });
        }
        let mut data = Vec::new();
        delta::apply(base, &delta, self.most, &mut data).map_err(wrong)?;
        Ok(data)
    }
}
