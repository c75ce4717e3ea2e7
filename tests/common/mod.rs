//! The sandbox of the integration tests: its own home, no configuration but its own, fixed names and dates, both
//! binaries and one chosen git on the path, and a transcript that is printed when a test fails.
//!
//! Environment of a test run:
//!
//! | variable | meaning |
//! |---|---|
//! | `ZNIPPY_TEST_GIT` | the git to use; default: the first on the path |
//! | `ZNIPPY_TEST_SUBJECT=file` | puts a bare repository where the archive would be: checks the tests themselves |
//! | `ZNIPPY_TEST_KEEP=1` | keeps the directories of the sandboxes |
//! | `ZNIPPY_TEST_NOT_RUN` | a file that collects the tests that could not run |

// Each test binary compiles this module and uses a part of it.
#![allow(dead_code, unused_imports)]

mod sandbox;
mod script;
pub mod sshd;
mod state;

use std::{io::Write, path::Path};

pub use sandbox::{Ran, Sandbox, show, test_git};
pub use script::{Parity, Side, parity, without_reasons};
pub use state::{assert_no_leftovers, assert_same_repository, reachable, refs_of};

/// Says that a test could not run, on standard error and in the file of `ZNIPPY_TEST_NOT_RUN`, which the runner counts.
pub fn not_run(test: &str, reason: &str) {
    eprintln!("NOT RUN: {test}: {reason}");
    if let Some(path) = std::env::var_os("ZNIPPY_TEST_NOT_RUN") {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        writeln!(file, "NOT RUN: {test}: {reason}").unwrap();
    }
}

/// Returns whether the tests run on a bare repository instead of an archive, to check the tests themselves.
pub fn subject_is_file() -> bool {
    std::env::var_os("ZNIPPY_TEST_SUBJECT").is_some_and(|subject| subject == "file")
}

/// Returns the bytes of a file, or of all files below a directory with their names: two equal values mean that nothing
/// was written.
pub fn fingerprint(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    if path.is_dir() {
        let mut entries: Vec<_> = std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.sort();
        for entry in entries {
            bytes.extend_from_slice(entry.as_os_str().as_encoded_bytes());
            bytes.extend(fingerprint(&entry));
        }
    } else if path.exists() {
        bytes = std::fs::read(path).unwrap();
    }
    bytes
}
