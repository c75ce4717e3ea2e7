//! What the client has: many names and ids answered by one `git cat-file`.

use std::{
    io::{BufRead, BufReader, BufWriter, Write},
    process::Stdio,
};

use anyhow::{Context, Result, bail};
use bstr::{BString, ByteSlice};
use gix_hash::ObjectId;

use crate::{cleanup::Guard, client};

/// Returns the object that each name means to git: a reference, an id, or any other expression. `None` where there is
/// no such thing or the object is missing.
///
/// # Errors
/// Fails where git does. Names hold no line feed.
pub fn resolve(names: &[BString]) -> Result<Vec<Option<ObjectId>>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut command = client::git();
    command.args(["cat-file", "--batch-check=%(objectname)", "--buffer"]);
    let (guard, mut child) =
        Guard::child(command.stdin(Stdio::piped()).stdout(Stdio::piped())).context("cannot run git cat-file")?;
    let mut input = BufWriter::new(child.stdin.take().expect("stdin is piped"));
    let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let answers = std::thread::scope(|scope| {
        scope.spawn(move || {
            for name in names {
                // git ends early only with an error of its own, which its exit code tells.
                if input.write_all(name).and_then(|()| input.write_all(b"\n")).is_err() {
                    return;
                }
            }
            let _ = input.flush();
        });
        output
            .split(b'\n')
            .map(|line| line.map(|line| parse(&line)))
            .collect::<Result<Vec<_>, _>>()
    });
    let status = child.wait().context("cannot wait for git cat-file")?;
    guard.release();
    let answers = answers.context("cannot read from git cat-file")?;
    if !status.success() || answers.len() != names.len() {
        bail!("git cat-file failed ({status})");
    }
    Ok(answers)
}

/// Returns whether each of `commits`, which the client has, is reached by a reference of the client or of a repository it
/// borrows objects from: only then it is certain to be there with all its history.
///
/// # Errors
/// Fails where git does.
pub fn are_reached_by_references<'a>(commits: impl Iterator<Item = &'a ObjectId>) -> Result<bool> {
    let mut command = client::git();
    command.args([
        "rev-list",
        "--max-count=1",
        "--stdin",
        "--not",
        "--all",
        "--alternate-refs",
    ]);
    let (guard, mut child) =
        Guard::child(command.stdin(Stdio::piped()).stdout(Stdio::piped())).context("cannot run git rev-list")?;
    let mut input = BufWriter::new(child.stdin.take().expect("stdin is piped"));
    // git reads all of its input before it answers. An error here means that it ended early, which its exit code tells.
    for commit in commits {
        let _ = writeln!(input, "{commit}");
    }
    drop(input);
    let output = child.wait_with_output().context("cannot read from git rev-list")?;
    guard.release();
    match output.status.success() {
        true => Ok(output.stdout.is_empty()),
        false => bail!("git rev-list failed ({})", output.status),
    }
}

/// `<id>`, or `<name> missing`, `<name> ambiguous`.
fn parse(line: &[u8]) -> Option<ObjectId> {
    ObjectId::from_hex(line.trim_end()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_id_alone_is_an_answer() {
        let hex = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
        assert_eq!(parse(hex.as_bytes()).expect("an id").to_string(), hex);
        assert_eq!(parse(format!("{hex} missing").as_bytes()), None);
        assert_eq!(parse(b"refs/heads/x missing"), None);
        assert_eq!(parse(b"abc ambiguous"), None);
    }
}
