//! Whose archives are copied without hashing every object again.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::common::{Sandbox, not_run};

/// An archive of a push, and whether a clone of it hashes all objects, as its `-v` tells.
fn sandbox() -> Sandbox {
    let s = Sandbox::new();
    s.ok(
        "",
        "git init -q work && cd work && commit one two && git push -q \"znippy::$A/app\" main",
    );
    s
}

fn is_checked(s: &Sandbox) -> bool {
    let ran = s.ok(
        "",
        "rm -rf copy && git clone -v \"znippy::$A/app\" copy && git -C copy fsck --full --strict",
    );
    ran.stderr.contains("every object is checked")
}

/// Returns whether files here can be trusted at all.
fn runs(s: &Sandbox, test: &str) -> bool {
    let runs = !is_checked(s);
    if !runs {
        not_run(test, "the file system of the tests does not vouch for owners");
    }
    runs
}

/// R23.
#[test]
fn r23_an_archive_that_others_may_write_is_hashed_unless_it_is_trusted() {
    let s = sandbox();
    if !runs(&s, "trust::an_archive_that_others_may_write") {
        return;
    }
    fs::set_permissions(s.path("app.znippy"), fs::Permissions::from_mode(0o664)).unwrap();
    assert!(is_checked(&s));
    s.ok("", "znippy trust app");
    assert!(!is_checked(&s));
    let uuid = s.ok(
        "",
        "znippy info --json app | sed 's/.*\"uuid\":\"\\([^\"]*\\)\".*/\\1/'",
    );
    let listed = s.ok("", "znippy trust --list");
    assert_eq!(
        listed.text(),
        format!("{} {}/app.znippy", uuid.text(), s.root().display())
    );
    assert!(s.ok("", "znippy trust --list --json").stdout.contains("\"path\":"));
    s.ok("", "znippy trust --remove app");
    assert!(is_checked(&s));
    assert_eq!(s.fails("", "znippy trust --remove app").code, 1);
    assert_eq!(s.ok("", "znippy trust --list").stdout, "");
    s.ok("", &format!("git config --global znippy.trust {}", uuid.text()));
    assert!(!is_checked(&s));
    s.ok(
        "",
        "git config --global --unset znippy.trust && znippy trust app && mv app.znippy gone.znippy",
    );
    s.ok("", &format!("znippy trust --remove {}", uuid.text()));
}

/// R23: who may write the list could trust himself.
#[test]
fn r23_a_list_that_others_may_write_is_not_used() {
    let s = sandbox();
    if !runs(&s, "trust::a_list_that_others_may_write") {
        return;
    }
    fs::set_permissions(s.path("app.znippy"), fs::Permissions::from_mode(0o666)).unwrap();
    s.ok("", "znippy trust app");
    assert!(!is_checked(&s));
    let list = s.path(".home/config/znippy/trusted");
    fs::set_permissions(&list, fs::Permissions::from_mode(0o622)).unwrap();
    assert!(is_checked(&s));
    s.fails("", "znippy trust --list");
}

/// R23: an access control list gives to others what the mode does not show.
#[test]
fn r23_an_access_control_list_counts() {
    let s = sandbox();
    let set = s.sh("", "setfacl -m u:65533:rw app.znippy");
    if set.code != 0 {
        not_run(
            "trust::an_access_control_list_counts",
            "there is no setfacl here, or the disk has no such lists",
        );
        return;
    }
    assert!(is_checked(&s));
    s.ok("", "setfacl -m u:65533:r app.znippy");
    if runs(&s, "trust::an_access_control_list_counts") {
        s.ok("", "setfacl -m g:65533:rw app.znippy");
        assert!(is_checked(&s));
    }
}

/// R23: root is no exception.
#[test]
fn r23_an_archive_of_another_user_is_hashed_by_root_too() {
    let s = sandbox();
    if s.ok("", "id -u").text() != "0" {
        not_run("trust::an_archive_of_another_user", "only root can give a file away");
        return;
    }
    if !runs(&s, "trust::an_archive_of_another_user") {
        return;
    }
    s.ok("", "chown 65533 app.znippy");
    assert!(is_checked(&s));
    s.ok("", "chown 65534 app.znippy");
    assert!(is_checked(&s));
}

/// Objects under wrong names do not get in, and nothing is said to be connected that is not.
#[test]
fn r23_a_forged_archive_is_refused() {
    let s = sandbox();
    // The same length, another content: the pack's hash and the table's names stay.
    let before = fs::read(s.path("app.znippy")).unwrap();
    let pack = before.windows(4).position(|window| window == b"PACK").unwrap();
    let mut forged = before.clone();
    forged[pack + 40] ^= 0xff;
    fs::write(s.path("app.znippy"), &forged).unwrap();
    fs::set_permissions(s.path("app.znippy"), fs::Permissions::from_mode(0o666)).unwrap();
    s.fails("", "git clone -q \"znippy::$A/app\" copy");
    assert!(!s.path("copy").exists());
}

/// `fsckObjects` is honoured, with git's own levels of severity.
#[test]
fn objects_that_fsck_refuses_do_not_get_in() {
    let s = sandbox();
    s.ok(
        "work",
        "printf 'tree %s\\nauthor a <a@b> 1 +0000\\ncommitter a <a@b> 1 +000\\n\\nm\\n' $(git rev-parse HEAD^{tree}) >../c &&
         git update-ref refs/heads/bad $(git hash-object -t commit --literally -w ../c) && git push -q \"znippy::$A/app\" bad",
    );
    for key in ["fetch.fsckObjects", "transfer.fsckObjects"] {
        let clone = format!("rm -rf copy && git -c {key}=true");
        s.fails("", &format!("{clone} clone -q \"znippy::$A/app\" copy"));
        s.ok(
            "",
            &format!("{clone} -c fetch.fsck.badTimezone=ignore clone -q \"znippy::$A/app\" copy"),
        );
        let ran = s.ok(
            "",
            &format!(
                "{clone} -c fetch.fsck.badTimezone=warn -c fetch.fsck.nonsense=warn clone \"znippy::$A/app\" copy"
            ),
        );
        assert!(
            ran.stderr.contains("Skipping unknown msg id 'nonsense'"),
            "{}",
            ran.stderr
        );
        s.ok("", &format!("git -C work rev-parse bad >.home/skip && {clone} -c fetch.fsck.skipList='~/skip' clone -q \"znippy::$A/app\" copy"));
        s.fails(
            "",
            &format!("{clone} -c fetch.fsck.skipList='~/nothing' clone -q \"znippy::$A/app\" copy"),
        );
        s.ok("", &format!("{clone} clone -q --single-branch \"znippy::$A/app\" copy"));
    }
    s.ok(
        "",
        "rm -rf copy && git -c transfer.fsckObjects=true -c fetch.fsckObjects=false clone -q \"znippy::$A/app\" copy",
    );
}
