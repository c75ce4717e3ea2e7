//! How a change is written: chosen by setting or option, and what each choice does to the disk.

use std::{fs, process::Command};

use crate::{
    common::{Sandbox, not_run},
    fixture::{assert_one_error, fixture},
};

/// The bytes of the two slots.
fn slots(s: &Sandbox) -> Vec<u8> {
    let bytes = fs::read(s.path("app.znippy")).unwrap();
    [4096, 8192]
        .into_iter()
        .flat_map(|at| bytes[at..at + 256].to_vec())
        .collect()
}

fn has_strace(test: &str) -> bool {
    let found = Command::new("strace")
        .arg("-V")
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        not_run(test, "strace is missing");
    }
    found
}

/// Runs a command line under strace and returns the names of the calls that sync or enter a ring.
fn syncs(s: &Sandbox, dir: &str, line: &str) -> Vec<String> {
    let line = format!("strace -f -qq -o \"$PWD/trace\" -e trace=fsync,fdatasync,io_uring_setup,io_uring_enter {line}");
    s.ok(dir, &line);
    let trace = fs::read_to_string(s.path(if dir.is_empty() { "trace" } else { "work/trace" })).unwrap();
    let name = |line: &str| Some(line.split_once(' ')?.1.trim().split_once('(')?.0.to_owned());
    trace.lines().filter_map(name).collect()
}

/// R3: a fast change is there for the next reader although its process was killed; no slot names it before a safe one.
#[test]
fn r3_a_fast_change_survives_its_process() {
    if !has_strace("r3_a_fast_change_survives_its_process") {
        return;
    }
    let s = fixture("sha1");
    let before = slots(&s);
    let killed = s.sh(
        "",
        "strace -f -qq -o /dev/null -e trace=exit_group -e inject=exit_group:signal=KILL \
         znippy refs cas --durability=fast app refs/heads/fast '' $side",
    );
    assert_ne!(killed.code, 0, "it was killed at its end");
    assert_eq!(
        s.ok("", "znippy refs get app refs/heads/fast").text(),
        s.ok("", "echo $side").text()
    );
    assert_eq!(slots(&s), before);
    assert!(
        syncs(
            &s,
            "",
            "znippy refs cas --durability=fast app refs/heads/fast2 '' $side"
        )
        .is_empty()
    );
    s.ok(
        "",
        "git clone -q --bare \"znippy::$A/app\" clone && git -C clone rev-parse refs/heads/fast2",
    );
    s.ok("", "znippy refs cas app refs/heads/safe '' $side");
    assert_ne!(slots(&s), before);
    for name in ["fast", "fast2", "safe"] {
        s.ok("", &format!("znippy refs get app refs/heads/{name}"));
    }
}

/// One sync for a safe change, one call that writes and syncs for one by io_uring.
#[test]
fn each_arm_syncs_as_it_says() {
    if !has_strace("each_arm_syncs_as_it_says") {
        return;
    }
    let s = fixture("sha1");
    // The first change to a new file makes its name durable too.
    s.ok("", "znippy refs cas app refs/heads/first '' $side");
    for arm in ["safe", "batch"] {
        let calls = syncs(
            &s,
            "",
            &format!("znippy refs cas --durability={arm} app refs/heads/{arm} '' $side"),
        );
        assert_eq!(calls, ["fdatasync"], "{arm}");
    }
    let calls = syncs(
        &s,
        "",
        "znippy refs cas --durability=uring app refs/heads/uring '' $side",
    );
    match calls.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["io_uring_setup", "io_uring_enter"] => {}
        ["io_uring_setup", "fdatasync"] => not_run("each_arm_syncs_as_it_says", "this kernel refuses io_uring"),
        _ => panic!("{calls:?}"),
    }
    s.ok("", "znippy refs get app refs/heads/uring");
}

/// Where the kernel has no io_uring, or forbids it, a change is written safely, and a curious user is told.
#[test]
fn a_kernel_without_io_uring_gets_safe_changes() {
    if !has_strace("a_kernel_without_io_uring_gets_safe_changes") {
        return;
    }
    let s = fixture("sha1");
    for (call, error) in [
        ("io_uring_setup", "ENOSYS"),
        ("io_uring_setup", "EPERM"),
        ("io_uring_enter", "EPERM"),
    ] {
        let name = format!("refs/heads/{call}-{error}");
        let trace = format!("strace -f -qq -o \"$PWD/trace\" -e trace={call},fdatasync -e inject={call}:error={error}");
        let ran = s.ok(
            "",
            &format!("{trace} znippy refs cas --durability=uring app {name} '' $side"),
        );
        assert!(ran.stderr.contains("io_uring is not to be had"), "{}", ran.stderr);
        assert!(fs::read_to_string(s.path("trace")).unwrap().contains("fdatasync("));
        s.ok("", &format!("znippy refs get app {name}"));
        // Through git: only with -v.
        for (option, told) in [("", false), ("-v", true)] {
            let branch = format!("{call}{error}{told}");
            let push =
                format!("git -c znippy.durability=uring push {option} \"znippy::$A/app\" HEAD:refs/heads/{branch}");
            let ran = s.ok("work", &format!("{trace} {push}"));
            assert_eq!(ran.stderr.contains("io_uring is not to be had"), told, "{}", ran.stderr);
        }
    }
}

/// The remote's own setting goes before the general one; a value that does not exist is an error that names the setting.
#[test]
fn settings_choose_the_arm() {
    if !has_strace("settings_choose_the_arm") {
        return;
    }
    let s = fixture("sha1");
    s.ok(
        "work",
        "git remote add nas \"znippy::$A/app\" && git config znippy.durability fast",
    );
    let push = |s: &Sandbox, name: &str| {
        let calls = syncs(
            s,
            "work",
            &format!("git -c core.fsync=none push -q nas HEAD:refs/heads/{name}"),
        );
        calls.iter().filter(|call| *call == "fdatasync").count()
    };
    assert_eq!(push(&s, "a"), 0);
    s.ok("work", "git config remote.nas.znippyDurability Safe");
    // What the fast push left is made durable first.
    assert_eq!(push(&s, "b"), 2);
    assert_eq!(push(&s, "c"), 1);
    s.ok("work", "git config remote.nas.znippyDurability quick");
    let ran = s.fails("work", "git push -q nas HEAD:refs/heads/d");
    assert!(
        ran.stderr
            .contains("remote.nas.znippyDurability: 'quick' is no durability"),
        "{}",
        ran.stderr
    );
    s.ok(
        "work",
        "git config --unset remote.nas.znippyDurability && git config znippy.durability quick",
    );
    let ran = s.fails("work", "git push -q nas HEAD:refs/heads/d");
    assert!(
        ran.stderr.contains("znippy.durability: 'quick' is no durability"),
        "{}",
        ran.stderr
    );
    let ran = s.fails("work", "znippy refs cas ../app refs/heads/x '' $side");
    assert_one_error(
        &ran.stderr,
        "znippy.durability: 'quick' is no durability (fast, safe, uring or batch)",
    );
    assert_eq!(ran.code, 2);
    s.ok("work", "znippy refs cas --durability=safe ../app refs/heads/x '' $side");
}

/// Whoever writes keeps to the same settings: also `index` and `receive-pack`, which have no options for it.
#[test]
fn settings_hold_for_index_and_receive_pack() {
    if !has_strace("settings_hold_for_index_and_receive_pack") {
        return;
    }
    let s = fixture("sha1");
    let defer = |s: &Sandbox, name: &str| {
        s.ok("work", &format!("commit {name}"));
        let defer = "git -c znippy.resolve=defer -c znippy.autoIndex=false push -q \"znippy::$A/app\" main";
        s.ok("work", defer);
    };
    defer(&s, "three");
    for (durability, count) in [("fast", 0), ("safe", 1)] {
        let ext = "git -c protocol.ext.allow=always push -q 'ext::znippy %s ../app.znippy'";
        let line = format!("env GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=znippy.durability GIT_CONFIG_VALUE_0={durability}");
        let of = |calls: Vec<String>| calls.iter().filter(|call| *call == "fdatasync").count();
        let count_of = |s: &Sandbox, verb: &str| of(syncs(s, "work", &format!("{line} {verb}")));
        // Where a fast commit came before, that one is confirmed too.
        assert_eq!(count_of(&s, "znippy index ../app"), count, "index, {durability}");
        let pushed = count_of(&s, &format!("{ext} HEAD:refs/heads/{durability}"));
        assert!(
            pushed == count || count == 1 && pushed == 2,
            "receive-pack, {durability}: {pushed}"
        );
        s.ok(
            "",
            "znippy refs cas app refs/heads/settle '' $side && znippy refs cas app refs/heads/settle $side $zero",
        );
        defer(&s, durability);
    }
    let setting =
        |key: &str, value: &str| format!("GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=znippy.{key} GIT_CONFIG_VALUE_0={value}");
    for (key, value, told) in [
        ("durability", "quick", "no durability"),
        ("lock", "firm", "no way to lock"),
        ("lockTimeout", "soon", "no number of seconds"),
    ] {
        for verb in ["index", "receive-pack"] {
            let ran = s.sh("", &format!("env {} znippy {verb} app </dev/null", setting(key, value)));
            assert_eq!(ran.code, 2, "{verb}, {key}: {}", ran.stderr);
            assert!(ran.stderr.contains(told), "{verb}, {key}: {}", ran.stderr);
        }
    }
    // A writer that makes no progress is waited for as long as was asked for.
    use znippy::media::{Disk, LocalDisk, LockByte};
    let held = LocalDisk.open(&s.path("app.znippy"), true).unwrap();
    assert!(held.try_lock(LockByte::Writer).unwrap());
    let ran = s.fails("", &format!("env {} znippy index app", setting("lockTimeout", "0")));
    assert_eq!(ran.code, 4, "{}", ran.stderr);
}
