//! Owner, group, mode, access list and extended attributes of a file.

use std::{
    ffi::{CStr, CString},
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::Path,
};

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};

/// Gives the file `to` what `from` has. In this order: who may not read it yet must not be able to in between.
///
/// # Errors
/// Fails where something cannot be given: a new file must not be open to others, or closed to them, where the old one was not.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let open = |path: &Path| {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
    };
    let (from, to) = (open(from)?, open(to)?);
    let (old, new) = (from.metadata()?, to.metadata()?);
    let own = (
        (old.uid() != new.uid()).then(|| old.uid()),
        (old.gid() != new.gid()).then(|| old.gid()),
    );
    if own != (None, None) {
        fchown(&to, own.0, own.1).map_err(|error| {
            let (uid, gid) = (old.uid(), old.gid());
            io::Error::new(
                error.kind(),
                format!("it belongs to user {uid} and group {gid}: {error}"),
            )
        })?;
    }
    copy_extended(&from, &to)?;
    if to.metadata()?.mode() != old.mode() {
        to.set_permissions(std::fs::Permissions::from_mode(old.mode() & 0o7777))?;
    }
    Ok(())
}

/// Access lists are extended attributes too (`system.posix_acl_access`, `system.nfs4_acl`).
fn copy_extended(from: &File, to: &File) -> io::Result<()> {
    let (old, new) = (names(from)?, names(to)?);
    for name in &old {
        let value = value(from, name)?;
        if new.contains(name) && self::value(to, name)? == value {
            continue;
        }
        fsetxattr(to, name, &value, XattrFlags::empty()).map_err(|error| named(name, error))?;
    }
    // What the directory gives to new files.
    for name in new.iter().filter(|name| !old.contains(name)) {
        fremovexattr(to, name).map_err(|error| named(name, error))?;
    }
    Ok(())
}

fn names(file: &File) -> io::Result<Vec<CString>> {
    let mut list = vec![];
    loop {
        let needed = match flistxattr(file, &mut [0u8; 0][..]) {
            Ok(needed) => needed,
            // A disk without extended attributes.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => return Ok(vec![]),
            Err(error) => return Err(error.into()),
        };
        list.resize(needed, 0);
        match flistxattr(file, &mut list[..]) {
            Ok(len) => {
                let names = list[..len].split(|b| *b == 0).filter(|name| !name.is_empty());
                return Ok(names.map(|name| CString::new(name).expect("split at zeros")).collect());
            }
            // Another was added meanwhile.
            Err(rustix::io::Errno::RANGE) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn value(file: &File, name: &CStr) -> io::Result<Vec<u8>> {
    let mut value = vec![];
    loop {
        let needed = fgetxattr(file, name, &mut [0u8; 0][..]).map_err(|error| named(name, error))?;
        value.resize(needed, 0);
        match fgetxattr(file, name, &mut value[..]) {
            Ok(len) => {
                value.truncate(len);
                return Ok(value);
            }
            Err(rustix::io::Errno::RANGE) => {}
            Err(error) => return Err(named(name, error)),
        }
    }
}

fn named(name: &CStr, error: rustix::io::Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("attribute {}: {error}", name.to_string_lossy()))
}
