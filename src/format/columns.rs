//! Rows as Arrow columns, and the column buffers of a record batch message.

use std::sync::{Arc, LazyLock};

use arrow_array::{
    Array, ArrayRef, BinaryArray, FixedSizeBinaryArray, LargeBinaryArray, ListArray, StringArray, StructArray,
    TimestampMicrosecondArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_ipc::{Buffer as BufferRange, FieldNode};
use arrow_schema::Fields;
use bstr::BString;
use gix_hash::{Kind, ObjectId};

use super::{
    ALIGN, MAX_COLUMNS_LEN, align_up,
    commit_rows::{self, CommitRows},
    row::{RefRow, Row},
    schema,
    schema::column,
};
use crate::pack::EntryTable;

/// Pack bytes are stored in parts of at most this size, because some readers cannot hold a value of 4 GiB.
pub const MAX_PART_LEN: u64 = 1 << 30;

/// The column buffers of one record batch, all but the pack bytes.
pub struct Columns {
    pub rows: usize,
    pub nodes: Vec<FieldNode>,
    /// Ranges relative to the start of the body; the last is the pack data.
    pub ranges: Vec<BufferRange>,
    /// What to write from the start of the body on; padding included.
    pub chunks: Vec<Buffer>,
    /// Where the pack data starts, relative to the start of the body.
    pub pack_at: u64,
    /// Ends of the three checked sections: up to and with `refs`, `objects`, everything up to the pack data.
    pub section_ends: [u64; 3],
}

/// Lays rows out as columns.
///
/// # Errors
/// Fails where a list would have more than 2³¹ − 1 elements, or the names, authors or the like of all rows more bytes; and where a
/// row is of a later version: what it says would be lost.
pub fn encode(rows: Vec<Row>, kind: Kind) -> Result<Columns, String> {
    encode_within(rows, kind, i32::MAX as usize, MAX_PART_LEN)
}

/// As [`encode`], with at most `max_bytes` bytes of values in a column with 32-bit offsets, and pack parts of `part_len`.
fn encode_within(mut rows: Vec<Row>, kind: Kind, max_bytes: usize, part_len: u64) -> Result<Columns, String> {
    if let Some(row) = rows.iter().find(|row| row.is_foreign) {
        return Err(format!(
            "transaction {} was written by a later version, which must rewrite it",
            row.txn
        ));
    }
    check_value_bytes(&rows, max_bytes)?;
    let schema = schema::schema(kind);
    let arrays = arrays(&mut rows, kind)?;
    let mut layout = Layout::for_schema(*schema::first_buffers(&schema).last().expect("not empty"));
    let mut column_ends = Vec::with_capacity(column::COUNT);
    for array in &arrays {
        layout.push_array(&array.to_data());
        column_ends.push(layout.len);
    }
    layout.push_pack(&rows, part_len)?;
    if layout.len > MAX_COLUMNS_LEN {
        return Err(format!("{} bytes of columns do not fit into one commit", layout.len));
    }
    debug_assert_eq!(
        layout.ranges.len(),
        *schema::first_buffers(&schema).last().expect("not empty")
    );
    Ok(Columns {
        rows: rows.len(),
        nodes: layout.nodes,
        ranges: layout.ranges,
        chunks: layout.chunks,
        pack_at: layout.len,
        section_ends: [column_ends[column::REFS], column_ends[column::OBJECTS], layout.len],
    })
}

/// Checks that the values of each column with 32-bit offsets fit: such offsets count bytes.
fn check_value_bytes(rows: &[Row], max: usize) -> Result<(), String> {
    let refs = || rows.iter().flat_map(|row| &row.refs);
    let settings = || rows.iter().flat_map(|row| &row.settings);
    let commits = || rows.iter().map(|row| &row.commits);
    let optional_len = |value: &Option<BString>| value.as_ref().map_or(0, |value| value.len());
    let sums: [(&str, usize); 7] = [
        ("actors", rows.iter().map(|row| optional_len(&row.actor)).sum()),
        ("names of settings", settings().map(|(key, _)| key.len()).sum()),
        ("settings", settings().map(|(_, value)| value.len()).sum()),
        ("reference names", refs().map(|r| r.name.len()).sum()),
        ("symbolic references", refs().map(|r| optional_len(&r.symref)).sum()),
        ("authors", commits().map(CommitRows::author_bytes).sum()),
        ("parents of commits", commits().map(CommitRows::parent_count).sum()),
    ];
    match sums.into_iter().find(|(_, sum)| *sum > max) {
        Some((what, sum)) => Err(format!("{sum} bytes of {what} do not fit into one commit")),
        None => Ok(()),
    }
}

/// What stands between buffers.
static PADDING: LazyLock<Buffer> = LazyLock::new(|| Buffer::from(&[0; ALIGN as usize]));

/// Nodes, ranges and bytes in the order that Arrow IPC wants: depth first, parents before children.
struct Layout {
    nodes: Vec<FieldNode>,
    ranges: Vec<BufferRange>,
    chunks: Vec<Buffer>,
    len: u64,
}

impl Layout {
    /// Starts a layout of so many buffers. No node has fewer than one, and no buffer more than its bytes and padding.
    fn for_schema(buffers: usize) -> Layout {
        Layout {
            nodes: Vec::with_capacity(buffers),
            ranges: Vec::with_capacity(buffers),
            chunks: Vec::with_capacity(2 * buffers),
            len: 0,
        }
    }

    fn push_buffer(&mut self, buffer: Buffer) {
        let len = buffer.len() as u64;
        self.ranges.push(BufferRange::new(self.len as i64, len as i64));
        if len > 0 {
            self.chunks.push(buffer);
        }
        let padding = (align_up(len) - len) as usize;
        if padding > 0 {
            self.chunks.push(PADDING.slice_with_length(0, padding));
        }
        self.len += align_up(len);
    }

    /// Adds the bitmap of what is not null, which is empty where nothing is.
    fn push_validity(&mut self, nulls: Option<&NullBuffer>) {
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => self.push_buffer(nulls.buffer().clone()),
            None => self.ranges.push(BufferRange::new(self.len as i64, 0)),
        }
    }

    fn push_array(&mut self, data: &ArrayData) {
        self.nodes
            .push(FieldNode::new(data.len() as i64, data.null_count() as i64));
        self.push_validity(data.nulls());
        for buffer in data.buffers() {
            self.push_buffer(buffer.clone());
        }
        for child in data.child_data() {
            self.push_array(child);
        }
    }

    /// The last column, whose data buffer stays a promise: its bytes are copied behind the rest.
    fn push_pack(&mut self, rows: &[Row], part_len: u64) -> Result<(), String> {
        let mut list_offsets = vec![0i32];
        let mut part_offsets = vec![0i64];
        let mut end = 0u64;
        for row in rows {
            let mut left = row.pack.map_or(0, |pack| pack.len);
            while left > 0 {
                let part = left.min(part_len);
                (end, left) = (end + part, left - part);
                part_offsets.push(end as i64);
            }
            list_offsets.push(i32::try_from(part_offsets.len() - 1).map_err(|_| "too many pack parts")?);
        }
        let valid: NullBuffer = rows.iter().map(|row| row.pack.is_some()).collect::<Vec<_>>().into();
        let parts = part_offsets.len() - 1;
        self.nodes
            .push(FieldNode::new(rows.len() as i64, valid.null_count() as i64));
        self.push_validity(Some(&valid));
        self.push_buffer(Buffer::from_vec(list_offsets));
        self.nodes.push(FieldNode::new(parts as i64, 0));
        self.push_validity(None);
        self.push_buffer(Buffer::from_vec(part_offsets));
        self.ranges.push(BufferRange::new(self.len as i64, end as i64));
        Ok(())
    }
}

/// Returns all columns but `pack`, in order.
fn arrays(rows: &mut [Row], kind: Kind) -> Result<Vec<ArrayRef>, String> {
    let width = kind.len_in_bytes();
    let refs: Vec<_> = rows.iter_mut().map(|row| std::mem::take(&mut row.refs)).collect();
    let commits: Vec<_> = rows.iter_mut().map(|row| std::mem::take(&mut row.commits)).collect();
    let objects: Vec<_> = rows.iter_mut().map(|row| std::mem::take(&mut row.objects)).collect();
    let packs = rows.iter().map(|row| row.pack);
    Ok(vec![
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.txn))),
        Arc::new(TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.time_us)).with_timezone("UTC")),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.kind.name()))),
        Arc::new(BinaryArray::from_iter(rows.iter().map(|row| row.actor.as_deref()))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.proof.name()))),
        settings_array(rows, kind)?,
        refs_array(&refs, kind)?,
        objects_array(objects, kind)?,
        commits_array(commits, kind)?,
        Arc::new(UInt64Array::from_iter(
            rows.iter().map(|row| row.covers.map(|(from, _)| from)),
        )),
        Arc::new(UInt64Array::from_iter(
            rows.iter().map(|row| row.covers.map(|(_, to)| to)),
        )),
        Arc::new(LargeBinaryArray::from_iter(rows.iter().map(|row| row.index.as_deref()))),
        Arc::new(UInt64Array::from_iter(
            packs.clone().map(|pack| pack.map(|pack| pack.len)),
        )),
        oid_array(packs.map(|pack| pack.map(|pack| pack.id)), width, true),
    ])
}

/// Builds the list column whose row `i` has `lengths[i]` elements of the struct made of `children`.
fn list_of(fields: Fields, lengths: impl Iterator<Item = usize>, children: Vec<ArrayRef>) -> Result<ArrayRef, String> {
    let mut end = 0usize;
    let mut offsets = vec![0i32];
    for length in lengths {
        end += length;
        offsets.push(i32::try_from(end).map_err(|_| format!("{end} elements do not fit into one commit"))?);
    }
    let structs = StructArray::new(fields, children, None);
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(ListArray::new(
        schema::item(structs.data_type().clone()),
        offsets,
        Arc::new(structs),
        None,
    )))
}

/// Builds an object id column. `nullable` keeps the validity bitmap away where it must not be.
fn oid_array(oids: impl Iterator<Item = Option<ObjectId>>, width: usize, nullable: bool) -> ArrayRef {
    let (mut bytes, mut valid) = (Vec::new(), Vec::new());
    for oid in oids {
        match &oid {
            Some(oid) => bytes.extend_from_slice(oid.as_slice()),
            None => bytes.resize(bytes.len() + width, 0),
        }
        valid.push(oid.is_some());
    }
    let nulls = nullable.then(|| NullBuffer::from(valid));
    Arc::new(FixedSizeBinaryArray::new(width as i32, Buffer::from_vec(bytes), nulls))
}

fn settings_array(rows: &[Row], kind: Kind) -> Result<ArrayRef, String> {
    let all = || rows.iter().flat_map(|row| &row.settings);
    let keys = StringArray::from_iter_values(all().map(|(key, _)| key));
    let values = BinaryArray::from_iter_values(all().map(|(_, value)| value));
    let lengths = rows.iter().map(|row| row.settings.len());
    list_of(
        schema::list_fields(kind, column::SETTINGS),
        lengths,
        vec![Arc::new(keys), Arc::new(values)],
    )
}

fn refs_array(refs: &[Vec<RefRow>], kind: Kind) -> Result<ArrayRef, String> {
    let width = kind.len_in_bytes();
    let all = || refs.iter().flatten();
    let children: Vec<ArrayRef> = vec![
        Arc::new(BinaryArray::from_iter_values(all().map(|r| &r.name))),
        oid_array(all().map(|r| r.old_oid), width, true),
        oid_array(all().map(|r| r.new_oid), width, true),
        Arc::new(BinaryArray::from_iter(all().map(|r| r.symref.as_deref()))),
        oid_array(all().map(|r| r.peeled_oid), width, true),
    ];
    list_of(
        schema::list_fields(kind, column::REFS),
        refs.iter().map(Vec::len),
        children,
    )
}

fn objects_array(tables: Vec<EntryTable>, kind: Kind) -> Result<ArrayRef, String> {
    let lengths: Vec<_> = tables.iter().map(EntryTable::len).collect();
    let table = concat(tables);
    let count = table.len();
    let unresolved = |values_len| values_len == 0 && count > 0;
    let resolved = (!unresolved(table.kinds.len())).then(|| table.kinds.iter().map(|kind| *kind != 0));
    let nulls = match resolved {
        Some(resolved) => NullBuffer::from(resolved.collect::<Vec<_>>()),
        None => NullBuffer::new_null(count),
    };
    let or_zeros = |values: Vec<u64>| {
        if unresolved(values.len()) {
            vec![0; count]
        } else {
            values
        }
    };
    let kinds = if unresolved(table.kinds.len()) {
        vec![0; count]
    } else {
        table.kinds
    };
    let children: Vec<ArrayRef> = vec![
        Arc::new(FixedSizeBinaryArray::new(
            kind.len_in_bytes() as i32,
            Buffer::from_vec(table.oids),
            None,
        )),
        Arc::new(UInt8Array::new(kinds.into(), Some(nulls.clone()))),
        Arc::new(UInt64Array::new(or_zeros(table.sizes).into(), Some(nulls))),
        Arc::new(UInt64Array::new(table.offsets.into(), None)),
        Arc::new(UInt32Array::new(table.crc32s.into(), None)),
    ];
    list_of(
        schema::list_fields(kind, column::OBJECTS),
        lengths.into_iter(),
        children,
    )
}

/// Joins tables one after the other (each stays sorted in itself). A single one is moved, not copied.
fn concat(tables: Vec<EntryTable>) -> EntryTable {
    let mut filled = tables.into_iter().filter(|table| !table.is_empty());
    let Some(mut all) = filled.next() else {
        return EntryTable::default();
    };
    for mut next in filled {
        // A table without kinds is unresolved as a whole; beside a resolved one it says so entry by entry.
        if all.kinds.is_empty() != next.kinds.is_empty() {
            for table in [&mut all, &mut next].into_iter().filter(|table| table.kinds.is_empty()) {
                table.kinds = vec![0; table.len()];
                table.sizes = vec![0; table.len()];
            }
        }
        all.oids.append(&mut next.oids);
        all.kinds.append(&mut next.kinds);
        all.sizes.append(&mut next.sizes);
        all.offsets.append(&mut next.offsets);
        all.crc32s.append(&mut next.crc32s);
    }
    all
}

fn commits_array(commits: Vec<CommitRows>, kind: Kind) -> Result<ArrayRef, String> {
    let lengths: Vec<_> = commits.iter().map(CommitRows::len).collect();
    let fields = schema::list_fields(kind, column::COMMITS);
    list_of(fields, lengths.into_iter(), commit_rows::arrays(commits, kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        format::{
            CommitId, HEAD_LEN,
            batch::Batch,
            footer::{BlockRef, RefsState, Totals},
            ident::Ident,
            row::{PackMeta, RowKind},
        },
        media::MemMedium,
    };

    fn row_with_pack(txn: u64, len: u64) -> Row {
        let id = ObjectId::Sha1([txn as u8; 20]);
        Row {
            pack: Some(PackMeta { len, id }),
            ..Row::new(txn, 0, RowKind::Push)
        }
    }

    /// R29: packs of more than 4 GiB, in parts, lie one behind the other. Their bytes are not needed to say so.
    #[test]
    fn r29_large_packs_are_found_in_parts() {
        const GIB: u64 = 1 << 30;
        for (part_len, lens) in [(MAX_PART_LEN, [5 * GIB + 17, 3 * GIB]), (10, [35, 10]), (10, [9, 1])] {
            let rows = vec![
                row_with_pack(1, lens[0]),
                Row::new(2, 0, RowKind::Push),
                row_with_pack(3, lens[1]),
            ];
            let columns = encode_within(rows, Kind::Sha1, usize::MAX, part_len).unwrap();
            let footer = crate::format::footer::Footer {
                ident: Ident {
                    object_format: Kind::Sha1,
                    uuid: "u".into(),
                    generation: 1,
                },
                sequence: 1,
                commit_id: CommitId::NONE,
                blocks: vec![],
                refs: RefsState::default(),
                totals: Totals::default(),
                policy: vec![],
            };
            let commit = crate::format::commit::encode(columns, HEAD_LEN, CommitId::NONE, &[], footer, 0, None);
            let mut bytes = vec![0; HEAD_LEN as usize];
            bytes.extend_from_slice(&commit.metadata);
            for chunk in &commit.columns {
                bytes.extend_from_slice(chunk);
            }
            bytes.resize(bytes.len() + (8 << 10), 0);
            let block: BlockRef = commit.footer.blocks[0];
            let medium = MemMedium::new(bytes);
            let packs = Batch::load(&medium, block, Kind::Sha1).unwrap().packs(&medium).unwrap();
            let found: Vec<_> = packs.iter().map(|pack| (pack.txn, pack.at, pack.len)).collect();
            let second_at = commit.pack_at + lens[0];
            assert_eq!(found, [(1, commit.pack_at, lens[0]), (3, second_at, lens[1])]);
            assert_eq!(commit.pack_end, second_at + lens[1]);
        }
    }

    /// R29: offsets of 32 bits count bytes: what they cannot count is refused, and nothing panics.
    #[test]
    fn r29_more_bytes_of_names_than_offsets_can_count_are_refused() {
        let name = |name: &str| RefRow {
            name: name.into(),
            old_oid: None,
            new_oid: None,
            symref: None,
            peeled_oid: None,
        };
        let row = |refs| Row {
            refs,
            ..Row::new(1, 0, RowKind::Push)
        };
        let rows = vec![row(vec![name("refs/heads/a")]), row(vec![name("refs/heads/b")])];
        assert!(encode_within(rows.clone(), Kind::Sha1, 24, MAX_PART_LEN).is_ok());
        let refused = encode_within(rows, Kind::Sha1, 23, MAX_PART_LEN).err().unwrap();
        assert!(refused.contains("reference names"), "{refused}");
    }
}
