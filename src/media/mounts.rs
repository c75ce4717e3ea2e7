//! What is mounted where.

use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use bstr::ByteSlice;

/// A line of `/proc/self/mountinfo`, as far as it is of use (proc_pid_mountinfo(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Major and minor number of the device.
    pub device: (u32, u32),
    /// Where it is mounted.
    pub point: OsString,
    /// The type of the file system, such as `nfs4` or `fuse.sshfs`.
    pub kind: String,
    /// Options of the mount and of the file system, joined.
    pub options: String,
}

/// Returns whether something is mounted at `path`, which has no symbolic links. Where that cannot be told, nothing is.
pub fn is_mount_point(path: &Path) -> bool {
    all().iter().any(|mount| Path::new(&mount.point) == path)
}

/// Returns the mount point above `path`, which is absolute, that fstab(5) names and that nothing is mounted on: what is looked
/// for may be on that disk.
pub fn unmounted_ancestor(path: &Path) -> Option<PathBuf> {
    let table = fs::read("/etc/fstab").unwrap_or_default();
    let mounted: Vec<PathBuf> = all().into_iter().map(|mount| mount.point.into()).collect();
    // Where the system does not tell what is mounted, everything may be.
    (!mounted.is_empty())
        .then(|| unmounted(path, &table, &mounted))
        .flatten()
}

fn unmounted(path: &Path, table: &[u8], mounted: &[PathBuf]) -> Option<PathBuf> {
    let lines = table.lines().filter(|line| !line.trim_start().starts_with(b"#"));
    lines
        .filter_map(|line| line.fields().nth(1))
        .map(|field| PathBuf::from(OsString::from_vec(unescape(field))))
        .filter(|point| point.is_absolute() && point.parent().is_some() && path.starts_with(point))
        .find(|point| !mounted.contains(point))
}

/// Returns everything that is mounted; nothing where the system does not tell.
pub fn all() -> Vec<Mount> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    table.split(|b| *b == b'\n').filter_map(parse).collect()
}

/// `36 35 98:0 /mnt1 /mnt/parent rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let text = |field: Option<&&[u8]>| Some(String::from_utf8_lossy(field?).into_owned());
    let device = text(fields.get(2))?;
    let (major, minor) = device.split_once(':')?;
    let separator = fields.iter().position(|field| *field == b"-")?;
    let (options, more) = (text(fields.get(5))?, text(fields.get(separator + 3))?);
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        point: OsString::from_vec(unescape(fields.get(4)?)),
        kind: text(fields.get(separator + 1))?,
        options: format!("{options},{more}"),
    })
}

/// Space, tab, line feed and backslash stand there as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail
            .first_chunk::<3>()
            .filter(|digits| *first == b'\\' && digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        match octal {
            Some(digits) => {
                let value = digits
                    .iter()
                    .fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0'));
                bytes.push(value as u8);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r14_a_disk_that_fstab_names_and_nobody_mounted_is_noticed() {
        let table = b"# comment\n/dev/sda1 / ext4 defaults 0 1\nnas:/x /mnt/nas nfs noauto 0 0\n\
            /dev/sdb1 /mnt/my\\040disk ext4 defaults 0 2\nUUID=1 none swap sw 0 0\n";
        let found = |path: &str, mounted: &[&str]| {
            let mounted: Vec<PathBuf> = mounted.iter().map(PathBuf::from).collect();
            unmounted(Path::new(path), table, &mounted)
        };
        assert_eq!(found("/mnt/nas/app.znippy", &["/"]), Some("/mnt/nas".into()));
        assert_eq!(found("/mnt/my disk/a/app.znippy", &["/"]), Some("/mnt/my disk".into()));
        assert_eq!(found("/mnt/nas2/app.znippy", &["/"]), None);
        assert_eq!(found("/home/app.znippy", &["/"]), None);
        assert_eq!(found("/mnt/nas/app.znippy", &["/", "/mnt/nas"]), None);
    }

    #[test]
    fn lines_are_parsed() {
        let line =
            br"36 35 98:1 /mnt1 /mnt/a\040b\134 rw,noatime master:1 shared:2 - fuse.sshfs me@host:/x rw,user_id=0";
        let mount = parse(line).unwrap();
        assert_eq!(mount.device, (98, 1));
        assert_eq!(mount.point.as_encoded_bytes(), b"/mnt/a b\\");
        assert_eq!(mount.kind, "fuse.sshfs");
        assert_eq!(mount.options, "rw,noatime,rw,user_id=0");
        for cut in 0..line.len() - 14 {
            assert_ne!(parse(&line[..cut]), Some(mount.clone()), "cut at {cut}");
        }
        assert!(is_mount_point(Path::new("/proc")));
        assert!(!is_mount_point(Path::new("/proc/self")));
    }
}
