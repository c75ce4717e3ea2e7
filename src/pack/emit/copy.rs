//! Copies a whole stored pack.

use std::io::Write;

use super::sink::Sink;
use crate::{
    error::{Error, Result},
    pack::{PackRank, PackStore},
};

/// Writes the whole of `pack` to `out`, byte for byte, and checks its trailing hash against [`PackStore::pack_id`] on the way.
///
/// `progress` is called now and then with the bytes written so far and in all.
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
    let (len, id) = (store.pack_len(pack)?, store.pack_id(pack)?);
    let invalid = |why: String| Error::InvalidPack {
        name: store.pack_name(pack),
        why,
    };
    let hash_len = id.as_slice().len() as u64;
    let hashed_len = len
        .checked_sub(hash_len)
        .ok_or_else(|| invalid("it is too short for its trailer".into()))?;
    let mut sink = Sink::new(out, id.kind());
    let mut at = 0;
    while at < hashed_len {
        at += sink.write_from(hashed_len - at, |buf| store.read_exact_at(pack, at, buf))?;
        progress(at, len);
    }
    let found = sink.hash()?;
    let mut trailer = gix_hash::ObjectId::null(id.kind());
    store.read_exact_at(pack, hashed_len, trailer.as_mut_slice())?;
    if found != id || trailer != id {
        return Err(invalid(format!(
            "its bytes changed: they hash to {found} and end with {trailer}"
        )));
    }
    sink.finish(&id)?;
    progress(len, len);
    Ok(())
}
