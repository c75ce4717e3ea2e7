//! Rules R9, R11 and R12: what a client says of its history is not believed, and what a pack builds on must be there.

use std::{collections::HashMap, fs, path::Path};

use gix_hash::ObjectId;
use znippy::archive::Snapshot;

use crate::common::{Side, assert_no_leftovers, fingerprint, subject_is_file};

fn archive(script: &str) -> Option<Side> {
    if subject_is_file() {
        return None;
    }
    let side = Side::archive("sha1", &[]);
    side.play(script);
    Some(side)
}

/// Asserts that everything in the archive is there, and returns the subjects of the commits of `branch`.
#[track_caller]
fn sound(side: &Side, branch: &str) -> String {
    let sandbox = &side.sandbox;
    sandbox.ok("", "rm -rf check && git clone -q --mirror $URL check");
    let fsck = sandbox
        .ok("check", "git fsck --full --strict --no-dangling 2>&1")
        .stdout;
    assert!(!fsck.contains("missing") && !fsck.contains("error"), "{fsck}");
    let log = sandbox.ok("check", &format!("git log --format=%s {branch}")).stdout;
    log.lines().collect::<Vec<_>>().join(" ")
}

/// Lets the archive be exchanged for `old` after git has listed it and before it pushes.
fn exchange_between_list_and_push(side: &Side, how: &str) {
    let hook = side.sandbox.path("work/.git/hooks/pre-push");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\n{how}\n")).unwrap();
    side.sandbox.ok("work", "chmod +x .git/hooks/pre-push");
}

const TWO_PUSHES: &str = "$ git init -q work
    work$ git remote add origin $URL
    work$ commit one
    work$ git push -q origin main
    $ cp remote.znippy old
    work$ commit two
    work$ git push -q origin main
    work$ git checkout -q -b topic
    work$ commit three";

#[test]
fn r9_a_pack_is_built_again_where_its_base_is_gone() {
    let Some(side) = archive(TWO_PUSHES) else { return };
    exchange_between_list_and_push(&side, "cp $A/old $A/new && mv $A/new $A/remote.znippy");
    side.sandbox.ok("work", "git push -q origin topic");
    assert_eq!(sound(&side, "topic"), "three two one");
    assert_eq!(sound(&side, "main"), "one");
    assert_no_leftovers(&side.sandbox);
}

#[test]
fn r9_a_copy_laid_over_the_open_archive_gets_no_hole() {
    // What was read before is gone from under the reader's hands: an error is right too.
    let Some(side) = archive(TWO_PUSHES) else { return };
    exchange_between_list_and_push(&side, "cat $A/old >$A/remote.znippy");
    let ran = side.sandbox.sh("work", "git push -q origin topic");
    assert_eq!(sound(&side, "main"), "one");
    if ran.code == 0 {
        assert_eq!(sound(&side, "topic"), "three two one");
    }
    side.sandbox
        .ok("work", "rm .git/hooks/pre-push && git push -q origin topic");
    assert_eq!(sound(&side, "topic"), "three two one");
}

#[test]
fn r9_a_tip_that_is_gone_is_packed() {
    // Nothing is to be packed for what the archive shows, unless it does not show it any more.
    let Some(side) = archive(TWO_PUSHES) else { return };
    exchange_between_list_and_push(&side, "cp $A/old $A/new && mv $A/new $A/remote.znippy");
    side.sandbox.ok("work", "git push -q origin main:refs/heads/copy");
    assert_eq!(sound(&side, "copy"), "two one");
}

#[test]
fn r9_a_push_in_between_is_no_reason_to_pack_again() {
    let Some(side) = archive(TWO_PUSHES) else { return };
    side.play("$ git clone -q $URL other");
    exchange_between_list_and_push(
        &side,
        "cd $A/other && unset GIT_DIR && git push -q origin HEAD:refs/heads/by-the-way",
    );
    let before = fs::metadata(&side.remote).unwrap().len();
    side.sandbox.ok("work", "git push -q origin topic");
    assert_eq!(sound(&side, "topic"), "three two one");
    assert!(fs::metadata(&side.remote).unwrap().len() > before);
}

#[test]
fn r9_a_base_that_the_client_pruned_makes_no_hole() {
    // The client has the archive's tip as a lone commit, without the rest of it.
    let Some(side) = archive(
        "$ git init -q work
         work$ commit one two
         work$ git push -q $URL main
         $ git init -q pruned
         pruned$ git remote add origin $URL
         pruned$ git -C ../work cat-file commit main >../tip
         pruned$ git hash-object -t commit -w --literally ../tip >../id
         pruned$ commit other",
    ) else {
        return;
    };
    let before = fingerprint(&side.remote);
    let ran = side.sandbox.sh("pruned", "git push origin main:refs/heads/other");
    match ran.code {
        0 => assert_eq!(sound(&side, "other"), "other"),
        _ => assert!(before == fingerprint(&side.remote), "{}", ran.stderr),
    }
    assert_eq!(sound(&side, "main"), "two one");
}

/// Makes the commit-graph of `work` say that the parent of `child` is `parent`, as no honest one does.
fn forge_commit_graph(side: &Side, child: &str, parent: &str) {
    let sandbox = &side.sandbox;
    sandbox.ok(
        "work",
        "git -c commitGraph.generationVersion=1 commit-graph write --reachable",
    );
    let path = sandbox.path("work/.git/objects/info/commit-graph");
    let mut bytes = fs::read(&path).unwrap();
    let chunk = |id: &[u8]| {
        let entry = bytes[8..].chunks(12).find(|entry| &entry[..4] == id).unwrap();
        u64::from_be_bytes(entry[4..12].try_into().unwrap()) as usize
    };
    let (ids, data) = (chunk(b"OIDL"), chunk(b"CDAT"));
    let position = |name: &str| {
        let id = ObjectId::from_hex(sandbox.ok("work", &format!("git rev-parse {name}")).text().as_bytes()).unwrap();
        bytes[ids..data]
            .chunks(20)
            .position(|chunk| chunk == id.as_slice())
            .unwrap()
    };
    let (child, parent) = (position(child), position(parent));
    let at = data + child * 36 + 20;
    bytes[at..at + 4].copy_from_slice(&(parent as u32).to_be_bytes());
    sandbox.ok("work", "chmod u+w .git/objects/info/commit-graph");
    fs::write(&path, bytes).unwrap();
}

const UNRELATED: &str = "$ git init -q work
    work$ commit one
    work$ git push -q $URL main
    work$ git checkout -q --orphan other
    work$ git rm -q -f one.txt
    work$ commit first second third";

#[test]
fn r11_a_wrong_commit_graph_makes_no_fast_forward_and_no_hole() {
    let Some(side) = archive(UNRELATED) else { return };
    forge_commit_graph(&side, "other~1", "main");
    // The lie works: git itself believes it. (Of the tip it would read the commit itself.)
    side.sandbox.ok("work", "git merge-base --is-ancestor main other");
    let before = fingerprint(&side.remote);
    side.sandbox.fails("work", "git push $URL other:main");
    assert!(before == fingerprint(&side.remote));
    // By force, everything arrives or nothing.
    if side.sandbox.sh("work", "git push -q --force $URL other:main").code == 0 {
        assert_eq!(sound(&side, "main"), "third second first");
    } else {
        assert!(before == fingerprint(&side.remote));
    }
}

#[test]
fn r11_a_graft_makes_no_fast_forward() {
    let Some(side) = archive(UNRELATED) else { return };
    side.sandbox.ok(
        "work",
        "echo $(git rev-parse other) $(git rev-parse main) >.git/info/grafts && git merge-base --is-ancestor main other",
    );
    let before = fingerprint(&side.remote);
    let ran = side.sandbox.fails("work", "git push --porcelain $URL other:main");
    assert!(
        ran.stdout.contains("(non-fast-forward)"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    assert!(before == fingerprint(&side.remote));
}

#[test]
fn r11_an_archive_without_index_judges_all_the_same() {
    let Some(side) = archive(
        "$ git init -q work
         work$ git config znippy.resolve defer
         work$ git config znippy.autoIndex false
         work$ commit one two
         work$ git push -q $URL main
         work$ git tag old
         work$ commit three
         work$ git push -q $URL main",
    ) else {
        return;
    };
    let refused = |how: &str| {
        let before = fingerprint(&side.remote);
        let ran = side.sandbox.fails("work", "git push --porcelain $URL old:main");
        assert!(ran.stdout.contains("(non-fast-forward)"), "{how}: {}", ran.stdout);
        assert!(before == fingerprint(&side.remote), "{how}");
    };
    refused("without index");
    side.sandbox.ok("", "znippy index remote.znippy");
    refused("with index");
    assert_same_generations(&side);
}

#[test]
fn r11_generations_are_those_of_the_history_wherever_they_are_stored() {
    let Some(side) = archive(
        "$ git init -q work
         work$ git config znippy.autoIndex false
         work$ history 60
         work$ git -c znippy.resolve=defer push -q $URL main~20:refs/heads/main
         work$ git -c znippy.resolve=defer push -q $URL main~10:refs/heads/main
         $ znippy index remote.znippy
         work$ git push -q $URL main
         work$ git push -q --mirror $URL",
    ) else {
        return;
    };
    assert_same_generations(&side);
}

/// Asserts that the archive knows each commit with its parents and its topological level.
#[track_caller]
fn assert_same_generations(side: &Side) {
    let snapshot = Snapshot::open(&side.remote).unwrap();
    let log = side.sandbox.ok(
        "work",
        "git rev-list --topo-order --reverse --parents $(git ls-remote $URL | cut -f1)",
    );
    let mut levels: HashMap<ObjectId, u32> = HashMap::new();
    for line in log.stdout.lines() {
        let ids: Vec<ObjectId> = line
            .split(' ')
            .map(|hex| ObjectId::from_hex(hex.as_bytes()).unwrap())
            .collect();
        let level = 1 + ids[1..].iter().map(|parent| levels[parent]).max().unwrap_or(0);
        let node = snapshot
            .commit_node(&ids[0])
            .unwrap()
            .unwrap_or_else(|| panic!("{line} is not in the graph"));
        assert_eq!((node.generation, &node.parents[..]), (Some(level), &ids[1..]), "{line}");
        levels.insert(ids[0], level);
    }
}

#[test]
fn r12_a_forged_parent_in_the_client_hides_nothing() {
    // The client's copy of the parent's directory lists a file that nobody has. git leaves that file out of the pack, as the
    // parent seems to have it; and the proof must not believe it either.
    let Some(side) = archive(
        "$ git init -q work
         work$ commit one
         work$ git push -q $URL main",
    ) else {
        return;
    };
    let sandbox = &side.sandbox;
    let ghost = sandbox
        .ok("work", "echo ghost | git hash-object --stdin")
        .text()
        .to_owned();
    let forge = format!(
        "tree=$(git rev-parse main^{{tree}}) && object() {{ echo $1 | sed 's,..,.git/objects/&/,'; }} &&
         forged=$( (git ls-tree main; printf '100644 blob {ghost}\\tghost\\n') | git mktree --missing) &&
         new=$( (git ls-tree main; printf '100644 blob {ghost}\\tghost\\n100644 blob {ghost}\\tghost2\\n') | git mktree --missing) &&
         commit=$(git commit-tree -p main -m two $new) &&
         chmod u+w $(object $tree) && cp $(object $forged) $(object $tree) &&
         git update-ref refs/heads/main $commit"
    );
    sandbox.ok("work", &forge);
    let before = fingerprint(&side.remote);
    let ran = sandbox.fails("work", "git push $URL main");
    assert!(before == fingerprint(&side.remote), "{}", ran.stderr);
    assert!(ran.stderr.contains(&ghost), "{}", ran.stderr);
}

#[test]
fn r12_a_client_without_the_parents_directories_can_push_what_is_whole() {
    // The proof reads them in the archive then.
    let Some(side) = archive(
        "$ git init -q work
         work$ mkdir dir && echo a >dir/a && git add dir && commit one
         work$ git push -q $URL main
         work$ git config remote.o.url $URL
         work$ echo b >dir/b && git add dir && commit two",
    ) else {
        return;
    };
    side.sandbox.ok(
        "work",
        "for tree in main~1^{tree} main~1:dir; do
             rm -f $(git rev-parse $tree | sed 's,..,.git/objects/&/,')
         done",
    );
    let ran = side.sandbox.sh("work", "git push -q $URL main");
    if ran.code == 0 {
        assert_eq!(sound(&side, "main"), "two one");
    } else {
        assert_eq!(sound(&side, "main"), "one");
    }
}

#[test]
fn r12_a_partial_clone_never_leaves_holes() {
    let Some(side) = archive(
        "$ git init -q origin
         origin$ git config uploadpack.allowFilter true
         origin$ commit one two
         $ git clone -q --no-checkout --filter=blob:none file://$A/origin partial",
    ) else {
        return;
    };
    let ran = side.sandbox.sh("partial", "git push $URL origin/main:refs/heads/main");
    match ran.code {
        0 => assert_eq!(sound(&side, "main"), "two one"),
        _ => assert!(
            !Path::new(&side.remote).exists() || fs::metadata(&side.remote).is_ok(),
            "{}",
            ran.stderr
        ),
    }
    if side.remote.exists() {
        sound(&side, "main");
    }
}

#[test]
fn r10_a_branch_names_a_commit_whoever_asks() {
    let Some(side) = archive(
        "$ git init -q work
         work$ commit one
         work$ git tag -m t v1
         work$ git push -q $URL main v1",
    ) else {
        return;
    };
    let before = fingerprint(&side.remote);
    for name in ["main:one.txt", "main^{tree}", "v1"] {
        let id = side
            .sandbox
            .ok("work", &format!("git rev-parse {name}"))
            .text()
            .to_owned();
        let ran = side.sandbox.fails("work", &format!("git push $URL {id}:refs/heads/x"));
        assert!(ran.stderr.contains("commit"), "{name}: {}", ran.stderr);
        side.sandbox
            .fails("", &format!("znippy refs update remote.znippy refs/heads/x {id}"));
    }
    assert!(before == fingerprint(&side.remote));
}
