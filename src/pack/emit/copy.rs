//! Copies a whole stored pack.

use std::io::Write;

use gix_hash::hasher;

use super::sink::cannot_write;
use crate::{
    error::{Error, Result},
    pack::{PackRank, PackStore},
};

/// Bytes read and written at once.
const CHUNK: usize = 1 << 20;

/// Writes the whole of `pack` to `out`, byte for byte, and checks its trailing hash against [`PackStore::pack_id`] on the way.
///
/// `progress` is called after each MiB with the bytes written so far and in all.
///
/// # Errors
/// Fails where the pack cannot be read or is not what its trailer says (which is known only at the end: what was written
/// must then be thrown away), and where `out` cannot be written.
pub fn copy_verbatim(
    store: &dyn PackStore,
    pack: PackRank,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let (len, id) = (store.pack_len(pack), store.pack_id(pack));
    let invalid = |why: String| Error::InvalidPack {
        name: store.pack_name(pack),
        why,
    };
    let hash_len = id.as_slice().len() as u64;
    let hashed_len = len
        .checked_sub(hash_len)
        .ok_or_else(|| invalid("it is too short for its trailer".into()))?;
    let mut hasher = hasher(id.kind());
    let mut chunk = vec![0; CHUNK];
    let mut at = 0;
    while at < hashed_len {
        let part = &mut chunk[..(CHUNK as u64).min(hashed_len - at) as usize];
        store.read_exact_at(pack, at, part)?;
        hasher.update(part);
        out.write_all(part).map_err(cannot_write)?;
        at += part.len() as u64;
        progress(at, len);
    }
    let found = hasher.try_finalize().map_err(|err| invalid(err.to_string()))?;
    let mut trailer = gix_hash::ObjectId::null(id.kind());
    store.read_exact_at(pack, hashed_len, trailer.as_mut_slice())?;
    if found != id || trailer != id {
        return Err(invalid(format!(
            "its content hashes to {found}, its trailer is {trailer}, but it should be {id}"
        )));
    }
    out.write_all(id.as_slice())
        .and_then(|()| out.flush())
        .map_err(cannot_write)?;
    progress(len, len);
    Ok(())
}
