//! Who an archive is: what its head says and every footer repeats.

use gix_hash::Kind;

use super::{CommitId, Sum, digest, schema};

/// The fixed facts of one generation of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ident {
    pub object_format: Kind,
    /// 36 characters; the archive keeps it for life.
    pub uuid: String,
    /// Which rewrite (gc) of the archive this is; the first is 1.
    pub generation: u64,
}

impl Ident {
    /// Computes the identity of a commit of this generation.
    ///
    /// `row_checksum` is the digest of the message metadata, which holds the checksums of all columns; `pack_ids` are the
    /// trailing hashes of its packs, one after the other.
    pub fn commit_id(&self, sequence: u64, previous: CommitId, row_checksum: &Sum, pack_ids: &[u8]) -> CommitId {
        CommitId(digest(&[
            self.uuid.as_bytes(),
            &self.generation.to_le_bytes(),
            &sequence.to_le_bytes(),
            &previous.0,
            row_checksum,
            pack_ids,
        ]))
    }

    /// Returns the name of the object format.
    pub fn format_name(&self) -> &'static str {
        schema::format_name(self.object_format)
    }
}

/// Returns a random (version 4) UUID from 16 random bytes, as 36 characters.
pub fn uuid_from_random(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = super::encode_hex(&bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
