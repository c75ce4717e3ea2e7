//! `git push --mirror` and `git clone --mirror`: the two commands of a backup.

use crate::common::{Parity, Side, assert_same_repository, parity, subject_is_file};

#[test]
fn everything_a_repository_may_hold_comes_back() {
    parity(
        "$ rich work
         work$ git push --mirror $URL
         work= git push --mirror $URL
         $ git clone --mirror $URL copy",
    );
}

#[test]
fn the_copy_has_each_object_and_each_reference() {
    for format in ["sha1", "sha256"] {
        let side = Side::archive(format, &[]);
        side.sandbox.ok("", "rich work");
        // What only reflogs reach is not pushed.
        side.sandbox.ok(
            "work",
            "git stash drop -q && git reflog expire --expire=now --all && git gc -q --prune=now",
        );
        side.sandbox.ok("work", "git push -q --mirror $URL");
        side.sandbox.ok("", "git clone -q --mirror $URL copy");
        assert_same_repository(&side.sandbox, "work", "copy");
    }
}

#[test]
fn the_second_mirror_push_deletes_and_rewinds() {
    parity(
        "$ rich work
         work$ git push --mirror $URL
         work$ git branch -D extra/a
         work$ git tag -d v1.0
         work$ git update-ref -d refs/notes/commits
         work$ git reset -q --hard main~1
         work$ git branch new-branch
         work$ git push --mirror --porcelain $URL
         work= git push --mirror --porcelain $URL",
    );
}

#[test]
fn a_mirror_of_a_mirror_follows_upstream() {
    // A deletion line has an empty source: scripts that forward one often trip over it.
    parity(
        "$ git init -q upstream
         upstream$ commit one two
         upstream$ git branch doomed
         upstream$ git tag -m t t1
         $ git clone -q --mirror upstream mirror.git
         mirror.git$ git push --mirror $URL
         upstream$ git branch -D doomed
         upstream$ git tag -d t1
         upstream$ commit three
         mirror.git$ git fetch -q -p
         mirror.git$ git push --mirror $URL
         $ git clone -q --mirror $URL copy.git
         copy.git$ git for-each-ref",
    );
}

#[test]
fn a_mirror_push_never_touches_head_or_peeled_names() {
    parity(
        "$ rich work
         work$ git push -q --mirror $URL
         work= git push --mirror --dry-run --porcelain $URL
         work= git push --prune --dry-run --porcelain $URL 'refs/*:refs/*'",
    );
}

#[test]
fn a_remote_made_for_mirroring() {
    parity(
        "$ rich work
         work$ git remote add --mirror=push backup $URL
         work$ git push backup
         work$ git branch -D extra/b
         work$ git push backup
         work= git push backup
         work! git push backup main",
    );
}

#[test]
fn all_objects_of_sha256() {
    Parity::new().format("sha256").run(
        "$ rich work
         work$ git push --mirror $URL
         work$ commit more
         work$ git push --mirror $URL
         $ git clone $URL copy
         copy$ git rev-parse --show-object-format",
    );
}

#[test]
fn an_empty_repository_is_kept_as_an_empty_archive() {
    // Over a pipe git fails, because it hangs up on the other side. A nightly backup must not stop over it.
    if subject_is_file() {
        return;
    }
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q -b trunk work
         work$ git push --mirror $URL
         work= git push --mirror $URL
         $ git clone -q $URL copy
         copy$ commit one
         copy$ git push -q origin HEAD
         $ git clone -q --mirror $URL copy2
         copy2$ git log --format=%s",
    );
}

#[test]
fn a_repository_with_nothing_to_push_is_no_backup() {
    // `:` pushes the branches that both sides have: none, of a remote that is not there.
    Parity::new().without_state().run(
        "$ git init -q work
         work$ commit one
         work!? git push $URL :
         $ test ! -e remote.znippy",
    );
}

#[test]
fn many_references() {
    parity(
        "$ git init -q work
         work$ commit one two three
         work$ git for-each-ref --format='%(objectname)' refs/heads | head -1 >tip
         work$ for i in $(seq 3000); do echo create refs/heads/group$((i % 30))/branch$i $(cat tip); done | git update-ref --stdin
         work$ for i in $(seq 1500); do echo create refs/tags/t$i $(cat tip); done | git update-ref --stdin
         work$ git push --mirror --porcelain $URL
         work$ for i in $(seq 1 3 3000); do echo delete refs/heads/group$((i % 30))/branch$i; done | git update-ref --stdin
         work$ git push --mirror --porcelain $URL
         work= git push --mirror --porcelain $URL",
    );
}
