//! What `znippy refs update` does otherwise than git, or beyond it.

use std::{
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

use crate::{
    common::fingerprint,
    fixture::{assert_one_error, fixture},
};

#[test]
fn the_answer_comes_before_the_next_request() {
    let s = fixture("sha1");
    let mut command = s.command("", "znippy");
    command
        .args(["refs", "update", "--stdin", "app"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |request: &str| {
        writeln!(input, "{request}").unwrap();
        answers.next().unwrap().unwrap()
    };
    let main = s.ok("", "echo $main").text().to_owned();
    assert_eq!(ask("start"), "start: ok");
    assert_eq!(ask(&format!("create refs/heads/new {main}\nprepare")), "prepare: ok");
    assert_eq!(
        s.fails("", "znippy refs get app refs/heads/new").code,
        1,
        "prepare wrote something"
    );
    assert_eq!(ask("commit"), "commit: ok");
    assert_eq!(s.ok("", "znippy refs get app refs/heads/new").text(), main);
    // The second transaction sees what others did after the first one.
    s.ok("", "znippy refs cas app refs/heads/new $main $side");
    assert_eq!(ask("start"), "start: ok");
    assert_eq!(
        ask(&format!(
            "update refs/heads/new2 refs/heads/new\nupdate refs/heads/new {main}\ncommit"
        )),
        "commit: ok"
    );
    drop(input);
    assert!(child.wait().unwrap().success());
    let side = s.ok("", "echo $side").text().to_owned();
    assert_eq!(s.ok("", "znippy refs get app refs/heads/new2").text(), side);
    assert_eq!(s.ok("", "znippy refs get app refs/heads/new").text(), main);
}

#[test]
fn a_reader_that_left_does_not_stop_a_commit() {
    let s = fixture("sha1");
    s.ok(
        "",
        "printf \"start\\ncreate refs/heads/new $main\\ncommit\\n\" | (sleep 0.3; znippy refs update --stdin app) | :",
    );
    assert_eq!(
        s.ok("", "znippy refs get app refs/heads/new").stdout,
        s.ok("", "echo $main").stdout
    );
}

#[test]
fn a_name_and_a_name_below_it_are_exchanged() {
    let s = fixture("sha1");
    s.ok(
        "",
        "printf \"delete refs/heads/old $old\\ncreate refs/heads/old/x $old\\n\" | znippy refs update --stdin app",
    );
    s.ok(
        "",
        "printf \"create refs/heads/old $old\\ndelete refs/heads/old/x $old\\n\" | znippy refs update --stdin app",
    );
    assert_eq!(s.fails("", "znippy refs get app refs/heads/old/x").code, 1);
}

#[test]
fn only_full_names_are_taken() {
    let s = fixture("sha1");
    let before = fingerprint(&s.path("app.znippy"));
    for name in [
        "main",
        "FETCH_HEAD",
        "refs",
        "refs/",
        "/refs/heads/x",
        "refs//x",
        "refs/heads/",
    ] {
        let ran = s.fails(
            "",
            &format!("printf \"create {name} $main\\n\" | znippy refs update --stdin app"),
        );
        assert_eq!(ran.code, 2, "{name}: {}", ran.stderr);
        assert_one_error(&ran.stderr, name);
    }
    assert!(before == fingerprint(&s.path("app.znippy")));
}

#[test]
fn every_rejection_is_told_in_one_line() {
    let s = fixture("sha1");
    let input =
        "update refs/heads/main $side $old\\nupdate refs/heads/side $main $old\\nupdate refs/heads/old $main $old\\n";
    let ran = s.fails("", &format!("printf \"{input}\" | znippy refs update --stdin app"));
    assert_eq!(ran.code, 1);
    assert_one_error(&ran.stderr, "refs/heads/main");
    assert_one_error(&ran.stderr, "refs/heads/side");
    assert!(!ran.stderr.contains("refs/heads/old:"), "{}", ran.stderr);
}

#[test]
fn a_transaction_that_changes_nothing_writes_nothing() {
    let s = fixture("sha1");
    let before = fingerprint(&s.path("app.znippy"));
    for input in [
        "",
        "start\\n",
        "update refs/heads/main $main\\n",
        "verify refs/heads/main $main\\nverify refs/no\\n",
        "delete refs/no\\n",
    ] {
        s.ok("", &format!("printf \"{input}\" | znippy refs update --stdin app"));
        assert!(before == fingerprint(&s.path("app.znippy")), "{input}");
    }
}

#[test]
fn deleting_the_branch_of_head_moves_head_and_says_so() {
    let s = fixture("sha1");
    let ran = s.ok(
        "",
        "znippy refs head app side && znippy refs cas app refs/heads/side $side $zero",
    );
    assert!(
        ran.stderr.contains("note: ") && ran.stderr.contains("refs/heads/main"),
        "{}",
        ran.stderr
    );
    assert_eq!(s.ok("", "znippy refs head app").stdout, "refs/heads/main\n");
    let all = s.ok(
        "",
        "znippy refs list app | grep -v HEAD | grep -v '\\^{}' | sed 's/^[^\\t]*\\t/delete /' | tee all | wc -l",
    );
    assert!(all.text() != "0");
    let ran = s.ok("", "znippy refs update --stdin app <all");
    assert!(
        ran.stderr.contains("warning: ") && ran.stderr.contains("HEAD"),
        "{}",
        ran.stderr
    );
    assert!(s.ok("", "znippy refs list app").stdout.lines().count() <= 1);
}

#[test]
fn an_id_of_the_other_object_format_is_no_id() {
    let s = fixture("sha1");
    let ran = s.fails("", "znippy refs cas app refs/heads/x '' $(printf %064d 7)");
    assert_eq!(ran.code, 2);
    assert_one_error(&ran.stderr, "40 digits");
}

#[test]
fn input_that_may_have_been_cut_off_is_refused() {
    let s = fixture("sha1");
    let before = fingerprint(&s.path("app.znippy"));
    // git takes the first two: the last value ends at the end of the input, and 40 digits are found in 41.
    for (line, option) in [
        ("printf 'create refs/heads/x\\0%s' $main", "-z"),
        ("printf 'create refs/heads/x %s0\\n' $main", ""),
        ("printf 'create refs/heads/x %.39s\\n' $main", ""),
        (
            "printf 'create refs/heads/y %s\\ncreate refs/heads/x %s' $main $main",
            "",
        ),
        ("printf 'create refs/heads/y %s\\ncrea' $main", ""),
    ] {
        let ran = s.fails("", &format!("{line} | znippy refs update --stdin {option} app"));
        assert_eq!(ran.code, 2, "{line}: {}", ran.stderr);
        assert!(before == fingerprint(&s.path("app.znippy")), "{line}");
    }
}

#[test]
fn head_stays() {
    let s = fixture("sha1");
    let before = fingerprint(&s.path("app.znippy"));
    for line in [
        "printf 'option no-deref\\ndelete HEAD\\n' | znippy refs update --stdin app",
        "printf 'option no-deref\\nsymref-delete HEAD refs/heads/main\\n' | znippy refs update --stdin app",
        "printf 'option no-deref\\nsymref-update HEAD refs/tags/light\\n' | znippy refs update --stdin app",
        "znippy refs cas --no-deref app HEAD $main $zero",
        "znippy refs cas --no-deref app HEAD $main $side",
    ] {
        let ran = s.fails("", line);
        assert_eq!(ran.code, 1, "{line}: {}", ran.stderr);
        assert_one_error(&ran.stderr, "HEAD");
        assert!(before == fingerprint(&s.path("app.znippy")), "{line}");
    }
}
