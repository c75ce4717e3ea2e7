//! `git ls-remote` and `git remote`.

use crate::common::parity;

const RICH: &str = "$ rich work
    work$ git push -q --mirror $URL
    ";

#[test]
fn ls_remote_in_all_its_forms() {
    parity(&format!(
        "{RICH}
         $ git ls-remote $URL
         $ git ls-remote --symref $URL
         $ git ls-remote --symref $URL HEAD
         $ git ls-remote --heads $URL
         $ git ls-remote --tags $URL
         $ git ls-remote --refs $URL
         $ git ls-remote $URL main
         $ git ls-remote $URL 'refs/heads/extra/*' 'v*'
         $ git ls-remote --sort=-refname --heads $URL
         $ git ls-remote --exit-code $URL main
         ! git ls-remote --exit-code $URL nothing
         work$ git ls-remote -q --get-url $URL"
    ));
}

#[test]
fn ls_remote_of_sha256_outside_a_repository() {
    crate::common::Parity::new().format("sha256").run(&format!(
        "{RICH}
         $ git ls-remote $URL
         $ git ls-remote --tags $URL"
    ));
}

#[test]
fn remote_show_prune_and_set_head() {
    parity(&format!(
        "{RICH}
         $ git clone -q $URL reader
         reader$ git remote show origin
         work$ git push -q $URL :extra/a side:refs/heads/fresh
         reader$ git remote show origin
         reader$ git remote prune -n origin
         reader$ git remote prune origin
         reader$ git remote set-head origin side
         reader$ git remote set-head origin -a
         reader$ git remote set-head origin -d
         reader$ git remote update
         reader$ git remote -v"
    ));
}

#[test]
fn a_remote_can_be_changed_and_removed() {
    parity(&format!(
        "{RICH}
         $ git init -q reader
         reader$ git remote add -f -t side origin $URL
         reader$ git remote set-branches --add origin main
         reader$ git fetch origin
         reader$ git remote set-url origin $URL
         reader$ git remote remove origin"
    ));
}
