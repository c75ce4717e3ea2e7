//! When a push creates an archive, and when a missing one is an error.

use crate::common::{Side, subject_is_file};

fn client() -> Option<Side> {
    if subject_is_file() {
        return None;
    }
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one
         work$ git remote add origin $URL",
    );
    Some(side)
}

#[test]
fn only_a_push_creates() {
    let Some(side) = client() else { return };
    side.play(
        "work! git fetch origin
         work! git ls-remote origin
         work! git pull origin main
         work! git remote show origin
         work! git push origin nothing
         work! git push origin :main",
    );
    assert!(!side.remote.exists());
    side.play("work$ git push -q origin main");
    assert!(side.remote.exists());
}

#[test]
fn r14_a_remote_that_worked_and_is_gone_is_not_created_again() {
    // The disk is not mounted: a new archive in the empty mount point would hide behind the real one.
    let Some(side) = client() else { return };
    side.play(
        "work$ git push -q origin main
         $ mv remote.znippy away
         work$ commit two",
    );
    let ran = side.sandbox.fails("work", "git push origin main");
    assert!(
        ran.stderr.contains("mounted") && ran.stderr.contains("remote.znippy"),
        "{}",
        ran.stderr
    );
    assert!(!side.remote.exists());
    side.play(
        "$ mv away remote.znippy
         work$ git push -q origin main",
    );
}

#[test]
fn r14_another_archive_in_its_place_is_an_error() {
    let Some(side) = client() else { return };
    side.play(
        "work$ git push -q origin main
         $ mv remote.znippy away
         $ git init -q other
         other$ commit other
         other$ git push -q $URL main:refs/heads/other
         work$ commit two",
    );
    let before = crate::common::fingerprint(&side.remote);
    let ran = side.sandbox.fails("work", "git push origin main");
    assert!(ran.stderr.contains("remote.znippy"), "{}", ran.stderr);
    assert!(before == crate::common::fingerprint(&side.remote));
}

#[test]
fn r14_a_setting_forbids_creation() {
    let Some(side) = client() else { return };
    let ran = side
        .sandbox
        .fails("work", "git -c znippy.create=never push origin main");
    assert!(ran.stderr.contains("remote.znippy"), "{}", ran.stderr);
    assert!(!side.remote.exists());
}

#[test]
fn a_push_that_is_rejected_or_fails_creates_nothing() {
    let Some(side) = client() else { return };
    side.play("work!? git push origin main:refs/heads/a..b");
    side.play("work!? git push origin main:refs/heads/x main:refs/heads/x/y --atomic");
    assert!(!side.remote.exists());
}

#[test]
fn modes_follow_the_umask_and_stay() {
    use std::os::unix::fs::PermissionsExt;
    let Some(side) = client() else { return };
    let mode = || side.remote.metadata().unwrap().permissions().mode() & 0o777;
    side.sandbox.ok("work", "umask 027 && git push -q origin main");
    assert_eq!(mode(), 0o640);
    side.sandbox.ok(
        "work",
        "chmod 664 ../remote.znippy && umask 077 && commit two && git push -q origin main",
    );
    assert_eq!(mode(), 0o664);
}

#[test]
fn archives_with_one_base_name_do_not_meet() {
    let Some(side) = client() else { return };
    side.play(
        "$ mkdir one two
         $ git init -q other
         other$ commit other
         work$ git push -q znippy::$A/one/app main
         other$ git push -q znippy::$A/two/app main",
    );
    let tip = |dir: &str| side.sandbox.ok(dir, "git rev-parse main").stdout;
    let listed = |dir: &str| {
        side.sandbox
            .ok("", &format!("git ls-remote znippy::$A/{dir}/app refs/heads/main"))
            .stdout
    };
    assert!(listed("one").starts_with(tip("work").trim()) && listed("two").starts_with(tip("other").trim()));
}

#[test]
fn an_empty_repository_can_be_kept_too() {
    let Some(side) = client() else { return };
    side.play(
        "$ znippy init -b trunk $A/empty.znippy
         $ git clone -q znippy::$A/empty.znippy back
         back$ git fetch
         back$ git ls-remote",
    );
}

#[test]
fn a_copy_is_an_archive_of_its_own() {
    let Some(side) = client() else { return };
    side.play(
        "work$ git push -q origin main
         $ cp remote.znippy copy.znippy
         work$ commit two
         work$ git push -q origin main
         work$ git push -q znippy::$A/copy.znippy main:refs/heads/elsewhere
         $ git clone -q --mirror znippy::$A/copy.znippy copy.git
         copy.git$ git fsck --full --strict",
    );
}

#[test]
fn a_copy_taken_while_pushes_run_is_an_archive() {
    let Some(side) = client() else { return };
    side.sandbox.ok("work", "git push -q origin main");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let copier = scope.spawn(|| {
            for i in 0.. {
                let last = done.load(std::sync::atomic::Ordering::Relaxed);
                side.sandbox.ok("", &format!("cp remote.znippy copy{i}.znippy"));
                side.sandbox.ok(
                    "",
                    &format!("git clone -q --mirror znippy::$A/copy{i}.znippy copy{i}.git"),
                );
                side.sandbox
                    .ok("", &format!("git -C copy{i}.git fsck --full && rm -r copy{i}.*"));
                if last {
                    break;
                }
            }
        });
        for step in 0..25 {
            side.sandbox
                .ok("work", &format!("history 3 main s{step} && git push -q origin main"));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        copier.join().unwrap();
    });
}
