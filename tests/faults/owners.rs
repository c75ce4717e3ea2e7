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
