//! A disk over sshfs, as two machines see it.

use std::fs;

use crate::{
    common::{Sandbox, not_run, sshd},
    stage::check,
};

/// What is mounted ends with this.
struct Mounts<'a>(&'a Sandbox);

impl Drop for Mounts<'_> {
    fn drop(&mut self) {
        for name in ["net", "far"] {
            self.0.sh("", &format!("umount -l {name} || fusermount3 -u -z {name}"));
        }
    }
}

/// R25: sshfs keeps locks to each machine and remembers for a while what it saw; with a lock file several machines may push at
/// once, and gc, and every push that is acknowledged is there.
#[test]
fn r25_several_machines_push_through_sshfs() {
    const TEST: &str = "r25_several_machines_push_through_sshfs";
    let server = match sshd::server() {
        Ok(server) => server,
        Err(why) => return not_run(TEST, &why),
    };
    let s = &server.sandbox;
    for name in ["back", "net", "far"] {
        fs::create_dir(s.path(name)).unwrap();
    }
    let _mounts = Mounts(s);
    for name in ["net", "far"] {
        let line = format!("sshfs -o ssh_command=\"$A/ssh/with-open\" \"127.0.0.1:$A/back\" {name}");
        let ran = s.sh("", &line);
        if ran.code != 0 {
            return not_run(TEST, &format!("sshfs (Debian: sshfs): {}", ran.stderr.trim()));
        }
    }
    s.ok(
        "",
        "git config --global znippy.lockTimeout 60 && git init -q work && cd work && commit base && cp -r . ../theirs",
    );
    s.ok("work", "git push -q \"znippy::$A/net/app\" main");
    let ran = s.sh("work", "commit two && git push -q \"znippy::$A/net/app\" main");
    check("push", &ran, Some("git config znippy.lock"));
    s.ok("", "git config --global znippy.lock file");
    s.ok("work", "git push -q \"znippy::$A/net/app\" main");
    // One after the other: neither believes what it saw a moment ago.
    for n in 0..3 {
        s.ok(
            "work",
            &format!("commit near-{n} && git push -q \"znippy::$A/net/app\" main:near-{n}"),
        );
        s.ok(
            "theirs",
            &format!("commit far-{n} && git push -q \"znippy::$A/far/app\" main:far-{n}"),
        );
    }
    // At once.
    let pushes = |dir: &'static str, at: &'static str| {
        move || {
            for n in 3..8 {
                s.ok(
                    dir,
                    &format!("commit {at}-{n} && git push -q \"znippy::$A/{at}/app\" main:{at}-{n}"),
                );
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(pushes("work", "net"));
        scope.spawn(pushes("theirs", "far"));
        scope.spawn(|| s.ok("", "znippy gc --force far/app"));
    });
    s.ok("", "znippy gc --force net/app && znippy verify --full far/app");
    for at in ["net", "far", "back"] {
        s.ok(
            "",
            &format!("git clone -q --mirror \"znippy::$A/{at}/app\" {at}-copy && git -C {at}-copy fsck --full"),
        );
        let refs = s.ok(&format!("{at}-copy"), "git show-ref").stdout;
        for n in 3..8 {
            for (dir, from) in [("work", "net"), ("theirs", "far")] {
                let tip = s
                    .ok(dir, &format!("git log --format=%H --grep='^{from}-{n}$'"))
                    .text()
                    .to_owned();
                assert!(
                    refs.contains(&format!("{tip} refs/heads/{from}-{n}\n")),
                    "{from}-{n} is not in\n{refs}"
                );
            }
        }
        assert!(refs.contains("refs/heads/far-2\n") && refs.contains("refs/heads/near-2\n"));
    }
    assert_eq!(s.ok("", "ls -A back").stdout, "app.znippy\n");
}
