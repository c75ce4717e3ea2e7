//! The archives that a user trusts although their files do not tell that only he can have written them.
//!
//! ```text
//! list = ("#" anything | uuid " " path) LF ...
//! ```
//!
//! The UUID counts; the path tells a person which archive it is.

use std::{
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice};

use crate::error::{Error, Result};

const HEAD: &str = "# Archives that need not be hashed again; see znippy-trust(1).\n";

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trusted {
    pub uuid: String,
    /// Where the archive was, as bytes.
    pub path: BString,
}

/// A list, and the file that it is in.
#[derive(Debug)]
pub struct TrustList {
    file: PathBuf,
    entries: Vec<Trusted>,
}

impl TrustList {
    /// Reads the list in `file`, which need not exist.
    ///
    /// # Errors
    /// Fails where it cannot be read, or where others than the user may have written it.
    pub fn read(file: &Path) -> Result<TrustList> {
        let bytes = match std::fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::io(file, "read")(error)),
        };
        if !bytes.is_empty() {
            let metadata = std::fs::metadata(file).map_err(Error::io(file, "stat"))?;
            let user = rustix::process::geteuid().as_raw();
            if metadata.uid() != user || super::access::others_may_write(file, metadata.mode(), user) {
                let file = file.display();
                return Err(Error::Invalid(format!(
                    "{file}: others may write to this list of trusted archives, so it is not used"
                )));
            }
        }
        let line = |line: &[u8]| {
            let (uuid, path) = line.split_once_str(" ").unwrap_or((line, b""));
            let uuid = uuid
                .to_str()
                .ok()
                .filter(|uuid| !uuid.is_empty() && !uuid.starts_with('#'))?;
            Some(Trusted {
                uuid: uuid.to_owned(),
                path: path.into(),
            })
        };
        Ok(TrustList {
            file: file.to_owned(),
            entries: bytes.lines().filter_map(line).collect(),
        })
    }

    /// Returns what is in the list, oldest first.
    pub fn entries(&self) -> &[Trusted] {
        &self.entries
    }

    /// Returns whether the archive of this UUID is in the list.
    pub fn contains(&self, uuid: &str) -> bool {
        self.entries.iter().any(|entry| entry.uuid == uuid)
    }

    /// Puts an archive into the list, in place of what was known of it before.
    pub fn add(&mut self, uuid: String, path: BString) {
        self.remove(&uuid);
        self.entries.push(Trusted { uuid, path });
    }

    /// Takes an archive out of the list, and returns whether it was there.
    pub fn remove(&mut self, uuid: &str) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.uuid != uuid);
        self.entries.len() < before
    }

    /// Writes the list back, all or nothing.
    ///
    /// # Errors
    /// Fails where the file or its directory cannot be written.
    pub fn write(&self) -> Result<()> {
        let directory = self.file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(directory).map_err(Error::io(directory, "create"))?;
        let mut text = HEAD.as_bytes().to_vec();
        for Trusted { uuid, path } in &self.entries {
            // A path with a line end in it would be two lines.
            let path = path.replace("\n", "?");
            text.extend_from_slice(&[uuid.as_bytes(), b" ", &path, b"\n"].concat());
        }
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(Error::io(directory, "write to"))?;
        file.write_all(&text).map_err(Error::io(&self.file, "write"))?;
        file.as_file().sync_all().map_err(Error::io(&self.file, "sync"))?;
        file.persist(&self.file)
            .map_err(|error| Error::io(&self.file, "write")(error.error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn archives_come_and_go() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("new/trusted");
        let mut list = TrustList::read(&file).unwrap();
        assert!(list.entries().is_empty() && !list.contains("a"));
        list.add("a".into(), "/x/a b\nc.znippy".into());
        list.add("b".into(), BString::from(b"/\xff".to_vec()));
        list.add("a".into(), "/y".into());
        list.write().unwrap();
        let mut list = TrustList::read(&file).unwrap();
        assert!(list.contains("a") && list.contains("b") && !list.contains("#"));
        assert_eq!(list.entries()[1].path, "/y");
        assert!(list.remove("a") && !list.remove("a"));
        list.write().unwrap();
        assert_eq!(TrustList::read(&file).unwrap().entries().len(), 1);
    }

    /// R23: who can write the list could trust himself.
    #[test]
    fn a_list_that_others_may_write_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("trusted");
        std::fs::write(&file, "a /x\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(TrustList::read(&file).is_err());
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(TrustList::read(&file).unwrap().contains("a"));
    }
}
