//! git's delta format: instructions that build an object out of its base.
//!
//! Source: "Deltified representation" in git's `Documentation/gitformat-pack`.

mod encode;

pub use self::encode::encode;

/// The most a vector is enlarged on the word of a header alone, in bytes; beyond that, data must have arrived first.
pub(super) const TRUSTED_CAPACITY: usize = 1 << 20;

/// What the start of a delta tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaHeader {
    /// Bytes of the base that the delta applies to.
    pub base_size: u64,
    /// Bytes of the object that comes out.
    pub result_size: u64,
    /// Bytes of this header; instructions start there.
    pub len: usize,
}

/// Parses the two sizes at the start of `delta`, which may be no more than its beginning.
///
/// # Errors
/// Fails with the reason where a size is cut off or exceeds 64 bits.
pub fn parse_header(delta: &[u8]) -> Result<DeltaHeader, &'static str> {
    let (base_size, first) = parse_size(delta)?;
    let (result_size, second) = parse_size(&delta[first..])?;
    Ok(DeltaHeader {
        base_size,
        result_size,
        len: first + second,
    })
}

fn parse_size(bytes: &[u8]) -> Result<(u64, usize), &'static str> {
    let (mut size, mut shift) = (0u64, 0);
    for (at, byte) in bytes.iter().enumerate() {
        let bits = u64::from(byte & 0x7f);
        if shift >= 64 || (bits << shift) >> shift != bits {
            return Err("a size in the delta does not fit into 64 bits");
        }
        size |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok((size, at + 1));
        }
        shift += 7;
    }
    Err("the delta's header is cut off")
}

/// Appends the object that `delta` makes out of `base` to the empty `out`.
///
/// Memory beyond 1 MiB is taken only as instructions fill it, and never more than twice `limit`.
///
/// # Errors
/// Fails with the reason where the delta was made for another base, points outside of it, is cut off, or does not
/// build exactly the size that it promises, and where that exceeds `limit` bytes.
pub fn apply(base: &[u8], delta: &[u8], limit: u64, out: &mut Vec<u8>) -> Result<(), &'static str> {
    const SHORT: &str = "the delta is cut off";
    let header = parse_header(delta)?;
    if header.base_size != base.len() as u64 {
        return Err("the delta was made for a base of another size");
    }
    let size = usize::try_from(header.result_size)
        .ok()
        .filter(|_| header.result_size <= limit)
        .ok_or("the object exceeds the size limit")?;
    out.clear();
    out.reserve_exact(size.min(TRUSTED_CAPACITY));
    let mut rest = &delta[header.len..];
    while let Some((&code, after)) = rest.split_first() {
        rest = after;
        let bytes = if code & 0x80 != 0 {
            let mut next = |bit: u8, shift: u32| -> Result<usize, &'static str> {
                if code & bit == 0 {
                    return Ok(0);
                }
                let (&byte, after) = rest.split_first().ok_or(SHORT)?;
                rest = after;
                Ok(usize::from(byte) << shift)
            };
            let start = next(0x01, 0)? | next(0x02, 8)? | next(0x04, 16)? | next(0x08, 24)?;
            let len = next(0x10, 0)? | next(0x20, 8)? | next(0x40, 16)?;
            let len = if len == 0 { 0x10000 } else { len };
            start
                .checked_add(len)
                .and_then(|end| base.get(start..end))
                .ok_or("the delta copies from outside of its base")?
        } else if code != 0 {
            let (bytes, after) = rest.split_at_checked(usize::from(code)).ok_or(SHORT)?;
            rest = after;
            bytes
        } else {
            return Err("the delta has an instruction of the reserved kind");
        };
        if bytes.len() > size - out.len() {
            return Err("the delta builds more than it promises");
        }
        out.extend_from_slice(bytes);
    }
    if out.len() == size {
        Ok(())
    } else {
        Err("the delta builds less than it promises")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(base: &[u8], delta: &[u8]) -> Result<Vec<u8>, &'static str> {
        let mut out = Vec::new();
        apply(base, delta, 1 << 30, &mut out).map(|()| out)
    }

    #[test]
    fn copies_and_inserts() {
        assert_eq!(
            built(b"hello world", b"\x0b\x0a\x91\x06\x05\x02, \x90\x03").unwrap(),
            b"world, hel"
        );
        assert_eq!(built(b"", b"\0\0").unwrap(), b"");
        let base = vec![7; 0x10001];
        assert_eq!(
            built(&base, b"\x81\x80\x04\x80\x80\x04\x80").unwrap(),
            vec![7; 0x10000],
            "no size means 64 KiB"
        );
    }

    #[test]
    fn hostile_deltas_are_refused() {
        let bad: [&[u8]; 12] = [
            b"",
            b"\x02",
            b"\x02\x80",
            b"\x03\x01\x01a",        // another base
            b"\x02\x01\x00",         // reserved
            b"\x02\x01",             // builds nothing
            b"\x02\x01\x02ab",       // builds too much
            b"\x02\x02\x91\x01\x02", // beyond the base
            b"\x02\x02\x9f\xff\xff\xff\xff\x02",
            b"\x02\x02\x03ab",                               // insert cut off
            b"\x02\x02\x91\x01",                             // copy cut off
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x01", // 64 bits exceeded
        ];
        for delta in bad {
            assert!(built(b"ab", delta).is_err(), "{delta:?}");
        }
        let mut out = Vec::new();
        assert!(
            apply(b"ab", b"\x02\x80\x80\x80\x80\x10\x90\x02", 1 << 20, &mut out).is_err(),
            "over the limit"
        );
        assert!(apply(b"ab", b"\x02\x80\x80\x80\x80\x10\x90\x02", u64::MAX, &mut out).is_err());
        assert!(
            out.capacity() <= 2 * TRUSTED_CAPACITY,
            "memory was taken on the header's word alone"
        );
    }
}
