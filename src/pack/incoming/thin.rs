//! Thin packs: some deltas are made from objects that the sender left out, because it knows that they are here. What is stored
//! needs no other pack, so these objects are added to it.

use std::{fs::File, os::unix::fs::FileExt};

use gix_hash::{Kind as Format, ObjectId, oid};

use super::{Entry, IncomingError, Limits};
use crate::pack::{
    PackStore,
    deflate::Deflater,
    header::{EntryKind, write_entry_header},
    object::{Object, ObjectReader, ReaderOptions, check_id},
    whole::seal,
};

/// Objects that are here already.
pub(super) struct Lender<'a> {
    reader: ObjectReader<'a>,
    /// The most bytes of an object.
    most: u64,
}

impl<'a> Lender<'a> {
    /// Takes the objects of `store` that are not larger than `most`.
    pub fn new(store: &'a dyn PackStore, most: u64) -> Lender<'a> {
        let options = ReaderOptions {
            object_limit: most,
            ..ReaderOptions::default()
        };
        Lender {
            reader: ObjectReader::with_options(store, options),
            most,
        }
    }

    /// Returns an object, whose content is what its name says; `None` where it is not here.
    ///
    /// # Errors
    /// Fails where it is too large, and where no good copy of it can be read.
    pub fn read(&self, id: &oid) -> Result<Option<Object>, IncomingError> {
        let unreadable = |source| IncomingError::Base {
            oid: id.to_owned(),
            source: Box::new(source),
        };
        let Some((_, size)) = self.reader.header(id).map_err(unreadable)? else {
            return Ok(None);
        };
        if size > self.most {
            return Err(IncomingError::BaseTooLarge {
                oid: id.to_owned(),
                size,
                limit: self.most,
            });
        }
        let object = self.reader.require(id).map_err(unreadable)?;
        check_id(self.reader.store(), id, &object).map_err(unreadable)?;
        Ok(Some(object))
    }
}

/// A pack in the file `spool` that lacks objects.
pub(super) struct Thin<'a> {
    pub spool: &'a File,
    pub format: Format,
    /// Its entries so far, of which the last ends at `end`.
    pub entries: &'a mut Vec<Entry>,
    pub ids: &'a mut Vec<Option<ObjectId>>,
    pub end: u64,
}

impl Thin<'_> {
    /// Adds `missing` behind the last entry, and returns the new hash that ends the pack.
    ///
    /// # Errors
    /// Fails where an object cannot be read, where the pack becomes larger than the limits allow, and where the file fails.
    pub fn complete(
        &mut self,
        missing: &[ObjectId],
        lender: &Lender<'_>,
        limits: Limits,
    ) -> Result<ObjectId, IncomingError> {
        let mut deflater = Deflater::default();
        let mut bytes = Vec::new();
        for id in missing {
            let object = lender.read(id)?.ok_or_else(|| IncomingError::needs(id))?;
            bytes.clear();
            let (kind, size) = (EntryKind::Base(object.kind), object.data.len() as u64);
            write_entry_header(kind, size, &mut bytes);
            let header_len = bytes.len() as u32;
            deflater
                .append(&object.data, &mut bytes)
                .map_err(IncomingError::Spool)?;
            if self.end + (bytes.len() + self.format.len_in_bytes()) as u64 > limits.pack {
                return Err(IncomingError::TooLarge);
            }
            // The first of them takes the place of the hash that ended the pack.
            self.spool
                .write_all_at(&bytes, self.end)
                .map_err(IncomingError::Spool)?;
            self.entries.push(Entry {
                offset: self.end,
                crc32: crc32fast::hash(&bytes),
                header_len,
                size,
                kind,
            });
            self.ids.push(Some(*id));
            self.end += bytes.len() as u64;
        }
        let count = u32::try_from(self.entries.len())
            .map_err(|_| IncomingError::Invalid("a pack cannot hold 2^32 objects".into()))?;
        seal(self.spool, count, self.end, self.format).map_err(IncomingError::Spool)
    }
}
