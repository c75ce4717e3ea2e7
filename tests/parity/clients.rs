//! Clients that are not plain: worktrees, submodules, alternates, object directories elsewhere.

use crate::common::{Parity, Side, parity};

const RICH: &str = "$ git init -q work
    work$ commit one two
    work$ git branch side main~1
    work$ git push -q --mirror $URL
    ";

#[test]
fn linked_worktrees() {
    parity(&format!(
        "{RICH}
         $ git clone -q $URL reader
         reader$ git worktree add -q ../linked origin/side
         linked$ git checkout -q -b more
         linked$ commit in-worktree
         linked$ git push --porcelain origin more
         work$ commit three
         work$ git push -q $URL main
         linked$ git fetch origin
         linked$ git log --format=%s origin/main"
    ));
}

#[test]
fn from_a_subdirectory_and_a_bare_repository() {
    parity(&format!(
        "{RICH}
         $ git clone -q $URL reader
         reader$ mkdir -p sub/dir
         reader/sub/dir$ commit below
         reader/sub/dir$ git push --porcelain origin main
         reader/sub/dir$ git fetch origin
         $ git clone -q --bare $URL bare.git
         bare.git$ git fetch origin main
         bare.git$ git push --porcelain origin main:refs/heads/from-bare
         bare.git/refs$ git push --porcelain origin main:refs/heads/from-refs"
    ));
}

#[test]
fn an_object_directory_elsewhere() {
    parity(&format!(
        "{RICH}
         $ git init -q reader
         $ mkdir -p objects-elsewhere/pack
         reader$ GIT_OBJECT_DIRECTORY=$A/objects-elsewhere git fetch -q $URL 'refs/heads/*:refs/heads/*' --update-head-ok
         reader$ GIT_OBJECT_DIRECTORY=$A/objects-elsewhere git rev-list --objects --all --no-object-names
         reader$ find .git/objects -type f | wc -l
         reader$ GIT_OBJECT_DIRECTORY=$A/objects-elsewhere git push --porcelain $URL main:refs/heads/copy
         reader$ mv ../objects-elsewhere/pack/* .git/objects/pack/ 2>/dev/null; cp -r ../objects-elsewhere/?? .git/objects/ 2>/dev/null; rm -rf ../objects-elsewhere"
    ));
}

#[test]
fn git_dir_and_work_tree_apart() {
    parity(&format!(
        "{RICH}
         $ git clone -q $URL reader
         $ mkdir tree
         tree$ git --git-dir=$A/reader/.git --work-tree=. fetch origin
         $ GIT_DIR=$A/reader/.git git push --porcelain origin main:refs/heads/from-git-dir
         $ git -C reader push --porcelain origin main:refs/heads/from-c"
    ));
}

#[test]
fn alternates_and_references() {
    parity(&format!(
        "{RICH}
         $ git clone -q work lender
         work$ commit three
         work$ git push -q $URL main
         $ git clone -q --reference lender $URL borrower
         borrower$ commit mine
         borrower$ git push --porcelain origin main
         $ git clone -q -s lender shared
         shared$ commit theirs
         shared$ git push --porcelain $URL HEAD:refs/heads/shared
         $ git clone -q --reference lender --dissociate $URL free
         free$ test ! -e .git/objects/info/alternates"
    ));
}

#[test]
fn submodules() {
    // The URL is part of the commits, so that these differ between the sides.
    Parity::new().without_state().run(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main
         $ git init -q super
         super$ git -c protocol.$PROTO.allow=always submodule --quiet add $URL sub
         super$ git commit -q -m 'with a submodule'
         super! git -c protocol.$PROTO.allow=user submodule --quiet add $URL other
         $ git clone -q super outer
         outer$ git -c protocol.$PROTO.allow=always submodule --quiet update --init
         outer/sub$ git log --format=%s
         $ git -c protocol.$PROTO.allow=always clone -q --recurse-submodules super recursed
         work$ commit two
         work$ git push -q $URL main
         recursed$ git -c protocol.$PROTO.allow=always submodule --quiet update --remote
         recursed$ git -c protocol.$PROTO.allow=always fetch -q --recurse-submodules
         recursed/sub$ git log --format=%s
         recursed/sub$ git push --porcelain $URL HEAD:refs/heads/from-submodule",
    );
}

#[test]
fn a_relative_submodule_url() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main
         $ git init -q super
         super$ git remote add origin $URL
         super$ git -c protocol.$PROTO.allow=always submodule --quiet add ../$(basename $URL) sub",
    );
    assert_eq!(side.sandbox.ok("super/sub", "git log --format=%s").text(), "one");
}

#[test]
fn an_alias_of_a_url_and_the_vcs_setting() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one
         work$ git config url.$URL.insteadOf short:
         work$ git push -q short: main
         work$ git ls-remote short:
         work$ git config url.$URL.pushInsteadOf elsewhere:
         work$ git push -q elsewhere: main:refs/heads/two",
    );
    if !crate::common::subject_is_file() {
        side.play(
            "work$ git config remote.v.vcs znippy
             work$ git config remote.v.url $A/remote.znippy
             work$ git ls-remote v
             work$ git push -q v main:refs/heads/three",
        );
    }
}

#[test]
fn a_shallow_client_never_leaves_holes() {
    // Whether such a push is accepted is the remote's business; a remote with missing parents is what must not happen.
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q origin
         origin$ commit one two three
         $ git clone -q --depth 1 file://$A/origin shallow
         shallow$ commit four",
    );
    let pushed = side.sandbox.sh("shallow", "git push --porcelain $URL main");
    if pushed.code == 0 {
        side.sandbox.ok("", "git clone -q --mirror $URL copy");
        side.sandbox.ok("copy", "git fsck --full --strict");
    } else {
        let why = format!("{}{}", pushed.stdout, pushed.stderr);
        assert!(why.contains("shallow") || why.contains("missing"), "{why}");
    }
    side.play(
        "origin$ git push -q $URL main
         shallow$ git push -q $URL main:refs/heads/on-top
         $ git clone -q --mirror $URL copy2
         copy2$ git fsck --full --strict
         copy2$ git log --format=%s on-top",
    );
}
