//! Fetches into a repository that has something already.

use crate::common::{Side, parity, reachable, refs_of};

const CLONED: &str = "$ git init -q work
    work$ commit one two
    work$ git push -q $URL main main~1:refs/heads/side
    $ git clone -q $URL reader
    ";

#[test]
fn what_is_new() {
    parity(&format!(
        "{CLONED}
         work$ commit three
         work$ git push -q $URL main HEAD:refs/heads/new
         reader$ git fetch
         reader$ git log --format=%s origin/main
         reader$ git pull -q
         work$ commit four five
         work$ git push -q $URL main
         reader$ git pull
         reader$ git log --format=%s"
    ));
}

#[test]
fn one_reference_into_fetch_head_and_elsewhere() {
    parity(&format!(
        "{CLONED}
         work$ commit three
         work$ git push -q $URL main HEAD:refs/heads/new
         reader$ git fetch origin new
         reader$ git rev-parse FETCH_HEAD
         reader$ git fetch origin new:local +main:refs/remotes/else/main
         reader! git fetch origin nothing
         $ git init -q blank
         blank$ git fetch $URL side
         blank$ git log --format=%s FETCH_HEAD
         blank$ git fetch $URL 'refs/heads/*:refs/remotes/x/*'"
    ));
}

#[test]
fn by_object_id() {
    parity(&format!(
        "{CLONED}
         $ git init -q blank
         blank$ git fetch $URL $(git -C ../work rev-parse main)
         blank$ git log --format=%s FETCH_HEAD"
    ));
}

#[test]
fn prune_removes_what_is_gone() {
    parity(&format!(
        "{CLONED}
         work$ git push -q $URL :side main:refs/heads/fresh
         reader$ git fetch
         reader$ git fetch -p
         reader$ git branch -r
         $ git clone -q --mirror $URL mirror.git
         work$ git push -q $URL :fresh
         mirror.git$ git fetch -p
         mirror.git$ git remote update --prune"
    ));
}

#[test]
fn merge_and_rebase_pulls() {
    parity(&format!(
        "{CLONED}
         work$ commit three
         work$ git push -q $URL main
         reader$ commit mine
         reader! git pull -q
         reader$ git pull -q --no-rebase --no-edit
         work$ commit four
         work$ git push -q -f $URL main
         reader$ git pull -q --rebase
         reader$ git push --porcelain -f origin main"
    ));
}

#[test]
fn all_remotes_and_several_at_once() {
    parity(&format!(
        "{CLONED}
         reader$ git remote add second $URL
         reader$ git fetch -q --all
         reader$ git fetch -q --multiple origin second
         reader$ git branch -r
         reader$ git remote rename second third
         reader$ git fetch -q third"
    ));
}

#[test]
fn atomic_dry_run_and_append() {
    parity(&format!(
        "{CLONED}
         work$ commit three
         work$ git push -q $URL main HEAD:refs/heads/new
         reader$ git fetch --dry-run
         reader$ git fetch --atomic
         reader$ git fetch --append origin side
         reader$ git fetch --refetch origin
         reader$ git fetch --no-write-fetch-head --force --update-head-ok origin main:main"
    ));
}

#[test]
fn every_step_of_a_history() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ history 5
         work$ git push -q $URL main
         $ git clone -q $URL reader",
    );
    for step in 0..30 {
        side.sandbox
            .ok("work", &format!("history {} main s{step}", 1 + step % 4));
        if step % 5 == 2 {
            side.sandbox
                .ok("work", &format!("git branch b{step} main~1 && git tag -m t t{step}"));
        }
        side.sandbox.ok("work", "git push -q --mirror $URL");
        side.sandbox.ok("reader", "git fetch -q --tags");
        let theirs = side.sandbox.ok("work", "git rev-parse main").stdout;
        assert_eq!(theirs, side.sandbox.ok("reader", "git rev-parse origin/main").stdout);
    }
    side.sandbox.ok("reader", "git fsck --full --strict --no-dangling");
    assert_eq!(reachable(&side.sandbox, "work"), reachable(&side.sandbox, "reader"));
}

/// In short what `bench/history` does with a real history.
#[test]
fn after_each_step_three_readers_have_what_git_brings() {
    const STEPS: usize = 8;
    let readers = [
        ("all", "clone -q --no-checkout", "fetch -q"),
        (
            "one",
            "clone -q --bare --no-tags",
            "fetch -q --no-tags origin +refs/heads/main:refs/heads/main",
        ),
        ("mirror", "clone -q --mirror", "remote update --prune"),
    ];
    let sides = [Side::bare("sha1", &[]), Side::archive("sha1", &[])];
    for side in &sides {
        side.play("$ rich work\n work$ history 40 main h");
    }
    for step in 0..STEPS {
        for side in &sides {
            let at = 4 * (STEPS - 1 - step);
            let second = if step % 3 == 0 { "" } else { "main~5:refs/heads/second" };
            let push = format!("git push -q --force $URL main~{at}:refs/heads/main {second}");
            side.sandbox.ok("work", &push);
            for (name, clone, fetch) in readers {
                match step {
                    0 => side.sandbox.ok("", &format!("git {clone} $URL {name}")),
                    _ => side.sandbox.ok(name, &format!("git {fetch}")),
                };
                side.sandbox.ok(name, "git fsck --full --strict --no-dangling");
            }
        }
        let [git, ours] = &sides;
        for (name, ..) in readers {
            let objects = "git cat-file --batch-all-objects --batch-check";
            let theirs = (refs_of(&git.sandbox, name), git.sandbox.ok(name, objects).stdout);
            let found = (refs_of(&ours.sandbox, name), ours.sandbox.ok(name, objects).stdout);
            assert_eq!(theirs.0, found.0, "references of {name} after step {step}");
            assert_eq!(theirs.1, found.1, "objects of {name} after step {step}");
        }
    }
}

#[test]
fn into_a_repository_with_everything_already_nothing_is_fetched() {
    parity(&format!(
        "{CLONED}
         $ git clone -q work other
         other$ git fetch $URL main
         other$ git fetch $URL 'refs/heads/*:refs/remotes/x/*'"
    ));
}
