//! The conversation with git: one command after the other, until it has no more.
//!
//! Input is read through one buffered reader, which a service that takes over after `connect` must go on reading from.

mod fetching;
mod pushing;

use std::{
    io::{self, BufRead, BufWriter, Write},
    path::PathBuf,
};

use anyhow::{Context, Result, bail};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::Kind;
use znippy::{Error, archive::Snapshot, pack::filter::Filter};

use self::pushing::PushState;
use crate::{
    catch_up::sibling,
    cleanup::Guard,
    client::PendingTips,
    config::{self, Config},
    connect,
    options::{Options, Reply},
    remote::Remote,
    ui::{self, GitWentAway},
};

/// What the helper offers. `connect` is accepted for some fetches and declined for all else.
const CAPABILITIES: &[u8] = b"connect\nfetch\npush\noption\ncheck-connectivity\nobject-format\n\n";

/// Serves git for the remote `name` at `address` until it is done.
///
/// # Errors
/// Fails with what the user should read; with [`GitWentAway`] where git ended first.
pub fn run(name: BString, address: Option<BString>) -> Result<()> {
    let mut input = io::stdin().lock();
    let output = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let remote = Remote::find(name, address).inspect_err(|_| {
        // git writes before it reads: who is gone by then ends it with a signal, and not with the exit code of an error.
        let _ = input.skip_until(b'\n');
    })?;
    let mut session = Session {
        remote,
        options: Options::default(),
        opened: None,
        config: None,
        filter: None,
        tips: None,
        pending: None,
        listed: None,
        keeps: Vec::new(),
        input,
        output,
    };
    while let Some(line) = session.read_line()? {
        if !session.command(line.as_bstr())? {
            break;
        }
    }
    session.catch_up()
}

struct Session<R, W> {
    remote: Remote,
    options: Options,
    /// What was opened to answer `connect`, for what follows.
    opened: Option<Snapshot>,
    /// What was read of the configuration to answer `connect`. A clone learns the object format of its repository only then.
    config: Option<Config>,
    /// What a fetch leaves out, if `connect` was declined for a fetch that leaves something out.
    filter: Option<Filter>,
    /// The client's references and configuration for a fetch, where they were asked for ahead.
    tips: Option<PendingTips>,
    pending: Option<config::Pending>,
    /// What the last `list` read, for the batches that follow.
    listed: Option<Listed>,
    /// `.keep` files that git has been told of. It deletes them itself; where it could not, their guards do.
    keeps: Vec<(PathBuf, Guard)>,
    input: R,
    output: W,
}

/// The archive as it was listed.
struct Listed {
    /// `None` where there is no archive yet, before a first push.
    snapshot: Option<Snapshot>,
    push: Option<PushState>,
}

impl<R: BufRead, W: Write> Session<R, W> {
    /// Returns the next line without its end; `None` at the end of input.
    fn read_line(&mut self) -> Result<Option<BString>> {
        let mut line = Vec::new();
        // A line cut off by the end of input is not obeyed: git died while it wrote it.
        match self.input.read_until(b'\n', &mut line) {
            Ok(_) if line.pop() == Some(b'\n') => Ok(Some(line.into())),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// Returns the arguments of `first` and of the lines of its batch, which all start with `word`; `None` where git went
    /// away in the middle.
    fn read_batch(&mut self, word: &str, first: &BStr) -> Result<Option<Vec<BString>>> {
        let mut batch = vec![first.to_owned()];
        loop {
            match self.read_line()? {
                None => return Ok(None),
                Some(line) if line.is_empty() => return Ok(Some(batch)),
                Some(line) => match line
                    .strip_prefix(word.as_bytes())
                    .and_then(|rest| rest.strip_prefix(b" "))
                {
                    Some(argument) => batch.push(argument.into()),
                    None => bail!("expected '{word}', not '{}'", ui::text(&line)),
                },
            }
        }
    }

    /// Writes protocol lines, each with its end, of which more are to follow.
    fn write(&mut self, lines: &[u8]) -> Result<()> {
        // Nothing else reads our output: whatever fails there, git is gone.
        self.output.write_all(lines).map_err(|_: io::Error| GitWentAway.into())
    }

    /// Writes protocol lines, each with its end, and makes sure that git gets them now.
    fn reply(&mut self, lines: &[u8]) -> Result<()> {
        self.write(lines)?;
        self.output.flush().map_err(|_: io::Error| GitWentAway.into())
    }

    /// Obeys one command. Returns false after the last one.
    fn command(&mut self, line: &BStr) -> Result<bool> {
        let (word, argument) = line.split_once_str(" ").unwrap_or((line.as_bytes(), b""));
        let argument = argument.as_bstr();
        match word {
            b"" => return self.end().map(|()| false),
            b"capabilities" => self.reply(CAPABILITIES)?,
            b"option" => match self.options.set(argument) {
                Reply::Ok => self.reply(b"ok\n")?,
                Reply::Unsupported => self.reply(b"unsupported\n")?,
                Reply::Error(why) => self.reply(format!("error {why}\n").as_bytes())?,
            },
            b"connect" if argument == "git-upload-archive" => return self.upload_archive().map(|()| false),
            b"connect" => return self.connect(argument),
            b"list" if argument == "for-push" => self.list_for_push()?,
            b"list" => self.list()?,
            b"fetch" => match self.read_batch("fetch", argument)? {
                Some(batch) => self.fetch(&batch)?,
                None => return Ok(false),
            },
            b"push" => match self.read_batch("push", argument)? {
                Some(batch) => return self.push(&batch),
                None => return Ok(false),
            },
            _ => bail!("git sent the unknown command '{}'", ui::text(line)),
        }
        Ok(true)
    }

    /// Hands the conversation over to `znippy upload-archive`. git waits for the answer, so no byte that is meant for that program
    /// was read here.
    ///
    /// # Errors
    /// Fails where it cannot be run.
    fn upload_archive(&mut self) -> Result<()> {
        // What is no archive is told before git believes that somebody is there.
        self.remote.open(self.options.voice)?;
        let mut command = sibling("znippy")?;
        command
            .args(["--quiet", "upload-archive", "--"])
            .arg(self.remote.path());
        self.reply(b"\n")?;
        // Where that fails, it has told git why.
        command.status().context("cannot run znippy upload-archive")?;
        Ok(())
    }

    /// Lets git talk to a server where that is better, and returns whether it goes on with commands.
    fn connect(&mut self, service: &BStr) -> Result<bool> {
        // Once declined, it stays so: meanwhile git has noted that the new clone is a partial one.
        if connect::is_served(service) && self.filter.is_none() {
            if self.opened.is_none() {
                // Why it cannot be opened is told when it is listed.
                self.opened = self.remote.open(self.options.voice).ok();
            }
            if let Some(snapshot) = &self.opened {
                let filter = connect::own_filter(&self.options, &mut self.config)?;
                if connect::is_better(&self.options, filter.as_ref(), snapshot)? {
                    let config = &mut self.config;
                    connect::serve(
                        &self.remote,
                        &self.options,
                        snapshot,
                        config,
                        &mut self.input,
                        &mut self.output,
                    )?;
                    return Ok(false);
                }
                self.filter = filter.filter(|_| self.options.filter.is_some());
            }
        }
        self.reply(b"fallback\n")?;
        Ok(true)
    }

    /// git asks for a server before it lists or fetches. One that does not cannot say how its history is to be cut, and would
    /// go on and make a full clone.
    fn refuse_partial(&self) -> Result<()> {
        let is_unknown = self.options.filter.is_some() && self.filter.is_none();
        match self.options.is_cut() || is_unknown {
            true => bail!(
                "this git cannot fetch a part of a history through a remote helper; leave --depth and --filter out"
            ),
            false => Ok(()),
        }
    }

    fn check_format(&self, archive: Kind, client: Kind) -> Result<()> {
        match archive == client {
            true => Ok(()),
            false => {
                let path = self.remote.path().to_owned();
                Err(Error::ObjectFormatMismatch { path, archive, client }.into())
            }
        }
    }
}
