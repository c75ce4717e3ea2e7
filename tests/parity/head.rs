//! HEAD of the remote: which branch a clone checks out.
//!
//! A bare repository's HEAD is fixed when it is made; an archive's is chosen by the first push and follows when its branch is
//! deleted. Where the two differ by intent, the archive alone is tested.

use crate::common::{Side, parity, subject_is_file};

fn head_of(side: &Side) -> String {
    let listing = side.sandbox.ok("", "git ls-remote --symref $URL HEAD").stdout;
    let target = listing
        .lines()
        .find_map(|line| line.strip_prefix("ref: "))
        .unwrap_or_default();
    target.split('\t').next().unwrap_or_default().to_owned()
}

#[test]
fn a_clone_checks_out_the_default_branch() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git branch zzz
         work$ git push -q $URL main zzz
         $ git clone -q $URL plain
         plain$ git symbolic-ref HEAD
         plain$ git symbolic-ref refs/remotes/origin/HEAD",
    );
}

#[test]
fn the_current_branch_of_the_first_push_wins() {
    if subject_is_file() {
        return;
    }
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q -b trunk work
         work$ commit one
         work$ git branch main
         work$ git branch another
         work$ git push -q --all $URL",
    );
    assert_eq!(head_of(&side), "refs/heads/trunk");
    side.play(
        "$ git clone -q $URL plain
         plain$ test $(git symbolic-ref --short HEAD) = trunk
         work$ git checkout -q another
         work$ commit two
         work$ git push -q $URL another",
    );
    assert_eq!(head_of(&side), "refs/heads/trunk", "a later push does not move HEAD");
}

#[test]
fn without_the_current_branch_it_is_the_usual_name_or_the_only_one() {
    if subject_is_file() {
        return;
    }
    let cases = [
        ("git push -q $URL main master other", "main"),
        ("git push -q $URL master other", "master"),
        ("git push -q $URL other", "other"),
        (
            "git -c init.defaultBranch=other push -q $URL main master other",
            "other",
        ),
    ];
    for (push, expected) in cases {
        let side = Side::archive("sha1", &[]);
        side.play(&format!(
            "$ git init -q -b current work
             work$ commit one
             work$ for b in main master other; do git branch $b; done
             work$ {push}"
        ));
        assert_eq!(head_of(&side), format!("refs/heads/{expected}"), "{push}");
    }
}

#[test]
fn r10_deleting_the_branch_of_head_moves_head() {
    if subject_is_file() {
        return;
    }
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q -b trunk work
         work$ commit one
         work$ git branch main
         work$ git push -q $URL trunk main",
    );
    assert_eq!(head_of(&side), "refs/heads/trunk");
    let ran = side.sandbox.ok("work", "git push $URL :trunk");
    assert_eq!(head_of(&side), "refs/heads/main");
    assert!(ran.stderr.contains("HEAD"), "the user is told: {}", ran.stderr);
    side.play("$ git clone -q $URL plain");
    assert_eq!(side.sandbox.ok("plain", "git symbolic-ref --short HEAD").text(), "main");
}

#[test]
fn a_renamed_default_branch_is_followed_by_a_mirror_push() {
    if subject_is_file() {
        return;
    }
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q -b master work
         work$ commit one
         work$ git branch other
         work$ git push -q --mirror $URL
         work$ git branch -m master trunk
         work$ git push -q --mirror $URL",
    );
    assert_eq!(head_of(&side), "refs/heads/trunk");
}

#[test]
fn r10_deleting_every_branch_leaves_head_unborn() {
    // Exit code 0: a nightly mirror must not stop over it.
    if subject_is_file() {
        return;
    }
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one
         work$ git tag -m t t
         work$ git push -q $URL main t",
    );
    let ran = side.sandbox.ok("work", "git push $URL :main");
    assert!(ran.stderr.contains("HEAD"), "the user is told: {}", ran.stderr);
    side.play(
        "$ git ls-remote $URL
         $ git clone -q $URL plain
         plain$ git rev-parse --git-dir
         work$ git push -q $URL main
         $ git clone -q $URL again
         again$ git log --format=%s",
    );
}

#[test]
fn an_unborn_branch_of_an_empty_archive() {
    if subject_is_file() {
        return;
    }
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ znippy init $A/remote.znippy
         $ git ls-remote $URL
         $ git clone -q $URL plain
         plain$ git status
         plain$ commit one
         plain$ git push -q origin HEAD
         $ git clone -q $URL again
         again$ git log --format=%s",
    );
}

#[test]
fn an_empty_remote_clones_and_lists_nothing() {
    if subject_is_file() {
        return;
    }
    let side = Side::archive("sha256", &[]);
    side.play("$ znippy init --object-format=sha256 $A/remote.znippy");
    let ran = side.sandbox.ok("", "git clone $URL plain");
    assert!(ran.stderr.contains("empty repository"), "{}", ran.stderr);
    assert_eq!(
        side.sandbox.ok("plain", "git rev-parse --show-object-format").text(),
        "sha256"
    );
    assert_eq!(side.sandbox.ok("", "git ls-remote $URL").stdout, "");
}

#[test]
fn a_detached_head_of_the_client() {
    parity(
        "$ git init -q work
         work$ commit one two
         work$ git checkout -q --detach main~1
         work$ git push --porcelain $URL main
         work$ git push --porcelain $URL HEAD:refs/heads/detached
         $ git clone -q $URL plain
         plain$ git symbolic-ref HEAD",
    );
}
