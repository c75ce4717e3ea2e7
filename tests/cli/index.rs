//! `znippy index`: catching up with what was stored without proof, and what damage does.

use std::fs;

use serde_json::Value;

use crate::fixture::{fixture, size};

fn unproven(sandbox: &crate::common::Sandbox) -> u64 {
    let json: Value = serde_json::from_str(&sandbox.ok("", "znippy info --json app").stdout).unwrap();
    json["unproven_packs"].as_u64().unwrap()
}

#[test]
fn what_was_deferred_is_caught_up_with_once() {
    for format in ["sha1", "sha256"] {
        let s = fixture(format);
        s.ok("work", "commit three");
        let defer = "git -c znippy.resolve=defer -c znippy.autoIndex=false push -q \"znippy::$A/app\" main";
        s.ok("work", defer);
        assert_eq!(unproven(&s), 1);
        assert_eq!(s.fails("", "znippy index --check app").code, 1);
        // Not proven is not absent: a clone hashes what it gets, and has it.
        s.ok("", "git clone -q \"znippy::$A/app\" early && test -f early/three.txt");
        let told = s.ok("", "znippy index --json app").stdout;
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&told["proven_packs"], &told["unproven_packs"]), (&1.into(), &0.into()));
        assert_eq!(unproven(&s), 0);
        let before = size(&s.path("app.znippy"));
        s.ok(
            "",
            "znippy index app && znippy index --check app && znippy index --rebuild app",
        );
        assert_eq!(size(&s.path("app.znippy")), before, "nothing to say, nothing written");
        s.ok(
            "",
            "git clone -q \"znippy::$A/app\" late && git -C late fsck --strict --full",
        );
    }
}

/// A push that has no terminal proves what it stored before it ends.
#[test]
fn r20_a_push_without_a_terminal_catches_up_itself() {
    let s = fixture("sha1");
    s.ok("work", "commit three");
    s.ok("work", "git -c znippy.resolve=defer push -q \"znippy::$A/app\" main");
    assert_eq!(unproven(&s), 0);
}

/// R19: damage is named, noted once, told by every later command, never served, and healed by the next push.
#[test]
fn r19_damage_is_named_and_noted_once() {
    let s = fixture("sha1");
    let path = s.path("app.znippy");
    let mut bytes = fs::read(&path).unwrap();
    let pack = bytes.windows(8).position(|window| window == b"PACK\0\0\0\x02").unwrap();
    // Inside the first entry's compressed data.
    bytes[pack + 16] ^= 0x20;
    fs::write(&path, &bytes).unwrap();
    let ran = s.fails("", "znippy index --rebuild app");
    assert_eq!(ran.code, 5);
    assert!(ran.stderr.contains("is damaged"), "{}", ran.stderr);
    let noted = size(&path);
    assert!(noted > bytes.len() as u64);
    assert_eq!(s.fails("", "znippy index --rebuild app").code, 5);
    assert_eq!(size(&path), noted, "noted once");
    let json: Value = serde_json::from_str(&s.ok("", "znippy info --json app").stdout).unwrap();
    assert_ne!(json["damaged_objects"], 0);
    s.fails("", "git clone -q --mirror \"znippy::$A/app\" clone");
    s.ok("work", "commit three");
    let pushed = s.ok("work", "git push \"znippy::$A/app\" main");
    assert!(
        pushed.stderr.contains("damaged"),
        "the next push tells: {}",
        pushed.stderr
    );
    s.ok("", "git clone -q --mirror \"znippy::$A/app\" clone");
}

/// R20: there is one maintainer of an archive, which a lock byte of its own tells.
#[test]
fn r20_a_second_maintainer_passes() {
    use znippy::media::{Disk, LocalDisk, LockByte};
    let s = fixture("sha1");
    s.ok("work", "commit three");
    let defer = "git -c znippy.resolve=defer -c znippy.autoIndex=false push -q \"znippy::$A/app\" main";
    s.ok("work", defer);
    let held = LocalDisk.open(&s.path("app.znippy"), true).unwrap();
    assert!(held.try_lock(LockByte::Maintenance).unwrap());
    let ran = s.ok("", "znippy index app");
    assert!(ran.stderr.contains("another run is at work"), "{}", ran.stderr);
    assert_eq!(unproven(&s), 1);
    // Pushes go on beside it.
    s.ok(
        "work",
        "commit four && git -c znippy.autoIndex=false push -q \"znippy::$A/app\" main",
    );
    drop(held);
    s.ok("", "znippy index app");
    assert_eq!(unproven(&s), 0);
}

/// R20: what is detached has nothing of the terminal open, so that no caller hangs and no disk stays busy: standard streams are
/// the null device, the directory is the root, the session is its own.
#[test]
fn r20_detached_work_holds_nothing() {
    let s = fixture("sha1");
    if s.sh("", "command -v strace").code != 0 {
        crate::common::not_run("r20_detached_work_holds_nothing", "strace is missing");
        return;
    }
    s.ok("work", "commit three");
    let defer = "git -c znippy.resolve=defer -c znippy.autoIndex=false push -q \"znippy::$A/app\" main";
    s.ok("work", defer);
    // Every question about a descriptor is answered as a terminal would. Under strace the call ends when its last child has.
    let calls = "trace=execve,setsid,chdir,openat,dup2";
    s.ok(
        "",
        &format!("strace -f -qq -o trace -e {calls},ioctl -e inject=ioctl:retval=0 znippy index --detach app"),
    );
    assert_eq!(unproven(&s), 0);
    let trace = fs::read_to_string(s.path("trace")).unwrap();
    let count = |part: &str| trace.lines().filter(|line| line.contains(part)).count();
    assert_eq!(count("\"--detached\""), 1, "it is run anew, not forked: {trace}");
    assert!(count("setsid(") >= 1 && count("chdir(\"/\")") == 1, "{trace}");
    for stream in ["0)", "1)", "2)"] {
        assert!(count(&format!(", {stream}")) >= 1, "descriptor {stream}: {trace}");
    }
    assert!(count("\"/dev/null\"") >= 1, "{trace}");
}
