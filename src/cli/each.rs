//! The same for each of several archives.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Done, exit, exit::Exit, output::Output};

/// The JSON record of an archive with which something failed.
#[derive(Serialize)]
struct Failure<'a> {
    path: &'a str,
    error: String,
    exit_code: u8,
}

/// Runs `one` with each of `paths` and returns the worst exit code: an error in one archive does not stop the others. With `json`
/// an error has a record, too.
pub fn each(
    paths: &[PathBuf],
    json: bool,
    output: &mut Output,
    mut one: impl FnMut(&Path, &mut Output) -> Done,
) -> Done {
    let mut worst = Exit::Done;
    for path in paths {
        let exit = match one(path, output) {
            Ok(exit) => exit,
            Err(error) => {
                if json {
                    output.json(&Failure {
                        path: &path.to_string_lossy(),
                        error: znippy::error::one_line(error.as_ref()),
                        exit_code: exit::code(&error) as u8,
                    })?;
                }
                output.flush()?;
                exit::report(&error, output)
            }
        };
        output.flush()?;
        worst = worst.max(exit);
    }
    Ok(worst)
}
