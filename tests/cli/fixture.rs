//! An archive and a bare repository with the same content.

use std::{fs, path::Path};

use crate::common::Sandbox;

/// The sandbox with `bare.git` and `app.znippy`: the branches main (two commits), old and side (one each, of which side has
/// one that main lacks), the tags light and v1 (annotated), a tag of a blob, and a reference outside of heads and tags.
///
/// The shell finds ids in the variables `$old`, `$main`, `$side`, `$blob`, `$tag`, `$tree`, and `$zero`.
pub fn fixture(format: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("", &format!("git init -q --object-format={format} work"));
    sandbox.ok(
        "work",
        "commit one && git branch old && git checkout -q -b side && commit side && git checkout -q main && commit two &&
         git tag light old && git tag -m annotated v1 old && git tag of-blob main:one.txt && git update-ref refs/x/y main",
    );
    let names = [
        ("old", "refs/heads/old"),
        ("main", "refs/heads/main"),
        ("side", "refs/heads/side"),
        ("blob", "main:one.txt"),
        ("tag", "refs/tags/v1"),
        ("tree", "main^{tree}"),
    ];
    for (name, revision) in names {
        let id = sandbox.ok("work", &format!("git rev-parse '{revision}'"));
        sandbox.set(name, id.text());
    }
    let digits = if format == "sha256" { 64 } else { 40 };
    sandbox.set("zero", "0".repeat(digits));
    sandbox.set("none", "1".repeat(digits));
    sandbox.ok(
        "",
        "git clone -q --mirror work bare.git && rm bare.git/packed-refs~ 2>/dev/null || true",
    );
    sandbox.ok("bare.git", "git push -q --mirror \"znippy::$A/app\"");
    sandbox
}

/// Asserts that the archive and the bare repository of the fixture have the same references.
#[track_caller]
pub fn assert_same_refs(sandbox: &Sandbox, after: &str) {
    let expected = sandbox.ok("", "git ls-remote --symref bare.git").stdout;
    let found = sandbox.ok("", "znippy refs list app").stdout;
    assert_eq!(expected, found, "after {after}");
}

/// Asserts that standard error is one line that begins with `error: ` and holds `part`.
#[track_caller]
pub fn assert_one_error(stderr: &str, part: &str) {
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(
        lines.len() == 1 && lines[0].starts_with("error: "),
        "one line `error: …` expected: {stderr}"
    );
    assert!(stderr.contains(part), "`{part}` expected: {stderr}");
}

/// Returns the size of a file.
pub fn size(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}
