//! The headers of a pack and of its entries.
//!
//! Source: git's `Documentation/gitformat-pack`.

use gix_hash::ObjectId;

use super::Kind;

/// Bytes of a pack's header: `PACK`, version, number of entries.
pub const PACK_HEADER_LEN: u64 = 12;

/// The most bytes an entry's header can have: a size of 64 bits and a base, which is an id or a distance of 64 bits.
pub const MAX_ENTRY_HEADER_LEN: usize = 10 + 32;

/// Returns the number of entries that a pack's header tells.
///
/// # Errors
/// Fails with the reason where this is no header of a pack of version 2 or 3.
pub fn parse_pack_header(head: &[u8; PACK_HEADER_LEN as usize]) -> Result<u32, String> {
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if &head[..4] != b"PACK" {
        return Err("it does not start with PACK".into());
    }
    match word(4) {
        2 | 3 => Ok(word(8)),
        version => Err(format!("pack version {version} is not supported")),
    }
}

/// Returns the header of a pack of version 2 with `objects` entries.
pub fn pack_header(objects: u32) -> [u8; PACK_HEADER_LEN as usize] {
    let mut head = *b"PACK\0\0\0\x02\0\0\0\0";
    head[8..].copy_from_slice(&objects.to_be_bytes());
    head
}

/// What an entry's compressed data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// The object itself.
    Base(Kind),
    /// A delta; its base is the entry that starts this many bytes earlier.
    OfsDelta(u64),
    /// A delta; its base is the object of this id.
    RefDelta(ObjectId),
}

/// An entry's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHeader {
    pub kind: EntryKind,
    /// Bytes of the inflated data: of the object, or of the delta.
    pub size: u64,
    /// Bytes of the header, so that compressed data starts there.
    pub len: usize,
}

/// Parses the entry header at the start of `bytes`.
///
/// # Errors
/// Fails with the reason where the bytes are no header or end too early.
pub fn parse_entry_header(bytes: &[u8], format: gix_hash::Kind) -> Result<EntryHeader, &'static str> {
    begin_entry_header(bytes, format).map_err(|error| match error {
        HeaderError::Short => "the header is cut off",
        HeaderError::Invalid(why) => why,
    })
}

/// Why bytes are no entry header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// They end before the header does.
    Short,
    Invalid(&'static str),
}

impl From<&'static str> for HeaderError {
    fn from(why: &'static str) -> Self {
        HeaderError::Invalid(why)
    }
}

/// Parses the entry header that `bytes` begin with, of which more may be to come.
///
/// # Errors
/// Fails where the bytes are no header, and apart from that where they end too early.
pub(super) fn begin_entry_header(bytes: &[u8], format: gix_hash::Kind) -> Result<EntryHeader, HeaderError> {
    use HeaderError::Short;
    let first = *bytes.first().ok_or(Short)?;
    let mut size = u64::from(first & 0x0f);
    let (mut byte, mut len, mut shift) = (first, 1, 4);
    while byte & 0x80 != 0 {
        byte = *bytes.get(len).ok_or(Short)?;
        let bits = u64::from(byte & 0x7f);
        if shift >= 64 || (bits << shift) >> shift != bits {
            return Err("the size does not fit into 64 bits".into());
        }
        size |= bits << shift;
        len += 1;
        shift += 7;
    }
    let kind = match first >> 4 & 7 {
        1 => EntryKind::Base(Kind::Commit),
        2 => EntryKind::Base(Kind::Tree),
        3 => EntryKind::Base(Kind::Blob),
        4 => EntryKind::Base(Kind::Tag),
        6 => {
            let mut byte = *bytes.get(len).ok_or(Short)?;
            len += 1;
            let mut distance = u64::from(byte & 0x7f);
            while byte & 0x80 != 0 {
                byte = *bytes.get(len).ok_or(Short)?;
                len += 1;
                // Each further byte adds one before the shift, so that no distance has two encodings.
                distance = distance
                    .checked_add(1)
                    .filter(|more| *more < 1 << 57)
                    .ok_or("the distance to the delta base does not fit into 64 bits")?;
                distance = distance << 7 | u64::from(byte & 0x7f);
            }
            EntryKind::OfsDelta(distance)
        }
        7 => {
            let id = bytes.get(len..len + format.len_in_bytes()).ok_or(Short)?;
            len += id.len();
            EntryKind::RefDelta(ObjectId::from_bytes_or_panic(id))
        }
        _ => return Err("the object type is not known".into()),
    };
    Ok(EntryHeader { kind, size, len })
}

/// Returns the offset of an OFS_DELTA's base.
///
/// # Errors
/// Fails with the reason where the base would not be an earlier entry of the pack.
pub fn base_offset(entry: u64, distance: u64) -> Result<u64, &'static str> {
    match entry.checked_sub(distance) {
        Some(base) if distance > 0 && base >= PACK_HEADER_LEN => Ok(base),
        _ => Err("the delta base lies outside of the pack"),
    }
}

/// Appends an entry header for `size` bytes of inflated data to `out`.
pub fn write_entry_header(kind: EntryKind, size: u64, out: &mut Vec<u8>) {
    let code = match kind {
        EntryKind::Base(kind) => kind_code(kind),
        EntryKind::OfsDelta(_) => 6,
        EntryKind::RefDelta(_) => 7,
    };
    let mut byte = code << 4 | (size & 0x0f) as u8;
    let mut rest = size >> 4;
    while rest != 0 {
        out.push(byte | 0x80);
        byte = (rest & 0x7f) as u8;
        rest >>= 7;
    }
    out.push(byte);
    match kind {
        EntryKind::Base(_) => {}
        EntryKind::RefDelta(base) => out.extend_from_slice(base.as_slice()),
        EntryKind::OfsDelta(mut distance) => {
            let mut bytes = [0; 10];
            let mut at = bytes.len() - 1;
            bytes[at] = (distance & 0x7f) as u8;
            distance >>= 7;
            while distance != 0 {
                distance -= 1;
                at -= 1;
                bytes[at] = 0x80 | (distance & 0x7f) as u8;
                distance >>= 7;
            }
            out.extend_from_slice(&bytes[at..]);
        }
    }
}

/// Returns git's number of an object type, as in [`EntryTable::kinds`](super::EntryTable::kinds).
pub fn kind_code(kind: Kind) -> u8 {
    match kind {
        Kind::Commit => 1,
        Kind::Tree => 2,
        Kind::Blob => 3,
        Kind::Tag => 4,
    }
}

/// Returns the object type of git's number for it.
pub fn kind_of_code(code: u8) -> Option<Kind> {
    match code {
        1 => Some(Kind::Commit),
        2 => Some(Kind::Tree),
        3 => Some(Kind::Blob),
        4 => Some(Kind::Tag),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_parsed() {
        let id = ObjectId::from_hex(b"0123456789012345678901234567890123456789").unwrap();
        let kinds = [
            EntryKind::Base(Kind::Commit),
            EntryKind::Base(Kind::Tag),
            EntryKind::RefDelta(id),
            EntryKind::OfsDelta(1),
            EntryKind::OfsDelta(127),
            EntryKind::OfsDelta(128),
            EntryKind::OfsDelta(16511),
            EntryKind::OfsDelta(16512),
            EntryKind::OfsDelta(u64::from(u32::MAX) + 7),
        ];
        for kind in kinds {
            for size in [0, 1, 15, 16, 2047, 2048, u64::from(u32::MAX), u64::MAX] {
                let mut bytes = Vec::new();
                write_entry_header(kind, size, &mut bytes);
                let len = bytes.len();
                assert_eq!(
                    parse_entry_header(&bytes, gix_hash::Kind::Sha1),
                    Ok(EntryHeader { kind, size, len })
                );
                bytes.pop();
                assert!(
                    parse_entry_header(&bytes, gix_hash::Kind::Sha1).is_err(),
                    "a cut header is refused"
                );
            }
        }
    }

    #[test]
    fn hostile_headers_are_refused() {
        assert!(parse_entry_header(&[0xff; 40], gix_hash::Kind::Sha1).is_err());
        let mut distance = vec![0x60];
        distance.extend([0xff; 12]);
        distance.push(0);
        assert!(parse_entry_header(&distance, gix_hash::Kind::Sha1).is_err());
        assert!(parse_entry_header(&[0x50, 0], gix_hash::Kind::Sha1).is_err());
        assert!(base_offset(100, 0).is_err());
        assert!(base_offset(100, 89).is_err());
        assert_eq!(base_offset(100, 88), Ok(12));
    }
}
