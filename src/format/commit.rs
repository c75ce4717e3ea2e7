//! One commit as bytes: metadata, columns, the place of the pack, and the footer.

use arrow_buffer::Buffer;

use super::{
    CommitId, align_up,
    columns::Columns,
    footer::{BlockRef, Footer},
    geometry::{self, section_sum},
};

/// A commit that is laid out for a place in the file and only lacks its pack bytes.
pub struct EncodedCommit {
    /// Where it starts.
    pub at: u64,
    /// Written at `at`; the columns follow it without a gap.
    pub metadata: Vec<u8>,
    /// The columns, padding included.
    pub columns: Vec<Buffer>,
    /// Where the pack bytes start in the file.
    pub pack_at: u64,
    /// Where the pack bytes end in the file; zeros follow up to `footer_at`.
    pub pack_end: u64,
    /// Where the footer starts in the file.
    pub footer_at: u64,
    /// The footer, trailer included.
    pub footer_bytes: Vec<u8>,
    /// What the footer says.
    pub footer: Footer,
}

impl EncodedCommit {
    /// Returns where the commit, and with it the file, ends.
    pub fn end(&self) -> u64 {
        self.footer_at + self.footer_bytes.len() as u64
    }
}

/// Lays a commit out at offset `at`.
///
/// `footer` is the footer to be written, but for what follows from the layout: the commit id, this commit's own block (added
/// last), and the `prefix_len` of reference rows that lie in this block. `pack_ids` are the trailing hashes of the commit's
/// packs, one after the other; `level` is that of its batch; `residence` says where it counts before it is synced.
pub fn encode(
    columns: Columns,
    at: u64,
    previous: CommitId,
    pack_ids: &[u8],
    footer: Footer,
    level: u8,
    residence: Option<&str>,
) -> EncodedCommit {
    let extra = Extra {
        residence,
        min_metadata: 0,
    };
    encode_with(columns, at, previous, pack_ids, footer, level, extra)
}

/// What few commits need.
pub struct Extra<'a> {
    /// Where the commit counts before it is synced.
    pub residence: Option<&'a str>,
    /// Metadata of at least so many bytes, a multiple of 8: so that the pack starts where it was written before the columns were
    /// known.
    pub min_metadata: u64,
}

/// As [`encode`], with something extra.
pub fn encode_with(
    columns: Columns,
    at: u64,
    previous: CommitId,
    pack_ids: &[u8],
    mut footer: Footer,
    level: u8,
    extra: Extra<'_>,
) -> EncodedCommit {
    let Extra {
        residence,
        min_metadata,
    } = extra;
    let sums = section_sums(&columns);
    let metadata = geometry::encode(&columns, previous, &sums, residence, min_metadata);
    let metadata_len = metadata.metadata_len();
    let own_block = footer.blocks.len();
    for row in [&mut footer.refs.base, &mut footer.refs.run].into_iter().flatten() {
        if row.block == own_block {
            row.prefix_len = metadata_len + columns.section_ends[0];
        }
    }
    // Lengths first: how long metadata and footer are does not depend on the numbers that are still missing.
    footer.blocks.push(BlockRef {
        offset: at,
        metadata_len,
        body_len: 0,
        level,
    });
    let unfinished = footer.unfinished();
    let pack_at = at + metadata_len + columns.pack_at;
    let pack_end = pack_at + columns.ranges.last().map_or(0, |pack| pack.length() as u64);
    let footer_at = align_up(pack_end);
    let body_len = footer_at + unfinished.footer_len() - at - metadata_len;
    let metadata = metadata.finish(body_len);
    let row_checksum = metadata.last_chunk().expect("metadata ends with a digest");
    footer.commit_id = footer
        .ident
        .commit_id(footer.sequence, previous, row_checksum, pack_ids);
    footer.blocks[own_block].body_len = body_len;
    let footer_bytes = unfinished.finish(&footer);
    EncodedCommit {
        at,
        metadata,
        columns: columns.chunks,
        pack_at,
        pack_end,
        footer_at,
        footer_bytes,
        footer,
    }
}

/// Returns the checksums of the three sections.
fn section_sums(columns: &Columns) -> [geometry::SectionSum; 3] {
    let mut chunks = columns.chunks.iter().peekable();
    let mut at = 0;
    columns.section_ends.map(|end| {
        let mut parts = vec![];
        while let Some(chunk) = chunks.next_if(|_| at < end) {
            at += chunk.len() as u64;
            parts.push(chunk.as_slice());
        }
        section_sum(&parts)
    })
}
