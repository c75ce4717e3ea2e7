//! `znippy refs`: look at and change references.

mod apply;
mod cas;
mod edits;
mod get;
mod glob;
mod grammar;
mod head;
mod list;
mod objects;
mod plan;
mod quote;
mod session;
mod update;

use clap::Subcommand;

use super::{Done, output::Output};

/// Look at and change the references of an archive
///
/// Every change is one durable commit to the archive, checked and written under its lock: what another process does at
/// the same time either comes before or after it. Names are full: HEAD, or refs/...
#[derive(clap::Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(list::Args),
    Get(get::Args),
    Head(head::Args),
    Cas(cas::Args),
    Update(update::Args),
}

/// Runs one of the verbs.
pub fn run(args: &Args, output: &mut Output) -> Done {
    match &args.command {
        Command::List(args) => list::run(args, output),
        Command::Get(args) => get::run(args, output),
        Command::Head(args) => head::run(args, output),
        Command::Cas(args) => cas::run(args, output),
        Command::Update(args) => update::run(args, output),
    }
}

/// How long to wait for the writer lock, for the verbs that write.
#[derive(clap::Args)]
struct Wait {
    /// How long to wait for another process that is writing to the archive
    #[arg(long = "wait", value_name = "SECONDS", default_value_t = 60)]
    seconds: u64,
}
