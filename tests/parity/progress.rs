//! What a waiting user sees: `--progress`, `-q`, `-v`.
//!
//! Phases are made long by a git that takes its time: what it is asked for tells which phase the helper is in.

use std::os::unix::fs::PermissionsExt;

use crate::common::{Side, subject_is_file, test_git};

/// Lets `git <word>` take longer than progress may keep a user waiting, when the helper runs it.
fn slow_down(side: &Side, word: &str) {
    let path = side.sandbox.path(".bin/git");
    std::fs::remove_file(&path).unwrap();
    let git = test_git().display().to_string();
    let script = format!("#!/bin/sh\ncase \" $* \" in *\" {word} \"*) sleep 2.2 ;; esac\nexec {git} \"$@\"\n");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    // Without its own directory first on the path, git finds the script as the helper does.
    side.sandbox.set(
        "GIT_EXEC_PATH",
        side.sandbox.ok("", &format!("{git} --exec-path")).text(),
    );
}

/// Runs a helper conversation with progress on or off, and returns what the user sees.
fn seen(side: &Side, dir: &str, options: &str, lines: &str) -> String {
    let talk = format!("capabilities\n{options}option object-format true\n{lines}");
    std::fs::write(side.sandbox.path("talk"), talk).unwrap();
    let git_dir = if side.sandbox.path(dir).join(".git").exists() {
        ".git"
    } else {
        "."
    };
    let line = format!(
        "GIT_DIR={git_dir} git-remote-znippy origin {} <$A/talk",
        side.remote.display()
    );
    side.sandbox.ok(dir, &line).stderr
}

const LOUD: &str = "option progress true\noption verbosity 1\n";
const QUIET: &str = "option progress true\noption verbosity 0\n";
const SILENT: &str = "option progress false\noption verbosity 1\n";

fn prepared() -> Option<Side> {
    if subject_is_file() {
        return None;
    }
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one two
         work$ git push -q $URL main
         $ git init -q --bare empty.git
         work$ commit three",
    );
    Some(side)
}

#[test]
fn a_push_that_waits_for_git_shows_it_where_asked() {
    let Some(side) = prepared() else { return };
    slow_down(&side, "cat-file");
    let push = |n: u32| format!("list for-push\npush refs/heads/main:refs/heads/{n}\n\n\n");
    let loud = seen(&side, "work", LOUD, &push(1));
    assert!(loud.contains("Comparing references: "), "{loud}");
    let quiet = seen(&side, "work", QUIET, &push(2));
    assert_eq!(quiet, "");
    let silent = seen(&side, "work", SILENT, &push(3));
    assert!(!silent.contains("Comparing"), "{silent}");
}

#[test]
fn a_fetch_that_waits_for_git_shows_it_where_asked() {
    let Some(side) = prepared() else { return };
    let tip = side.sandbox.ok("work", "git rev-parse main~1").text().to_owned();
    slow_down(&side, "for-each-ref");
    let fetch = format!("list\nfetch {tip} refs/heads/main\n\n\n");
    let loud = seen(&side, "empty.git", LOUD, &fetch);
    assert!(loud.contains("Reading references: "), "{loud}");
    let quiet = seen(&side, "empty.git", QUIET, &fetch);
    assert_eq!(quiet, "");
}

#[test]
fn packing_shows_the_progress_of_git_where_asked() {
    let Some(side) = prepared() else { return };
    let push = |n: u32| format!("list for-push\npush refs/heads/main:refs/heads/{n}\n\n\n");
    let loud = seen(&side, "work", LOUD, &push(1));
    assert!(loud.contains("Counting objects"), "{loud}");
    side.sandbox.ok("work", "commit four");
    assert_eq!(seen(&side, "work", SILENT, &push(2)), "");
}

#[test]
fn a_long_wait_for_another_writer_is_told() {
    use std::io::Write;
    let Some(side) = prepared() else { return };
    // Somebody holds the lock and is about to append: a reader of the archive's own lock byte, as a process that is stopped.
    let mut holder = side.sandbox.command("work", "python3");
    holder.args(["-c", HOLD_LOCK]).arg(&side.remote);
    holder
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut holder = holder.spawn().unwrap();
    let mut ready = [0; 1];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let mut pushing = side.sandbox.command("work", "git");
    pushing
        .args(["push", &side.url, "main"])
        .stderr(std::process::Stdio::piped());
    let pushing = pushing.spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(4));
    holder.stdin.take().unwrap().write_all(b"\n").unwrap();
    holder.wait().unwrap();
    let output = pushing.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("waiting"), "{stderr}");
}

/// Takes the archive's writer lock, says so, and holds it until told to go.
const HOLD_LOCK: &str = "
import fcntl, struct, sys
file = open(sys.argv[1], 'r+b')
fcntl.fcntl(file, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 1 << 62, 1, 0))
sys.stdout.write('x'); sys.stdout.flush()
sys.stdin.readline()
";
