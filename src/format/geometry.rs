//! The metadata of a commit's record batch message: written, and checked before Arrow sees a byte.
//!
//! ```text
//! metadata = FFFFFFFF, length: u32 LE, flatbuffer, zeros, digest[32]
//! ```
//!
//! `length` counts what follows it. The digest covers all before it, prefix included, and is checked before the flatbuffer is
//! parsed. The flatbuffer's own metadata names the commit before and the checksums of three sections of the columns, so the
//! digest vouches for every byte of the commit but the pack, whose trailing hash is in the columns.

use std::ops::Range;

use arrow_ipc::{Buffer as BufferRange, FieldNode, MessageBuilder, MessageHeader, MetadataVersion, RecordBatchBuilder};
use bstr::ByteSlice;
use flatbuffers::FlatBufferBuilder;
use gix_hash::Kind;

use super::{
    CONTINUATION, CommitId, DIGEST_LEN, MAX_COLUMNS_LEN, MAX_METADATA_LEN, MAX_NUMBER, Sum, align_up,
    columns::Columns,
    decode_hex, digest, encode_hex, key_value, schema,
    schema::column,
    shape::{self, Node},
};

const KEY_PREVIOUS: &str = "znippy.previous";
const KEY_SUMS: &str = "znippy.sums";
const KEY_RESIDENCE: &str = "znippy.residence";

/// Bytes before the flatbuffer: continuation mark and length.
pub const PREFIX_LEN: usize = 8;

/// The checksum of one section of the columns: the first half of a SHA-256.
pub type SectionSum = [u8; 16];

/// Returns the checksum of the concatenation of `parts`.
pub fn section_sum(parts: &[&[u8]]) -> SectionSum {
    *digest(parts).first_chunk().expect("a digest is longer")
}

/// Stands for the length of the body while that is not known. No other number in a message is as large.
const BODY_LEN: i64 = 0x7a6e_6970_7079_2121;

/// The metadata of a message that is complete but for the length of the body.
pub struct Unfinished {
    bytes: Vec<u8>,
    /// Where the length goes.
    body_len_at: usize,
}

/// Writes the metadata of a message whose body has a length that is still to come.
///
/// `residence` is given for a commit that is not synced: where and when it counts without. Zeros before the digest make it at
/// least `min_len` bytes long, a multiple of 8.
pub fn encode(
    columns: &Columns,
    previous: CommitId,
    sums: &[SectionSum; 3],
    residence: Option<&str>,
    min_len: u64,
) -> Unfinished {
    let fbb = flatbuffer(columns, previous, sums, residence);
    let flatbuffer = fbb.finished_data();
    let len = align_up((PREFIX_LEN + flatbuffer.len() + DIGEST_LEN) as u64).max(min_len) as usize;
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(&CONTINUATION);
    bytes.extend_from_slice(&((len - PREFIX_LEN) as u32).to_le_bytes());
    bytes.extend_from_slice(flatbuffer);
    bytes.resize(len, 0);
    let body_len_at = bytes.find(BODY_LEN.to_le_bytes()).expect("it was just written");
    Unfinished { bytes, body_len_at }
}

impl Unfinished {
    /// Returns the bytes of the metadata, prefix and digest included.
    pub fn metadata_len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Fills in the length of the body, and returns the metadata.
    pub fn finish(mut self, body_len: u64) -> Vec<u8> {
        self.bytes[self.body_len_at..][..8].copy_from_slice(&(body_len as i64).to_le_bytes());
        let covered = self.bytes.len() - DIGEST_LEN;
        let sum = digest(&[&self.bytes[..covered]]);
        self.bytes[covered..].copy_from_slice(&sum);
        self.bytes
    }
}

fn flatbuffer(
    columns: &Columns,
    previous: CommitId,
    sums: &[SectionSum; 3],
    residence: Option<&str>,
) -> FlatBufferBuilder<'static> {
    let mut fbb = FlatBufferBuilder::with_capacity(4096);
    let sums = sums.map(|sum| encode_hex(&sum)).join(" ");
    let pairs = [(KEY_PREVIOUS, previous.to_string()), (KEY_SUMS, sums)];
    let residence = residence.map(|residence| (KEY_RESIDENCE, residence.to_owned()));
    let pairs: Vec<_> = pairs
        .into_iter()
        .chain(residence)
        .map(|(key, value)| {
            let value = fbb.create_string(&value);
            key_value(&mut fbb, key, value)
        })
        .collect();
    let metadata = fbb.create_vector(&pairs);
    let ranges = fbb.create_vector(&columns.ranges);
    let nodes = fbb.create_vector(&columns.nodes);
    let mut batch = RecordBatchBuilder::new(&mut fbb);
    batch.add_length(columns.rows as i64);
    batch.add_nodes(nodes);
    batch.add_buffers(ranges);
    let batch = batch.finish();
    let mut message = MessageBuilder::new(&mut fbb);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::RecordBatch);
    message.add_bodyLength(BODY_LEN);
    message.add_header(batch.as_union_value());
    message.add_custom_metadata(metadata);
    let message = message.finish();
    fbb.finish(message, None);
    fbb
}

/// Parses the prefix of a message and returns the bytes of its metadata, prefix included.
pub fn decode_prefix(prefix: &[u8]) -> Option<u64> {
    let (mark, rest) = prefix.split_first_chunk::<4>()?;
    let len = u64::from(u32::from_le_bytes(*rest.first_chunk()?)) + PREFIX_LEN as u64;
    let sane = len <= MAX_METADATA_LEN && len.is_multiple_of(super::ALIGN) && len > (PREFIX_LEN + DIGEST_LEN) as u64;
    (*mark == CONTINUATION && sane).then_some(len)
}

/// A commit's message as its checked metadata describes it. Ranges are relative to the start of the body.
#[derive(Debug, Clone)]
pub struct Geometry {
    /// The metadata as it stands in the file, for Arrow's decoder.
    metadata: Vec<u8>,
    pub body_len: u64,
    pub rows: usize,
    pub previous: CommitId,
    pub sums: [SectionSum; 3],
    /// Where and when the commit counts though no sync covered it yet, as the disk that it was written to names it.
    pub residence: Option<String>,
    /// The digest over all metadata.
    pub row_checksum: Sum,
    objects: u64,
    ranges: Vec<Range<u64>>,
    first_buffers: Vec<usize>,
}

impl Geometry {
    /// Checks and parses the metadata of a message of object format `kind`, prefix and digest included.
    ///
    /// # Errors
    /// Says what is wrong. After success all ranges are in order, aligned, without gaps and inside the body, and there are as
    /// many as the schema wants; and the columns' lengths fit them.
    pub fn decode(metadata: &[u8], kind: Kind) -> Result<Geometry, String> {
        let (covered, sum) = metadata
            .split_at_checked(metadata.len().wrapping_sub(DIGEST_LEN))
            .ok_or("message too short")?;
        if digest(&[covered]) != sum {
            return Err("message checksum does not match".into());
        }
        let message = arrow_ipc::root_as_message(covered.get(PREFIX_LEN..).unwrap_or_default())
            .map_err(|error| format!("message: {error}"))?;
        let batch = message.header_as_record_batch().ok_or("message: not a record batch")?;
        if message.version() != MetadataVersion::V5 || batch.compression().is_some() {
            return Err("message: unexpected version or compression".into());
        }
        let pairs = message.custom_metadata().ok_or("message without metadata")?;
        let value = |key: &str| {
            let mut values = pairs.iter().filter(|pair| pair.key() == Some(key));
            values
                .next()
                .and_then(|pair| pair.value())
                .ok_or_else(|| format!("message lacks {key}"))
        };
        let mut residences = pairs.iter().filter(|pair| pair.key() == Some(KEY_RESIDENCE));
        let residence = residences.next().and_then(|pair| pair.value()).map(str::to_owned);
        let number = |n: i64| u64::try_from(n).map_err(|_| "message: negative number");
        let schema = schema::schema(kind);
        let first_buffers = schema::first_buffers(&schema);
        let buffers = batch.buffers().ok_or("message without buffers")?;
        let nodes = batch.nodes().ok_or("message without nodes")?;
        if buffers.len() != first_buffers[column::COUNT] {
            return Err("message: columns do not fit the schema".into());
        }
        let body_len = number(message.bodyLength())?;
        if body_len >= MAX_NUMBER {
            return Err("message: impossible length".into());
        }
        let mut ranges = Vec::with_capacity(buffers.len());
        let mut at = 0;
        for buffer in buffers {
            ranges.push(checked_range(buffer, at, body_len)?);
            at = align_up(ranges[ranges.len() - 1].end);
        }
        if ranges[ranges.len() - 1].start > MAX_COLUMNS_LEN {
            return Err("message: impossibly large columns".into());
        }
        let rows = number(batch.length())?;
        let node = |node: &FieldNode| {
            Ok::<_, String>(Node {
                len: number(node.length())?,
                nulls: number(node.null_count())?,
            })
        };
        let nodes: Vec<Node> = nodes.iter().map(node).collect::<Result<_, _>>()?;
        let lengths: Vec<u64> = ranges.iter().map(|range| range.end - range.start).collect();
        shape::check(schema.fields(), rows, &nodes, &lengths).ok_or("message: columns do not fit the schema")?;
        Ok(Geometry {
            metadata: metadata.to_vec(),
            body_len,
            rows: rows.try_into().map_err(|_| "message: too many rows")?,
            previous: CommitId::from_hex(value(KEY_PREVIOUS)?.as_bytes()).ok_or("message: bad previous commit")?,
            sums: decode_sums(value(KEY_SUMS)?).ok_or("message: bad checksums")?,
            residence,
            row_checksum: sum.try_into().expect("split at the digest's length"),
            objects: nodes[OBJECTS_STRUCT_NODE].len,
            ranges,
            first_buffers,
        })
    }

    /// Returns the flatbuffer of the message.
    pub fn flatbuffer(&self) -> &[u8] {
        &self.metadata[PREFIX_LEN..self.metadata.len() - DIGEST_LEN]
    }

    /// Returns the bytes of the metadata, prefix and digest included.
    pub fn metadata_len(&self) -> u64 {
        self.metadata.len() as u64
    }

    /// Returns where buffer `nth` of a column lies; buffers are counted depth first.
    pub fn buffer(&self, column: usize, nth: usize) -> Range<u64> {
        self.ranges[self.first_buffers[column] + nth].clone()
    }

    /// Returns where a column ends, padding included.
    pub fn column_end(&self, column: usize) -> u64 {
        match self.ranges.get(self.first_buffers[column + 1]) {
            Some(next) => next.start,
            None => self.body_len,
        }
    }

    /// Returns where the pack bytes lie.
    pub fn pack_data(&self) -> Range<u64> {
        self.ranges[self.ranges.len() - 1].clone()
    }

    /// Returns the three checked sections: up to and with `refs`, `objects`, everything up to the pack bytes.
    pub fn sections(&self) -> [Range<u64>; 3] {
        let (refs, objects) = (self.column_end(column::REFS), self.column_end(column::OBJECTS));
        [0..refs, refs..objects, objects..self.pack_data().start]
    }

    /// Returns the number of stored objects of all rows.
    pub fn objects(&self) -> u64 {
        self.objects
    }
}

/// Nodes of the columns before, the list's own node, and then the struct's:
/// txn, time, kind, actor, proof (5), settings (list, struct, key, value), refs (list, struct, five fields), objects' list.
const OBJECTS_STRUCT_NODE: usize = 5 + 4 + 7 + 1;

fn checked_range(buffer: &BufferRange, expected_start: u64, body_len: u64) -> Result<Range<u64>, &'static str> {
    let start = u64::try_from(buffer.offset()).map_err(|_| "message: negative offset")?;
    let len = u64::try_from(buffer.length()).map_err(|_| "message: negative length")?;
    let end = start
        .checked_add(len)
        .filter(|end| *end <= body_len)
        .ok_or("message: a buffer leaves the body")?;
    (start == expected_start)
        .then_some(start..end)
        .ok_or("message: buffers are not in order")
}

fn decode_sums(text: &str) -> Option<[SectionSum; 3]> {
    let sums: Vec<SectionSum> = text
        .split(' ')
        .map(|sum| decode_hex(sum.as_bytes())?.try_into().ok())
        .collect::<Option<_>>()?;
    sums.try_into().ok()
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::*;

    /// Returns the number of IPC field nodes that values of a type take, children included.
    fn node_count(data_type: &DataType) -> usize {
        match data_type {
            DataType::List(item) => 1 + node_count(item.data_type()),
            DataType::Struct(fields) => 1 + fields.iter().map(|f| node_count(f.data_type())).sum::<usize>(),
            _ => 1,
        }
    }

    #[test]
    fn object_count_is_taken_from_the_right_node() {
        let schema = schema::schema(Kind::Sha1);
        let before: usize = schema.fields()[..column::OBJECTS]
            .iter()
            .map(|field| node_count(field.data_type()))
            .sum();
        assert_eq!(OBJECTS_STRUCT_NODE, before + 1);
    }
}
