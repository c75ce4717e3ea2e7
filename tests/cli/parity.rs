//! `znippy refs update --stdin` and `git update-ref --stdin` with the same input: both do it or both refuse, and the
//! references are the same afterwards.

use crate::{
    common::{Sandbox, fingerprint, not_run},
    fixture::{assert_one_error, assert_same_refs, fixture},
};

/// Gives `input` to both programs. The shell's `printf` resolves its escapes, and `~` becomes NUL.
#[track_caller]
fn both(s: &Sandbox, input: &str, option: &str) {
    let git = s.sh(
        "",
        &format!("printf \"{input}\" | tr '~' '\\0' | git -C bare.git update-ref --stdin {option}"),
    );
    let before = fingerprint(&s.path("app.znippy"));
    let ran = s.sh(
        "",
        &format!("printf \"{input}\" | tr '~' '\\0' | znippy refs update --stdin {option} app"),
    );
    let shown = format!(
        "{input:?} {option}\ngit: {} {}\nznippy: {} {}",
        git.code, git.stderr, ran.code, ran.stderr
    );
    assert_eq!(git.code == 0, ran.code == 0, "{shown}");
    assert_eq!(git.stdout, ran.stdout, "{shown}");
    if ran.code != 0 {
        assert!(ran.code == 1 || ran.code == 2, "{shown}");
        assert_one_error(ran.stderr.lines().last().unwrap(), "");
    }
    assert_same_refs(s, &shown);
    if git.code != 0 && !git.stdout.contains("commit: ok") {
        assert!(
            before == fingerprint(&s.path("app.znippy")),
            "a refused transaction wrote something: {shown}"
        );
    }
}

fn all(inputs: &[&str], option: &str) {
    for format in ["sha1", "sha256"] {
        let s = fixture(format);
        for input in inputs {
            both(&s, input, option);
        }
    }
}

#[test]
fn single_changes() {
    all(
        &[
            "create refs/heads/c1 $main\\n",
            "create refs/heads/c1 $main\\n",
            "create refs/heads/c2 $zero\\n",
            "create refs/heads/c2 \\\"\\\"\\n",
            "update refs/heads/c1 $side\\n",
            "update refs/heads/c1 $main $old\\n",
            "update refs/heads/c1 $main $side\\n",
            "update refs/heads/c1 $main $main\\n",
            "update refs/heads/c1 $main $zero\\n",
            "update refs/heads/u1 $main $zero\\n",
            "update refs/heads/u2 $main \\n",
            "update refs/heads/u2 $main \\n",
            "update refs/heads/u3 $main \\\"\\\"\\n",
            "update refs/heads/u3 $zero $main\\n",
            "update refs/heads/u3 $zero $main\\n",
            "update refs/heads/u3 $zero\\n",
            "update refs/heads/u3 $zero $zero\\n",
            "update refs/heads/u2 $zero $zero\\n",
            "delete refs/heads/u2 $side\\n",
            "delete refs/heads/u2 $zero\\n",
            "delete refs/heads/u2 $main\\n",
            "delete refs/heads/u2 $main\\n",
            "delete refs/heads/u2\\n",
            "delete refs/heads/u1\\n",
            "verify refs/heads/main $main\\n",
            "verify refs/heads/main $side\\n",
            "verify refs/heads/main\\n",
            "verify refs/heads/main $zero\\n",
            "verify refs/heads/none\\n",
            "verify refs/heads/none $zero\\n",
            "verify refs/heads/none $main\\n",
            "update refs/tags/v3 $tag\\ncreate refs/tags/v4 $tree\\nupdate refs/other $blob\\n",
            "create refs/heads/bad $blob\\n",
            "create refs/heads/bad $tag\\n",
            "create refs/heads/bad $none\\n",
            "create refs/tags/bad $none\\n",
            "update refs/heads/byname refs/heads/side refs/heads/nothing\\n",
            "update refs/heads/byname refs/heads/side\\n",
            "update refs/heads/byname HEAD refs/heads/side\\n",
        ],
        "",
    );
}

#[test]
fn transactions_are_all_or_nothing() {
    all(
        &[
            "create refs/heads/a $main\\ncreate refs/heads/b $side\\n",
            "create refs/heads/c $main\\nupdate refs/heads/b $main $old\\n",
            "delete refs/heads/a\\ncreate refs/heads/d $old\\nverify refs/heads/b $side\\n",
            "delete refs/heads/d\\nverify refs/heads/b $main\\n",
            "create refs/heads/e $main\\ncreate refs/heads/bad $blob\\n",
            "update refs/heads/d $main\\nupdate refs/heads/d $side\\n",
            "create refs/heads/f $main\\nverify refs/heads/f $main\\n",
            "create refs/heads/x/y $main\\ncreate refs/heads/x $main\\n",
            "create refs/heads/main/below $main\\n",
            "create refs/heads $main\\n",
            "",
        ],
        "",
    );
}

#[test]
fn sessions() {
    all(
        &[
            "start\\ncreate refs/heads/s1 $main\\n",
            "start\\ncreate refs/heads/s1 $main\\ncommit\\n",
            "start\\ncreate refs/heads/s2 $main\\nprepare\\n",
            "start\\ncreate refs/heads/s2 $main\\nprepare\\ncommit\\n",
            "start\\ncreate refs/heads/s3 $main\\nprepare\\nabort\\n",
            "start\\ncreate refs/heads/s3 $main\\nabort\\n",
            "start\\ncreate refs/heads/s3 $main\\nprepare\\ncreate refs/heads/s4 $main\\n",
            "start\\ncreate refs/heads/s3 $main\\ncommit\\nstart\\ncreate refs/heads/s4 $main\\ncommit\\n",
            "start\\ncreate refs/heads/s5 $main\\ncommit\\nstart\\ncreate refs/heads/s5 $main\\ncommit\\n",
            "start\\ncreate refs/heads/s6 $main\\nabort\\nstart\\ncreate refs/heads/s7 $main\\ncommit\\n",
            "create refs/heads/s8 $main\\nstart\\n",
            "create refs/heads/s8 $main\\nstart\\ncommit\\n",
            "create refs/heads/s9 $main\\ncommit\\n",
            "create refs/heads/s10 $main\\nprepare\\n",
            "start\\nstart\\n",
            "commit\\ncommit\\n",
            "commit\\ncreate refs/heads/t1 $main\\n",
            "abort\\ncreate refs/heads/t1 $main\\n",
            "start\\nverify refs/heads/main $side\\nprepare\\ncommit\\n",
            "start\\ncommit\\n",
            "prepare\\n",
        ],
        "",
    );
}

#[test]
fn symbolic_references() {
    let probe = "printf 'option no-deref\\nsymref-verify refs/none\\n' | git -C bare.git update-ref --stdin";
    if fixture("sha1").sh("", probe).code != 0 {
        return not_run("symbolic_references", "this git has no symref-update");
    }
    all(
        &[
            "update HEAD $side\\n",
            "update HEAD $main $old\\n",
            "update HEAD $main $side\\n",
            "update HEAD $side\\nupdate refs/heads/main $side\\n",
            "verify HEAD $main\\n",
            "option no-deref\\nsymref-update HEAD refs/heads/side\\n",
            "option no-deref\\nsymref-update HEAD refs/heads/main ref refs/heads/old\\n",
            "option no-deref\\nsymref-update HEAD refs/heads/main ref refs/heads/side\\n",
            "symref-create refs/remotes/o/HEAD refs/heads/side\\n",
            "symref-create refs/heads/main refs/heads/side\\n",
            "option no-deref\\nsymref-verify refs/remotes/o/HEAD refs/heads/side\\n",
            "option no-deref\\nsymref-verify refs/remotes/o/HEAD refs/heads/main\\n",
            "option no-deref\\nsymref-verify refs/remotes/o/none\\n",
            "symref-verify refs/remotes/o/HEAD refs/heads/side\\n",
            "update refs/remotes/o/HEAD $main $side\\n",
            "option no-deref\\nupdate refs/remotes/o/HEAD $main\\n",
            "option no-deref\\nsymref-update refs/remotes/o/HEAD refs/heads/side oid $old\\n",
            "option no-deref\\nsymref-update refs/remotes/o/HEAD refs/heads/side oid $main\\n",
            "option no-deref\\nsymref-update refs/remotes/o/NEW refs/heads/side oid $zero\\n",
            "symref-delete refs/remotes/o/HEAD\\n",
            "option no-deref\\nsymref-delete refs/remotes/o/HEAD refs/heads/main\\n",
            "option no-deref\\nsymref-delete refs/remotes/o/HEAD refs/heads/side\\n",
            "option no-deref\\nsymref-delete refs/remotes/o/HEAD\\n",
            "option no-deref\\ndelete refs/remotes/o/NEW\\n",
            "symref-update refs/remotes/o/X a..b\\n",
            "symref-update refs/remotes/o/X\\n",
            "symref-update refs/remotes/o/X refs/heads/main other\\n",
            "symref-update refs/remotes/o/X refs/heads/main ref\\n",
        ],
        "",
    );
    all(
        &[
            "option no-deref~symref-update HEAD~refs/heads/side~ref~refs/heads/main~",
            "option no-deref~symref-update HEAD~refs/heads/main~~~",
            "option no-deref~symref-update HEAD~refs/heads/side~ref~",
            "option no-deref~symref-update HEAD~refs/heads/side~oid~$old~",
            "option no-deref~symref-update HEAD~refs/heads/old~oid~$main~",
            "option no-deref~symref-update HEAD~refs/heads/main~oid~$main~",
            "option no-deref~symref-update HEAD~refs/heads/main~oid~$old~update refs/heads/old~$main~$old~",
            "option no-deref~verify HEAD~$main~",
            "option no-deref~verify HEAD~$side~",
            "symref-create refs/remotes/o/HEAD~refs/heads/main~",
            "option no-deref~symref-verify refs/remotes/o/HEAD~refs/heads/main~",
            "option no-deref~symref-verify refs/remotes/o/none~~",
            "option no-deref~symref-delete refs/remotes/o/HEAD~~",
        ],
        "-z",
    );
}

#[test]
fn input_with_nuls() {
    all(
        &[
            "create refs/heads/z1~$main~",
            "create refs/heads/z2~~",
            "update refs/heads/z1~$side~~",
            "update refs/heads/z1~$main~$old~",
            "update refs/heads/z1~$main~$side~",
            "update refs/heads/z3~$main~$zero~",
            "update refs/heads/z3~~$main~",
            "update refs/heads/z3~$main~",
            "delete refs/heads/z1~$side~",
            "delete refs/heads/z1~~",
            "delete refs/heads/z1",
            "verify refs/heads/main~$main~",
            "verify refs/heads/main~~",
            "verify refs/heads/none~~",
            "start~create refs/heads/z4~$main~prepare~commit~",
            "start~create refs/heads/z5~$main~",
            "create refs/heads/z 6~$main~",
            "create refs/heads/\\\"z7\\\"~$main~",
            "bogus~",
            "~",
        ],
        "-z",
    );
}

#[test]
fn input_that_is_refused() {
    all(
        &[
            "\\n",
            " create refs/heads/r $main\\n",
            "bogus refs/heads/r $main\\n",
            "create\\n",
            "create \\n",
            "create refs/heads/r\\n",
            "create  refs/heads/r $main\\n",
            "create refs/heads/r $main extra\\n",
            "update refs/heads/r $main $zero extra\\n",
            "update refs/heads/r $main extra\\n",
            "create refs/heads/r $main\\r\\n",
            "create refs/heads/r\\t$main\\n",
            "update refs/heads/r $main",
            "create refs/heads/r1 $main\\nupdate refs/heads/r $main",
            "create refs/heads/r xyz\\n",
            "create refs/heads/r..x $main\\n",
            "create refs/heads/r.lock $main\\n",
            "create \\\"refs/heads/r $main\\n",
            "create \\\"refs/heads/r\\\"x $main\\n",
            "option bogus\\n",
            "option\\n",
            "start now\\n",
            "create refs/heads/r1 $main\\nbogus\\n",
            "create refs/heads/r1 $main\\n\\n",
            "create \\\"refs/heads/quo\\\\\\\\303\\\\\\\\244ted\\\" $main\\n",
            "create \\\"refs/heads/quoted2\\\" \\\"$main\\\"\\n",
        ],
        "",
    );
}
