//! Pushes with thin packs: what git leaves out, because the archive has it, is stored with what comes.

use std::fs;

use crate::{
    common::{Sandbox, assert_same_repository, fingerprint, subject_is_file},
    receive::{command, id, send},
};

/// A client `work` with a file of some size, which an archive and a bare repository have; and one more commit, that changes it.
fn sandbox(format: &str) -> Sandbox {
    let s = Sandbox::new();
    s.set("GIT_DEFAULT_HASH", format);
    s.ok(
        "",
        "git config --global protocol.ext.allow always && git config --global core.compression 0 && git init -q work &&
         cd work && seq 5000 >big && mkdir dir && seq 100 >dir/a && git add . && git commit -qm one && git branch base &&
         git init -q --bare ../bare && git push -q ../bare main && git -c znippy.resolve=defer -c znippy.autoIndex=false push -q \"znippy::$A/app\" main &&
         seq 5001 >big && git commit -qam two",
    );
    s
}

/// Writes the thin pack of the last commit to `p.pack`, and returns it.
fn thin_pack(s: &Sandbox) -> Vec<u8> {
    s.ok(
        "work",
        "printf 'main\\n^base\\n' | git pack-objects -q --revs --thin --delta-base-offset --stdout >../p.pack",
    );
    let pack = fs::read(s.path("p.pack")).unwrap();
    assert!(pack.len() < 5000, "thin: {} bytes", pack.len());
    pack
}

/// The same pushes to a bare repository and to an archive lead to the same, and no pack of the archive needs another.
#[test]
fn a_thin_push_is_one_like_any() {
    if subject_is_file() {
        return;
    }
    for format in ["sha1", "sha256"] {
        let s = sandbox(format);
        for (step, push) in [
            ("true", "main"),
            (
                "git mv big huge && seq 4990 >huge && git commit -qam three && git tag -m t v1",
                "main v1",
            ),
            (
                "git checkout -q -b side base && seq 2 5000 >big && git commit -qam side",
                "side +side:main",
            ),
            (
                "seq 3 5000 >big && git commit -qam more && git commit -q --allow-empty -m last",
                "side :v1",
            ),
        ] {
            s.ok("work", step);
            for url in ["ext::git-%S ../bare", "ext::znippy %s ../app"] {
                s.set("GIT_TRACE", s.path("trace"));
                let _ = fs::remove_file(s.path("trace"));
                let url = url.replace("git-%S", "git %s");
                s.ok("work", &format!("git push -q --thin '{url}' {push}"));
                s.set("GIT_TRACE", "0");
                let trace = fs::read_to_string(s.path("trace")).unwrap();
                let packing = trace.lines().find(|line| line.contains("pack-objects")).unwrap();
                assert!(packing.contains("--thin"), "{packing}");
            }
        }
        s.ok(
            "",
            "git clone -q --mirror \"file://$A/bare\" a.git && git clone -q --mirror \"znippy::$A/app\" b.git && znippy verify --full app",
        );
        assert_same_repository(&s, "a.git", "b.git");
        s.ok("b.git", "git fsck --full --strict");
    }
}

/// R12: nothing of a push lands whose deltas are made from what the archive does not have.
#[test]
fn a_thin_pack_without_its_base_is_refused() {
    let s = sandbox("sha1");
    s.ok(
        "",
        "rm app.znippy && znippy -q init app && git -C work commit-tree -m x $(git -C work mktree </dev/null) >x",
    );
    let x = fs::read_to_string(s.path("x")).unwrap().trim().to_owned();
    s.ok("work", &format!("git push -q \"znippy::$A/app\" {x}:refs/heads/main"));
    let pack = thin_pack(&s);
    let before = fingerprint(&s.path("app.znippy"));
    let ran = send(
        &s,
        &[&command(&x, &id(&s, "main"), "refs/heads/main")[..], &pack].concat(),
    );
    assert!(
        ran.stdout.contains("unpack ")
            && ran.stdout.contains(&id(&s, "base:big"))
            && ran.stdout.contains("neither in it nor here already")
            && ran.stdout.contains("ng refs/heads/main"),
        "{}",
        ran.stdout
    );
    assert!(before == fingerprint(&s.path("app.znippy")), "something was written");
}

/// R19: a damaged copy of a base is not built upon, whether the damage is known or not.
#[test]
fn a_damaged_base_is_not_built_upon() {
    for is_known in [false, true] {
        let s = sandbox("sha1");
        let pack = thin_pack(&s);
        let mut bytes = fs::read(s.path("app.znippy")).unwrap();
        // Nothing is compressed: the text is in the file.
        let at = bytes
            .windows(10)
            .position(|part| part == b"4321\n4322\n")
            .expect("the text is stored");
        bytes[at] ^= 1;
        fs::write(s.path("app.znippy"), &bytes).unwrap();
        if is_known {
            assert_eq!(s.fails("", "znippy index app").code, 5);
        }
        let before = fingerprint(&s.path("app.znippy"));
        let request = command(&id(&s, "base"), &id(&s, "main"), "refs/heads/main");
        let ran = send(&s, &[&request[..], &pack].concat());
        assert!(
            ran.stdout.contains(&id(&s, "base:big"))
                && ran.stdout.contains("cannot be read")
                && ran.stdout.contains("ng refs/heads/main"),
            "{}",
            ran.stdout
        );
        assert!(before == fingerprint(&s.path("app.znippy")), "something was written");
        // The way out that it names; and git takes it by itself where it is told so.
        s.ok("work", "git push -q --no-thin 'ext::znippy %s ../app' main");
        let good = s.ok("work", "git rev-parse main:big").stdout;
        s.ok(
            "",
            &format!("git clone -q --depth 1 \"znippy::$A/app\" copy && git -C copy cat-file blob {good}"),
        );
    }
}

/// Where what is stored is checked or has a limit, old objects are not held to that once more.
#[test]
fn settings_for_what_is_stored_ask_for_whole_packs() {
    let s = sandbox("sha1");
    let offers_thin = || {
        let ran = s.ok("", "printf 0000 | znippy receive-pack app");
        assert!(ran.stdout.contains("ofs-delta"), "{}", ran.stdout);
        !ran.stdout.contains("no-thin")
    };
    assert!(offers_thin());
    for (key, value) in [
        ("receive.fsckObjects", "true"),
        ("transfer.fsckObjects", "true"),
        ("receive.maxInputSize", "1g"),
        ("znippy.maxObjectSize", "1g"),
    ] {
        s.ok("", &format!("znippy config app --set {key} {value}"));
        assert!(!offers_thin(), "{key}");
        s.ok("", &format!("znippy config app --unset {key}"));
        assert!(offers_thin(), "{key}");
    }
    // Who sends one all the same is held to the limits with what is added.
    let pack = thin_pack(&s);
    let request = command(&id(&s, "base"), &id(&s, "main"), "refs/heads/main");
    for (key, value) in [("receive.maxInputSize", "6000"), ("znippy.maxObjectSize", "6000")] {
        s.ok("", &format!("znippy config app --set {key} {value}"));
        let before = fingerprint(&s.path("app.znippy"));
        let ran = send(&s, &[&request[..], &pack].concat());
        assert!(
            ran.stdout.contains("ng refs/heads/main unpacker error"),
            "{}",
            ran.stdout
        );
        assert!(
            before == fingerprint(&s.path("app.znippy")),
            "{key}: something was written"
        );
        s.ok("", &format!("znippy config app --unset {key}"));
    }
    let ran = send(&s, &[&request[..], &pack].concat());
    assert!(ran.stdout.contains("ok refs/heads/main"), "{}", ran.stdout);
}
