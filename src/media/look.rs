//! Looking at a file, past what this machine remembers of it.
//!
//! A network disk lets each machine believe for a while what it saw of a file. A writer that believes it may take the length of a
//! minute ago for today's, and a reader a file that grew for one that was cut off. `AT_STATX_FORCE_SYNC` asks the server
//! (statx(2)); on a disk of this machine it changes nothing.

use std::{
    fs::{File, Metadata},
    io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, StatxFlags, makedev, statx},
    io::Errno,
};

use super::{FileKind, Stat};

const FORCE_SYNC: AtFlags = AtFlags::from_bits_retain(libc::AT_STATX_FORCE_SYNC as u32);

/// Returns what the disk says of an open file.
pub fn at_file(file: &File) -> io::Result<Stat> {
    match statx(
        file.as_fd(),
        c"",
        AtFlags::EMPTY_PATH | FORCE_SYNC,
        StatxFlags::BASIC_STATS,
    ) {
        // Before Linux 4.11, and in containers whose rules are older.
        Err(Errno::NOSYS | Errno::PERM) => Ok(file.metadata()?.into()),
        found => Ok(found?.into()),
    }
}

/// Returns what the disk says of the file that a path leads to.
pub fn at_path(path: &Path) -> io::Result<Stat> {
    match statx(CWD, path, FORCE_SYNC, StatxFlags::BASIC_STATS) {
        Err(Errno::NOSYS | Errno::PERM) => Ok(path.metadata()?.into()),
        found => Ok(found?.into()),
    }
}

impl From<rustix::fs::Statx> for Stat {
    fn from(found: rustix::fs::Statx) -> Stat {
        let kind = match FileType::from_raw_mode(found.stx_mode.into()) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            _ => FileKind::Other,
        };
        Stat {
            kind,
            id: (makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino),
            links: found.stx_nlink.into(),
            len: found.stx_size,
        }
    }
}

impl From<Metadata> for Stat {
    fn from(metadata: Metadata) -> Stat {
        let kind = match metadata.file_type() {
            kind if kind.is_file() => FileKind::File,
            kind if kind.is_dir() => FileKind::Directory,
            _ => FileKind::Other,
        };
        Stat {
            kind,
            id: (metadata.dev(), metadata.ino()),
            links: metadata.nlink(),
            len: metadata.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_look_say_the_same() {
        let named = tempfile::NamedTempFile::new().unwrap();
        named.as_file().set_len(1234).unwrap();
        let expected = Stat::from(named.as_file().metadata().unwrap());
        assert_eq!((expected.kind, expected.links, expected.len), (FileKind::File, 1, 1234));
        assert_eq!(at_file(named.as_file()).unwrap(), expected);
        assert_eq!(at_path(named.path()).unwrap(), expected);
        assert_eq!(at_path(Path::new("/")).unwrap().kind, FileKind::Directory);
        assert_eq!(at_path(Path::new("/dev/null")).unwrap().kind, FileKind::Other);
        assert_eq!(
            at_path(Path::new("/dev/null/x")).unwrap_err().raw_os_error(),
            Some(libc::ENOTDIR)
        );
    }
}
