//! A pack and its index on the local disk, and stores in a row.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use gix_hash::{ObjectId, oid};

use super::{CommitNode, DamagedEntries, EntryTable, Location, PackRank, PackStore, header, idx};
use crate::error::{Error, Result};

/// A `.pack` with its `.idx` (version 2) as a store of one pack.
///
/// The index is read and checked on opening and then kept in memory; pack bytes are read with `pread`, never mapped.
pub struct DiskPack {
    file: File,
    path: PathBuf,
    len: u64,
    id: ObjectId,
    format: gix_hash::Kind,
    fan_out: Box<[u32; 256]>,
    entries: Arc<EntryTable>,
}

impl DiskPack {
    /// Opens the pack at `pack` and the index beside it (the same name ending in `.idx`).
    ///
    /// # Errors
    /// Fails where a file cannot be read, where the index contradicts itself or the pack, or where the pack's header or
    /// trailer is not what the index says. The pack's content is not hashed.
    pub fn open(pack: &Path, format: gix_hash::Kind) -> Result<DiskPack> {
        DiskPack::open_with_index(pack, &pack.with_extension("idx"), format)
    }

    /// Opens the pack at `pack` with the index at `index`.
    ///
    /// # Errors
    /// As [`DiskPack::open`].
    pub fn open_with_index(pack: &Path, index: &Path, format: gix_hash::Kind) -> Result<DiskPack> {
        let data = std::fs::read(index).map_err(Error::io(index, "read"))?;
        let idx::PackIndex { entries, pack_id, .. } = idx::read(&data, format).map_err(|why| Error::InvalidPack {
            name: index.display().to_string(),
            why,
        })?;
        DiskPack::with_entries(pack, entries, pack_id)
    }

    /// Opens the pack at `pack`, whose entries are known already.
    ///
    /// # Errors
    /// As [`DiskPack::open`], apart from the index.
    pub fn with_entries(pack: &Path, entries: EntryTable, pack_id: ObjectId) -> Result<DiskPack> {
        let file = File::open(pack).map_err(Error::io(pack, "open"))?;
        DiskPack::with_file(file, pack, entries, pack_id)
    }

    /// Takes an open pack, to be called `pack`, whose entries are known already.
    ///
    /// # Errors
    /// As [`DiskPack::with_entries`].
    pub fn with_file(file: File, pack: &Path, entries: EntryTable, pack_id: ObjectId) -> Result<DiskPack> {
        let len = file.metadata().map_err(Error::io(pack, "read the size of"))?.len();
        let format = pack_id.kind();
        let mut it = DiskPack {
            file,
            path: pack.to_owned(),
            len,
            id: pack_id,
            format,
            fan_out: Box::new([0; 256]),
            entries: Arc::new(entries),
        };
        it.check()?;
        it.fan_out = Box::new(idx::fan_out(&it.entries));
        Ok(it)
    }

    fn check(&self) -> Result<()> {
        let hash_len = self.format.len_in_bytes() as u64;
        if self.len < header::PACK_HEADER_LEN + hash_len {
            return Err(self.invalid(format!("{} bytes are too few for a pack", self.len)));
        }
        let mut head = [0; header::PACK_HEADER_LEN as usize];
        self.read_exact_at(0, 0, &mut head)?;
        let objects = header::parse_pack_header(&head).map_err(|why| self.invalid(why))?;
        if objects as usize != self.entries.len() {
            let listed = self.entries.len();
            return Err(self.invalid(format!("its header counts {objects} objects, its index {listed}")));
        }
        let mut trailer = ObjectId::null(self.format);
        self.read_exact_at(0, self.len - hash_len, trailer.as_mut_slice())?;
        if trailer != self.id {
            return Err(self.invalid(format!("its trailer is {trailer}, its index expects {}", self.id)));
        }
        let end = self.len - hash_len;
        match self
            .entries
            .offsets
            .iter()
            .find(|&&offset| offset < header::PACK_HEADER_LEN || offset >= end)
        {
            None => Ok(()),
            Some(offset) => Err(self.invalid(format!("offset {offset} in its index is outside of it"))),
        }
    }

    /// Returns the path of the pack.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open pack file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the pack's entries without a copy.
    pub fn table(&self) -> &Arc<EntryTable> {
        &self.entries
    }

    /// Returns the file, its path, its id and its entries, to be stored elsewhere.
    pub fn into_parts(self) -> (File, PathBuf, ObjectId, Arc<EntryTable>) {
        (self.file, self.path, self.id, self.entries)
    }

    fn invalid(&self, why: String) -> Error {
        Error::InvalidPack {
            name: self.path.display().to_string(),
            why,
        }
    }
}

impl PackStore for DiskPack {
    fn object_format(&self) -> gix_hash::Kind {
        self.format
    }
    fn packs(&self) -> PackRank {
        1
    }
    fn pack_len(&self, _pack: PackRank) -> Result<u64> {
        Ok(self.len)
    }
    fn pack_id(&self, _pack: PackRank) -> Result<ObjectId> {
        Ok(self.id)
    }
    fn pack_name(&self, _pack: PackRank) -> String {
        self.path.display().to_string()
    }
    fn store_path(&self) -> PathBuf {
        self.path.clone()
    }
    fn read_exact_at(&self, _pack: PackRank, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(buf, offset)
            .map_err(|source| match source.kind() {
                io::ErrorKind::UnexpectedEof => self.invalid(format!(
                    "it ends before byte {}",
                    offset.saturating_add(buf.len() as u64)
                )),
                _ => Error::Io {
                    path: self.path.clone(),
                    action: "read",
                    source,
                },
            })
    }
    fn lookup(&self, id: &oid) -> Result<Option<Location>> {
        Ok(idx::find(&self.entries, &self.fan_out, id).map(|row| Location {
            pack: 0,
            offset: self.entries.offsets[row],
            crc32: self.entries.crc32s[row],
        }))
    }
    fn entries(&self, _pack: PackRank) -> Result<Arc<EntryTable>> {
        Ok(Arc::clone(&self.entries))
    }
}

/// Several stores in a row as one: packs of earlier stores rank before those of later ones.
pub struct Layered<'a> {
    /// Each store with the rank of its first pack.
    layers: Vec<(PackRank, &'a dyn PackStore)>,
    packs: PackRank,
    format: gix_hash::Kind,
}

impl<'a> Layered<'a> {
    /// Puts `stores` in a row, lowest rank first.
    ///
    /// # Errors
    /// Fails where there is no store, or where their object formats differ.
    pub fn new(stores: &[&'a dyn PackStore]) -> Result<Layered<'a>> {
        let format = match stores.first() {
            Some(store) => store.object_format(),
            None => return Err(Error::Invalid("no store of packs was given".into())),
        };
        let mut packs: PackRank = 0;
        let mut layers = Vec::with_capacity(stores.len());
        for &store in stores {
            if store.object_format() != format {
                return Err(Error::Invalid(
                    "packs of different object formats cannot be mixed".into(),
                ));
            }
            layers.push((packs, store));
            packs = packs
                .checked_add(store.packs())
                .ok_or_else(|| Error::Invalid("more than 2^32 packs".into()))?;
        }
        Ok(Layered { layers, packs, format })
    }

    /// Returns the store that holds `pack`, and the pack's rank in it.
    fn layer(&self, pack: PackRank) -> (PackRank, &'a dyn PackStore) {
        let at = self.layers.partition_point(|&(first, _)| first <= pack);
        // A store without packs starts at the same rank as the one after it, which is the later of the two.
        let (first, store) = self.layers[at - 1];
        (pack - first, store)
    }
}

impl PackStore for Layered<'_> {
    fn object_format(&self) -> gix_hash::Kind {
        self.format
    }
    fn packs(&self) -> PackRank {
        self.packs
    }
    fn pack_len(&self, pack: PackRank) -> Result<u64> {
        let (pack, store) = self.layer(pack);
        store.pack_len(pack)
    }
    fn pack_id(&self, pack: PackRank) -> Result<ObjectId> {
        let (pack, store) = self.layer(pack);
        store.pack_id(pack)
    }
    fn pack_name(&self, pack: PackRank) -> String {
        let (pack, store) = self.layer(pack);
        store.pack_name(pack)
    }
    fn store_path(&self) -> PathBuf {
        self.layers[0].1.store_path()
    }
    fn read_exact_at(&self, pack: PackRank, offset: u64, buf: &mut [u8]) -> Result<()> {
        let (pack, store) = self.layer(pack);
        store.read_exact_at(pack, offset, buf)
    }
    fn lookup(&self, id: &oid) -> Result<Option<Location>> {
        for &(first, store) in &self.layers {
            if let Some(at) = store.lookup(id)? {
                return Ok(Some(Location {
                    pack: first + at.pack,
                    ..at
                }));
            }
        }
        Ok(None)
    }
    fn damaged_entries(&self) -> Result<Option<Arc<DamagedEntries>>> {
        let mut all = DamagedEntries::default();
        for &(first, store) in &self.layers {
            for ((pack, offset), id) in store.damaged_entries()?.iter().flat_map(|entries| entries.iter()) {
                all.insert((first + pack, *offset), *id);
            }
        }
        Ok((!all.is_empty()).then(|| Arc::new(all)))
    }
    fn commit_node(&self, id: &oid) -> Result<Option<CommitNode>> {
        for (index, (_, store)) in self.layers.iter().enumerate() {
            // The last one is not asked whether it has the commit: it says so itself, if it knows.
            if index + 1 == self.layers.len() || store.lookup(id)?.is_some() {
                return store.commit_node(id);
            }
        }
        Ok(None)
    }
    fn entries(&self, pack: PackRank) -> Result<Arc<EntryTable>> {
        let (pack, store) = self.layer(pack);
        store.entries(pack)
    }
}
