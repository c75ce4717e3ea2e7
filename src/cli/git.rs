//! The user's git settings.

use std::{
    os::unix::ffi::OsStringExt,
    process::{Command, Stdio},
};

use bstr::BString;

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

/// Returns who commits, as git would say it, for the archive's log: free text that nothing relies on.
pub fn committer() -> Option<BString> {
    let part = |variable: &str, key: &str| {
        let value = std::env::var_os(variable).map(|value| BString::from(value.into_vec()));
        value
            .filter(|value| !value.is_empty())
            .or_else(|| config(key).map(BString::from))
    };
    match (
        part("GIT_COMMITTER_NAME", "user.name"),
        part("GIT_COMMITTER_EMAIL", "user.email"),
    ) {
        (Some(name), Some(email)) => Some([&name[..], b" <", &email, b">"].concat().into()),
        (name, email) => name.or(email),
    }
}
