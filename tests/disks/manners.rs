//! Each way to misbehave, and what comes of it.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::FileExt,
    sync::{Arc, Mutex},
    thread,
};

use crate::{
    disk::{Cached, Call, Event, Locks, Manners},
    stage::{Stage, check},
};

/// R25: where nobody knows whether locks reach other machines, nothing is written until somebody says so; reading works.
#[test]
fn r25_locks_that_may_not_reach_other_machines() {
    let Some(stage) = Stage::new("r25_locks_that_may_not_reach_other_machines") else {
        return;
    };
    stage.s.ok("", "git config --global --unset znippy.lock");
    let refused = "git config znippy.lock";
    // Where all packs are proven index has nothing to write.
    let failing = [("push", refused), ("gc", refused), ("push after gc", refused)];
    stage.steps(&Manners::default(), &failing);
    for mode in ["local", "file"] {
        stage.s.ok("", &format!("git config --global znippy.lock {mode}"));
        stage.settle();
    }
}

/// R25: with a lock file it does not matter what the disk makes of locks; several machines at once lose nothing.
#[test]
fn r25_locks_that_are_refused_or_do_nothing() {
    let Some(stage) = Stage::new("r25_locks_that_are_refused_or_do_nothing") else {
        return;
    };
    for locks in [
        Locks::Refused(libc::ENOLCK),
        Locks::Refused(libc::ENOSYS),
        Locks::Ignored,
    ] {
        let manners = Manners {
            locks,
            ..Manners::default()
        };
        stage.all(&manners, &[]);
        stage.behave(manners);
        let pushes: Vec<_> = ["a", "b", "c"]
            .iter()
            .map(|name| stage.push_elsewhere(&format!("{name}-{locks:?}").replace(['(', ')'], "-")))
            .collect();
        let codes: Vec<_> = pushes
            .into_iter()
            .map(|(push, code)| (std::thread::spawn(push), code))
            .collect();
        for (push, code) in codes {
            push.join().unwrap();
            assert_eq!(*code.lock().unwrap(), Some(0));
        }
        stage.settle();
        stage.s.ok("", "rm back/*");
        stage.forget();
    }
    // Without a lock file nobody writes where there are no locks.
    stage.s.ok("", "git config --global znippy.lock local");
    let manners = Manners {
        locks: Locks::Refused(libc::ENOLCK),
        ..Manners::default()
    };
    let why = "cannot lock files";
    stage.all(
        &manners,
        &[("push", why), ("index", why), ("gc", why), ("push after gc", why)],
    );
}

/// R25: a lock file whose process is known to be gone goes by itself, whatever the disk makes of locks; one of another machine,
/// and what is left of somebody who died while removing one, takes `znippy unlock`.
#[test]
fn r25_a_lock_file_that_was_left() {
    let Some(stage) = Stage::new("r25_a_lock_file_that_was_left") else {
        return;
    };
    check("push", &stage.push("net"), None);
    let leave = |host: &str, name: &str| {
        stage.s.ok(
            "",
            &format!(
                "pid=$(sh -c 'echo $$') && printf 'znippy-lock 1\\nuser 0\\nhost %s\\nboot %s\\npids %s\\npid %s\\nsince 1\\n' \
                 {host} $(cat /proc/sys/kernel/random/boot_id) $(readlink /proc/self/ns/pid) $pid > back/.app.znippy.{name}"
            ),
        );
    };
    for locks in [Locks::Kept, Locks::Ignored, Locks::Refused(libc::ENOLCK)] {
        stage.behave(Manners {
            locks,
            ..Manners::default()
        });
        for line in ["gc --force net/app", "index --rebuild net/app"] {
            leave("$(uname -n)", "lock");
            check(line, &stage.znippy(line), None);
        }
        leave("$(uname -n)", "lock");
        check("push", &stage.push("net"), None);
        leave("elsewhere", "lock");
        check("gc", &stage.znippy("gc --force net/app"), Some("znippy unlock"));
        check("push", &stage.push("net"), Some("znippy unlock"));
        check("unlock", &stage.znippy("unlock net/app"), None);
        check("push", &stage.push("net"), None);
        leave("$(uname -n)", "lock");
        leave("$(uname -n)", "lock.break");
        check("push", &stage.push("net"), Some("znippy unlock"));
        check("unlock", &stage.znippy("unlock net/app"), None);
        assert_eq!(stage.s.ok("", "ls -A back").text(), "app.znippy");
        check("push", &stage.push("net"), None);
    }
    stage.settle();
}

/// R25: where another machine wrote to the same place, because the lock did nothing, a writer sees that before its slot, whatever its
/// own cache holds.
#[test]
fn r25_the_own_header_is_read_from_the_disk() {
    let Some(stage) = Stage::new("r25_the_own_header_is_read_from_the_disk") else {
        return;
    };
    stage.s.ok("", "git config --global znippy.lock local");
    check("push", &stage.push("net"), None);
    let archive = stage.s.path("back/app.znippy");
    for cached in [Cached::Never, Cached::UntilOpened, Cached::Always] {
        stage.behave(Manners {
            locks: Locks::Ignored,
            cached,
            ..Manners::default()
        });
        let other = archive.clone();
        let at = fs::metadata(&archive).unwrap().len();
        let write = move || {
            let file = fs::OpenOptions::new().write(true).open(other).unwrap();
            file.write_all_at(&[b'x'; 100], at + 16).unwrap();
        };
        // The first sync is that of the place, the second that of the commit.
        stage.disk.at(Call::Sync, 2, Event::Meanwhile(Box::new(write)));
        check("push", &stage.push("net"), Some("at the same time"));
        stage.s.ok("", "rm back/*");
        stage.forget();
        stage.behave(Manners::default());
        check("push", &stage.push("net"), None);
    }
    stage.s.ok("", "git config --global znippy.lock file");
    stage.settle();
}

/// R14, R16: what a disk does not have is not needed.
#[test]
fn r14_r16_calls_that_are_refused() {
    let Some(stage) = Stage::new("r14_r16_calls_that_are_refused") else {
        return;
    };
    let all = [
        Manners::default(),
        Manners {
            directory_sync: Some(libc::EINVAL),
            ..Manners::default()
        },
        Manners {
            chmod: Some(libc::EPERM),
            ..Manners::default()
        },
        Manners {
            link: Some(libc::EPERM),
            ..Manners::default()
        },
        Manners {
            exclusive_rename: Some(libc::EINVAL),
            ..Manners::default()
        },
        Manners {
            link: Some(libc::EPERM),
            exclusive_rename: Some(libc::EINVAL),
            ..Manners::default()
        },
    ];
    for (lock, manners) in LOCKS
        .iter()
        .flat_map(|lock| all.iter().map(move |manners| (lock, manners)))
    {
        stage.lock_by(lock);
        stage.all(manners, &[]);
        stage.s.ok("", "rm back/*");
        stage.forget();
    }
}

/// R14: two first pushes to a disk that has neither links nor renames that do not replace.
#[test]
fn r14_two_first_pushes_where_nothing_is_exclusive_but_creation() {
    let Some(stage) = Stage::new("r14_two_first_pushes_where_nothing_is_exclusive_but_creation") else {
        return;
    };
    for nth in 1..=2 {
        stage.behave(Manners {
            link: Some(libc::EPERM),
            exclusive_rename: Some(libc::EINVAL),
            ..Manners::default()
        });
        let (push, code) = stage.push_elsewhere(&format!("far-{nth}"));
        stage.disk.at(Call::Create, nth, Event::Meanwhile(push));
        check("push", &stage.push("net"), None);
        assert_eq!(*code.lock().unwrap(), Some(0));
        stage.settle();
        stage.s.ok("", "rm back/*");
        stage.forget();
    }
}

/// R14: a first push that meets the file by which another one has taken the name waits for that one, and pushes into its archive.
/// It goes on without it where that process is known to be gone, and says what to do where it cannot know.
#[test]
fn r14_a_first_push_while_another_one_takes_the_name() {
    let Some(stage) = Stage::new("r14_a_first_push_while_another_one_takes_the_name") else {
        return;
    };
    let behave = || {
        stage.behave(Manners {
            link: Some(libc::EPERM),
            exclusive_rename: Some(libc::EINVAL),
            ..Manners::default()
        })
    };
    behave();
    stage.s.ok("", "git config --global znippy.lockTimeout 60");
    // Of the other machine, which starts when the name is taken, and is met reading what took it.
    let (push, code) = stage.push_elsewhere("far");
    let (disk, running) = (stage.disk.clone(), Arc::new(Mutex::new(None)));
    let handle = running.clone();
    let start = move || {
        let before = disk.count(Call::Read);
        let push = thread::spawn(push);
        while disk.count(Call::Read) < before + 2 && !push.is_finished() {
            thread::yield_now();
        }
        assert!(!push.is_finished(), "it did not wait");
        *handle.lock().unwrap() = Some(push);
    };
    stage.disk.at(Call::Rename, 1, Event::Meanwhile(Box::new(start)));
    check("push", &stage.push("net"), None);
    let push = running.lock().unwrap().take().expect("the name was taken");
    push.join().unwrap();
    assert_eq!(*code.lock().unwrap(), Some(0));
    stage.settle();

    stage.s.ok("", "git config --global znippy.lockTimeout 1");
    for (host, why) in [("$(uname -n)", None), ("elsewhere", Some("remove the file"))] {
        stage.s.ok("", "rm back/*");
        stage.forget();
        behave();
        let line = format!(
            "pid=$(sh -c 'echo $$') && printf 'znippy-lock 1\\nuser 0\\nhost %s\\nboot %s\\npids %s\\npid %s\\nsince 1\\n' \
             {host} $(cat /proc/sys/kernel/random/boot_id) $(readlink /proc/self/ns/pid) $pid > back/app.znippy"
        );
        stage.s.ok("", &line);
        check("clone", &stage.clone("net"), Some("is being created by process"));
        check("push", &stage.push("net"), why);
    }
    stage.s.ok("", ": > back/app.znippy");
    check("push", &stage.push("net"), Some("remove the file"));
    stage.s.ok("", "rm back/app.znippy");
    check("push", &stage.push("net"), None);
    stage.settle();
}

/// R26: less than was asked for is no error, and no end of the file.
#[test]
fn r26_short_reads_and_writes() {
    if let Some(stage) = Stage::new("r26_short_reads_and_writes") {
        let manners = Manners {
            at_most: Some(1000),
            ..Manners::default()
        };
        for lock in LOCKS {
            stage.lock_by(lock);
            stage.all(&manners, &[]);
            stage.s.ok("", "rm back/*");
            stage.forget();
        }
    }
}

/// R16: where an open file cannot be replaced the old generation stays, with nothing beside it.
#[test]
fn r16_a_rename_over_an_open_file_that_is_refused() {
    let Some(stage) = Stage::new("r16_a_rename_over_an_open_file_that_is_refused") else {
        return;
    };
    for (number, lock) in [libc::EBUSY, libc::ETXTBSY].into_iter().zip(LOCKS) {
        stage.lock_by(lock);
        let manners = Manners {
            rename_over_open: Some(number),
            ..Manners::default()
        };
        stage.all(&manners, &[("gc", "the archive is as it was")]);
        stage.s.ok("", "rm back/*");
        stage.forget();
    }
}

/// R25: without a lock file a writer cannot know that its file is the archive; with one it need not.
#[test]
fn r25_inode_numbers_that_change() {
    let Some(stage) = Stage::new("r25_inode_numbers_that_change") else {
        return;
    };
    let manners = Manners {
        unstable: true,
        ..Manners::default()
    };
    stage.all(&manners, &[]);
    stage.s.ok("", "git config --global znippy.lock local");
    let why = "git config znippy.lock file";
    let failing = [("push", why), ("gc", why), ("push after gc", why)];
    stage.s.ok("", "rm back/*");
    stage.forget();
    stage.all(&manners, &failing);
}

/// R5, R25: what a machine remembers of a file is not what is there; under the lock it looks again.
#[test]
fn r5_what_other_machines_wrote_is_seen_under_the_lock() {
    let Some(stage) = Stage::new("r5_what_other_machines_wrote_is_seen_under_the_lock") else {
        return;
    };
    for cached in [Cached::UntilOpened, Cached::Always] {
        let manners = Manners {
            cached,
            ..Manners::default()
        };
        stage.all(&manners, &[]);
        stage.behave(manners.clone());
        check("push", &stage.push("net"), None);
        // Between two pushes, and in the middle of one: the lock file is about to be created.
        let (push, code) = stage.push_elsewhere(&format!("between-{cached:?}"));
        push();
        assert_eq!(*code.lock().unwrap(), Some(0));
        check("push", &stage.push("net"), None);
        let (push, code) = stage.push_elsewhere(&format!("amid-push-{cached:?}"));
        stage.disk.at(Call::Create, 1, Event::Meanwhile(push));
        check("push", &stage.push("net"), None);
        assert_eq!(*code.lock().unwrap(), Some(0));
        check("clone", &stage.clone("back"), None);
        let (gc, code) = stage.elsewhere("znippy gc --force far/app");
        stage.disk.at(Call::Create, 1, Event::Meanwhile(gc));
        check("push", &stage.push("net"), None);
        assert_eq!(*code.lock().unwrap(), Some(0));
        check("clone", &stage.clone("back"), None);
        // gc creates its own lock, the new file, and the writers' lock.
        let (push, code) = stage.push_elsewhere(&format!("amid-gc-{cached:?}"));
        stage.disk.at(Call::Create, 3, Event::Meanwhile(push));
        check("gc", &stage.znippy("gc --force net/app"), None);
        assert_eq!(*code.lock().unwrap(), Some(0));
        stage.settle();
        stage.s.ok("", "rm back/*");
        stage.forget();
    }
}

/// R26: another machine's gc takes the open file away from a reader or writer, at any read.
#[test]
fn r26_a_stale_handle() {
    let Some(stage) = Stage::new("r26_a_stale_handle") else {
        return;
    };
    check("push", &stage.push("net"), None);
    let manners = Manners {
        stale: true,
        at_most: NOT_CACHED,
        ..Manners::default()
    };
    let mut outcomes = BTreeMap::new();
    for (name, step) in operations(&stage) {
        stage.behave(manners.clone());
        let before = stage.disk.count(Call::Read);
        check(name, &step(), None);
        let reads = stage.disk.count(Call::Read) - before;
        for nth in places(reads) {
            stage.behave(manners.clone());
            let (gc, code) = stage.elsewhere("znippy gc --force --expire now back/app");
            stage.disk.at(Call::Read, nth, Event::Meanwhile(gc));
            note(&mut outcomes, name, &step());
            let code = *code.lock().unwrap();
            // Beside a gc there is no other.
            // What is read under the lock is not replaced.
            assert!(matches!(code, Some(0 | 4) | None), "gc: {code:?}");
            check("push", &stage.push("back"), None);
        }
    }
    print("ESTALE", &outcomes);
    // What is about to write is told so, and can be asked again; everything else begins again by itself.
    for (name, [_, failed]) in &outcomes {
        assert!(
            *failed == 0 || name == "push" || name == "index",
            "{name} failed {failed} times"
        );
    }
    stage.settle();
}

/// R26: where another machine's gc takes the file away at any moment of a clone or fetch, also when much of the pack has been
/// copied, it begins again by the path, and the user need not.
#[test]
fn r26_a_clone_begins_again_after_a_gc() {
    let Some(stage) = Stage::new("r26_a_clone_begins_again_after_a_gc") else {
        return;
    };
    let large = "head -c 3000000 /dev/urandom >large && git add large";
    stage.s.ok("work", large);
    check("push", &stage.push("net"), None);
    let manners = Manners {
        stale: true,
        at_most: Some(64 << 10),
        ..Manners::default()
    };
    let steps: [(&str, Step<'_>); 2] = [
        ("clone", Box::new(|| stage.clone("net"))),
        ("fetch", Box::new(|| stage.fetch("net"))),
    ];
    for (name, step) in steps {
        stage.behave(manners.clone());
        let before = stage.disk.count(Call::Read);
        check(name, &step(), None);
        let reads = stage.disk.count(Call::Read) - before;
        assert!(reads > 30, "{reads} reads are too few to copy so much");
        for nth in places(reads) {
            stage.behave(manners.clone());
            let (gc, code) = stage.elsewhere("znippy gc --force --expire now back/app");
            stage.disk.at(Call::Read, nth, Event::Meanwhile(gc));
            check(&format!("{name}, gc at read {nth} of {reads}"), &step(), None);
            assert!(matches!(*code.lock().unwrap(), Some(0) | None));
        }
    }
    stage.settle();
}

/// R7, R26: a read, write or sync fails, once.
#[test]
fn r26_one_error() {
    let Some(stage) = Stage::new("r26_one_error") else {
        return;
    };
    check("push", &stage.push("net"), None);
    let manners = Manners {
        at_most: NOT_CACHED,
        ..Manners::default()
    };
    let first_push: (&str, Step<'_>) = (
        "first push",
        Box::new(|| {
            stage.s.ok("", "rm -f back/*");
            stage.forget();
            stage.push("net")
        }),
    );
    let operations: Vec<_> = operations(&stage).into_iter().chain([first_push]).collect();
    for (call, lock) in [Call::Read, Call::Write, Call::Sync]
        .into_iter()
        .flat_map(|call| LOCKS.map(|lock| (call, lock)))
    {
        stage.lock_by(lock);
        let mut outcomes = BTreeMap::new();
        for (name, step) in &operations {
            stage.behave(manners.clone());
            let before = stage.disk.count(call);
            check(name, &step(), None);
            for nth in places(stage.disk.count(call) - before) {
                stage.disk.at(call, nth, Event::Error(libc::EIO));
                let ran = step();
                note(&mut outcomes, name, &ran);
                stage.behave(manners.clone());
                check("push", &stage.push("net"), None);
            }
        }
        print(&format!("EIO at {call:?}, lock {lock}"), &outcomes);
        stage.settle();
    }
}

/// Every read and write of a program comes to the disk as it is: else the kernel tries again what failed for itself.
const NOT_CACHED: Option<usize> = Some(1 << 20);

type Step<'a> = Box<dyn Fn() -> crate::common::Ran + 'a>;

/// The ways to lock with which anything is written where nobody knows how far locks reach.
const LOCKS: [&str; 2] = ["local", "file"];

fn operations(stage: &Stage) -> [(&'static str, Step<'_>); 6] {
    [
        ("push", Box::new(|| stage.push("net"))),
        ("clone", Box::new(|| stage.clone("net"))),
        ("fetch", Box::new(|| stage.fetch("net"))),
        ("index", Box::new(|| stage.znippy("index --rebuild net/app"))),
        ("gc", Box::new(|| stage.znippy("gc --force net/app"))),
        ("verify", Box::new(|| stage.znippy("verify --full net/app"))),
    ]
}

/// Some of the calls, from the first to the last.
fn places(count: usize) -> Vec<usize> {
    const SOME: usize = 6;
    match count {
        0..=SOME => (1..=count).collect(),
        _ => (0..SOME).map(|i| 1 + i * (count - 1) / (SOME - 1)).collect(),
    }
}

/// Counts what came of a command: success, or an error that names the archive.
fn note(outcomes: &mut BTreeMap<String, [u32; 2]>, name: &str, ran: &crate::common::Ran) {
    assert!(
        ran.code <= 128 && !ran.stderr.contains("panicked"),
        "{name}: {}",
        ran.stderr
    );
    if ran.code != 0 {
        // What verify finds is what was asked for: it is on standard output. A disk that fails is no damage.
        let told = format!("{}{}", ran.stderr, ran.stdout);
        assert!(
            told.contains("app.znippy") && !told.contains("damage:"),
            "{name}: {told}"
        );
    }
    outcomes.entry(name.to_owned()).or_default()[usize::from(ran.code != 0)] += 1;
}

fn print(what: &str, outcomes: &BTreeMap<String, [u32; 2]>) {
    for (name, [succeeded, failed]) in outcomes {
        println!("{what}: {name}: {succeeded} succeeded, {failed} failed");
    }
}
