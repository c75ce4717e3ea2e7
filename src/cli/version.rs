//! `znippy version`.

use super::{Done, exit::Exit, output::Output};

/// What `--version` shows after the program's name.
pub const LONG: &str = concat!(env!("CARGO_PKG_VERSION"), " (archive format 1)");

/// Show the version of this program and of the archives it writes
#[derive(clap::Args)]
pub struct Args {}

/// Prints one line.
pub fn run(_args: &Args, output: &mut Output) -> Done {
    output.line(format!("znippy {LONG}"))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_format_version_is_that_of_the_library() {
        assert!(super::LONG.ends_with(&format!("(archive format {})", znippy::format::VERSION)));
    }
}
