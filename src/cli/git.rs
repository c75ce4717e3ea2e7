//! The user's git settings.

use std::process::{Command, Stdio};

/// Returns the value of git's setting `key`, or `None` where it is not set, not UTF-8, or there is no git.
pub fn config(key: &str) -> Option<String> {
    let command = Command::new("git")
        .args(["config", "--get", key])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let output = command.ok().filter(|output| output.status.success())?;
    let value = String::from_utf8(output.stdout).ok()?;
    Some(value.trim_end_matches('\n').to_owned()).filter(|value| !value.is_empty())
}
