//! The command line of `znippy`: one file per verb, and what all verbs share.
//!
//! The doc comments of the argument types are the help texts and, through clap_mangen, the manual pages.

mod config;
mod each;
mod escape;
mod exit;
mod gc;
mod git;
mod good_copies;
mod index;
mod info;
mod init;
mod locking;
mod man;
mod open;
mod output;
mod progress;
mod receive_pack;
mod refs;
mod shell;
mod trust;
mod unlock;
mod upload_archive;
mod upload_pack;
mod verify;
mod version;

use std::{ffi::OsString, process::ExitCode};

use clap::{Parser, Subcommand};

use self::{exit::Exit, output::Output};

/// Look into and maintain znippy archives: git repositories in one file
///
/// An archive is one file that holds a whole git repository. Use it through git itself, with the address
/// znippy::PATH; this program does what git has no command for.
#[derive(Parser)]
#[command(
    name = "znippy",
    version = version::LONG,
    arg_required_else_help = true,
    subcommand_required = true,
    max_term_width = 100,
    after_long_help = OVERVIEW
)]
pub struct Cli {
    /// Say nothing but errors and what was asked for: no notes, no warnings, no progress
    #[arg(short, long, global = true)]
    quiet: bool,

    #[command(subcommand)]
    command: Command,
}

/// The end of the main help text and of znippy(1).
const OVERVIEW: &str = "\
Examples:
  git push --mirror znippy::/mnt/nas/app      create /mnt/nas/app.znippy, or bring it up to date
  git clone znippy::/mnt/nas/app              get the repository back
  znippy info /mnt/nas/*.znippy               one status for each archive
  znippy refs list /mnt/nas/app               list its references
  znippy verify /mnt/nas/*.znippy             check them for damage

Paths:
  PATH names an archive with or without its ending .znippy; a file of exactly that name wins.

Exit codes:
  0    done
  1    the answer is no: the reference is absent, the compare-and-swap was lost, nothing matched, there are warnings
  2    wrong usage: unknown option, malformed command, object id or name
  3    no archive at the path: no such file or directory, other kind of file, unknown format version
  4    another process is writing to the archive or replaced it: try again
  5    the archive is damaged or truncated
  128  anything else: no permission, no space, a failing disk
  Verbs that take several paths go on after an error and return the highest code.
  A reader that closes the pipe early (| head) is no error.

Output:
  Results go to standard output, one record a line; errors, warnings and notes go to standard error.
  An error is one line that begins with `error: `. Control characters in names are shown escaped.
  With --json each record is one JSON object on a line of its own. Keys are only ever added.";

#[derive(Subcommand)]
enum Command {
    Init(init::Args),
    Info(info::Args),
    Gc(gc::Args),
    Index(index::Args),
    Refs(refs::Args),
    Config(config::Args),
    Trust(trust::Args),
    ReceivePack(receive_pack::Args),
    UploadArchive(upload_archive::Args),
    Shell(shell::Args),
    UploadPack(upload_pack::Args),
    Unlock(unlock::Args),
    Verify(verify::Args),
    Man(man::Args),
    Version(version::Args),
}

/// Runs `znippy` with `args`, the program's name first, and returns its exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    // On a usage error clap prints it and leaves with 2, on --help and --version with 0.
    let cli = Cli::parse_from(args);
    let mut output = Output::new(cli.quiet);
    let result = match cli.command {
        Command::Init(args) => init::run(&args, &mut output),
        Command::Info(args) => info::run(&args, &mut output),
        Command::Gc(args) => gc::run(&args, &mut output),
        Command::Index(args) => index::run(&args, &mut output),
        Command::Refs(args) => refs::run(&args, &mut output),
        Command::Config(args) => config::run(&args, &mut output),
        Command::UploadPack(args) => upload_pack::run(&args, &mut output),
        Command::Trust(args) => trust::run(&args, &mut output),
        Command::ReceivePack(args) => receive_pack::run(&args, &mut output),
        Command::UploadArchive(args) => upload_archive::run(&args, &mut output),
        Command::Shell(args) => shell::run(&args, &mut output),
        Command::Unlock(args) => unlock::run(&args, &mut output),
        Command::Verify(args) => verify::run(&args, &mut output),
        Command::Man(args) => man::run(&args, &mut output),
        Command::Version(args) => version::run(&args, &mut output),
    };
    let result = result.and_then(|exit| output.flush().map(|()| exit).map_err(Into::into));
    result.unwrap_or_else(|error| exit::report(&error, &output)).into()
}

/// What a verb returns: the exit code of a run that has said all there is to say, or an error that has not been told.
type Done = anyhow::Result<Exit>;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
