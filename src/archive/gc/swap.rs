//! Putting the new generation in the place of the old one.
//!
//! The temporary file `.NAME.gc` lies beside the archive, is created exclusively and locked for as long as a rewrite lives. One
//! that nobody holds was left by a rewrite that died, and is removed by the next.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    archive::file::refuse_unstable,
    error::{Error, Result},
    format::{
        head::Tombstone,
        slot::{SLOT_OFFSETS, TOMBSTONE_AT},
    },
    media::{Attempt, Disk, DiskFile, LockByte, LockFile, LockMode, Medium},
};

/// How often a temporary file is tried to be created while others create and remove theirs.
const ATTEMPTS: usize = 5;

/// The file that a new generation is written to. It is removed when this is dropped, unless it took the archive's place.
pub struct Temporary<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
    pub file: Arc<dyn DiskFile>,
    is_ours: bool,
    /// Given back after the file is gone.
    _lock_file: Option<LockFile<'a>>,
}

/// Returns the path of the temporary file of an archive.
pub fn temporary_path(archive: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(archive.file_name().unwrap_or_default());
    name.push(".gc");
    archive.with_file_name(name)
}

impl<'a> Temporary<'a> {
    /// Creates the temporary file of `archive`, locks it, and gives it the archive's owner and rights. One that was left by a
    /// rewrite that died is removed first.
    ///
    /// # Errors
    /// [`Error::Locked`] where another rewrite is at work; fails also where the new file could not have the rights that the old
    /// one has.
    pub fn create(disk: &'a dyn Disk, archive: &Path, mode: LockMode) -> Result<Temporary<'a>> {
        let path = temporary_path(archive);
        let lock_file = match mode {
            LockMode::File => match LockFile::try_create(disk, &path).map_err(Error::io(&path, "lock"))? {
                Attempt::Locked(lock) => Some(lock),
                Attempt::Held(_) => return Err(busy(archive)),
            },
            LockMode::Os | LockMode::Local => None,
        };
        for _ in 0..ATTEMPTS {
            let file = match disk.create_new(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    match &lock_file {
                        // Whoever holds that is the only one here.
                        Some(_) => disk
                            .remove(&path)
                            .map_err(Error::io(&path, "remove what an earlier gc left behind,"))?,
                        None => sweep(disk, &path)?,
                    }
                    continue;
                }
                Err(error) => return Err(Error::io(&path, "create")(error)),
            };
            let locked = lock(file.as_ref(), &path);
            match locked.and_then(|locked| Ok(locked && is_named(disk, &path, file.as_ref())?)) {
                Ok(true) => {}
                _ if lock_file.is_some() => {}
                // Somebody who takes it for a left one may hold or have removed it.
                Ok(false) => continue,
                Err(error) => {
                    let _ = disk.remove(&path);
                    return Err(error);
                }
            }
            let temporary = Temporary {
                disk,
                path,
                file,
                is_ours: true,
                _lock_file: lock_file,
            };
            disk.copy_attributes(archive, &temporary.path).map_err(Error::io(
                archive,
                "give a new file the owner, rights and attributes of",
            ))?;
            return Ok(temporary);
        }
        Err(busy(archive))
    }

    /// Gives the file the name of the archive, for good, and writes a tombstone into the old one. Both must be locked, and the
    /// new one synced.
    ///
    /// # Errors
    /// Where the disk refuses the rename the old generation is the archive as before.
    pub fn replace(mut self, archive: &Path, old: &dyn DiskFile, generation: u64) -> Result<Vec<String>> {
        let mut warnings = vec![];
        self.disk
            .rename(&self.path, archive)
            .map_err(|source| Error::NotReplaced {
                path: archive.into(),
                source,
            })?;
        self.is_ours = false;
        let directory = match archive.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        match self.disk.sync_directory(directory) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOTSUP)) => {
                // The old file may come back after a power loss: it must then not say that it was replaced.
                warnings.push(format!(
                    "{}: the new generation is in place, but the disk could not make its name durable: {error}",
                    archive.display()
                ));
                return Ok(warnings);
            }
            _ => {}
        }
        if let Err(error) = write_tombstone(old, generation) {
            warnings.push(format!(
                "{}: the old generation could not be marked as replaced: {error}",
                archive.display()
            ));
        }
        Ok(warnings)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if self.is_ours {
            // What cannot be removed now is removed by the next rewrite.
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// Removes what a rewrite of `archive` that died has left.
pub fn sweep_left(disk: &dyn Disk, archive: &Path) -> Result<()> {
    sweep(disk, &temporary_path(archive))
}

/// Removes a temporary file that nobody holds.
fn sweep(disk: &dyn Disk, path: &Path) -> Result<()> {
    let file = match disk.open(path, true) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(path, "open what an earlier gc left behind,")(error)),
    };
    if !lock(file.as_ref(), path)? {
        return Err(busy(path));
    }
    if is_named(disk, path, file.as_ref())? {
        disk.remove(path)
            .map_err(Error::io(path, "remove what an earlier gc left behind,"))?;
    }
    Ok(())
}

fn lock(file: &dyn DiskFile, path: &Path) -> Result<bool> {
    file.try_lock(LockByte::Writer).map_err(|source| Error::CannotLock {
        path: path.into(),
        source,
    })
}

fn is_named(disk: &dyn Disk, path: &Path, file: &dyn DiskFile) -> Result<bool> {
    let Ok(stat) = file.stat() else { return Ok(false) };
    match disk.stat(path) {
        Ok(named) if named.id == stat.id => Ok(true),
        Ok(_) => refuse_unstable(file, &stat, path).map(|()| false),
        Err(_) => Ok(false),
    }
}

/// Returns the error that another rewrite or index run is at work.
pub fn busy(path: &Path) -> Error {
    Error::Locked {
        path: path.into(),
        holder: " (another gc or index run)".into(),
        waited_s: 0,
    }
}

/// Says in a file that a newer generation took its place: who has it open by another name must not write to it any more.
fn write_tombstone(old: &dyn DiskFile, generation: u64) -> io::Result<()> {
    let tombstone = Tombstone {
        generation,
        file: old.stat()?.id,
    };
    for slot in SLOT_OFFSETS {
        Medium::write_all_at(old, slot + TOMBSTONE_AT, &tombstone.encode())?;
    }
    old.sync_data()
}
