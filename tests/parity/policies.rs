//! What an archive allows, against a bare repository with the same settings; and what only archives have.

use crate::common::{Parity, Sandbox, Side, fingerprint, parity, subject_is_file};

#[test]
fn non_fast_forwards_are_denied_even_with_force() {
    parity(
        "$ git init -q work
         work$ commit one two
         work$ git tag moving
         work$ git push -q $URL main main:old moving
         $ policy receive.denyNonFastForwards true
         work$ commit three
         work$ git push --porcelain $URL main
         work$ git reset -q --hard HEAD~1
         work$ commit other
         work!= git push --porcelain --force $URL main
         work!= git push --porcelain $URL +main
         work!=? git push --force-with-lease=main:main@{2} $URL main
         work!= git push --porcelain --atomic --force $URL main main:new
         work$ git push --porcelain --force $URL HEAD:refs/tags/moving
         work$ git push --porcelain $URL :old
         work!= git push --porcelain --force $URL HEAD^{tree}:refs/heads/main
         $ policy receive.denyNonFastForwards false
         work$ git push --porcelain --force $URL main",
    );
}

#[test]
fn deletions_of_branches_are_denied() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git tag t
         work$ git push -q $URL main main:old t
         $ policy receive.denyDeletes true
         work!= git push --porcelain $URL :old
         work!= git push --porcelain --force $URL :old
         work!= git push --porcelain --prune $URL refs/heads/*:refs/heads/*
         work!= git push --porcelain --mirror --atomic $URL
         work$ git push --porcelain $URL :t
         $ policy receive.denyDeletes no
         work$ git push --porcelain $URL :old",
    );
}

/// A commit whose committer has no address, as branch `bad`; and a file that makes submodules run a command, as branch `evil`.
const BAD_OBJECTS: &str = r#"
    $ git init -q work
    work$ commit one
    work$ echo '* text' >.gitattributes && git add . && git commit -q -m attributes
    work$ git push -q $URL main main:old
    work$ printf 'tree %s\nparent %s\nauthor A <a@b> 1 +0000\ncommitter nobody 1 +0000\n\nx\n' $(git rev-parse main^{tree} main) >../bad
    work$ git update-ref refs/heads/bad $(git hash-object -t commit -w --literally ../bad)
    work$ git checkout -q -b evil && printf '[submodule "x"]\n\tpath = x\n\turl = -u./run\n' >harmless && git add . && git commit -q -m evil
    work$ git branch first && git mv harmless .gitmodules && git commit -q -m more && git checkout -q main
    "#;

#[test]
fn objects_are_checked_as_git_checks_them() {
    // What is there in the end does not pass `git fsck`.
    Parity::new().without_state().run(&format!(
        "{BAD_OBJECTS}
         $ policy receive.fsckObjects true
         work!= git push --porcelain $URL bad
         work!= git push --porcelain $URL main:fine bad :old
         work!= git push --porcelain -f --atomic $URL bad:main
         work$ git push --porcelain --dry-run $URL bad
         work!= git push --porcelain $URL evil
         work$ git push --porcelain $URL first
         work!= git push --porcelain $URL evil
         work$ commit two
         work$ git push --porcelain $URL main main~1:refs/heads/x :old
         $ policy transfer.fsckObjects true
         $ policy receive.fsckObjects false
         work$ git push --porcelain $URL bad evil
         $ git ls-remote $URL"
    ));
}

/// Returns whether the git under test can be told what a check counts for without following links: since 2.44.
fn git_takes_levels(s: &Sandbox) -> bool {
    let version = s.ok("", "git version").stdout;
    let mut numbers = version
        .split([' ', '.'])
        .filter_map(|part| part.trim().parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(2), Some(44))
}

#[test]
fn checks_of_objects_have_levels() {
    let s = Sandbox::new();
    if !git_takes_levels(&s) {
        s.ok("", "znippy -q init app && znippy config app --set receive.fsckObjects true && git init -q work && cd work && commit one");
        s.ok("work", "git push -q \"znippy::$A/app\" main");
        s.ok(
            "work",
            "znippy config ../app --set receive.fsck.missingEmail warn && commit two",
        );
        let ran = s.fails("work", "git push -q \"znippy::$A/app\" main");
        assert!(ran.stderr.contains("needs git 2.44"), "{}", ran.stderr);
        return;
    }
    Parity::new().without_state().run(&format!(
        "{BAD_OBJECTS}
         $ policy receive.fsckObjects true
         $ policy receive.fsck.badTimezone ignore
         work!= git push --porcelain $URL bad
         $ policy receive.fsck.missingEmail warn
         work$ git push $URL bad 2>&1 | grep -c 'warning: object.*missingEmail'
         work$ git push --porcelain $URL :bad
         $ policy receive.fsck.MISSINGEMAIL error
         work!= git push --porcelain $URL bad
         $ policy receive.fsck.missingemail ignore
         work$ git push $URL bad 2>&1 | grep -c missingEmail || true
         work$ git push --porcelain $URL :bad
         work!= git push --porcelain $URL evil
         $ policy receive.fsck.gitmodulesUrl ignore
         $ policy receive.fsck.noSuchCheck error
         work$ git push $URL evil 2>&1 | grep -c \"Skipping unknown msg id 'nosuchcheck'\" -i
         $ policy receive.fsck.nulInHeader ignore
         work!= git push --porcelain $URL main:again bad
         $ git ls-remote $URL"
    ));
}

#[test]
fn objects_are_checked_where_only_transfers_are_named() {
    // What is there in the end does not pass `git fsck`.
    Parity::new().without_state().run(&format!(
        "{BAD_OBJECTS}
         $ policy transfer.fsckObjects true
         work!= git push --porcelain $URL bad
         work!= git push --porcelain $URL evil
         work$ commit two
         work$ git push --porcelain $URL main first
         $ policy transfer.fsckObjects false
         work$ git push --porcelain $URL bad
         $ git ls-remote $URL"
    ));
}

/// `--porcelain` ends with `Done` unless the pack as a whole was not taken: then nothing of the push is done.
#[test]
fn a_pack_that_is_too_large_is_no_matter_of_single_references() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main main:old
         $ policy receive.maxInputSize 100
         work$ commit two
         work!= git push --porcelain $URL main :old
         work!= git push --porcelain --atomic $URL main :old
         work$ git push --porcelain $URL :old
         work!= git push --porcelain $URL main
         $ policy receive.maxInputSize 1m
         $ policy receive.denyDeletes true
         work$ git push --porcelain $URL main main:new
         work!= git push --porcelain $URL :new
         work!= git push --porcelain --atomic $URL HEAD:refs/heads/x :new",
    );
}

#[test]
fn hidden_references_are_not_listed_and_not_fetched() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main main:refs/internal/a main:refs/pull/1/head
         work$ commit secret
         work$ git push -q $URL HEAD:refs/internal/b HEAD:refs/pull/2/head
         $ policy uploadpack.hideRefs refs/internal
         $ policy transfer.hideRefs refs/pull
         $ policy transfer.hideRefs !refs/pull/1
         $ git ls-remote $URL
         $ git ls-remote $URL refs/internal/a
         $ git clone -q --mirror $URL mirror
         mirror!? git cat-file -e $(git -C ../work rev-parse HEAD)
         mirror!? git fetch -q origin refs/internal/b",
    );
}

#[test]
fn hidden_references_are_not_pushed_to() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main main:refs/internal/a
         $ policy receive.hideRefs refs/internal
         work$ commit two
         work!= git push --porcelain $URL HEAD:refs/internal/a
         work!= git push --porcelain --force $URL HEAD:refs/internal/new
         work$ git push --porcelain $URL main
         work$ git push -q --mirror $URL
         $ git ls-remote $URL",
    );
}

/// A hidden HEAD branch: HEAD itself is still shown.
#[test]
fn a_hidden_branch_may_be_head() {
    Parity::new().without_state().run(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main main:other
         $ policy uploadpack.hideRefs refs/heads/main
         $ git ls-remote $URL",
    );
}

/// Makes a client and an archive of one push; `None` where the tests run on a bare repository.
fn archive() -> Option<Side> {
    if subject_is_file() {
        return None;
    }
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main main:old
         work$ commit two",
    );
    Some(side)
}

#[test]
fn a_read_only_archive_takes_no_push_and_no_edit() {
    let Some(side) = archive() else { return };
    let s = &side.sandbox;
    s.ok("", "znippy config remote --set znippy.readOnly true");
    let before = fingerprint(&side.remote);
    for push in ["main", "--force main", ":old", "--mirror", "--atomic main main:new"] {
        let (args, refs) = if push == "--mirror" {
            ("--mirror", "")
        } else {
            ("", push)
        };
        let ran = s.fails("work", &format!("git push {args} $URL {refs}"));
        assert!(ran.stderr.contains("read-only"), "{push}: {}", ran.stderr);
    }
    for edit in [
        "refs cas remote refs/heads/old $(git -C work rev-parse main~1) $(git -C work rev-parse main~1 | tr 0-9a-f 0)",
        "refs head remote old",
    ] {
        let ran = s.fails("", &format!("znippy {edit}"));
        assert!(
            ran.code == 1 && ran.stderr.contains("read-only"),
            "{edit}: {}",
            ran.stderr
        );
    }
    assert!(before == fingerprint(&side.remote), "something was written");
    s.ok(
        "",
        "git clone -q $URL copy && znippy config remote --unset znippy.readOnly",
    );
    s.ok("work", "git push -q $URL main");
}

/// git's own server pushes the others.
#[test]
fn a_hidden_reference_rejects_all_of_an_atomic_push() {
    let Some(side) = archive() else { return };
    side.play(
        "$ policy receive.hideRefs refs/internal
         work!= git push --porcelain --atomic $URL main HEAD:refs/internal/new",
    );
}

#[test]
fn large_pushes_and_large_objects_are_refused() {
    let Some(side) = archive() else { return };
    let s = &side.sandbox;
    s.ok("", "znippy config remote --set znippy.maxObjectSize 10k");
    s.ok("work", "yes | head -c 20000 >big && git add big && git commit -qm big");
    for resolve in ["auto", "defer"] {
        let ran = s.fails("work", &format!("git -c znippy.resolve={resolve} push $URL main"));
        assert!(ran.stderr.contains("znippy.maxObjectSize"), "{resolve}: {}", ran.stderr);
    }
    // The pack is small, for the object compresses well.
    s.ok(
        "",
        "znippy config remote --set znippy.maxObjectSize 0 && znippy config remote --set receive.maxInputSize 5k",
    );
    s.ok("work", "git push -q $URL main");
    s.ok(
        "work",
        "head -c 20000 /dev/urandom >noise && git add noise && git commit -qm noise",
    );
    let before = fingerprint(&side.remote);
    let ran = s.fails("work", "git push $URL main");
    assert!(ran.stderr.contains("receive.maxInputSize"), "{}", ran.stderr);
    assert!(before == fingerprint(&side.remote), "something was written");
}

/// The settings are where a reader finds them at once, and stay where commits follow.
#[test]
fn settings_survive_pushes_and_are_logged() {
    let Some(side) = archive() else { return };
    let s = &side.sandbox;
    s.ok(
        "",
        "znippy config remote --set receive.denyDeletes yes && znippy config remote --add transfer.hideRefs refs/a",
    );
    for _ in 0..70 {
        s.ok("work", "git commit -q --allow-empty -m more && git push -q $URL main");
    }
    let listed = s.ok("", "znippy config remote").stdout;
    assert_eq!(listed, "receive.denyDeletes=true\ntransfer.hideRefs=refs/a\n");
    s.fails("work", "git push -q $URL :old");
}
