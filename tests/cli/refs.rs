use serde_json::Value;

use crate::{
    common::fingerprint,
    fixture::{assert_one_error, assert_same_refs, fixture},
};

#[test]
fn list_prints_what_ls_remote_prints() {
    for format in ["sha1", "sha256"] {
        let s = fixture(format);
        assert_same_refs(&s, "creation");
        for patterns in [
            "main",
            "'v*'",
            "HEAD",
            "heads/main",
            "'refs/*/*'",
            "light old",
            "'*'",
            "'o[kl]?'",
            "'refs/tags/v1'",
        ] {
            let expected = s.ok("", &format!("git ls-remote --symref bare.git {patterns}")).stdout;
            let found = s.ok("", &format!("znippy refs list app {patterns}")).stdout;
            let peeled = |text: &str| {
                text.lines()
                    .filter(|line| !line.ends_with("^{}"))
                    .collect::<Vec<_>>()
                    .join("\n")
            };
            // git matches the pattern with `v1^{}` too, and so leaves out the peeled line where the pattern ends in `v1`.
            assert_eq!(peeled(&expected), peeled(&found), "{patterns}");
        }
        let ran = s.fails("", "znippy refs list app nothing");
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (1, "", ""));
    }
}

#[test]
fn json_has_one_object_a_reference() {
    let s = fixture("sha1");
    let text = s.ok("", "znippy refs list --json app").stdout;
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let git = s
        .ok(
            "bare.git",
            "git for-each-ref --format='%(refname) %(objectname) %(*objectname)'",
        )
        .stdout;
    assert_eq!(records.len(), git.lines().count() + 1);
    assert_eq!(records[0]["name"], "HEAD");
    assert_eq!(records[0]["symref"], "refs/heads/main");
    for (record, line) in records[1..].iter().zip(git.lines()) {
        let fields: Vec<&str> = line.split(' ').collect();
        assert_eq!(record["name"], fields[0]);
        assert_eq!(record["oid"], fields[1]);
        assert_eq!(record["peeled"].as_str().unwrap_or(""), fields[2]);
        assert!(record.get("symref").is_none() && record.get("name_hex").is_none());
    }
}

#[test]
fn names_that_are_not_utf_8_come_through() {
    let s = fixture("sha1");
    let mut command = s.command("", "bash");
    command.args([
        "-c",
        "znippy refs cas app $'refs/heads/\\xe4' '' $main && znippy refs get app $'refs/heads/\\xe4' && \
                         znippy refs list app | grep -aP '\\xe4' && znippy refs list --json app | grep name_hex",
    ]);
    let ran = s.run(command);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("refs/heads/\\xe4\n"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("\"name_hex\":\"726566732f68656164732fe4\""),
        "{}",
        ran.stdout
    );
}

#[test]
fn get_prints_one_id() {
    let s = fixture("sha1");
    for name in ["HEAD", "refs/heads/side", "refs/tags/v1", "refs/x/y"] {
        let expected = s.ok("bare.git", &format!("git rev-parse {name}")).stdout;
        assert_eq!(
            s.ok("", &format!("znippy refs get app {name}")).stdout,
            expected,
            "{name}"
        );
    }
    for name in ["refs/heads/none", "main", "refs/heads", "''", "refs/heads/main/"] {
        let ran = s.fails("", &format!("znippy refs get app {name}"));
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{name}: {}", ran.stderr);
        assert_one_error(&ran.stderr, "app.znippy");
    }
    s.ok("", "znippy -q init empty");
    let ran = s.fails("", "znippy refs get empty HEAD");
    assert_eq!(ran.code, 1);
    assert_one_error(&ran.stderr, "HEAD");
}

#[test]
fn head_is_shown_and_set() {
    let s = fixture("sha1");
    assert_eq!(s.ok("", "znippy refs head app").stdout, "refs/heads/main\n");
    for (new, full) in [("side", "refs/heads/side"), ("refs/heads/old", "refs/heads/old")] {
        s.ok(
            "",
            &format!("znippy refs head app {new} && git -C bare.git symbolic-ref HEAD {full}"),
        );
        assert_same_refs(&s, new);
    }
    let ran = s.ok("", "znippy refs head app later");
    assert!(ran.stderr.starts_with("warning: "), "{}", ran.stderr);
    assert_eq!(s.ok("", "znippy refs head app").stdout, "refs/heads/later\n");
    assert_eq!(s.ok("", "znippy -q refs head app later2").stderr, "");
    assert_eq!(s.fails("", "znippy refs head app a..b").code, 2);
    let before = fingerprint(&s.path("app.znippy"));
    s.ok("", "znippy -q refs head app later2");
    assert!(
        before == fingerprint(&s.path("app.znippy")),
        "setting HEAD to what it is wrote something"
    );
}

#[test]
fn compare_and_swap() {
    let s = fixture("sha1");
    let steps = [
        // (arguments, whether it is done)
        ("refs/heads/new '' $old", true),
        ("refs/heads/new '' $old", false),
        ("refs/heads/new $zero $main", false),
        ("refs/heads/new $old $main", true),
        ("refs/heads/new $old $side", false),
        ("refs/heads/new $main $side", true),
        ("refs/heads/new $side $zero", true),
        ("refs/heads/new $side $zero", false),
        ("refs/heads/zero $zero $main", true),
        ("refs/tags/v2 '' $tag", true),
        ("refs/tags/t $zero $tree", true),
        ("refs/notes/x $zero $blob", true),
        ("HEAD $main $side", true),
        ("HEAD $main $side", false),
    ];
    for (args, done) in steps {
        let before = fingerprint(&s.path("app.znippy"));
        let git = s.sh(
            "",
            &format!("set -- {args} && git -C bare.git update-ref \"$1\" \"$3\" \"$2\""),
        );
        assert_eq!(git.code == 0, done, "git: {args}: {}", git.stderr);
        let ran = s.sh("", &format!("znippy refs cas app {args}"));
        assert_eq!(ran.code, i32::from(!done), "{args}: {}", ran.stderr);
        if done {
            assert_eq!(ran.stderr, "", "{args}");
        } else {
            assert_one_error(&ran.stderr, "app.znippy");
            assert!(
                before == fingerprint(&s.path("app.znippy")),
                "{args}: a lost swap wrote something"
            );
        }
        assert_eq!(ran.stdout, "");
        assert_same_refs(&s, args);
    }
}

#[test]
fn a_swap_that_makes_no_sense_is_refused() {
    let s = fixture("sha1");
    let before = fingerprint(&s.path("app.znippy"));
    for (args, code) in [
        ("refs/heads/main $main ''", 2),
        ("refs/heads/main", 2),
        ("refs/heads/main xyz $main", 2),
        ("refs/heads/main 1234 $main", 2),
        ("refs/heads/main $main refs/heads/nothing", 2),
        ("main $main $side", 2),
        ("refs/heads/a..b '' $main", 2),
        ("refs/heads/x.lock '' $main", 2),
        ("refs/heads/main $main $none", 1),
        ("refs/heads/main $main $blob", 1),
        ("refs/heads/main $main $tag", 1),
        ("refs/heads/new '' $tree", 1),
        ("refs/heads/main/x '' $main", 1),
        ("refs/x '' $main", 1),
        ("--no-deref HEAD refs/heads/main $blob", 1),
    ] {
        let ran = s.fails("", &format!("znippy refs cas app {args}"));
        assert_eq!(ran.code, code, "{args}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: "), "{args}: {}", ran.stderr);
        assert!(before == fingerprint(&s.path("app.znippy")), "{args}");
    }
}

#[test]
fn a_tag_moved_or_made_is_peeled() {
    let s = fixture("sha256");
    s.ok(
        "",
        "znippy refs cas app refs/tags/again '' $tag && git -C bare.git update-ref refs/tags/again $tag",
    );
    s.ok(
        "",
        "znippy refs cas app refs/tags/light $old $tag && git -C bare.git update-ref refs/tags/light $tag",
    );
    s.ok(
        "",
        "znippy refs cas app refs/tags/v1 $tag $main && git -C bare.git update-ref refs/tags/v1 $main",
    );
    assert_same_refs(&s, "moving tags");
}

/// R10: references follow each other as far as git reads them, whichever is made first, and never in a circle.
#[test]
fn r10_symbolic_references_follow_each_other_as_far_as_in_git() {
    let s = fixture("sha1");
    let make = |name: &str, to: &str| {
        let ran = s.sh(
            "",
            &format!("echo symref-create {name} {to} | znippy refs update --stdin app"),
        );
        assert!(ran.code <= 1, "{}", ran.stderr);
        ran.code == 0
    };
    let git_reads = |name: &str| s.sh("bare.git", &format!("git rev-parse -q --verify {name}")).code == 0;
    // From the branch upwards: each new one names the one before.
    let mut to = "refs/heads/main".to_string();
    for n in 1.. {
        let name = format!("refs/up/{n}");
        s.ok("bare.git", &format!("git symbolic-ref {name} {to}"));
        assert_eq!(make(&name, &to), git_reads(&name), "{name}");
        if !git_reads(&name) {
            break;
        }
        to = name;
    }
    // From the top downwards: each new one takes those before further from their end.
    for n in 1.. {
        let (name, to) = (format!("refs/down/{n}"), format!("refs/down/{}", n + 1));
        s.ok(
            "bare.git",
            &format!("git symbolic-ref {name} {to} && git update-ref {to} refs/heads/main"),
        );
        let git_reads_the_first = git_reads("refs/down/1");
        s.ok("bare.git", &format!("git update-ref -d {to}"));
        assert_eq!(make(&name, &to), git_reads_the_first, "{name}");
        if !git_reads_the_first {
            break;
        }
    }
    // In circles of one, two and three.
    assert!(make("refs/o/a", "refs/o/b") && make("refs/o/b", "refs/o/c"));
    for (name, to) in [
        ("refs/o/x", "refs/o/x"),
        ("refs/o/c", "refs/o/b"),
        ("refs/o/c", "refs/o/a"),
    ] {
        assert!(!make(name, to), "{name} -> {to}");
    }
    let values = |command: &str| {
        let lines = s
            .ok("", &format!("{command} | grep '[0-9a-f]\\{{40\\}}.*refs/up/'"))
            .stdout;
        assert!(!lines.is_empty());
        lines
    };
    let expected = values("git ls-remote bare.git");
    assert_eq!(values("znippy refs list app"), expected);
    assert_eq!(values("git ls-remote znippy::$PWD/app"), expected);
}
