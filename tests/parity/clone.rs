//! Clones of every kind.

use crate::common::{Parity, Side, parity};

const RICH: &str = "$ rich work
    work$ git push -q --mirror $URL
    ";

#[test]
fn plain_bare_and_mirror() {
    parity(&format!(
        "{RICH}
         $ git clone $URL plain
         $ git clone --bare $URL bare.git
         $ git clone --mirror $URL mirror.git
         plain$ git status --porcelain -b
         plain$ git branch -a
         plain$ git ls-files -s"
    ));
}

#[test]
fn single_branch_and_a_chosen_branch() {
    parity(&format!(
        "{RICH}
         $ git clone --single-branch $URL one
         $ git clone --single-branch -b side $URL side
         $ git clone -b topic/one $URL topic
         $ git clone -b v1.0 $URL at-tag
         $ git clone --single-branch -b v1.0 $URL only-tag
         $ git clone --single-branch --no-tags -b side $URL bare-side
         ! git clone -b nothing $URL nothing"
    ));
}

/// R22: who wants all references gets the pack as it is only where references reach all of it. What a branch that is gone has left
/// is sent to nobody, not even the tenth that a clone might carry.
#[test]
fn r22_a_whole_clone_gets_nothing_that_no_reference_reaches() {
    for gone in ["git push -q $URL :gone", "git push -q -f $URL main:gone"] {
        let side = Side::archive("sha1", &[]);
        // One pack, so that a copy of it would be the way.
        side.play(&format!(
            "$ git init -q work
             work$ for n in 1 2 3 4 5 6 7 8 9 10 11 12; do commit $n; done
             work$ git checkout -q -b gone
             work$ commit secret
             work$ git push -q $URL main gone
             work$ {gone}"
        ));
        let secret = side.sandbox.ok("work", "git rev-parse gone").text().to_owned();
        for url in ["$URL", "--upload-pack 'znippy upload-pack' file://$PWD/remote.znippy"] {
            side.play(&format!("$ rm -rf clone && git clone -q --mirror {url} clone"));
            side.sandbox.ok("clone", "git cat-file -e refs/heads/main");
            side.sandbox.fails("clone", &format!("git cat-file -e {secret}"));
        }
    }
}

#[test]
fn r22_a_single_branch_clone_gets_no_other_objects() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one
         work$ git checkout -q -b side
         work$ commit secret
         work$ git push -q $URL main side
         $ git clone -q --single-branch -b main $URL one",
    );
    let secret = side.sandbox.ok("work", "git rev-parse side").text().to_owned();
    side.sandbox.fails("one", &format!("git cat-file -e {secret}"));
    let all = side
        .sandbox
        .ok("one", "git cat-file --batch-all-objects --batch-check | wc -l");
    assert_eq!(all.text(), "3");
}

#[test]
fn head_branches_and_a_tag_on_one_commit() {
    // git asks for the same object several times.
    parity(
        "$ git init -q work
         work$ commit one
         work$ git branch a
         work$ git branch b
         work$ git tag t
         work$ git push -q --mirror $URL
         $ git clone $URL plain
         $ git clone --mirror $URL mirror.git
         plain$ ls .git/objects/pack | sed 's/.*[.]//' | sort -u | grep -v rev",
    );
}

#[test]
fn odd_options_of_clone() {
    parity(&format!(
        "{RICH}
         $ git clone -o upstream $URL named
         $ git clone --no-checkout $URL unchecked
         $ git clone --separate-git-dir=$A/elsewhere.git $URL separated
         $ git clone -c core.bare=false -c remote.origin.prune=true $URL configured
         $ git clone --mirror --no-tags $URL mirror.git
         $ git clone --sparse $URL sparse
         $ git clone --template= $URL plain
         $ mkdir empty-dir
         $ git clone $URL empty-dir"
    ));
}

#[test]
fn a_clone_after_many_pushes() {
    parity(
        "$ git init -q work
         work$ for i in 1 2 3 4 5 6 7 8 9 10 11 12; do history 3 main $i && git push -q $URL main || exit 1; done
         $ git clone -q $URL plain
         plain$ git log --format=%s
         $ git clone -q --mirror $URL mirror.git",
    );
}

#[test]
fn r22_a_clone_after_deletions_and_rewinds() {
    parity(
        "$ git init -q work
         work$ commit one two
         work$ git branch gone
         work$ git push -q $URL main gone
         work$ git push -q $URL :gone
         work$ git reset -q --hard HEAD~1
         work$ commit three
         work$ git push -q -f $URL main
         $ git clone -q $URL plain
         plain$ git log --format=%s",
    );
}

#[test]
fn a_clone_of_sha256() {
    Parity::new().format("sha256").run(&format!(
        "{RICH}
         $ git clone $URL plain
         plain$ git rev-parse --show-object-format
         plain$ commit more
         plain$ git push --porcelain origin main
         $ git clone --single-branch -b side $URL side"
    ));
}

#[test]
fn shallow_and_filtered_are_never_silently_full() {
    // Honoured or refused: a full clone that pretends to be shallow is what must not happen.
    for option in [
        "--depth=1",
        "--shallow-since=2030-01-01",
        "--shallow-exclude=v1",
        "--filter=blob:none",
    ] {
        let side = Side::archive("sha1", &["uploadpack.allowFilter=true"]);
        side.play(
            "$ git init -q work
             work$ commit one
             work$ git tag v1
             work$ commit two three
             work$ git push -q $URL main v1",
        );
        let ran = side
            .sandbox
            .sh("", &format!("git clone -q --no-checkout {option} $URL reader"));
        if ran.code == 0 {
            let objects = side
                .sandbox
                .ok("reader", "git cat-file --batch-all-objects --batch-check | wc -l");
            assert_ne!(objects.text(), "9", "{option} gave a full clone");
        } else {
            assert!(
                ran.stderr.contains("fatal") || ran.stderr.contains("error"),
                "{option}: {}",
                ran.stderr
            );
            assert!(
                !side.sandbox.path("reader").exists(),
                "{option} left a directory behind"
            );
        }
    }
}

#[test]
fn what_a_clone_needs_from_the_machine() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main
         $ env -u HOME -u XDG_CONFIG_HOME -u XDG_DATA_HOME -u XDG_CACHE_HOME LANG=C git clone -q $URL no-home
         $ (umask 077 && git clone -q $URL private)
         $ (umask 002 && git clone -q $URL shared)
         $ git clone -q $URL with-closed-stdin <&-",
    );
}

/// R22: what came with a reference that was refused is there, as the pack is one, and is sent to nobody.
#[test]
fn r22_what_came_for_a_refused_reference_is_sent_to_nobody() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ for n in 1 2 3 4 5 6 7 8 9 10 11 12; do commit $n; done
         work$ git push -q $URL main
         $ znippy config remote --set receive.denyNonFastForwards true
         work$ git checkout -q -b more && commit more
         work$ git checkout -q main && git reset -q --hard HEAD~1 && commit secret
         work$ git push -q -f --receive-pack 'znippy receive-pack' file://$PWD/../remote.znippy main more; test $? = 1",
    );
    let secret = side.sandbox.ok("work", "git rev-parse main").text().to_owned();
    for url in ["$URL", "--upload-pack 'znippy upload-pack' file://$PWD/remote.znippy"] {
        side.play(&format!("$ rm -rf clone && git clone -q --mirror {url} clone"));
        side.sandbox.ok("clone", "git cat-file -e refs/heads/more");
        side.sandbox.fails("clone", &format!("git cat-file -e {secret}"));
    }
    // Who can open the file may have anything in it by its name; who asks a server may not.
    let fetch = format!("git fetch -q --upload-pack 'znippy upload-pack' file://$PWD/../remote.znippy {secret}");
    side.sandbox.fails("clone", &fetch);
}
