//! Archives that an earlier program wrote: whatever changes, they are read as they were, verify in full, and take pushes.
//!
//! They lie beside this file: one an object format, with what git sees in it. `ZNIPPY_GOLDEN=write` writes them anew, which
//! nobody does for a version of the format that was released: who has archives has these.

#[path = "../common/mod.rs"]
mod common;

use std::{fs, path::PathBuf};

use common::Sandbox;

const FORMATS: [&str; 2] = ["sha1", "sha256"];

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// What is done to an archive so that its file has everything in it that a format has: several packs, deltas, merged batches,
/// annotated tags, a deleted and a rewound branch, a symbolic HEAD, settings, derived rows, a rewrite and what came after it.
fn write(s: &Sandbox, format: &str) {
    s.ok("", &format!("git init -q --object-format={format} work"));
    let lines = "for i in $(seq 300); do echo \"line $i of a file that changes a little\"; done >big && git add big";
    s.ok("work", lines);
    s.ok("work", "commit one && git push -q \"znippy::$A/app\" main");
    s.ok("work", "git branch gone && git branch rewound && commit two");
    s.ok("work", "git checkout -q rewound && commit away && git checkout -q main");
    s.ok(
        "work",
        "git tag -a -m annotated v1 && git push -q \"znippy::$A/app\" --all && git push -q \"znippy::$A/app\" v1",
    );
    s.ok("work", "git push -q \"znippy::$A/app\" :gone +main:rewound");
    s.ok(
        "",
        "znippy config app --set receive.denyDeletes false && znippy index app && znippy gc --force --expire now app",
    );
    s.ok("work", "sed -i 's/line 7 /LINE 7 /' big && git add big && commit three");
    s.ok(
        "work",
        "git tag -a -m nested v2 v1 && git update-ref refs/notes/x main~1",
    );
    s.ok(
        "work",
        "git push -q \"znippy::$A/app\" main v2 refs/notes/x main:refs/heads/deep/er",
    );
    s.ok(
        "work",
        "git update-ref refs/odd/blob main:big && git push -q \"znippy::$A/app\" refs/odd/blob :deep/er",
    );
    s.ok("", "znippy refs head app refs/heads/rewound");
}

/// Returns what git sees of an archive: references with what they peel to, HEAD, and all objects with kind and size.
fn seen(s: &Sandbox, archive: &str) -> String {
    let line = format!(
        "rm -rf .tmp/seen && git clone -q --mirror \"znippy::$A/{archive}\" .tmp/seen && git ls-remote --symref \"znippy::$A/{archive}\" \
         && git -C .tmp/seen fsck --full --strict >&2 && git -C .tmp/seen cat-file --batch-check --batch-all-objects"
    );
    s.ok("", &line).stdout
}

#[test]
fn an_archive_of_version_1_is_read_as_it_was() {
    for format in FORMATS {
        let s = Sandbox::new();
        let (archive, expected) = (golden(&format!("{format}.znippy")), golden(&format!("{format}.txt")));
        if std::env::var_os("ZNIPPY_GOLDEN").is_some_and(|value| value == "write") {
            write(&s, format);
            fs::copy(s.path("app.znippy"), &archive).unwrap();
            fs::write(&expected, seen(&s, "app")).unwrap();
        }
        fs::write(s.path("old.znippy"), fs::read(&archive).unwrap()).unwrap();
        let (before, expected) = (fs::read(&archive).unwrap(), fs::read_to_string(expected).unwrap());
        assert!(before.len() < 64 << 10, "{} bytes", before.len());
        assert_eq!(seen(&s, "old"), expected);
        let verified = s.ok("", "znippy verify --full --json old").stdout;
        assert!(verified.contains("\"findings\":[]"), "{verified}");
        assert!(fs::read(s.path("old.znippy")).unwrap() == before, "reading wrote to it");

        // Today's program goes on with it, and what was there stays byte for byte, but for the slots.
        s.ok(
            "",
            &format!("git init -q --object-format={format} next && git -C next fetch -q \"znippy::$A/old\" main"),
        );
        s.ok(
            "next",
            "git checkout -q -B main FETCH_HEAD && commit four && git push -q \"znippy::$A/old\" main",
        );
        let after = fs::read(s.path("old.znippy")).unwrap();
        assert!(after.len() > before.len() && after[12288..before.len()] == before[12288..]);
        assert_eq!(s.ok("", "znippy verify --full old").code, 0);
        let kept = seen(&s, "old");
        let is_kept = |line: &&str| !line.ends_with("refs/heads/main") && !line.ends_with("HEAD");
        for line in expected.lines().filter(is_kept) {
            assert!(kept.contains(line), "{line} is not in\n{kept}");
        }
        s.ok("", "znippy gc --force old && znippy verify --full old");
    }
}

/// What every archive of an object format starts with, the schema among it, is what it was.
#[test]
fn a_new_archive_starts_as_the_first_ones_did() {
    for format in FORMATS {
        let s = Sandbox::new();
        s.ok("", &format!("znippy init --object-format={format} app"));
        let (old, new) = (
            fs::read(golden(&format!("{format}.znippy"))).unwrap(),
            fs::read(s.path("app.znippy")).unwrap(),
        );
        assert!(
            old[..3584] == new[..3584],
            "the schema of {format} archives has changed"
        );
        // Identity, slots and tombstones are an archive's own; the rest of the head is blank.
        for blank in [3840..4096, 4608..8192, 8704..12288] {
            assert!(old[blank.clone()] == new[blank]);
        }
        let words = |bytes: &[u8]| String::from_utf8_lossy(&bytes[3584..3600 + 8]).into_owned();
        assert_eq!(words(&old)[..17], words(&new)[..17]);
    }
}
