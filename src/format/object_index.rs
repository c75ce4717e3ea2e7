//! The block index over one row's objects: two reads a look-up, however many objects the row has.
//!
//! It lies in the row's `index` column, and is derived: it can be rebuilt from `objects`.
//!
//! ```text
//! index  = "ZNOBJ1" NUL NUL, objects: u64, block_len: u64, firsts, sums, digest[16]
//! firsts = u64 * blocks          the first 8 bytes of each block's first object id, as big-endian number
//! sums   = (u32 * 5) * blocks    CRC-32 of each block's part of each column: oid, type, size, pack_offset, crc32
//! ```
//!
//! Numbers are little-endian but for `firsts`, which are compared as the ids are. The digest (half a SHA-256) covers all
//! before it. A look-up searches `firsts`, reads one block of ids, checks it, searches it, and reads the entry's other
//! columns. Columns are thus checked as they are used, and a damaged one is an error, never "absent".

use std::{
    cmp::Ordering,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use gix_hash::oid;

use super::{batch::ReadError, geometry::section_sum};
use crate::{
    media::{Medium, read_vec},
    pack::EntryTable,
};

const MAGIC: &[u8; 8] = b"ZNOBJ1\0\0";
/// Objects a block: one block of ids is 20 or 32 KiB, the first ids of a million objects are 8 KiB.
const BLOCK_LEN: usize = 1024;
/// Ids to read around the place where one would be: hashes lie so evenly that it is there in all but one of 10,000 cases, at 4
/// standard deviations (half the square root of a block) on either side.
const PROBE_LEN: usize = 128;
/// Rows with fewer objects have no index: they are read whole.
pub const MIN_OBJECTS: usize = 4 * BLOCK_LEN;
const COLUMNS: usize = 5;
const HEADER_LEN: usize = 24;
const DIGEST_LEN: usize = 16;
/// How many blocks to keep, 10 KiB each on average: who checks out a tree looks thousands of objects up, all over the table.
const MAX_CACHED: usize = 3 * 1024;

/// Returns the bytes of an index over `objects` objects.
pub fn encoded_len(objects: usize) -> u64 {
    (HEADER_LEN + objects.div_ceil(BLOCK_LEN) * (8 + 4 * COLUMNS) + DIGEST_LEN) as u64
}

/// Returns whether a derived structure is such an index.
pub fn is_one(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Returns the index over a row's objects.
pub fn encode(table: &EntryTable) -> Vec<u8> {
    let count = table.len();
    let blocks = count.div_ceil(BLOCK_LEN);
    let mut bytes = Vec::with_capacity(HEADER_LEN + blocks * (8 + 4 * COLUMNS) + DIGEST_LEN);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&(count as u64).to_le_bytes());
    bytes.extend_from_slice(&(BLOCK_LEN as u64).to_le_bytes());
    let range = |block: usize| block * BLOCK_LEN..((block + 1) * BLOCK_LEN).min(count);
    for block in 0..blocks {
        bytes.extend_from_slice(&table.oid(range(block).start).as_bytes()[..8]);
    }
    for block in 0..blocks {
        let range = range(block);
        let le = |values: &[u64]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
        let or_zeros = |values: &[u64]| values.get(range.clone()).map_or_else(|| vec![0; range.len() * 8], le);
        let kinds = table
            .kinds
            .get(range.clone())
            .map_or_else(|| vec![0; range.len()], <[u8]>::to_vec);
        let crc32s: Vec<u8> = table.crc32s[range.clone()]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        let oids = &table.oids[range.start * table.oid_len..range.end * table.oid_len];
        for column in [
            oids,
            &kinds,
            &or_zeros(&table.sizes),
            &or_zeros(&table.offsets),
            &crc32s,
        ] {
            bytes.extend_from_slice(&crc32fast::hash(column).to_le_bytes());
        }
    }
    let sum = section_sum(&[&bytes]);
    bytes.extend_from_slice(&sum);
    bytes
}

/// Checked parts of columns, by block and column.
type Blocks = HashMap<(usize, usize), Arc<Vec<u8>>>;

/// A row's index in memory: 28 bytes for 1024 objects.
pub struct ObjectIndex {
    /// Blocks that were read and checked, by block and column: walks look the same objects up more than once.
    cache: Mutex<Blocks>,
    objects: usize,
    oid_len: usize,
    firsts: Vec<u64>,
    sums: Vec<[u32; COLUMNS]>,
}

/// An entry that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub row: usize,
    pub offset: u64,
    pub crc32: u32,
}

impl ObjectIndex {
    /// Parses an index over `objects` objects.
    ///
    /// # Errors
    /// Says what is wrong with the bytes.
    pub fn decode(bytes: &[u8], objects: usize, oid_len: usize) -> Result<ObjectIndex, String> {
        let (covered, sum) = bytes
            .split_at_checked(bytes.len().wrapping_sub(DIGEST_LEN))
            .ok_or("index too short")?;
        if section_sum(&[covered]) != sum {
            return Err("the object index's checksum does not match".into());
        }
        let blocks = objects.div_ceil(BLOCK_LEN);
        let expected = HEADER_LEN + blocks * (8 + 4 * COLUMNS);
        let header = [
            &MAGIC[..],
            &(objects as u64).to_le_bytes(),
            &(BLOCK_LEN as u64).to_le_bytes(),
        ]
        .concat();
        if covered.len() != expected || covered[..HEADER_LEN] != header {
            return Err("the object index does not fit its objects".into());
        }
        let (firsts, sums) = covered[HEADER_LEN..].split_at(blocks * 8);
        let sums = sums.as_chunks::<4>().0.as_chunks::<COLUMNS>().0;
        Ok(ObjectIndex {
            cache: Mutex::default(),
            objects,
            oid_len,
            firsts: firsts
                .as_chunks::<8>()
                .0
                .iter()
                .map(|b| u64::from_be_bytes(*b))
                .collect(),
            sums: sums.iter().map(|sums| sums.map(u32::from_le_bytes)).collect(),
        })
    }

    /// Looks an object up. `columns` are the offsets in the file of the columns oid, type, size, pack_offset, crc32.
    ///
    /// # Errors
    /// Fails where a block that it needs is damaged or unreadable: "not found" is only said of bytes that were checked.
    pub fn find(&self, medium: &dyn Medium, columns: &[u64; COLUMNS], id: &oid) -> Result<Option<Found>, ReadError> {
        let key = u64::from_be_bytes(*id.as_bytes().first_chunk().expect("ids are longer"));
        // Blocks that start with the same 8 bytes are all candidates; with honest hashes there is one.
        let last = self.firsts.partition_point(|first| *first <= key);
        let mut block = self.firsts[..last]
            .partition_point(|first| *first < key)
            .saturating_sub(1);
        while block < last {
            let count = BLOCK_LEN.min(self.objects - block * BLOCK_LEN);
            let oids = self.read(medium, columns, block, 0, self.oid_len, count)?;
            if let Some(row) = find_row(&oids, self.oid_len, id) {
                let offsets = self.read(medium, columns, block, 3, 8, count)?;
                let crc32s = self.read(medium, columns, block, 4, 4, count)?;
                return Ok(Some(Found {
                    row: block * BLOCK_LEN + row,
                    offset: u64::from_le_bytes(offsets.as_chunks::<8>().0[row]),
                    crc32: u32::from_le_bytes(crc32s.as_chunks::<4>().0[row]),
                }));
            }
            block += 1;
        }
        Ok(None)
    }

    /// Returns whether the table seems not to have an object, by the ids around the place where it would be. That is an eighth of
    /// what [`ObjectIndex::find`] reads, and has no checksum: for whom a wrong answer does no harm. `false` says nothing.
    ///
    /// # Errors
    /// Fails where the medium does.
    pub fn seems_absent(&self, medium: &dyn Medium, columns: &[u64; COLUMNS], id: &oid) -> Result<bool, ReadError> {
        let key = u64::from_be_bytes(*id.as_bytes().first_chunk().expect("ids are longer"));
        let next = self.firsts.partition_point(|first| *first <= key);
        let Some(block) = next.checked_sub(1) else {
            return Ok(true);
        };
        let (first, end) = (self.firsts[block], self.firsts.get(next).copied().unwrap_or(u64::MAX));
        if first == key || first == end {
            return Ok(false);
        }
        let count = BLOCK_LEN.min(self.objects - block * BLOCK_LEN);
        let expected = u128::from(key - first) * count as u128 / u128::from(end - first);
        let start = (expected as usize)
            .saturating_sub(PROBE_LEN / 2)
            .min(count.saturating_sub(PROBE_LEN));
        let len = PROBE_LEN.min(count);
        let at = columns[0] + ((block * BLOCK_LEN + start) * self.oid_len) as u64;
        let ids = read_vec(medium, at, len * self.oid_len)?;
        let starts_before = start == 0 || &ids[..self.oid_len] < id.as_bytes();
        let ends_behind = start + len == count || &ids[ids.len() - self.oid_len..] > id.as_bytes();
        Ok(starts_before && ends_behind && find_row(&ids, self.oid_len, id).is_none())
    }

    fn read(
        &self,
        medium: &dyn Medium,
        columns: &[u64; COLUMNS],
        block: usize,
        column: usize,
        width: usize,
        count: usize,
    ) -> Result<Arc<Vec<u8>>, ReadError> {
        let cache = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = cache().get(&(block, column)) {
            return Ok(Arc::clone(bytes));
        }
        let at = columns[column] + (block * BLOCK_LEN * width) as u64;
        let bytes = Arc::new(read_vec(medium, at, count * width)?);
        if crc32fast::hash(&bytes) != self.sums[block][column] {
            return Err(format!("block {block} of the object table at offset {at} changed on the disk").into());
        }
        let mut cache = cache();
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        cache.insert((block, column), Arc::clone(&bytes));
        Ok(bytes)
    }
}

/// Finds an id among sorted ids that lie one after the other.
fn find_row(oids: &[u8], oid_len: usize, id: &oid) -> Option<usize> {
    let at = |row: usize| &oids[row * oid_len..(row + 1) * oid_len];
    let (mut low, mut high) = (0, oids.len() / oid_len);
    while low < high {
        let middle = low + (high - low) / 2;
        match at(middle).cmp(id.as_bytes()) {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return Some(middle),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use gix_hash::ObjectId;

    use super::*;
    use crate::media::MemMedium;

    fn table(count: usize) -> EntryTable {
        let mut oids: Vec<[u8; 20]> = (0..count)
            .map(|n| *super::super::digest(&[&n.to_le_bytes()]).first_chunk().unwrap())
            .collect();
        oids.sort();
        EntryTable {
            oids: oids.concat(),
            oid_len: 20,
            offsets: (0..count as u64).map(|n| n * 3 + 12).collect(),
            crc32s: (0..count as u32).collect(),
            ..EntryTable::default()
        }
    }

    #[test]
    fn finds_what_is_there_and_nothing_else_and_no_damage_silently() {
        for count in [1, 1023, 1024, 1025, 5000] {
            let table = table(count);
            let index = ObjectIndex::decode(&encode(&table), count, 20).unwrap();
            let mut bytes = table.oids.clone();
            let offsets_at = bytes.len() as u64;
            bytes.extend(table.offsets.iter().flat_map(|n| n.to_le_bytes()));
            let crc32s_at = bytes.len() as u64;
            bytes.extend(table.crc32s.iter().flat_map(|n| n.to_le_bytes()));
            let columns = [0, 0, 0, offsets_at, crc32s_at];
            let medium = MemMedium::new(bytes.clone());
            for row in 0..count {
                let found = index.find(&medium, &columns, table.oid(row)).unwrap();
                assert!(!index.seems_absent(&medium, &columns, table.oid(row)).unwrap());
                assert_eq!(
                    found,
                    Some(Found {
                        row,
                        offset: table.offsets[row],
                        crc32: table.crc32s[row]
                    })
                );
            }
            for absent in [
                ObjectId::Sha1([0; 20]),
                ObjectId::Sha1([255; 20]),
                ObjectId::Sha1([0x80; 20]),
            ] {
                assert_eq!(index.find(&medium, &columns, &absent).unwrap(), None);
            }
            let absent = (0..1000u32).map(|n| super::super::digest(&[b"absent", &n.to_le_bytes()]));
            let noticed = absent.filter(|id| {
                let id = oid::from_bytes_unchecked(&id[..20]);
                index.seems_absent(&medium, &columns, id).unwrap()
            });
            assert!(noticed.count() > 950, "of {count}");
            bytes[7] ^= 1;
            // A fresh index: what was read and checked before is believed.
            let index = ObjectIndex::decode(&encode(&table), count, 20).unwrap();
            assert!(index.find(&MemMedium::new(bytes), &columns, table.oid(0)).is_err());
        }
    }
}
