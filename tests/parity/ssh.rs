//! A real sshd on the loopback: servers by name, and `znippy shell` as a forced command.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use bstr::ByteSlice;

use crate::common::{assert_same_repository, not_run, sshd::server};

#[test]
fn git_talks_to_the_servers_over_ssh() {
    let server = match server() {
        Ok(server) => server,
        Err(why) => return not_run("ssh::git_talks_to_the_servers_over_ssh", &why),
    };
    let s = &server.sandbox;
    s.set("GIT_SSH_COMMAND", s.path("ssh/with-open"));
    s.ok(
        "",
        "git init -q work && cd work && commit one two && git tag -m t v1 && cd .. && znippy -q init srv/app &&
         git -C work remote add origin ssh://127.0.0.1$A/srv/app && git -C work config remote.origin.receivepack 'znippy receive-pack' &&
         git -C work config remote.origin.uploadpack 'znippy upload-pack'",
    );
    s.ok(
        "work",
        "git push -q -u origin main v1 && git push -q --receive-pack='znippy receive-pack' origin main:side",
    );
    s.ok(
        "",
        "git clone -q -u 'znippy upload-pack' ssh://127.0.0.1$A/srv/app copy && git -C copy fsck --strict",
    );
    s.ok(
        "",
        "git clone -q --depth 1 -u 'znippy upload-pack' ssh://127.0.0.1$A/srv/app shallow",
    );
    assert_eq!(s.ok("shallow", "git rev-list --count HEAD").text(), "1");
    s.ok("work", "commit three && git push -q && git push -q origin :side && git fetch -q && git push -q --force origin main~1:main");
    s.ok("copy", "git -c remote.origin.uploadpack='znippy upload-pack' fetch -q");
    let tar = "git archive --remote=ssh://127.0.0.1$A/srv/app --exec='znippy upload-archive' v1 | sha1sum";
    assert_eq!(s.ok("", tar).stdout, s.ok("work", "git archive v1 | sha1sum").stdout);
    let expected = s.ok("work", "git ls-remote origin").stdout;
    assert_eq!(s.ok("", "git ls-remote \"znippy::$A/srv/app\"").stdout, expected);
    // git's own way of giving a path that is none.
    let ran = s.fails(
        "work",
        "git push --receive-pack='znippy receive-pack' ssh://127.0.0.1$A/srv/nothing main",
    );
    assert!(ran.stderr.contains("no such archive"), "{}", ran.stderr);
}

/// A clone as the README has it: the settings that it is given hold for all that comes after it, lazy blobs too.
#[test]
fn a_clone_with_settings_needs_no_options_later() {
    let server = match server() {
        Ok(server) => server,
        Err(why) => return not_run("ssh::a_clone_with_settings_needs_no_options_later", &why),
    };
    let s = &server.sandbox;
    s.set("GIT_SSH_COMMAND", s.path("ssh/with-open"));
    s.ok(
        "",
        "git init -q work && cd work && commit one two && cd .. && znippy -q init srv/app &&
         git -C work push -q --receive-pack='znippy receive-pack' 127.0.0.1:\"$A/srv/app\" main",
    );
    s.ok(
        "",
        "git clone -q --filter=blob:none --no-checkout -u 'znippy upload-pack' -c remote.origin.uploadpack='znippy upload-pack' \\
         -c remote.origin.receivepack='znippy receive-pack' 127.0.0.1:\"$A/srv/app\"",
    );
    s.ok(
        "app",
        "test $(git rev-list --objects --missing=print main | grep -c '^?') = 2",
    );
    s.ok(
        "app",
        "git checkout -q main && git cat-file -e main:two.txt && commit three && git push -q",
    );
    s.ok("app", "git fetch -q && git pull -q && git fsck");
    s.ok(
        "",
        "test $(git -C app rev-parse main) = $(znippy refs get srv/app refs/heads/main | cut -c 1-40)",
    );
}

/// What git leaves out of its packs over ssh is stored: the same pushes to a bare repository lead to the same.
#[test]
fn thin_pushes_over_ssh_are_pushes_like_any() {
    let server = match server() {
        Ok(server) => server,
        Err(why) => return not_run("ssh::thin_pushes_over_ssh_are_pushes_like_any", &why),
    };
    let s = &server.sandbox;
    s.set("GIT_SSH_COMMAND", s.path("ssh/with-open"));
    // What comes over the wire is kept, to be looked at.
    let taking = s.path("ssh/taking");
    let script = format!(
        "#!/bin/sh\ntee {} | znippy receive-pack \"$1\"\n",
        s.path("pushed").display()
    );
    fs::write(&taking, script).unwrap();
    fs::set_permissions(&taking, fs::Permissions::from_mode(0o755)).unwrap();
    s.ok(
        "",
        "git init -q work && git init -q --bare srv/bare.git && znippy -q init srv/app && cd work &&
         seq 3000 >big && mkdir dir && seq 2000 >dir/a && seq 50 >dir/b && git add . && git commit -qm start",
    );
    let mut thin = 0;
    for n in 0..12 {
        s.ok(
            "work",
            &format!(
                "sed -i '{n}1s/$/ {n}/' big dir/a && echo {n} >>dir/b && git commit -qam {n} && git tag -m t t{n}"
            ),
        );
        // Moves forward, and once back and aside.
        let push = match n {
            7 => "+main~2:refs/heads/main main:side",
            8 => "main t3 t7 :side",
            _ => "main",
        };
        s.ok(
            "work",
            &format!("git push -q ssh://127.0.0.1\"$A/srv/bare.git\" {push}"),
        );
        let archive = format!(
            "git push -q --receive-pack='{}' ssh://127.0.0.1\"$A/srv/app\"",
            taking.display()
        );
        s.ok("work", &format!("{archive} {push}"));
        let pushed = fs::read(s.path("pushed")).unwrap();
        let at = pushed.find(b"PACK").expect("a pack was pushed");
        fs::write(s.path("pushed.pack"), &pushed[at..]).unwrap();
        let whole = s.sh("", "git index-pack -o pushed.idx pushed.pack");
        thin += usize::from(whole.code != 0 && whole.stderr.contains("unresolved delta"));
    }
    assert!(thin >= 10, "only {thin} of the packs were thin");
    s.ok(
        "",
        "git clone -q --mirror ssh://127.0.0.1\"$A/srv/bare.git\" a.git &&
         git clone -q --mirror -u 'znippy upload-pack' ssh://127.0.0.1\"$A/srv/app\" b.git && git -C b.git fsck --full --strict &&
         znippy verify --full srv/app",
    );
    assert_same_repository(s, "a.git", "b.git");
}

#[test]
fn an_account_is_for_archives_below_one_directory_only() {
    let server = match server() {
        Ok(server) => server,
        Err(why) => return not_run("ssh::an_account_is_for_archives_below_one_directory_only", &why),
    };
    let s = &server.sandbox;
    s.set("GIT_SSH_COMMAND", s.path("ssh/with-shell"));
    s.ok(
        "",
        "git init -q work && cd work && commit one two && cd .. && mkdir -p srv/team && znippy -q init srv/app &&
         znippy -q init srv/team/b && znippy -q init secret && git -C work push -q \"znippy::$A/secret\" main",
    );
    symlink(s.path("secret.znippy"), s.path("srv/link.znippy")).unwrap();
    symlink(s.root(), s.path("srv/up")).unwrap();
    // No setting on this side.
    s.ok("work", "git push -q ssh://127.0.0.1/app main && git push -q ssh://127.0.0.1/team/b.znippy main && git push -q 127.0.0.1:app main:side");
    s.ok(
        "",
        "git clone -q ssh://127.0.0.1/app copy && git -C copy fsck --strict && git ls-remote ssh://127.0.0.1$A/srv/app",
    );
    s.ok("", "git archive --remote=ssh://127.0.0.1/app main | tar t");
    for path in [
        "/../secret",
        "/team/../../secret",
        "/link",
        "/up/secret",
        "$A/secret",
        "/~/secret",
        "/nothing",
    ] {
        s.fails("", &format!("git ls-remote ssh://127.0.0.1{path}"));
        s.fails("work", &format!("git push ssh://127.0.0.1{path} main:x"));
    }
    for command in [
        "",
        "sh",
        "znippy config app --set znippy.readOnly true",
        "'git-upload-pack app; touch '$A/oops",
        "git-upload-pack --help",
    ] {
        let ran = s.fails("ssh", &format!("./with-shell 127.0.0.1 {command}"));
        assert!(!s.path("oops").exists(), "{}", ran.stderr);
    }
    s.set("GIT_SSH_COMMAND", s.path("ssh/with-reader"));
    s.ok("", "git ls-remote ssh://127.0.0.1/app");
    let ran = s.fails("work", "git push ssh://127.0.0.1/app main:other");
    assert!(ran.stderr.contains("may not push"), "{}", ran.stderr);
}
