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
mod session;
mod update;

use clap::Subcommand;
use znippy::archive::Durability;

use super::{
    Done,
    locking::{Locking, configured_durability},
    output::Output,
};

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

/// How to write, for the verbs that do.
#[derive(clap::Args)]
struct Writing {
    #[command(flatten)]
    locking: Locking,

    /// When a change counts as done: fast, safe, uring or batch
    ///
    /// safe: when it survives a power loss. uring: the same, with fewer system calls, where the kernel has io_uring. fast:
    /// when it survives the end of this process; a power loss may take it until a later change is written with one of the
    /// others. batch: as safe, for many changes at once. Without it: git's setting znippy.durability, else safe.
    #[arg(long, value_name = "ARM", value_parser = ["fast", "safe", "uring", "batch"])]
    durability: Option<String>,
}

impl Writing {
    /// Returns when a change counts as done.
    fn durability(&self) -> anyhow::Result<Durability> {
        match &self.durability {
            Some(name) => Ok(name.parse().expect("clap let nothing else through")),
            None => configured_durability(),
        }
    }
}
