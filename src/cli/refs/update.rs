//! `znippy refs update`: many references in one transaction.

use std::{io, path::PathBuf};

use super::{
    Writing,
    grammar::{Request, Requests},
    plan::Plan,
    session::State,
};
use crate::cli::{Done, exit::Exit, open, output::Output};

/// Change many references at once, as `git update-ref --stdin` does
///
/// Reads requests from standard input and applies them as one transaction: all of them, or none and exit code 1.
#[derive(clap::Args)]
#[command(after_long_help = "\
Requests, one a line:
  update NAME NEW [OLD]        set NAME to NEW; if given, OLD must be its value
  create NAME NEW              the reference must not exist
  delete NAME [OLD]            if given, OLD must be its value
  verify NAME [OLD]            change nothing; OLD must be its value, without OLD it must not exist
  symref-update NAME TARGET [ref OLDTARGET | oid OLD]
  symref-create NAME TARGET
  symref-delete NAME [OLDTARGET]       only after `option no-deref`
  symref-verify NAME [OLDTARGET]       only after `option no-deref`
  option no-deref              the next request is for a symbolic reference itself
  start                        from here on only `commit` commits; the answer is `start: ok`
  prepare                      check everything; the answer is `prepare: ok`
  commit                       apply; the answer, when the change is on the disk, is `commit: ok`
  abort                        forget; the answer is `abort: ok`

Values:
NEW and OLD are object ids, or full names for the object they lead to. All zeros, or nothing between two
double quotes, means: does not exist. A field with spaces is quoted as in C. With -z the name and each value
end in NUL instead, without quotes, and a value that is left out is empty; see git-update-ref(1).
Without `start` the end of the input commits. An input that ends inside a request commits nothing.

Differences from git:
`prepare` takes no lock, so that `commit` may still find that somebody was faster. Names are HEAD or begin
with refs/; HEAD itself cannot be deleted. A name and a name below it (a and a/b) may be exchanged in one
transaction. The exit code is 1 where a reference stands against the transaction and 2 for wrong input,
where git has 128 for both.

Examples:
  printf 'create refs/heads/b %s\\ndelete refs/heads/a %s\\n' $id $id |
    znippy refs update --stdin app                        rename the branch a to b")]
pub struct Args {
    /// Read the requests from standard input; there is no other way
    #[arg(long, required = true)]
    stdin: bool,

    /// Names and values end in NUL, without quotes
    #[arg(short = 'z')]
    nul: bool,

    #[command(flatten)]
    writing: Writing,

    /// The archive
    path: PathBuf,
}

/// Runs a session.
pub fn run(args: &Args, output: &mut Output) -> Done {
    let snapshot = open::snapshot(&args.path, output)?;
    let path = snapshot.path().to_owned();
    let mut plan = Plan::new(snapshot);
    let mut requests = Requests::new(io::stdin().lock(), args.nul);
    let mut state = State::Open;
    let mut deref = true;
    while let Some(request) = requests.next()? {
        let before = state;
        state = state.after(&request)?;
        match request {
            Request::NoDeref => deref = false,
            Request::Change(change) => plan.add(change, std::mem::replace(&mut deref, true))?,
            Request::Start => {
                if before == State::Closed {
                    plan = Plan::new(open::snapshot(&path, output)?);
                }
                output.reply("start: ok")?;
            }
            Request::Prepare => {
                plan.check(&args.writing, output)?;
                output.reply("prepare: ok")?;
            }
            Request::Commit => {
                plan.commit(&args.writing, output)?;
                output.reply("commit: ok")?;
            }
            Request::Abort => output.reply("abort: ok")?,
        }
    }
    if state.commits_at_end() {
        plan.commit(&args.writing, output)?;
    }
    Ok(Exit::Done)
}
