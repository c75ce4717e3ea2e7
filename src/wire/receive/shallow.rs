//! Pushes from shallow clones: a reference whose history would be cut here is refused, and the others are taken.

use std::{io::BufWriter, path::Path};

use gix_hash::ObjectId;

use super::{Request, Snapshot, Spool, report::Status, store::SPOOL};
use crate::{
    Error, Result,
    pack::{
        PackStore,
        disk::{DiskPack, Layered},
        emit::emit,
        object::ObjectReader,
        select::{SelectOptions, select},
    },
};

/// Refuses the commands whose new values do not bring all of their history, given that `pack` as a whole does not.
///
/// Returns a pack of what the others need; `None` where that is nothing. `known` are the values that the client was shown.
///
/// # Errors
/// Fails where an object cannot be read, and where there is no room for the other pack.
pub(super) fn without_cut(
    snapshot: &Snapshot,
    pack: &DiskPack,
    request: &Request,
    known: &[ObjectId],
    statuses: &mut [Option<Status>],
    spool: Spool<'_>,
) -> Result<Option<DiskPack>> {
    let store = Layered::new(&[pack as &dyn PackStore, snapshot])?;
    let reader = ObjectReader::new(&store);
    let mut whole = Vec::new();
    for (command, status) in request.commands.iter().zip(statuses.iter_mut()) {
        if let (Some(new), None) = (command.new, &status) {
            match select(&reader, &[new], known, SelectOptions::default()) {
                Ok(_) => whole.push(new),
                Err(Error::MissingObject { .. }) => *status = Some(Status::No("shallow update not allowed".into())),
                Err(error) => return Err(error),
            }
        }
    }
    let set = select(&reader, &whole, known, SelectOptions::default())?;
    if set.is_empty() {
        return Ok(None);
    }
    let file = spool.make()?;
    let mut output = BufWriter::with_capacity(1 << 20, &file);
    let receipt = emit(&store, &set, &mut output, &mut |_, _| ()).map_err(|error| match error {
        // Of what is read, nothing is written.
        Error::Io {
            action: "write",
            source,
            ..
        } => spool.failed(source),
        error => error,
    })?;
    output.into_inner().map_err(|error| spool.failed(error.into_error()))?;
    DiskPack::with_file(file, Path::new(SPOOL), receipt.entries, receipt.pack_id).map(Some)
}
