//! The time and place in which written bytes are there without a sync: one boot, one mount of a local file system.

use std::{fs::File, sync::OnceLock};

use rustix::fs::{AtFlags, StatxFlags};

/// `STATX_MNT_ID_UNIQUE`: a mount id that is used once a boot (Linux 6.8, see statx(2)). Older ids are used again, so that a
/// crashed disk that is mounted again could be taken for the mount before.
const MOUNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// File systems, by the numbers that statfs(2) gives, whose files only this machine can change, by way of the page cache that
/// all its readers share.
const LOCAL: [u32; 9] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0xf2f5_2010, // f2fs
    0x2fc1_2fc1, // zfs
    0xca45_1a4e, // bcachefs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
];

/// Returns the name of this boot and of the mount that a file was opened on; `None` where that tells nothing.
pub fn of(file: &File) -> Option<String> {
    let kind = rustix::fs::fstatfs(file).ok()?.f_type as u32;
    if !LOCAL.contains(&kind) {
        return None;
    }
    let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, MOUNT_ID_UNIQUE).ok()?;
    if stat.stx_mask & MOUNT_ID_UNIQUE.bits() == 0 {
        return None;
    }
    Some(format!("{} {}", boot_id()?, stat.stx_mnt_id))
}

/// Returns the random name that the kernel gives each of its boots.
fn boot_id() -> Option<&'static str> {
    static BOOT_ID: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(text.trim().to_owned()).filter(|id| id.len() == 36)
    };
    BOOT_ID.get_or_init(read).as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_mount_share_their_residence() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(directory.path().join(name)).unwrap();
        let (a, b) = (of(&file("a")), of(&file("b")));
        assert_eq!(a, b);
        match a {
            Some(name) => assert!(name.len() > 37 && !name.contains('\n'), "{name}"),
            None => eprintln!("NOT RUN: this kernel has no unique mount ids, or the file system is not a local one"),
        }
        // What is not a disk has none.
        assert_eq!(of(&File::open("/proc/self/stat").unwrap()), None);
    }
}
