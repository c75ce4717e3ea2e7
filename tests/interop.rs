//! An archive in the hands of others: pyarrow, Polars and DuckDB read it, and a script without znippy restores it.
//!
//! `tests/all.sh` makes the Python environment in `target/interop-venv`; without it these tests are not run.

mod common;

use std::path::PathBuf;

use common::{Side, assert_same_repository, not_run, subject_is_file};

/// Returns the Python that has the readers, or says that the test is not run.
fn python(test: &str) -> Option<String> {
    if subject_is_file() {
        return None;
    }
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../interop-venv/bin/python");
    if !target.is_file() {
        not_run(
            test,
            "no Python with pyarrow, polars and duckdb in target/interop-venv (tests/all.sh makes it)",
        );
        return None;
    }
    Some(target.canonicalize().map(|_| target).unwrap().display().to_string())
}

/// Runs a script of this directory.
fn script(side: &Side, python: &str, name: &str, arguments: &str) {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    side.sandbox.ok("", &format!("{python} {dir}/{name} {arguments}"));
}

/// Pushes a history in `pushes` steps, so that all objects of the repository are stored.
fn push_in_steps(side: &Side, pushes: usize) {
    for step in 0..pushes {
        let tag = if step % 20 == 3 {
            format!("git tag -m t v{step} && git branch b{step} &&")
        } else {
            String::new()
        };
        let delete = if step % 20 == 9 {
            format!("git branch -D b{} &&", step - 6)
        } else {
            String::new()
        };
        side.sandbox.ok(
            "work",
            &format!("history 2 main s{step} && {tag} {delete} git push -q --mirror $URL"),
        );
    }
}

#[test]
fn readers_see_references_and_objects() {
    let Some(python) = python("readers_see_references_and_objects") else {
        return;
    };
    for format in ["sha1", "sha256"] {
        let side = Side::archive(format, &[]);
        side.sandbox.ok("", "git init -q work");
        let mut done = 0;
        for pushes in [1, 2, 200] {
            if format == "sha256" && pushes == 200 {
                continue;
            }
            push_in_steps(&side, pushes - done);
            done = pushes;
            script(&side, &python, "interop.py", "$(echo $URL | sed s/znippy:://) $A/work");
        }
    }
}

#[test]
fn readers_see_everything_a_repository_may_hold() {
    let Some(python) = python("readers_see_everything_a_repository_may_hold") else {
        return;
    };
    let side = Side::archive("sha1", &[]);
    side.play(
        "$ rich work
         work$ git push -q --mirror $URL
         $ git clone -q --mirror $URL copy",
    );
    script(&side, &python, "interop.py", "$A/remote.znippy $A/copy");
}

#[test]
fn a_script_without_znippy_restores_the_repository() {
    let Some(python) = python("a_script_without_znippy_restores_the_repository") else {
        return;
    };
    for format in ["sha1", "sha256"] {
        let side = Side::archive(format, &[]);
        side.play(
            "$ rich work
             work$ git push -q --mirror $URL
             work$ commit more
             work$ git push -q $URL main :extra/a
             $ git clone -q --mirror $URL copy",
        );
        script(&side, &python, "restore.py", "$A/remote.znippy $A/restored");
        assert_eq!(
            common::refs_of(&side.sandbox, "copy"),
            common::refs_of(&side.sandbox, "restored")
        );
        assert_eq!(
            common::reachable(&side.sandbox, "copy"),
            common::reachable(&side.sandbox, "restored")
        );
    }
}

#[test]
fn a_restore_of_many_pushes_and_of_a_torn_tail() {
    let Some(python) = python("a_restore_of_many_pushes_and_of_a_torn_tail") else {
        return;
    };
    let side = Side::archive("sha1", &[]);
    side.sandbox.ok("", "git init -q work");
    push_in_steps(&side, 30);
    // Only what the slot confirms counts: half of a further commit behind it does no harm.
    side.sandbox.ok(
        "",
        "cp remote.znippy torn.znippy && tail -c 2000 remote.znippy | head -c 1500 >>torn.znippy",
    );
    for name in ["remote", "torn"] {
        script(
            &side,
            &python,
            "restore.py",
            &format!("$A/{name}.znippy $A/{name}-restored"),
        );
        assert_eq!(
            common::refs_of(&side.sandbox, "work"),
            common::refs_of(&side.sandbox, &format!("{name}-restored"))
        );
    }
    side.sandbox.ok("", "git clone -q --mirror $URL copy");
    assert_same_repository(&side.sandbox, "copy", "remote-restored");
}
