//! The packs of a transaction, before they are part of the archive.

use gix_hash::{Kind as Format, ObjectId, oid};

use super::NewPack;
use crate::{
    error::{Error, Result},
    pack::{EntryTable, Location, PackRank, PackStore},
};

/// git's number of a commit's kind.
const COMMIT: u8 = 1;

/// The packs of a transaction as a store.
pub struct Incoming<'a> {
    packs: &'a [NewPack],
    format: Format,
}

impl<'a> Incoming<'a> {
    /// Takes the packs of an archive of object format `format`.
    pub fn new(packs: &'a [NewPack], format: Format) -> Incoming<'a> {
        Incoming { packs, format }
    }

    /// Returns whether a pack has the object.
    pub fn has(&self, id: &oid) -> bool {
        self.packs.iter().any(|pack| pack.entries.find(id).is_some())
    }

    /// Returns whether the object is a commit, where a pack has it and it was resolved.
    pub fn is_commit(&self, id: &oid) -> Option<bool> {
        self.packs.iter().find_map(|pack| {
            let kind = *pack.entries.kinds.get(pack.entries.find(id)?)?;
            (kind != 0).then_some(kind == COMMIT)
        })
    }

    fn pack(&self, pack: PackRank) -> &'a NewPack {
        &self.packs[pack as usize]
    }
}

impl PackStore for Incoming<'_> {
    fn object_format(&self) -> Format {
        self.format
    }
    fn packs(&self) -> PackRank {
        self.packs.len() as PackRank
    }
    fn pack_len(&self, pack: PackRank) -> Result<u64> {
        Ok(self.pack(pack).data.len().unwrap_or(0))
    }
    fn pack_id(&self, pack: PackRank) -> Result<ObjectId> {
        Ok(self.pack(pack).id)
    }
    fn pack_name(&self, pack: PackRank) -> String {
        self.pack(pack).path.display().to_string()
    }
    fn read_exact_at(&self, pack: PackRank, offset: u64, buf: &mut [u8]) -> Result<()> {
        let pack = self.pack(pack);
        pack.data
            .read_exact_at(buf, offset)
            .map_err(Error::io(&pack.path, "read"))
    }
    fn lookup(&self, id: &oid) -> Result<Option<Location>> {
        let found = self.packs.iter().enumerate().find_map(|(rank, pack)| {
            let row = pack.entries.find(id)?;
            Some(Location {
                pack: rank as PackRank,
                offset: pack.entries.offsets[row],
                crc32: pack.entries.crc32s[row],
            })
        });
        Ok(found)
    }
    fn entries(&self, pack: PackRank) -> Result<std::sync::Arc<EntryTable>> {
        Ok(std::sync::Arc::new(self.pack(pack).entries.clone()))
    }
}
