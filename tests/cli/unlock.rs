//! Lock files: who uses them, and `znippy unlock`.

use std::fs;

use crate::fixture::{assert_one_error, fixture};

#[test]
fn r25_lock_files_are_asked_for_and_left_by_nobody() {
    let s = fixture("sha1");
    let lock = s.path(".app.znippy.lock");
    s.ok(
        "work",
        "commit three && git -c znippy.lock=file push -q \"znippy::$A/app\" main",
    );
    s.ok(
        "",
        "znippy refs cas --lock=file app refs/heads/new '' $main && znippy gc --lock=file app",
    );
    s.ok(
        "work",
        "git config remote.nas.url \"znippy::$A/app\" && git config remote.nas.znippyLock local",
    );
    s.ok("work", "commit four && git push -q nas main");
    assert!(!lock.exists() && !s.path("..app.znippy.gc.lock").exists());
    for bad in [
        "git -c znippy.lock=maybe push nas main:x",
        "git -c znippy.lockTimeout=soon push nas main:x",
    ] {
        let ran = s.fails("work", &format!("git config --unset remote.nas.znippyLock; {bad}"));
        assert!(ran.stderr.contains("znippy.lock"), "{}", ran.stderr);
    }
}

#[test]
fn r25_unlock_is_for_what_nobody_else_removes() {
    let s = fixture("sha1");
    let lock = s.path(".app.znippy.lock");
    assert_eq!(s.fails("", "znippy unlock app").code, 1);
    // Somebody on another machine.
    fs::write(
        &lock,
        "znippy-lock 1\nuser 7\nhost elsewhere\nboot b\npids p\npid 1\nsince 1\n",
    )
    .unwrap();
    let ran = s.fails(
        "work",
        "commit three && git -c znippy.lockTimeout=0 push \"znippy::$A/app\" main",
    );
    assert!(ran.stderr.contains("elsewhere"), "{}", ran.stderr);
    let ran = s.fails("", "znippy refs cas --wait=0 app refs/heads/new '' $main");
    assert_one_error(&ran.stderr, "process 1 of user 7 on elsewhere");
    assert_eq!(ran.code, 4);
    let ran = s.ok("", "znippy unlock app");
    assert!(
        ran.stdout.contains("process 1 of user 7 on elsewhere held the lock"),
        "{}",
        ran.stdout
    );
    assert!(!lock.exists());
    s.ok("work", "git push -q \"znippy::$A/app\" main");
    // Somebody who is alive, and then dead, on this one.
    let line = "host=$(uname -n); boot=$(cat /proc/sys/kernel/random/boot_id); pids=$(readlink /proc/self/ns/pid)
                sleep 60 >/dev/null 2>&1 & echo $! >pid
                printf 'znippy-lock 1\\nuser 0\\nhost %s\\nboot %s\\npids %s\\npid %s\\nsince 1\\n' $host $boot $pids $! >.app.znippy.lock";
    s.ok("", line);
    let ran = s.fails("", "znippy unlock app");
    assert_one_error(&ran.stderr, "--force");
    assert_eq!(ran.code, 4);
    assert!(lock.exists());
    s.ok(
        "",
        "kill $(cat pid); while kill -0 $(cat pid) 2>/dev/null; do sleep 0.01; done",
    );
    s.ok("", "znippy refs cas --lock=file --wait=0 app refs/heads/new '' $main");
    assert!(!lock.exists(), "the lock of a process that is gone is broken");
}
