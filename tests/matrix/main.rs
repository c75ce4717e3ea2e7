//! The commands of git, flag by flag, on a bare repository and on an archive: each must do the same on both.
//!
//! A scenario is a script as in `tests/common/script.rs`. All scenarios start in a copy of one prepared directory, so that each
//! costs little more than its own commands. What is compared: exit codes, standard output, the lines in which git tells what
//! became of a reference, and at the end the state of the remote and of every repository: references, reachable
//! objects, `.git/shallow`, settings, index, work tree, and what `git fsck` says.
//!
//! Where `.git/shallow` differs for a reason, the scenario says so in a line `~ reason`: then it must differ, and all else must not.

#[path = "../common/mod.rs"]
mod common;

mod bundles;
mod clone;
mod depth;
mod fetch;
mod filter;
mod listing;
mod modules;
mod prepared;
mod push;
mod stage;

use std::sync::atomic::{AtomicUsize, Ordering};

use stage::Stage;

/// Runs every scenario of a table on both remotes and compares. All are run before the test fails, so that one look shows
/// all that differs.
#[track_caller]
fn matrix(name: &str, scenarios: &[&str]) {
    let (bare, archive) = prepared::both();
    let next = AtomicUsize::new(0);
    let failures = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = compare(bare, archive, scenario) {
                        let title = scenario.trim().lines().next().unwrap_or_default();
                        failures.lock().unwrap().push(format!("== {title}\n{why}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    let argued = scenarios
        .iter()
        .filter(|scenario| stage::reason(scenario).is_some())
        .count();
    eprintln!(
        "{name}: {} scenarios, {argued} with an argued difference, {} that differ",
        scenarios.len(),
        failures.len()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Plays one scenario on both sides; the error is what differs.
fn compare(bare: &Stage, archive: &Stage, scenario: &str) -> Result<(), String> {
    let (mut expected, mut found) = (bare.play(scenario)?, archive.play(scenario)?);
    if stage::reason(scenario).is_some() {
        if expected == found && !common::subject_is_file() {
            return Err("no longer differs".into());
        }
        for (_, state) in expected.iter_mut().chain(&mut found) {
            *state = stage::without_shallow(state);
        }
    }
    let differing = expected
        .iter()
        .zip(&found)
        .filter(|(expected, found)| expected != found);
    let told: Vec<String> = differing
        .map(|(expected, found)| {
            let only = |a: &str, b: &str, sign: char| -> String {
                let lines = a.lines().filter(|line| !b.lines().any(|other| other == *line));
                lines.take(12).map(|line| format!("  {sign} {line}\n")).collect()
            };
            let (what, expected, found) = (&expected.0, &expected.1, &found.1);
            format!("{what}\n{}{}", only(expected, found, '-'), only(found, expected, '+'))
        })
        .collect();
    match told.is_empty() {
        true => Ok(()),
        false => Err(told.concat()),
    }
}
