//! The ways in which a client misleads a remote, and the ends of a conversation.

use std::io::Write;

use crate::common::{Side, assert_no_leftovers, subject_is_file};

/// Talks to the helper itself and returns what it answers.
fn talk(side: &Side, dir: &str, lines: &str) -> (i32, String, String) {
    let mut command = side.sandbox.command(dir, "git-remote-znippy");
    command
        .args(["origin", &side.remote.display().to_string()])
        .env("GIT_DIR", side.sandbox.path(dir).join(".git"));
    command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A helper that has ended already closes the pipe: that is an answer too.
    child.stdin.take().unwrap().write_all(lines.as_bytes()).ok();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| crate::common::show(bytes);
    (
        output.status.code().unwrap_or(-1),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn pushed() -> Option<Side> {
    if subject_is_file() {
        return None;
    }
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one two
         work$ git branch side
         work$ git tag -m t v1
         work$ git push -q $URL main side v1",
    );
    Some(side)
}

#[test]
fn capabilities_are_what_git_needs() {
    let Some(side) = pushed() else { return };
    let (code, stdout, _) = talk(&side, "work", "capabilities\n\n");
    assert_eq!(code, 0);
    let capabilities: Vec<&str> = stdout.lines().collect();
    for needed in [
        "connect",
        "fetch",
        "push",
        "option",
        "check-connectivity",
        "object-format",
    ] {
        assert!(capabilities.contains(&needed), "{needed} is not in {capabilities:?}");
    }
}

#[test]
fn list_shows_peeled_tags_and_list_for_push_does_not() {
    let Some(side) = pushed() else { return };
    let (_, list, _) = talk(&side, "work", "capabilities\noption object-format true\nlist\n\n");
    assert!(
        list.contains(" refs/tags/v1^{}") && list.contains("@refs/heads/main HEAD"),
        "{list}"
    );
    let (_, list, _) = talk(
        &side,
        "work",
        "capabilities\noption object-format true\nlist for-push\n\n",
    );
    assert!(!list.contains("^{}") && !list.contains(" HEAD"), "{list}");
}

#[test]
fn the_end_of_input_at_any_line_is_a_clean_exit() {
    let Some(side) = pushed() else { return };
    let tip = side.sandbox.ok("work", "git rev-parse main").text().to_owned();
    let conversation = format!(
        "capabilities\noption progress false\noption verbosity 0\noption object-format true\nlist\nfetch {tip} refs/heads/main\n\n\n"
    );
    let before = crate::common::fingerprint(&side.remote);
    for (end, _) in conversation.match_indices('\n') {
        let (code, _, stderr) = talk(&side, "work", &conversation[..=end]);
        assert!(
            (0..=128).contains(&code) && !stderr.contains("panicked"),
            "{code} {stderr}"
        );
    }
    assert!(before == crate::common::fingerprint(&side.remote));
    assert_no_leftovers(&side.sandbox);
}

#[test]
fn a_push_that_is_not_finished_writes_nothing() {
    let Some(side) = pushed() else { return };
    side.sandbox.ok("work", "commit three");
    let before = crate::common::fingerprint(&side.remote);
    let start = "capabilities\noption object-format true\nlist for-push\n";
    for lines in [
        "push refs/heads/main:refs/heads/main\n",
        "push refs/heads/main:refs/heads/main",
        "push +refs/heads/main:re",
    ] {
        talk(&side, "work", &format!("{start}{lines}"));
        assert!(
            before == crate::common::fingerprint(&side.remote),
            "written without the blank line that ends the batch"
        );
    }
}

#[test]
fn unknown_commands_and_options_are_answered() {
    let Some(side) = pushed() else { return };
    let (_, stdout, _) = talk(
        &side,
        "work",
        "capabilities\noption nonsense 7\noption progress maybe\n\n",
    );
    assert!(stdout.contains("unsupported"), "{stdout}");
    let (code, _, stderr) = talk(&side, "work", "nonsense\n");
    assert!(code != 0 && !stderr.is_empty());
}

#[test]
fn a_push_line_without_a_plus_never_rewinds() {
    // git sends such lines for references that it judged itself, and an old git for more.
    let Some(side) = pushed() else { return };
    side.sandbox.ok("work", "git branch back main~1");
    let before = crate::common::fingerprint(&side.remote);
    let lines = "capabilities\noption object-format true\nlist for-push\npush refs/heads/back:refs/heads/main\n\n\n";
    let (_, stdout, _) = talk(&side, "work", lines);
    assert!(stdout.contains("error refs/heads/main"), "{stdout}");
    assert!(before == crate::common::fingerprint(&side.remote));
}

#[test]
fn replace_references_do_not_change_what_is_pushed() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one two three
         work$ git replace main~1 main~2
         work$ git push -q $URL main
         $ git clone -q --mirror $URL copy
         copy$ git fsck --full --strict --no-dangling",
    );
    let all = side.sandbox.ok("copy", "git log --format=%s").stdout;
    assert_eq!(all, "three\ntwo\none\n");
}

#[test]
fn a_replaced_ancestry_does_not_make_a_fast_forward() {
    // Without `receive.denyNonFastForwards` a bare repository believes the client.
    if subject_is_file() {
        return;
    }
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one two
         work$ git push -q $URL main
         work$ git checkout -q --orphan other
         work$ git commit -q -m unrelated
         work$ git replace --graft HEAD main
         work!= git -c core.useReplaceRefs=true push --porcelain $URL HEAD:main",
    );
}

#[test]
fn grafts_do_not_make_holes() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one two three
         work$ git rev-parse main~1 >.git/info/grafts",
    );
    side.sandbox.sh("work", "git push -q $URL main");
    if side.sandbox.sh("", "git clone -q --mirror $URL copy").code == 0 {
        side.sandbox.ok("copy", "git fsck --full --strict --no-dangling");
    }
}

#[test]
fn a_damaged_client_cannot_spoil_the_archive() {
    // The client's object is another than its name says: what arrives must be checked by name.
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main
         work$ commit two",
    );
    let blob = side.sandbox.ok("work", "git rev-parse main:two.txt").text().to_owned();
    let other = side
        .sandbox
        .ok("work", "echo forged | git hash-object -w --stdin")
        .text()
        .to_owned();
    let object = |id: &str| format!(".git/objects/{}/{}", &id[..2], &id[2..]);
    side.sandbox.ok(
        "work",
        &format!("chmod u+w {0} && cp {1} {0}", object(&blob), object(&other)),
    );
    let ran = side.sandbox.sh("work", "git push $URL main");
    if subject_is_file() {
        return;
    }
    assert_ne!(ran.code, 0, "a forged object was accepted");
    side.sandbox.ok("", "git clone -q --mirror $URL copy");
    side.sandbox.ok("copy", "git fsck --full --strict --no-dangling");
}

#[test]
fn a_client_with_missing_objects_is_refused() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main
         work$ commit two three",
    );
    let blob = side
        .sandbox
        .ok("work", "git rev-parse main~1:two.txt")
        .text()
        .to_owned();
    side.sandbox
        .ok("work", &format!("rm -f .git/objects/{}/{}", &blob[..2], &blob[2..]));
    let before = side.sandbox.ok("", "git ls-remote $URL").stdout;
    side.sandbox.fails("work", "git push $URL main");
    assert_eq!(before, side.sandbox.ok("", "git ls-remote $URL").stdout);
}

#[test]
fn r13_a_read_only_client_can_push() {
    // Packs are built in the user's temporary directory, never in the client's object store.
    let Some(side) = pushed() else { return };
    side.sandbox.ok("work", "commit three");
    let before = side.sandbox.ok("work", "find .git/objects -type f | sort").stdout;
    side.sandbox.ok("work", "git push -q $URL main");
    assert_eq!(
        before,
        side.sandbox.ok("work", "find .git/objects -type f | sort").stdout
    );
    assert_no_leftovers(&side.sandbox);
}

#[test]
fn r13_pack_objects_is_asked_for_one_whole_pack() {
    let Some(side) = pushed() else { return };
    let (s, push) = (&side.sandbox, "GIT_TRACE=\"$A/trace\" git push -q $URL main");
    let configured =
        "git config pack.packSizeLimit 1m && git config pack.writeBitmaps true && git config core.fsync all";
    s.ok("work", &format!("{configured}; commit three && {push}"));
    let trace = s.ok("", "cat trace").stdout;
    let line = trace
        .lines()
        .find(|line| line.contains("pack-objects"))
        .unwrap_or_else(|| panic!("{trace}"));
    for wanted in ["--revs", "--delta-base-offset", "--use-bitmap-index", "-q"] {
        assert!(line.contains(wanted), "{wanted}: {line}");
    }
    for unwanted in ["--thin", "--local", "--honor-pack-keep", "--incremental", "--stdout"] {
        assert!(!line.contains(unwanted), "{unwanted}: {line}");
    }
    // No delta names its base by its id.
    s.ok("", "git clone -q --bare $URL copy.git");
    assert_no_leftovers(s);
}

/// R24: a file with the name of the pack is taken for the pack only if it is it.
#[test]
fn r24_half_a_pack_of_the_same_name_is_not_it() {
    let Some(side) = pushed() else { return };
    let s = &side.sandbox;
    s.ok("", "git clone -q --mirror $URL copy");
    for harm in [
        "cut -c2- $pack >$half",
        "head -c -1 $pack >$half",
        "head -c -20 $pack >$half && head -c 20 /dev/zero >>$half",
        "cp $pack $half && : >${half%.pack}.idx",
    ] {
        s.ok(
            "",
            &format!(
                "rm -rf other && git init -q --bare other && for pack in copy/objects/pack/*.pack; do \
                 half=other/objects/pack/${{pack##*/}}; {harm}; done"
            ),
        );
        let ran = s.sh(
            "other",
            "git fetch -q $URL '+refs/*:refs/*' && git fsck --full --strict",
        );
        assert_eq!(ran.code, 0, "{harm}: {}", ran.stderr);
        let refs = |repository: &str| s.ok(repository, "git show-ref").stdout;
        assert_eq!(refs("other"), refs("copy"), "{harm}");
    }
}

#[test]
fn r24_a_keep_of_the_user_stays() {
    // Mirror clone, then a keep laid by the user on the very pack that another fetch would drop.
    let Some(side) = pushed() else { return };
    side.sandbox.ok("", "git clone -q --mirror $URL copy");
    side.sandbox.ok(
        "copy",
        "for pack in objects/pack/*.pack; do echo mine >${pack%.pack}.keep; done",
    );
    side.sandbox.ok(
        "copy",
        "git update-ref -d refs/heads/side && git fetch -q --refetch || git fetch -q",
    );
    let kept = side.sandbox.ok("copy", "cat objects/pack/*.keep");
    assert_eq!(kept.text(), "mine");
}

#[test]
fn garbage_collection_may_follow_a_clone() {
    let Some(side) = pushed() else { return };
    side.play(
        "$ git clone -q $URL reader
         reader$ git gc -q --prune=now
         reader$ git repack -q -a -d -f
         reader$ git fsck --full --strict
         reader$ git fetch -q
         reader$ commit more
         reader$ git push -q origin main",
    );
}

#[test]
fn r13_packs_limited_in_size_by_the_client_still_make_one() {
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ git config pack.packSizeLimit 1m
         work$ git config pack.indexVersion 1
         work$ git config pack.writeReverseIndex true
         work$ git config pack.island refs/heads/.*
         work$ head -c 3000000 /dev/urandom >big1.bin
         work$ head -c 3000000 /dev/urandom >big2.bin
         work$ git add . && git commit -q -m big
         work$ git push -q $URL main
         $ git clone -q $URL reader
         reader$ git fsck --full --strict",
    );
}
