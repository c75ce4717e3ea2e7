//! Whether bytes of an archive may be taken as they are.
//!
//! To drop a pack into a repository bypasses the check of every object's name that git makes for what comes over a network, and
//! what an archive says of its own packs is only as good as who wrote it. Both are for files that nobody but the user can have
//! written; for others every object is hashed again, and what is derived from packs is not used. Root is no exception: what
//! others own, others wrote.

mod access;
mod list;

use std::{os::unix::fs::MetadataExt, path::Path};

pub use list::{TrustList, Trusted};

/// Returns why the file at `path` is not trusted; `None` where only the user can have written it.
pub fn distrust(path: &Path) -> Option<&'static str> {
    let Ok(metadata) = std::fs::metadata(path) else {
        return Some("its owner cannot be read");
    };
    let user = rustix::process::geteuid().as_raw();
    // What an owner that this user namespace does not know looks like: it could be anybody.
    if metadata.uid() != user || user == overflow_uid() {
        return Some("it belongs to another user");
    }
    if access::others_may_write(path, metadata.mode(), user) {
        return Some("others may write to it");
    }
    match rustix::fs::statfs(path) {
        Ok(disk) if has_real_owners(disk.f_type as u64) => None,
        _ => Some("its file system does not vouch for the owner"),
    }
}

/// Returns the id that stands for all users who have none here (user_namespaces(7)).
fn overflow_uid() -> u32 {
    let text = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65534)
}

/// Local file systems that store who owns a file. A network disk shows what its server says, FAT, NTFS and most of FUSE what a
/// mount option says.
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
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// R23.
    #[test]
    fn r23_only_file_systems_that_store_owners_vouch_for_them() {
        for local in [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994] {
            assert!(has_real_owners(local));
        }
        // FAT, exFAT, NTFS, NTFS3, CIFS, SMB2, NFS, FUSE, 9p, AFS, Ceph.
        let foreign = [
            0x4d44,
            0x2011_BAB0,
            0x5346_544e,
            0x7366_746e,
            0xFF53_4D42,
            0xFE53_4D42,
            0x6969,
            0x6573_5546,
            0x0102_1997,
            0x5346_414F,
            0x00c3_6400,
        ];
        for magic in foreign {
            assert!(!has_real_owners(magic), "{magic:x}");
        }
    }

    /// R23.
    #[test]
    fn r23_a_file_that_others_may_write_is_not_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "x").unwrap();
        let judge = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            distrust(&path)
        };
        if judge(0o600).is_some_and(|why| why.contains("file system")) {
            eprintln!("NOT RUN: the temporary directory is on a file system without owners");
            return;
        }
        assert_eq!(judge(0o644), None);
        assert_eq!(judge(0o444), None);
        for mode in [0o664, 0o646, 0o666] {
            assert_eq!(judge(mode), Some("others may write to it"), "{mode:o}");
        }
        assert!(distrust(&directory.path().join("nothing")).is_some());
    }
}
