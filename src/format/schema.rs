//! The Arrow schema of an archive: one row a transaction, nested lists for its tables.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use gix_hash::Kind;

use super::VERSION;

/// Schema metadata of head and footer: the format version.
pub const KEY_VERSION: &str = "znippy.version";
/// Schema metadata of head and footer: `sha1` or `sha256`.
pub const KEY_OBJECT_FORMAT: &str = "znippy.object_format";

/// The columns, by position.
pub mod column {
    pub const TXN: usize = 0;
    pub const TIME: usize = 1;
    pub const KIND: usize = 2;
    pub const ACTOR: usize = 3;
    pub const PROOF: usize = 4;
    pub const SETTINGS: usize = 5;
    pub const REFS: usize = 6;
    pub const OBJECTS: usize = 7;
    pub const COMMITS: usize = 8;
    pub const COVERS_FROM: usize = 9;
    pub const COVERS_TO: usize = 10;
    pub const INDEX: usize = 11;
    pub const PACK_SIZE: usize = 12;
    pub const PACK_ID: usize = 13;
    pub const PACK: usize = 14;
    pub const COUNT: usize = 15;
}

/// Returns the name of an object format as it stands in the schema metadata.
pub fn format_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Sha256 => "sha256",
        _ => "sha1",
    }
}

/// Parses the name of an object format.
pub fn parse_format(name: &str) -> Option<Kind> {
    match name {
        "sha1" => Some(Kind::Sha1),
        "sha256" => Some(Kind::Sha256),
        _ => None,
    }
}

/// Returns the Arrow type of an object id.
pub fn oid_type(kind: Kind) -> DataType {
    DataType::FixedSizeBinary(kind.len_in_bytes() as i32)
}

/// Returns the type of timestamps of a unit; always UTC.
pub fn timestamp(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, Some("UTC".into()))
}

/// Returns the not-null list item field of a list of `data_type`.
pub fn item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type, false))
}

/// Returns the fields of one setting.
fn setting_fields() -> Fields {
    vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Binary, false),
    ]
    .into()
}

/// Returns the fields of one reference edit.
fn ref_fields(kind: Kind) -> Fields {
    vec![
        Field::new("name", DataType::Binary, false),
        Field::new("old_oid", oid_type(kind), true),
        Field::new("new_oid", oid_type(kind), true),
        Field::new("symref", DataType::Binary, true),
        Field::new("peeled_oid", oid_type(kind), true),
    ]
    .into()
}

/// Returns the fields of one stored object.
fn object_fields(kind: Kind) -> Fields {
    vec![
        Field::new("oid", oid_type(kind), false),
        Field::new("type", DataType::UInt8, true),
        Field::new("size", DataType::UInt64, true),
        Field::new("pack_offset", DataType::UInt64, false),
        Field::new("crc32", DataType::UInt32, false),
    ]
    .into()
}

/// Returns the fields of one commit of the graph.
fn commit_fields(kind: Kind) -> Fields {
    vec![
        Field::new("oid", oid_type(kind), false),
        Field::new("tree", oid_type(kind), false),
        Field::new("parents", DataType::List(item(oid_type(kind))), false),
        Field::new("author", DataType::Binary, true),
        Field::new("committed_at", timestamp(TimeUnit::Second), false),
        Field::new("generation", DataType::UInt32, false),
    ]
    .into()
}

/// Returns the schema of an archive of object format `kind`, without its metadata. Made once.
pub fn schema(kind: Kind) -> SchemaRef {
    static SCHEMAS: [OnceLock<SchemaRef>; 2] = [const { OnceLock::new() }; 2];
    SCHEMAS[usize::from(kind == Kind::Sha256)]
        .get_or_init(|| make(kind))
        .clone()
}

fn make(kind: Kind) -> SchemaRef {
    let table = |fields| DataType::List(item(DataType::Struct(fields)));
    Arc::new(Schema::new(vec![
        Field::new("txn", DataType::UInt64, false),
        Field::new("time", timestamp(TimeUnit::Microsecond), false),
        Field::new("kind", DataType::Utf8, false),
        Field::new("actor", DataType::Binary, true),
        Field::new("proof", DataType::Utf8, false),
        Field::new("settings", table(setting_fields()), false),
        Field::new("refs", table(ref_fields(kind)), false),
        Field::new("objects", table(object_fields(kind)), false),
        Field::new("commits", table(commit_fields(kind)), false),
        Field::new("covers_from", DataType::UInt64, true),
        Field::new("covers_to", DataType::UInt64, true),
        Field::new("index", DataType::LargeBinary, true),
        Field::new("pack_size", DataType::UInt64, true),
        Field::new("pack_id", oid_type(kind), true),
        Field::new("pack", DataType::List(item(DataType::LargeBinary)), true),
    ]))
}

/// Returns the metadata of the schema, the same in every archive of an object format: readers that open a folder of
/// archives refuse values that differ.
pub fn metadata(kind: Kind) -> HashMap<String, String> {
    [
        (KEY_VERSION, VERSION.to_string()),
        (KEY_OBJECT_FORMAT, format_name(kind).to_string()),
    ]
    .map(|(key, value)| (key.to_string(), value))
    .into()
}

/// Returns the number of IPC buffers that values of a type take, children included.
pub fn buffer_count(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(item) => 2 + buffer_count(item.data_type()),
        DataType::Struct(fields) => 1 + fields.iter().map(|f| buffer_count(f.data_type())).sum::<usize>(),
        DataType::Utf8 | DataType::Binary | DataType::LargeBinary => 3,
        _ => 2,
    }
}

/// Returns the index of the first buffer of each column, and as last element the number of all buffers.
pub fn first_buffers(schema: &Schema) -> Vec<usize> {
    let mut firsts = vec![0];
    for field in schema.fields() {
        firsts.push(firsts[firsts.len() - 1] + buffer_count(field.data_type()));
    }
    firsts
}
