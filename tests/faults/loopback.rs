//! File systems of our own: full, read-only, and cut off from power.
//!
//! These need root, to mount images of disks. Each image is a sparse file in the sandbox.

use std::{fs, process::Command};

use crate::common::{Sandbox, not_run};

/// A mount that ends with the test.
struct Mount<'a> {
    sandbox: &'a Sandbox,
    name: &'static str,
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        self.sandbox
            .sh("", &format!("umount \"$A/{0}\" || umount -l \"$A/{0}\"", self.name));
    }
}

/// Makes a file system of `size` in the file `NAME.img` and mounts it; `None` where that cannot be done here.
fn mount<'a>(sandbox: &'a Sandbox, test: &str, name: &'static str, make: &str, size: &str) -> Option<Mount<'a>> {
    let line = format!(
        "truncate -s {size} {name}.img && {make} {name}.img && mkdir {name} && mount -o loop {name}.img {name}"
    );
    let made = sandbox.sh("", &line);
    if made.code != 0 {
        not_run(test, &format!("no file system of our own: {}", made.stderr.trim()));
        return None;
    }
    Some(Mount { sandbox, name })
}

/// Returns whether a program can be started.
fn has(program: &str) -> bool {
    Command::new(program).arg("-V").output().is_ok()
}

/// A disk that is full refuses a push and keeps what it has; with space again it goes on, and after a restart all is there.
#[test]
fn a_full_disk_refuses_and_then_goes_on() {
    const TEST: &str = "a_full_disk_refuses_and_then_goes_on";
    let s = Sandbox::new();
    let Some(disk) = mount(&s, TEST, "disk", "mkfs.ext4 -q -m 0", "16M") else {
        return;
    };
    s.ok("", "git init -q work");
    s.ok("work", "commit one && git push -q \"znippy::$A/disk/app\" main");
    let before = s.ok("", "znippy refs list disk/app").stdout;
    for round in 0..2 {
        s.ok("", "head -c 100M /dev/zero > disk/ballast 2>/dev/null; true");
        s.ok("work", "head -c 2M /dev/urandom > big && git add big && commit big");
        let ran = s.fails("work", "git push -q \"znippy::$A/disk/app\" main");
        assert!(
            ran.stderr.contains("No space left") && ran.stderr.contains("app.znippy"),
            "{}",
            ran.stderr
        );
        assert!(s.ok("", "znippy refs list disk/app").stdout.len() >= before.len());
        let ran = s.fails("work", "git push -q \"znippy::$A/disk/other\" main");
        assert!(
            ran.stderr.contains("No space left") && ran.stderr.contains("other.znippy"),
            "{}",
            ran.stderr
        );
        s.ok(
            "",
            "rm disk/ballast && test \"$(ls -A disk | tr '\\n' ' ')\" = 'app.znippy lost+found '",
        );
        for n in 0..3 {
            s.ok(
                "work",
                &format!("commit more-{round}-{n} && git push -q \"znippy::$A/disk/app\" main"),
            );
        }
    }
    drop(disk);
    s.ok("", "mount -o loop disk.img disk");
    let _again = Mount {
        sandbox: &s,
        name: "disk",
    };
    s.ok(
        "",
        "git clone -q \"znippy::$A/disk/app\" copy && git -C copy fsck --full",
    );
    let (mine, theirs) = (
        s.ok("work", "git rev-parse main").stdout,
        s.ok("copy", "git rev-parse main").stdout,
    );
    assert_eq!(mine, theirs);
}

/// A server says which of its disks has no room: the one where pushed packs are kept, or the archive's.
#[test]
fn a_server_without_room_says_where() {
    const TEST: &str = "a_server_without_room_says_where";
    let s = Sandbox::new();
    let Some(_disk) = mount(&s, TEST, "disk", "mkfs.ext4 -q -m 0", "16M") else {
        return;
    };
    s.ok(
        "",
        "git config --global protocol.ext.allow always && znippy -q init disk/app && znippy -q init app && mkdir disk/tmp &&
         git init -q work && cd work && commit one && git push -q 'ext::znippy %s ../app' main &&
         git push -q 'ext::znippy %s ../disk/app' main && head -c 3M /dev/urandom >big && git add big && commit big",
    );
    s.ok("", "head -c 100M /dev/zero >disk/ballast 2>/dev/null; true");
    for (temporary, archive, named) in [("disk/tmp", "app", "disk/tmp"), (".tmp", "disk/app", "disk/app.znippy")] {
        let before = s.ok("", &format!("znippy refs list {archive}")).stdout;
        // By a pipe, not by `ext::`: there git may not pass on what the server says at its end.
        let server = format!("TMPDIR=$A/{temporary} znippy receive-pack");
        let push = format!("git push -q --receive-pack=\"{server}\" \"$A/{archive}.znippy\" main");
        let ran = s.fails("work", &push);
        let named = s.path(named).display().to_string();
        let told = ran
            .stderr
            .lines()
            .find(|line| line.contains("No space left"))
            .unwrap_or_default();
        assert!(told.contains(&named), "{archive}: {}", ran.stderr);
        assert!(!ran.stderr.contains("invalid pack"), "{archive}: {}", ran.stderr);
        assert_eq!(told.contains("TMPDIR"), archive == "app", "{told}");
        assert_eq!(s.ok("", &format!("znippy refs list {archive}")).stdout, before);
    }
    s.ok("", "rm disk/ballast && test -z \"$(ls -A disk/tmp)\"");
    s.ok(
        "work",
        "git push -q 'ext::znippy %s ../app' main && git push -q 'ext::znippy %s ../disk/app' main",
    );
    s.ok("", "znippy -q verify --full app disk/app");
}

/// A read-only mount is read, and a push says why it does not work.
#[test]
fn a_read_only_mount_is_read() {
    const TEST: &str = "a_read_only_mount_is_read";
    let s = Sandbox::new();
    let Some(_disk) = mount(&s, TEST, "disk", "mkfs.ext4 -q", "16M") else {
        return;
    };
    s.ok("", "git init -q work");
    s.ok(
        "work",
        "commit one && git push -q \"znippy::$A/disk/app\" main && commit two",
    );
    s.ok("", "mount -o remount,ro disk");
    s.ok(
        "",
        "git clone -q \"znippy::$A/disk/app\" copy && git -C copy fsck --full && znippy info disk/app",
    );
    for remote in ["app", "new"] {
        let ran = s.fails("work", &format!("git push -q \"znippy::$A/disk/{remote}\" main"));
        let told = ran.stderr.contains("Read-only file system") && ran.stderr.contains(&format!("{remote}.znippy"));
        assert!(told, "{}", ran.stderr);
    }
    let ran = s.fails("", "znippy gc disk/app");
    assert!(
        ran.stderr.contains("app.znippy") || ran.stderr.contains("Read-only"),
        "{}",
        ran.stderr
    );
}

/// The same of a directory that is mounted a second time, for reading only: what is pushed to the first is seen there.
#[test]
fn a_read_only_bind_mount_is_read() {
    const TEST: &str = "a_read_only_bind_mount_is_read";
    let s = Sandbox::new();
    let made = s.sh(
        "",
        "mkdir store shown && mount --bind store shown && mount -o remount,bind,ro shown",
    );
    let _mount = Mount {
        sandbox: &s,
        name: "shown",
    };
    if made.code != 0 {
        return not_run(TEST, &format!("no mount: {}", made.stderr.trim()));
    }
    s.ok("", "git init -q work");
    s.ok("work", "commit one && git push -q \"znippy::$A/store/app\" main");
    s.ok("", "git clone -q \"znippy::$A/shown/app\" copy");
    s.ok("work", "commit two && git push -q \"znippy::$A/store/app\" main");
    s.ok(
        "",
        "git -C copy pull -q && git -C copy fsck --full && test -f copy/two.txt",
    );
    s.ok(
        "",
        "git ls-remote -q \"znippy::$A/shown/app\" && znippy verify --full shown/app && znippy info shown/app",
    );
    for line in [
        "git -C work push \"znippy::$A/shown/app\" main:x",
        "git -C work push \"znippy::$A/shown/new\" main",
        "znippy gc --force shown/app",
        "znippy index --rebuild shown/app",
    ] {
        let ran = s.fails("", line);
        let told = ran.stderr.contains("Read-only file system") && ran.stderr.contains(".znippy");
        assert!(told, "{line}: {}", ran.stderr);
    }
    s.ok("work", "git push -q \"znippy::$A/store/app\" main:x");
}

/// The disk under a file system is copied, at once and without a sync, while pushes go on: each copy is what a power cut would
/// leave. It is mounted, and must show every push that had been acknowledged, and take another one.
#[test]
fn pushes_survive_a_power_cut() {
    const TEST: &str = "pushes_survive_a_power_cut";
    if !has("mkfs.xfs") {
        return not_run(TEST, "no mkfs.xfs");
    }
    let s = Sandbox::new();
    // A disk whose files can be copied in one step.
    let Some(_outer) = mount(&s, TEST, "outer", "mkfs.xfs -q -m reflink=1", "3G") else {
        return;
    };
    for (make, size) in [("mkfs.ext4 -q", "64M"), ("mkfs.xfs -q", "320M")] {
        let kind = make.split(' ').next().expect("a program");
        let line = format!(
            "truncate -s {size} outer/disk.img && {make} outer/disk.img && mkdir -p disk && mount -o loop outer/disk.img disk"
        );
        let made = s.sh("", &line);
        if made.code != 0 {
            not_run(TEST, &format!("{kind}: {}", made.stderr.trim()));
            continue;
        }
        let disk = Mount {
            sandbox: &s,
            name: "disk",
        };
        s.ok("", "rm -rf work && git init -q work");
        s.ok("work", "commit first && git push -q \"znippy::$A/disk/app\" main");
        fs::write(s.path("acked"), "1\n").unwrap();
        const PUSHES: usize = 20;
        const COPIES: usize = 10;
        let acked = || fs::read_to_string(s.path("acked")).unwrap().lines().count();
        let at_least: Vec<usize> = std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..PUSHES {
                    s.ok("work", &format!("head -c 20000 /dev/urandom > f && git add f && commit c{n} && git push -q \"znippy::$A/disk/app\" main && echo 1 >> \"$A/acked\""));
                    if n == PUSHES / 2 {
                        s.ok("", "znippy gc disk/app");
                    }
                }
            });
            let copy = |n| {
                // Spread over all pushes, at no particular moment of any.
                while acked() < 1 + n * (PUSHES - 1) / COPIES {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                std::thread::sleep(std::time::Duration::from_millis(n as u64 * 17 % 60));
                let acked = acked();
                s.ok("", &format!("cp --reflink=always outer/disk.img outer/cut-{n}.img"));
                acked
            };
            (0..COPIES).map(copy).collect()
        });
        drop(disk);
        for (n, at_least) in at_least.into_iter().enumerate() {
            s.ok("", &format!("mount -o loop outer/cut-{n}.img disk"));
            let _disk = Mount {
                sandbox: &s,
                name: "disk",
            };
            let tip = s.ok("", "znippy refs get disk/app refs/heads/main").stdout;
            let commits: usize = s
                .ok("work", &format!("git rev-list --count {}", tip.trim()))
                .text()
                .parse()
                .unwrap();
            assert!(
                commits >= at_least,
                "{kind}, copy {n}: {commits} commits of {at_least} that were acknowledged"
            );
            s.ok("work", "git push -q \"znippy::$A/disk/app\" main");
            s.ok("", "rm -rf copy && git clone -q \"znippy::$A/disk/app\" copy && git -C copy fsck --full && rm -f outer/cut-*.gone");
            println!("{kind}, copy {n}: {commits} commits, {at_least} acknowledged");
        }
        s.ok("", "rm -f outer/cut-*.img outer/disk.img");
    }
}
