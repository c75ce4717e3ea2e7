//! A pusher that is stopped, as by Ctrl-Z or a frozen container, while a gc runs: nobody knows whether it ever goes on.

use std::{
    fs,
    process::{Child, Stdio},
    thread::sleep,
    time::Duration,
};

use crate::{
    common::Sandbox,
    inject::{arm, can_inject},
};

/// Where the pusher is stopped: after the `nth` call of a kind.
struct Place {
    name: &'static str,
    call: &'static str,
    nth: usize,
    has_lock: bool,
}

const PLACES: [Place; 4] = [
    Place {
        name: "before the lock",
        call: "pread64",
        nth: 1,
        has_lock: false,
    },
    Place {
        name: "with the lock",
        call: "fcntl",
        nth: 1,
        has_lock: true,
    },
    Place {
        name: "between append and slot",
        call: "fdatasync",
        nth: 1,
        has_lock: true,
    },
    Place {
        name: "after the slot",
        call: "pwrite64",
        nth: 1,
        has_lock: true,
    },
];

/// Starts a push that stops at a place. Returns it, and the number of the process that is stopped.
fn stopped_push(s: &Sandbox, place: &Place) -> (Child, String) {
    s.ok("", "rm -f .tmp/calls .tmp/strace");
    let mut push = s.command("work", "sh");
    push.args(["-c", "git push -q \"znippy::$A/app\" main"])
        .env("CALL", place.call)
        .env("BLOW", format!("signal=STOP:when={}", place.nth))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut push = push.spawn().unwrap();
    let calls = || fs::read_to_string(s.path(".tmp/calls")).unwrap_or_default();
    while !calls().contains("stopped by SIGSTOP") {
        assert!(
            push.try_wait().unwrap().is_none(),
            "{}: the push ended\n{}",
            place.name,
            calls()
        );
        sleep(Duration::from_millis(5));
    }
    let strace = s.ok("", "cat .tmp/strace").text().to_owned();
    let children = fs::read_to_string(format!("/proc/{strace}/task/{strace}/children")).unwrap();
    (push, children.trim().to_owned())
}

/// An archive with a branch and something to give back, and a commit that was not pushed.
fn sandbox() -> Sandbox {
    let s = Sandbox::new();
    s.ok("", "git init -q work");
    s.ok(
        "work",
        "commit one two && git branch one main~1 && for n in 1 2 3; do git push -q \"znippy::$A/app\" main~1:refs/heads/one main:refs/heads/gone && git push -q \"znippy::$A/app\" :gone; done && commit three",
    );
    arm(&s);
    s
}

/// The push goes on: it is acknowledged and there, or refused and says so.
fn settle(s: &Sandbox, place: &Place, push: Child) -> bool {
    let output = push.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!stderr.contains("panicked"), "{}: {stderr}", place.name);
    let refs = s.ok("", "znippy refs list app").stdout;
    let main = s.ok("work", "git rev-parse main").text().to_owned();
    let is_there = refs.contains(&format!("{main}\trefs/heads/main"));
    match output.status.success() {
        true => assert!(is_there, "{}: acknowledged, but the archive has\n{refs}", place.name),
        false => assert!(
            stderr.contains("app.znippy") || stderr.contains("died of signal 9"),
            "{}: {stderr}",
            place.name
        ),
    }
    s.ok("work", "git push -q \"znippy::$A/app\" main one main:after");
    s.ok("", "znippy verify --full app");
    s.ok(
        "",
        "rm -rf .tmp/clone && git clone -q \"znippy::$A/app\" .tmp/clone && git -C .tmp/clone fsck --full",
    );
    assert_eq!(s.ok("", "ls -A").stdout, ".bin\n.home\n.tmp\napp.znippy\nwork\n");
    output.status.success()
}

/// R16, R27: gc waits for a pusher that has the lock, says so, and gives up; it overtakes one that has not. Whatever became of
/// gc, the push that goes on later is acknowledged and there.
#[test]
fn r27_gc_while_a_pusher_is_stopped() {
    if !can_inject("r27_gc_while_a_pusher_is_stopped") {
        return;
    }
    for place in &PLACES {
        let s = sandbox();
        let (push, pid) = stopped_push(&s, place);
        let gc = s.sh("", "znippy gc --force --wait 2 app");
        if place.has_lock {
            assert_eq!(gc.code, 4, "{}: {}", place.name, gc.stderr);
            let told = gc.stderr.contains("waiting 1 s") && gc.stderr.contains("gave up after 2 s");
            assert!(
                told && gc.stderr.contains("app.znippy"),
                "{}: {}",
                place.name,
                gc.stderr
            );
            // Readers wait for nobody.
            s.ok("", "git ls-remote \"znippy::$A/app\" && znippy verify app");
        } else {
            assert_eq!(gc.code, 0, "{}: {}", place.name, gc.stderr);
        }
        s.ok("", &format!("kill -CONT {pid}"));
        assert!(settle(&s, place, push), "{}: refused", place.name);
    }
}

/// R27: a gc that still waits when the pusher goes on does its work after that.
#[test]
fn r27_gc_waits_until_a_stopped_pusher_goes_on() {
    if !can_inject("r27_gc_waits_until_a_stopped_pusher_goes_on") {
        return;
    }
    for place in PLACES.iter().filter(|place| place.has_lock) {
        let s = sandbox();
        let (push, pid) = stopped_push(&s, place);
        let mut gc = s.command("", "znippy");
        gc.args(["gc", "--force", "--wait", "60", "app"]).stderr(Stdio::piped());
        let mut gc = gc.spawn().unwrap();
        let stderr = std::io::BufReader::new(gc.stderr.take().unwrap());
        // It has said that it waits.
        let first = std::io::BufRead::lines(stderr).next().unwrap().unwrap();
        assert!(first.contains("waiting 1 s"), "{}: {first}", place.name);
        s.ok("", &format!("kill -CONT {pid}"));
        assert!(gc.wait().unwrap().success(), "{}", place.name);
        assert!(settle(&s, place, push), "{}: refused", place.name);
        assert!(
            s.ok("", "znippy info app").stdout.contains("generation"),
            "{}",
            place.name
        );
    }
}

/// R25: a pusher that is stopped and killed leaves nothing that others wait for.
#[test]
fn r25_a_stopped_pusher_that_is_killed() {
    if !can_inject("r25_a_stopped_pusher_that_is_killed") {
        return;
    }
    for place in &PLACES {
        let s = sandbox();
        let (push, pid) = stopped_push(&s, place);
        s.ok("", &format!("kill -KILL {pid}"));
        assert!(!settle(&s, place, push), "{}: acknowledged", place.name);
        s.ok("", "znippy gc --force --wait 0 app");
    }
}
