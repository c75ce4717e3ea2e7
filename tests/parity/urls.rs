//! The forms of a URL. An existing exact file wins, then one with `.znippy`; creation always adds it; nothing is decoded.

use crate::common::{Side, subject_is_file};

/// Makes a client with one commit; `None` where the tests run on a bare repository, which has other URLs.
fn client() -> Option<Side> {
    if subject_is_file() {
        return None;
    }
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ git init -q work
         work$ commit one",
    );
    Some(side)
}

/// Pushes to `url`, expects the archive at `file`, and clones, fetches and lists it again.
fn round_trip(side: &Side, url: &str, file: &str) {
    side.sandbox.set("U", url);
    side.sandbox.ok("work", "git push -q \"$U\" main");
    assert!(side.sandbox.path(file).is_file(), "{url} did not create {file}");
    side.sandbox.ok("", "rm -rf reader && git clone -q \"$U\" reader");
    side.sandbox.ok(
        "reader",
        "git fetch -q && git ls-remote && git push -q origin main:refs/heads/back",
    );
    let listing = side.sandbox.ok("work", "git ls-remote \"$U\" back");
    assert!(listing.stdout.contains("refs/heads/back"));
}

#[test]
fn names_of_every_kind() {
    let Some(side) = client() else { return };
    let root = side.sandbox.root().display().to_string();
    side.sandbox.ok("", "mkdir -p 'deep dir/with+plus/100%25 ü/日本'");
    let names = [
        "plain.znippy",
        "with space.znippy",
        "a+b.znippy",
        "%41.znippy",
        "100%.znippy",
        "ünï.znippy",
        "q?x=1.znippy",
        "hash#tag.znippy",
        "semi;colon.znippy",
        "back\\slash.znippy",
        "deep dir/with+plus/100%25 ü/日本/x.znippy",
        "a:b.znippy",
        "quote'\".znippy",
        "-dash.znippy",
        "trailing.git.znippy",
        "dots..znippy",
        "@{u}.znippy",
        "new*star.znippy",
    ];
    for name in names {
        round_trip(&side, &format!("znippy::{root}/{name}"), name);
        std::fs::remove_file(side.sandbox.path(name)).unwrap();
    }
}

#[test]
fn nothing_is_decoded() {
    let Some(side) = client() else { return };
    side.play("work$ git push -q znippy::$A/%41.znippy main");
    assert!(side.sandbox.path("%41.znippy").is_file());
    side.play("work! git ls-remote znippy::$A/A.znippy");
}

#[test]
fn with_and_without_the_extension() {
    let Some(side) = client() else { return };
    let root = side.sandbox.root().display().to_string();
    round_trip(&side, &format!("znippy::{root}/app"), "app.znippy");
    side.play(
        "$ git ls-remote znippy::$A/app
         $ git ls-remote znippy::$A/app.znippy
         $ mv app.znippy exact
         $ git ls-remote znippy::$A/exact
         ! git ls-remote znippy::$A/app",
    );
}

#[test]
fn an_existing_exact_file_wins() {
    let Some(side) = client() else { return };
    side.play(
        "work$ git push -q znippy::$A/x main:refs/heads/with
         work$ git push -q znippy::$A/y main:refs/heads/exact
         $ mv y.znippy x",
    );
    assert!(
        side.sandbox
            .ok("", "git ls-remote znippy::$A/x")
            .stdout
            .contains("refs/heads/exact")
    );
    assert!(
        side.sandbox
            .ok("", "git ls-remote znippy::$A/x.znippy")
            .stdout
            .contains("refs/heads/with")
    );
}

#[test]
fn three_slashes() {
    let Some(side) = client() else { return };
    let root = side.sandbox.root().display().to_string();
    round_trip(&side, &format!("znippy://{root}/three.znippy"), "three.znippy");
    side.play("$ git ls-remote znippy::$A/three.znippy");
    side.play("work!? git ls-remote znippy://host/three.znippy");
}

#[test]
fn home_directory() {
    let Some(side) = client() else { return };
    round_trip(&side, "znippy::~/in-home.znippy", ".home/in-home.znippy");
}

#[test]
fn a_trailing_slash_and_double_slashes() {
    let Some(side) = client() else { return };
    side.play(
        "work$ git push -q znippy::$A//double.znippy main
         $ git ls-remote znippy::$A/./double.znippy",
    );
    // A file is no directory: either the slash is ignored or it is refused, never another file created.
    side.sandbox
        .sh("work", "git push -q znippy::$A/double.znippy/ main:refs/heads/slash");
    assert!(side.sandbox.path("double.znippy").is_file());
    assert!(!side.sandbox.path("double.znippy.znippy").exists());
}

#[test]
fn a_relative_url_works_from_everywhere_or_says_the_absolute_form() {
    let Some(side) = client() else { return };
    side.play("work$ git push -q znippy::$A/rel.znippy main");
    let cloned = side.sandbox.sh("", "git clone -q znippy::./rel.znippy reader");
    if cloned.code != 0 {
        let absolute = format!("znippy::{}", side.sandbox.path("rel.znippy").display());
        assert!(
            cloned.stderr.contains(&absolute),
            "the absolute form is not told: {}",
            cloned.stderr
        );
        return;
    }
    side.sandbox.ok("reader", "mkdir -p sub/dir");
    for dir in ["reader", "reader/sub/dir"] {
        let ran = side.sandbox.sh(dir, "git fetch");
        let told = ran.stderr.contains("znippy::/");
        assert!(
            ran.code == 0 || told,
            "{dir}: neither works nor says what to use: {}",
            ran.stderr
        );
    }
}

#[test]
fn an_empty_url_is_refused() {
    let Some(side) = client() else { return };
    side.play(
        "work! git ls-remote znippy::
         work! git push znippy:: main
         work! git clone znippy:: x",
    );
}

#[test]
fn the_clone_directory_keeps_its_name_beside_the_archive() {
    // git takes the directory's name from the URL: with the extension it would collide with the archive itself.
    let Some(side) = client() else { return };
    side.play(
        "work$ git push -q znippy::$A/beside main
         $ git clone -q znippy::$A/beside
         beside$ git log --format=%s
         ! git clone -q znippy::$A/beside.znippy",
    );
    assert!(side.sandbox.path("beside.znippy").is_file());
}

#[test]
fn through_symbolic_links() {
    let Some(side) = client() else { return };
    side.play(
        "work$ git push -q znippy::$A/real.znippy main
         $ ln -s real.znippy link.znippy
         $ ln -s $A dirlink
         work$ commit two
         work$ git push -q znippy::$A/link.znippy main
         $ test -L link.znippy
         work$ git push -q znippy::$A/dirlink/real.znippy main:refs/heads/again
         $ ln -s nowhere.znippy dangling.znippy
         ! git ls-remote znippy::$A/dangling.znippy",
    );
    let listing = side.sandbox.ok("", "git ls-remote znippy::$A/real.znippy").stdout;
    assert!(listing.contains("refs/heads/again"));
}
