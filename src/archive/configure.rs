//! Changing the settings of an archive.

use std::path::Path;

use bstr::BString;

use super::{WritePolicy, prepare::Addition, writer::with_writer};
use crate::{
    error::{Error, Result},
    policy::{Policy, PolicyError},
};

/// Lets `change` change the settings of the archive at `path` under its lock, and stores them durably where they are others
/// than before. Returns what the user should know: warnings.
///
/// # Errors
/// Fails where `change` does, or the archive cannot be written to: nothing was changed then.
pub fn configure(
    path: &Path,
    actor: Option<BString>,
    mut policy: WritePolicy<'_>,
    change: impl FnOnce(&mut Policy) -> Result<(), PolicyError>,
) -> Result<Vec<String>> {
    with_writer(path, None, &mut policy, |writer, policy| {
        let before = writer.snapshot.policy();
        let mut after = before.clone();
        change(&mut after).map_err(|error| Error::Invalid(error.to_string()))?;
        if after == before {
            return Ok(writer.snapshot.warnings().to_vec());
        }
        let entries = after.entries().map(|(key, value)| (key.to_owned(), value.to_vec()));
        let addition = Addition {
            policy: Some(entries.collect()),
            actor,
            ..Addition::default()
        };
        writer.append(addition, policy)
    })
}
