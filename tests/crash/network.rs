//! Disks that behave as network disks do.

use std::sync::Arc;

use crate::{
    volume::{Call, Fault, Plan, Volume},
    work::{TestPack, archive_of, gc, push, set, small, tag, view},
};

fn always(call: Call, number: i32) -> Option<Plan> {
    Some(Plan {
        call,
        nth: 1,
        fault: Fault::Error(number),
        stays: true,
    })
}

fn push_4(volume: &Arc<Volume>) -> Result<(), String> {
    let pack = TestPack::new(&[small(4)]);
    push(volume, &pack, vec![set(&tag(4), small(4))])
        .map(drop)
        .map_err(|error| error.to_string())
}

/// R25: without locks nobody writes, and everybody reads.
#[test]
fn a_disk_that_refuses_locks_is_not_written_to() {
    let volume = Arc::new(Volume::new(&archive_of(2)));
    let before = volume.visible();
    for number in [libc::ENOLCK, libc::ENOSYS, libc::EINVAL, libc::EACCES] {
        volume.fail(always(Call::Lock, number));
        let error = push_4(&volume).unwrap_err();
        assert!(error.contains("cannot lock"), "{error}");
        assert!(view(&volume).unwrap().is_some());
        assert!(volume.visible() == before);
    }
}

/// R14, R16: a disk that has no sync of directories has nothing to sync.
#[test]
fn a_disk_that_cannot_sync_directories_is_good_enough() {
    for number in [libc::EINVAL, libc::ENOTSUP] {
        let volume = Arc::new(Volume::default());
        volume.fail(always(Call::SyncDir, number));
        push_4(&volume).unwrap();
        gc(&volume, &mut |_| ()).unwrap();
        push_4(&volume).unwrap();
        assert_eq!(view(&volume).unwrap().unwrap().generation, 2);
    }
}

/// R16: where an open file cannot be replaced the old generation stays, with nothing beside it.
#[test]
fn a_disk_that_refuses_to_rename_over_an_open_file_keeps_the_old_generation() {
    for number in [libc::EBUSY, libc::ETXTBSY, libc::EACCES, libc::EPERM] {
        let volume = Arc::new(Volume::new(&archive_of(3)));
        let before = view(&volume).unwrap();
        volume.fail(always(Call::Rename, number));
        gc(&volume, &mut |_| ()).unwrap_err();
        assert_eq!(view(&volume).unwrap(), before);
        assert_eq!(volume.visible().len(), 1, "a temporary file was left");
        push_4(&volume).unwrap();
    }
}

/// R26: a reader whose file went stale is told, and the next open finds the new one.
#[test]
fn a_stale_handle_is_an_error() {
    let volume = Arc::new(Volume::new(&archive_of(3)));
    volume.fail(always(Call::Read, libc::ESTALE));
    let error = view(&volume).unwrap_err();
    assert!(error.contains("a.znippy"), "{error}");
    volume.fail(None);
    assert!(view(&volume).unwrap().is_some());
}

/// Where a name seems to mean another file each time, a writer cannot know that its file is the archive, and writes nothing.
#[test]
fn unstable_inode_numbers_stop_a_writer() {
    let volume = Arc::new(Volume::new(&archive_of(2)));
    let before = volume.visible();
    volume.unstable_ids(true);
    let error = push_4(&volume).unwrap_err();
    assert!(error.contains("replaced"), "{error}");
    assert!(volume.visible() == before);
    assert!(view(&volume).unwrap().is_some());
    volume.unstable_ids(false);
    push_4(&volume).unwrap();
}
