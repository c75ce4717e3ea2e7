//! Pushing and deleting branches by name.

use crate::common::parity;

#[test]
fn the_first_push_of_one_branch() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push --porcelain $URL main
         work= git push --porcelain $URL main",
    );
}

#[test]
fn the_first_push_tells_a_new_branch() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git remote add origin $URL
         work$ git push -u origin main
         work$ git status -sb
         work$ git rev-parse --abbrev-ref @{u}",
    );
}

#[test]
fn fast_forwards_one_after_the_other() {
    parity(
        "$ git init -q work
         work$ git remote add origin $URL
         work$ commit one
         work$ git push origin main
         work$ commit two
         work$ git push origin main
         work$ commit three four
         work$ git push origin main
         work$ git log --oneline origin/main",
    );
}

#[test]
fn several_branches_in_one_push() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git branch a
         work$ git branch b
         work$ commit two
         work$ git push --porcelain $URL main a b:other
         work$ commit three
         work$ git push --porcelain $URL main a :other HEAD:refs/heads/new",
    );
}

#[test]
fn all_branches_and_matching_branches() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git branch a
         work$ git push --all $URL
         work$ commit two
         work$ git branch not-there
         work$ git push $URL :
         work$ git push --all $URL",
    );
}

#[test]
fn deletes_one_and_several() {
    parity(
        "$ git init -q work
         work$ git remote add origin $URL
         work$ commit one
         work$ git branch a
         work$ git branch b
         work$ git branch c
         work$ git tag t
         work$ git push -q origin main a b c t
         work$ git push origin --delete a
         work$ git push --porcelain origin --delete b c t
         work$ git branch -r",
    );
}

#[test]
fn deleting_what_does_not_exist_fails_and_changes_nothing() {
    parity(
        "$ git init -q work
         work$ git remote add origin $URL
         work$ commit one
         work$ git branch a
         work$ git push -q origin main a
         work!= git push origin --delete nothing
         work!? git push origin :refs/heads/nothing2 --delete a nothing
         work$? git push origin :refs/heads/nothing",
    );
}

#[test]
fn r10_a_name_may_become_a_directory_of_names_in_one_push() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git branch a
         work$ git push -q --mirror $URL
         work$ git branch -D a
         work$ git branch a/b
         work$? git push --mirror $URL
         work$ git branch -D a/b
         work$ git branch a
         work$? git push --mirror $URL",
    );
}

#[test]
fn r10_a_name_below_a_name_is_refused() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git branch a
         work$ git push -q $URL main a
         work!= git push --porcelain $URL main:refs/heads/a/b
         work!= git push --porcelain $URL main:refs/heads/main/x
         work$ git push --porcelain $URL main:refs/heads/other/x
         work!= git push --porcelain $URL main:refs/heads/other",
    );
}

#[test]
fn pushing_a_commit_by_its_id_and_a_detached_head() {
    parity(
        "$ git init -q work
         work$ commit one two
         work$ git push --porcelain $URL main
         work$ git push --porcelain $URL main~1:refs/heads/by-id
         work$ git checkout -q --detach main
         work$ git push --porcelain $URL HEAD:refs/heads/detached
         work! git push --porcelain $URL HEAD:unqualified",
    );
}

#[test]
fn an_unknown_source_is_an_error_before_anything_happens() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main
         work!= git push $URL nothing
         work!= git push $URL main nothing",
    );
}

#[test]
fn r10_a_branch_may_only_point_at_a_commit() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main
         work!= git push --porcelain $URL main:one.txt:refs/heads/blob
         work!=? git push $URL $(git rev-parse main:one.txt):refs/heads/blob
         work!=? git push $URL $(git rev-parse main^{tree}):refs/heads/tree",
    );
}

#[test]
fn unrelated_and_empty_commits() {
    parity(
        "$ git init -q work
         work$ git commit -q --allow-empty -m 'first and empty'
         work$ git push --porcelain $URL main
         work$ git commit -q --allow-empty -m 'second and empty'
         work$ git push --porcelain $URL main
         work$ git checkout -q --orphan root2
         work$ git commit -q --allow-empty -m 'another root'
         work$ git push --porcelain $URL root2",
    );
}
