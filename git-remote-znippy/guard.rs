//! Reasons not to create an archive where there is none.

use std::path::{Path, PathBuf};

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
