//! What a repository holds, as text to compare.

use std::path::{Path, PathBuf};

use super::Sandbox;

/// Returns all references of the repository in `dir` with HEAD, their targets, and what tags peel to.
pub fn refs_of(sandbox: &Sandbox, dir: &str) -> String {
    let format = "%(refname) %(objectname) %(objecttype) %(symref) %(*objectname)";
    let refs = sandbox.ok(dir, &format!("git for-each-ref --format='{format}'")).stdout;
    let head = sandbox.ok(dir, "git symbolic-ref -q HEAD || git rev-parse HEAD").stdout;
    format!("HEAD {head}{refs}")
}

/// Returns all objects that the references of `dir` reach, with type and size; fails where one is missing.
pub fn reachable(sandbox: &Sandbox, dir: &str) -> String {
    let line = "git rev-list --objects --all --no-object-names | LC_ALL=C sort -u | git cat-file --batch-check";
    sandbox.ok(dir, line).stdout
}

/// Asserts that two repositories are the same: references, HEAD, each stored object, and `git fsck` finds nothing.
#[track_caller]
pub fn assert_same_repository(sandbox: &Sandbox, expected: &str, found: &str) {
    same("references", &refs_of(sandbox, expected), &refs_of(sandbox, found));
    let objects = "git cat-file --batch-all-objects --batch-check";
    same(
        "objects",
        &sandbox.ok(expected, objects).stdout,
        &sandbox.ok(found, objects).stdout,
    );
    let fsck = sandbox.ok(found, "git fsck --full --strict --no-dangling 2>&1");
    assert!(
        !fsck.stdout.contains("error") && !fsck.stdout.contains("missing"),
        "fsck: {}",
        fsck.stdout
    );
}

/// Asserts that two texts are equal, and shows only the lines that differ.
#[track_caller]
pub fn same(what: &str, expected: &str, found: &str) {
    if expected == found {
        return;
    }
    let only = |a: &str, b: &str, sign: char| -> String {
        let theirs: std::collections::HashSet<&str> = b.lines().collect();
        a.lines()
            .filter(|line| !theirs.contains(line))
            .take(40)
            .map(|line| format!("{sign} {line}\n"))
            .collect()
    };
    let (missing, extra) = (only(expected, found, '-'), only(found, expected, '+'));
    panic!("{what} differ (- expected, + found; the order differs where nothing is shown):\n{missing}{extra}");
}

/// Asserts that nothing temporary was left behind: in the object directories of the client repositories, beside the
/// archives, and in the directory for temporary files.
#[track_caller]
pub fn assert_no_leftovers(sandbox: &Sandbox) {
    let mut found = Vec::new();
    walk(sandbox.root(), &mut |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let in_objects = path.components().any(|part| part.as_os_str() == "objects");
        let temporary = name.starts_with("tmp_") || name.ends_with(".keep") || name.ends_with(".lock");
        let beside_archive = name.contains(".znippy") && !name.ends_with(".znippy");
        if (in_objects && temporary) || beside_archive || path.starts_with(sandbox.path(".tmp")) {
            found.push(path.strip_prefix(sandbox.root()).unwrap().to_owned());
        }
    });
    assert!(found.is_empty(), "left behind: {found:?}");
}

/// Returns the names of the repositories directly below the sandbox's directory.
pub fn repositories(sandbox: &Sandbox) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(sandbox.root())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join(".git").exists() || entry.path().join("HEAD").exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}

fn walk(dir: &Path, visit: &mut impl FnMut(&Path)) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() && !entry.is_symlink() {
            walk(&entry, visit);
        } else {
            visit(&entry);
        }
    }
}
