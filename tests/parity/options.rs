//! What else a push can be told.

use crate::common::{Side, parity};

#[test]
fn dry_run_writes_nothing_and_tells_the_same() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main
         work$ commit two
         work$ git branch new
         work= git push --porcelain --dry-run $URL main new
         work!=? git push --porcelain --dry-run $URL main new :nothing-here
         work= git push -n $URL main new
         work= git push -n --porcelain $URL +main~1:main
         work!=? git push -n --porcelain $URL main~1^{tree}:main
         work$ git reset -q --hard HEAD~1
         work$ commit other
         work$ git push -q $URL main
         work$ git reset -q --hard HEAD~1
         work!= git push -n --porcelain $URL main
         work= git push -n --porcelain --delete $URL main",
    );
}

#[test]
fn a_dry_run_creates_nothing() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one
         work$ git push -n $URL main",
    );
    assert!(crate::common::subject_is_file() || !side.remote.exists());
}

#[test]
fn push_options() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push --porcelain -o ci.skip -o 'quoted \"value\"' $URL main
         work$ commit two
         work$ git -c push.pushOption=always push --porcelain $URL main",
    );
}

#[test]
fn push_option_values_are_not_stored() {
    // They may be secrets: only names may be kept.
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one
         work$ git push -q -o token=hunter2-secret $URL main",
    );
    let bytes = std::fs::read(&side.remote).unwrap_or_default();
    assert!(!bytes.windows(14).any(|window| window == b"hunter2-secret"));
}

#[test]
fn signed_if_asked_is_no_obstacle() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push --porcelain --signed=if-asked $URL main
         work$ commit two
         work$ git -c push.gpgSign=if-asked push --porcelain $URL main
         work$ commit three
         work$ git -c push.gpgSign=if-asked push --porcelain --dry-run $URL main
         work! git push --signed=true $URL main",
    );
}

#[test]
fn settings_of_a_user_who_has_set_everything() {
    parity(
        "$ git init -q work
         work$ commit one
         work$ git tag -m t t
         work$ git config push.gpgSign if-asked
         work$ git config push.followTags true
         work$ git config push.pushOption some
         work$ git config push.default current
         work$ git config push.autoSetupRemote true
         work$ git config push.useForceIfIncludes true
         work$ git config protocol.version 0
         work$ git config transfer.fsckObjects true
         work$ git config fetch.prune true
         work$ git remote add origin $URL
         work$ git push --porcelain
         work$ commit two
         work$ git push --porcelain
         work$ git fetch origin
         $ git -c protocol.version=1 clone -q $URL reader
         $ git -c transfer.fsckObjects=true clone -q $URL checked",
    );
}

#[test]
fn quiet_is_quiet() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ history 200",
    );
    let quiet = side.sandbox.ok("work", "git push -q $URL main");
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    let quiet = side.sandbox.ok("", "git clone -q $URL quiet");
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    let quiet = side.sandbox.ok("quiet", "git fetch -q");
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    side.sandbox.ok("", "git clone --progress $URL shown");
    side.sandbox.ok("work", "git push --progress $URL main:p");
    side.sandbox.ok("work", "git push -v $URL main:v");
    side.sandbox.ok("", "git clone -v -v $URL loud");
}

#[test]
fn a_pre_push_hook_sees_the_references_and_may_push_itself() {
    // A lock taken before the hook runs would wait for itself.
    parity(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main
         work$ git branch other
         work$ commit two
         work$ printf '#!/bin/sh\\ncat >seen\\n[ -n \"$INNER\" ] || INNER=1 git push -q %s other\\n' $URL >.git/hooks/pre-push
         work$ chmod +x .git/hooks/pre-push
         work$ git push --porcelain $URL main
         work$ cat seen
         work$ printf '#!/bin/sh\\nexit 1\\n' >.git/hooks/pre-push
         work$ commit three
         work!= git push $URL main
         work$ git push --no-verify --porcelain $URL main",
    );
}
