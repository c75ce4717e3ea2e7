//! Exit codes, and how an error becomes one line and a code.

use std::{fmt, io, path::Path, process::ExitCode};

use znippy::Error;

use super::output::{Output, OutputError};

/// Exit codes in order of severity; over several archives the highest wins. The table is in `znippy --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    Done = 0,
    No = 1,
    Usage = 2,
    NoArchive = 3,
    Busy = 4,
    Damaged = 5,
    Failed = 128,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// An error that is no failure of the archive.
#[derive(Debug)]
pub enum Refusal {
    /// The answer is no, and nothing was changed.
    No(String),
    /// The request makes no sense.
    Usage(String),
    /// There is nothing to be served.
    NoArchive(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::No(text) | Refusal::Usage(text) | Refusal::NoArchive(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Refusal {}

/// Returns an error with exit code 1.
pub fn no(text: impl Into<String>) -> anyhow::Error {
    Refusal::No(text.into()).into()
}

/// Returns an error with exit code 2.
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    Refusal::Usage(text.into()).into()
}

/// Returns the error of a server that there is no archive at `path`: unlike one by file, a push to it does not make one.
pub fn not_served(path: &Path) -> anyhow::Error {
    let path = path.display();
    let text =
        format!("{path}: no such archive (is the disk mounted? `znippy init` makes one, a push to a server does not)");
    Refusal::NoArchive(text).into()
}

/// Tells the user about `error`, in one line, and returns its code. A closed pipe is told to nobody.
pub fn report(error: &anyhow::Error, output: &Output) -> Exit {
    let exit = code(error);
    if exit != Exit::Done {
        output.error(&znippy::error::one_line(error.as_ref()));
    }
    exit
}

/// Returns the exit code for `error`.
pub fn code(error: &anyhow::Error) -> Exit {
    for cause in error.chain() {
        if let Some(OutputError(source)) = cause.downcast_ref() {
            return if source.kind() == io::ErrorKind::BrokenPipe {
                Exit::Done
            } else {
                Exit::Failed
            };
        }
        match cause.downcast_ref() {
            Some(Refusal::No(_)) => return Exit::No,
            Some(Refusal::Usage(_)) => return Exit::Usage,
            Some(Refusal::NoArchive(_)) => return Exit::NoArchive,
            None => {}
        }
        if let Some(error) = cause.downcast_ref::<Error>() {
            return library(error);
        }
    }
    Exit::Failed
}

fn library(error: &Error) -> Exit {
    match error {
        Error::NotFound { .. }
        | Error::MissingParent { .. }
        | Error::IsDirectory { .. }
        | Error::AlreadyExists { .. }
        | Error::BeingCreated { .. }
        | Error::NotAnArchive { .. }
        | Error::UnsupportedVersion { .. }
        | Error::UnsupportedObjectFormat { .. } => Exit::NoArchive,
        Error::Locked { .. } | Error::Replaced { .. } | Error::Rewritten { .. } | Error::Stale { .. } => Exit::Busy,
        Error::Damaged { .. }
        | Error::Truncated { .. }
        | Error::MissingObject { .. }
        | Error::InvalidPack { .. }
        | Error::Incomplete { .. }
        | Error::MalformedObject { .. } => Exit::Damaged,
        Error::Invalid(_) => Exit::Usage,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn codes_survive_added_context() {
        let path = "/x".into();
        let error = anyhow::Error::from(Error::NotFound { path })
            .context("while reading")
            .context("again");
        assert_eq!(code(&error), Exit::NoArchive);
        assert_eq!(code(&no("absent").context("more")), Exit::No);
        assert_eq!(code(&usage("wrong")), Exit::Usage);
        assert_eq!(code(&anyhow::anyhow!("what")), Exit::Failed);
    }

    #[test]
    fn only_a_closed_pipe_of_our_own_output_is_success() {
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(code(&OutputError(pipe()).into()), Exit::Done);
        assert_eq!(
            code(&OutputError(io::Error::from(io::ErrorKind::StorageFull)).into()),
            Exit::Failed
        );
        let error = Err::<(), _>(Error::io("/x", "read")(pipe()))
            .context("reading")
            .unwrap_err();
        assert_eq!(code(&error), Exit::Failed);
    }

    #[test]
    fn the_worst_code_is_the_highest() {
        let order = [
            Exit::Done,
            Exit::No,
            Exit::Usage,
            Exit::NoArchive,
            Exit::Busy,
            Exit::Damaged,
            Exit::Failed,
        ];
        assert!(order.is_sorted_by(|a, b| a < b && (*a as u8) < (*b as u8)));
    }
}
