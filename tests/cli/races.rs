//! Several writers at once.

use std::thread;

use crate::fixture::fixture;

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
