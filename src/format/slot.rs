//! The two slots in the head: which commit the last successful sync covered.
//!
//! A slot is a line of text inside one 4096-byte block of its own:
//!
//! ```text
//! offset 4096 or 8192, at most 256 bytes:
//! znippy-slot 1 <write> <append> <footer> <commit> <sum> LF
//! ```
//!
//! Numbers are decimal with 20 digits. `write` counts slot writes, and its parity names the slot, so that the two are
//! written in turn and a torn write leaves the other. `append` is where the next commit starts, `footer` the end of the
//! live footer, `commit` its identity in hex, `sum` the first 16 bytes of the SHA-256 of the line before it, in hex.
//! 256 bytes behind each slot are a tombstone: written when a newer generation replaced this file.

use super::{ALIGN, CommitId, HEAD_LEN, MAX_NUMBER, digest, encode_hex};

/// Where the two slots start.
pub const SLOT_OFFSETS: [u64; 2] = [4096, 8192];
/// Bytes reserved for one slot.
pub const SLOT_LEN: usize = 256;
/// Where the tombstone of a slot starts, counted from the slot.
pub const TOMBSTONE_AT: u64 = SLOT_LEN as u64;
/// How a tombstone starts; the generation that superseded this file follows, decimal, then device and inode number of it, the
/// checksum as in a slot, and LF.
pub const TOMBSTONE: &str = "znippy-superseded-by ";

const PREFIX: &str = "znippy-slot 1 ";

/// What a slot says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// How many times a slot was written; the greater of the two is the newer.
    pub write: u64,
    /// Where the next commit starts.
    pub append: u64,
    /// Where the live footer ends. Smaller than `append` only where damaged bytes are skipped.
    pub footer_end: u64,
    /// The commit of that footer.
    pub commit_id: CommitId,
}

impl Slot {
    /// Returns the slot's offset in the file.
    pub fn offset(&self) -> u64 {
        SLOT_OFFSETS[(self.write % 2) as usize]
    }

    /// Returns the slot's text, padded with spaces to [`SLOT_LEN`].
    pub fn encode(&self) -> [u8; SLOT_LEN] {
        let line = format!(
            "{PREFIX}{:020} {:020} {:020} {} ",
            self.write, self.append, self.footer_end, self.commit_id
        );
        let line = format!("{line}{}\n", sum_of(line.as_bytes()));
        let mut bytes = [b' '; SLOT_LEN];
        bytes[..line.len()].copy_from_slice(line.as_bytes());
        bytes
    }

    /// Parses a slot; `None` where it was never written or is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Slot> {
        let line = bytes
            .split(|b| *b == b'\n')
            .next()
            .filter(|line| line.len() < bytes.len())?;
        let line = std::str::from_utf8(line).ok()?;
        let (covered, sum) = line.split_at_checked(line.rfind(' ')? + 1)?;
        if sum != sum_of(covered.as_bytes()) {
            return None;
        }
        let mut fields = covered.strip_prefix(PREFIX)?.split(' ');
        let mut number = || fields.next()?.parse::<u64>().ok().filter(|number| *number < MAX_NUMBER);
        let (write, append, footer_end) = (number()?, number()?, number()?);
        let commit_id = CommitId::from_hex(fields.next()?.as_bytes())?;
        let in_order = HEAD_LEN <= footer_end && footer_end <= append;
        (in_order && append.is_multiple_of(ALIGN)).then_some(Slot {
            write,
            append,
            footer_end,
            commit_id,
        })
    }
}

fn sum_of(line: &[u8]) -> String {
    encode_hex(&digest(&[line])[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_a_round_trip_and_no_flipped_bit() {
        let slot = Slot {
            write: 7,
            append: MAX_NUMBER - ALIGN,
            footer_end: 12345,
            commit_id: CommitId([0xa5; 32]),
        };
        let bytes = slot.encode();
        assert_eq!(Slot::decode(&bytes), Some(slot));
        assert_eq!(slot.offset(), 8192);
        let line_len = bytes.iter().position(|b| *b == b'\n').unwrap();
        for bit in 0..line_len * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Slot::decode(&flipped), None, "bit {bit}");
        }
        assert_eq!(Slot::decode(&[b' '; SLOT_LEN]), None);
        assert_eq!(Slot::decode(&[0; SLOT_LEN]), None);
    }
}
