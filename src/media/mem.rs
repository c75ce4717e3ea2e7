//! A medium in memory, for tests and for building archives without a disk.

use std::{io, sync::RwLock};

use super::Medium;

/// Bytes in memory. Syncing does nothing.
#[derive(Debug, Default)]
pub struct MemMedium {
    bytes: RwLock<Vec<u8>>,
}

impl MemMedium {
    /// Makes a medium that holds `bytes`.
    pub fn new(bytes: Vec<u8>) -> Self {
        MemMedium {
            bytes: RwLock::new(bytes),
        }
    }
    /// Returns a copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        self.read().clone()
    }
    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<u8>> {
        self.bytes.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Vec<u8>> {
        self.bytes.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Medium for MemMedium {
    fn len(&self) -> io::Result<u64> {
        Ok(self.read().len() as u64)
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let bytes = self.read();
        let start = usize::try_from(offset).ok().filter(|start| *start <= bytes.len());
        let source = start.and_then(|start| bytes[start..].get(..buf.len()));
        buf.copy_from_slice(source.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
    fn write_all_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        let mut bytes = self.write();
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let end = start.checked_add(buf.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(buf);
        Ok(())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.write().resize(len, 0);
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn start_writeback(&self, _offset: u64, _len: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_never_fall_short() {
        let medium = MemMedium::new(b"abc".to_vec());
        let mut buf = [0; 2];
        medium.read_exact_at(1, &mut buf).unwrap();
        assert_eq!(&buf, b"bc");
        assert_eq!(
            medium.read_exact_at(2, &mut buf).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert_eq!(
            medium.read_exact_at(u64::MAX, &mut buf).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }
}
