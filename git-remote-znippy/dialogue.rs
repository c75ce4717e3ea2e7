//! The conversation with git: one command after the other, until it has no more.
//!
//! Input is read through one buffered reader, which a service that takes over after `connect` must go on reading from.

use std::{
    io::{self, BufRead, BufWriter, Write},
    path::PathBuf,
};

use anyhow::{Result, bail};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::{Kind, ObjectId};
use znippy::{
    Error,
    archive::{self, Snapshot},
    refs::{Ref, Target},
};

use crate::{
    cleanup::Guard,
    client::Client,
    config::{self, Config},
    fetch::{Fetch, Fetched},
    options::{Options, Reply},
    push::{Listing, Push},
    remote::Remote,
    ui::{self, GitWentAway},
};

/// What the helper offers. `connect` is there to be declined: git then tells the user what it could not do.
const CAPABILITIES: [&str; 6] = [
    "connect",
    "fetch",
    "push",
    "option",
    "check-connectivity",
    "object-format",
];

/// Serves git for the remote `name` at `address` until it is done.
///
/// # Errors
/// Fails with what the user should read; with [`GitWentAway`] where git ended first.
pub fn run(name: BString, address: Option<BString>) -> Result<()> {
    let input = io::stdin().lock();
    let output = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut session = Session {
        remote: Remote::find(name, address)?,
        options: Options::default(),
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
    Ok(())
}

struct Session<R, W> {
    remote: Remote,
    options: Options,
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

/// What only a push needs.
struct PushState {
    client: Client,
    config: Config,
    format: Kind,
    listing: Listing,
    /// A batch was carried out.
    pushed: bool,
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

    /// Writes protocol lines and makes sure that git gets them now.
    fn reply(&mut self, lines: &[BString]) -> Result<()> {
        let write = |output: &mut W| -> io::Result<()> {
            for line in lines {
                output.write_all(line)?;
                output.write_all(b"\n")?;
            }
            output.flush()
        };
        // Nothing else reads our output: whatever fails there, git is gone.
        write(&mut self.output).map_err(|_| GitWentAway.into())
    }

    /// Obeys one command. Returns false after the last one.
    fn command(&mut self, line: &BStr) -> Result<bool> {
        let (word, argument) = line.split_once_str(" ").unwrap_or((line.as_bytes(), b""));
        let argument = argument.as_bstr();
        match word {
            b"" => return self.end().map(|()| false),
            b"capabilities" => {
                let mut lines: Vec<BString> = CAPABILITIES.iter().map(|&name| name.into()).collect();
                lines.push(BString::default());
                self.reply(&lines)?;
            }
            b"option" => {
                let reply = match self.options.set(argument) {
                    Reply::Ok => "ok".into(),
                    Reply::Unsupported => "unsupported".into(),
                    Reply::Error(why) => BString::from(format!("error {why}")),
                };
                self.reply(&[reply])?;
            }
            b"connect" => self.reply(&["fallback".into()])?,
            b"list" if argument == "for-push" => self.list_for_push()?,
            b"list" => self.list()?,
            b"fetch" => match self.read_batch("fetch", argument)? {
                Some(batch) => self.fetch(&batch)?,
                None => return Ok(false),
            },
            b"push" => match self.read_batch("push", argument)? {
                Some(batch) => self.push(&batch)?,
                None => return Ok(false),
            },
            _ => bail!("git sent the unknown command '{}'", ui::text(line)),
        }
        Ok(true)
    }

    /// Takes leave of git. Where it had nothing to push and the archive is empty or missing, the question is why: an
    /// empty repository is kept as an empty archive, but otherwise a script must not take this for a backup.
    ///
    /// # Errors
    /// Fails in that other case.
    fn end(&self) -> Result<()> {
        let Some(Listed {
            snapshot,
            push: Some(state),
        }) = &self.listed
        else {
            return Ok(());
        };
        if state.pushed || !state.listing.values.is_empty() {
            return Ok(());
        }
        let path = self.remote.path();
        match (snapshot, state.client.is_empty()?) {
            (Some(_), true) => Ok(()),
            (Some(_), false) => bail!("{}: nothing was pushed, the archive is still empty", path.display()),
            (None, false) => bail!("{}: nothing was pushed, so no archive was created", path.display()),
            (None, true) => {
                let head = match (state.client.current_branch(), state.config.get("init.defaultbranch")) {
                    (Some(branch), _) => branch,
                    (None, Some(name)) => format!("refs/heads/{name}").into(),
                    (None, None) => "refs/heads/main".into(),
                };
                archive::create(path, state.format, head.as_bstr())?;
                self.options
                    .voice
                    .note(format_args!("{}: created, empty like the repository", path.display()));
                let uuid = self.remote.open(self.options.voice)?.uuid();
                self.remote.remember(&state.config, &uuid, self.options.voice);
                Ok(())
            }
        }
    }

    fn list(&mut self) -> Result<()> {
        // Refused before anything is shown: git would go on and make a full clone.
        self.options.refuse_partial_history()?;
        if self.remote.is_relative() {
            let config = config::Pending::start()?.finish()?;
            if !self.remote.is_being_cloned(&config) {
                self.remote.refuse_relative(&config)?;
            }
        }
        let snapshot = self.remote.open(self.options.voice)?;
        let mut lines = vec![object_format_line(snapshot.object_format())];
        list_refs(&snapshot, &mut lines)?;
        lines.push(BString::default());
        self.listed = Some(Listed {
            snapshot: Some(snapshot),
            push: None,
        });
        self.reply(&lines)
    }

    fn list_for_push(&mut self) -> Result<()> {
        let client = Client::from_environment()?;
        let config = config::Pending::start()?;
        let opened = self.remote.open(self.options.voice);
        let config = config.finish()?;
        self.remote.refuse_relative(&config)?;
        let format = Client::object_format(&config)?;
        let snapshot = match opened {
            Ok(snapshot) => {
                self.remote.check_identity(&config, &snapshot.uuid())?;
                self.check_format(snapshot.object_format(), format)?;
                Some(snapshot)
            }
            Err(Error::NotFound { .. } | Error::MissingParent { .. }) => {
                self.remote.check_creation(&config)?;
                None
            }
            Err(error) => return Err(error.into()),
        };
        let mut lines = vec![object_format_line(format)];
        let mut listing = Listing::default();
        if let Some(snapshot) = &snapshot {
            listing = listing_of(snapshot)?;
            let mut names: Vec<&BString> = listing.values.keys().collect();
            names.sort_unstable();
            lines.extend(
                names
                    .iter()
                    .map(|&name| value_line(&listing.values[name], name.as_bstr(), "")),
            );
        }
        lines.push(BString::default());
        self.listed = Some(Listed {
            snapshot,
            push: Some(PushState {
                client,
                config,
                format,
                listing,
                pushed: false,
            }),
        });
        self.reply(&lines)
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

    fn fetch(&mut self, batch: &[BString]) -> Result<()> {
        let client = Client::from_environment()?;
        let config = config::Pending::start()?.finish()?;
        let snapshot = match self.listed.as_ref().and_then(|listed| listed.snapshot.clone()) {
            Some(snapshot) => snapshot,
            None => self.remote.open(self.options.voice)?,
        };
        match self.options.cloning {
            true => self.remote.make_absolute(&config)?,
            false => self.remote.refuse_relative(&config)?,
        }
        self.remote.check_identity(&config, &snapshot.uuid())?;
        let fetch = Fetch {
            remote: &self.remote,
            options: &self.options,
            config: &config,
            client: &client,
            snapshot: &snapshot,
        };
        let Fetched { keep, connected } = fetch.run(batch)?;
        self.remote.remember(&config, &snapshot.uuid(), self.options.voice);
        let mut lines = Vec::new();
        if let Some((path, guard)) = keep {
            let mut line = BString::from("lock ");
            line.extend_from_slice(path.as_os_str().as_encoded_bytes());
            lines.push(line);
            self.keeps.push((path, guard));
        }
        if connected {
            lines.push("connectivity-ok".into());
        }
        lines.push(BString::default());
        self.reply(&lines)
    }

    fn push(&mut self, batch: &[BString]) -> Result<()> {
        let Some(Listed {
            snapshot,
            push: Some(state),
        }) = &mut self.listed
        else {
            bail!("git pushes without having asked what is there");
        };
        state.pushed = true;
        let push = Push {
            remote: &self.remote,
            options: &self.options,
            config: &state.config,
            client: &state.client,
            format: state.format,
            snapshot: snapshot.as_ref(),
            listed: &state.listing,
        };
        let mut lines = push.run(batch)?;
        lines.push(BString::default());
        self.reply(&lines)
    }
}

fn object_format_line(format: Kind) -> BString {
    format!(":object-format {format}").into()
}

fn value_line(oid: &ObjectId, name: &BStr, suffix: &str) -> BString {
    let mut line = BString::from(oid.to_string());
    line.push(b' ');
    line.extend_from_slice(name);
    line.extend_from_slice(suffix.as_bytes());
    line
}

/// Lists everything a fetch may want: HEAD, where it leads somewhere, and what annotated tags point at.
fn list_refs(snapshot: &Snapshot, lines: &mut Vec<BString>) -> Result<()> {
    for Ref { name, target } in snapshot.refs()? {
        match target {
            Target::Object { oid, peeled } => {
                lines.push(value_line(&oid, name.as_bstr(), ""));
                if let Some(peeled) = peeled {
                    lines.push(value_line(&peeled, name.as_bstr(), "^{}"));
                }
            }
            Target::Symbolic(to) => {
                // git takes an unborn target for a wish to fetch the null id.
                let Some(oid) = snapshot.resolve_ref(to.as_bstr())? else {
                    continue;
                };
                lines.push(match name == "HEAD" {
                    true => format!("@{to} HEAD").into(),
                    false => value_line(&oid, name.as_bstr(), ""),
                });
            }
        }
    }
    Ok(())
}

/// Reads what a push may change: only real references below `refs/`, or `--mirror` would delete the others.
fn listing_of(snapshot: &Snapshot) -> Result<Listing> {
    let mut listing = Listing::default();
    for Ref { name, target } in snapshot.refs()? {
        if !name.starts_with(b"refs/") {
            continue;
        }
        match target {
            Target::Object { oid, .. } => {
                listing.values.insert(name, oid);
            }
            Target::Symbolic(to) => {
                if let Some(oid) = snapshot.resolve_ref(to.as_bstr())? {
                    listing.values.insert(name.clone(), oid);
                }
                listing.symbolic.insert(name, to);
            }
        }
    }
    Ok(listing)
}
