//! The file format, version 1, as `man/znippy-format.5` specifies it.
//!
//! An archive is an Arrow IPC file that grows by one record batch message a commit:
//!
//! ```text
//! archive  = head commit*
//! head     = "ARROW1" NUL NUL schema-message            12 KiB; the slots lie inside the schema message
//! commit   = metadata body
//! metadata = FFFFFFFF length flatbuffer pad digest      one Arrow message header; the digest covers all before it
//! body     = columns pack pad footer                    `pack` is the last buffer of the last column
//! footer   = flatbuffer pad digest length "ARROW1"      what makes the file valid after every commit
//! ```
//!
//! This module turns these things into bytes and back, and knows how to tell a whole commit from a torn one. It knows
//! nothing of locks, paths or git.

pub mod batch;
pub mod columns;
pub mod commit;
pub mod commit_rows;
pub mod commit_table;
pub mod decode;
pub mod footer;
pub mod geometry;
pub mod head;
pub mod ident;
mod layout;
pub mod object_index;
pub mod recover;
pub mod row;
pub mod schema;
pub mod shape;
pub mod slot;

use std::fmt;

use sha2::{Digest, Sha256};

/// The first bytes of an Arrow IPC file.
pub const FILE_MAGIC: &[u8; 8] = b"ARROW1\0\0";
/// The last bytes of an Arrow IPC file.
pub const END_MAGIC: &[u8; 6] = b"ARROW1";
/// Starts every Arrow IPC message since metadata version 5.
pub const CONTINUATION: [u8; 4] = [0xff; 4];
/// The format version that this library reads and writes.
pub const VERSION: u32 = 1;
/// Bytes of the head: magic and schema message. The first commit starts here.
pub const HEAD_LEN: u64 = 12 * 1024;
/// Bytes of a digest at the end of a metadata or footer region.
pub const DIGEST_LEN: usize = 32;
/// Messages, buffers and footers start at multiples of this.
pub const ALIGN: u64 = 8;
/// A message header longer than this is refused before anything is allocated. One commit's header takes about 2 KiB.
pub const MAX_METADATA_LEN: u64 = 1 << 20;
/// A footer longer than this is refused before anything is allocated. 24 bytes a live batch and about 2 KiB.
pub const MAX_FOOTER_LEN: u64 = 16 << 20;
/// Columns, without the packs, of more than this are refused before anything is allocated: 80 million objects.
pub const MAX_COLUMNS_LEN: u64 = 4 << 30;
/// Lengths, offsets and counts are smaller than this, so that the sum of a few is a number too.
pub const MAX_NUMBER: u64 = 1 << 60;

/// The SHA-256 of some bytes.
pub type Sum = [u8; DIGEST_LEN];

/// Returns the SHA-256 of the concatenation of `parts`.
pub fn digest(parts: &[&[u8]]) -> Sum {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// The identity of a commit: a hash over the archive's identity, the commit before, and all bytes of this one but its footer,
/// which follows from these.
///
/// Two archives that share a commit id share their whole history up to it. Snapshots, memos and tails are matched by it,
/// never by a length.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommitId(pub Sum);

impl CommitId {
    /// What the first commit of a generation names as the one before.
    pub const NONE: CommitId = CommitId([0; DIGEST_LEN]);

    /// Parses 64 hex digits.
    pub fn from_hex(hex: &[u8]) -> Option<CommitId> {
        decode_hex(hex)?.try_into().ok().map(CommitId)
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_hex(&self.0))
    }
}

impl fmt::Debug for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommitId({self})")
    }
}

/// Returns `bytes` as lower-case hex.
pub fn encode_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        hex.push(DIGITS[usize::from(byte >> 4)].into());
        hex.push(DIGITS[usize::from(byte & 15)].into());
    }
    hex
}

/// Parses lower- or upper-case hex; `None` where it is not hex or of odd length.
pub fn decode_hex(hex: &[u8]) -> Option<Vec<u8>> {
    let digit = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
    (hex.len().is_multiple_of(2)).then(|| hex.chunks(2).map(|p| Some(digit(p[0])? << 4 | digit(p[1])?)).collect())?
}

/// Rounds up to the alignment of messages and buffers.
pub fn align_up(n: u64) -> u64 {
    n.next_multiple_of(ALIGN)
}

/// Adds a pair of custom metadata to a flatbuffer.
fn key_value<'a>(
    fbb: &mut flatbuffers::FlatBufferBuilder<'a>,
    key: &str,
    value: flatbuffers::WIPOffset<&'a str>,
) -> flatbuffers::WIPOffset<arrow_ipc::KeyValue<'a>> {
    let key = fbb.create_string(key);
    let mut pair = arrow_ipc::KeyValueBuilder::new(fbb);
    pair.add_key(key);
    pair.add_value(value);
    pair.finish()
}
