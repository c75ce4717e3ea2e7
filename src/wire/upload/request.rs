//! What a client asks for in a fetch.

use bstr::{BStr, BString, ByteSlice};
use gix_hash::{Kind, ObjectId};

use crate::wire::{WireError, WireResult};

/// The depth that means all history.
pub(super) const INFINITE: u64 = 0x7fff_ffff;

/// A fetch, as far as it has been read.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub wants: Vec<ObjectId>,
    /// References whose values are wanted.
    pub want_refs: Vec<BString>,
    pub haves: Vec<ObjectId>,
    /// The client has no more haves: it wants the pack now.
    pub done: bool,
    /// The client wants no pack before it says so.
    pub wait_for_done: bool,
    /// The client can complete a pack with what it has. Packs here are complete, but the client also counts on leaving out what
    /// is near to its haves.
    pub thin_pack: bool,
    pub ofs_delta: bool,
    pub include_tag: bool,
    pub no_progress: bool,
    pub sideband_all: bool,
    /// Commits whose parents the client does not have.
    pub shallow: Vec<ObjectId>,
    pub depth: Option<u64>,
    /// The depth counts from the client's shallow commits.
    pub relative: bool,
    pub since: Option<i64>,
    pub not: Vec<BString>,
    pub filter: Option<BString>,
}

impl Request {
    /// Takes an argument that both versions of the protocol write alike. Returns false where it is none.
    ///
    /// # Errors
    /// Fails where its value is malformed.
    pub fn take(&mut self, line: &BStr, format: Kind) -> WireResult<bool> {
        let (word, value) = line.split_once_str(" ").unwrap_or((line.as_bytes(), b""));
        let value = value.as_bstr();
        match word {
            b"want" => self.wants.push(id(line, value, format)?),
            b"have" => self.haves.push(id(line, value, format)?),
            b"shallow" => self.shallow.push(id(line, value, format)?),
            b"deepen" => self.depth = Some(positive(line, value)?),
            b"deepen-since" => self.since = Some(seconds(line, value)?),
            b"deepen-not" => self.not.push(value.into()),
            b"filter" if self.filter.is_some() => {
                return Err(WireError::refused("multiple filter-specs cannot be combined"));
            }
            b"filter" => self.filter = Some(value.into()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes a word without a value: a capability of version 0, an argument of version 2. Returns false where it is none.
    pub fn take_word(&mut self, word: &BStr) -> bool {
        match word.as_bytes() {
            b"done" => self.done = true,
            b"wait-for-done" => self.wait_for_done = true,
            b"thin-pack" => self.thin_pack = true,
            b"ofs-delta" => self.ofs_delta = true,
            b"include-tag" => self.include_tag = true,
            b"no-progress" => self.no_progress = true,
            b"sideband-all" => self.sideband_all = true,
            b"deepen-relative" => self.relative = true,
            _ => return false,
        }
        true
    }

    /// Returns whether the client's history is cut, or is to be.
    pub fn is_cut(&self) -> bool {
        self.deepens() || !self.shallow.is_empty()
    }

    /// Returns whether the client's history is to be cut elsewhere than it is.
    pub fn deepens(&self) -> bool {
        self.depth.is_some() || self.since.is_some() || !self.not.is_empty()
    }
}

fn id(line: &BStr, hex: &BStr, format: Kind) -> WireResult<ObjectId> {
    match ObjectId::from_hex(hex) {
        Ok(id) if id.kind() == format => Ok(id),
        _ => Err(WireError::refused(format!(
            "upload-pack: protocol error, expected an object id: '{line}'"
        ))),
    }
}

/// Seconds since the beginning of 1970: with git, that moment is one too.
fn seconds(line: &BStr, digits: &BStr) -> WireResult<i64> {
    match digits.as_bytes() {
        b"0" => Ok(0),
        _ => Ok(positive(line, digits)? as i64),
    }
}

fn positive(line: &BStr, digits: &BStr) -> WireResult<u64> {
    let number = digits.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    match number {
        Some(number) if (1..i64::MAX as u64).contains(&number) => Ok(number),
        _ => Err(WireError::refused(format!("Invalid {line}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_nonsense() {
        let hex = "a".repeat(40);
        let mut request = Request::default();
        for line in [
            &format!("want {hex}"),
            &format!("have {hex}"),
            &format!("shallow {hex}"),
        ] {
            assert!(request.take(line.as_str().into(), Kind::Sha1).unwrap());
            assert!(request.take(line.as_str().into(), Kind::Sha256).is_err(), "{line}");
            assert!(request.take(line[..line.len() - 1].into(), Kind::Sha1).is_err());
        }
        for line in ["deepen 0", "deepen -1", "deepen x", "deepen", "deepen-since -1", "want"] {
            assert!(request.take(line.into(), Kind::Sha1).is_err(), "{line}");
        }
        assert!(request.take("deepen-since 1700000000".into(), Kind::Sha1).unwrap());
        assert!(!request.take("thin-pack".into(), Kind::Sha1).unwrap());
        assert!(request.take_word("thin-pack".into()) && !request.take_word("thick-pack".into()));
        assert!(request.thin_pack && request.deepens());
    }
}
