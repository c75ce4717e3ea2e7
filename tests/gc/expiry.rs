//! R18: what no reference reaches is marked first, and removed when a later run finds the mark old enough.

use std::{fs, path::Path, time::Duration};

use znippy::{
    archive::{self, Expire, GcOptions, GcReport, Snapshot, WritePolicy},
    pack::PackStore,
};

use crate::{
    common::Sandbox,
    packs::{blob, commit, delete, id_of, pack, set},
    rewrite::gc,
};

const DAY_US: i64 = 86_400_000_000;
const START_US: i64 = 1_700_000_000_000_000;

fn gc_on(path: &Path, day: i64, expire: Expire) -> GcReport {
    let options = GcOptions {
        expire,
        now_us: START_US + day * DAY_US,
        force: true,
        ..GcOptions::default()
    };
    archive::gc(path, options, &mut WritePolicy::default()).unwrap()
}

fn days(days: u64) -> Expire {
    Expire::After(Duration::from_secs(days * 86_400))
}

fn has(path: &Path, content: &str) -> bool {
    Snapshot::open(path)
        .unwrap()
        .lookup(&id_of(&blob(content)))
        .unwrap()
        .is_some()
}

fn fixture() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.znippy");
    archive::create(&path, gix_hash::Kind::Sha1, "refs/heads/main".into()).unwrap();
    for name in ["a", "b", "c"] {
        push(&path, name);
    }
    (directory, path)
}

fn push(path: &Path, name: &str) {
    let object = blob(name);
    let id = id_of(&object);
    commit(path, vec![pack(&[object])], vec![set(&format!("refs/x/{name}"), id)]).unwrap();
}

#[test]
fn r18_only_an_old_mark_removes() {
    let (_directory, path) = fixture();
    commit(&path, vec![], vec![delete("refs/x/b")]).unwrap();
    let first = gc_on(&path, 0, days(14));
    assert_eq!((first.pruned, first.unreachable, first.objects), (0, 1, 3));
    // Any number of runs later, but not long enough.
    assert_eq!(gc_on(&path, 13, days(14)).pruned, 0);
    push(&path, "d");
    assert_eq!(gc_on(&path, 13, days(14)).pruned, 0);
    assert!(has(&path, "b"));
    let last = gc_on(&path, 14, days(14));
    assert_eq!((last.pruned, last.unreachable, last.objects), (1, 0, 3));
    assert!(!has(&path, "b") && has(&path, "a") && has(&path, "d"));
}

#[test]
fn r18_an_object_that_is_reached_again_loses_its_mark() {
    let (_directory, path) = fixture();
    commit(&path, vec![], vec![delete("refs/x/b")]).unwrap();
    gc_on(&path, 0, days(14));
    commit(&path, vec![], vec![set("refs/x/again", id_of(&blob("b")))]).unwrap();
    assert_eq!(gc_on(&path, 20, days(14)).unreachable, 0);
    commit(&path, vec![], vec![delete("refs/x/again")]).unwrap();
    assert_eq!(gc_on(&path, 30, days(14)).pruned, 0, "it is marked on this day");
    assert_eq!(gc_on(&path, 43, days(14)).pruned, 0);
    assert_eq!(gc_on(&path, 44, days(14)).pruned, 1);
}

/// What a kept object refers to is kept, however old its own mark is.
#[test]
fn r18_what_is_kept_is_whole() {
    let (_directory, path) = fixture();
    commit(&path, vec![], vec![delete("refs/x/b")]).unwrap();
    gc_on(&path, 0, days(14));
    let tree = crate::packs::tree("b", &id_of(&blob("b")));
    let id = id_of(&tree);
    commit(&path, vec![pack(&[tree])], vec![set("refs/x/tree", id)]).unwrap();
    commit(&path, vec![], vec![delete("refs/x/tree")]).unwrap();
    let report = gc_on(&path, 14, days(14));
    assert_eq!((report.pruned, report.unreachable), (0, 2));
    assert!(has(&path, "b"));
    assert_eq!(gc_on(&path, 27, days(14)).pruned, 0);
    assert_eq!(gc_on(&path, 28, days(14)).pruned, 2);
}

#[test]
fn r18_clocks_that_go_wrong() {
    let (_directory, path) = fixture();
    commit(&path, vec![], vec![delete("refs/x/b")]).unwrap();
    // Marked by a clock that is years ahead: it counts from the next run's time on.
    gc_on(&path, 5000, days(14));
    assert_eq!(gc_on(&path, 0, days(14)).pruned, 0);
    assert_eq!(gc_on(&path, 1, Expire::Never).pruned, 0);
    commit(&path, vec![], vec![delete("refs/x/c")]).unwrap();
    assert_eq!(gc_on(&path, 2, Expire::Now).pruned, 2, "marked or not");
}

/// R18: a secret that was pushed is gone from the file, not only from the index.
#[test]
fn r18_prune_now_removes_the_bytes() {
    let s = Sandbox::new();
    s.ok("", "git init -q work");
    s.ok("work", "commit one && git push -q \"znippy::$A/app\" main");
    s.ok(
        "work",
        "git checkout -q -b leak && head -c 5000 /dev/urandom > key && git add key && commit leak",
    );
    s.ok("work", "git push -q \"znippy::$A/app\" leak");
    let key = fs::read(s.path("work/key")).unwrap();
    let leaks = || {
        let file = fs::read(s.path("app.znippy")).unwrap();
        key.chunks(40)
            .any(|part| part.len() == 40 && file.windows(40).any(|window| window == part))
    };
    assert!(leaks(), "what does not compress is stored as it is");
    s.ok("work", "git push -q \"znippy::$A/app\" :leak");
    assert_eq!(gc(&s, "")["unreachable"], 4);
    assert!(leaks(), "a deleted branch can be recovered");
    assert_eq!(gc(&s, "--dry-run --prune=now")["pruned"], 4);
    assert!(leaks());
    assert_eq!(gc(&s, "--prune=now")["pruned"], 4);
    assert!(!leaks());
    s.ok(
        "",
        "git clone -q \"znippy::$A/app\" found && git -C found fsck --full --strict",
    );
}

/// A force-pushed tip can be had by its id until it expires.
#[test]
fn a_rewound_branch_stays_recoverable() {
    let s = Sandbox::new();
    s.ok("", "git init -q work");
    s.ok(
        "work",
        "commit one && commit two && git push -q \"znippy::$A/app\" main && git tag was",
    );
    s.ok(
        "work",
        "git reset -q --hard HEAD~ && commit other && git push -q -f \"znippy::$A/app\" main",
    );
    gc(&s, "");
    s.ok(
        "work",
        "znippy refs cas ../app refs/heads/rescued '' $(git rev-parse was)",
    );
    s.ok(
        "",
        "git clone -q --branch rescued \"znippy::$A/app\" found && test -f found/two.txt && git -C found fsck",
    );
    assert_eq!(gc(&s, "--prune=now")["pruned"], 0);
}
