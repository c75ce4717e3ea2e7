//! Nothing to do: nothing is written.

use crate::common::{Side, fingerprint, parity};

#[test]
fn pushes_without_news_write_nothing() {
    parity(
        "$ rich work
         work$ git push -q --mirror $URL
         work= git push --mirror $URL
         work= git push $URL main
         work= git push --all $URL
         work= git push --tags $URL
         work= git push --atomic $URL main side
         work= git push --force $URL main
         work= git push --porcelain $URL main side:side
         work= git push --follow-tags $URL main
         work= git push --force-with-lease=main:main $URL main",
    );
}

#[test]
fn reading_never_writes() {
    parity(
        "$ rich work
         work$ git push -q --mirror $URL
         = git ls-remote $URL
         = git clone -q $URL reader
         = git clone -q --mirror $URL mirror.git
         reader= git fetch origin
         reader= git fetch -p --tags origin
         reader= git remote show origin
         reader= git pull -q
         mirror.git= git fetch -p",
    );
}

#[test]
fn the_modification_time_stays() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main",
    );
    let modified = || side.remote.metadata().unwrap().modified().unwrap();
    let (before, bytes) = (modified(), fingerprint(&side.remote));
    side.play(
        "work= git push $URL main
         = git clone -q $URL reader
         reader= git fetch",
    );
    assert_eq!(before, modified());
    assert!(bytes == fingerprint(&side.remote));
}

#[test]
fn a_branch_of_what_is_there_already_needs_no_pack() {
    parity(
        "$ git init -q work
         work$ commit one two
         work$ git push -q $URL main
         work$ git push --porcelain $URL main~1:refs/heads/old main:refs/heads/same
         $ git clone -q --mirror $URL mirror.git
         mirror.git$ git count-objects -v | grep -v size",
    );
}
