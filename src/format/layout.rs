//! The buffers of a record batch, one behind the other.
//!
//! A commit has few values in many buffers: most of what Arrow's arrays cost is made and thrown away around some bytes each. So
//! buffers are laid out as they come, and small ones are put together.

use std::iter::once;

use arrow_buffer::{ArrowNativeType, Buffer, ToByteSlice};
use arrow_ipc::{Buffer as BufferRange, FieldNode};
use gix_hash::ObjectId;

use super::align_up;

/// Buffers up to this size are copied behind the one before; larger ones stay where they are.
const SMALL: usize = 16 << 10;
/// Makes room for the buffers of all columns.
const BUFFERS: usize = 80;
/// Makes room for the bytes of a section of a small commit.
const ROOM: usize = 1 << 10;

/// Nodes, ranges and bytes in the order that Arrow IPC wants: depth first, parents before children.
pub(super) struct Layout {
    pub nodes: Vec<FieldNode>,
    /// Relative to the start of the body.
    pub ranges: Vec<BufferRange>,
    /// What was laid out; padding included.
    pub chunks: Vec<Buffer>,
    /// Bytes so far; always a multiple of the alignment.
    pub len: u64,
    /// What follows the last chunk.
    small: Vec<u8>,
}

impl Layout {
    pub fn new() -> Layout {
        Layout {
            nodes: Vec::with_capacity(BUFFERS),
            ranges: Vec::with_capacity(BUFFERS),
            chunks: vec![],
            len: 0,
            small: Vec::with_capacity(ROOM),
        }
    }

    /// Ends the chunk, so that another checksum can start here. Returns where that is.
    pub fn end_section(&mut self) -> u64 {
        if !self.small.is_empty() {
            let small = std::mem::replace(&mut self.small, Vec::with_capacity(ROOM));
            self.chunks.push(Buffer::from_vec(small));
        }
        self.len
    }

    /// Starts a column or a field whose values are all there.
    pub fn node(&mut self, len: usize) {
        self.nodes.push(FieldNode::new(len as i64, 0));
        self.promise(0);
    }

    /// Starts a column or a field of which some values may be null. Where none is, it needs no bitmap.
    pub fn nullable(&mut self, valid: &Valid) {
        self.nodes.push(FieldNode::new(valid.len as i64, valid.nulls as i64));
        match valid.nulls {
            0 => self.promise(0),
            _ => self.append(|bytes| bytes.extend_from_slice(&valid.bits)),
        }
    }

    /// Adds a buffer.
    pub fn buffer<T: ArrowNativeType>(&mut self, values: Vec<T>) {
        let len = size_of_val(values.as_slice());
        if len <= SMALL {
            return self.append(|bytes| bytes.extend_from_slice(values.to_byte_slice()));
        }
        self.promise(len as u64);
        self.end_section();
        self.chunks.push(Buffer::from_vec(values));
        self.pad(len);
    }

    /// Adds a buffer of the bytes that `write` adds to a vector.
    fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.small.len();
        write(&mut self.small);
        let len = self.small.len() - start;
        self.promise(len as u64);
        self.pad(len);
    }

    /// Ends a buffer of `len` bytes.
    fn pad(&mut self, len: usize) {
        let padding = align_up(len as u64) as usize - len;
        self.small.resize(self.small.len() + padding, 0);
        self.len += (len + padding) as u64;
    }

    /// Adds the range of a buffer whose bytes are not among those that are laid out here.
    pub fn promise(&mut self, len: u64) {
        self.ranges.push(BufferRange::new(self.len as i64, len as i64));
    }

    /// Adds a column or a field of numbers.
    pub fn numbers<T: ArrowNativeType>(&mut self, values: impl Iterator<Item = Option<T>> + Clone) {
        self.nullable(&values.clone().map(|value| value.is_some()).collect());
        self.append(|bytes| {
            for value in values {
                bytes.extend_from_slice([value.unwrap_or_default()].to_byte_slice());
            }
        });
    }

    /// Adds a column or a field of values of variable length, which together have less than 2³¹ bytes.
    pub fn bytes<T: AsRef<[u8]>>(&mut self, values: impl Iterator<Item = Option<T>> + Clone) {
        self.nullable(&values.clone().map(|value| value.is_some()).collect());
        let lengths = values
            .clone()
            .map(|value| value.map_or(0, |value| value.as_ref().len()));
        self.offsets(lengths.scan(0, running_sum));
        self.append(|bytes| {
            for value in values.flatten() {
                bytes.extend_from_slice(value.as_ref());
            }
        });
    }

    /// Adds a column or a field of object ids of `width` bytes.
    pub fn ids(&mut self, ids: impl Iterator<Item = Option<ObjectId>> + Clone, width: usize) {
        self.nullable(&ids.clone().map(|id| id.is_some()).collect());
        self.append(|bytes| {
            for id in ids {
                match id {
                    Some(id) => bytes.extend_from_slice(id.as_slice()),
                    None => bytes.resize(bytes.len() + width, 0),
                }
            }
        });
    }

    /// Adds a field of object ids that stand one behind the other.
    pub fn joined_ids(&mut self, ids: Vec<u8>, width: usize) {
        self.node(ids.len() / width);
        self.buffer(ids);
    }

    /// Starts a list whose element lists have so many elements each; these follow. Returns how many there are.
    ///
    /// # Errors
    /// Fails where offsets of 32 bits do not suffice.
    pub fn list(&mut self, lengths: impl ExactSizeIterator<Item = usize> + Clone) -> Result<usize, String> {
        let end = lengths.clone().sum::<usize>();
        if i32::try_from(end).is_err() {
            return Err(format!("{end} elements do not fit into one commit"));
        }
        self.node(lengths.len());
        self.offsets(lengths.scan(0, running_sum));
        Ok(end)
    }

    /// As [`Layout::list`], of structs: their fields follow.
    pub fn structs(&mut self, lengths: impl ExactSizeIterator<Item = usize> + Clone) -> Result<usize, String> {
        let count = self.list(lengths)?;
        self.node(count);
        Ok(count)
    }

    /// Adds the offsets of values that end there.
    ///
    /// # Panics
    /// Panics where offsets of 32 bits do not suffice.
    pub fn offsets(&mut self, ends: impl Iterator<Item = usize>) {
        self.append(|bytes| {
            for end in once(0).chain(ends) {
                bytes.extend_from_slice(&i32::try_from(end).expect("it was counted").to_le_bytes());
            }
        });
    }
}

/// Adds a length to where the one before ended: for [`Iterator::scan`].
fn running_sum(end: &mut usize, length: usize) -> Option<usize> {
    *end += length;
    Some(*end)
}

/// Which values are there: Arrow's bitmap, lowest bit first.
#[derive(Default)]
pub(super) struct Valid {
    bits: Vec<u8>,
    len: usize,
    nulls: usize,
}

impl FromIterator<bool> for Valid {
    fn from_iter<I: IntoIterator<Item = bool>>(values: I) -> Valid {
        let mut valid = Valid::default();
        for is_valid in values {
            if valid.len.is_multiple_of(8) {
                valid.bits.push(0);
            }
            *valid.bits.last_mut().expect("one was just added") |= u8::from(is_valid) << (valid.len % 8);
            valid.len += 1;
            valid.nulls += usize::from(!is_valid);
        }
        valid
    }
}
