//! Rows as Arrow columns, and the column buffers of a record batch message.

use arrow_buffer::Buffer;
use arrow_ipc::{Buffer as BufferRange, FieldNode};
use bstr::BString;
use gix_hash::Kind;

use super::{
    MAX_COLUMNS_LEN,
    commit_rows::CommitRows,
    layout::{Layout, Valid},
    row::Row,
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
    let width = kind.len_in_bytes();
    let objects: Vec<_> = rows.iter_mut().map(|row| std::mem::take(&mut row.objects)).collect();
    let commits: Vec<_> = rows.iter_mut().map(|row| std::mem::take(&mut row.commits)).collect();
    let indexes: Vec<_> = rows.iter_mut().map(|row| row.index.take()).collect();
    let (layout, all) = (&mut Layout::new(), || rows.iter());
    layout.numbers(all().map(|row| Some(row.txn)));
    layout.numbers(all().map(|row| Some(row.time_us)));
    layout.bytes(all().map(|row| Some(row.kind.name())));
    layout.bytes(all().map(|row| row.actor.as_deref()));
    layout.bytes(all().map(|row| Some(row.proof.name())));
    push_settings(layout, &rows)?;
    push_refs(layout, &rows, width)?;
    let refs_end = layout.end_section();
    push_objects(layout, objects, width)?;
    let objects_end = layout.end_section();
    CommitRows::push_all(commits, layout, width)?;
    layout.numbers(all().map(|row| row.covers.map(|(from, _)| from)));
    layout.numbers(all().map(|row| row.covers.map(|(_, to)| to)));
    push_indexes(layout, indexes);
    layout.numbers(all().map(|row| row.pack.map(|pack| pack.len)));
    layout.ids(all().map(|row| row.pack.map(|pack| pack.id)), width);
    push_packs(layout, &rows, part_len)?;
    let pack_at = layout.end_section();
    if pack_at > MAX_COLUMNS_LEN {
        return Err(format!("{pack_at} bytes of columns do not fit into one commit"));
    }
    Ok(Columns {
        rows: rows.len(),
        nodes: std::mem::take(&mut layout.nodes),
        ranges: std::mem::take(&mut layout.ranges),
        chunks: std::mem::take(&mut layout.chunks),
        pack_at,
        section_ends: [refs_end, objects_end, pack_at],
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

fn push_settings(layout: &mut Layout, rows: &[Row]) -> Result<(), String> {
    layout.structs(rows.iter().map(|row| row.settings.len()))?;
    let all = || rows.iter().flat_map(|row| &row.settings);
    layout.bytes(all().map(|(key, _)| Some(key)));
    layout.bytes(all().map(|(_, value)| Some(value)));
    Ok(())
}

fn push_refs(layout: &mut Layout, rows: &[Row], width: usize) -> Result<(), String> {
    layout.structs(rows.iter().map(|row| row.refs.len()))?;
    let all = || rows.iter().flat_map(|row| &row.refs);
    layout.bytes(all().map(|r| Some(&r.name)));
    layout.ids(all().map(|r| r.old_oid), width);
    layout.ids(all().map(|r| r.new_oid), width);
    layout.bytes(all().map(|r| r.symref.as_deref()));
    layout.ids(all().map(|r| r.peeled_oid), width);
    Ok(())
}

fn push_objects(layout: &mut Layout, tables: Vec<EntryTable>, width: usize) -> Result<(), String> {
    let count = layout.structs(tables.iter().map(EntryTable::len))?;
    let mut table = concat(tables);
    if table.kinds.is_empty() {
        table.kinds = vec![0; count];
        table.sizes = vec![0; count];
    }
    let is_resolved = table.kinds.iter().map(|kind| *kind != 0).collect::<Valid>();
    layout.joined_ids(table.oids, width);
    layout.nullable(&is_resolved);
    layout.buffer(table.kinds);
    layout.nullable(&is_resolved);
    layout.buffer(table.sizes);
    layout.node(count);
    layout.buffer(table.offsets);
    layout.node(count);
    layout.buffer(table.crc32s);
    Ok(())
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

/// Adds the `index` column. A single value is moved, not copied.
fn push_indexes(layout: &mut Layout, indexes: Vec<Option<Vec<u8>>>) {
    layout.nullable(&indexes.iter().map(Option::is_some).collect());
    let (mut bytes, mut offsets) = (vec![], vec![0i64]);
    for mut index in indexes.into_iter().map(Option::unwrap_or_default) {
        match bytes.is_empty() {
            true => bytes = index,
            false => bytes.append(&mut index),
        }
        offsets.push(bytes.len() as i64);
    }
    layout.buffer(offsets);
    layout.buffer(bytes);
}

/// Adds the last column, whose data buffer stays a promise: its bytes are copied behind the rest.
fn push_packs(layout: &mut Layout, rows: &[Row], part_len: u64) -> Result<(), String> {
    let mut list_ends = vec![];
    let mut part_offsets = vec![0i64];
    let mut end = 0u64;
    for row in rows {
        let mut left = row.pack.map_or(0, |pack| pack.len);
        while left > 0 {
            let part = left.min(part_len);
            (end, left) = (end + part, left - part);
            part_offsets.push(end as i64);
        }
        list_ends.push(part_offsets.len() - 1);
    }
    let parts = part_offsets.len() - 1;
    if i32::try_from(parts).is_err() {
        return Err("too many pack parts".into());
    }
    layout.nullable(&rows.iter().map(|row| row.pack.is_some()).collect());
    layout.offsets(list_ends.into_iter());
    layout.node(parts);
    layout.buffer(part_offsets);
    layout.promise(end);
    Ok(())
}

#[cfg(test)]
mod tests {
    use gix_hash::ObjectId;

    use super::*;
    use crate::{
        format::{
            CommitId, HEAD_LEN,
            batch::Batch,
            commit::{self, EncodedCommit},
            commit_rows::CommitRow,
            footer::{Footer, RefsState, Totals},
            ident::Ident,
            row::{PackMeta, Proof, RefRow, RowKind},
        },
        media::MemMedium,
    };

    /// Returns a commit of the columns, and the batch that a reader finds where it lies; without packs and footer.
    fn store(columns: Columns) -> (EncodedCommit, MemMedium, Batch) {
        let footer = Footer {
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
        let commit = commit::encode(columns, HEAD_LEN, CommitId::NONE, &[], footer, 0, None);
        let mut bytes = vec![0; HEAD_LEN as usize];
        bytes.extend_from_slice(&commit.metadata);
        for chunk in &commit.columns {
            bytes.extend_from_slice(chunk);
        }
        bytes.resize(bytes.len() + (8 << 10), 0);
        let medium = MemMedium::new(bytes);
        let batch = Batch::load(&medium, commit.footer.blocks[0], Kind::Sha1).unwrap();
        (commit, medium, batch)
    }

    fn row_with_pack(txn: u64, len: u64) -> Row {
        let id = ObjectId::Sha1([txn as u8; 20]);
        Row {
            pack: Some(PackMeta { len, id }),
            ..Row::new(txn, 0, RowKind::Push)
        }
    }

    fn id(n: u8) -> ObjectId {
        ObjectId::Sha1([n; 20])
    }

    fn commit_row(n: u8, parents: &[u8], author: Option<&str>) -> CommitRow {
        CommitRow {
            oid: id(n),
            tree: id(200),
            parents: parents.iter().map(|parent| id(*parent)).collect(),
            author: author.map(Into::into),
            committed_at: -i64::from(n),
            generation: u32::from(n),
        }
    }

    /// Returns a table of so many objects, of which every third is not resolved; or none is.
    fn table(first: u8, count: usize, is_resolved: bool) -> EntryTable {
        let ids = (0..count).flat_map(|n| [[first].repeat(16), (n as u32).to_be_bytes().to_vec()].concat());
        let numbers = || (0..count as u64).map(|n| n + u64::from(first));
        EntryTable {
            oids: ids.collect(),
            oid_len: 20,
            kinds: if is_resolved {
                numbers().map(|n| (n % 3) as u8).collect()
            } else {
                vec![]
            },
            sizes: if is_resolved {
                numbers().map(|n| n * (n % 3).min(1)).collect()
            } else {
                vec![]
            },
            offsets: numbers().map(|n| n << 33).collect(),
            crc32s: numbers().map(|n| n as u32).collect(),
        }
    }

    /// Values of all columns, in rows that have them and rows that do not, few and many.
    #[test]
    fn rows_come_back_out_of_the_columns() {
        let edit = |name: &str, old: Option<u8>, new: Option<u8>, symref: Option<&str>| RefRow {
            name: name.into(),
            old_oid: old.map(id),
            new_oid: new.map(id),
            symref: symref.map(Into::into),
            peeled_oid: None,
        };
        let full = |objects: EntryTable| Row {
            actor: Some("\u{e9}".into()),
            proof: Proof::Closed,
            settings: vec![("key".into(), b"\xff".to_vec()), ("".into(), vec![])],
            refs: vec![
                edit("refs/heads/a", None, Some(3), None),
                edit("refs/heads/b", Some(3), None, Some("refs/heads/a")),
            ],
            objects,
            commits: [
                commit_row(1, &[], None),
                commit_row(2, &[1], Some("A <a@b>")),
                commit_row(3, &[1, 2, 9], None),
            ]
            .into_iter()
            .collect(),
            covers: Some((0, 1 << 50)),
            index: Some(b"an index".to_vec()),
            ..row_with_pack(1, 77)
        };
        let empty = || Row::new(2, -5, RowKind::Checkpoint);
        let last = || Row {
            commits: [commit_row(4, &[3], Some("B"))].into_iter().collect(),
            index: Some(vec![7; 40_000]),
            ..row_with_pack(3, 1)
        };
        let many: Vec<Row> = (0..20).map(|_| empty()).collect();
        for rows in [
            vec![],
            vec![full(table(1, 3, true))],
            vec![full(table(1, 3, false))],
            vec![empty()],
            vec![full(table(1, 5000, true)), empty(), last()],
            vec![
                empty(),
                full(table(1, 2, false)),
                full(table(2, 9, true)),
                empty(),
                last(),
            ],
            [many.clone(), vec![last()], many].concat(),
        ] {
            let columns = encode(rows.clone(), Kind::Sha1).unwrap();
            assert_eq!(
                columns.chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>(),
                columns.pack_at
            );
            let (_, medium, batch) = store(columns);
            let found = batch.rows(&medium).unwrap();
            assert_eq!(found.len(), rows.len());
            for (mut found, mut expected) in found.into_iter().zip(rows) {
                for table in [&mut found.objects, &mut expected.objects] {
                    if table.kinds.iter().all(|kind| *kind == 0) {
                        (table.kinds, table.sizes) = (vec![], vec![]);
                    }
                    table.oid_len = 20;
                }
                assert_eq!(format!("{found:?}"), format!("{expected:?}"));
            }
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
            let (commit, medium, batch) = store(encode_within(rows, Kind::Sha1, usize::MAX, part_len).unwrap());
            let packs = batch.packs(&medium).unwrap();
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
