//! The bytes of a pack that is to be stored.

use std::{fs::File, os::unix::fs::FileExt, sync::Arc};

use gix_hash::{Kind, ObjectId};

use crate::error::{Error, Result};

/// Where the bytes of a new pack are.
#[allow(clippy::len_without_is_empty, reason = "a pack is never empty")]
pub enum PackData {
    /// A file on the local disk, read from its start and not needed after the commit. Its bytes are checked against the pack's
    /// trailing hash while they are copied.
    File(File),
    /// In memory. Shared, not copied.
    Checked(Arc<CheckedPack>),
}

impl From<File> for PackData {
    fn from(file: File) -> Self {
        PackData::File(file)
    }
}

impl From<CheckedPack> for PackData {
    fn from(pack: CheckedPack) -> Self {
        PackData::Checked(Arc::new(pack))
    }
}

impl PackData {
    /// Returns the length in bytes.
    pub fn len(&self) -> std::io::Result<u64> {
        Ok(match self {
            PackData::File(file) => file.metadata()?.len(),
            PackData::Checked(pack) => pack.bytes.len() as u64,
        })
    }

    /// Fills `buf` from `offset`. Ending before `buf` is full is an error.
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
        match self {
            PackData::File(file) => file.read_exact_at(buf, offset),
            PackData::Checked(pack) => {
                let start = usize::try_from(offset).ok().filter(|start| *start <= pack.bytes.len());
                let bytes = start.and_then(|start| pack.bytes[start..].get(..buf.len()));
                buf.copy_from_slice(bytes.ok_or(std::io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }

    /// Returns another handle to the same bytes.
    pub fn try_clone(&self) -> std::io::Result<PackData> {
        Ok(match self {
            PackData::File(file) => PackData::File(file.try_clone()?),
            PackData::Checked(pack) => PackData::Checked(pack.clone()),
        })
    }
}

/// The bytes of a pack, which have the hash that they end with.
///
/// Whoever receives a pack hashes it as it comes in; then nobody needs to do it again.
pub struct CheckedPack {
    bytes: Vec<u8>,
    id: ObjectId,
}

impl CheckedPack {
    /// Checks the trailing hash.
    ///
    /// # Errors
    /// Fails where the bytes do not have the hash that they end with. `name` is what to call them then.
    pub fn new(bytes: Vec<u8>, format: Kind, name: &str) -> Result<CheckedPack> {
        let invalid = |why: &str| Error::InvalidPack {
            name: name.into(),
            why: why.into(),
        };
        let body = bytes
            .len()
            .checked_sub(format.len_in_bytes())
            .ok_or_else(|| invalid("too short"))?;
        let mut hasher = gix_hash::hasher(format);
        hasher.update(&bytes[..body]);
        match hasher.try_finalize() {
            Ok(id) if id.as_slice() == &bytes[body..] => Ok(CheckedPack { bytes, id }),
            _ => Err(invalid("its bytes do not have the hash that it ends with")),
        }
    }

    /// Returns the trailing hash.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Returns the bytes, from the header to the trailing hash.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
