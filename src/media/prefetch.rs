//! Many small reads next to each other as one.

use std::{io, ops::Range};

use super::{Medium, read_vec};

/// Ranges longer than this are read by themselves, when they are asked for.
const SMALL: u64 = 32 << 10;
/// The most that one read brings.
const WINDOW: u64 = 1 << 20;

/// A medium of which some ranges are in memory already: on a network disk each read is a round trip.
pub struct Prefetched<'a> {
    medium: &'a dyn Medium,
    /// Bytes and where they start, in ascending order.
    parts: Vec<(u64, Vec<u8>)>,
}

impl<'a> Prefetched<'a> {
    /// Reads the small ones among `ranges`, which may be in any order, those that lie close together in one read.
    /// What cannot be read is left to whoever asks for it.
    pub fn read(medium: &'a dyn Medium, ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut small: Vec<Range<u64>> = ranges
            .into_iter()
            .filter(|range| range.start < range.end && range.end - range.start <= SMALL)
            .collect();
        small.sort_unstable_by_key(|range| range.start);
        let mut windows: Vec<Range<u64>> = Vec::new();
        let mut wanted = 0;
        for range in small {
            wanted += range.end - range.start;
            match windows.last_mut() {
                // Reading what lies between is worth it as long as most of the window is wanted.
                Some(window) if range.end - window.start <= WINDOW && (range.end - window.start) / 2 <= wanted => {
                    window.end = window.end.max(range.end);
                }
                _ => {
                    wanted = range.end - range.start;
                    windows.push(range);
                }
            }
        }
        let read = |window: Range<u64>| {
            let bytes = read_vec(medium, window.start, (window.end - window.start) as usize).ok()?;
            Some((window.start, bytes))
        };
        let parts = windows.into_iter().filter_map(read).collect();
        Prefetched { medium, parts }
    }

    fn part(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let (start, bytes) = &self.parts[..self.parts.partition_point(|(start, _)| *start <= offset)].last()?;
        let at = usize::try_from(offset - start).ok()?;
        bytes.get(at..at.checked_add(len)?)
    }
}

impl Medium for Prefetched<'_> {
    fn len(&self) -> io::Result<u64> {
        self.medium.len()
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match self.part(offset, buf.len()) {
            Some(bytes) => buf.copy_from_slice(bytes),
            None => self.medium.read_exact_at(offset, buf)?,
        }
        Ok(())
    }
    fn write_all_at(&self, _offset: u64, _buf: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn start_writeback(&self, _offset: u64, _len: u64) {}
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts its reads.
    struct Counted(Vec<u8>, AtomicUsize);

    impl Medium for Counted {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }
        fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            let bytes = self.0.get(offset as usize..offset as usize + buf.len());
            buf.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
        fn write_all_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            unreachable!()
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            unreachable!()
        }
        fn sync_data(&self) -> io::Result<()> {
            unreachable!()
        }
        fn start_writeback(&self, _: u64, _: u64) {}
    }

    #[test]
    fn neighbours_are_read_at_once_and_every_read_is_right() {
        let bytes: Vec<u8> = (0..5_000_000_u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let medium = Counted(bytes.clone(), AtomicUsize::new(0));
        // Sixty small neighbours, one far away, one large.
        let mut ranges: Vec<_> = (0..60_u64).rev().map(|i| i * 5000..i * 5000 + 4000).collect();
        ranges.push(4_000_000..4_000_100);
        ranges.push(1_000_000..3_000_000);
        let prefetched = Prefetched::read(&medium, ranges.clone());
        assert_eq!(medium.1.load(Ordering::Relaxed), 2);
        for range in ranges.into_iter().chain([4_000_050..4_000_200, 299_000..300_500, 0..0]) {
            let found = read_vec(&prefetched, range.start, (range.end - range.start) as usize).unwrap();
            assert_eq!(found, bytes[range.start as usize..range.end as usize]);
        }
        assert!(read_vec(&prefetched, 4_999_999, 2).is_err());
        let beyond = Prefetched::read(&medium, std::iter::once(4_999_999..5_000_001));
        assert!(read_vec(&beyond, 4_999_999, 2).is_err());
    }
}
