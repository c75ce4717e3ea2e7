//! `znippy receive-pack` against clients that are wrong, late or hostile: nothing of such a push lands.

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    process::Stdio,
};

use crate::common::{Ran, Sandbox, assert_no_leftovers, fingerprint, show};

/// A client `work` with the branches main and side, and an archive that has main's first commit.
fn sandbox() -> Sandbox {
    let s = Sandbox::new();
    s.ok(
        "",
        "git init -q work && cd work && commit one && git branch old && commit two && git checkout -q -b side old &&
         commit side && git checkout -q main && cd .. && znippy -q init app && git -C work push -q \"znippy::$A/app\" old:main",
    );
    for (name, revision) in [("old", "old"), ("main", "main"), ("side", "side")] {
        let id = s.ok("work", &format!("git rev-parse {revision}"));
        s.set(name, id.text());
    }
    s.set("zero", "0".repeat(40));
    s
}

pub(super) fn id(s: &Sandbox, revision: &str) -> String {
    s.ok("work", &format!("git rev-parse {revision}")).text().to_owned()
}

pub(super) fn packet(text: &str) -> Vec<u8> {
    format!("{:04x}{text}", text.len() + 4).into_bytes()
}

/// Returns a pack of what `revisions` name.
fn pack(s: &Sandbox, revisions: &str) -> Vec<u8> {
    s.ok(
        "work",
        &format!("printf '%s\\n' {revisions} | git pack-objects -q --revs --stdout >../p.pack"),
    );
    fs::read(s.path("p.pack")).unwrap()
}

/// Sends `request` to `znippy receive-pack` and returns what it did.
pub(super) fn send(s: &Sandbox, request: &[u8]) -> Ran {
    let mut command = s.command("", "znippy");
    command
        .args(["receive-pack", "app"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // The server may be gone before it has read all.
    let _ = input.write_all(request);
    drop(input);
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(255),
        stdout: show(&output.stdout),
        stderr: show(&output.stderr),
    }
}

/// One command, in packets.
pub(super) fn command(old: &str, new: &str, name: &str) -> Vec<u8> {
    [
        packet(&format!("{old} {new} {name}\0report-status object-format=sha1")),
        b"0000".to_vec(),
    ]
    .concat()
}

/// R12: what is no whole, closed pack of objects that bear their names is not stored.
#[test]
fn a_pack_that_is_not_whole_is_not_stored() {
    let s = sandbox();
    let (old, main) = (id(&s, "old"), id(&s, "main"));
    let request = command(&old, &main, "refs/heads/main");
    let good = pack(&s, "main ^old");
    let before = fingerprint(&s.path("app.znippy"));
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    // With a trailer that fits, so that only the content can tell.
    let blob_only = pack(&s, "main:two.txt");
    let cases = [
        ("cut", good[..good.len() - 1].to_vec()),
        ("nothing", vec![]),
        ("no pack", b"PUCK and more".to_vec()),
        ("a wrong count", flipped(11)),
        ("a flipped byte", flipped(good.len() / 2)),
        ("a flipped trailer", flipped(good.len() - 1)),
        ("without the commit", blob_only),
        (
            "a bomb",
            [
                &b"PACK\0\0\0\x02\0\0\0\x01"[..],
                &[0xbf, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f],
                b"x",
            ]
            .concat(),
        ),
    ];
    for (what, pack) in cases {
        let ran = send(&s, &[&request[..], &pack].concat());
        assert!(!ran.stderr.contains("panicked"), "{what}: {}", ran.stderr);
        assert!(!ran.stdout.contains("ok refs/heads/main"), "{what}: {}", ran.stdout);
        assert!(
            before == fingerprint(&s.path("app.znippy")),
            "{what}: something was written"
        );
    }
    // A pack that lacks what its commit refers to.
    s.ok("work", "git rev-parse main | git pack-objects -q --stdout >../p.pack");
    let holes = fs::read(s.path("p.pack")).unwrap();
    let ran = send(&s, &[&request[..], &holes].concat());
    assert!(
        ran.stdout.contains("is missing") && ran.stdout.contains("ng refs/heads/main"),
        "{}",
        ran.stdout
    );
    assert!(before == fingerprint(&s.path("app.znippy")), "something was written");
    let ran = send(&s, &[&request[..], &good].concat());
    assert!(
        ran.stdout.contains("unpack ok") && ran.stdout.contains("ok refs/heads/main"),
        "{}",
        ran.stdout
    );
}

/// R12: a link to an object of another kind is damage, not a history that is cut, which would be forgiven a shallow client.
#[test]
fn a_link_to_another_kind_of_object_is_not_taken_for_a_cut() {
    let s = sandbox();
    let (old, zero) = (id(&s, "old"), "0".repeat(40));
    let tree = id(&s, "main^{tree}");
    let bytes = gix_hash::ObjectId::from_hex(tree.as_bytes()).unwrap();
    fs::write(s.path("t"), [&b"100644 file\0"[..], bytes.as_slice()].concat()).unwrap();
    s.ok(
        "work",
        &format!(
            "u=$(git hash-object -t tree -w --literally ../t) && c=$(git commit-tree -m x -p old $u) && git update-ref refs/x $c &&
             printf '%s\\n' $c $u {tree} $(git ls-tree main | cut -d' ' -f3 | cut -f1) | git pack-objects -q --stdout >../p.pack"
        ),
    );
    let pack = fs::read(s.path("p.pack")).unwrap();
    let request = [
        packet(&format!("shallow {old}\n")),
        packet(&format!(
            "{zero} {} refs/heads/x\0report-status object-format=sha1",
            id(&s, "refs/x")
        )),
        b"0000".to_vec(),
        pack,
    ];
    let before = fingerprint(&s.path("app.znippy"));
    let ran = send(&s, &request.concat());
    assert!(
        ran.stdout.contains("is not a blob") && ran.stdout.contains("ng refs/heads/x unpacker error"),
        "{}",
        ran.stdout
    );
    assert!(before == fingerprint(&s.path("app.znippy")));
}

/// R5, R10: values are compared under the lock, and names are judged by git's rules.
#[test]
fn stale_values_and_impossible_names_are_refused() {
    let s = sandbox();
    let (old, main, side, zero) = (id(&s, "old"), id(&s, "main"), id(&s, "side"), "0".repeat(40));
    let pack = pack(&s, "main side ^old");
    let before = fingerprint(&s.path("app.znippy"));
    for (old, new, name) in [
        (&side, &main, "refs/heads/main"),
        (&zero, &main, "refs/heads/main"),
        (&old, &main, "refs/heads/nothing"),
        (&zero, &main, "refs/heads/main/below"),
        (&zero, &main, "refs/heads/a..b"),
        (&zero, &main, "refs/heads/a\u{1b}[31m"),
        (&zero, &main, "HEAD"),
        (&zero, &main, "main"),
        (&zero, &main, "../../etc/passwd"),
    ] {
        let ran = send(&s, &[&command(old, new, name)[..], &pack].concat());
        assert!(ran.stdout.contains(&format!("ng {name} ")), "{name}: {}", ran.stdout);
        assert!(
            before == fingerprint(&s.path("app.znippy")),
            "{name}: something was written"
        );
    }
}

/// All references of an atomic push, or none.
#[test]
fn an_atomic_push_is_one_step() {
    let s = sandbox();
    let (main, side, zero) = (id(&s, "main"), id(&s, "side"), "0".repeat(40));
    let before = fingerprint(&s.path("app.znippy"));
    let request = [
        packet(&format!(
            "{zero} {main} refs/heads/new\0report-status atomic object-format=sha1"
        )),
        packet(&format!("{side} {main} refs/heads/main")),
        b"0000".to_vec(),
        pack(&s, "main ^old"),
    ];
    let ran = send(&s, &request.concat());
    assert!(
        ran.stdout.contains("ng refs/heads/new") && ran.stdout.contains("ng refs/heads/main"),
        "{}",
        ran.stdout
    );
    assert!(before == fingerprint(&s.path("app.znippy")), "something was written");
}

/// R23 in the other direction: what an archive forbids, its server forbids, `+` or not.
#[test]
fn the_server_keeps_to_the_settings() {
    let s = sandbox();
    s.ok(
        "",
        "git config --global protocol.ext.allow always && mkdir x && cp app.znippy x/",
    );
    let url = "ext::znippy %s app.znippy";
    for (setting, push) in [
        ("--set receive.denyNonFastForwards true", "+old:main"),
        ("--set receive.denyDeletes true", ":main"),
        ("--set znippy.readOnly true", "+main"),
        ("--add receive.hideRefs refs/heads/main", "+main"),
        ("--add transfer.hideRefs refs/secret", "main:refs/secret/x"),
        ("--set receive.maxInputSize 10", "+main"),
        ("--set znippy.maxObjectSize 1", "+main"),
    ] {
        s.ok("", &format!("cp x/app.znippy . && git -C work push -q \"znippy::$A/app\" side:main -f && znippy config app {setting}"));
        let before = fingerprint(&s.path("app.znippy"));
        s.fails("", &format!("git --git-dir=work/.git push '{url}' {push}"));
        assert!(
            before == fingerprint(&s.path("app.znippy")),
            "{setting}: something was written"
        );
    }
}

/// What is wrong with the disk is not said of the pack.
#[test]
fn a_pack_that_cannot_be_kept_is_not_called_invalid() {
    let s = sandbox();
    s.ok(
        "",
        "git config --global protocol.ext.allow always && git -C work push -q 'ext::znippy %s ../app' main &&
         cd work && head -c 300000 /dev/urandom >big && git add big && git commit -qm big",
    );
    let before = fingerprint(&s.path("app.znippy"));
    // By a pipe, not by `ext::`: there git may not pass on what the server says at its end.
    for (how, directory) in [
        ("trap '' XFSZ; ulimit -f 64", ".tmp"),
        ("export TMPDIR=$PWD/nothing", "nothing"),
    ] {
        let script = s.path("limited");
        let text = format!(
            "#!/bin/sh\ncd {}\n{how}\nexec znippy receive-pack app\n",
            s.root().display()
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let ran = s.fails(
            "work",
            "git push -q --receive-pack=\"$A/limited\" \"$A/app.znippy\" main",
        );
        let directory = s.path(directory);
        assert!(
            ran.stderr
                .contains(&format!("{}: cannot keep the pushed pack", directory.display()))
                && ran.stderr.contains("TMPDIR")
                && !ran.stderr.contains("invalid pack"),
            "{}",
            ran.stderr
        );
        assert!(before == fingerprint(&s.path("app.znippy")), "something was written");
    }
}

/// A server that is killed while it takes a push leaves nothing behind.
#[test]
fn a_push_that_breaks_off_leaves_nothing() {
    let s = sandbox();
    let request = command(&id(&s, "old"), &id(&s, "main"), "refs/heads/main");
    let before = fingerprint(&s.path("app.znippy"));
    let pack = pack(&s, "main ^old");
    let mut child = s
        .command("", "znippy")
        .args(["receive-pack", "app"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    let input = child.stdin.as_mut().unwrap();
    input.write_all(&request).unwrap();
    input.write_all(&pack[..pack.len() / 2]).unwrap();
    input.flush().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(before == fingerprint(&s.path("app.znippy")));
    assert_eq!(
        fs::read_dir(s.path(".tmp")).unwrap().count(),
        0,
        "a spool was left behind"
    );
}

/// R5: of those who push to the same reference at once one wins, and those who push to others all land.
#[test]
fn pushes_at_once_do_not_overwrite_each_other() {
    let s = sandbox();
    s.ok("", "git config --global protocol.ext.allow always");
    let clients = 6;
    for n in 0..clients {
        s.ok(
            "",
            &format!("git clone -q \"znippy::$A/app\" c{n} && cd c{n} && git commit -q --allow-empty -m {n}"),
        );
    }
    let won = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for n in 0..clients {
            let (s, won) = (&s, &won);
            scope.spawn(move || {
                let push = format!("git --git-dir=c{n}/.git push -q 'ext::znippy %s app'");
                s.ok("", &format!("{push} HEAD:refs/heads/own{n}"));
                won.fetch_add(
                    usize::from(s.sh("", &format!("{push} HEAD:main")).code == 0),
                    std::sync::atomic::Ordering::Relaxed,
                );
            });
        }
    });
    assert_eq!(won.into_inner(), 1);
    s.ok(
        "",
        "git clone -q --mirror \"znippy::$A/app\" all && git -C all fsck --full --strict",
    );
    assert_eq!(
        s.ok("all", "git for-each-ref 'refs/heads/own*'").stdout.lines().count(),
        clients
    );
    let main = s.ok("all", "git rev-parse main").text().to_owned();
    assert!(
        s.ok("all", "git for-each-ref --format='%(objectname)' 'refs/heads/own*'")
            .stdout
            .contains(&main)
    );
}

#[test]
fn what_is_no_archive_is_no_server() {
    let s = sandbox();
    s.ok("", "git config --global protocol.ext.allow always");
    for path in ["nothing", "work", "work/one.txt"] {
        let ran = s.fails(
            "",
            &format!("git --git-dir=work/.git push 'ext::znippy %s {path}' main"),
        );
        assert!(ran.stderr.contains(path), "{}", ran.stderr);
        // A push by file would make an archive; this one does not, and does not say so.
        let says_how = ran.stderr.contains("`znippy init`") && !ran.stderr.contains("first push");
        assert!(says_how || path.ends_with("txt"), "{}", ran.stderr);
    }
    fs::set_permissions(s.path("app.znippy"), fs::Permissions::from_mode(0o644)).unwrap();
    let ran = s.fails("", "git --git-dir=work/.git push --signed 'ext::znippy %s app' main");
    assert!(ran.stderr.contains("signed"), "{}", ran.stderr);
    s.ok(
        "",
        "git init -q --object-format=sha256 other && git -C other commit -q --allow-empty -m x",
    );
    s.fails(
        "",
        "git --git-dir=other/.git push 'ext::znippy %s app' HEAD:refs/heads/x",
    );
}

#[test]
fn sha256_is_pushed_and_fetched() {
    let s = Sandbox::new();
    s.ok(
        "",
        "git config --global protocol.ext.allow always && git init -q --object-format=sha256 work && cd work && commit one &&
         git tag -m t t && cd .. && znippy -q init --object-format=sha256 app &&
         git --git-dir=work/.git push -q 'ext::znippy %s app' main t && git clone -q 'ext::znippy %s app' copy &&
         git -C copy fsck --strict && git archive --remote='ext::znippy %s app' t | tar t",
    );
}

#[test]
fn what_git_has_against_objects_is_told() {
    for format in ["sha1", "sha256"] {
        let s = Sandbox::new();
        s.set("GIT_DEFAULT_HASH", format);
        s.ok(
            "",
            "git init -q work && cd work && commit one && echo '* text' >.gitattributes && git add . && git commit -q -m two &&
             git push -q \"znippy::$A/app\" main && commit three && git config protocol.ext.allow always &&
             znippy config ../app --set transfer.fsckObjects true",
        );
        s.ok("work", "git push -q \"ext::znippy %s $A/app\" main");
        s.ok(
            "work",
            "printf 'tree %s\\nparent %s\\nauthor A <a@b> 1 +0000\\ncommitter nobody 1 +0000\\n\\nx\\n' $(git rev-parse main^{tree} main) >../bad &&
             git update-ref refs/heads/bad $(git hash-object -t commit -w --literally ../bad)",
        );
        let before = fingerprint(&s.path("app.znippy"));
        let told = s
            .fails("work", "git push \"ext::znippy %s $A/app\" bad main:other")
            .stderr;
        for part in [
            "missingEmail",
            "bad -> bad (unpacker error)",
            "main -> other (unpacker error)",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        for way in ["znippy::$A/app", "ext::znippy %s $A/app"] {
            let ran = s.fails("work", &format!("git push --porcelain \"{way}\" bad :main"));
            let told = ran.stdout;
            assert!(
                told.contains(":refs/heads/main\t[remote rejected] (unpacker error)"),
                "{told}"
            );
            assert!(!told.contains("Done"), "{told}");
        }
        s.ok("work", "git branch -q spare bad && cp ../app.znippy ../spare.znippy && znippy config ../spare --set receive.fsck.missingEmail warn");
        let ran = s.sh("work", "git push \"ext::znippy %s $A/spare\" spare");
        match ran.stderr.contains("needs git 2.44") {
            true => assert_ne!(ran.code, 0),
            false => assert!(
                ran.code == 0 && ran.stderr.contains("remote: warning: object"),
                "{}",
                ran.stderr
            ),
        }
        let told = s.fails("work", "git push \"znippy::$A/app\" bad").stderr;
        assert!(
            told.contains("missingEmail") && told.contains("(unpacker error)"),
            "{told}"
        );
        assert!(before == fingerprint(&s.path("app.znippy")), "nothing was written");
        assert_no_leftovers(&s);
    }
}

/// git's own server lets the others through here: it does not count what it refuses for this reason.
#[test]
fn an_atomic_push_of_which_one_reference_would_be_cut_changes_nothing() {
    let s = sandbox();
    s.ok(
        "",
        "git init -q other && cd other && commit x y && cd .. && git clone -q --depth 1 file://$A/other cut && cd cut &&
         git fetch -q ../work main:more && git config protocol.ext.allow always",
    );
    let before = fingerprint(&s.path("app.znippy"));
    let told = s.fails("cut", "git push --atomic \"ext::znippy %s $A/app\" main:cut more:main");
    assert!(
        told.stderr.contains("main -> cut (shallow update not allowed)"),
        "{}",
        told.stderr
    );
    assert!(
        told.stderr.contains("more -> main (atomic push failure)"),
        "{}",
        told.stderr
    );
    assert!(before == fingerprint(&s.path("app.znippy")), "nothing was written");
    s.fails("cut", "git push \"ext::znippy %s $A/app\" main:cut more:main");
    let refs = s.ok("", "git ls-remote \"znippy::$A/app\"").stdout;
    assert!(
        refs.contains(&format!("{}\trefs/heads/main", id(&s, "main"))) && !refs.contains("cut"),
        "{refs}"
    );
    s.ok(
        "",
        "znippy verify app && git clone -q --mirror \"znippy::$A/app\" copy && git -C copy fsck --strict",
    );
}
