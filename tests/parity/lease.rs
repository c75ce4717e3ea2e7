//! `--force-with-lease`: permission to overwrite exactly one known value.

use crate::common::parity;

/// Two clients of one remote; `b` has moved `main` on after `a` looked.
const DIVERGED: &str = "$ git init -q work
    work$ commit one two
    work$ git push -q $URL main main:side
    $ git clone -q $URL a
    $ git clone -q $URL b
    b$ commit from-b
    b$ git push -q origin main
    a$ git commit -q --amend -m amended
    ";

#[test]
fn a_rewind_with_a_good_lease() {
    parity(
        "$ git init -q work
         work$ commit one two
         work$ git push -q $URL main
         $ git clone -q $URL a
         a$ git commit -q --amend -m amended
         a! git push --porcelain origin main
         a$ git push --porcelain --force-with-lease origin main
         a$ git reset -q --hard HEAD~1
         a$ git push --porcelain --force-with-lease=main:origin/main origin main
         a$ git commit -q --allow-empty -m more
         a$ git push --porcelain --force-with-lease=main origin main",
    );
}

#[test]
fn a_stale_lease_changes_nothing() {
    parity(&format!(
        "{DIVERGED}
         a!= git push --porcelain --force-with-lease origin main
         a!= git push --porcelain --force-with-lease=main:origin/main origin main
         a!= git push --porcelain --force-with-lease=main:HEAD~1 origin main
         a! git push --porcelain --force-with-lease origin main HEAD:refs/heads/new"
    ));
}

#[test]
fn a_lease_on_a_new_reference() {
    parity(&format!(
        "{DIVERGED}
         a$ git push --porcelain --force-with-lease=new: origin HEAD:refs/heads/new
         a! git push --porcelain --force-with-lease=new: origin HEAD~1:refs/heads/new
         a!= git push --porcelain --force-with-lease=main: origin main"
    ));
}

#[test]
fn a_lease_on_a_deletion() {
    parity(&format!(
        "{DIVERGED}
         a!= git push --porcelain --force-with-lease=main:origin/main origin :main
         a$ git push --porcelain --force-with-lease=side:origin/side origin :side"
    ));
}

#[test]
fn force_if_includes() {
    parity(&format!(
        "{DIVERGED}
         a$ git fetch -q origin
         a!= git push --porcelain --force-with-lease --force-if-includes origin main
         a$ git merge -q --no-edit origin/main
         a$ git commit -q --amend -m again
         a$ git push --porcelain --force-with-lease --force-if-includes origin main"
    ));
}
