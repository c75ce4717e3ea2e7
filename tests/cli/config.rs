//! `znippy config`.

use crate::{
    common::fingerprint,
    fixture::{assert_one_error, fixture},
};

#[test]
fn settings_are_made_shown_and_taken_away() {
    let s = fixture("sha1");
    let config = |args: &str| s.ok("", &format!("znippy config app {args}")).stdout;
    assert_eq!(config(""), "");
    config("--set RECEIVE.denydeletes on");
    config("--add transfer.hideRefs refs/a/ && znippy config app --add transfer.hiderefs '!refs/a/b'");
    config("--set receive.maxInputSize 20M");
    assert_eq!(
        config("--list"),
        "receive.denyDeletes=true\ntransfer.hideRefs=refs/a\ntransfer.hideRefs=!refs/a/b\nreceive.maxInputSize=20m\n"
    );
    assert_eq!(config("--get transfer.hideRefs"), "refs/a\n!refs/a/b\n");
    assert_eq!(
        config("--json --get receive.denyDeletes"),
        "{\"key\":\"receive.denyDeletes\",\"value\":\"true\"}\n"
    );
    config("--unset transfer.hideRefs");
    assert_eq!(config(""), "receive.denyDeletes=true\nreceive.maxInputSize=20m\n");
    let before = fingerprint(&s.path("app.znippy"));
    config("--set receive.denyDeletes true");
    assert!(
        before == fingerprint(&s.path("app.znippy")),
        "nothing changed, but something was written"
    );
    assert_eq!(s.fails("", "znippy config app --get znippy.readOnly").code, 1);
    assert_eq!(s.fails("", "znippy config app --unset znippy.readOnly").code, 1);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let s = fixture("sha1");
    let before = fingerprint(&s.path("app.znippy"));
    for (args, part) in [
        ("--set receive.denyDeletes perhaps", "true or false"),
        ("--set receive.maxInputSize lots", "a number of bytes"),
        ("--add receive.denyDeletes true", "use --set"),
        ("--set receive.nothing true", "there is no setting"),
        ("--set receive.denyCurrentBranch true", "no work tree"),
        ("--set receive.fsck.skipList /x", "one machine"),
        ("--set receive.fsck.missingEmail perhaps", "error, warn or ignore"),
        ("--add receive.fsck.missingEmail warn", "use --set"),
        ("--set transfer.hideRefs ''", "the start of a reference's name"),
    ] {
        let ran = s.fails("", &format!("znippy config app {args}"));
        assert_eq!(ran.code, 2, "{args}");
        assert_one_error(&ran.stderr, part);
    }
    s.fails("", "znippy config app --list --unset receive.denyDeletes");
    assert_eq!(s.fails("", "znippy config nothing").code, 3);
    assert!(before == fingerprint(&s.path("app.znippy")));
}

#[test]
fn edits_of_references_keep_to_the_settings() {
    let s = fixture("sha1");
    s.ok(
        "",
        "znippy config app --set receive.denyNonFastForwards true && znippy config app --set receive.denyDeletes true",
    );
    for edit in [
        "refs cas app refs/heads/main $main $old",
        "refs cas app refs/heads/main $main $side",
        "refs cas app refs/heads/old $old $zero",
    ] {
        let ran = s.fails("", &format!("znippy {edit}"));
        assert_eq!(ran.code, 1, "{edit}");
    }
    let ran = s.fails(
        "",
        "printf 'update refs/heads/main %s\\n' $old | znippy refs update --stdin app",
    );
    assert_one_error(&ran.stderr, "non-fast-forward");
    s.ok("", "znippy refs cas app refs/heads/old $old $main");
    s.ok("", "znippy refs cas app refs/tags/light $old $zero");
}
