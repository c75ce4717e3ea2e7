//! Rows back out of a batch, whole: for merging batches and for looking at the log.

use arrow_array::{
    Array, ArrayRef, BinaryArray, FixedSizeBinaryArray, LargeBinaryArray, ListArray, RecordBatch, StringArray,
    StructArray,
    cast::AsArray,
    types::{TimestampMicrosecondType, UInt64Type},
};
use bstr::BString;
use gix_hash::ObjectId;

use super::{
    batch::object_id,
    commit_rows,
    row::{PackMeta, Proof, RefRow, Row, RowKind},
    schema::column,
};
use crate::pack::EntryTable;

/// Returns all rows of a batch that was decoded with every column but `pack`, in order. Packs are described, not read.
///
/// A kind that is not known here is [`RowKind::Other`], and a proof that is not known proves nothing.
pub fn rows(batch: &RecordBatch, objects: Vec<EntryTable>) -> Vec<Row> {
    let columns = batch.columns();
    let text = |column: usize, row: usize| -> String {
        let texts: &StringArray = columns[column].as_string();
        texts.value(row).into()
    };
    let number = |column: usize, row: usize| {
        let numbers = columns[column].as_primitive::<UInt64Type>();
        numbers.is_valid(row).then(|| numbers.value(row))
    };
    let times = columns[column::TIME].as_primitive::<TimestampMicrosecondType>();
    let actors: &BinaryArray = columns[column::ACTOR].as_binary();
    let indices: &LargeBinaryArray = columns[column::INDEX].as_binary();
    let mut rows = vec![];
    for (row, objects) in objects.into_iter().enumerate() {
        let (kind, proof, is_foreign) = kind_and_proof(&text(column::KIND, row), &text(column::PROOF, row));
        let pack = number(column::PACK_SIZE, row).zip(optional_oid(&columns[column::PACK_ID], row));
        rows.push(Row {
            txn: number(column::TXN, row).unwrap_or_default(),
            time_us: times.value(row),
            kind,
            actor: actors.is_valid(row).then(|| actors.value(row).into()),
            proof,
            settings: settings(columns[column::SETTINGS].as_list(), row),
            refs: refs(columns[column::REFS].as_list(), row),
            objects,
            commits: commit_rows::from_array(&elements(columns[column::COMMITS].as_list(), row)),
            covers: number(column::COVERS_FROM, row).zip(number(column::COVERS_TO, row)),
            index: indices.is_valid(row).then(|| indices.value(row).into()),
            pack: pack.map(|(len, id)| PackMeta { len, id }),
            is_foreign,
        });
    }
    rows
}

/// Returns kind and proof, and whether one of them is not known here.
fn kind_and_proof(kind: &str, proof: &str) -> (RowKind, Proof, bool) {
    let (kind, proof) = (RowKind::from_name(kind), Proof::from_name(proof));
    let is_foreign = kind.is_none() || proof.is_none();
    (kind.unwrap_or(RowKind::Other), proof.unwrap_or(Proof::None), is_foreign)
}

/// Returns what a batch's columns up to `refs` say of each row; the rest of the rows is empty.
pub fn head_rows(batch: &RecordBatch) -> Vec<Row> {
    let columns = batch.columns();
    let txns = columns[column::TXN].as_primitive::<UInt64Type>();
    let times = columns[column::TIME].as_primitive::<TimestampMicrosecondType>();
    let (kinds, proofs) = (
        columns[column::KIND].as_string::<i32>(),
        columns[column::PROOF].as_string::<i32>(),
    );
    let one = |row: usize| {
        let (kind, proof, is_foreign) = kind_and_proof(kinds.value(row), proofs.value(row));
        Row {
            actor: optional_bytes(&columns[column::ACTOR], row),
            proof,
            is_foreign,
            settings: settings(columns[column::SETTINGS].as_list(), row),
            refs: refs(columns[column::REFS].as_list(), row),
            ..Row::new(txns.value(row), times.value(row), kind)
        }
    };
    (0..batch.num_rows()).map(one).collect()
}

fn optional_oid(column: &ArrayRef, row: usize) -> Option<ObjectId> {
    let oids: &FixedSizeBinaryArray = column.as_fixed_size_binary();
    oids.is_valid(row).then(|| object_id(oids.value(row)))
}

fn optional_bytes(column: &ArrayRef, row: usize) -> Option<BString> {
    let bytes: &BinaryArray = column.as_binary();
    bytes.is_valid(row).then(|| bytes.value(row).into())
}

fn elements(lists: &ListArray, row: usize) -> StructArray {
    lists.value(row).as_struct().clone()
}

fn settings(lists: &ListArray, row: usize) -> Vec<(String, Vec<u8>)> {
    let settings = elements(lists, row);
    let keys: &StringArray = settings.column(0).as_string();
    let values: &BinaryArray = settings.column(1).as_binary();
    (0..settings.len())
        .map(|i| (keys.value(i).into(), values.value(i).into()))
        .collect()
}

fn refs(lists: &ListArray, row: usize) -> Vec<RefRow> {
    let refs = elements(lists, row);
    let one = |i| RefRow {
        name: optional_bytes(refs.column(0), i).unwrap_or_default(),
        old_oid: optional_oid(refs.column(1), i),
        new_oid: optional_oid(refs.column(2), i),
        symref: optional_bytes(refs.column(3), i),
        peeled_oid: optional_oid(refs.column(4), i),
    };
    (0..refs.len()).map(one).collect()
}
