//! Reading one record batch message: its rows, its objects, and where its packs lie.

use std::{collections::HashMap, io, ops::Range, panic};

use arrow_array::{
    Array, FixedSizeBinaryArray, RecordBatch, StructArray, UInt8Array, UInt32Array, UInt64Array,
    cast::AsArray,
    types::{UInt8Type, UInt32Type, UInt64Type},
};
use arrow_buffer::Buffer;
use gix_hash::{Kind, ObjectId};
use sha2::{Digest, Sha256};

use super::{
    Sum,
    commit_table::CommitTable,
    decode,
    footer::BlockRef,
    geometry::{Geometry, SectionSum, decode_prefix, section_sum},
    row::{Proof, Row, RowKind},
    schema,
    schema::column,
};
use crate::{media::Medium, pack::EntryTable};

/// Why something could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The medium failed.
    Io(io::Error),
    /// The bytes are not what was written.
    Damaged(String),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Io(error)
    }
}

impl From<String> for ReadError {
    fn from(what: String) -> Self {
        ReadError::Damaged(what)
    }
}

/// What a row proves of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProofRow {
    /// The number of the row.
    pub txn: u64,
    /// The number of the row that has the pack: the same one, or the one that an index row is about.
    pub of: u64,
    pub proof: Proof,
}

/// A pack inside a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackSpan {
    /// The number of its transaction: packs rank in this order, wherever their rows lie.
    pub txn: u64,
    /// The row that it belongs to.
    pub row: usize,
    /// Offset of its first byte in the file.
    pub at: u64,
    pub len: u64,
    pub id: ObjectId,
}

/// A live batch whose metadata was checked.
#[derive(Debug, Clone)]
pub struct Batch {
    pub block: BlockRef,
    pub geometry: Geometry,
    kind: Kind,
    /// The columns of a small batch, which came along when the metadata was read.
    columns: Option<Vec<u8>>,
}

/// Bytes of a section that are read and hashed at once.
const CHUNK: u64 = 1 << 20;
/// Sections up to this size are read before they are checked.
const TRUSTED: u64 = 16 << 20;

/// How much to read at once in the hope of getting metadata and columns of a small batch.
const BATCH_GUESS: u64 = 8 * 1024;

/// Which checked sections of the columns to read.
#[derive(Clone, Copy)]
enum Sections {
    UpToRefs,
    Objects,
    BehindObjects,
}

impl Batch {
    /// Returns what [`Batch::load`] reads.
    pub fn first_read(block: BlockRef) -> Range<u64> {
        let len = block
            .metadata_len
            .max(BATCH_GUESS.min(block.metadata_len.saturating_add(block.body_len)));
        block.offset..block.offset.saturating_add(len)
    }

    /// Reads and checks the metadata of the batch at `block`.
    pub fn load(medium: &dyn Medium, block: BlockRef, kind: Kind) -> Result<Batch, ReadError> {
        let first = Batch::first_read(block);
        let mut metadata = crate::media::read_vec(medium, first.start, (first.end - first.start) as usize)?;
        let mut columns = metadata.split_off(block.metadata_len as usize);
        let mut batch = Batch::from_metadata(&metadata, block, kind)?;
        let columns_len = batch.geometry.pack_data().start as usize;
        if columns.len() >= columns_len {
            columns.truncate(columns_len);
            batch.columns = Some(columns);
        }
        Ok(batch)
    }

    /// Checks the metadata of a batch that was read already.
    pub fn from_metadata(metadata: &[u8], block: BlockRef, kind: Kind) -> Result<Batch, ReadError> {
        let fits = decode_prefix(metadata) == Some(block.metadata_len);
        let geometry = Geometry::decode(metadata, kind)?;
        if !fits || geometry.body_len != block.body_len {
            return Err(format!("the batch at {} does not fit the footer", block.offset).into());
        }
        Ok(Batch {
            block,
            geometry,
            kind,
            columns: None,
        })
    }

    /// Decodes the columns from `txn` to `refs` out of the first bytes of the body.
    pub fn head_columns_from(&self, body: Buffer) -> Result<RecordBatch, ReadError> {
        let [refs, ..] = self.geometry.sections();
        self.check_section(0, body.get(..refs.end as usize).unwrap_or_default())?;
        self.decode(body, &[0, 1, 2, 3, 4, 5, 6])
    }

    /// Returns which of the batch's objects are those of `row`, without reading them.
    ///
    /// The few bytes that say so are read without the checksum of their section: whoever reads there notices a wrong place.
    pub fn object_range(&self, medium: &dyn Medium, row: usize) -> Result<Range<u64>, ReadError> {
        let objects = self.geometry.objects();
        if self.geometry.rows == 1 {
            return Ok(0..objects);
        }
        let offsets = self.geometry.buffer(column::OBJECTS, 1);
        let bytes = crate::media::read_vec(medium, self.block.body_at() + offsets.start + 4 * row as u64, 8)?;
        let mut bounds = le_values::<4>(&bytes).map(|b| u64::from(u32::from_le_bytes(b)));
        let range = bounds.next().unwrap_or_default()..bounds.next().unwrap_or_default();
        let fits = range.start <= range.end && range.end <= objects;
        let bad = || ReadError::from("a row's objects lie outside its batch".to_string());
        fits.then_some(range).ok_or_else(bad)
    }

    /// Reads the objects of every row.
    pub fn entries(&self, medium: &dyn Medium) -> Result<Vec<EntryTable>, ReadError> {
        let body = self.read_sections(medium, &[Sections::Objects])?;
        let batch = self.decode(body, &[column::OBJECTS])?;
        entry_tables(batch.column(0), self.kind)
    }

    /// Reads which transactions' packs were found unsound by index rows, each with the number of damaged objects told.
    pub fn findings(&self, medium: &dyn Medium) -> Result<Vec<(u64, usize)>, ReadError> {
        let body = self.read_sections(medium, &[Sections::UpToRefs, Sections::BehindObjects])?;
        let batch = self.decode(
            body,
            &[column::KIND, column::PROOF, column::SETTINGS, column::COVERS_FROM],
        )?;
        let (kinds, proofs) = (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
        let settings = batch.column(2).as_list::<i32>();
        let covers = batch.column(3).as_primitive::<UInt64Type>();
        let unsound = |row: &usize| {
            kinds.value(*row) == RowKind::Index.name()
                && proofs.value(*row) == Proof::None.name()
                && covers.is_valid(*row)
        };
        let rows = (0..batch.num_rows()).filter(unsound);
        Ok(rows
            .map(|row| (covers.value(row), settings.value_length(row) as usize))
            .collect())
    }

    /// Reads for each row which transaction's pack it proves, and how far: its own, or the one that an index row covers.
    pub fn proofs(&self, medium: &dyn Medium) -> Result<Vec<ProofRow>, ReadError> {
        let body = self.read_sections(medium, &[Sections::UpToRefs, Sections::BehindObjects])?;
        let batch = self.decode(body, &[column::TXN, column::PROOF, column::COVERS_FROM])?;
        let txns = batch.column(0).as_primitive::<UInt64Type>();
        let proofs = batch.column(1).as_string::<i32>();
        let covers = batch.column(2).as_primitive::<UInt64Type>();
        let rows = (0..batch.num_rows()).map(|row| ProofRow {
            txn: txns.value(row),
            of: match covers.is_valid(row) {
                true => covers.value(row),
                false => txns.value(row),
            },
            proof: Proof::from_name(proofs.value(row)).unwrap_or(Proof::None),
        });
        Ok(rows.collect())
    }

    /// As [`Batch::proofs`], but reads only the few bytes that say so, without the checksum of their section, which covers the
    /// commit graph too: for whom a wrong answer does no harm.
    pub fn proofs_unchecked(&self, medium: &dyn Medium) -> Result<Vec<ProofRow>, ReadError> {
        let txns = numbers(&self.buffer(medium, column::TXN, 1)?);
        let (bounds, names) = (
            self.buffer(medium, column::PROOF, 1)?,
            self.buffer(medium, column::PROOF, 2)?,
        );
        let bounds: Vec<_> = le_values::<4>(&bounds)
            .map(|b| u32::from_le_bytes(b) as usize)
            .collect();
        let has_covers = self.buffer(medium, column::COVERS_FROM, 0)?;
        let covers = numbers(&self.buffer(medium, column::COVERS_FROM, 1)?);
        let row = |(row, txn): (usize, &u64)| {
            let name = names.get(*bounds.get(row)?..*bounds.get(row + 1)?)?;
            let name = std::str::from_utf8(name).ok()?;
            Some(ProofRow {
                txn: *txn,
                of: match is_valid(&has_covers, row) {
                    true => *covers.get(row)?,
                    false => *txn,
                },
                proof: Proof::from_name(name).unwrap_or(Proof::None),
            })
        };
        let rows = txns.iter().enumerate().take(self.geometry.rows).map(row);
        let bad = || ReadError::from("a row's proof lies outside its batch".to_string());
        rows.collect::<Option<_>>().ok_or_else(bad)
    }

    /// Reads every row whole, but for the bytes of its pack.
    pub fn rows(&self, medium: &dyn Medium) -> Result<Vec<Row>, ReadError> {
        let body = self.read_sections(
            medium,
            &[Sections::UpToRefs, Sections::Objects, Sections::BehindObjects],
        )?;
        let all: Vec<usize> = (0..column::PACK).collect();
        let batch = self.decode(body, &all)?;
        let objects = entry_tables(batch.column(column::OBJECTS), self.kind)?;
        Ok(decode::rows(&batch, objects))
    }

    /// Reads the columns up to `refs` of every row; the rest of the rows is empty.
    pub fn head_rows(&self, medium: &dyn Medium) -> Result<Vec<Row>, ReadError> {
        let body = self.read_sections(medium, &[Sections::UpToRefs])?;
        let columns: Vec<usize> = (0..=column::REFS).collect();
        Ok(decode::head_rows(&self.decode(body, &columns)?))
    }

    /// Reads the commits of every row that has some.
    pub fn commit_tables(&self, medium: &dyn Medium) -> Result<Vec<CommitTable>, ReadError> {
        // List validity and offsets, struct validity, then the ids.
        if self.geometry.buffer(column::COMMITS, 4).is_empty() {
            return Ok(vec![]);
        }
        let body = self.read_sections(medium, &[Sections::BehindObjects])?;
        let batch = self.decode(body, &[column::COMMITS])?;
        let lists = batch.column(0).as_list::<i32>();
        let tables = (0..lists.len()).map(|row| CommitTable::new(lists.value(row).as_struct()));
        Ok(tables.filter(|table| !table.is_empty()).collect())
    }

    /// Reads where the packs of all rows lie. The rows' order is the packs' rank.
    ///
    /// Only the few bytes that say so are read, without the checksum of their section, which covers the commit graph too, so
    /// that damage there costs no pack: a wrong place is noticed by the checksum of whatever is read there.
    pub fn packs(&self, medium: &dyn Medium) -> Result<Vec<PackSpan>, ReadError> {
        if self.geometry.pack_data().is_empty() {
            return Ok(vec![]);
        }
        let buffer = |column, nth| self.buffer(medium, column, nth);
        let txns = numbers(&buffer(column::TXN, 1)?);
        let (has_size, sizes) = (buffer(column::PACK_SIZE, 0)?, numbers(&buffer(column::PACK_SIZE, 1)?));
        let (has_id, ids) = (buffer(column::PACK_ID, 0)?, buffer(column::PACK_ID, 1)?);
        let list_offsets = buffer(column::PACK, 1)?;
        let list_offsets: Vec<_> = le_values::<4>(&list_offsets)
            .map(|b| i64::from(i32::from_le_bytes(b)))
            .collect();
        let part_offsets = numbers(&buffer(column::PACK, 3)?);
        let data = self.geometry.pack_data();
        let bad = || ReadError::from("a pack lies outside its batch".to_string());
        let offset_of = |index: i64| {
            let at = usize::try_from(index).ok().and_then(|index| part_offsets.get(index));
            at.copied().filter(|at| *at <= data.end - data.start).ok_or_else(bad)
        };
        let mut spans = vec![];
        for (row, bounds) in list_offsets.windows(2).enumerate().take(self.geometry.rows) {
            let (start, end) = (offset_of(bounds[0])?, offset_of(bounds[1])?);
            let has_pack = is_valid(&has_size, row);
            let size = match has_pack {
                true => *sizes.get(row).ok_or_else(bad)?,
                false => 0,
            };
            if end.checked_sub(start) != Some(size) || has_pack != is_valid(&has_id, row) {
                return Err(bad());
            }
            if end > start {
                let width = self.kind.len_in_bytes();
                let id = ids.get(row * width..(row + 1) * width).ok_or_else(bad)?;
                spans.push(PackSpan {
                    txn: *txns.get(row).ok_or_else(bad)?,
                    row,
                    at: self.block.body_at() + data.start + start,
                    len: end - start,
                    id: object_id(id),
                });
            }
        }
        Ok(spans)
    }

    /// Returns where the bytes lie in the file that say where indexes and packs are; together with the index itself, where the
    /// batch has one row. One read for all of it is what [`Batch::packs`] and [`Batch::index_range`] then need. `None` without packs.
    pub fn places(&self) -> Option<Range<u64>> {
        let at = self.block.body_at();
        let places = at + self.geometry.buffer(column::INDEX, 1).start..at + self.geometry.buffer(column::PACK, 3).end;
        (!self.geometry.pack_data().is_empty()).then_some(places)
    }

    /// Returns where the value of a row's `index` lies in the file, without reading it.
    pub fn index_range(&self, medium: &dyn Medium, row: usize) -> Result<Option<Range<u64>>, ReadError> {
        let offsets = self.geometry.buffer(column::INDEX, 1);
        let at = self.block.body_at();
        let data = self.geometry.buffer(column::INDEX, 2);
        if self.geometry.rows == 1 {
            let data = at + data.start..at + data.end;
            return Ok((row == 0 && !data.is_empty()).then_some(data));
        }
        let bytes = crate::media::read_vec(medium, at + offsets.start, (offsets.end - offsets.start) as usize)?;
        let offsets: Vec<_> = le_values::<8>(&bytes).map(|b| i64::from_le_bytes(b) as u64).collect();
        let len = data.end - data.start;
        match offsets.get(row..row + 2) {
            Some(&[start, end]) if start < end && end <= len => {
                let base = at + data.start;
                Ok(Some(base + start..base + end))
            }
            _ => Ok(None),
        }
    }

    /// Returns where the columns of the batch's objects lie in the file, from object `first` on: oid, type, size,
    /// pack_offset, crc32.
    pub fn object_columns(&self, first: u64) -> [u64; 5] {
        // Buffers of `objects`: list validity and offsets, struct validity, then validity and values of each field.
        let columns = [(4, self.kind.len_in_bytes() as u64), (6, 1), (8, 8), (10, 8), (12, 4)];
        columns
            .map(|(nth, width)| self.block.body_at() + self.geometry.buffer(column::OBJECTS, nth).start + first * width)
    }

    /// Returns where the three checked sections of the columns lie in the file.
    pub fn section_places(&self) -> [Range<u64>; 3] {
        let at = self.block.body_at();
        self.geometry
            .sections()
            .map(|section| at + section.start..at + section.end)
    }

    /// Reads one of the three sections and checks it against the metadata.
    pub fn check_section_of(&self, medium: &dyn Medium, index: usize) -> Result<(), ReadError> {
        let Range { start, end } = self.section_places()[index].clone();
        let mut hasher = Sha256::new();
        let mut chunk = vec![0; CHUNK.min(end - start) as usize];
        let mut at = start;
        while at < end {
            let part = &mut chunk[..CHUNK.min(end - at) as usize];
            medium.read_exact_at(at, part)?;
            hasher.update(&part);
            at += part.len() as u64;
        }
        let sum: Sum = hasher.finalize().into();
        self.compare_section(index, *sum.first_chunk().expect("a digest is longer"))
    }

    /// Reads one buffer of a column without the checksum of its section.
    fn buffer(&self, medium: &dyn Medium, column: usize, nth: usize) -> io::Result<Vec<u8>> {
        let Range { start, end } = self.geometry.buffer(column, nth);
        match &self.columns {
            Some(columns) => Ok(columns[start as usize..end as usize].to_vec()),
            None => crate::media::read_vec(medium, self.block.body_at() + start, (end - start) as usize),
        }
    }

    /// Reads whole sections at their places of the body and checks them; the rest of the result is zeros that cost nothing.
    fn read_sections(&self, medium: &dyn Medium, wanted: &[Sections]) -> Result<Buffer, ReadError> {
        let sections = self.geometry.sections();
        for wanted in wanted {
            let section = &sections[*wanted as usize];
            if section.end - section.start > TRUSTED {
                // A sparse file can claim anything: memory is taken for what has its checksum.
                self.check_section_of(medium, *wanted as usize)?;
            }
        }
        let end = wanted.iter().map(|wanted| sections[*wanted as usize].end).max();
        let mut body = vec![0; end.unwrap_or(0) as usize];
        for wanted in wanted {
            let index = *wanted as usize;
            let range = sections[index].clone();
            let part = &mut body[range.start as usize..range.end as usize];
            match &self.columns {
                Some(columns) => part.copy_from_slice(&columns[range.start as usize..range.end as usize]),
                None => medium.read_exact_at(self.block.body_at() + range.start, part)?,
            }
            self.check_section(index, part)?;
        }
        Ok(Buffer::from_vec(body))
    }

    fn check_section(&self, index: usize, bytes: &[u8]) -> Result<(), ReadError> {
        self.compare_section(index, section_sum(&[bytes]))
    }

    fn compare_section(&self, index: usize, sum: SectionSum) -> Result<(), ReadError> {
        if sum == self.geometry.sums[index] {
            return Ok(());
        }
        let name = ["references", "object index", "commit graph and index"][index];
        Err(format!(
            "the {name} of the commit at offset {} changed on the disk",
            self.block.offset
        )
        .into())
    }

    fn decode(&self, body: Buffer, projection: &[usize]) -> Result<RecordBatch, ReadError> {
        let schema = schema::schema(self.kind);
        // Geometry and checksums were checked; what is left is an archive that was forged consistently. Arrow may still panic
        // on one, and must not take the program along.
        let decoded = panic::catch_unwind(|| {
            let message = arrow_ipc::root_as_message(self.geometry.flatbuffer()).map_err(|error| error.to_string())?;
            let batch = message.header_as_record_batch().ok_or("not a record batch")?;
            let version = message.version();
            arrow_ipc::reader::read_record_batch(&body, batch, schema, &HashMap::new(), Some(projection), &version)
                .map_err(|error| error.to_string())
        });
        let outcome = decoded.unwrap_or_else(|_| Err("the columns contradict each other".into()));
        outcome.map_err(|what| ReadError::Damaged(format!("commit at offset {}: {what}", self.block.offset)))
    }
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    le_values::<8>(bytes).map(u64::from_le_bytes).collect()
}

/// Returns whether a row has a value. Without a bitmap, all have one.
fn is_valid(bits: &[u8], row: usize) -> bool {
    bits.is_empty() || bits.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1)
}

fn le_values<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks::<N>().0.iter().copied()
}

/// Returns the object id in a column value.
pub fn object_id(bytes: &[u8]) -> ObjectId {
    ObjectId::from_bytes_or_panic(bytes)
}

/// Returns the objects of every row.
fn entry_tables(objects: &dyn Array, kind: Kind) -> Result<Vec<EntryTable>, ReadError> {
    let lists = objects.as_list::<i32>();
    (0..lists.len())
        .map(|row| entry_table(lists.value(row).as_struct(), kind))
        .collect()
}

fn entry_table(objects: &StructArray, kind: Kind) -> Result<EntryTable, ReadError> {
    let width = kind.len_in_bytes();
    let oids: &FixedSizeBinaryArray = objects.column(0).as_fixed_size_binary();
    let kinds: &UInt8Array = objects.column(1).as_primitive::<UInt8Type>();
    let sizes: &UInt64Array = objects.column(2).as_primitive::<UInt64Type>();
    let offsets: &UInt64Array = objects.column(3).as_primitive::<UInt64Type>();
    let crc32s: &UInt32Array = objects.column(4).as_primitive::<UInt32Type>();
    let count = objects.len();
    let mut table = EntryTable {
        oid_len: width,
        oids: Vec::with_capacity(count * width),
        offsets: offsets.values().to_vec(),
        crc32s: crc32s.values().to_vec(),
        ..EntryTable::default()
    };
    for index in 0..count {
        table.oids.extend_from_slice(oids.value(index));
    }
    if kinds.null_count() < count {
        table.kinds = kinds.iter().map(|kind| kind.unwrap_or(0)).collect();
        table.sizes = sizes.iter().map(|size| size.unwrap_or(0)).collect();
    }
    if !(1..count).all(|index| table.oid(index - 1) <= table.oid(index)) {
        return Err("the objects of a commit are not sorted".to_string().into());
    }
    Ok(table)
}
