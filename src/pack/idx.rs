//! git's pack index (`.idx`, version 2) and reverse index (`.rev`, version 1).
//!
//! Source: git's `Documentation/gitformat-pack`.

use std::io::{self, Write};

use gix_hash::{ObjectId, hasher, oid};

use super::{EntryTable, header::PACK_HEADER_LEN};

const IDX_MAGIC: [u8; 8] = *b"\xfftOc\0\0\0\x02";
const REV_MAGIC: [u8; 8] = *b"RIDX\0\0\0\x01";
const FAN_OUT_LEN: usize = 256 * 4;
/// Set in a 32-bit offset that is a row of the 64-bit table.
const LARGE_OFFSET: u32 = 1 << 31;

/// The first offset that goes into the 64-bit table in git's own indexes.
pub const LARGE_OFFSET_THRESHOLD: u64 = LARGE_OFFSET as u64;

/// A parsed pack index.
#[derive(Debug)]
pub struct PackIndex {
    pub entries: EntryTable,
    /// The trailing hash of the pack it belongs to.
    pub pack_id: ObjectId,
    /// The trailing hash of the index itself.
    pub index_id: ObjectId,
}

/// Parses and checks a whole pack index: its trailer, its order, its fan-out table, and its offset tables.
///
/// # Errors
/// Fails with the reason. Offsets are not compared with the pack, whose size is not known here.
pub fn read(data: &[u8], format: gix_hash::Kind) -> Result<PackIndex, String> {
    let hash_len = format.len_in_bytes();
    let body_len = data
        .len()
        .checked_sub(2 * hash_len)
        .filter(|len| *len >= IDX_MAGIC.len() + FAN_OUT_LEN)
        .ok_or_else(|| format!("{} bytes are too few for a pack index", data.len()))?;
    if data[..IDX_MAGIC.len()] != IDX_MAGIC {
        return Err("it is not a pack index of version 2".into());
    }
    let (body, trailers) = data.split_at(body_len);
    let (pack_id, index_id) = trailers.split_at(hash_len);
    let mut hasher = hasher(format);
    hasher.update(&data[..body_len + hash_len]);
    if hasher.try_finalize().map_err(|err| err.to_string())?.as_slice() != index_id {
        return Err("its checksum does not match".into());
    }

    let (fan_out_bytes, tables) = body[IDX_MAGIC.len()..].split_at(FAN_OUT_LEN);
    let fan_out: Vec<u32> = words(fan_out_bytes).collect();
    if fan_out.is_sorted_by(|a, b| a <= b) {
        let count = fan_out[255] as usize;
        let fixed = count.checked_mul(hash_len + 8).filter(|fixed| *fixed <= tables.len());
        let fixed = fixed.ok_or_else(|| format!("it is too short for {count} objects"))?;
        let (oids, rest) = tables.split_at(count * hash_len);
        let (crc32s, rest) = rest.split_at(count * 4);
        let (small, large) = rest.split_at(count * 4);
        if (tables.len() - fixed) % 8 != 0 {
            return Err("its table of 64-bit offsets is cut off".into());
        }
        let entries = EntryTable {
            oids: oids.to_vec(),
            oid_len: hash_len,
            offsets: offsets(small, large)?,
            crc32s: words(crc32s).collect(),
            ..EntryTable::default()
        };
        check_order(&entries)?;
        if fan_out != self::fan_out(&entries) {
            return Err("its fan-out table contradicts its object ids".into());
        }
        let id = |bytes| ObjectId::from_bytes_or_panic(bytes);
        return Ok(PackIndex {
            entries,
            pack_id: id(pack_id),
            index_id: id(index_id),
        });
    }
    Err("its fan-out table is not monotonic".into())
}

/// Joins the table of 31-bit offsets with the table of 64-bit offsets.
fn offsets(small: &[u8], large: &[u8]) -> Result<Vec<u64>, String> {
    let mut offsets = Vec::with_capacity(small.len() / 4);
    for word in words(small) {
        let offset = match word & LARGE_OFFSET {
            0 => u64::from(word),
            _ => {
                let at = (word & !LARGE_OFFSET) as usize * 8;
                let bytes = large
                    .get(at..at + 8)
                    .ok_or("an offset names no row of its table of 64-bit offsets")?;
                u64::from_be_bytes(bytes.try_into().expect("eight bytes were taken"))
            }
        };
        offsets.push(offset);
    }
    Ok(offsets)
}

/// Checks that object ids ascend and that no offset is inside the pack's header.
fn check_order(entries: &EntryTable) -> Result<(), String> {
    let mut ids = entries.oids.chunks_exact(entries.oid_len);
    let mut last = ids.next();
    for id in ids {
        if last >= Some(id) {
            return Err(format!("object {} is out of order", ObjectId::from_bytes_or_panic(id)));
        }
        last = Some(id);
    }
    match entries.offsets.iter().find(|offset| **offset < PACK_HEADER_LEN) {
        Some(offset) => Err(format!("offset {offset} is inside the pack's header")),
        None => Ok(()),
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes
        .chunks_exact(4)
        .map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

/// Returns for each first byte of an id how many entries have that first byte or a lower one.
pub fn fan_out(entries: &EntryTable) -> [u32; 256] {
    let mut counts = [0u32; 256];
    for id in entries.oids.chunks_exact(entries.oid_len.max(1)) {
        counts[usize::from(id[0])] += 1;
    }
    let mut sum = 0;
    counts.map(|count| {
        sum += count;
        sum
    })
}

/// Returns the row of `id`.
///
/// Ids are evenly spread, so that the place of one among those with the same first byte can be told from its next bytes: a few
/// steps of interpolation, then halving, so that ids which are not evenly spread cost no more than a binary search.
pub fn find(entries: &EntryTable, fan_out: &[u32; 256], id: &oid) -> Option<usize> {
    /// Enough for a million of evenly spread ids.
    const GUESSES: u32 = 4;
    let width = entries.oid_len;
    let id = id.as_bytes();
    if id.len() != width {
        return None;
    }
    let first = usize::from(id[0]);
    let mut low = if first == 0 { 0 } else { fan_out[first - 1] as usize };
    let mut high = fan_out[first] as usize;
    let prefix = |bytes: &[u8]| u64::from_be_bytes(*bytes.first_chunk().expect("ids have at least 20 bytes"));
    let wanted = prefix(id);
    // Ids from `low` to before `high` have prefixes from `least` to `most`.
    let (mut least, mut most) = ((first as u64) << 56, (first as u64) << 56 | (u64::MAX >> 8));
    let mut guesses = 0;
    while low < high {
        let middle = if guesses < GUESSES && most > least {
            guesses += 1;
            let share = u128::from(wanted - least) * (high - low) as u128 / (u128::from(most - least) + 1);
            low + share as usize
        } else {
            low + (high - low) / 2
        };
        let other = &entries.oids[middle * width..(middle + 1) * width];
        let found = prefix(other);
        let order = found.cmp(&wanted).then_with(|| other.cmp(id));
        match order {
            std::cmp::Ordering::Less => (low, least) = (middle + 1, found),
            std::cmp::Ordering::Greater => (high, most) = (middle, found),
            std::cmp::Ordering::Equal => return Some(middle),
        }
    }
    None
}

/// Returns the rows of `offsets` in ascending order of the offset.
///
/// A radix sort: 849,000 rows take about 15 ms, a comparison sort four times that.
pub fn rows_by_offset(offsets: &[u64]) -> Vec<u32> {
    let rows = u32::try_from(offsets.len()).expect("a pack has fewer than 2^32 entries");
    let mut order: Vec<u32> = (0..rows).collect();
    if offsets.len() < 4096 {
        order.sort_unstable_by_key(|row| offsets[*row as usize]);
        return order;
    }
    const DIGIT_BITS: u32 = 11;
    const DIGITS: usize = 1 << DIGIT_BITS;
    let highest = offsets.iter().copied().max().unwrap_or(0);
    let mut sorted = vec![0; order.len()];
    let mut shift = 0;
    while shift < u64::BITS && highest >> shift != 0 {
        let digit = |row: u32| (offsets[row as usize] >> shift) as usize & (DIGITS - 1);
        let mut starts = [0usize; DIGITS];
        for row in 0..rows {
            starts[digit(row)] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += std::mem::replace(start, sum);
        }
        for row in &order {
            let place = &mut starts[digit(*row)];
            sorted[*place] = *row;
            *place += 1;
        }
        std::mem::swap(&mut order, &mut sorted);
        shift += DIGIT_BITS;
    }
    order
}

/// Writes a pack index of version 2 for `entries` to `out` and returns its trailing hash.
///
/// Offsets from `threshold` on go into the 64-bit table: give [`LARGE_OFFSET_THRESHOLD`], a test may give less. More
/// counts as that.
///
/// # Errors
/// Fails where `out` does.
pub fn write_idx(
    entries: &EntryTable,
    pack_id: &ObjectId,
    threshold: u64,
    out: &mut dyn Write,
) -> io::Result<ObjectId> {
    let threshold = threshold.min(LARGE_OFFSET_THRESHOLD);
    let mut out = Hashed::new(out, pack_id.kind());
    out.put(&IDX_MAGIC)?;
    for count in fan_out(entries) {
        out.put(&count.to_be_bytes())?;
    }
    out.put(&entries.oids)?;
    for crc32 in &entries.crc32s {
        out.put(&crc32.to_be_bytes())?;
    }
    let mut large: Vec<u64> = Vec::new();
    for offset in &entries.offsets {
        let word = match u32::try_from(*offset) {
            Ok(small) if *offset < threshold => small,
            _ => {
                large.push(*offset);
                LARGE_OFFSET | (large.len() - 1) as u32
            }
        };
        out.put(&word.to_be_bytes())?;
    }
    for offset in large {
        out.put(&offset.to_be_bytes())?;
    }
    out.put(pack_id.as_slice())?;
    out.finish()
}

/// Writes a reverse index of version 1 for `entries` to `out` and returns its trailing hash.
///
/// # Errors
/// Fails where `out` does.
pub fn write_rev(entries: &EntryTable, pack_id: &ObjectId, out: &mut dyn Write) -> io::Result<ObjectId> {
    let hash_code: u32 = match pack_id.kind() {
        gix_hash::Kind::Sha1 => 1,
        gix_hash::Kind::Sha256 => 2,
        other => {
            return Err(io::Error::other(format!(
                "object format '{other}' has no number in reverse indexes"
            )));
        }
    };
    let mut out = Hashed::new(out, pack_id.kind());
    out.put(&REV_MAGIC)?;
    out.put(&hash_code.to_be_bytes())?;
    for row in rows_by_offset(&entries.offsets) {
        out.put(&row.to_be_bytes())?;
    }
    out.put(pack_id.as_slice())?;
    out.finish()
}

/// A buffer that hashes what passes through it.
struct Hashed<'a> {
    out: &'a mut dyn Write,
    hasher: gix_hash::Hasher,
    buf: Vec<u8>,
}

impl<'a> Hashed<'a> {
    const CAPACITY: usize = 128 * 1024;

    fn new(out: &'a mut dyn Write, format: gix_hash::Kind) -> Self {
        Hashed {
            out,
            hasher: hasher(format),
            buf: Vec::with_capacity(Hashed::CAPACITY),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buf.len() + bytes.len() > Hashed::CAPACITY {
            self.flush()?;
            if bytes.len() >= Hashed::CAPACITY {
                self.hasher.update(bytes);
                return self.out.write_all(bytes);
            }
        }
        self.buf.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hasher.update(&self.buf);
        self.out.write_all(&self.buf)?;
        self.buf.clear();
        Ok(())
    }

    /// Writes the trailing hash and returns it.
    fn finish(mut self) -> io::Result<ObjectId> {
        self.flush()?;
        let id = self
            .hasher
            .try_finalize()
            .map_err(|err| io::Error::other(err.to_string()))?;
        self.out.write_all(id.as_slice())?;
        self.out.flush()?;
        Ok(id)
    }
}
