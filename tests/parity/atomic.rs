//! `--atomic`: all references or none.

use crate::common::{Side, parity};

#[test]
fn all_go_in() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git branch a
         work$ git tag -m t t
         work$ git push --porcelain --atomic $URL main a t
         work$ commit two
         work$ git push --porcelain --atomic $URL main :a HEAD:refs/heads/c",
    );
}

#[test]
fn one_stale_and_nothing_changes() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main main:a main:b
         $ git clone -q $URL other
         other$ commit from-other
         other$ git push -q origin main
         work$ commit from-work
         work!= git push --porcelain --atomic $URL main HEAD:refs/heads/a HEAD:refs/heads/new
         work!=? git push --atomic $URL main HEAD:refs/heads/a :b",
    );
}

#[test]
fn one_stale_lease_and_nothing_changes() {
    parity(
        "$ git init -q work
         work$ commit one two
         work$ git push -q $URL main main:a
         $ git clone -q $URL other
         other$ commit from-other
         other$ git push -q origin main
         work$ git fetch -q $URL +refs/heads/*:refs/remotes/x/*
         work$ commit from-work
         work!= git push --porcelain --atomic --force-with-lease=main:HEAD~1 --force-with-lease=a:HEAD~1 $URL main HEAD:refs/heads/a",
    );
}

#[test]
fn a_name_conflict_rejects_all() {
    // Judged by the remote alone: git's client cannot see it.
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main
         work$ commit two
         work!= git push --porcelain --atomic $URL main HEAD:refs/heads/main/below HEAD:refs/heads/new",
    );
}

#[test]
fn every_rejected_reference_is_reported() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main
         work$ commit two",
    );
    let refs = "main HEAD:refs/heads/main/below HEAD:refs/heads/new";
    let ran = side
        .sandbox
        .fails("work", &format!("git push --porcelain --atomic $URL {refs}"));
    for name in ["refs/heads/main", "refs/heads/main/below", "refs/heads/new"] {
        let reported = ran
            .stdout
            .lines()
            .any(|line| line.starts_with('!') && line.contains(&format!(":{name}\t")));
        assert!(reported, "{name} is not reported:\n{}", ran.stdout);
    }
}
