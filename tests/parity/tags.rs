//! Light, annotated and nested tags, and the tags that follow.

use crate::common::parity;

#[test]
fn tags_of_every_kind() {
    parity(
        "$ git init -q work
         work$ commit one two
         work$ git tag light
         work$ git tag -m a annotated
         work$ git tag -m n nested annotated
         work$ git tag -m t of-tree main^{tree}
         work$ git tag of-blob main:one.txt
         work$ git push --porcelain $URL main
         work$ git push --porcelain $URL light annotated
         work$ git push --porcelain $URL --tags
         work= git push --porcelain $URL --tags",
    );
}

#[test]
fn a_tag_alone_into_nothing() {
    // Only a tag: the remote's HEAD stays unborn.
    parity(
        "$ git init -q work
         work$ commit one
         work$ git tag -m a v1
         work$ git push --porcelain $URL v1
         work$ git push --porcelain $URL main",
    );
}

#[test]
fn follow_tags_sends_annotated_tags_of_what_is_pushed() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git tag -m a v1
         work$ git tag light
         work$ git checkout -q -b side
         work$ commit two
         work$ git tag -m a v2
         work$ git push --porcelain --follow-tags $URL main
         work$ git -c push.followTags=true push --porcelain $URL side
         work= git push --porcelain --follow-tags $URL main side",
    );
}

#[test]
fn a_moved_tag_is_rejected_without_force() {
    parity(
        "$ git init -q work
         work$ commit one two
         work$ git tag t main~1
         work$ git tag -m a at main~1
         work$ git push -q $URL main t at
         work$ git tag -f t main
         work$ git tag -f -m b at main
         work!= git push --porcelain $URL t
         work!= git push --porcelain $URL at
         work!= git push $URL t at
         work$ git push --porcelain $URL +t
         work$ git push --porcelain --force $URL at",
    );
}

#[test]
fn deleting_tags() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git tag a
         work$ git tag -m b b
         work$ git push -q $URL main a b
         work$ git push --porcelain $URL --delete a
         work$ git push --porcelain $URL :refs/tags/b",
    );
}

#[test]
fn fetched_tags_follow_the_branch() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main
         $ git clone -q $URL reader
         work$ commit two
         work$ git tag -m a v1
         work$ git tag light
         work$ git checkout -q -b side
         work$ commit three
         work$ git tag -m a v2
         work$ git push -q $URL main v1 light v2
         reader$ git fetch origin
         reader$ git tag
         reader$ git fetch --tags origin
         reader$ git tag",
    );
}

#[test]
fn no_tags_when_asked_for_none() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git tag -m a v1
         work$ git push -q $URL main v1
         $ git clone -q --no-tags $URL reader
         reader$ git tag
         work$ commit two
         work$ git tag -m a v2
         work$ git push -q $URL main v2
         reader$ git fetch --no-tags origin
         reader$ git tag",
    );
}

#[test]
fn a_tag_in_the_way_is_told() {
    parity(
        "$ git init -q work
         work$ commit one two
         work$ git tag t main
         work$ git push -q $URL main t
         $ git clone -q $URL reader
         work$ git tag -f t main~1
         work$ git push -q -f $URL t
         reader! git fetch --tags origin
         reader$ git fetch --tags --force origin",
    );
}
