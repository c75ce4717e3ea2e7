//! What is no archive, or cannot be read or written: one clear line, the right code, and nothing changed.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::{
    common::{Sandbox, fingerprint, not_run},
    fixture::{assert_one_error, fixture},
};

/// What reads an archive, and what writes one.
const READERS: [&str; 4] = ["info", "refs list", "refs head", "refs get"];
const WRITERS: [&str; 3] = ["refs head", "refs cas", "refs update --stdin"];

fn arguments(verb: &str, write: bool) -> &'static str {
    match (verb, write) {
        ("refs get", _) => "HEAD",
        ("refs head", true) => "side",
        ("refs cas", _) => "refs/heads/new '' $main",
        _ => "",
    }
}

/// Runs each verb on `path`; each fails with one of `codes` and names the path.
#[track_caller]
fn all_fail(s: &Sandbox, path: &str, codes: &[i32]) {
    for (verbs, write) in [(&READERS[..], false), (&WRITERS[..], true)] {
        for verb in verbs {
            fails(s, path, verb, write, codes);
        }
    }
}

#[track_caller]
fn fails(s: &Sandbox, path: &str, verb: &str, write: bool, codes: &[i32]) {
    let before = fingerprint(&s.path(path));
    let input = "echo create refs/heads/new $main |";
    let ran = s.fails(
        "",
        &format!("{input} $AS znippy -q {verb} {path} {}", arguments(verb, write)),
    );
    assert!(
        codes.contains(&ran.code),
        "{verb} {path}: exit code {} {}",
        ran.code,
        ran.stderr
    );
    assert_one_error(&ran.stderr, path.trim_end_matches('/'));
    assert!(before == fingerprint(&s.path(path)), "{verb} {path} changed something");
}

#[test]
fn a_missing_file() {
    let s = fixture("sha1");
    all_fail(&s, "missing", &[3]);
    all_fail(&s, "no/such/directory/missing", &[3]);
    assert!(!s.path("missing").exists() && !s.path("missing.znippy").exists() && !s.path("no").exists());
    // A file in the place of a directory is as wrong as none.
    let ran = s.fails("", "znippy info app.znippy/below");
    assert!([3, 128].contains(&ran.code), "{}", ran.code);
    assert_one_error(&ran.stderr, "app.znippy/below");
}

#[test]
fn a_directory() {
    let s = fixture("sha1");
    fs::create_dir(s.path("dir")).unwrap();
    fs::create_dir(s.path("dir2.znippy")).unwrap();
    for path in ["dir", "dir/", "dir2.znippy", "dir2", "bare.git"] {
        all_fail(&s, path, &[3]);
    }
}

#[test]
fn another_kind_of_file() {
    let s = fixture("sha1");
    s.ok(
        "",
        ": >empty && echo short >short && head -c 300000 /dev/urandom >random && head -c 300000 /dev/zero >zeros",
    );
    s.ok("", "git -C bare.git bundle create -q ../bundle --all && printf 'ARROW1\\0\\0' >arrow && head -c 20000 /dev/zero >>arrow");
    for path in ["empty", "short", "random", "zeros", "bundle", "arrow"] {
        all_fail(&s, path, &[3]);
    }
}

#[test]
fn a_special_file_does_not_hang() {
    let s = fixture("sha1");
    s.ok("", "mkfifo fifo");
    let input = "echo create refs/heads/new $main |";
    for (path, code) in [("fifo", 3), ("/dev/null", 3), ("/dev/zero", 3)] {
        let ran = s.fails("", &format!("{input} znippy info {path}"));
        assert_eq!(ran.code, code, "{path}: {}", ran.stderr);
        assert_one_error(&ran.stderr, path);
        assert_eq!(
            s.fails("", &format!("{input} znippy refs update --stdin {path}")).code,
            code,
            "{path}"
        );
    }
}

#[test]
fn a_truncated_file() {
    let s = fixture("sha1");
    let whole = fs::read(s.path("app.znippy")).unwrap();
    let cuts = (0..50)
        .map(|n| whole.len() * n / 50)
        .chain([8, 4095, 4096, 8192, 12288, whole.len() - 1]);
    for cut in cuts {
        fs::write(s.path("cut.znippy"), &whole[..cut.min(whole.len())]).unwrap();
        for (verb, write) in [("info", false), ("refs list", false), ("refs cas", true)] {
            fails(&s, "cut.znippy", verb, write, &[3, 5]);
        }
    }
}

/// Lets `$AS` run a program as a user who may not read and write everything; `false` where that is impossible.
fn lose_privileges(s: &Sandbox) -> bool {
    if rustix::process::geteuid().is_root() {
        s.set("AS", "setpriv --reuid=65534 --regid=65534 --clear-groups");
    }
    s.ok("", "chmod 755 . .bin && chmod -R o+rX .home");
    s.sh("", "$AS znippy version && $AS cat app.znippy >/dev/null").code == 0
}

#[test]
fn a_file_without_permission() {
    let s = fixture("sha1");
    if !lose_privileges(&s) {
        return not_run(
            "a_file_without_permission",
            "no way to become another user who can run the program",
        );
    }
    let app = s.path("app.znippy");
    fs::set_permissions(&app, fs::Permissions::from_mode(0o000)).unwrap();
    all_fail(&s, "app.znippy", &[128]);
    fs::set_permissions(&app, fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(s.ok("", "$AS znippy info app").stderr, "");
    for verb in WRITERS {
        fails(&s, "app.znippy", verb, true, &[128]);
    }
    // A directory that nobody may look into is no missing archive.
    s.ok("", "mkdir closed && cp app.znippy closed && chmod 000 closed");
    fails(&s, "closed/app", "info", false, &[128]);
    s.ok("", "chmod 755 closed");
    let ran = s.fails("", "$AS znippy init closed/new");
    assert_eq!(ran.code, 128);
    assert_one_error(&ran.stderr, "closed/new");
}

#[test]
fn a_damaged_head_or_tail_never_panics() {
    let s = fixture("sha1");
    let whole = fs::read(s.path("app.znippy")).unwrap();
    for n in 0..120 {
        let at = if n < 60 {
            n * 211
        } else {
            whole.len() - 1 - (n - 60) * 17
        };
        let mut bytes = whole.clone();
        for byte in &mut bytes[at..(at + 5).min(whole.len())] {
            *byte ^= 0x5a;
        }
        fs::write(s.path("bad.znippy"), &bytes).unwrap();
        for verb in ["info", "refs list"] {
            let ran = s.sh("", &format!("znippy {verb} bad.znippy"));
            assert!(
                [0, 3, 5].contains(&ran.code),
                "{verb}, byte {at}: {} {}",
                ran.code,
                ran.stderr
            );
            if ran.code != 0 {
                assert_one_error(ran.stderr.lines().last().unwrap(), "bad.znippy");
            }
        }
    }
}
