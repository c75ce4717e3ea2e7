//! Partial clones: filters, and objects that come when they are needed.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::common::{Parity, Sandbox, Side, subject_is_file};

/// What a repository holds, and what it knows of but does not hold.
const LOOK: &str = "git cat-file --batch-all-objects --batch-check && \
                    git rev-list --objects --all --missing=print | LC_ALL=C sort && git fsck 2>&1 && git for-each-ref && \
                    ls .git/objects/pack | sed 's/.*[.]//' | LC_ALL=C sort | uniq -c | grep promisor";

/// Plays a script in which `LOOK` stands for a look at everything, with a bare repository that allows what an archive does.
fn compare(format: &'static str, script: &str) {
    Parity::new()
        .format(format)
        .bare_config("uploadpack.allowFilter=true")
        .bare_config("uploadpack.allowAnySHA1InWant=true")
        .run(&script.replace("LOOK", LOOK));
}

const HISTORY: &str = "$ rich work
     work$ history 30 main x
     work$ git checkout -q -f main
     work$ mkdir -p dir0/sub/deeper other
     work$ for i in 1 2 3; do echo $i >dir0/sub/deeper/f$i; echo $i >other/o$i; git add .; git commit -q -m deeper$i; done
     work$ printf '/*\\n!/other/\\n!/dir0/\\n/dir0/sub/\\n' >.patterns
     work$ git add .patterns
     work$ git commit -q -m patterns
     work$ git tag -m five five main~5
     work$ git push -q --mirror $URL";

#[test]
fn clone_with_every_filter() {
    compare(
        "sha1",
        &format!(
            "{HISTORY}
             $ git clone --filter=blob:none --no-checkout $URL blobless
             blobless$ LOOK
             $ git clone --filter=blob:limit=1k --no-checkout $URL limited
             limited$ LOOK
             $ git clone --filter=blob:limit=0 --no-checkout $URL zero
             zero$ LOOK
             $ git clone --filter=tree:0 --no-checkout $URL treeless
             treeless$ LOOK
             $ git clone --filter=tree:1 --no-checkout $URL roots
             roots$ LOOK
             $ git clone --filter=tree:3 --no-checkout $URL upper
             upper$ LOOK
             $ git clone --filter=object:type=commit --no-checkout $URL commits
             commits$ LOOK
             $ git clone --filter=object:type=tree --no-checkout $URL trees
             trees$ LOOK
             $ git clone --filter=object:type=blob --no-checkout $URL blobs
             $ git clone --filter=sparse:oid=main:.patterns --no-checkout $URL sparse
             sparse$ LOOK
             $ git clone --filter=combine:blob:limit=2k+sparse:oid=HEAD:.patterns --no-checkout $URL both
             both$ LOOK
             $ git clone --filter=blob:none --filter=tree:0 --no-checkout $URL twice
             twice$ LOOK
             ! git clone --filter=blob:some $URL wrong
             ! git clone --filter=sparse:oid=main:nothing-here $URL missing"
        ),
    );
}

#[test]
fn a_mirror_has_what_tags_name_whatever_the_filter_says() {
    const LOOK_BARE: &str = "git cat-file --batch-all-objects --batch-check && git fsck 2>&1 && git for-each-ref";
    compare(
        "sha1",
        &format!(
            "{HISTORY}
             work$ git tag -m key key $(echo key | git hash-object -w --stdin)
             work$ git tag -m key-of-key key-of-key key
             work$ git tag -m tree tree main^{{tree}}
             work$ git push -q --mirror $URL
             $ git clone -q --mirror --filter=blob:none $URL blobless
             blobless$ {LOOK_BARE}
             $ git clone -q --mirror --filter=tree:0 $URL treeless
             treeless$ {LOOK_BARE}
             $ git clone -q --mirror --filter=object:type=commit $URL commits
             commits$ {LOOK_BARE}
             $ git clone -q --mirror --filter=blob:limit=100 $URL small
             small$ {LOOK_BARE}"
        ),
    );
}

/// The pack goes into the new clone with its index, as in any clone; git indexes it where it is to check it.
#[test]
fn a_new_partial_clone_is_indexed_by_git_only_for_checks() {
    if subject_is_file() {
        return;
    }
    let s = Sandbox::new();
    s.ok("", "rich work && git -C work push -q --mirror \"znippy::$A/app\"");
    let clone = |options: &str| {
        let line = format!("rm -rf copy && GIT_TRACE=1 git {options} \"znippy::$A/app\" copy");
        s.ok("", &line).stderr
    };
    let traced = clone("clone -q --no-checkout --filter=blob:none");
    assert!(!traced.contains("index-pack"), "{traced}");
    assert_eq!(traced.matches("git config --list").count(), 1, "{traced}");
    let promised = s.ok("copy", "cat .git/objects/pack/*.promisor");
    for line in s.ok("copy", "git ls-remote origin 'refs/heads/*'").text().lines() {
        assert!(promised.text().contains(&line.replace('\t', " ")), "{line}");
    }
    s.ok("copy", "git checkout -q main && git fsck --full");
    for options in [
        "-c transfer.fsckObjects=true clone -q --filter=blob:none",
        "clone -q --filter=blob:none --depth=2",
        "clone -q --filter=sparse:oid=main:one.txt",
    ] {
        let traced = clone(options);
        assert!(traced.contains("index-pack"), "{options}: {traced}");
        s.ok("copy", "git fsck --full");
    }
    // Where others may write, nothing is believed.
    fs::set_permissions(s.path("app.znippy"), fs::Permissions::from_mode(0o664)).unwrap();
    let traced = clone("clone -v --no-checkout --filter=blob:none");
    assert!(traced.contains("every object is checked"), "{traced}");
}

#[test]
fn what_is_missing_comes_when_it_is_needed() {
    compare(
        "sha1",
        &format!(
            "{HISTORY}
             $ git clone --filter=blob:none $URL blobless
             blobless$ LOOK
             blobless$ git checkout -q main~4
             blobless$ LOOK
             blobless$ git log -p -2 -- dir0
             blobless$ git diff main~3 main
             blobless$ git cat-file -p main~9:dir1/file4.txt
             blobless$ git blame main -- one.txt
             blobless$ LOOK
             $ git clone --filter=tree:0 $URL treeless
             treeless$ LOOK
             treeless$ git checkout -q main~4
             treeless$ git ls-tree -r main~20
             treeless$ LOOK
             treeless$ git cat-file -p v1.0
             $ git -c protocol.version=0 clone -q --filter=blob:none $URL zero
             zero$ git -c protocol.version=0 checkout -q main~8
             zero$ LOOK
             $ git clone -q --bare --filter=blob:none $URL bare.git
             bare.git$ git cat-file -p main:one.txt"
        ),
    );
}

#[test]
fn a_partial_clone_goes_on_living() {
    compare(
        "sha1",
        &format!(
            "{HISTORY}
             $ git clone -q --filter=blob:none $URL reader
             work$ history 5 main y
             work$ git tag -m late late main~1
             work$ git push -q $URL main late
             reader$ git fetch
             reader$ LOOK
             reader$ git pull -q
             reader$ LOOK
             reader$ git fetch --refetch --filter=blob:limit=100
             reader$ LOOK
             reader$ git fetch --no-filter --refetch
             reader$ LOOK
             reader$ commit mine
             reader$ git push -q origin main
             reader$ git fetch origin side
             reader$ git fetch --depth 2
             reader$ cat .git/shallow
             reader$ git fetch --unshallow
             reader$ git repack -a -d -q
             reader$ git gc -q
             reader$ git checkout -q main~3"
        ),
    );
}

#[test]
fn filters_with_a_depth_and_checks() {
    compare(
        "sha1",
        &format!(
            "{HISTORY}
             $ git clone -q --filter=blob:none --depth 3 $URL three
             three$ LOOK
             three$ LC_ALL=C sort .git/shallow
             three$ git fetch --deepen 4
             three$ LOOK
             three$ git fetch --unshallow
             three$ LOOK
             $ git clone -q --filter=tree:0 --depth 1 $URL one
             one$ LOOK
             $ git -c fetch.fsckObjects=true clone -q --filter=blob:none $URL checked
             checked$ LOOK
             checked$ git -c fetch.fsckObjects=true checkout -q main~6"
        ),
    );
}

#[test]
fn sparse_checkouts_get_what_they_show() {
    compare(
        "sha1",
        &format!(
            "{HISTORY}
             $ git clone -q --filter=blob:none --sparse $URL reader
             reader$ LOOK
             reader$ git sparse-checkout set dir0/sub
             reader$ LOOK
             reader$ find . -name .git -prune -o -type f -print | LC_ALL=C sort
             reader$ git sparse-checkout add other
             reader$ LOOK
             reader$ git sparse-checkout disable
             reader$ git status --porcelain
             $ git clone -q --filter=tree:0 --sparse --depth 1 $URL thin
             thin$ git sparse-checkout set other
             thin$ LOOK"
        ),
    );
}

#[test]
fn from_whole_to_partial() {
    compare(
        "sha1",
        &format!(
            "{HISTORY}
             $ git clone -q --single-branch -b side $URL reader
             reader$ git config remote.origin.promisor true
             reader$ git fetch --filter=blob:none origin main
             reader$ git rev-list --objects FETCH_HEAD --missing=print | LC_ALL=C sort
             reader$ git checkout -q FETCH_HEAD
             $ git init -q fresh
             fresh$ git remote add origin $URL
             fresh$ git fetch -q --filter=blob:none origin
             fresh$ LOOK
             fresh$ git checkout -q -b main origin/main
             fresh$ LOOK"
        ),
    );
}

#[test]
fn sha256_objects_are_left_out_too() {
    compare(
        "sha256",
        "$ git init -q work
         work$ history 12
         work$ git push -q $URL main
         $ git clone --filter=blob:none $URL reader
         reader$ LOOK
         reader$ git checkout -q main~5
         reader$ LOOK
         reader$ git fetch --refetch --filter=tree:0
         reader$ LOOK",
    );
}

#[test]
fn objects_by_name() {
    compare(
        "sha1",
        &format!(
            "{HISTORY}
             $ git init -q reader
             reader$ git fetch -q $URL $(git -C ../work rev-parse main~7)
             reader$ git log --format=%s FETCH_HEAD
             reader$ git fetch -q --depth 1 $URL $(git -C ../work rev-parse main~3)
             reader$ git fetch -q $URL $(git -C ../work rev-parse main:one.txt)
             reader$ git fetch -q $URL $(git -C ../work rev-parse main~1:deep)
             reader$ git fetch -q --depth 1 $URL $(git -C ../work rev-parse nested2)
             reader! git fetch -q --depth 1 $URL 1234567890123456789012345678901234567890
             reader$ git cat-file --batch-all-objects --batch-check"
        ),
    );
}

#[test]
fn submodules_may_be_partial() {
    // The address is a part of the submodule's commit.
    Parity::new()
        .bare_config("uploadpack.allowFilter=true")
        .bare_config("uploadpack.allowAnySHA1InWant=true")
        .without_state()
        .run(
        "$ git init -q part
         part$ history 6
         part$ git push -q $URL main
         $ git init -q whole
         whole$ git -c protocol.file.allow=always -c protocol.znippy.allow=always submodule --quiet add $URL part
         whole$ git commit -q -m with-part
         whole$ git config uploadpack.allowFilter true
         $ git -c protocol.file.allow=always -c protocol.znippy.allow=always clone -q --recurse-submodules --also-filter-submodules --filter=blob:none file://$A/whole copy
         copy/part$ git log --format=%s
         copy/part$ git rev-list --objects --all --missing=print | LC_ALL=C sort
         copy/part$ git -c protocol.file.allow=always -c protocol.znippy.allow=always checkout -q HEAD~3",
    );
}

#[test]
fn an_unborn_branch_is_followed() {
    for version in ["0", "1", "2"] {
        let bare = Side::bare("sha1", &[]);
        bare.play("remote$ git symbolic-ref HEAD refs/heads/trunk");
        let archive = Side::archive("sha1", &[]);
        archive.play("$ [ $PROTO = file ] || znippy init -q -b trunk remote");
        let script = format!(
            "$ git -c protocol.version={version} clone $URL empty
             empty$ git symbolic-ref HEAD
             $ git init -q work
             work$ commit one
             work$ git push -q $URL main:refs/other/a
             $ git -c protocol.version={version} clone $URL reader
             reader$ git symbolic-ref HEAD
             reader$ git -c protocol.version={version} ls-remote --symref origin"
        );
        let (expected, found) = (bare.play(&script), archive.play(&script));
        if version == "2" || crate::common::subject_is_file() {
            assert_eq!(expected, found);
        }
    }
}

/// What nothing reaches any more is not served, and all else is, wherever it is.
#[test]
fn objects_by_name_where_a_branch_was_deleted() {
    let s = crate::common::Sandbox::new();
    s.ok(
        "",
        "git init -q work && cd work && echo old >f && git add . && git commit -q -m one && git tag -m t v1 && echo new >f && echo x >g &&
         git add . && git commit -q -m two && git checkout -q -b gone && echo secret >h && git add . && git commit -q -m three &&
         git checkout -q main && git push -q --mirror \"znippy::$A/app\" && git push -q \"znippy::$A/app\" :gone &&
         git config --global protocol.ext.allow always",
    );
    s.ok(
        "",
        "git clone -q --filter=tree:0 -n \"ext::znippy %s $A/app\" part && git clone -q --filter=blob:none --depth 1 \"ext::znippy %s $A/app\" top",
    );
    for (repository, object, content) in [
        ("top", "main:f", "new"),
        ("top", "v1:f", "old"),
        ("part", "main:g", "x"),
        ("part", "v1:f", "old"),
    ] {
        let id = s.ok("work", &format!("git rev-parse {object}"));
        let got = s.ok(repository, &format!("git cat-file blob {}", id.text()));
        assert_eq!(got.text(), content, "{repository} {object}");
    }
    for object in ["main~1", "main~1^{tree}", "v1"] {
        let id = s.ok("work", &format!("git rev-parse {object}"));
        s.ok("top", &format!("git fetch -q --depth 1 origin {}", id.text()));
    }
    for object in ["gone", "gone^{tree}", "gone:h"] {
        let id = s.ok("work", &format!("git rev-parse {object}"));
        let told = s.fails("top", &format!("git fetch -q origin {}", id.text()));
        assert!(told.stderr.contains("not our ref"), "{object}: {}", told.stderr);
    }
}
