//! `kill -9` and errors at the Nth system call of each kind, for push, first push, catch-up and clone.

use std::{collections::BTreeMap, fs};

use crate::{
    common::Sandbox,
    inject::{Blow, arm, can_inject, count, places, strike},
};

/// The calls that touch the archive, or what the helper puts beside it.
const CALLS: [&str; 11] = [
    "openat",
    "statx",
    "pread64",
    "pwrite64",
    "pwritev",
    "fdatasync",
    "fsync",
    "ftruncate",
    "fcntl",
    "linkat",
    "close",
];

/// An archive `app.znippy` that has the branch `one`, and a repository `work` whose branch main has another commit. Its copy
/// is `app.base`.
fn sandbox() -> Sandbox {
    let s = Sandbox::new();
    s.ok("", "git init -q work");
    s.ok(
        "work",
        "commit one && git branch one && git push -q \"znippy::$A/app\" one && commit two",
    );
    // A torn tail, so that it is cut off too.
    s.ok("", "cp app.znippy app.base && head -c 1000 work/.git/index >> app.base");
    arm(&s);
    s
}

/// What a push is allowed to have done, and what follows it.
fn check_push(
    s: &Sandbox,
    context: &str,
    ran: &crate::common::Ran,
    outcomes: &mut BTreeMap<String, [u64; 2]>,
    key: String,
) {
    assert!(!ran.stderr.contains("panicked"), "{context}: {}", ran.stderr);
    let succeeded = ran.code == 0;
    outcomes.entry(key).or_default()[usize::from(!succeeded)] += 1;
    let exists = s.path("app.znippy").exists();
    if exists {
        let refs = s.ok("", "znippy refs list app").stdout;
        let main = s.ok("work", "git rev-parse main").stdout;
        let has_main = refs.contains(&format!("{}\trefs/heads/main", main.trim()));
        assert!(
            !succeeded || has_main,
            "{context}: told that it is done, but the archive has\n{refs}"
        );
    } else {
        assert!(!succeeded, "{context}: told that it is done, but there is no archive");
    }
    s.ok("work", "git push -q \"znippy::$A/app\" main one");
    let refs = s.ok("", "git ls-remote -q \"znippy::$A/app\"").stdout;
    assert!(
        refs.contains("refs/heads/main") && refs.contains("refs/heads/one"),
        "{context}: {refs}"
    );
    let beside: Vec<String> = fs::read_dir(s.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| {
            !matches!(
                name.as_str(),
                ".bin" | ".home" | ".tmp" | "work" | "app.znippy" | "app.base"
            )
        })
        .collect();
    assert!(beside.is_empty(), "{context}: left behind {beside:?}");
}

fn print(operation: &str, outcomes: &BTreeMap<String, [u64; 2]>) {
    for (key, [succeeded, failed]) in outcomes {
        println!("{operation}: {key}: {succeeded} succeeded, {failed} failed");
    }
}

/// Strikes at the calls of a push, and checks what is left.
fn push(operation: &str, prepare: &str, blows: &[Blow]) {
    let s = sandbox();
    let line = "git -C work push -q \"znippy::$A/app\" main one";
    let mut outcomes = BTreeMap::new();
    let mut fell_at_all = 0;
    for call in CALLS {
        s.ok("", prepare);
        for nth in places(count(&s, call, line)) {
            for blow in blows {
                s.ok("", prepare);
                let context = format!("{operation}: {blow:?} at {call} {nth}");
                let (ran, fell) = strike(&s, call, nth, *blow, line);
                fell_at_all += u32::from(fell);
                check_push(&s, &context, &ran, &mut outcomes, format!("{call} {blow:?}"));
            }
        }
    }
    s.ok(
        "",
        "git clone -q \"znippy::$A/app\" .tmp/clone && git -C .tmp/clone fsck --full",
    );
    print(operation, &outcomes);
    assert!(fell_at_all > 20, "only {fell_at_all} blows fell");
}

#[test]
fn push_survives_kill_9_at_every_kind_of_call() {
    if can_inject("push_survives_kill_9_at_every_kind_of_call") {
        push("push", "cp app.base app.znippy", &[Blow::Kill]);
    }
}

#[test]
fn first_push_survives_kill_9_at_every_kind_of_call() {
    if can_inject("first_push_survives_kill_9_at_every_kind_of_call") {
        push("first push", "rm -f app.znippy", &[Blow::Kill]);
    }
}

/// Errors of the disk at each call that a commit makes. R7: after a sync that failed another process goes on.
#[test]
fn push_survives_errors_at_every_kind_of_call() {
    if can_inject("push_survives_errors_at_every_kind_of_call") {
        let s = sandbox();
        let line = "git -C work push -q \"znippy::$A/app\" main one";
        let mut outcomes = BTreeMap::new();
        for (prepare, operation) in [("cp app.base app.znippy", "push"), ("rm -f app.znippy", "first push")] {
            for call in [
                "pwrite64",
                "pwritev",
                "fdatasync",
                "fsync",
                "ftruncate",
                "fcntl",
                "linkat",
            ] {
                s.ok("", prepare);
                for nth in places(count(&s, call, line)) {
                    for error in ["ENOSPC", "EIO", "EINTR"] {
                        // A lock that is interrupted or refused for ever is another matter.
                        let blows = [Blow::Once(error), Blow::From(error)];
                        for blow in blows.into_iter().take(if error == "EINTR" { 1 } else { 2 }) {
                            s.ok("", prepare);
                            let context = format!("{operation}: {blow:?} at {call} {nth}");
                            let (ran, _) = strike(&s, call, nth, blow, line);
                            // The message names what could not be done with which file.
                            let here = s.root().display().to_string();
                            let told = ran.code == 0 || ran.stderr.contains(&format!("{here}/"));
                            let told = told || ran.stderr.contains("cannot sync the directory");
                            assert!(told, "{context}: {}", ran.stderr);
                            if error == "EINTR" && call != "fcntl" {
                                assert_eq!(ran.code, 0, "{context}: {}", ran.stderr);
                            }
                            check_push(
                                &s,
                                &context,
                                &ran,
                                &mut outcomes,
                                format!("{operation} {call} {blow:?}"),
                            );
                        }
                    }
                }
            }
        }
        print("errors", &outcomes);
    }
}

/// Catch-up is interrupted anywhere: the next one finishes.
#[test]
fn index_survives_kill_9() {
    if !can_inject("index_survives_kill_9") {
        return;
    }
    let s = sandbox();
    // Pushed without being looked at, so that there is something to catch up with.
    s.ok(
        "work",
        "git -c znippy.resolve=defer -c znippy.autoIndex=false push -q \"znippy::$A/app\" main",
    );
    s.ok("", "znippy index app 2>/dev/null; cp app.znippy app.base");
    let line = "znippy index --rebuild app";
    for call in ["pread64", "pwrite64", "pwritev", "fdatasync", "fcntl"] {
        s.ok("", "cp app.base app.znippy");
        for nth in places(count(&s, call, line)) {
            s.ok("", "cp app.base app.znippy");
            strike(&s, call, nth, Blow::Kill, line);
            let context = format!("index: kill at {call} {nth}");
            let before = s.ok("", "znippy refs list app.base").stdout;
            assert_eq!(s.ok("", "znippy refs list app").stdout, before, "{context}");
            s.ok("", "znippy index app");
            let info = s.ok("", "znippy info --json app").stdout;
            assert!(
                info.contains("\"unproven_packs\": 0") || info.contains("\"unproven_packs\":0"),
                "{context}: {info}"
            );
        }
    }
}

/// A clone that dies leaves the archive as it was, and what it wrote does not stand in the way of the next.
#[test]
fn clone_survives_kill_9() {
    if !can_inject("clone_survives_kill_9") {
        return;
    }
    let s = sandbox();
    s.ok("", "cp app.base app.znippy");
    let before = fs::read(s.path("app.znippy")).unwrap();
    let line = "git clone -q \"znippy::$A/app\" .tmp/clone";
    for call in [
        "openat", "pread64", "write", "pwrite64", "fsync", "rename", "linkat", "unlink",
    ] {
        s.ok("", "rm -rf .tmp/clone");
        for nth in places(count(&s, call, line)) {
            s.ok("", "rm -rf .tmp/clone");
            strike(&s, call, nth, Blow::Kill, line);
            let context = format!("clone: kill at {call} {nth}");
            assert!(
                fs::read(s.path("app.znippy")).unwrap() == before,
                "{context}: the archive changed"
            );
            s.ok(
                "",
                "rm -rf .tmp/clone && git clone -q \"znippy::$A/app\" .tmp/clone && git -C .tmp/clone fsck --full",
            );
            // Into a repository that exists, whatever an earlier fetch left in it.
            s.ok("", "rm -rf .tmp/clone && git init -q .tmp/clone");
            strike(
                &s,
                call,
                nth,
                Blow::Kill,
                "git -C .tmp/clone fetch -q \"znippy::$A/app\" one:refs/heads/got",
            );
            s.ok(
                "",
                "git -C .tmp/clone fetch -q \"znippy::$A/app\" one:refs/heads/got && git -C .tmp/clone fsck --full",
            );
        }
    }
}

/// A gc that dies leaves the old generation or the new one, and nothing that is in the way of the next.
#[test]
fn gc_survives_kill_9() {
    if !can_inject("gc_survives_kill_9") {
        return;
    }
    let s = sandbox();
    s.ok(
        "work",
        "git push -q \"znippy::$A/app\" main:gone && git push -q \"znippy::$A/app\" :gone",
    );
    s.ok("", "cp app.znippy app.base");
    let before = s.ok("", "znippy refs list app.base").stdout;
    let line = "znippy gc app";
    for call in [
        "openat",
        "pread64",
        "pwrite64",
        "pwritev",
        "fdatasync",
        "fsync",
        "fcntl",
        "rename",
        "unlink",
        "close",
    ] {
        s.ok("", "cp app.base app.znippy");
        for nth in places(count(&s, call, line)) {
            s.ok("", "cp app.base app.znippy");
            strike(&s, call, nth, Blow::Kill, line);
            let context = format!("gc: kill at {call} {nth}");
            assert_eq!(s.ok("", "znippy refs list app").stdout, before, "{context}");
            s.ok("work", "git push -q \"znippy::$A/app\" main");
            s.ok("", "znippy gc app && test ! -e .app.znippy.gc");
        }
    }
    s.ok(
        "",
        "git clone -q \"znippy::$A/app\" .tmp/clone && git -C .tmp/clone fsck --full",
    );
}
