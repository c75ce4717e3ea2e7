//! Standard output and standard error of a run.

use std::{
    borrow::Cow,
    io::{self, BufWriter, IsTerminal, StdoutLock, Write},
};

use serde::Serialize;

use super::escape;

/// Standard output could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {0}")]
pub struct OutputError(pub io::Error);

/// Returns a number with what it counts: `1 pack`, `2 packs`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Where results, warnings and errors go.
pub struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
    terminal: bool,
    quiet: bool,
}

impl Output {
    /// Takes standard output for the rest of the run.
    pub fn new(quiet: bool) -> Output {
        let stdout = io::stdout().lock();
        Output {
            terminal: stdout.is_terminal(),
            stdout: BufWriter::with_capacity(1 << 16, stdout),
            quiet,
        }
    }

    /// Returns whether notes, warnings and progress are not wanted.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Writes one line of results.
    pub fn line(&mut self, line: impl AsRef<[u8]>) -> Result<(), OutputError> {
        self.stdout
            .write_all(line.as_ref())
            .and_then(|()| self.stdout.write_all(b"\n"))
            .map_err(OutputError)
    }

    /// Returns standard output itself, for a protocol. Nothing else may be written afterwards.
    pub fn raw(&mut self) -> &mut impl Write {
        &mut self.stdout
    }

    /// Writes `record` as one line of JSON.
    pub fn json(&mut self, record: &impl Serialize) -> Result<(), OutputError> {
        serde_json::to_writer(&mut self.stdout, record).map_err(|error| OutputError(error.into()))?;
        self.line("")
    }

    /// Writes one line at once, for a program that waits for it. A reader that went away does not stop what is under way.
    pub fn reply(&mut self, line: &str) -> Result<(), OutputError> {
        match self.line(line).and_then(|()| self.flush()) {
            Err(OutputError(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }

    /// Hands everything written so far to the system.
    pub fn flush(&mut self) -> Result<(), OutputError> {
        self.stdout.flush().map_err(OutputError)
    }

    /// Returns a name from an archive as it may appear in a line of results: unchanged where another program reads it,
    /// escaped on a terminal. What git forbids in names, and would forge lines or fields, is escaped everywhere.
    pub fn name<'a>(&self, name: &'a [u8]) -> Cow<'a, [u8]> {
        if self.terminal || name.iter().any(u8::is_ascii_control) {
            Cow::Owned(escape::text(name).into_bytes())
        } else {
            Cow::Borrowed(name)
        }
    }

    /// Tells the user something that is good to know.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            stderr("note", text);
        }
    }

    /// Tells the user something to look after.
    pub fn warning(&self, text: &str) {
        if !self.quiet {
            stderr("warning", text);
        }
    }

    /// Tells the user why it failed. Not silenced by `--quiet`.
    pub fn error(&self, text: &str) {
        stderr("error", text);
    }
}

/// Writes one line to standard error. Nobody can be told where that fails.
fn stderr(kind: &str, text: &str) {
    let _ = writeln!(io::stderr(), "{kind}: {}", escape::text(text.as_bytes()));
}
