//! Who may write to a file: its mode, and its access control list where it has one.

use std::path::Path;

use rustix::io::Errno;

/// The attribute that holds a POSIX access control list (acl(5)), and the version of its form.
const ACL: &str = "system.posix_acl_access";
const ACL_VERSION: u32 = 2;
const WRITE: u16 = 2;

/// Returns whether anybody but `user` may write to the file. What cannot be read or understood counts as yes.
pub(super) fn others_may_write(path: &Path, mode: u32, user: u32) -> bool {
    let mut list = vec![0; 4096];
    match rustix::fs::getxattr(path, ACL, &mut list[..]) {
        Ok(len) => list_lets_others_write(&list[..len], user).unwrap_or(true),
        // There is none, or the file system has no such lists.
        Err(Errno::NODATA | Errno::OPNOTSUPP) => mode & 0o022 != 0,
        Err(_) => true,
    }
}

/// Reads the list as the kernel keeps it: a version, then entries of tag, permissions and id, all little-endian. `None` where it
/// is something else.
fn list_lets_others_write(list: &[u8], user: u32) -> Option<bool> {
    const USER_OBJ: u16 = 0x01;
    const USER: u16 = 0x02;
    const GROUP_OBJ: u16 = 0x04;
    const GROUP: u16 = 0x08;
    const MASK: u16 = 0x10;
    const OTHER: u16 = 0x20;
    let (version, entries) = list.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != ACL_VERSION || !entries.len().is_multiple_of(8) {
        return None;
    }
    let entry = |entry: &[u8]| {
        let number = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        (number(0), number(2), id)
    };
    let entries: Vec<_> = entries.chunks_exact(8).map(entry).collect();
    let mask = entries
        .iter()
        .find(|(tag, ..)| *tag == MASK)
        .map_or(u16::MAX, |(_, permissions, _)| *permissions);
    let lets = |(tag, permissions, id): &(u16, u16, u32)| match *tag {
        USER_OBJ | MASK => false,
        USER => *id != user && permissions & mask & WRITE != 0,
        GROUP_OBJ | GROUP => permissions & mask & WRITE != 0,
        OTHER => permissions & WRITE != 0,
        _ => true,
    };
    Some(entries.iter().any(lets))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = ACL_VERSION.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&permissions.to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        bytes
    }

    /// R23: group bits of the mode hold the mask then, and say nothing about who may write.
    #[test]
    fn access_control_lists_are_read() {
        let none = u32::MAX;
        let judge = |extra: &[(u16, u16, u32)], mask: u16| {
            let mut entries = vec![(1, 6, none), (4, 4, none), (16, mask, none), (32, 4, none)];
            entries.extend_from_slice(extra);
            list_lets_others_write(&list(&entries), 1000)
        };
        assert_eq!(judge(&[], 6), Some(false));
        assert_eq!(judge(&[(2, 4, 1001)], 6), Some(false), "a reader");
        assert_eq!(judge(&[(2, 6, 1001)], 6), Some(true), "a writer");
        assert_eq!(judge(&[(2, 6, 1001)], 4), Some(false), "a writer whom the mask stops");
        assert_eq!(judge(&[(2, 6, 1000)], 6), Some(false), "the user");
        assert_eq!(judge(&[(8, 6, 50)], 6), Some(true), "a group");
        assert_eq!(judge(&[(64, 0, 0)], 6), Some(true), "something unheard of");
        assert_eq!(list_lets_others_write(&[1, 0, 0, 0], 1000), None);
        assert_eq!(list_lets_others_write(&[2, 0, 0, 0, 1], 1000), None);
        assert_eq!(list_lets_others_write(b"", 1000), None);
    }
}
