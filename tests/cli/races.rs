//! Several writers at once.

use std::{fs::OpenOptions, thread, time::Duration};

use znippy::media::{FileMedium, LockByte, lock_with_timeout};

use crate::{
    common::fingerprint,
    fixture::{assert_one_error, fixture},
};

#[test]
fn of_many_swaps_exactly_one_wins() {
    let s = fixture("sha1");
    let codes: Vec<i32> = thread::scope(|scope| {
        let swap = || s.sh("", "znippy refs cas app refs/heads/lock '' $main").code;
        let threads: Vec<_> = (0..12).map(|_| scope.spawn(swap)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(codes.iter().filter(|&&code| code == 0).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|&&code| code == 1).count(), 11, "{codes:?}");
}

#[test]
fn no_update_is_lost() {
    let s = fixture("sha1");
    thread::scope(|scope| {
        for n in 0..6 {
            let s = &s;
            scope.spawn(move || {
                for m in 0..4 {
                    // The second one has no old value, and is overtaken by others between its look and its commit.
                    s.ok("", &format!("znippy refs cas app refs/heads/w{n}/{m} '' $main"));
                    s.ok(
                        "",
                        "printf \"update refs/heads/hot $main\\n\" | znippy refs update --stdin app",
                    );
                    s.ok(
                        "",
                        "printf \"update refs/heads/hot $side\\n\" | znippy refs update --stdin app",
                    );
                }
            });
        }
    });
    assert_eq!(s.ok("", "znippy refs list app 'w*/*'").stdout.lines().count(), 24);
    assert_eq!(
        s.ok("", "znippy refs get app refs/heads/hot").stdout,
        s.ok("", "echo $side").stdout
    );
}

#[test]
fn r27_a_writer_waits_for_the_lock_and_a_reader_does_not() {
    let s = fixture("sha1");
    let path = s.path("app.znippy");
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let file = FileMedium::new(file);
    let guard = lock_with_timeout(&file, LockByte::Writer, Duration::ZERO, |_, _| {}).unwrap();
    let before = fingerprint(&path);
    for line in ["refs head app side", "refs cas app refs/heads/new '' $main"] {
        let ran = s.fails("", &format!("znippy -q {line} --wait 0"));
        assert_eq!(ran.code, 4, "{line}: {}", ran.stderr);
        assert_one_error(&ran.stderr, "app.znippy");
    }
    let ran = s.fails(
        "",
        "echo create refs/heads/new $main | znippy refs update --stdin --wait 0 app",
    );
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    for line in ["info", "refs list", "refs head"] {
        s.ok("", &format!("znippy {line} app"));
    }
    assert!(before == fingerprint(&path), "somebody wrote without the lock");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| s.ok("", "znippy refs cas app refs/heads/new '' $main"));
        thread::sleep(Duration::from_millis(1500));
        drop(guard);
        let ran = waiting.join().unwrap();
        assert!(
            ran.stderr.starts_with("note: "),
            "it waited without a word: {}",
            ran.stderr
        );
    });
    assert_eq!(
        s.ok("", "znippy refs get app refs/heads/new").stdout,
        s.ok("", "echo $main").stdout
    );
}
