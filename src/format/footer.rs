//! The footer: what makes the file valid after every commit, and where a reader finds everything else.
//!
//! ```text
//! footer = flatbuffer, zeros, digest[32], length: i32 LE, "ARROW1"
//! ```
//!
//! `length` counts flatbuffer, zeros and digest, and is 6 more than a multiple of 8, so that the footer starts and ends at
//! multiples of 8. The digest covers all before it and is checked before the flatbuffer is parsed. The custom metadata of the
//! flatbuffer says which commit this is, where the references are, and a few totals.

use std::sync::OnceLock;

use arrow_ipc::{Block, FooterBuilder, MetadataVersion, Schema, convert::IpcSchemaEncoder};
use flatbuffers::{FlatBufferBuilder, UOffsetT, WIPOffset};
use gix_hash::Kind;

use super::{
    CommitId, DIGEST_LEN, END_MAGIC, HEAD_LEN, MAX_FOOTER_LEN, MAX_NUMBER, decode_hex, digest, encode_hex,
    ident::Ident, key_value, schema,
};

const KEY_UUID: &str = "znippy.uuid";
const KEY_GENERATION: &str = "znippy.generation";
const KEY_SEQUENCE: &str = "znippy.sequence";
const KEY_COMMIT: &str = "znippy.commit";
const KEY_REFS: &str = "znippy.refs";
const KEY_LEVELS: &str = "znippy.levels";
const KEY_TOTALS: &str = "znippy.totals";
/// Only where something is set.
const KEY_POLICY: &str = "znippy.policy";

/// Bytes behind the length field's start: length and magic.
pub const TRAILER_LEN: usize = 4 + END_MAGIC.len();

/// Where one live record batch message lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRef {
    /// Offset of the message in the file.
    pub offset: u64,
    /// Bytes of the metadata, prefix included.
    pub metadata_len: u64,
    /// Bytes of the body: columns, pack bytes and the footer that was written with them.
    pub body_len: u64,
    /// How many times its rows were merged with others; 0 for a batch as it was pushed. At most 9.
    pub level: u8,
}

impl BlockRef {
    /// Returns where the body starts.
    pub fn body_at(&self) -> u64 {
        self.offset + self.metadata_len
    }
    /// Returns where the message ends.
    pub fn end(&self) -> u64 {
        self.body_at() + self.body_len
    }
}

/// A row that holds references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefsRow {
    /// Index of the block in the footer's list.
    pub block: usize,
    /// Index of the row in the block.
    pub row: usize,
    /// Bytes from the start of the block to the end of its `refs` column: one read gets all.
    pub prefix_len: u64,
}

/// Where the references are: the newest of `inline`, `run`, `base` that names a reference decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefsState {
    /// The row that holds all references as of then.
    pub base: Option<RefsRow>,
    /// A row that holds what changed after `base`.
    pub run: Option<RefsRow>,
    /// What changed after both, encoded by `refs::inline`.
    pub inline: Vec<u8>,
    /// Whether a reference was ever deleted or rewound, or a push refused in part, so that packs may hold objects that none reaches.
    pub rewound: bool,
}

/// Sums over all live rows, so that `info` need not read them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// The last transaction's number.
    pub last_txn: u64,
    /// The last transaction's time, microseconds since 1970.
    pub last_time_us: i64,
    pub packs: u64,
    pub objects: u64,
    pub unresolved: u64,
    /// Packs of which it is not proven that their objects bear their names and that all these refer to is here.
    pub unproven: u64,
    /// Objects that are known to be damaged, and of which there is no other copy.
    pub damaged: u64,
    pub pack_bytes: u64,
    /// Bytes of the file that no live row and not the live footer use.
    pub dead_bytes: u64,
    /// Entries of packs that are known to be damaged.
    pub damaged_entries: u64,
}

/// A footer's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    pub ident: Ident,
    /// The number of commits in this generation, this one included.
    pub sequence: u64,
    pub commit_id: CommitId,
    pub blocks: Vec<BlockRef>,
    pub refs: RefsState,
    pub totals: Totals,
    /// The settings of the archive that are in force: names without spaces and colons, and values.
    pub policy: Vec<(String, Vec<u8>)>,
}

impl Footer {
    /// Returns the footer as it stands in the file, trailer included.
    pub fn encode(&self) -> Vec<u8> {
        self.unfinished().finish(self)
    }

    /// Returns the footer as it stands in the file, but for what follows from how long it is: commit id, the length of the last
    /// block, and digest.
    pub(super) fn unfinished(&self) -> Unfinished {
        let (fbb, commit_id, blocks) = self.flatbuffer();
        let flatbuffer = fbb.finished_data();
        let len = (flatbuffer.len() + DIGEST_LEN + TRAILER_LEN).next_multiple_of(8);
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(flatbuffer);
        bytes.resize(len - TRAILER_LEN, 0);
        bytes.extend_from_slice(&(bytes.len() as i32).to_le_bytes());
        bytes.extend_from_slice(END_MAGIC);
        // An offset is the distance from the end; strings and vectors start with their length.
        let elements_at = |offset: UOffsetT| flatbuffer.len() - offset as usize + 4;
        Unfinished {
            commit_id_at: elements_at(commit_id),
            blocks_at: elements_at(blocks),
            bytes,
        }
    }

    /// Returns the flatbuffer, and the offsets of the commit id and the blocks.
    fn flatbuffer(&self) -> (FlatBufferBuilder<'static>, UOffsetT, UOffsetT) {
        let (mut fbb, schema) = with_schema(self.ident.object_format);
        let commit_id = fbb.create_string(&self.commit_id.to_string());
        let policy = (!self.policy.is_empty()).then(|| (KEY_POLICY, encode_policy(&self.policy)));
        let metadata = [
            (KEY_UUID, self.ident.uuid.clone()),
            (KEY_GENERATION, self.ident.generation.to_string()),
            (KEY_SEQUENCE, self.sequence.to_string()),
            (KEY_REFS, encode_refs(&self.refs)),
            (
                KEY_LEVELS,
                self.blocks
                    .iter()
                    .map(|block| char::from(b'0' + block.level.min(9)))
                    .collect(),
            ),
            (KEY_TOTALS, encode_totals(&self.totals)),
        ];
        let metadata: Vec<_> = metadata
            .into_iter()
            .chain(policy)
            .map(|(key, value)| (key, fbb.create_string(&value)))
            .chain([(KEY_COMMIT, commit_id)])
            .collect();
        let metadata: Vec<_> = metadata
            .into_iter()
            .map(|(key, value)| key_value(&mut fbb, key, value))
            .collect();
        let metadata = fbb.create_vector(&metadata);
        let blocks: Vec<Block> = self.blocks.iter().map(encode_block).collect();
        let blocks = fbb.create_vector(&blocks);
        let dictionaries = fbb.create_vector::<Block>(&[]);
        let mut footer = FooterBuilder::new(&mut fbb);
        footer.add_version(MetadataVersion::V5);
        footer.add_schema(schema);
        footer.add_dictionaries(dictionaries);
        footer.add_recordBatches(blocks);
        footer.add_custom_metadata(metadata);
        let footer = footer.finish();
        fbb.finish(footer, None);
        (fbb, commit_id.value(), blocks.value())
    }

    /// Parses the flatbuffer and digest of a footer, without its trailer.
    ///
    /// # Errors
    /// Says what is wrong: a digest that does not fit, or fields that are not ours.
    pub fn decode(bytes: &[u8]) -> Result<Footer, String> {
        let (covered, sum) = bytes
            .split_at_checked(bytes.len().wrapping_sub(DIGEST_LEN))
            .ok_or("footer too short")?;
        if digest(&[covered]) != sum {
            return Err("footer checksum does not match".into());
        }
        let footer = arrow_ipc::root_as_footer(covered).map_err(|error| format!("footer: {error}"))?;
        let pairs = footer.custom_metadata().ok_or("footer without metadata")?;
        let value = |key: &str| {
            let mut values = pairs.iter().filter(|pair| pair.key() == Some(key));
            values
                .next()
                .and_then(|pair| pair.value())
                .ok_or_else(|| format!("footer lacks {key}"))
        };
        let number = |key: &str| {
            value(key)?
                .parse::<u64>()
                .ok()
                .filter(|number| *number < MAX_NUMBER)
                .ok_or_else(|| format!("footer: {key} is no number"))
        };
        let schema = footer
            .schema()
            .and_then(|schema| schema.custom_metadata())
            .ok_or("footer without schema")?;
        let format = schema.iter().find(|pair| pair.key() == Some(schema::KEY_OBJECT_FORMAT));
        let format = format.and_then(|pair| pair.value()).and_then(schema::parse_format);
        let levels = value(KEY_LEVELS)?.bytes();
        let blocks = footer.recordBatches().ok_or("footer without batches")?;
        if blocks.len() != levels.len() || !value(KEY_LEVELS)?.bytes().all(|level| level.is_ascii_digit()) {
            return Err("footer: levels do not fit the batches".into());
        }
        let blocks = blocks
            .iter()
            .zip(levels)
            .map(|(block, level)| decode_block(block, level - b'0'));
        Ok(Footer {
            ident: Ident {
                object_format: format.ok_or("footer: unknown object format")?,
                uuid: value(KEY_UUID)?.into(),
                generation: number(KEY_GENERATION)?,
            },
            sequence: number(KEY_SEQUENCE)?,
            commit_id: CommitId::from_hex(value(KEY_COMMIT)?.as_bytes()).ok_or("footer: bad commit id")?,
            blocks: blocks
                .collect::<Option<_>>()
                .ok_or("footer: a batch has an impossible position")?,
            refs: decode_refs(value(KEY_REFS)?).ok_or("footer: bad references")?,
            totals: decode_totals(value(KEY_TOTALS)?).ok_or("footer: bad totals")?,
            policy: match value(KEY_POLICY) {
                Ok(text) => decode_policy(text).ok_or("footer: bad settings")?,
                Err(_) => vec![],
            },
        })
    }
}

/// A footer that is complete but for what follows from its length.
pub(super) struct Unfinished {
    bytes: Vec<u8>,
    /// Where the commit id is, in hex.
    commit_id_at: usize,
    /// Where the first block is.
    blocks_at: usize,
}

impl Unfinished {
    /// Returns the bytes of the footer, trailer included.
    pub fn footer_len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the bytes of `footer`, which is what this one was made of, but for its commit id and last block.
    pub fn finish(mut self, footer: &Footer) -> Vec<u8> {
        let commit_id = footer.commit_id.to_string();
        self.bytes[self.commit_id_at..][..commit_id.len()].copy_from_slice(commit_id.as_bytes());
        if let Some((last, before)) = footer.blocks.split_last() {
            let Block(block) = encode_block(last);
            self.bytes[self.blocks_at + before.len() * block.len()..][..block.len()].copy_from_slice(&block);
        }
        seal(&mut self.bytes);
        self.bytes
    }
}

/// Writes the digest of a footer.
fn seal(bytes: &mut [u8]) {
    let covered = bytes.len() - TRAILER_LEN - DIGEST_LEN;
    let sum = digest(&[&bytes[..covered]]);
    bytes[covered..][..DIGEST_LEN].copy_from_slice(&sum);
}

/// Returns a builder that holds the schema, and where. The schema is the same in all footers, and most of what is in one: it is
/// encoded once. Flatbuffers grow downwards and refer to what is in them by distance, so the same bytes at the upper end of another
/// buffer say the same.
fn with_schema(kind: Kind) -> (FlatBufferBuilder<'static>, WIPOffset<Schema<'static>>) {
    static TEMPLATES: [OnceLock<(Vec<u8>, u32)>; 2] = [const { OnceLock::new() }; 2];
    let make = || {
        let mut fbb = FlatBufferBuilder::with_capacity(4096);
        let schema = schema::schema(kind)
            .as_ref()
            .clone()
            .with_metadata(schema::metadata(kind));
        let schema = IpcSchemaEncoder::new().schema_to_fb_offset(&mut fbb, &schema).value();
        while !fbb.unfinished_data().len().is_multiple_of(8) {
            fbb.push(0u8);
        }
        (fbb.unfinished_data().to_vec(), schema)
    };
    let (bytes, schema) = TEMPLATES[usize::from(kind == Kind::Sha256)].get_or_init(make);
    let mut fbb = FlatBufferBuilder::with_capacity(bytes.len() + 4096);
    // A vector of bytes is these and its length below them; nothing refers to it as one.
    fbb.create_vector::<u8>(bytes);
    debug_assert!(fbb.unfinished_data().ends_with(bytes));
    (fbb, WIPOffset::new(*schema))
}

/// Parses a footer's trailer: the last [`TRAILER_LEN`] bytes. Returns the bytes of the footer before it.
pub fn decode_trailer(trailer: &[u8]) -> Option<u64> {
    let (len, magic) = trailer.split_first_chunk::<4>()?;
    let len = u64::try_from(i32::from_le_bytes(*len)).ok()?;
    (magic == END_MAGIC && (DIGEST_LEN as u64..=MAX_FOOTER_LEN).contains(&len)).then_some(len)
}

fn encode_block(block: &BlockRef) -> Block {
    Block::new(block.offset as i64, block.metadata_len as i32, block.body_len as i64)
}

/// Checks a block's numbers, so that nobody adds or allocates with impossible ones.
fn decode_block(block: &Block, level: u8) -> Option<BlockRef> {
    let block = BlockRef {
        offset: u64::try_from(block.offset()).ok()?,
        metadata_len: u64::try_from(block.metaDataLength()).ok()?,
        body_len: u64::try_from(block.bodyLength()).ok()?,
        level,
    };
    let aligned = [block.offset, block.metadata_len, block.body_len]
        .iter()
        .all(|n| n.is_multiple_of(super::ALIGN));
    let sane = block.offset >= HEAD_LEN && block.metadata_len <= super::MAX_METADATA_LEN;
    let ends = block
        .offset
        .checked_add(block.metadata_len)?
        .checked_add(block.body_len)?;
    (aligned && sane && ends < MAX_NUMBER).then_some(block)
}

/// `<base> <run> <rewound> <inline>`: a row is `block:row:prefix_len` or `-`, inline edits are hex.
fn encode_refs(refs: &RefsState) -> String {
    let row = |row: &Option<RefsRow>| {
        row.map_or("-".into(), |RefsRow { block, row, prefix_len }| {
            format!("{block}:{row}:{prefix_len}")
        })
    };
    format!(
        "{} {} {} {}",
        row(&refs.base),
        row(&refs.run),
        u8::from(refs.rewound),
        encode_hex(&refs.inline)
    )
}

fn decode_refs(text: &str) -> Option<RefsState> {
    let row = |text: &str| -> Option<Option<RefsRow>> {
        if text == "-" {
            return Some(None);
        }
        let mut numbers = text.split(':').map(|n| n.parse::<u64>().ok());
        let mut number = || numbers.next().flatten();
        let (block, row, prefix_len) = (number()?, number()?, number()?);
        Some(Some(RefsRow {
            block: block.try_into().ok()?,
            row: row.try_into().ok()?,
            prefix_len,
        }))
    };
    let mut fields = text.split(' ');
    let mut field = || fields.next();
    Some(RefsState {
        base: row(field()?)?,
        run: row(field()?)?,
        rewound: field()? == "1",
        inline: decode_hex(field()?.as_bytes())?,
    })
}

/// `KEY:VALUE KEY:VALUE`, values in hex.
fn encode_policy(policy: &[(String, Vec<u8>)]) -> String {
    let pairs = policy.iter().map(|(key, value)| format!("{key}:{}", encode_hex(value)));
    pairs.collect::<Vec<_>>().join(" ")
}

fn decode_policy(text: &str) -> Option<Vec<(String, Vec<u8>)>> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once(':')?;
        Some((key.to_owned(), decode_hex(value.as_bytes())?))
    };
    text.split(' ').map(pair).collect()
}

fn encode_totals(totals: &Totals) -> String {
    let Totals {
        last_txn,
        last_time_us,
        packs,
        objects,
        unresolved,
        unproven,
        damaged,
        pack_bytes,
        dead_bytes,
        damaged_entries,
    } = totals;
    format!(
        "{last_txn} {last_time_us} {packs} {objects} {unresolved} {unproven} {damaged} {pack_bytes} {dead_bytes} {damaged_entries}"
    )
}

fn decode_totals(text: &str) -> Option<Totals> {
    let mut numbers = text.split(' ').map(|n| n.parse::<i64>().ok());
    let mut signed = || numbers.next().flatten();
    let number = |n: Option<i64>| n.and_then(|n| u64::try_from(n).ok()).filter(|n| *n < MAX_NUMBER);
    let mut totals = Totals {
        last_txn: number(signed())?,
        last_time_us: signed()?,
        packs: number(signed())?,
        objects: number(signed())?,
        unresolved: number(signed())?,
        unproven: number(signed())?,
        damaged: number(signed())?,
        pack_bytes: number(signed())?,
        dead_bytes: number(signed())?,
        damaged_entries: 0,
    };
    // The first archives do not have the last number. Where it matters, it is only asked whether it is zero.
    totals.damaged_entries = match numbers.next() {
        Some(last) => number(last)?,
        None => totals.damaged,
    };
    Some(totals)
}

#[cfg(test)]
mod tests {
    use gix_hash::Kind;

    use super::*;

    fn footer(blocks: usize) -> Footer {
        Footer {
            ident: Ident {
                object_format: Kind::Sha256,
                uuid: "an-id".into(),
                generation: 2,
            },
            sequence: 17,
            commit_id: CommitId([9; 32]),
            blocks: vec![
                BlockRef {
                    offset: HEAD_LEN,
                    metadata_len: 2048,
                    body_len: 1 << 40,
                    level: 1
                };
                blocks
            ],
            refs: RefsState {
                base: Some(RefsRow {
                    block: 0,
                    row: 1,
                    prefix_len: 4711,
                }),
                run: None,
                inline: vec![0, 255, 3],
                rewound: true,
            },
            totals: Totals {
                last_txn: 20,
                last_time_us: -5,
                dead_bytes: 99,
                ..Totals::default()
            },
            policy: vec![
                ("receive.denyDeletes".into(), b"true".to_vec()),
                ("transfer.hideRefs".into(), b"refs/a b:c\xff".to_vec()),
                ("transfer.hideRefs".into(), vec![]),
            ],
        }
    }

    #[test]
    fn survives_a_round_trip() {
        for blocks in [0, 1, 2, 3, 1000] {
            let bytes = footer(blocks).encode();
            assert_eq!(bytes.len() % 8, 0);
            let (body, trailer) = bytes.split_at(bytes.len() - TRAILER_LEN);
            assert_eq!(decode_trailer(trailer), Some(body.len() as u64));
            assert_eq!(Footer::decode(body).unwrap(), footer(blocks));
        }
    }

    #[test]
    fn the_first_archives_count_no_damaged_entries() {
        let entries = |text| decode_totals(text).map(|totals| totals.damaged_entries);
        assert_eq!(entries("1 2 3 4 5 6 0 8 9"), Some(0));
        assert_eq!(entries("1 2 3 4 5 6 7 8 9"), Some(7));
        assert_eq!(entries("1 2 3 4 5 6 7 8 9 10"), Some(10));
        assert_eq!(entries("1 2 3 4 5 6 7 8 9 -1"), None);
        assert_eq!(entries("1 2 3 4 5 6 7 8"), None);
    }

    /// Other readers take the schema from the footer.
    #[test]
    fn the_schema_is_whole() {
        for kind in [Kind::Sha1, Kind::Sha256] {
            let mut footer = footer(2);
            footer.ident.object_format = kind;
            let bytes = footer.encode();
            let body = &bytes[..bytes.len() - TRAILER_LEN - DIGEST_LEN];
            let schema = arrow_ipc::root_as_footer(body).unwrap().schema().unwrap();
            let expected = schema::schema(kind)
                .as_ref()
                .clone()
                .with_metadata(schema::metadata(kind));
            assert_eq!(arrow_ipc::convert::try_fb_to_schema(schema).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_filled_in_later_is_where_it_belongs() {
        for blocks in [1, 2, 3, 100] {
            let finished = footer(blocks);
            let mut unfinished = finished.clone();
            unfinished.commit_id = CommitId::NONE;
            unfinished.blocks[blocks - 1].body_len = 0;
            let unfinished = unfinished.unfinished();
            assert_eq!(unfinished.footer_len(), finished.encode().len() as u64);
            let bytes = unfinished.finish(&finished);
            assert_eq!(Footer::decode(&bytes[..bytes.len() - TRAILER_LEN]).unwrap(), finished);
        }
    }

    #[test]
    fn no_flipped_bit_is_accepted() {
        let bytes = footer(1).encode();
        let body = &bytes[..bytes.len() - TRAILER_LEN];
        for bit in 0..body.len() * 8 {
            let mut flipped = body.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Footer::decode(&flipped).is_err(), "bit {bit}");
        }
    }
}
