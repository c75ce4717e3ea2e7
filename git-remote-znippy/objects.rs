//! What the client has: all questions about its objects go to one `git cat-file`.

use std::{
    io::{BufRead, BufReader, BufWriter, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
    sync::Arc,
};

use anyhow::{Context, Result, bail, ensure};
use bstr::{BString, ByteSlice};
use gix_hash::{ObjectId, oid};
use znippy::pack::{Kind, object::Object};

use crate::{cleanup::Guard, client};

/// The client's objects. git is started with the first question, if not before, and ends with this.
#[derive(Default)]
pub struct Objects(Option<Process>);

struct Process {
    child: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
    guard: Option<Guard>,
}

impl Objects {
    /// Starts git, which takes as long as it takes to find out what to ask it.
    ///
    /// # Errors
    /// Fails where git cannot be run.
    pub fn start(&mut self) -> Result<()> {
        self.process().map(|_| ())
    }

    /// Returns the object that each name means to git: a reference, an id, or any other expression. `None` where there is
    /// no such thing or the object is missing.
    ///
    /// # Errors
    /// Fails where git does. Names hold no line feed.
    pub fn resolve(&mut self, names: &[BString]) -> Result<Vec<Option<ObjectId>>> {
        let found = self.look_up(names)?.into_iter();
        Ok(found.map(|found| found.map(|(id, _)| id)).collect())
    }

    /// As [`Objects::resolve`], with the kind of each object.
    pub fn look_up(&mut self, names: &[BString]) -> Result<Vec<Option<(ObjectId, Kind)>>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let Process { input, output, .. } = self.process()?;
        // git answers while it reads: who wrote all questions first could wait for ever.
        let answers = std::thread::scope(|scope| {
            scope.spawn(move || {
                // git ends early only with an error of its own, after which there are too few answers.
                let _ = names
                    .iter()
                    .try_for_each(|name| ask(input, b"info", name))
                    .and_then(|()| flush(input));
            });
            names
                .iter()
                .map(|_| Ok(answer(output)?.map(|(id, kind, _)| (id, kind))))
                .collect::<Result<Vec<_>>>()
        });
        answers.context("cannot read from git cat-file")
    }

    /// Reads an object, which is not yet checked to be what its id says. `None` where it is missing, or where git cannot read
    /// it.
    pub fn read(&mut self, id: &oid) -> Option<Object> {
        let object = self.process().and_then(|process| process.read(id));
        if object.is_err() {
            // git has told why. It is not asked again in the middle of an answer.
            self.0 = None;
        }
        object.ok().flatten()
    }

    fn process(&mut self) -> Result<&mut Process> {
        match &mut self.0 {
            Some(process) => Ok(process),
            none => Ok(none.insert(Process::start()?)),
        }
    }
}

impl Process {
    fn start() -> Result<Process> {
        let mut command = client::git();
        command
            .args(["cat-file", "--batch-command", "--buffer"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let (guard, mut child) = Guard::child(&mut command).context("cannot run git cat-file")?;
        Ok(Process {
            input: BufWriter::new(child.stdin.take().expect("stdin is piped")),
            output: BufReader::new(child.stdout.take().expect("stdout is piped")),
            child,
            guard: Some(guard),
        })
    }

    fn read(&mut self, id: &oid) -> Result<Option<Object>> {
        ask(&mut self.input, b"contents", id.to_string().as_bytes()).and_then(|()| flush(&mut self.input))?;
        let Some((_, kind, size)) = answer(&mut self.output)? else {
            return Ok(None);
        };
        let mut data = Vec::new();
        (&mut self.output).take(size + 1).read_to_end(&mut data)?;
        ensure!(
            data.len() as u64 == size + 1 && data.pop() == Some(b'\n'),
            "git cat-file ended in an object"
        );
        let data = Arc::new(data);
        Ok(Some(Object { kind, data }))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It waits for the next question and holds nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(guard) = self.guard.take() {
            guard.release();
        }
    }
}

fn ask(input: &mut impl Write, command: &[u8], name: &[u8]) -> std::io::Result<()> {
    input.write_all(command)?;
    input.write_all(b" ")?;
    input.write_all(name)?;
    input.write_all(b"\n")
}

fn flush(input: &mut impl Write) -> std::io::Result<()> {
    input.write_all(b"flush\n")?;
    input.flush()
}

/// Reads `<id> <kind> <size>`; `None` of `<name> missing`, `<name> ambiguous`.
fn answer(output: &mut impl BufRead) -> Result<Option<(ObjectId, Kind, u64)>> {
    let mut line = Vec::new();
    output.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        bail!("git cat-file ended without an answer");
    }
    Ok(parse(&line))
}

fn parse(line: &[u8]) -> Option<(ObjectId, Kind, u64)> {
    let mut words = line.splitn_str(3, " ");
    let id = ObjectId::from_hex(words.next()?).ok()?;
    let kind = Kind::from_bytes(words.next()?).ok()?;
    let size = words.next()?.to_str().ok()?.parse().ok()?;
    Some((id, kind, size))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_id_with_kind_and_size_is_an_answer() {
        let hex = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
        let (id, kind, size) = parse(format!("{hex} blob 17").as_bytes()).expect("an id");
        assert_eq!((id.to_string().as_str(), kind, size), (hex, Kind::Blob, 17));
        assert_eq!(parse(format!("{hex} missing").as_bytes()), None);
        assert_eq!(parse(b"refs/heads/x missing"), None);
        assert_eq!(parse(b"abc ambiguous"), None);
        assert_eq!(parse(format!("{hex} blob").as_bytes()), None);
    }
}
