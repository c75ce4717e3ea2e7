//! Reasons not to create an archive where there is none, and not to trust one that is there.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice};

/// Returns the mount point above `path` that fstab names and that is not mounted: the archive may be on that disk.
pub fn unmounted_ancestor(path: &Path) -> Option<PathBuf> {
    let fstab = std::fs::read("/etc/fstab").ok()?;
    let mounted = std::fs::read("/proc/self/mounts").ok()?;
    unmounted(path, &fstab, &mounted)
}

fn unmounted(path: &Path, fstab: &[u8], mounted: &[u8]) -> Option<PathBuf> {
    let mounted: Vec<PathBuf> = mount_points(mounted).collect();
    mount_points(fstab)
        .filter(|point| point.is_absolute() && point.parent().is_some() && path.starts_with(point))
        .find(|point| !mounted.contains(point))
}

/// Returns the second field of each line, with `\040` and the like decoded.
fn mount_points(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    table
        .lines()
        .filter(|line| !line.trim_start().starts_with(b"#"))
        .filter_map(|line| line.fields().nth(1))
        .map(|field| PathBuf::from(std::ffi::OsString::from(decoded(field).to_os_str_lossy())))
}

fn decoded(field: &[u8]) -> BString {
    let mut out = BString::default();
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = (byte == b'\\')
            .then(|| tail.get(..3))
            .flatten()
            .and_then(|digits| digits.to_str().ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(value) => {
                out.push(value);
                rest = &tail[3..];
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    out
}

/// Why bytes of an archive are not taken as they are.
///
/// Dropping a pack into a repository bypasses the check of every object's name that git makes for what comes over a
/// network. That is right only where nobody but the user can have written the file.
pub fn distrust(path: &Path) -> Option<&'static str> {
    let Ok(meta) = std::fs::metadata(path) else {
        return Some("its owner cannot be read");
    };
    let user = rustix::process::geteuid().as_raw();
    // 65534 is what an unmapped owner looks like from inside of a user namespace: it could be anybody.
    if meta.uid() != user || user == 65534 {
        return Some("it belongs to another user");
    }
    // The group bits hold the mask of an access control list where there is one, so they cover it.
    if meta.mode() & 0o022 != 0 {
        return Some("others may write to it");
    }
    match rustix::fs::statfs(path) {
        Ok(disk) if has_real_owners(disk.f_type as u64) => None,
        _ => Some("its file system does not vouch for the owner"),
    }
}

/// Local file systems that store who owns a file. A network disk shows what its server says, FAT what a mount option says.
fn has_real_owners(magic: u64) -> bool {
    // From linux/magic.h: ext2 to ext4, xfs, btrfs, tmpfs, overlayfs, f2fs, bcachefs, zfs, ramfs, jfs, reiserfs.
    const LOCAL: [u64; 11] = [
        0xEF53,
        0x5846_5342,
        0x9123_683E,
        0x0102_1994,
        0x794C_7630,
        0xF2F5_2010,
        0xCA45_1A4E,
        0x2FC1_2FC1,
        0x8584_58F6,
        0x3153_464A,
        0x5265_4973,
    ];
    LOCAL.contains(&(magic & 0xFFFF_FFFF))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FSTAB: &[u8] = b"# comment\n/dev/sda1 / ext4 defaults 0 1\nnas:/x /mnt/nas nfs noauto 0 0\n/dev/sdb1 /mnt/my\\040disk ext4 defaults 0 2\nUUID=1 none swap sw 0 0\n";

    #[test]
    fn a_disk_that_fstab_names_and_nobody_mounted_is_noticed() {
        let mounted = b"/dev/sda1 / ext4 rw 0 0\n";
        let found = |path: &str, mounted: &[u8]| unmounted(Path::new(path), FSTAB, mounted);
        assert_eq!(found("/mnt/nas/app.znippy", mounted), Some("/mnt/nas".into()));
        assert_eq!(found("/mnt/my disk/a/app.znippy", mounted), Some("/mnt/my disk".into()));
        assert_eq!(found("/mnt/nas2/app.znippy", mounted), None);
        assert_eq!(found("/home/app.znippy", mounted), None);
        assert_eq!(
            found("/mnt/nas/app.znippy", b"x / ext4 rw 0 0\nnas:/x /mnt/nas nfs4 rw 0 0\n"),
            None
        );
    }
}
