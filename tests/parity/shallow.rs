//! Histories that are cut: clones and fetches with a depth, and what is done with such a clone afterwards.

use crate::common::{Parity, Side, parity};

/// What a repository holds, each stored object, and where its history is cut.
const LOOK: &str = "{ LC_ALL=C sort .git/shallow 2>/dev/null || echo whole; } && \
                    git cat-file --batch-all-objects --batch-check && git fsck && git for-each-ref && git status -sb";

/// Plays a script in which `LOOK` stands for a look at everything.
fn compare(script: &str) {
    parity(&script.replace("LOOK", LOOK));
}

const HISTORY: &str = "$ rich work
     work$ history 30 main x
     work$ git checkout -q -f main
     work$ git tag -m five five main~5
     work$ git tag light-nine main~9
     work$ git push -q --mirror $URL";

#[test]
fn clone_with_a_depth() {
    compare(&format!(
        "{HISTORY}
         $ git clone --depth 1 $URL one
         one$ LOOK
         $ git clone --depth 7 $URL seven
         seven$ LOOK
         $ git clone --depth 2 --no-single-branch $URL all
         all$ LOOK
         $ git clone --depth 3 -b side $URL side
         side$ LOOK
         $ git clone --depth 3 -b v1.0 $URL tag
         tag$ LOOK
         $ git clone --depth 2 --no-tags $URL untagged
         untagged$ LOOK
         $ git clone --depth 1000 $URL deep
         deep$ LOOK
         $ git clone -q --bare --depth 1 $URL bare.git
         bare.git$ cat shallow
         $ git clone -q --mirror --depth 2 $URL mirror.git
         mirror.git$ LC_ALL=C sort shallow
         $ git clone --depth 1 --no-checkout $URL unchecked
         unchecked$ git cat-file --batch-all-objects --batch-check
         ! git clone --depth 0 $URL zero
         ! git clone --depth -1 $URL minus
         ! git clone --depth 1 -b nothing-here $URL nothing"
    ));
}

#[test]
fn deepen_step_by_step_to_the_whole() {
    compare(&format!(
        "{HISTORY}
         $ git clone -q --depth 1 $URL reader
         reader$ git fetch --deepen 2
         reader$ LOOK
         reader$ git fetch --depth 8
         reader$ LOOK
         reader$ git fetch --deepen=3
         reader$ LOOK
         reader$ git fetch --depth 2
         reader$ LOOK
         reader$ git fetch --unshallow
         reader$ LOOK
         reader! git fetch --unshallow
         reader$ git log --format=%s"
    ));
}

#[test]
fn cut_by_date() {
    // The commits of `history` are a minute apart, from 1600000060 on.
    compare(&format!(
        "{HISTORY}
         $ git clone --shallow-since=@1600001500 $URL young
         young$ LOOK
         young$ git fetch --shallow-since=@1600000600
         young$ LOOK
         $ git clone --shallow-since='2020-09-13 12:40:00 +0000' --no-single-branch $URL all
         all$ LOOK
         ! git clone --shallow-since=2035-01-01 $URL never
         young$ git fetch --unshallow
         young$ LOOK"
    ));
}

#[test]
fn cut_by_what_is_known() {
    compare(&format!(
        "{HISTORY}
         $ git clone --shallow-exclude=five $URL a
         a$ LOOK
         $ git clone --shallow-exclude=light-nine --no-single-branch $URL b
         b$ LOOK
         $ git clone --shallow-exclude=side --shallow-exclude=octopus2 $URL c
         c$ git cat-file --batch-all-objects --batch-check && git fsck
         c$ LC_ALL=C sort .git/shallow | git cat-file --batch-check | grep -v missing
         a$ git fetch --shallow-exclude=light-nine
         a$ LOOK
         a$ git fetch --shallow-exclude=light-nine --shallow-since=@1600001300
         a$ LOOK
         ! git clone --shallow-exclude=nothing-here $URL d
         ! git clone --shallow-exclude=main $URL e
         a$ git fetch --unshallow
         a$ LOOK"
    ));
}

#[test]
fn a_shallow_clone_goes_on_living() {
    compare(&format!(
        "{HISTORY}
         $ git clone -q --depth 3 $URL reader
         work$ history 4 main y
         work$ git push -q $URL main
         reader$ git fetch
         reader$ LOOK
         reader$ git pull -q
         reader$ LOOK
         work$ history 3 main z
         work$ git branch new main~6
         work$ git tag -m late late main~1
         work$ git push -q $URL main new late
         reader$ git fetch --depth 2
         reader$ LOOK
         reader$ git fetch origin new:new
         reader$ LOOK
         reader$ git fetch origin refs/notes/commits:refs/notes/commits
         reader$ git fetch --tags
         reader$ LOOK
         reader$ git fetch origin side
         reader$ git ls-remote origin
         reader$ git remote show origin
         reader$ git fetch --depth=5 origin '+refs/heads/*:refs/remotes/origin/*'
         reader$ LOOK"
    ));
}

#[test]
fn commits_made_in_a_shallow_clone_are_pushed() {
    compare(&format!(
        "{HISTORY}
         $ git clone -q --depth 2 $URL reader
         reader$ commit mine
         reader$ git push -q origin main
         reader$ git fetch
         reader$ LOOK
         reader$ git fetch --deepen 1
         reader$ LOOK
         $ git clone -q $URL other"
    ));
}

#[test]
fn from_shallow_to_shallow_and_whole() {
    compare(&format!(
        "{HISTORY}
         $ git clone -q $URL whole
         whole$ git fetch --depth 2
         whole$ LC_ALL=C sort .git/shallow
         whole$ git log --format=%s
         $ git clone -q --depth 3 $URL near
         $ git clone -q file://$A/near copy
         copy$ git remote set-url origin $URL
         copy$ git fetch -q --unshallow
         copy$ LOOK
         $ git clone -q $URL full
         $ git clone -q --depth 1 --reference full $URL borrowed
         borrowed$ cat .git/shallow
         $ git clone -q --depth 4 --reference full --dissociate $URL free
         free$ LC_ALL=C sort .git/shallow"
    ));
}

#[test]
fn with_old_protocols_and_checks() {
    compare(&format!(
        "{HISTORY}
         $ git -c protocol.version=0 clone -q --depth 2 $URL zero
         zero$ LOOK
         zero$ git -c protocol.version=0 fetch --deepen 3
         zero$ LOOK
         zero$ git -c protocol.version=1 fetch --unshallow
         zero$ LOOK
         $ git -c protocol.version=1 clone -q --shallow-since=@1600001500 $URL one
         one$ LOOK
         one$ git -c protocol.version=0 fetch --shallow-exclude=light-nine
         one$ LOOK
         $ git -c transfer.fsckObjects=true clone -q --depth 3 $URL checked
         checked$ LOOK"
    ));
}

#[test]
fn sha256_histories_are_cut_too() {
    let script = "$ git init -q work
         work$ history 12
         work$ git push -q $URL main
         $ git clone --depth 2 $URL reader
         reader$ LOOK
         reader$ git fetch --deepen 3
         reader$ LOOK
         reader$ git -c protocol.version=0 fetch --deepen 1
         reader$ LOOK
         reader$ git fetch --unshallow
         reader$ LOOK";
    Parity::new().format("sha256").run(&script.replace("LOOK", LOOK));
}

#[test]
fn wrong_dates_and_merges() {
    compare(
        "$ git init -q work
         work$ for i in 1 2 3 4 5 6; do GIT_COMMITTER_DATE=\"16000$i\"\"0000 +0000\" git commit -q --allow-empty -m $i; done
         work$ GIT_COMMITTER_DATE='1500000000 +0000' git commit -q --allow-empty -m old
         work$ git checkout -q -b b HEAD~3
         work$ GIT_COMMITTER_DATE='1700000000 +0000' git commit -q --allow-empty -m new
         work$ git merge -q --no-edit main
         work$ git checkout -q main
         work$ git push -q --mirror $URL
         $ git clone --depth 2 -b b $URL two
         two$ LOOK
         $ git clone --depth 4 -b b $URL four
         four$ LOOK
         two$ git fetch --unshallow
         two$ LOOK",
    );
}

#[test]
fn a_cut_leaves_no_commit_shallow_that_was_not_sent() {
    // A merge that is cut off from one parent is cut off from both. git also calls commits shallow that only the other one
    // leads to, and a later `fetch --deepen` then fails.
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ for i in 1 2 3 4 5 6; do GIT_COMMITTER_DATE=\"16000$i\"\"0000 +0000\" git commit -q --allow-empty -m $i; done
         work$ GIT_COMMITTER_DATE='1500000000 +0000' git commit -q --allow-empty -m old
         work$ git checkout -q -b b HEAD~3
         work$ GIT_COMMITTER_DATE='1700000000 +0000' git commit -q --allow-empty -m new
         work$ git merge -q --no-edit main
         work$ git push -q --mirror $URL
         $ git clone -q --shallow-since=@1600300000 -b b $URL since
         since$ git cat-file --batch-check <.git/shallow | grep -v missing
         since$ git cat-file --batch-check <.git/shallow | grep missing || exit 0 && exit 1",
    );
    if !crate::common::subject_is_file() {
        side.play(
            "since$ git fetch -q --deepen 1
             since$ git fsck
             since$ git fetch -q --unshallow
             since$ git fsck
             $ git clone -q --shallow-exclude=main -b b $URL without
             without$ git fetch -q --deepen 2
             without$ git fsck",
        );
    }
}

#[test]
fn submodules_may_be_shallow() {
    // The address is a part of the submodule's commit.
    Parity::new().without_state().run(
        "$ git init -q part
         part$ history 6
         part$ git push -q $URL main
         $ git init -q whole
         whole$ git -c protocol.file.allow=always -c protocol.znippy.allow=always submodule --quiet add $URL part
         whole$ git commit -q -m with-part
         $ git -c protocol.file.allow=always -c protocol.znippy.allow=always clone -q --recurse-submodules --shallow-submodules file://$A/whole copy
         copy/part$ git log --format=%s
         copy/part$ cat ../.git/modules/part/shallow
         copy/part$ git fetch --deepen 2
         copy/part$ git log --format=%s",
    );
}

#[test]
fn a_small_part_of_a_large_archive_is_read() {
    if crate::common::subject_is_file() {
        return;
    }
    if std::process::Command::new("strace").arg("-V").output().is_err() {
        return crate::common::not_run("a_small_part_of_a_large_archive_is_read", "no strace");
    }
    let side = Side::archive("sha1", &[]);
    // 40 MB of history that does not compress, of which the tip has 20 KB.
    side.play(
        "$ git init -q work
         work$ commit first
         work$ for i in $(seq 40); do head -c 1000000 /dev/urandom >big; git add big; git commit -q -m $i; done
         work$ git rm -q big
         work$ head -c 20000 /dev/urandom >small
         work$ git add small
         work$ git commit -q -m small
         work$ git push -q $URL main",
    );
    side.sandbox.ok(
        "",
        "strace -f -y -e trace=pread64,preadv,read -o trace git clone -q --depth 1 $URL one",
    );
    let trace = std::fs::read_to_string(side.sandbox.path("trace")).unwrap();
    let bytes = |line: &str| {
        line.rsplit("= ")
            .next()
            .and_then(|count| count.trim().parse::<u64>().ok())
    };
    let read: u64 = trace
        .lines()
        .filter(|line| line.contains("remote.znippy>"))
        .filter_map(bytes)
        .sum();
    let size = std::fs::metadata(&side.remote).unwrap().len();
    assert!(size > 40_000_000, "{size}");
    assert!((1..500_000).contains(&read), "{read} bytes of {size} were read");
}
