//! How far a lock on a file reaches.
//!
//! Some disks say yes to a lock and tell nobody: NFS mounted with `nolock` or `local_lock`, CIFS with `nobrl`, FUSE servers that
//! leave locks to the kernel. The lock then holds on this machine only.

use std::{fs::File, io, os::unix::fs::MetadataExt};

use super::mounts::{self, Mount};

/// Which writers a lock keeps away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockReach {
    /// All there can be: the disk belongs to this machine.
    Machine,
    /// Those on other machines too.
    Network,
    /// Those on this machine; whether others know of it is not known, for the reason given.
    Unknown(String),
}

/// What to look for in the table of mounts, by the number that statfs(2) gives the file system.
enum Rule {
    /// Locks reach all machines unless one of these options is set.
    Unless(&'static [&'static str]),
    /// It depends on which program serves the file system.
    Fuse,
    Never,
}

/// File systems that other machines may write to. What is not here belongs to this machine.
const RULES: [(u32, Rule); 12] = [
    // nfs, with what nfs(5) says of them
    (0x6969, Rule::Unless(&["nolock", "local_lock=all", "local_lock=posix"])),
    // cifs and smb3: mount.cifs(8)
    (0xff53_4d42, Rule::Unless(&["nobrl"])),
    (0xfe53_4d42, Rule::Unless(&["nobrl"])),
    (0x517b, Rule::Never),
    (0x6573_5546, Rule::Fuse),
    // 9p: what a virtual machine or WSL shares with its host
    (0x0102_1997, Rule::Never),
    // vboxsf
    (0x786f_4256, Rule::Never),
    // afs
    (0x5346_414f, Rule::Never),
    // ceph
    (0x00c3_6400, Rule::Unless(&[])),
    // lustre
    (0x0bd0_0bd0, Rule::Unless(&["localflock"])),
    // gfs2
    (0x0116_1970, Rule::Unless(&["localflocks"])),
    // ocfs2
    (0x7461_636f, Rule::Unless(&["localflocks"])),
];

/// FUSE file systems whose servers pass locks on to all machines.
const LOCKING_SERVERS: [&str; 3] = ["fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse"];

/// Returns how far a lock on `file` reaches.
pub fn of(file: &File) -> io::Result<LockReach> {
    let kind = rustix::fs::fstatfs(file)?.f_type as u32;
    let Some((_, rule)) = RULES.iter().find(|(number, _)| *number == kind) else {
        return Ok(LockReach::Machine);
    };
    let device = file.metadata()?.dev();
    let device = (rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = mounts::all();
    Ok(judge(rule, mounts.iter().find(|mount| mount.device == device)))
}

fn judge(rule: &Rule, mount: Option<&Mount>) -> LockReach {
    let Some(mount) = mount else {
        return LockReach::Unknown("the table of mounts does not name it".into());
    };
    let kind = &mount.kind;
    match rule {
        Rule::Never => LockReach::Unknown(format!("a {kind} file system keeps locks to this machine")),
        // A disk of this machine that a program knows how to read.
        Rule::Fuse if kind == "fuseblk" => LockReach::Machine,
        Rule::Fuse if LOCKING_SERVERS.contains(&kind.as_str()) => LockReach::Network,
        Rule::Fuse => LockReach::Unknown(format!("whether {kind} passes locks on cannot be told")),
        Rule::Unless(options) => {
            let set = mount.options.split(',').find(|option| options.contains(option));
            match set {
                Some(option) => LockReach::Unknown(format!("it is a {kind} file system mounted with {option}")),
                None => LockReach::Network,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R25: what statfs(2) and the table of mounts say decides.
    #[test]
    fn r25_locks_that_say_yes_and_do_nothing() {
        let reach = |number: u32, kind: &str, options: &str| {
            let (_, rule) = RULES.iter().find(|(known, _)| *known == number).unwrap();
            let mount = Mount {
                device: (0, 1),
                point: "/mnt".into(),
                kind: kind.into(),
                options: options.into(),
            };
            judge(rule, Some(&mount))
        };
        let is_unknown = |reach: LockReach| matches!(reach, LockReach::Unknown(_));
        assert_eq!(reach(0x6969, "nfs4", "rw,vers=4.2,local_lock=none"), LockReach::Network);
        assert!(is_unknown(reach(0x6969, "nfs", "rw,vers=3,nolock,local_lock=all")));
        assert!(is_unknown(reach(0x6969, "nfs", "rw,local_lock=posix")));
        assert_eq!(reach(0x6969, "nfs", "rw,local_lock=flock"), LockReach::Network);
        assert_eq!(reach(0xff53_4d42, "cifs", "rw,vers=3.1.1"), LockReach::Network);
        assert!(is_unknown(reach(0xff53_4d42, "cifs", "rw,nobrl")));
        assert!(is_unknown(reach(0x6573_5546, "fuse.sshfs", "rw")));
        assert_eq!(reach(0x6573_5546, "fuse.glusterfs", "rw"), LockReach::Network);
        assert_eq!(reach(0x6573_5546, "fuseblk", "rw"), LockReach::Machine);
        assert!(is_unknown(judge(&Rule::Unless(&[]), None)));
        assert_eq!(of(&tempfile::tempfile().unwrap()).unwrap(), LockReach::Machine);
    }
}
