//! The script that README gives to a newcomer.

use crate::common::Sandbox;

/// Returns a sandbox with `checkout`, a copy of what the script needs of this package, without history.
fn checkout() -> Sandbox {
    let s = Sandbox::new();
    let files = "Cargo.toml Cargo.lock src git-remote-znippy README.md tests/first-run.sh";
    let line = format!(
        "mkdir checkout && cd '{}' && tar cf - {files} | tar xf - -C \"$A/checkout\"",
        env!("CARGO_MANIFEST_DIR")
    );
    s.ok("", &line);
    s
}

#[test]
fn it_works_on_a_checkout_and_on_an_unpacked_release() {
    let s = checkout();
    let ran = s.ok("", "sh checkout/tests/first-run.sh");
    assert!(
        ran.stdout.contains("ok: ") && ran.stdout.contains(" 1 references"),
        "{}",
        ran.stdout
    );
    s.ok(
        "checkout",
        "git init -q && git add . && git commit -q -m sources && git tag -m t v1 && git branch other",
    );
    let ran = s.ok("checkout", "sh tests/first-run.sh");
    assert!(
        ran.stdout.contains("ok: ") && ran.stdout.contains(" 3 references"),
        "{}",
        ran.stdout
    );
    assert_eq!(s.ok("", "ls -A .tmp").stdout, "", "it left something behind");
    assert_eq!(s.ok("checkout", "git status --porcelain").stdout, "");
}

#[test]
fn it_says_what_is_missing() {
    let s = checkout();
    let ran = s.fails("", "PATH=/usr/bin:/bin sh checkout/tests/first-run.sh");
    assert!(ran.stderr.contains("cargo install"), "{}", ran.stderr);
    s.ok(
        "checkout",
        "git init -q && git add . && git commit -q -m one && git commit -q --allow-empty -m two",
    );
    s.ok("", "git clone -q --depth 1 \"file://$A/checkout\" shallow");
    let ran = s.fails("shallow", "sh tests/first-run.sh");
    assert!(ran.stderr.contains("git fetch --unshallow"), "{}", ran.stderr);
}

#[test]
fn it_fails_where_the_archive_does_not_give_back_what_it_got() {
    let s = checkout();
    s.ok(
        "checkout",
        "git init -q && git add . && git commit -q -m one && git branch other",
    );
    // A git that loses a branch on the way.
    let git = s.ok("", "command -v git").text().to_owned();
    let script = format!(
        "#!/bin/sh\n'{git}' \"$@\" || exit\ncase $* in clone*) for dir; do :; done; '{git}' -C \"$dir\" branch -q -D other;; esac\n"
    );
    s.ok("", "mkdir lossy");
    std::fs::write(s.path("lossy/git"), script).unwrap();
    let ran = s.fails(
        "checkout",
        "chmod +x ../lossy/git && PATH=$A/lossy:$PATH sh tests/first-run.sh",
    );
    assert!(
        ran.stderr.contains("other references") && ran.stderr.contains("refs/heads/other"),
        "{}",
        ran.stderr
    );
}
