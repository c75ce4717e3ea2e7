//! What a rewrite notes in its row: the marks of what is unreachable, and what it forgot for good.
//!
//! ```text
//! settings of a gc row
//! gc-unreachable   microseconds since 1970 (i64 big-endian), object ids    one for each time at which objects were marked
//! gc-horizon       a transaction's number, decimal                          states before it are not whole any more
//! gc-earlier       <generation> <microseconds since 1970> <actor>           one for each rewrite before this one
//! tool             the program and its version
//! ```

use gix_hash::{Kind, ObjectId};

use crate::format::row::Row;

const UNREACHABLE: &str = "gc-unreachable";
const HORIZON: &str = "gc-horizon";
const EARLIER: &str = "gc-earlier";
const TOOL: &str = "tool";

/// What the rewrites so far noted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// When a rewrite found objects unreachable for the first time (microseconds since 1970), and which.
    pub marks: Vec<(i64, Vec<ObjectId>)>,
    /// Objects that only states before this transaction need may be gone; 0 = none is.
    pub horizon: u64,
    /// The rewrites before the one that noted this.
    pub earlier: Vec<Vec<u8>>,
}

impl Record {
    /// Reads what a gc row of generation `generation` noted; the row itself then counts as an earlier one.
    pub fn from_row(row: &Row, generation: u64, kind: Kind) -> Record {
        let mut record = Record::default();
        for (key, value) in &row.settings {
            match key.as_str() {
                UNREACHABLE => record.marks.extend(decode_mark(value, kind)),
                HORIZON => record.horizon = decode_number(value).unwrap_or_default(),
                EARLIER => record.earlier.push(value.clone()),
                _ => {}
            }
        }
        let mut own = format!("{generation} {} ", row.time_us).into_bytes();
        own.extend_from_slice(row.actor.as_ref().map_or(&[], |actor| actor.as_slice()));
        record.earlier.push(own);
        record
    }

    /// Returns the settings of the new gc row.
    pub fn settings(&self) -> Vec<(String, Vec<u8>)> {
        let mut settings = vec![(
            TOOL.into(),
            concat!("znippy ", env!("CARGO_PKG_VERSION")).as_bytes().to_vec(),
        )];
        for (time, ids) in &self.marks {
            let mut value = time.to_be_bytes().to_vec();
            ids.iter().for_each(|id| value.extend_from_slice(id.as_slice()));
            settings.push((UNREACHABLE.into(), value));
        }
        if self.horizon > 0 {
            settings.push((HORIZON.into(), self.horizon.to_string().into_bytes()));
        }
        settings.extend(self.earlier.iter().map(|earlier| (EARLIER.into(), earlier.clone())));
        settings
    }
}

fn decode_mark(value: &[u8], kind: Kind) -> Option<(i64, Vec<ObjectId>)> {
    let (time, ids) = value.split_first_chunk::<8>()?;
    let ids = ids.chunks_exact(kind.len_in_bytes()).map(ObjectId::from_bytes_or_panic);
    Some((i64::from_be_bytes(*time), ids.collect()))
}

fn decode_number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::row::RowKind;

    #[test]
    fn survives_a_round_trip() {
        let id = |n| ObjectId::Sha1([n; 20]);
        let record = Record {
            marks: vec![(-5, vec![id(1), id(2)]), (i64::MAX, vec![])],
            horizon: 17,
            earlier: vec![b"1 9 \xff".to_vec()],
        };
        let row = Row {
            settings: record.settings(),
            actor: Some("me".into()),
            ..Row::new(0, 77, RowKind::Gc)
        };
        let mut read = Record::from_row(&row, 2, Kind::Sha1);
        assert_eq!(read.earlier.pop().unwrap(), b"2 77 me");
        assert_eq!(read, record);
    }
}
