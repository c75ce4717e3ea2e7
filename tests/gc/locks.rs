//! R16, R25, R27: writers that a rewrite overtakes, disks whose locks cannot be relied on, and lock files.

use std::{path::Path, sync::Arc, time::Duration};

use znippy::{
    Error,
    archive::{self, Expire, GcOptions, Snapshot, Transaction, WritePolicy},
    media::{LockMode, LockReach, lock_path},
    pack::PackStore,
};

use crate::{
    disk::{OddDisk, When},
    packs::{blob, id_of, pack, set},
};

fn fixture() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.znippy");
    archive::create(&path, gix_hash::Kind::Sha1, "refs/heads/main".into()).unwrap();
    push(&path, "first", WritePolicy::default()).unwrap();
    (directory, path)
}

fn push(path: &Path, content: &str, policy: WritePolicy<'_>) -> znippy::Result<archive::Outcome> {
    let object = blob(content);
    let edits = vec![set(&format!("refs/x/{content}"), id_of(&object))];
    let transaction = Transaction {
        packs: vec![pack(&[object])],
        edits,
        ..Transaction::default()
    };
    archive::commit(path, transaction, policy)
}

fn has(path: &Path, content: &str) -> bool {
    let snapshot = Snapshot::open(path).unwrap();
    snapshot.lookup(&id_of(&blob(content))).unwrap().is_some()
}

fn on(disk: &OddDisk) -> WritePolicy<'_> {
    WritePolicy {
        disk,
        timeout: Duration::from_millis(50),
        ..WritePolicy::default()
    }
}

/// A disk on which a rewrite runs to its end at a moment of somebody else's push.
fn overtaken(path: &Path, when: When, locks_lie: bool) -> OddDisk {
    let path = path.to_owned();
    let gc = move || {
        let disk = OddDisk {
            locks_lie,
            ..OddDisk::default()
        };
        let options = GcOptions {
            expire: Expire::Now,
            force: true,
            ..GcOptions::default()
        };
        archive::gc(&path, options, &mut on(&disk)).unwrap();
    };
    OddDisk {
        when,
        event: Arc::new(gc),
        locks_lie,
        ..OddDisk::default()
    }
}

/// R16: a writer that opened the old file, and was stopped over a rewrite, goes back to the path.
#[test]
fn r16_a_writer_that_slept_over_a_rewrite_commits_to_the_new_file() {
    let (_directory, path) = fixture();
    let disk = overtaken(&path, When::Lock, false);
    push(&path, "late", on(&disk)).unwrap();
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(snapshot.generation(), 2);
    assert!(has(&path, "late") && has(&path, "first"));
}

/// R16: where the lock did nothing, the writer finds out before it tells anybody that it has committed.
#[test]
fn r16_a_writer_without_a_real_lock_does_not_commit_to_the_dead_file() {
    let (_directory, path) = fixture();
    let disk = overtaken(&path, When::Write, true);
    let refused = push(&path, "late", on(&disk)).unwrap_err();
    assert!(matches!(refused, Error::Replaced { .. }), "{refused}");
    assert!(!has(&path, "late") && has(&path, "first"));
    push(&path, "late", WritePolicy::default()).unwrap();
    assert!(has(&path, "late"));
}

/// R16: SMB, a running program, a mount: the old generation stays, and nothing is left behind.
#[test]
fn r16_a_refused_rename_changes_nothing() {
    let (directory, path) = fixture();
    push(&path, "second", WritePolicy::default()).unwrap();
    let before = std::fs::read(&path).unwrap();
    for error in [libc::ETXTBSY, libc::EBUSY, libc::EACCES] {
        let disk = OddDisk {
            rename: Some(error),
            ..OddDisk::default()
        };
        let refused = archive::gc(&path, GcOptions::default(), &mut on(&disk)).unwrap_err();
        assert!(matches!(refused, Error::NotReplaced { .. }), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
    push(&path, "third", WritePolicy::default()).unwrap();
}

/// R25: a lock that is not known to reach other machines is not relied on, unless there are none, or a lock file is used.
#[test]
fn r25_an_unknown_lock_is_refused() {
    let (directory, path) = fixture();
    let disk = OddDisk {
        reach: LockReach::Unknown("it is a test".into()),
        ..OddDisk::default()
    };
    let refused = push(&path, "a", on(&disk)).unwrap_err().to_string();
    assert!(
        refused.contains("it is a test") && refused.contains("znippy.lock"),
        "{refused}"
    );
    let refused = archive::gc(&path, GcOptions::default(), &mut on(&disk)).unwrap_err();
    assert!(matches!(refused, Error::LockNotShared { .. }), "{refused}");
    for (content, lock) in [("a", LockMode::Local), ("b", LockMode::File)] {
        let policy = || WritePolicy { lock, ..on(&disk) };
        push(&path, content, policy()).unwrap();
        assert!(has(&path, content));
        archive::gc(&path, GcOptions::default(), &mut policy()).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

/// R25, R27: a lock file keeps everybody away, until its process is gone or a person says so.
#[test]
fn r25_a_lock_file_counts_for_everybody() {
    let (_directory, path) = fixture();
    let lock_file = lock_path(&path);
    // Of another machine.
    std::fs::write(
        &lock_file,
        "znippy-lock 1\nuser 7\nhost elsewhere\nboot b\npids p\npid 1\nsince 1\n",
    )
    .unwrap();
    for lock in [LockMode::Os, LockMode::File] {
        let mut told = vec![];
        let mut on_wait = |text: &str| told.push(text.to_owned());
        let policy = WritePolicy {
            lock,
            timeout: Duration::from_millis(1200),
            on_wait: Some(&mut on_wait),
            ..WritePolicy::default()
        };
        let refused = push(&path, "a", policy).unwrap_err().to_string();
        assert!(
            refused.contains("elsewhere") && refused.contains(".app.znippy.lock"),
            "{refused}"
        );
        assert!(told[0].contains("lock file"), "{told:?}");
    }
    let unlocked = archive::unlock(&znippy::media::LocalDisk, &path, false)
        .unwrap()
        .unwrap();
    assert_eq!(unlocked.holder.unwrap().host, "elsewhere");
    assert_eq!(archive::unlock(&znippy::media::LocalDisk, &path, false).unwrap(), None);
    push(&path, "a", WritePolicy::default()).unwrap();
}

/// R25: another machine that wrote at the same time is noticed before the slot says that the commit is there.
#[test]
fn r25_a_commit_that_was_written_over_is_not_confirmed() {
    let (_directory, path) = fixture();
    let end = std::fs::metadata(&path).unwrap().len();
    let target = path.clone();
    let disk = OddDisk {
        when: When::Sync,
        // The other machine has seen the same end of the file, and its bytes arrive last.
        event: Arc::new(move || {
            use std::os::unix::fs::FileExt;
            let file = std::fs::File::options().write(true).open(&target).unwrap();
            file.write_all_at(&[0x55; 100], end).unwrap();
        }),
        reach: LockReach::Network,
        ..OddDisk::default()
    };
    let refused = push(&path, "a", on(&disk)).unwrap_err();
    assert!(matches!(refused, Error::LockIgnored { .. }), "{refused}");
    assert!(!has(&path, "a") && has(&path, "first"));
    // Without anybody else it goes through.
    push(&path, "b", on(&disk)).unwrap();
    assert!(has(&path, "b"));
}

/// R26: a reader goes back to the path where that helps, and says what happened where it does not.
#[test]
fn r26_a_stale_file_is_opened_again() {
    let (_directory, path) = fixture();
    let disk = OddDisk::default();
    let stale = |reads| disk.stale_reads.store(reads, std::sync::atomic::Ordering::Relaxed);
    stale(3);
    let snapshot = Snapshot::open_on(&disk, &path).unwrap();
    stale(1);
    let refused = snapshot.refs().unwrap_err();
    assert!(matches!(refused, Error::Stale { .. }), "{refused}");
    stale(usize::MAX);
    let refused = Snapshot::open_on(&disk, &path).err().unwrap();
    assert!(matches!(refused, Error::Stale { .. }), "{refused}");
}
