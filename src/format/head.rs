//! The head: 12 KiB that hold the Arrow schema, the archive's identity and the slots.
//!
//! ```text
//!     0  "ARROW1" NUL NUL
//!     8  FFFFFFFF length, schema message with its metadata
//!  3584  identity line                          \
//!  4096  slot 0, tombstone                       | all inside the value of the schema metadata key
//!  8192  slot 1, tombstone                       | `znippy.head`, which is padded with spaces
//! 12288  the first commit                       /
//! ```
//!
//! Everything lies inside the schema message, because stream readers take zeros between messages for the end. File
//! readers use the footer's schema and never look here. Our own code parses no flatbuffer of the head: it reads the
//! identity line and the slots at their fixed places.

use arrow_ipc::{MessageBuilder, MessageHeader, MetadataVersion, convert::IpcSchemaEncoder};
use flatbuffers::FlatBufferBuilder;

use super::{
    CONTINUATION, FILE_MAGIC, HEAD_LEN, VERSION, digest, encode_hex,
    ident::Ident,
    schema,
    slot::{SLOT_LEN, SLOT_OFFSETS, Slot, TOMBSTONE, TOMBSTONE_AT},
};

/// Where the identity line starts.
pub const IDENT_AT: usize = 3584;
/// Bytes reserved for the identity line.
const IDENT_LEN: usize = 256;
const IDENT_PREFIX: &str = "znippy-archive ";
const KEY_HEAD: &str = "znippy.head";

/// Where everything in the head lies that may change, and the identity line.
pub const CHANGING: std::ops::Range<u64> = IDENT_AT as u64..SLOT_OFFSETS[1] + 2 * SLOT_LEN as u64;

/// The bytes of that part.
pub type Changing = [u8; (CHANGING.end - CHANGING.start) as usize];

/// Returns that part of a head; zeros where the head is shorter.
pub fn changing(head: &[u8]) -> Changing {
    let part = head.get(CHANGING.start as usize..CHANGING.end as usize);
    part.and_then(|part| part.try_into().ok())
        .unwrap_or([0; size_of::<Changing>()])
}

/// Returns where an offset in the file is in that part.
pub fn in_changing(offset: u64) -> usize {
    (offset - CHANGING.start) as usize
}

/// What the head of a file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// `None` where the magic or the identity line is unreadable: the footer repeats it, and the next writer writes the head again.
    pub ident: Option<Ident>,
    pub slots: [Option<Slot>; 2],
    /// What replaced this file, where something did.
    pub superseded_by: Option<Tombstone>,
}

/// What is written into a file that a newer generation replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tombstone {
    /// The newer generation.
    pub generation: u64,
    /// Device and inode number of the file that it was written into. A copy of that file is another one, and nothing replaced it.
    pub file: (u64, u64),
}

impl Tombstone {
    /// Returns the line, padded with spaces.
    pub fn encode(&self) -> [u8; SLOT_LEN] {
        let Tombstone { generation, file } = self;
        let line = format!("{TOMBSTONE}{generation} {}:{} ", file.0, file.1);
        let line = format!("{line}{}\n", sum_of(line.as_bytes()));
        let mut bytes = [b' '; SLOT_LEN];
        bytes[..line.len()].copy_from_slice(line.as_bytes());
        bytes
    }

    /// Parses the line; `None` where there is none, or where it is not as it was written: a torn line must not turn writers away.
    pub fn decode(bytes: &[u8]) -> Option<Tombstone> {
        let end = bytes.iter().position(|b| *b == b'\n')?;
        let line = std::str::from_utf8(&bytes[..end]).ok()?;
        let (covered, sum) = line.split_at_checked(line.rfind(' ')? + 1)?;
        if sum != sum_of(covered.as_bytes()) {
            return None;
        }
        let (generation, file) = covered.trim_end().strip_prefix(TOMBSTONE)?.split_once(' ')?;
        let (device, inode) = file.split_once(':')?;
        Some(Tombstone {
            generation: generation.parse().ok()?,
            file: (device.parse().ok()?, inode.parse().ok()?),
        })
    }
}

/// Why a head is not one of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadError {
    /// The file does not start as an Arrow file.
    NotArrow,
    /// An Arrow file without an identity line of ours.
    NotZnippy,
    /// A format version other than ours.
    Version(String),
    /// An object format other than sha1 and sha256.
    ObjectFormat(String),
}

impl Head {
    /// Returns the newer valid slot.
    pub fn newest_slot(&self) -> Option<Slot> {
        self.slots.iter().flatten().max_by_key(|slot| slot.write).copied()
    }

    /// Returns whether every slot that was ever written is valid.
    pub fn has_all_slots(&self) -> bool {
        match self.newest_slot() {
            Some(slot) => slot.write <= 1 || self.slots.iter().all(Option::is_some),
            None => false,
        }
    }

    /// Returns whether all that is read of a head can be read.
    pub fn is_readable(&self) -> bool {
        self.ident.is_some() && self.has_all_slots()
    }

    /// Returns the generation that replaced the file, of this device and inode number, that the head was read from.
    pub fn superseder_of(&self, file: (u64, u64)) -> Option<u64> {
        let tombstone = self.superseded_by.filter(|tombstone| tombstone.file == file)?;
        Some(tombstone.generation)
    }

    /// Parses the first [`HEAD_LEN`] bytes of a file.
    ///
    /// # Errors
    /// A damaged identity line is no error while a valid slot shows that this is an archive.
    pub fn decode(bytes: &[u8]) -> Result<Head, HeadError> {
        let field = |at: usize, len: usize| bytes.get(at..at + len).unwrap_or_default();
        let slots = SLOT_OFFSETS.map(|at| Slot::decode(field(at as usize, SLOT_LEN)));
        let ident = decode_ident(field(IDENT_AT, IDENT_LEN))?;
        if ident.is_none() && slots == [None, None] {
            let is_arrow = bytes.starts_with(FILE_MAGIC);
            return Err(if is_arrow {
                HeadError::NotZnippy
            } else {
                HeadError::NotArrow
            });
        }
        let tombstone = SLOT_OFFSETS.map(|at| Tombstone::decode(field((at + TOMBSTONE_AT) as usize, SLOT_LEN)));
        Ok(Head {
            ident: ident.filter(|_| bytes.starts_with(FILE_MAGIC)),
            slots,
            superseded_by: tombstone.into_iter().flatten().max(),
        })
    }
}

/// Returns the head of a new archive. Both slots are empty.
pub fn encode(ident: &Ident) -> Vec<u8> {
    let message_len = HEAD_LEN as usize - FILE_MAGIC.len() - 8;
    // The message is as long as the padding makes it, up to the alignment of its tables: find the padding that makes it end
    // at HEAD_LEN.
    let mut padding = message_len - 3000;
    let message = loop {
        let message = schema_message(ident, padding);
        if message.len() == message_len {
            break message;
        }
        padding = padding + message_len - message.len();
    };
    let mut head = Vec::with_capacity(HEAD_LEN as usize);
    head.extend_from_slice(FILE_MAGIC);
    head.extend_from_slice(&CONTINUATION);
    head.extend_from_slice(&(message_len as u32).to_le_bytes());
    head.extend_from_slice(&message);
    let spare = &head[IDENT_AT..SLOT_OFFSETS[1] as usize + 2 * SLOT_LEN];
    assert!(
        spare.iter().all(|b| *b == b' '),
        "the padding covers the identity line and the slots"
    );
    head[IDENT_AT..IDENT_AT + IDENT_LEN].copy_from_slice(&encode_ident(ident));
    head
}

fn schema_message(ident: &Ident, padding: usize) -> Vec<u8> {
    let mut metadata = schema::metadata(ident.object_format);
    metadata.insert(KEY_HEAD.into(), " ".repeat(padding));
    let schema = schema::schema(ident.object_format)
        .as_ref()
        .clone()
        .with_metadata(metadata);
    let mut fbb = FlatBufferBuilder::new();
    let schema = IpcSchemaEncoder::new().schema_to_fb_offset(&mut fbb, &schema);
    let mut message = MessageBuilder::new(&mut fbb);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::Schema);
    message.add_bodyLength(0);
    message.add_header(schema.as_union_value());
    let message = message.finish();
    fbb.finish(message, None);
    fbb.finished_data().to_vec()
}

/// Returns the identity line, padded with spaces:
/// `znippy-archive <version> <object format> <uuid> <generation> <sum> LF`.
fn encode_ident(ident: &Ident) -> [u8; IDENT_LEN] {
    let Ident { uuid, generation, .. } = ident;
    let line = format!("{IDENT_PREFIX}{VERSION} {} {uuid} {generation} ", ident.format_name());
    let line = format!("{line}{}\n", sum_of(line.as_bytes()));
    let mut bytes = [b' '; IDENT_LEN];
    bytes[..line.len()].copy_from_slice(line.as_bytes());
    bytes
}

fn decode_ident(bytes: &[u8]) -> Result<Option<Ident>, HeadError> {
    let line = bytes
        .split(|b| *b == b'\n')
        .next()
        .and_then(|line| std::str::from_utf8(line).ok());
    let Some(line) = line else { return Ok(None) };
    let Some((covered, sum)) = line.rfind(' ').and_then(|at| line.split_at_checked(at + 1)) else {
        return Ok(None);
    };
    let Some(fields) = covered
        .strip_prefix(IDENT_PREFIX)
        .filter(|_| sum == sum_of(covered.as_bytes()))
    else {
        return Ok(None);
    };
    let mut fields = fields.split(' ');
    let mut field = || fields.next().unwrap_or_default();
    // The version decides how the rest of the line reads, so it is judged first.
    let version = field();
    if version != VERSION.to_string() {
        return Err(HeadError::Version(version.into()));
    }
    let format = field();
    let object_format = schema::parse_format(format).ok_or_else(|| HeadError::ObjectFormat(format.into()))?;
    let uuid = field().to_string();
    Ok(field().parse().ok().map(|generation| Ident {
        object_format,
        uuid,
        generation,
    }))
}

/// Returns the parts of a head that are never changed, with their offsets: all but slots and tombstones.
pub fn constant_parts(head: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let behind = SLOT_OFFSETS.map(|at| (at + TOMBSTONE_AT) as usize + SLOT_LEN);
    let starts = [0, behind[0], behind[1]];
    let ends = [SLOT_OFFSETS[0] as usize, SLOT_OFFSETS[1] as usize, HEAD_LEN as usize];
    starts
        .into_iter()
        .zip(ends)
        .map(|(start, end)| (start as u64, &head[start..end]))
}

fn sum_of(line: &[u8]) -> String {
    encode_hex(&digest(&[line])[..16])
}

#[cfg(test)]
mod tests {
    use gix_hash::Kind;

    use super::*;
    use crate::format::CommitId;

    #[test]
    fn survives_a_round_trip() {
        for object_format in [Kind::Sha1, Kind::Sha256] {
            let ident = Ident {
                object_format,
                uuid: super::super::ident::uuid_from_random([7; 16]),
                generation: 3,
            };
            let mut bytes = encode(&ident);
            assert_eq!(bytes.len() as u64, HEAD_LEN);
            let head = Head::decode(&bytes).unwrap();
            assert_eq!(
                head,
                Head {
                    ident: Some(ident.clone()),
                    slots: [None, None],
                    superseded_by: None
                }
            );
            let slot = Slot {
                write: 2,
                append: HEAD_LEN,
                footer_end: HEAD_LEN,
                commit_id: CommitId([1; 32]),
            };
            let at = slot.offset() as usize;
            bytes[at..at + SLOT_LEN].copy_from_slice(&slot.encode());
            assert_eq!(Head::decode(&bytes).unwrap().newest_slot(), Some(slot));
            let tombstone = Tombstone {
                generation: 4,
                file: (7, u64::MAX),
            };
            bytes[at + SLOT_LEN..at + 2 * SLOT_LEN].copy_from_slice(&tombstone.encode());
            let superseded = Head::decode(&bytes).unwrap();
            assert_eq!(superseded.superseder_of(tombstone.file), Some(4));
            assert_eq!(superseded.superseder_of((7, 8)), None, "a copy");
            assert_eq!(superseded.newest_slot(), Some(slot));
            let line = at + SLOT_LEN..at + SLOT_LEN + TOMBSTONE.len() + 70;
            for bit in (line.start * 8..line.end * 8).filter(|bit| bytes[bit / 8] != b' ') {
                let mut torn = bytes.clone();
                torn[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Head::decode(&torn).unwrap().superseded_by, None, "bit {bit}");
            }
            bytes[IDENT_AT + 20] ^= 1;
            assert_eq!(Head::decode(&bytes).unwrap().ident, None);
        }
    }

    #[test]
    fn names_versions_and_formats_it_does_not_know() {
        let ident = Ident {
            object_format: Kind::Sha1,
            uuid: "u".into(),
            generation: 1,
        };
        let with_line = |line: &str| {
            let mut bytes = encode(&ident);
            let line = format!("{line}{}\n", sum_of(line.as_bytes()));
            bytes[IDENT_AT..IDENT_AT + line.len()].copy_from_slice(line.as_bytes());
            Head::decode(&bytes).unwrap_err()
        };
        assert_eq!(
            with_line("znippy-archive 2 blake3 whatever "),
            HeadError::Version("2".into())
        );
        assert_eq!(
            with_line("znippy-archive 1 blake3 u 1 "),
            HeadError::ObjectFormat("blake3".into())
        );
        assert_eq!(Head::decode(b"PK"), Err(HeadError::NotArrow));
        assert_eq!(
            Head::decode(b"ARROW1\0\0 and then something else"),
            Err(HeadError::NotZnippy)
        );
    }
}
