//! What is in the new file.

use std::fs;

use serde_json::Value;

use crate::common::{Sandbox, assert_no_leftovers, assert_same_repository};

fn info(s: &Sandbox) -> Value {
    serde_json::from_str(&s.ok("", "znippy info --json app").stdout).unwrap()
}

pub fn gc(s: &Sandbox, options: &str) -> Value {
    serde_json::from_str(&s.ok("", &format!("znippy gc --json {options} app")).stdout).unwrap()
}

/// A repository that was pushed bit by bit: branches, a merge, tags, a deletion, and HEAD.
fn pushed_bit_by_bit(format: &str) -> Sandbox {
    let s = Sandbox::new();
    s.ok("", &format!("git init -q --object-format={format} work"));
    s.ok("work", "git remote add a \"znippy::$A/app\"");
    for n in 0..12 {
        s.ok(
            "work",
            &format!(
                "seq 1 {} > list && mkdir -p d{n} && seq {n} 300 > d{n}/f && git add . && commit c{n}",
                100 + n
            ),
        );
        s.ok("work", "git push -q a HEAD:main");
    }
    s.ok(
        "work",
        "git checkout -q -b side HEAD~3 && commit side && git push -q a side",
    );
    s.ok(
        "work",
        "git checkout -q main && git merge -q -m merged side && git tag -m t v1 && git tag light HEAD~2",
    );
    s.ok("work", "git push -q a main v1 light");
    s
}

/// R16, R22: one pack, all references and the whole history; a clone is the pack as it is.
#[test]
fn a_rewrite_keeps_everything_in_one_pack() {
    for format in ["sha1", "sha256"] {
        let s = pushed_bit_by_bit(format);
        let before = info(&s);
        let told = gc(&s, "");
        let after = info(&s);
        assert_eq!(told["rewritten"], true);
        assert_eq!((&after["generation"], &before["generation"]), (&2.into(), &1.into()));
        for key in ["uuid", "object_format", "head", "refs", "objects"] {
            assert_eq!(before[key], after[key], "{key}");
        }
        assert_eq!(
            (&after["packs"], &after["unproven_packs"], &after["unresolved_objects"]),
            (&1.into(), &0.into(), &0.into())
        );
        assert!(before["packs"].as_u64() > Some(10));
        assert!(after["file_bytes"].as_u64() < before["file_bytes"].as_u64());
        assert_eq!(
            told["freed"].as_i64(),
            Some(before["file_bytes"].as_i64().unwrap() - after["file_bytes"].as_i64().unwrap())
        );
        s.ok(
            "",
            "git clone -q --mirror work expected && git clone -q --mirror \"znippy::$A/app\" found",
        );
        s.ok("expected", "git repack -q -a -d");
        s.ok("expected", "git update-ref -d refs/remotes/a/main; git update-ref -d refs/remotes/a/side; git update-ref -d refs/remotes/a/v1; true");
        assert_same_repository(&s, "expected", "found");
        let packs = s.ok("found", "ls objects/pack/*.pack | wc -l").stdout;
        assert_eq!(packs.trim(), "1");
        // What came out of the archive is byte for byte what is in it.
        let pack = s
            .ok("found", "cat objects/pack/*.pack | od -An -v -tx1 | tr -d ' \\n'")
            .stdout;
        let file = s.ok("", "od -An -v -tx1 app.znippy | tr -d ' \\n'").stdout;
        assert!(file.contains(pack.trim()), "the pack was sent as it is stored");
        s.ok("", "znippy verify --full app");
        // And life goes on.
        s.ok("work", "commit later && git push -q a main");
        s.ok(
            "",
            "git clone -q \"znippy::$A/app\" later && git -C later fsck --full --strict && test -f later/later.txt",
        );
        s.ok("", "znippy verify --full app");
        assert_eq!(gc(&s, "")["generation"], 3);
        s.ok("", "znippy verify --full app");
        assert_no_leftovers(&s);
    }
}

/// The rows of the old generation stay: who moved which reference when.
#[test]
fn history_survives() {
    use znippy::archive::Snapshot;
    let s = pushed_bit_by_bit("sha1");
    let log = |name: &str| {
        let snapshot = Snapshot::open(&s.path(name)).unwrap();
        snapshot
            .edits()
            .unwrap()
            .into_iter()
            .map(|row| (row.txn, row.time_us, row.actor, row.refs))
            .collect::<Vec<_>>()
    };
    fs::copy(s.path("app.znippy"), s.path("old.znippy")).unwrap();
    gc(&s, "");
    let before = log("old.znippy");
    assert!(before.len() >= 14);
    assert_eq!(log("app.znippy"), before);
    s.ok("work", "commit later && git push -q a main");
    gc(&s, "");
    let after = log("app.znippy");
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len(), before.len() + 1);
}

#[test]
fn nothing_to_do_is_nothing_done() {
    let s = pushed_bit_by_bit("sha1");
    assert_eq!(gc(&s, "--auto")["rewritten"], false);
    let dry = gc(&s, "--dry-run");
    assert_eq!((&dry["rewritten"], &dry["dry_run"]), (&false.into(), &true.into()));
    assert_eq!(info(&s)["generation"], 1);
    gc(&s, "");
    let before = fs::read(s.path("app.znippy")).unwrap();
    assert_eq!(gc(&s, "")["rewritten"], false);
    assert_eq!(fs::read(s.path("app.znippy")).unwrap(), before);
    let text = s.ok("", "znippy gc app").stdout;
    assert_eq!(text, "app.znippy: nothing to do\n");
}

/// What was pushed at once is one pack already: a rewrite would only add to it.
#[test]
fn a_compact_archive_is_left_alone_unless_told_otherwise() {
    let s = Sandbox::new();
    s.ok("", "git init -q work");
    s.ok(
        "work",
        "commit one && commit two && git push -q \"znippy::$A/app\" main",
    );
    let before = fs::read(s.path("app.znippy")).unwrap();
    for options in ["", "--prune=now", "--auto"] {
        assert_eq!(gc(&s, options)["rewritten"], false, "{options}");
    }
    assert_eq!(s.ok("", "znippy gc app").stdout, "app.znippy: nothing to do\n");
    assert_eq!(fs::read(s.path("app.znippy")).unwrap(), before);
    assert_eq!(gc(&s, "--force")["rewritten"], true);
    assert_eq!(info(&s)["generation"], 2);
    // A secret that no branch reaches any more goes all the same.
    s.ok("work", "git push -q -f \"znippy::$A/app\" HEAD~1:main");
    assert_eq!(gc(&s, "--prune=now")["pruned"], 3);
    s.ok("", "znippy verify --full app");
}

/// An archive without an object, and one whose HEAD names nothing.
#[test]
fn an_empty_archive_is_rewritten() {
    let s = Sandbox::new();
    s.ok("", "znippy init app && znippy gc app && znippy info app");
    s.ok("", "git init -q work");
    s.ok("work", "commit one && git push -q \"znippy::$A/app\" main");
    gc(&s, "");
    s.ok("", "git clone -q \"znippy::$A/app\" found && test -f found/one.txt");
}

/// R19: what cannot be copied as it should be keeps the old file.
#[test]
fn r19_a_damaged_entry_keeps_the_old_file() {
    let s = pushed_bit_by_bit("sha1");
    let path = s.path("app.znippy");
    let whole = fs::read(&path).unwrap();
    let needle = b"PACK\0\0\0\x02";
    let pack_at = whole.windows(needle.len()).position(|window| window == needle).unwrap();
    let mut damaged = whole.clone();
    damaged[pack_at + 40] ^= 0x10;
    fs::write(&path, &damaged).unwrap();
    let ran = s.fails("", "znippy gc app");
    assert_eq!(ran.code, 5, "{}", ran.stderr);
    assert_eq!(fs::read(&path).unwrap(), damaged, "the old file is as it was");
    assert_no_leftovers(&s);
    // With the same objects stored once more, the rewrite heals it.
    fs::write(&path, &whole).unwrap();
    let ids = s.ok("work", "git rev-list --objects --all --no-object-names").stdout;
    fs::write(s.path("ids"), ids).unwrap();
    let snapshot = znippy::archive::Snapshot::open(&path).unwrap();
    let pack = crate::packs::whole_pack(&s, "work", "ids");
    let main = snapshot.resolve_ref("refs/heads/main".into()).unwrap().unwrap();
    crate::packs::commit(&path, vec![pack], vec![crate::packs::set("refs/heads/copy", main)]).unwrap();
    let mut damaged = fs::read(&path).unwrap();
    damaged[pack_at + 40] ^= 0x10;
    fs::write(&path, &damaged).unwrap();
    let told = gc(&s, "");
    assert_eq!(told["healed"], 1);
    s.ok(
        "",
        "git clone -q \"znippy::$A/app\" found && git -C found fsck --full --strict",
    );
}
