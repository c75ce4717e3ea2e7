//! Objects out of a git repository, by `git cat-file --batch`.

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use gix_hash::ObjectId;
use znippy::{Error, pack::Kind, verify::repair::OnObject};

use super::exit;

/// So many objects are asked for before their answers are read: the questions fit into a pipe.
const AHEAD: usize = 500;

/// A git repository that objects are asked of. What it answers is what it has, not what is right.
pub struct Repository {
    path: PathBuf,
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Repository {
    /// Opens the repository at `path`: a work tree, a bare repository, or a `.git` directory.
    pub fn open(path: &Path) -> anyhow::Result<Repository> {
        let found = git(path)
            .args(["rev-parse", "--git-dir"])
            .stdout(Stdio::null())
            .status();
        if !found.is_ok_and(|status| status.success()) {
            return Err(exit::usage(format!(
                "{} is no git repository, or there is no git",
                path.display()
            )));
        }
        let mut child = git(path)
            .args(["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let questions = child.stdin.take();
        let answers = BufReader::with_capacity(1 << 16, child.stdout.take().expect("standard output is piped"));
        Ok(Repository {
            path: path.into(),
            child,
            questions,
            answers,
        })
    }

    /// Hands over those of `ids` that the repository has and can read.
    ///
    /// # Errors
    /// Fails where git does, and where `on_object` does.
    pub fn objects(&mut self, ids: &[ObjectId], on_object: &mut OnObject<'_>) -> znippy::Result<()> {
        for part in ids.chunks(AHEAD) {
            self.ask(part)
                .map_err(Error::io(&self.path, "ask git for objects of"))?;
            for _ in part {
                let answer = self.answer().map_err(Error::io(&self.path, "read objects of"))?;
                if let Some((id, kind, data)) = answer {
                    on_object(id, kind, data)?;
                }
            }
        }
        Ok(())
    }

    fn ask(&mut self, ids: &[ObjectId]) -> std::io::Result<()> {
        let questions = self.questions.as_mut().expect("they stay open until the end");
        let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
        questions.write_all(lines.as_bytes())
    }

    /// Reads `<id> <kind> <size>`, the content and a line break; or `<id> missing`.
    fn answer(&mut self) -> std::io::Result<Option<(ObjectId, Kind, Vec<u8>)>> {
        let mut line = Vec::new();
        self.answers.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Err(std::io::Error::other(
                "git cat-file ended early; `git fsck` tells what is wrong there",
            ));
        }
        line.pop();
        let mut words = line.split(|byte| *byte == b' ');
        let (id, kind, size) = (words.next(), words.next(), words.next());
        let id = id.and_then(|id| ObjectId::from_hex(id).ok());
        let kind = kind.and_then(|kind| Kind::from_bytes(kind).ok());
        let size = size.and_then(|size| std::str::from_utf8(size).ok()?.parse::<usize>().ok());
        let (Some(id), Some(kind), Some(size)) = (id, kind, size) else {
            return Ok(None);
        };
        let mut data = Vec::new();
        let taken = (&mut self.answers).take(size as u64 + 1).read_to_end(&mut data)?;
        if taken != size + 1 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        data.pop();
        Ok(Some((id, kind, data)))
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        drop(self.questions.take());
        // It ends by itself when nobody asks any more.
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// Returns a command of git in that repository, which neither replaces objects nor fetches them from elsewhere.
fn git(path: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(path).arg("--no-replace-objects");
    command.env("GIT_NO_LAZY_FETCH", "1").stdin(Stdio::null());
    for variable in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    ] {
        command.env_remove(variable);
    }
    command
}
