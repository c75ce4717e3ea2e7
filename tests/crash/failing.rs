//! Every call to the disk fails in every way: a clear error or success, nothing is lost, and the next push works.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    disk::CrashDisk,
    volume::{Call, Fault, Image, Plan, Volume},
    work::{self, TestPack, View, archive_of, policy, push, set, small, tag, view},
};

/// What a faulty run came to, by call and fault.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
struct Outcomes {
    succeeded: u64,
    failed: u64,
}

type Work = dyn Fn(&Arc<Volume>) -> Result<(), String>;

/// What may go wrong, with the name of it.
fn faults() -> Vec<(&'static str, Fault, bool)> {
    let mut faults = vec![];
    for (name, number) in [
        ("ENOSPC", libc::ENOSPC),
        ("EIO", libc::EIO),
        ("EINTR", libc::EINTR),
        ("ESTALE", libc::ESTALE),
        ("ETIMEDOUT", libc::ETIMEDOUT),
    ] {
        faults.push((name, Fault::Error(number), false));
        faults.push((name, Fault::Error(number), true));
    }
    faults.push(("ENOSPC half-way", Fault::Half(libc::ENOSPC), true));
    faults.push(("EIO half-way", Fault::Half(libc::EIO), false));
    faults
}

/// Runs `work` once for each call that it makes and each fault, on a disk with `base`; checks what is left; returns the table.
fn run(name: &str, base: &Image, work: &Work) -> BTreeMap<(Call, &'static str), Outcomes> {
    run_on(false, name, base, work)
}

/// As [`run`], on a disk that other machines may write to or not.
fn run_on(is_on_network: bool, name: &str, base: &Image, work: &Work) -> BTreeMap<(Call, &'static str), Outcomes> {
    let disk = || {
        let volume = Arc::new(Volume::new(base));
        volume.on_network(is_on_network);
        volume
    };
    let clean = disk();
    clean.fail(None);
    let before = view(&clean).unwrap();
    clean.fail(None);
    work(&clean).unwrap();
    let calls = clean.calls();
    let after = view(&clean).unwrap();
    let mut table: BTreeMap<(Call, &'static str), Outcomes> = BTreeMap::new();
    for (call, count) in calls {
        for nth in 1..=count {
            for (fault_name, fault, stays) in faults() {
                // EINTR for ever is no disk.
                if stays && fault == Fault::Error(libc::EINTR) {
                    continue;
                }
                let volume = disk();
                volume.fail(Some(Plan {
                    call,
                    nth,
                    fault,
                    stays,
                }));
                let context = format!("{name}: {fault_name} at {call:?} {nth}, stays: {stays}");
                let outcome = work(&volume);
                volume.fail(None);
                let seen = view(&volume).unwrap_or_else(|why| panic!("{context}: {outcome:?}, and then: {why}"));
                let is = |expected: &Option<View>| match (&seen, expected) {
                    (Some(seen), Some(expected)) => seen.same_content(expected),
                    (seen, expected) => seen.is_none() && expected.is_none(),
                };
                let entry = table.entry((call, fault_name)).or_default();
                match &outcome {
                    Ok(()) => {
                        entry.succeeded += 1;
                        assert!(is(&after), "{context}: success, but it is not there");
                    }
                    Err(text) => {
                        entry.failed += 1;
                        // After a sync that failed and could not be taken back, and after a creation that could not be made
                        // durable, it may be there.
                        let unknown = text.contains("unknown") || call == Call::SyncDir;
                        assert!(
                            is(&before) || unknown && is(&after),
                            "{context}: {text}, but something changed"
                        );
                        assert!(
                            text.contains(work::NAME) || text.contains(crate::disk::DIRECTORY),
                            "{context}: {text}"
                        );
                    }
                }
                if let Some(seen) = &seen {
                    assert!(
                        seen.warnings.iter().all(|w| !w.contains("damaged")),
                        "{context}: {:?}",
                        seen.warnings
                    );
                }
                let blob = small(77);
                push(&volume, &TestPack::new(&[blob]), vec![set("refs/tags/next", blob)])
                    .unwrap_or_else(|error| panic!("{context}: {outcome:?}, and then the next push: {error}"));
                let now = view(&volume).unwrap().unwrap();
                assert_eq!(now.find("refs/tags/next"), Some(blob.id()), "{context}");
                let kept = seen.iter().flat_map(|seen| &seen.refs).all(|r| now.refs.contains(r));
                assert!(kept, "{context}: the next push lost references");
            }
        }
    }
    for ((call, fault), outcomes) in &table {
        println!(
            "{name}: {call:?} {fault}: {} succeeded, {} failed",
            outcomes.succeeded, outcomes.failed
        );
    }
    table
}

fn push_work(number: u32) -> impl Fn(&Arc<Volume>) -> Result<(), String> {
    move |volume| {
        let pack = TestPack::new(&[small(number)]);
        push(volume, &pack, vec![set(&tag(number), small(number))])
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

#[test]
fn push_on_a_failing_disk() {
    run("push", &archive_of(3), &push_work(4));
}

/// R25: a network disk, from which nothing is cut off that may arrive late.
#[test]
fn push_on_a_failing_network_disk() {
    run_on(true, "push over the network", &archive_of(3), &push_work(4));
    let with_tail = crate::matrix::with_torn_tail(2, 2000);
    run_on(true, "push over a tail, over the network", &with_tail, &push_work(4));
}

#[test]
fn creation_on_a_failing_disk() {
    run("create", &Image::new(), &push_work(1));
}

#[test]
fn push_over_a_torn_tail_on_a_failing_disk() {
    for keep in [2000, usize::MAX] {
        run(
            "push over a tail",
            &crate::matrix::with_torn_tail(2, keep),
            &push_work(4),
        );
    }
}

#[test]
fn merge_on_a_failing_disk() {
    run("merge", &archive_of(65), &push_work(66));
}

#[test]
fn index_on_a_failing_disk() {
    run("index", &archive_of(1), &|volume| {
        let disk = CrashDisk(volume.clone());
        let caught_up = znippy::archive::catch_up(&work::path(), false, &mut policy(&disk), &mut |_, _| ());
        let unsound = caught_up
            .map_err(|error| error.to_string())?
            .map(|caught_up| caught_up.unsound);
        match unsound {
            Some(unsound) if unsound.is_empty() => Ok(()),
            Some(unsound) => Err(format!("{} is said to be damaged: {unsound:?}", work::NAME)),
            None => Err(format!("{}: another run", work::NAME)),
        }
    });
}

#[test]
fn gc_on_a_failing_disk() {
    let base = archive_of(2);
    let volume = Arc::new(Volume::new(&base));
    push(
        &volume,
        &TestPack::new(&[small(3)]),
        vec![crate::work::delete(&tag(1)), set(&tag(3), small(3))],
    )
    .unwrap();
    run("gc", &volume.visible(), &|volume| {
        work::gc(volume, &mut |_| ())
            .map(drop)
            .map_err(|error| error.to_string())
    });
}

/// Opening on a failing disk is an error or the newest state: never an older one, never an empty one.
#[test]
fn open_on_a_failing_disk() {
    let base = archive_of(3);
    let clean = Arc::new(Volume::new(&base));
    let expected = view(&clean).unwrap();
    clean.fail(None);
    view(&clean).unwrap();
    for (call, count) in clean.calls() {
        for nth in 1..=count {
            for (name, fault, stays) in faults() {
                clean.fail(Some(Plan {
                    call,
                    nth,
                    fault,
                    stays,
                }));
                if let Ok(seen) = view(&clean) {
                    assert!(seen == expected, "{name} at {call:?} {nth}: shows {seen:?}");
                }
            }
        }
    }
}
