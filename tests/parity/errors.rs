//! What is no archive, or cannot be read or written: a clear error, and nothing half-done.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use crate::common::{Ran, Side, fingerprint, not_run, subject_is_file};

/// Makes a client and an archive of some pushes; `None` where the tests run on a bare repository.
fn archive() -> Option<Side> {
    if subject_is_file() {
        return None;
    }
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main
         work$ commit two
         work$ git tag -m t v1
         work$ git push -q $URL main v1
         work$ history 30
         work$ git push -q $URL main
         $ git clone -q $URL reader
         work$ commit three",
    );
    Some(side)
}

/// Asserts that the user can tell from `ran` what is wrong with which file.
#[track_caller]
fn clear(ran: &Ran, path: &str) {
    let said = ran
        .stderr
        .lines()
        .any(|line| line.starts_with("fatal: ") && line.contains(path));
    assert!(said, "no `fatal: … {path} …`: {}", ran.stderr);
    assert!(
        !ran.stderr.contains("panicked") && !ran.stderr.contains("Os {"),
        "{}",
        ran.stderr
    );
}

/// Reads and writes an archive that is not one, and expects a clear error each time.
#[track_caller]
fn all_refuse(side: &Side, name: &str) {
    let path = side.sandbox.path(name);
    let before = fingerprint(&path);
    side.sandbox.set("U", format!("znippy::{}", path.display()));
    for line in [
        "git ls-remote \"$U\"",
        "git clone \"$U\" cloned",
        "git -C reader fetch \"$U\"",
        "git -C work push \"$U\" main",
    ] {
        clear(&side.sandbox.fails("", line), &path.display().to_string());
    }
    assert!(
        !side.sandbox.path("cloned").exists(),
        "a failed clone left its directory"
    );
    assert!(before == fingerprint(&path), "{name} was changed");
}

#[test]
fn a_missing_file_is_not_an_empty_repository() {
    let Some(side) = archive() else { return };
    let path = side.sandbox.path("nothing.znippy").display().to_string();
    for line in ["git ls-remote", "git clone", "git -C reader fetch"] {
        clear(&side.sandbox.fails("", &format!("{line} znippy::{path}")), &path);
    }
    assert!(!side.sandbox.path("nothing.znippy").exists() && !side.sandbox.path("nothing").exists());
}

#[test]
fn r14_a_missing_parent_is_not_created() {
    let Some(side) = archive() else { return };
    let path = side.sandbox.path("no/such/dir/x.znippy").display().to_string();
    for line in ["git ls-remote", "git clone", "git -C work push --all"] {
        clear(&side.sandbox.fails("", &format!("{line} znippy::{path}")), &path);
    }
    assert!(!side.sandbox.path("no").exists());
}

#[test]
fn a_directory() {
    let Some(side) = archive() else { return };
    fs::create_dir(side.sandbox.path("dir.znippy")).unwrap();
    all_refuse(&side, "dir.znippy");
    side.sandbox.ok("", "git clone -q --bare work bare.znippy");
    all_refuse(&side, "bare.znippy");
}

#[test]
fn zero_bytes_and_garbage() {
    let Some(side) = archive() else { return };
    let garbage: Vec<u8> = (0..20_000_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let cases: [(&str, Vec<u8>); 7] = [
        ("zero.znippy", Vec::new()),
        ("one.znippy", vec![b'A']),
        ("magic.znippy", b"ARROW1\0\0".to_vec()),
        ("zeros.znippy", vec![0; 50_000]),
        ("text.znippy", b"not an archive\n".repeat(3000)),
        ("garbage.znippy", garbage.clone()),
        (
            "arrow-garbage.znippy",
            [b"ARROW1\0\0".as_slice(), &garbage, b"ARROW1"].concat(),
        ),
    ];
    for (name, bytes) in cases {
        fs::write(side.sandbox.path(name), bytes).unwrap();
        all_refuse(&side, name);
    }
}

#[test]
fn devices_and_sockets() {
    let Some(side) = archive() else { return };
    side.sandbox.ok(
        "",
        "ln -s /dev/null null.znippy && ln -s /dev/zero zero.znippy && mkfifo pipe.znippy",
    );
    for name in ["null.znippy", "zero.znippy", "pipe.znippy"] {
        for line in ["git ls-remote", "git -C work push"] {
            let url = format!("znippy::{}", side.sandbox.path(name).display());
            let ran = side.sandbox.fails("", &format!("timeout 60 {line} {url}"));
            assert_ne!(ran.code, 124, "{line} of {name} hangs");
        }
    }
}

/// Reads a damaged copy: an error that names it, or exactly references that the archive had at some time.
fn honest(side: &Side, name: &str, states: &[String]) {
    let path = side.sandbox.path(name).display().to_string();
    let ran = side.sandbox.sh("", &format!("git ls-remote znippy::{path}"));
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    match ran.code {
        0 => {
            let newest = states.last().is_some_and(|state| *state == ran.stdout);
            assert!(
                states.contains(&ran.stdout),
                "{name}: references that never were:\n{}",
                ran.stdout
            );
            assert!(
                newest || !ran.stderr.is_empty(),
                "{name}: an earlier state without a word"
            );
        }
        _ => clear(&ran, &path),
    }
    let ran = side
        .sandbox
        .sh("", &format!("rm -rf copy && git clone -q --mirror znippy::{path} copy"));
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    match ran.code {
        0 => {
            side.sandbox.ok("copy", "git fsck --full --strict --no-dangling");
        }
        _ => assert!(!side.sandbox.path("copy").exists()),
    }
}

/// Returns the listing of the archive after each of its pushes.
fn grown() -> Option<(Side, Vec<String>)> {
    if subject_is_file() {
        return None;
    }
    let side = Side::archive("sha1", &[]);
    side.play("$ git init -q work");
    let mut states = Vec::new();
    for step in 0..4 {
        let push = format!("history 20 main s{step} && git tag -m t v{step} && git push -q --mirror $URL");
        side.sandbox.ok("work", &push);
        states.push(side.sandbox.ok("", "git ls-remote $URL").stdout);
    }
    Some((side, states))
}

#[test]
fn truncated_at_fifty_places() {
    let Some((side, states)) = grown() else {
        return;
    };
    let bytes = fs::read(&side.remote).unwrap();
    for i in 0..50 {
        let cut = bytes.len() * i / 50 + i % 3;
        fs::write(side.sandbox.path("cut.znippy"), &bytes[..cut]).unwrap();
        honest(&side, "cut.znippy", &states);
    }
}

#[test]
fn a_flipped_byte_at_a_hundred_places() {
    let Some((side, states)) = grown() else {
        return;
    };
    let bytes = fs::read(&side.remote).unwrap();
    for i in 0..100 {
        let mut damaged = bytes.clone();
        let at = (i * 7919 + i * bytes.len() / 100) % bytes.len();
        damaged[at] ^= 1 << (i % 8);
        fs::write(side.sandbox.path("flip.znippy"), &damaged).unwrap();
        honest(&side, "flip.znippy", &states);
    }
}

#[test]
fn something_appended_to_it() {
    let Some((side, states)) = grown() else {
        return;
    };
    let bytes = fs::read(&side.remote).unwrap();
    let tails = [
        vec![0; 1],
        vec![0; 5000],
        b"junk".repeat(2000),
        bytes[bytes.len() - 3000..].to_vec(),
        bytes.clone(),
    ];
    for tail in tails {
        fs::write(side.sandbox.path("tail.znippy"), [bytes.as_slice(), &tail].concat()).unwrap();
        honest(&side, "tail.znippy", &states);
        let path = side.sandbox.path("tail.znippy").display().to_string();
        let pushed = side
            .sandbox
            .sh("work", &format!("git push -q znippy::{path} main:refs/heads/after"));
        if pushed.code == 0 {
            side.sandbox
                .ok("", &format!("rm -rf copy && git clone -q --mirror znippy::{path} copy"));
            side.sandbox.ok(
                "copy",
                "git rev-parse refs/heads/after && git fsck --full --strict --no-dangling",
            );
        } else {
            clear(&pushed, &path);
        }
    }
}

/// Returns a prefix that runs a command as nobody, or why that is impossible.
fn as_nobody(side: &Side) -> Result<&'static str, String> {
    if !rustix::process::geteuid().is_root() {
        return Ok("");
    }
    let prefix = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    // The sandbox and the binaries must be reachable for nobody.
    for dir in side
        .sandbox
        .root()
        .ancestors()
        .chain(PathBuf::from(env!("CARGO_BIN_EXE_znippy")).ancestors())
    {
        let mode = dir.metadata().map_err(|error| error.to_string())?.permissions().mode();
        if dir != side.sandbox.root() && mode & 0o005 == 0 {
            return Err(format!("{} is closed to other users", dir.display()));
        }
    }
    side.sandbox.ok(
        "",
        "chmod 755 . && chmod -R o+rwX .home .tmp work reader && chmod 755 .bin",
    );
    side.sandbox.set("GIT_CONFIG_COUNT", "1");
    side.sandbox.set("GIT_CONFIG_KEY_0", "safe.directory");
    side.sandbox.set("GIT_CONFIG_VALUE_0", "*");
    match side.sandbox.sh("", &format!("{prefix} znippy version")).code {
        0 => Ok(prefix),
        _ => Err("setpriv cannot change the user".to_owned()),
    }
}

#[test]
fn without_permission_to_read() {
    let Some(side) = archive() else { return };
    let prefix = match as_nobody(&side) {
        Ok(prefix) => prefix,
        Err(reason) => return not_run("without_permission_to_read", &reason),
    };
    fs::set_permissions(&side.remote, fs::Permissions::from_mode(0o000)).unwrap();
    let path = side.remote.display().to_string();
    for line in [
        "git ls-remote $URL",
        "git clone $URL cloned",
        "git -C reader fetch $URL",
        "git -C work push $URL main",
    ] {
        let ran = side.sandbox.fails("", &format!("{prefix} {line}"));
        if !line.contains("clone") {
            clear(&ran, &path);
        }
        assert!(
            !ran.stderr.contains("no such archive"),
            "permission is not absence: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_read_only_file_can_be_read_and_says_why_it_cannot_be_written() {
    let Some(side) = archive() else { return };
    let prefix = match as_nobody(&side) {
        Ok(prefix) => prefix,
        Err(reason) => return not_run("a_read_only_file", &reason),
    };
    fs::set_permissions(&side.remote, fs::Permissions::from_mode(0o444)).unwrap();
    let before = fingerprint(&side.remote);
    side.sandbox.ok("", &format!("{prefix} git ls-remote $URL"));
    side.sandbox.ok(
        "",
        &format!("mkdir -m 777 open && {prefix} git clone -q $URL open/cloned"),
    );
    side.sandbox.ok("", &format!("{prefix} git -C reader fetch $URL"));
    clear(
        &side.sandbox.fails("", &format!("{prefix} git -C work push $URL main")),
        &side.remote.display().to_string(),
    );
    assert!(before == fingerprint(&side.remote));
}

#[test]
fn a_closed_directory_for_a_new_archive() {
    let Some(side) = archive() else { return };
    let prefix = match as_nobody(&side) {
        Ok(prefix) => prefix,
        Err(reason) => return not_run("a_closed_directory", &reason),
    };
    side.sandbox.ok("", "mkdir -m 555 closed");
    let path = side.sandbox.path("closed/new.znippy").display().to_string();
    clear(
        &side
            .sandbox
            .fails("", &format!("{prefix} git -C work push znippy::{path} main")),
        &path,
    );
}

#[test]
fn a_full_disk() {
    let Some(side) = archive() else { return };
    side.sandbox.ok("", "mkdir small");
    let mount = "mount -t tmpfs -o size=512k tmpfs small";
    if side.sandbox.sh("", mount).code != 0 {
        return not_run("a_full_disk", "needs root and a mount of its own");
    }
    let url = format!("znippy::{}", side.sandbox.path("small/x.znippy").display());
    side.sandbox.set("U", &url);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        side.sandbox.ok("work", "git push -q \"$U\" main");
        let before = side.sandbox.ok("", "git ls-remote \"$U\"").stdout;
        side.sandbox.ok(
            "work",
            "head -c 900000 /dev/urandom >big.bin && git add big.bin && git commit -q -m big",
        );
        clear(&side.sandbox.fails("work", "git push \"$U\" main"), "x.znippy");
        assert_eq!(before, side.sandbox.ok("", "git ls-remote \"$U\"").stdout);
        side.sandbox.ok("work", "git push -q \"$U\" main~1:refs/heads/fits");
        side.sandbox
            .ok("", "git clone -q --mirror \"$U\" copy && git -C copy fsck --full");
        // Not even the first push fits: nothing stays behind.
        let second = url.replace("x.znippy", "second.znippy");
        side.sandbox.fails("work", &format!("git push {second} main"));
        assert!(!side.sandbox.path("small/second.znippy").exists());
    }));
    side.sandbox.ok("", "umount small");
    result.unwrap();
}
