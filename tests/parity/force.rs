//! Rewinds and other updates that lose something.

use crate::common::parity;

#[test]
fn a_rewind_is_rejected_without_force() {
    parity(
        "$ git init -q work
         work$ commit one two three
         work$ git push -q $URL main
         work$ git reset -q --hard main~2
         work!= git push --porcelain $URL main
         work!= git push $URL main
         work$ git push --porcelain $URL +main
         work$ commit other
         work$ git push --porcelain --force $URL main",
    );
}

#[test]
fn a_plus_counts_for_its_own_reference_only() {
    parity(
        "$ git init -q work
         work$ commit one two three
         work$ git branch side
         work$ git push -q $URL main side
         work$ git reset -q --hard main~2
         work$ git branch -f side main~0
         work! git push --porcelain $URL +main side",
    );
}

#[test]
fn force_with_an_unrelated_history() {
    parity(
        "$ git init -q work
         work$ commit one two
         work$ git push -q $URL main
         work$ git checkout -q --orphan other
         work$ git commit -q -m 'another root'
         work!= git push --porcelain $URL other:main
         work$ git push --porcelain -f $URL other:main",
    );
}

#[test]
fn a_plain_push_never_overwrites_what_the_client_lacks() {
    // git sends the push line of a reference that it judged "fetch first" all the same.
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main
         $ git clone -q $URL a
         $ git clone -q $URL b
         a$ commit from-a
         a$ git push --porcelain origin main
         b$ commit from-b
         b!= git push --porcelain origin main
         b!= git push origin main
         b$ git fetch origin
         b!= git push --porcelain origin main
         b$ git merge -q --no-edit origin/main
         b$ git push --porcelain origin main",
    );
}

#[test]
fn some_accepted_some_rejected() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main main:side
         $ git clone -q $URL other
         other$ commit from-other
         other$ git push -q origin main
         work$ commit from-work
         work! git push --porcelain $URL main HEAD:refs/heads/side HEAD:refs/heads/new
         work! git push $URL main HEAD:refs/heads/new2",
    );
}

#[test]
fn what_a_force_push_removed_is_replaced_for_readers() {
    parity(
        "$ git init -q work
         work$ commit one two
         work$ git push -q $URL main
         $ git clone -q $URL reader
         work$ git reset -q --hard main~1
         work$ commit instead
         work$ git push --porcelain -f $URL main
         reader$ git fetch origin
         reader! git pull -q --ff-only
         reader$ git reset -q --hard origin/main",
    );
}
