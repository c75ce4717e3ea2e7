//! Owners and modes.

use crate::common::{Sandbox, not_run};

/// An archive has the mode that the umask gives, and keeps it through pushes and gc.
#[test]
fn the_umask_decides_the_mode() {
    for (umask, mode) in [("077", "600"), ("002", "664"), ("022", "644")] {
        let s = Sandbox::new();
        s.ok("", "git init -q work");
        s.ok(
            "work",
            &format!("umask {umask} && commit one && git push -q \"znippy::$A/app\" main && commit two"),
        );
        assert_eq!(s.ok("", "stat -c %a app.znippy").text(), mode);
        s.ok("work", "git push -q \"znippy::$A/app\" main && git push -q \"znippy::$A/app\" main:two && git push -q \"znippy::$A/app\" :two");
        s.ok("", "znippy gc app");
        assert_eq!(s.ok("", "stat -c %a app.znippy").text(), mode);
    }
}

/// Somebody else's archive can be read, and a push says that it may not write.
#[test]
fn an_archive_of_another_user_is_read() {
    const TEST: &str = "an_archive_of_another_user_is_read";
    let s = Sandbox::new();
    let other = "setpriv --reuid=54321 --regid=54321 --clear-groups";
    if s.sh("", &format!("{other} true")).code != 0 {
        return not_run(TEST, "needs root, to become another user");
    }
    s.ok("", "git init -q work");
    s.ok("work", "commit one && git push -q \"znippy::$A/app\" main");
    s.ok(
        "",
        "chmod 755 . && chmod 644 app.znippy && mkdir theirs && cp -r work theirs/ && chown -R 54321:54321 theirs",
    );
    if s.sh("", &format!("{other} znippy version")).code != 0 {
        return not_run(TEST, "another user cannot run the program where it was built");
    }
    let env = "export HOME=$A/theirs TMPDIR=$A/theirs GIT_CONFIG_GLOBAL=/dev/null";
    s.ok(
        "",
        &format!(
            "{env}; {other} git clone -q \"znippy::$A/app\" theirs/copy && {other} git -C theirs/copy fsck --full"
        ),
    );
    s.ok(
        "",
        &format!(
            "{env}; {other} sh -c 'cd theirs/work && git -c user.name=x -c user.email=x commit -q --allow-empty -m two'"
        ),
    );
    let ran = s.fails(
        "",
        &format!("{env}; {other} git -C theirs/work push \"znippy::$A/app\" main"),
    );
    assert!(
        ran.stderr.contains("app.znippy") && ran.stderr.contains("Permission denied"),
        "{}",
        ran.stderr
    );
}

/// Two users of one group push to one archive, as on a share; each gc leaves owner, group and mode as they were, or the archive.
#[test]
fn two_users_of_a_group_share_an_archive() {
    const TEST: &str = "two_users_of_a_group_share_an_archive";
    let s = Sandbox::new();
    let user = |uid: u32| format!("setpriv --reuid={uid} --regid=54321 --clear-groups");
    if s.sh("", &format!("{} true", user(54321))).code != 0 {
        return not_run(TEST, "needs root, to become another user");
    }
    s.ok(
        "",
        "chmod 755 . .bin && mkdir share && chown 54321:54321 share && chmod 2775 share",
    );
    for uid in [54321, 54322] {
        s.ok("", &format!("git init -q {uid} && cd {uid} && commit base c{uid} && mkdir .home .tmp && cd .. && chown -R {uid}:54321 {uid}"));
    }
    if s.sh("", &format!("{} znippy version", user(54321))).code != 0 {
        return not_run(TEST, "another user cannot run the program where it was built");
    }
    let as_user = |uid: u32, line: &str| {
        let env = format!("export HOME=$A/{uid}/.home TMPDIR=$A/{uid}/.tmp GIT_CONFIG_GLOBAL=/dev/null; umask 002");
        s.sh("", &format!("{env}; {} {line}", user(uid)))
    };
    let push = |uid: u32, branch: &str| {
        as_user(
            uid,
            &format!("git -C {uid} push -q \"znippy::$A/share/app\" main:{branch}"),
        )
    };
    let mode = || s.ok("", "stat -c '%u %g %a' share/app.znippy").text().to_owned();
    for (uid, branch) in [(54321, "main"), (54322, "b"), (54321, "c")] {
        assert_eq!(push(uid, branch).code, 0, "{}", push(uid, branch).stderr);
        assert_eq!(mode(), "54321 54321 664");
    }
    // Who cannot give a file away must not take the archive's place with his own.
    let ran = as_user(54322, "znippy gc --force share/app");
    assert!(
        ran.code != 0 && ran.stderr.contains("belongs to user 54321"),
        "{}",
        ran.stderr
    );
    assert_eq!(as_user(54321, "znippy gc --force share/app").code, 0);
    assert_eq!(mode(), "54321 54321 664");
    s.ok("", "umask 077 && znippy gc --force share/app");
    assert_eq!(mode(), "54321 54321 664");
    assert_eq!(push(54322, "d").code, 0);
    assert_eq!(
        as_user(54322, "git clone -q \"znippy::$A/share/app\" 54322/copy").code,
        0
    );
    s.ok(
        "",
        "znippy verify --full share/app && test \"$(ls -A share)\" = app.znippy",
    );
    assert_eq!(
        s.ok("", "git ls-remote -q --heads znippy::share/app | wc -l").text(),
        "4"
    );
}
