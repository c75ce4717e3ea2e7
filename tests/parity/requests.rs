//! Requests that no git makes, sent to `git upload-pack`, `git receive-pack` and ours: what one refuses the other does not serve.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    process::{Command, Stdio},
};

use bstr::{ByteSlice, ByteVec};

use crate::{
    common::{Sandbox, fingerprint},
    receive::{command, id, packet, send},
};

/// A repository `work`, and its mirrors `bare.git` and `app`, in which `refs/heads/alias` is another name of main.
fn sandbox() -> Sandbox {
    let s = Sandbox::new();
    s.ok(
        "",
        "git init -q work && cd work && commit one two three && git tag -m t v1 && git branch old main~2 &&
         git checkout -q -b side main~1 && commit side && git checkout -q main && cd .. &&
         git clone -q --mirror work bare.git && git -C work push -q --mirror \"znippy::$A/app\" &&
         git -C bare.git symbolic-ref refs/heads/alias refs/heads/main &&
         git -C bare.git config uploadpack.allowFilter true && git -C bare.git config uploadpack.allowRefInWant true &&
         echo 'symref-create refs/heads/alias refs/heads/main' | znippy refs update --stdin app",
    );
    s
}

/// Has a server answer `request`, and returns its exit code and what it said.
fn ask(mut server: Command, request: &[u8]) -> (i32, Vec<u8>) {
    let mut child = server
        .env("GIT_PROTOCOL", "version=2")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let request = request.to_vec();
    // Written beside the reading: neither side waits for the other.
    let writer = std::thread::spawn(move || drop(input.write_all(&request)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    (output.status.code().unwrap_or(255), output.stdout)
}

/// Returns the objects of the pack in an answer of version 2; `None` where there is no whole pack.
fn objects(s: &Sandbox, answer: &[u8]) -> Option<BTreeSet<String>> {
    let mut rest = &answer[answer.find(b"packfile\n")? + b"packfile\n".len()..];
    let mut pack = Vec::new();
    while let Some(len) = rest
        .get(..4)
        .and_then(|hex| usize::from_str_radix(hex.to_str().ok()?, 16).ok())
        && len > 4
    {
        if rest[4] == 1 {
            pack.push_str(&rest[5..len]);
        }
        rest = &rest[len..];
    }
    fs::write(s.path("answer.pack"), pack).unwrap();
    let list = "name=$(git -C work index-pack --stdin --fix-thin <answer.pack | cut -f 2) &&
                git show-index <work/.git/objects/pack/pack-$name.idx | cut -d' ' -f 2";
    let listed = s.sh("", list);
    (listed.code == 0).then(|| listed.stdout.lines().map(str::to_owned).collect())
}

/// A fetch with odd arguments is refused where git refuses it, and brings what git's brings.
#[test]
fn odd_fetches_are_answered_as_by_git() {
    let s = sandbox();
    let (main, side) = (id(&s, "main"), id(&s, "side"));
    let (tree, tag) = (id(&s, "main^{tree}"), id(&s, "v1"));
    let nothing = "c".repeat(40);
    let mut cases: Vec<Vec<String>> = [
        "filter blob:none|filter tree:0",
        "filter ",
        "filter combine:",
        "filter combine:blob%3anone+tree:2",
        "filter combine:%",
        "filter tree:-1",
        "filter blob:limit=-1",
        "filter blob:limit=99999999999999999999",
        "filter object:type=none",
        "filter sparse:path=x",
        "deepen 0",
        "deepen -1",
        "deepen 1x",
        "deepen 99999999999999999999",
        "deepen 2147483647",
        "deepen 1|deepen 2",
        "deepen 2|deepen-not old",
        "deepen-since 0",
        "deepen-since -1",
        "deepen-not nothing",
        "deepen-not main",
        "deepen-not old|deepen-since 1",
        "deepen-relative",
        "want-ref refs/heads/nothing",
        "want-ref ../../etc/passwd",
        "want nonsense",
        "nonsense",
    ]
    .iter()
    .map(|case| case.split('|').map(str::to_owned).collect())
    .collect();
    cases.extend([
        vec![format!("want {nothing}")],
        vec![format!("want {main}"), format!("want {side}")],
        vec![format!("have {nothing}")],
        vec![format!("shallow {tree}")],
        vec![format!("shallow {tag}")],
        vec![format!("shallow {nothing}")],
        vec![format!("shallow {main}"), "deepen 1".into()],
        vec![format!("shallow {main}"), "deepen 2147483647".into()],
        vec![format!("shallow {main}"), format!("shallow {main}"), "deepen 2".into()],
        vec![format!("filter sparse:oid={}", "a".repeat(64))],
    ]);
    for case in cases {
        let mut request = [packet("command=fetch"), packet("object-format=sha1"), b"0001".to_vec()].concat();
        let arguments = [format!("want {main}"), "no-progress".into()].into_iter();
        for line in arguments.chain(case.iter().cloned()).chain(["done".into()]) {
            request.extend(packet(&line));
        }
        request.extend(b"0000");
        let mut git = s.command("", "git");
        git.args(["upload-pack", "bare.git"]);
        let mut own = s.command("", "znippy");
        own.args(["upload-pack", "app"]);
        let (expected, by_git) = ask(git, &request);
        let (code, by_own) = ask(own, &request);
        assert_eq!(code, expected, "{case:?}: {}", by_own.as_bstr());
        if code == 0 {
            assert_eq!(objects(&s, &by_own), objects(&s, &by_git), "{case:?}");
        } else {
            assert!(by_own.contains_str("ERR "), "{case:?}: {}", by_own.as_bstr());
        }
    }
}

/// What the client has is answered once however often it says so, and what it has not does not count.
#[test]
fn haves_are_counted_once() {
    let s = sandbox();
    let (main, old, side) = (id(&s, "main"), id(&s, "old"), id(&s, "side"));
    let nothing = "c".repeat(40);
    for haves in [
        vec![&old; 300],
        vec![&old, &nothing, &side, &nothing, &old, &side],
        vec![&nothing; 300],
    ] {
        let request = |haves: &[&String]| {
            let mut request = [packet("command=fetch"), packet("object-format=sha1"), b"0001".to_vec()].concat();
            request.extend(packet(&format!("want {main}")));
            request.extend(packet("no-progress"));
            request.extend(haves.iter().flat_map(|have| packet(&format!("have {have}"))));
            request.extend(b"0000");
            request
        };
        // An older git answers each as often as it is told.
        let mut once: Vec<&String> = Vec::new();
        for have in &haves {
            if !once.contains(have) {
                once.push(have);
            }
        }
        let mut git = s.command("", "git");
        git.args(["upload-pack", "bare.git"]);
        let mut own = s.command("", "znippy");
        own.args(["upload-pack", "app"]);
        let count = |answer: &[u8], word: &str| answer.find_iter(word).count();
        let (by_git, by_own) = (ask(git, &request(&once)).1, ask(own, &request(&haves)).1);
        for word in ["ACK ", "NAK", "ready", "packfile\n"] {
            assert_eq!(
                count(&by_own, word),
                count(&by_git, word),
                "{word}: {}",
                by_own.as_bstr()
            );
        }
        assert_eq!(objects(&s, &by_own), objects(&s, &by_git));
    }
}

/// Commands for one reference by several names are one command where they agree, and none where they do not.
#[test]
fn a_reference_by_two_names_is_one() {
    let s = sandbox();
    let (zero, main, old, side) = ("0".repeat(40), id(&s, "main"), id(&s, "old"), id(&s, "side"));
    let no_pack = s
        .ok("work", "git pack-objects -q --stdout </dev/null >../none.pack; echo")
        .code;
    assert_eq!(no_pack, 0);
    let no_pack = fs::read(s.path("none.pack")).unwrap();
    let (alias, branch) = ("refs/heads/alias", "refs/heads/main");
    let before = (
        fs::read(s.path("app.znippy")).unwrap(),
        s.ok("", "cp -a bare.git before.git"),
    );
    for capabilities in ["report-status", "report-status atomic"] {
        for commands in [
            vec![(&main, &old, alias), (&main, &old, branch)],
            vec![(&main, &old, branch), (&main, &old, alias)],
            vec![(&main, &old, alias), (&main, &side, branch)],
            vec![(&main, &old, alias), (&side, &old, branch)],
            vec![(&main, &old, alias)],
            vec![(&side, &old, alias), (&side, &old, branch)],
            vec![(&side, &zero, alias)],
        ] {
            let mut request = Vec::new();
            for (at, (old, new, name)) in commands.iter().enumerate() {
                let capabilities = if at == 0 {
                    format!("\0{capabilities}")
                } else {
                    String::new()
                };
                request.extend(packet(&format!("{old} {new} {name}{capabilities}")));
            }
            request.extend(b"0000");
            request.extend(&no_pack);
            let mut git = s.command("", "git");
            git.args(["receive-pack", "bare.git"]);
            ask(git, &request);
            let ran = send(&s, &request);
            let refs = |of: &str| s.ok("", &format!("git ls-remote {of} | grep -v HEAD")).stdout;
            assert_eq!(
                refs("\"znippy::$A/app\""),
                refs("bare.git"),
                "{capabilities} {commands:?}: {}",
                ran.stdout
            );
            fs::write(s.path("app.znippy"), &before.0).unwrap();
            s.ok("", "rm -r bare.git && cp -a before.git bare.git");
        }
    }
    // A mirror has both, where they agree and where they do not.
    s.ok(
        "",
        "git config --global protocol.ext.allow always && git clone -q --mirror bare.git m.git",
    );
    for (revision, agrees) in [("old", true), ("side", true), ("side", false)] {
        s.ok(
            "m.git",
            &format!(
                "git update-ref refs/heads/alias {revision} && git update-ref refs/heads/main {}",
                if agrees { revision } else { "old" }
            ),
        );
        s.ok("", "rm -r bare.git && cp -a before.git bare.git");
        for url in ["ext::znippy %s ../app", "znippy::$A/app", "../bare.git"] {
            fs::write(s.path("app.znippy"), &before.0).unwrap();
            let ran = s.sh("m.git", &format!("git push -q --mirror \"{url}\""));
            assert_eq!(ran.code == 0, agrees, "{url} {revision}: {}", ran.stderr);
            assert_eq!(
                ran.stderr.contains("inconsistent aliased"),
                !agrees,
                "{url} {revision}: {}",
                ran.stderr
            );
        }
    }
}

/// R10: a name that clients cannot keep is refused. One of the length of a line would also leave no room for what a server says
/// beside it, and nobody could push any more.
#[test]
fn a_name_that_is_too_long_is_refused() {
    let s = sandbox();
    let (zero, old) = ("0".repeat(40), id(&s, "old"));
    s.ok("work", "git pack-objects -q --stdout </dev/null >../none.pack");
    let no_pack = fs::read(s.path("none.pack")).unwrap();
    let before = fingerprint(&s.path("app.znippy"));
    for name in ["n".repeat(65300), "n".repeat(251), "n/".repeat(30000) + "n"] {
        let request = [&command(&zero, &old, &format!("refs/heads/{name}"))[..], &no_pack].concat();
        let ran = send(&s, &request);
        assert!(
            ran.stdout.contains("unpack ok") && ran.stdout.contains("it has more than"),
            "{}",
            ran.code
        );
        assert!(before == fingerprint(&s.path("app.znippy")), "something was written");
    }
    // What git can just keep.
    let name = format!("refs/heads/{}", "n".repeat(250));
    s.ok(
        "work",
        &format!(
            "git update-ref {name} old && git push -q \"znippy::$A/app\" {name} && git push -q ../bare.git {name}"
        ),
    );
    s.ok(
        "",
        &format!("git init -q b && git -C b fetch -q \"znippy::$A/app\" {name}:{name}"),
    );
    let longer = format!("{name}n");
    s.fails("work", &format!("git push -q ../bare.git old:{longer}"));
    let ran = s.fails("work", &format!("git push \"znippy::$A/app\" old:{longer}"));
    assert!(ran.stderr.contains("it has more than 250 bytes"), "{}", ran.stderr);
}

/// What a request says is kept in memory, and so has an end.
#[test]
fn push_options_have_an_end() {
    let s = sandbox();
    let (zero, old) = ("0".repeat(40), id(&s, "old"));
    let before = fingerprint(&s.path("app.znippy"));
    let mut request = packet(&format!("{zero} {old} refs/heads/x\0report-status push-options"));
    request.extend(b"0000");
    request.extend((0..2000).flat_map(|_| packet("an option")));
    let ran = send(&s, &request);
    assert!(
        ran.code == 128 && ran.stdout.contains("ERR protocol error: more than"),
        "{}",
        ran.stdout
    );
    assert!(before == fingerprint(&s.path("app.znippy")), "something was written");
}
