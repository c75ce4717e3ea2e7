//! System calls that are tampered with: strace stands between git and the helper.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use crate::common::{Ran, Sandbox, not_run};

/// What happens at a call.
#[derive(Debug, Clone, Copy)]
pub enum Blow {
    /// The process is killed before the call is made.
    Kill,
    /// The call is not made, and this error is its result, once.
    Once(&'static str),
    /// As before, at every later call of the kind too.
    From(&'static str),
}

/// How many calls of one kind are hit, spread over all of them.
pub fn places(count: usize) -> Vec<usize> {
    const SOME: usize = 5;
    if count <= SOME || std::env::var_os("ZNIPPY_FAULTS").is_some_and(|faults| faults == "full") {
        return (1..=count).collect();
    }
    (0..SOME).map(|i| 1 + i * (count - 1) / (SOME - 1)).collect()
}

/// Returns whether strace can tamper with system calls here; says so if not.
pub fn can_inject(test: &str) -> bool {
    let probe = Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "-e", "inject=getppid:error=EIO", "true"])
        .output();
    match probe {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            not_run(
                test,
                &format!(
                    "strace cannot inject: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                ),
            );
            false
        }
        Err(error) => {
            not_run(test, &format!("strace: {error}"));
            false
        }
    }
}

/// Puts strace in front of both programs of a sandbox: it does what the variable `BLOW` says to calls of the kind `CALL`, and
/// writes the calls to `.tmp/calls`, and its own process number to `.tmp/strace`.
pub fn arm(sandbox: &Sandbox) {
    for (name, program) in [
        ("git-remote-znippy", env!("CARGO_BIN_EXE_git-remote-znippy")),
        ("znippy", env!("CARGO_BIN_EXE_znippy")),
    ] {
        let path = sandbox.path(&format!(".bin/{name}"));
        fs::remove_file(&path).unwrap();
        let script = format!(
            "#!/bin/sh\n[ -n \"$CALL\" ] || exec {program} \"$@\"\n\
             echo $$ > \"$A/.tmp/strace\"\n\
             exec strace -qq -o \"$A/.tmp/calls\" -e \"trace=$CALL\" -e signal=SIGSTOP ${{BLOW:+-e \"inject=$CALL:$BLOW\"}} {program} \"$@\"\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Returns how many calls of a kind the programs make while `line` runs.
pub fn count(sandbox: &Sandbox, call: &str, line: &str) -> usize {
    sandbox.ok("", &format!("rm -f .tmp/calls; export CALL={call}; {line}"));
    let calls = fs::read_to_string(sandbox.path(".tmp/calls")).unwrap_or_default();
    calls.lines().filter(|line| line.starts_with(call)).count()
}

/// Runs a line of shell while a blow falls on the `nth` call of a kind. Returns whether it fell.
pub fn strike(sandbox: &Sandbox, call: &str, nth: usize, blow: Blow, line: &str) -> (Ran, bool) {
    let blow = match blow {
        Blow::Kill => format!("signal=KILL:when={nth}"),
        Blow::Once(error) => format!("error={error}:when={nth}"),
        Blow::From(error) => format!("error={error}:when={nth}+"),
    };
    let ran = sandbox.sh("", &format!("rm -f .tmp/calls; export CALL={call} BLOW={blow}; {line}"));
    let calls = fs::read_to_string(sandbox.path(".tmp/calls")).unwrap_or_default();
    let fell = calls.contains("(INJECTED)") || calls.lines().filter(|line| line.starts_with(call)).count() >= nth;
    (ran, fell)
}
