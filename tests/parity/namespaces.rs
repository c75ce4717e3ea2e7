//! References outside heads and tags, and odd names.

use crate::common::parity;

#[test]
fn notes() {
    parity(
        "$ git init -q work
         work$ commit one two
         work$ git notes add -m note main
         work$ git push --porcelain $URL main refs/notes/commits
         work$ git notes add -m note main~1
         work$ git push --porcelain $URL refs/notes/*:refs/notes/*
         $ git clone -q $URL reader
         reader$ git fetch origin refs/notes/commits:refs/notes/commits
         reader$ git log --format=%N",
    );
}

#[test]
fn any_namespace() {
    parity(
        "$ git init -q work
         work$ commit one two
         work$ git push --porcelain $URL main:refs/pull/1/head main~1:refs/x/y/z main:refs/for/review main
         work$ git push --porcelain $URL main~1:refs/backup/host1/heads/main
         work$ git push --porcelain $URL :refs/x/y/z
         $ git clone -q $URL reader
         reader$ git fetch origin refs/pull/1/head
         reader$ git rev-parse FETCH_HEAD
         reader$ git fetch origin 'refs/pull/*/head:refs/remotes/origin/pr/*'",
    );
}

#[test]
fn trees_and_blobs_outside_heads() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push --porcelain $URL main $(git rev-parse main^{tree}):refs/trees/t $(git rev-parse main:one.txt):refs/blobs/b",
    );
}

#[test]
fn names_in_unicode_and_latin_1() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git update-ref 'refs/heads/ünïcödé/日本' main
         work$ git update-ref \"$(printf 'refs/heads/latin-\\351')\" main
         work$ git update-ref 'refs/heads/a+b%41&c=d;e!f(g)' main
         work$ git push --porcelain $URL 'refs/heads/*:refs/heads/*'
         $ git clone -q $URL reader
         reader$ git branch -r
         work$ git push --porcelain $URL \":$(printf 'refs/heads/latin-\\351')\"",
    );
}

#[test]
fn a_long_name() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main main:refs/heads/$(printf '%0200d' 0)/$(printf '%0200d' 1)",
    );
}

#[test]
fn invalid_names_are_refused() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main
         work!= git push $URL main:refs/heads/a..b
         work!= git push $URL main:refs/heads/x.lock
         work!= git push $URL 'main:refs/heads/sp ace'
         work!= git push $URL main:refs/heads/.dot
         work!=? git push $URL main:refs/outside/a.lock/b",
    );
}

#[test]
fn prune_deletes_what_the_pushed_namespace_no_longer_has() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git branch a
         work$ git branch b
         work$ git tag keep
         work$ git push -q --mirror $URL
         work$ git branch -D a
         work$ git tag -d keep
         work$ git push --porcelain --prune $URL 'refs/heads/*:refs/heads/*'
         work$ git push --porcelain --prune $URL 'refs/heads/*:refs/copy/*'
         work$ git branch -D b
         work$ git push --porcelain --prune $URL 'refs/heads/*:refs/copy/*'
         work= git push --porcelain --prune $URL 'refs/heads/*:refs/copy/*'",
    );
}

#[test]
fn negative_and_pattern_refspecs() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git branch keep/a
         work$ git branch drop/a
         work$ git push --porcelain $URL 'refs/heads/*:refs/heads/*' '^refs/heads/drop/*'
         $ git clone -q $URL reader
         reader$ git fetch --porcelain origin 'refs/heads/*:refs/all/*' '^refs/heads/main' || git fetch origin 'refs/heads/*:refs/all/*' '^refs/heads/main'",
    );
}
