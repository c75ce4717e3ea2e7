//! git's rules for reference names.

use bstr::{BStr, ByteSlice};

/// Checks that a reference of this name may exist: `HEAD`, or a name below `refs/` that git accepts.
///
/// # Errors
/// Says what is wrong with the name.
pub fn validate(name: &BStr) -> Result<(), String> {
    if name == "HEAD" {
        return Ok(());
    }
    if !name.starts_with(b"refs/") {
        return Err(format!("'{name}' does not start with refs/"));
    }
    gix_validate::reference::name(name)
        .map(drop)
        .map_err(|error| format!("'{name}': {error}"))
}

/// Returns whether a name that is there already can be told in a line of text: no writer makes another.
pub fn is_line(name: &BStr) -> bool {
    name.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
}

/// Returns all proper prefixes of `name` that end before a slash: names that cannot exist beside it.
pub fn parents(name: &BStr) -> impl Iterator<Item = &BStr> {
    name.find_iter(b"/").map(move |at| name[..at].as_bstr())
}
