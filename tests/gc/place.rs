//! R16: how the new file takes the place of the old one, and when it does not.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
};

use znippy::{
    archive::temporary_path,
    media::{Disk, LocalDisk, LockByte},
};

use crate::{
    common::{Sandbox, assert_no_leftovers, not_run},
    rewrite::gc,
};

fn fixture() -> Sandbox {
    let s = Sandbox::new();
    s.ok("", "git init -q work");
    s.ok(
        "work",
        "commit one && git push -q \"znippy::$A/app\" main && commit two && git push -q \"znippy::$A/app\" main",
    );
    s
}

#[test]
fn r16_mode_and_attributes_stay() {
    let s = fixture();
    let path = s.path("app.znippy");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let has_attributes = s.sh("", "setfattr -n user.note -v hello app.znippy").code == 0;
    s.ok("", "umask 0; znippy gc app");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    if has_attributes {
        assert!(s.ok("", "getfattr -n user.note app.znippy").stdout.contains("hello"));
    } else {
        not_run("extended attributes stay", "no setfattr, or the disk has none");
    }
}

#[test]
fn r16_a_symbolic_link_stays_one() {
    let s = fixture();
    fs::create_dir(s.path("real")).unwrap();
    fs::rename(s.path("app.znippy"), s.path("real/store.znippy")).unwrap();
    symlink("real/store.znippy", s.path("app.znippy")).unwrap();
    gc(&s, "");
    assert!(fs::symlink_metadata(s.path("app.znippy")).unwrap().is_symlink());
    let snapshot = znippy::archive::Snapshot::open(&s.path("real/store.znippy")).unwrap();
    assert_eq!(snapshot.generation(), 2);
    assert_no_leftovers(&s);
}

/// A file with two names would become two archives that go their own ways.
#[test]
fn r16_hard_links_are_refused() {
    let s = fixture();
    fs::hard_link(s.path("app.znippy"), s.path("other.znippy")).unwrap();
    let ran = s.fails("", "znippy gc app");
    assert!(ran.stderr.contains("--break-links"), "{}", ran.stderr);
    assert_eq!(gc(&s, "--break-links")["generation"], 2);
    // The other name has the old generation, for reading: it says that it was replaced.
    s.ok("", "git clone -q \"znippy::$A/other\" old && test -f old/two.txt");
    let ran = s.fails("work", "commit three && git push -q \"znippy::$A/other\" main");
    assert!(ran.stderr.contains("replaced by generation 2"), "{}", ran.stderr);
    s.ok("work", "git push -q \"znippy::$A/app\" main");
    // A copy of it is an archive of its own.
    s.ok("", "cp other.znippy copy.znippy");
    s.ok("work", "git push -q \"znippy::$A/copy\" main");
}

#[test]
fn r16_a_mounted_file_is_refused() {
    let s = fixture();
    let line = "touch there.znippy && mount --bind app.znippy there.znippy";
    let ran = s.sh("", &format!("unshare -m sh -c '{line} && znippy gc there.znippy'"));
    if ran.stderr.contains("unshare:") || ran.stderr.contains("mount:") {
        return not_run("a mounted file is refused", "no right to mount");
    }
    assert!(ran.code != 0 && ran.stderr.contains("mounted"), "{}", ran.stderr);
    // Asked for, it is the kernel that refuses the rename: nothing has changed.
    let ran = s.sh(
        "",
        &format!("unshare -m sh -c '{line} && znippy gc --break-links there.znippy'"),
    );
    assert!(ran.code != 0 && ran.stderr.contains("take its place"), "{}", ran.stderr);
    // The name below the mount: a gc through the other name takes the file away from under it, and a push there is refused.
    let push = "git -C work push -q znippy::$A/there.znippy main:late";
    let ran = s.sh(
        "",
        &format!("unshare -m sh -c '{line} && znippy gc app.znippy && ! {push}'"),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("replaced"), "{}", ran.stderr);
    s.ok("", "git clone -q \"znippy::$A/app\" found && git -C found fsck");
    assert_no_leftovers(&s);
}

#[test]
fn r16_what_a_dead_gc_left_is_swept() {
    let s = fixture();
    let left = temporary_path(&s.path("app.znippy"));
    fs::write(&left, "half of something").unwrap();
    gc(&s, "");
    assert!(!left.exists());
    // One that somebody holds is not.
    s.ok("work", "commit three && git push -q \"znippy::$A/app\" main");
    fs::write(&left, "half of something").unwrap();
    let held = LocalDisk.open(&left, true).unwrap();
    assert!(held.try_lock(LockByte::Writer).unwrap());
    let ran = s.fails("", "znippy gc app");
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(left.exists());
    drop(held);
    gc(&s, "");
    assert!(!left.exists());
}

/// A gc that is told to stop leaves nothing, and one that is killed leaves what the next one removes.
#[test]
fn r16_an_interrupted_gc_changes_nothing() {
    let s = fixture();
    let before = fs::read(s.path("app.znippy")).unwrap();
    for signal in ["KILL", "TERM"] {
        s.sh("", &format!("timeout -s {signal} 0.01 znippy gc --expire=never app"));
        let after = fs::read(s.path("app.znippy")).unwrap();
        assert!(after == before || after.len() != before.len());
        s.ok("", "git ls-remote \"znippy::$A/app\"");
    }
    gc(&s, "");
    assert_no_leftovers(&s);
}
