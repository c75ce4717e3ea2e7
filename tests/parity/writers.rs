//! Several writers at once, and writers that die.

use std::{
    os::unix::process::CommandExt,
    process::Stdio,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use crate::common::{Side, assert_no_leftovers, subject_is_file};

/// Makes `n` clients with a commit each on top of a common one that the remote has.
fn clients(side: &Side, n: usize) {
    side.play(
        "$ git init -q work
         work$ commit base
         work$ git push -q $URL main",
    );
    for i in 0..n {
        side.sandbox.ok("", &format!("git clone -q work client{i}"));
        side.sandbox.ok(&format!("client{i}"), &format!("commit from{i}"));
    }
}

/// Runs one push in each client at the same time and returns the exit codes and messages.
fn push_at_once(side: &Side, n: usize, refspec: impl Fn(usize) -> String + Sync) -> Vec<(i32, String)> {
    let barrier = Barrier::new(n);
    thread::scope(|scope| {
        let pushes: Vec<_> = (0..n)
            .map(|i| {
                let (barrier, refspec) = (&barrier, &refspec);
                scope.spawn(move || {
                    barrier.wait();
                    let line = format!("git push --porcelain $URL {}", refspec(i));
                    let ran = side.sandbox.sh(&format!("client{i}"), &line);
                    (ran.code, format!("{}{}", ran.stdout, ran.stderr))
                })
            })
            .collect();
        pushes.into_iter().map(|push| push.join().unwrap()).collect()
    })
}

#[test]
fn twenty_writers_to_twenty_references() {
    let side = Side::archive("sha1", &[]);
    clients(&side, 20);
    for (i, (code, message)) in push_at_once(&side, 20, |i| format!("HEAD:refs/heads/b{i}"))
        .iter()
        .enumerate()
    {
        assert_eq!(*code, 0, "client {i}: {message}");
    }
    side.sandbox.ok("", "git clone -q --mirror $URL copy");
    side.sandbox.ok("copy", "git fsck --full --strict --no-dangling");
    for i in 0..20 {
        let theirs = side.sandbox.ok(&format!("client{i}"), "git rev-parse HEAD").stdout;
        assert_eq!(
            theirs,
            side.sandbox
                .ok("copy", &format!("git rev-parse refs/heads/b{i}"))
                .stdout
        );
    }
    assert_no_leftovers(&side.sandbox);
}

#[test]
fn twenty_writers_to_one_reference() {
    let side = Side::archive("sha1", &[]);
    clients(&side, 20);
    let results = push_at_once(&side, 20, |_| "HEAD:main".to_owned());
    let winners: Vec<usize> = (0..20).filter(|&i| results[i].0 == 0).collect();
    assert_eq!(winners.len(), 1, "{results:?}");
    for (code, message) in results.iter().filter(|(code, _)| *code != 0) {
        assert_eq!(*code, 1, "{message}");
        assert!(message.contains("rejected]"), "a loser is not told why: {message}");
    }
    side.sandbox.ok("", "git clone -q --mirror $URL copy");
    let theirs = side
        .sandbox
        .ok(&format!("client{}", winners[0]), "git rev-parse HEAD")
        .stdout;
    assert_eq!(theirs, side.sandbox.ok("copy", "git rev-parse main").stdout);
    side.sandbox.ok("copy", "git fsck --full --strict --no-dangling");
}

#[test]
fn r14_two_first_pushes_create_one_archive() {
    if subject_is_file() {
        return;
    }
    for round in 0..8 {
        let side = Side::archive("sha1", &[]);
        for i in 0..2 {
            side.sandbox.ok("", &format!("git init -q client{i}"));
            side.sandbox
                .ok(&format!("client{i}"), &format!("commit root{round}-{i}"));
        }
        let results = push_at_once(&side, 2, |i| match round % 2 {
            0 => "HEAD:main".to_owned(),
            _ => format!("HEAD:refs/heads/b{i}"),
        });
        let won = results.iter().filter(|(code, _)| *code == 0).count();
        assert_eq!(won, 1 + round % 2, "{results:?}");
        side.sandbox.ok("", "git clone -q --mirror $URL copy");
        let refs = side.sandbox.ok("copy", "git for-each-ref | wc -l");
        assert_eq!(refs.text(), won.to_string());
        assert_no_leftovers(&side.sandbox);
    }
}

#[test]
fn r14_two_first_pushes_that_both_listed_before_either_wrote() {
    // The hook holds each push after it has listed the references, until both have.
    let side = Side::archive("sha1", &[]);
    let hook = "#!/bin/sh\\ntouch $A/listed.$$\\nwhile [ $(ls $A | grep -c listed) -lt 2 ]; do sleep 0.02; done\\n";
    for i in 0..2 {
        side.sandbox.ok("", &format!("git init -q client{i}"));
        side.sandbox.ok(&format!("client{i}"), &format!("commit root{i}"));
        let install = format!("printf '{hook}' >.git/hooks/pre-push && chmod +x .git/hooks/pre-push");
        side.sandbox.ok(&format!("client{i}"), &install);
    }
    let results = push_at_once(&side, 2, |_| "HEAD:main".to_owned());
    let winners: Vec<usize> = (0..2).filter(|&i| results[i].0 == 0).collect();
    assert_eq!(winners.len(), 1, "{results:?}");
    let loser = &results[1 - winners[0]].1;
    assert!(
        loser.contains("rejected]") && loser.contains("refs/heads/main"),
        "{loser}"
    );
    let theirs = side.sandbox.ok(&format!("client{}", winners[0]), "git rev-parse HEAD");
    let listing = side.sandbox.ok("", "git ls-remote $URL refs/heads/main").stdout;
    assert!(listing.starts_with(theirs.text()), "{listing}");
}

#[test]
fn a_lease_that_goes_stale_between_list_and_push() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one two
         work$ git push -q $URL main
         $ git clone -q $URL a
         $ git clone -q $URL b
         b$ commit from-b
         a$ git commit -q --amend -m amended
         a$ printf '#!/bin/sh\\nunset GIT_DIR\\ncd $A/b && git push -q origin main\\n' >.git/hooks/pre-push
         a$ chmod +x .git/hooks/pre-push",
    );
    let ran = side
        .sandbox
        .fails("a", "git push --porcelain --force-with-lease origin main");
    assert!(ran.stdout.contains("rejected]"), "{}{}", ran.stdout, ran.stderr);
    let theirs = side.sandbox.ok("b", "git rev-parse main");
    assert!(
        side.sandbox
            .ok("", "git ls-remote $URL refs/heads/main")
            .stdout
            .starts_with(theirs.text())
    );
}

#[test]
fn readers_see_old_or_new_while_writers_write() {
    let side = Side::archive("sha1", &[]);
    clients(&side, 1);
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut clones = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) || clones == 0 {
                side.sandbox.ok(
                    "",
                    "rm -rf copy && git clone -q --mirror $URL copy && git -C copy fsck --full",
                );
                clones += 1;
            }
        });
        for step in 0..25 {
            side.sandbox.ok(
                "client0",
                &format!("commit step{step} && git push -q $URL HEAD:main HEAD:refs/heads/b{step}"),
            );
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn a_push_killed_at_any_moment_never_blocks_or_breaks_the_next() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ history 300
         work$ git push -q $URL main",
    );
    let started = Instant::now();
    side.sandbox
        .ok("work", "history 40 main warm && git push -q $URL main:refs/heads/warm");
    let whole = started.elapsed();
    for step in 0..16_u32 {
        side.sandbox.ok("work", &format!("history 40 main k{step}"));
        let mut push = side.sandbox.command("work", "git");
        push.args(["push", "-q", &side.url, "main", &format!("main:refs/heads/k{step}")]);
        push.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = push.spawn().unwrap();
        thread::sleep(whole * step / 16);
        // The whole group: git and the helper die together, as when a machine's session ends.
        let group = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
        child.wait().unwrap();
        side.sandbox.ok("", "git ls-remote $URL");
        // What was killed in the middle of a sync ends, and is seen, when the disk is done: perhaps only after the next push has
        // read the references, which is then told to fetch first. It has all to itself when it comes again.
        let push = format!("git push -q $URL main main:refs/heads/after{step}");
        side.sandbox.ok("work", &format!("{push} || {push}"));
    }
    side.sandbox.ok("", "git clone -q --mirror $URL copy");
    side.sandbox.ok("copy", "git fsck --full --strict --no-dangling");
    let tip = side.sandbox.ok("work", "git rev-parse main").stdout;
    assert_eq!(tip, side.sandbox.ok("copy", "git rev-parse main").stdout);
}

#[test]
fn a_clone_killed_at_any_moment_leaves_the_archive_alone() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ history 2000
         work$ git push -q $URL main",
    );
    let before = crate::common::fingerprint(&side.remote);
    for step in 0..10_u64 {
        let mut clone = side.sandbox.command("", "git");
        clone
            .args(["clone", "-q", &side.url, "killed"])
            .process_group(0)
            .stderr(Stdio::null());
        let mut child = clone.spawn().unwrap();
        thread::sleep(Duration::from_millis(step * 6));
        let group = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process_group(group, rustix::process::Signal::INT).ok();
        child.wait().unwrap();
        side.sandbox.ok("", "rm -rf killed");
    }
    assert!(before == crate::common::fingerprint(&side.remote));
    side.sandbox.ok("", "git clone -q $URL whole");
}

#[test]
fn an_interrupted_fetch_leaves_no_keep_behind() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ history 50
         work$ git push -q $URL main
         $ git clone -q $URL reader",
    );
    for step in 0..8_u64 {
        side.sandbox
            .ok("work", &format!("history 200 main i{step} && git push -q $URL main"));
        let mut fetch = side.sandbox.command("reader", "git");
        fetch.args(["fetch", "-q"]).process_group(0).stderr(Stdio::null());
        let mut child = fetch.spawn().unwrap();
        thread::sleep(Duration::from_millis(5 + step * 4));
        let group = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process_group(group, rustix::process::Signal::INT).ok();
        child.wait().unwrap();
        side.sandbox.ok("reader", "git fetch -q");
    }
    side.sandbox.ok("reader", "git fsck --full --strict --no-dangling");
    let kept = side.sandbox.ok("reader", "find .git/objects -name '*.keep' | wc -l");
    assert_eq!(kept.text(), "0");
}
