//! The crash matrix: operation by operation, everything that a crash may leave of it.

use std::sync::Arc;

use znippy::{
    archive::{Appender, Durability, WritePolicy},
    media::Ring,
};

use crate::{
    common::not_run,
    disk::CrashDisk,
    images::Effort,
    replay::{Alarms, Counts, Recording},
    volume::{Call, Event, Fault, Image, Plan, Volume},
    work::{self, Blob, TestPack, archive_of, delete, policy, push, push_as, set, small, tag},
};

/// How thoroughly a first crash is enumerated, and a second one.
fn efforts() -> (Effort, Effort) {
    let full = std::env::var_os("ZNIPPY_CRASH_EFFORT").is_some_and(|effort| effort == "full");
    let first = Effort {
        exhaustive: if full { 15 } else { 12 },
        runs: true,
        samples: if full { 4000 } else { 400 },
        every: if full { 1 } else { 7 },
    };
    let second = Effort {
        exhaustive: 0,
        runs: false,
        samples: 4,
        every: if full { 61 } else { 601 },
    };
    (first, second)
}

/// Crashes everywhere, with every combination of the sectors that a small push writes.
fn replay(name: &str, recording: &Recording, at_least: u64) -> Counts {
    let (first, second) = efforts();
    let counts = recording.replay(name, &first, &second, Alarms::None);
    assert!(
        counts.images >= at_least,
        "only {} images of {name} were tried",
        counts.images
    );
    counts
}

/// Crashes everywhere, with runs of sectors and a sample of their combinations: for what is a push and a little more.
fn replay_some(name: &str, recording: &Recording, at_least: u64, alarms: Alarms) -> Counts {
    let (mut first, second) = efforts();
    first.exhaustive = first.exhaustive.saturating_sub(8);
    (first.samples, first.every) = (first.samples / 2, first.every * 3);
    let counts = recording.replay(name, &first, &second, alarms);
    assert!(
        counts.images >= at_least,
        "only {} images of {name} were tried",
        counts.images
    );
    counts
}

/// Pushes blob `number` as a step of its own.
fn push_step(recording: &mut Recording, number: u32) {
    let blob = small(number);
    recording.step(|volume| drop(push(volume, &TestPack::new(&[blob]), vec![set(&tag(number), blob)]).unwrap()));
}

/// Returns a disk whose archive ends with a tail that a writer left who died half-way: `keep` bytes of its commit.
pub fn with_torn_tail(pushes: u32, keep: usize) -> Image {
    let base = archive_of(pushes);
    let volume = Arc::new(Volume::new(&base));
    let blob = Blob { number: 70, len: 900 };
    push(&volume, &TestPack::new(&[blob]), vec![set("refs/tags/torn", blob)]).unwrap();
    let append = volume.events().into_iter().find_map(|event| match event {
        Event::Write { at, bytes, .. } => Some((at as usize, bytes)),
        _ => None,
    });
    let (at, bytes) = append.expect("the append is the first write");
    let mut image = base;
    let file = image.get_mut(work::NAME).expect("the archive");
    assert_eq!(file.len(), at);
    file.extend_from_slice(&bytes[..keep.min(bytes.len())]);
    image
}

/// R14: until the name is durable there is no archive, or the whole one.
#[test]
fn creation() {
    let mut recording = Recording::new(Image::new());
    push_step(&mut recording, 1);
    replay("creation", &recording, 5);
}

#[test]
fn the_second_push_and_the_third() {
    let mut recording = Recording::new(archive_of(1));
    push_step(&mut recording, 2);
    push_step(&mut recording, 3);
    replay("second and third push", &recording, 3_000);
}

#[test]
fn append_of_some_packs_and_deletions() {
    let mut recording = Recording::new(archive_of(4));
    recording.step(|volume| {
        let blobs: Vec<Blob> = (10..16).map(|number| Blob { number, len: 400 }).collect();
        let mut edits: Vec<_> = blobs
            .iter()
            .map(|blob| set(&format!("refs/tags/many/{}", blob.number), *blob))
            .collect();
        edits.push(delete(&tag(2)));
        push(volume, &TestPack::new(&blobs), edits).unwrap();
    });
    recording.step(|volume| {
        let blob = small(3);
        push(
            volume,
            &TestPack::new(&[blob]),
            vec![delete(&tag(3)), set("refs/tags/again", blob)],
        )
        .unwrap();
    });
    replay("append", &recording, 3_000);
}

/// R7: a tail is cut off, or made durable, before anything is written behind it.
#[test]
fn push_over_a_torn_tail() {
    for keep in [100, 3000, usize::MAX] {
        let mut recording = Recording::new(with_torn_tail(3, keep));
        push_step(&mut recording, 5);
        push_step(&mut recording, 6);
        replay(
            &format!("push over a tail of {} bytes", keep.min(99_999)),
            &recording,
            3_000,
        );
    }
}

/// R2, R3: the slots are written in turn; one that is torn leaves the other.
#[test]
fn slot_updates() {
    let mut recording = Recording::new(archive_of(2));
    for number in 10..16 {
        recording
            .step(|volume| drop(push(volume, &TestPack::new(&[small(1)]), vec![set(&tag(number), small(1))]).unwrap()));
    }
    replay_some("slot updates", &recording, 2_000, Alarms::None);
}

#[test]
fn index_row() {
    let mut recording = Recording::new(archive_of(1));
    for number in 2..4 {
        recording.step(|volume| {
            let disk = CrashDisk(volume.clone());
            let caught_up =
                znippy::archive::catch_up(&work::path(), false, &mut policy(&disk), &mut |_, _| ()).unwrap();
            assert_eq!(caught_up.map(|caught_up| caught_up.proven), Some(1));
        });
        push_step(&mut recording, number);
    }
    replay_some("index rows", &recording, 3_000, Alarms::None);
}

/// R17: merging is part of a push, and loses nothing.
#[test]
fn merge() {
    let before = archive_of(64);
    let volume = Arc::new(Volume::new(&before));
    push(&volume, &TestPack::new(&[small(65)]), vec![set(&tag(65), small(65))]).unwrap();
    let mut recording = Recording::new(volume.visible());
    for number in 66..69 {
        push_step(&mut recording, number);
    }
    replay_some("merge", &recording, 1_000, Alarms::None);
}

/// R7: a sync that failed makes the cache forget. Nothing that was acknowledged before or after is lost.
#[test]
fn after_a_failed_sync() {
    for nth in 1..=2 {
        for stays in [false, true] {
            let mut recording = Recording::new(archive_of(3));
            push_step(&mut recording, 4);
            recording.attempt(
                |volume| {
                    let blob = Blob { number: 40, len: 700 };
                    let _ = push(volume, &TestPack::new(&[blob]), vec![set("refs/tags/failed", blob)]);
                },
                |volume| {
                    volume.fail(Some(Plan {
                        call: Call::Sync,
                        nth,
                        fault: Fault::Error(libc::EIO),
                        stays,
                    }))
                },
            );
            push_step(&mut recording, 5);
            push_step(&mut recording, 6);
            // Where not even the cut reaches the disk, remains of the push may show up within the next one.
            let alarms = if stays { Alarms::Allowed } else { Alarms::None };
            replay_some(&format!("failed sync {nth}, stays: {stays}"), &recording, 3_000, alarms);
        }
    }
}

/// R14: an archive whose name is not durable yet takes no push before it is: its creator may have died.
#[test]
fn push_into_an_archive_whose_name_is_not_durable() {
    let mut recording = Recording::new(Image::new());
    recording.attempt(
        |volume| {
            let _ = push(volume, &TestPack::new(&[small(1)]), vec![set(&tag(1), small(1))]);
        },
        |volume| {
            volume.fail(Some(Plan {
                call: Call::SyncDir,
                nth: 1,
                fault: Fault::Error(libc::EIO),
                stays: false,
            }))
        },
    );
    push_step(&mut recording, 2);
    push_step(&mut recording, 3);
    replay("push after a creator that died", &recording, 3_000);
}

/// A write that fails half-way leaves nothing that could be mixed up with what comes after it.
#[test]
fn after_a_failed_write() {
    for fault in [Fault::Half(libc::ENOSPC), Fault::Error(libc::EIO)] {
        let mut recording = Recording::new(archive_of(2));
        recording.attempt(
            |volume| {
                let blob = Blob { number: 40, len: 3000 };
                let _ = push(volume, &TestPack::new(&[blob]), vec![set("refs/tags/failed", blob)]);
            },
            |volume| {
                volume.fail(Some(Plan {
                    call: Call::Write,
                    nth: 1,
                    fault,
                    stays: false,
                }))
            },
        );
        push_step(&mut recording, 5);
        replay(&format!("failed write, {fault:?}"), &recording, 2_000);
    }
}

/// R7: where damaged bytes are skipped, that stays so, whatever a failed sync makes the cache forget.
#[test]
fn failed_sync_behind_a_damaged_tail() {
    for nth in 1..=4 {
        let mut base = with_torn_tail(3, usize::MAX);
        let file = base.get_mut(work::NAME).expect("the archive");
        let at = file.len() - 3000;
        file[at] ^= 0x10;
        let mut recording = Recording::new(base);
        recording.attempt(
            |volume| {
                let blob = Blob { number: 40, len: 700 };
                let _ = push(volume, &TestPack::new(&[blob]), vec![set("refs/tags/failed", blob)]);
            },
            |volume| {
                volume.fail(Some(Plan {
                    call: Call::Sync,
                    nth,
                    fault: Fault::Error(libc::EIO),
                    stays: false,
                }))
            },
        );
        push_step(&mut recording, 5);
        push_step(&mut recording, 6);
        replay_some(
            &format!("failed sync {nth} behind damage"),
            &recording,
            3_000,
            Alarms::Allowed,
        );
    }
}

/// R16: the name means the old generation or the new one, each whole; what was pushed meanwhile is in both.
#[test]
fn gc_with_a_push_meanwhile() {
    let mut recording = Recording::new(archive_of(3));
    recording.step(|volume| {
        let blob = small(9);
        push(
            volume,
            &TestPack::new(&[blob]),
            vec![delete(&tag(2)), set(&tag(9), blob)],
        )
        .unwrap();
    });
    recording.steps(|volume, done| {
        let mut pushed = false;
        let report = work::gc(volume, &mut |_| {
            if !std::mem::replace(&mut pushed, true) {
                push(volume, &TestPack::new(&[small(10)]), vec![set(&tag(10), small(10))]).unwrap();
                done();
            }
        });
        assert_eq!(report.map(|report| (report.carried, report.pruned)).unwrap(), (1, 1));
    });
    push_step(&mut recording, 11);
    replay_some("gc", &recording, 2_000, Alarms::None);
}

/// R16: a gc that dies before the new name is durable leaves a new generation that takes no push before it is.
#[test]
fn push_after_a_gc_whose_rename_is_not_durable() {
    let mut recording = Recording::new(archive_of(3));
    recording.attempt(
        |volume| drop(work::gc(volume, &mut |_| ())),
        |volume| {
            volume.fail(Some(Plan {
                call: Call::SyncDir,
                nth: 1,
                fault: Fault::Error(libc::EIO),
                stays: false,
            }))
        },
    );
    push_step(&mut recording, 4);
    replay_some("push after an unfinished gc", &recording, 2_000, Alarms::None);
}

/// R3: commits that were not synced may go, from the last one on; the next synced one takes them along.
#[test]
fn fast_commits_and_a_safe_one() {
    let mut recording = Recording::new(archive_of(2));
    for number in [4, 5] {
        let fast = |volume: &Arc<Volume>| {
            let pack = TestPack::new(&[small(number)]);
            push_as(Durability::Fast, volume, &pack, vec![set(&tag(number), small(number))]).unwrap();
        };
        recording.attempt(fast, |_| ());
    }
    push_step(&mut recording, 6);
    replay("fast commits and a safe one", &recording, 3_000);
}

/// Pushes one blob with an arm, by way of an appender, as a step of a recording. Batches take three.
fn arm_step(recording: &mut Recording, durability: Durability, number: u32) {
    recording.step(|volume| arm_push(volume, durability, number));
}

fn arm_push(volume: &Arc<Volume>, durability: Durability, number: u32) {
    let disk = CrashDisk(volume.clone());
    let policy = WritePolicy {
        durability,
        ..policy(&disk)
    };
    let mut appender = Appender::new(&work::path(), policy);
    let mut batch = appender.batch();
    let numbers = match durability {
        Durability::Batch => vec![number, number + 100, number + 200],
        _ => vec![number],
    };
    for number in numbers {
        batch.add_pack(TestPack::new(&[small(number)]).new_pack()).unwrap();
        batch.edit(set(&tag(number), small(number))).unwrap();
    }
    let outcome = batch.finish().unwrap();
    assert!(outcome.written);
}

/// R3, R5: write and sync in one call to the kernel, one after the other.
#[test]
fn uring_commits() {
    if let Err(error) = Ring::new() {
        return not_run("uring_commits", &format!("no io_uring: {error}"));
    }
    let mut recording = Recording::new(archive_of(2));
    for number in [4, 5] {
        arm_step(&mut recording, Durability::Uring, number);
    }
    replay("uring commits", &recording, 2_000);
}

/// A batch is there as a whole or not at all.
#[test]
fn batches() {
    let mut recording = Recording::new(archive_of(2));
    for number in [4, 5] {
        arm_step(&mut recording, Durability::Batch, number);
    }
    replay("batches", &recording, 2_000);
}

/// R3: after commits that were not synced each arm that syncs takes them along, and goes on behind them.
#[test]
fn fast_commits_before_each_other_arm() {
    let mut recording = Recording::new(archive_of(2));
    let mut number = 4;
    for durability in [Durability::Safe, Durability::Uring, Durability::Batch] {
        recording.attempt(move |volume| arm_push(volume, Durability::Fast, number), |_| ());
        arm_step(&mut recording, durability, number + 1);
        number += 2;
    }
    replay_some("fast commits before each other arm", &recording, 3_000, Alarms::None);
}
