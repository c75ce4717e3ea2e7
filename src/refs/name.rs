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

/// The most bytes between two slashes of a new name: git keeps a reference in a file of that name, which ends in `.lock` while it is
/// written, and no name of a file has more than 255.
const MAX_PART: usize = 250;
/// The most bytes of a new name. Paths end at 4096, and a line of git's protocol at 65516.
const MAX_LEN: usize = 3840;

/// Checks that git can keep a new reference of this name: one that is too long would make the fetches of all clients fail.
///
/// # Errors
/// Says what is too long.
pub fn fits(name: &BStr) -> Result<(), String> {
    let longest = name.split(|byte| *byte == b'/').map(<[u8]>::len).max();
    match longest.unwrap_or_default() > MAX_PART {
        _ if name.len() > MAX_LEN => Err(format!("it has more than {MAX_LEN} bytes")),
        true => Err(format!("it has more than {MAX_PART} bytes without a slash")),
        false => Ok(()),
    }
}

/// Returns whether a name that is there already can be told in a line of text: no writer makes another.
pub fn is_line(name: &BStr) -> bool {
    name.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
}

/// Returns all proper prefixes of `name` that end before a slash: names that cannot exist beside it.
pub fn parents(name: &BStr) -> impl Iterator<Item = &BStr> {
    name.find_iter(b"/").map(move |at| name[..at].as_bstr())
}
