//! The conversation with git: one command after the other, until it has no more.
//!
//! Input is read through one buffered reader, which a service that takes over after `connect` must go on reading from.

use std::{
    cell::{Cell, RefCell},
    io::{self, BufRead, BufWriter, Write},
    path::PathBuf,
};

use anyhow::{Context, Result, bail};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::Kind;
use znippy::{
    Error,
    archive::{self, Snapshot},
    pack::filter::Filter,
    refs::Target,
};

use crate::{
    catch_up::{self, sibling},
    cleanup::Guard,
    client::{Client, PendingTips},
    config::{self, Config, get_or_read},
    connect,
    fetch::{Fetch, Fetched},
    listing::{self, Listing},
    objects::Objects,
    options::{Options, Reply},
    push::Push,
    remote::Remote,
    request::Request,
    ui::{self, GitWentAway, Progress},
};

/// How often a fetch starts again when another machine replaces the archive.
const MAX_REOPENS: usize = 3;

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
    /// The client's references for a fetch, where they were asked for ahead.
    tips: Option<PendingTips>,
    /// What the last `list` read, for the batches that follow.
    listed: Option<Listed>,
    /// `.keep` files that git has been told of. It deletes them itself; where it could not, their guards do.
    keeps: Vec<(PathBuf, Guard)>,
    input: R,
    output: W,
}

/// From so many references on git is busy for a while with the list: time to ask for the client's own, in case a fetch follows.
const ASK_AHEAD_FROM: usize = 1000;

/// The archive as it was listed.
struct Listed {
    /// `None` where there is no archive yet, before a first push.
    snapshot: Option<Snapshot>,
    push: Option<PushState>,
}

/// What only a push needs.
struct PushState {
    client: Client,
    /// Read when it is needed first.
    config: Option<Config>,
    format: Kind,
    listing: Listing,
    /// A batch was carried out.
    pushed: bool,
    /// Something was stored that is yet to be proven.
    unproven: bool,
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

    /// Takes leave of git. Where it had nothing to push and the archive is empty or missing, the question is why: an
    /// empty repository is kept as an empty archive, but otherwise a script must not take this for a backup.
    ///
    /// # Errors
    /// Fails in that other case.
    fn end(&mut self) -> Result<()> {
        let Some(Listed {
            snapshot,
            push: Some(state),
        }) = &mut self.listed
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
                let config = get_or_read(&mut state.config)?;
                let head = match (state.client.current_branch(), config.get("init.defaultbranch")) {
                    (Some(branch), _) => branch,
                    (None, Some(name)) => [&b"refs/heads/"[..], name].concat().into(),
                    (None, None) => "refs/heads/main".into(),
                };
                archive::create(path, state.format, head.as_bstr())?;
                self.options
                    .voice
                    .note(format_args!("{}: created, empty like the repository", path.display()));
                let uuid = self.remote.open(self.options.voice)?.uuid();
                self.remote.remember(config, &uuid, self.options.voice);
                Ok(())
            }
        }
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

    fn list(&mut self) -> Result<()> {
        if self.remote.is_relative() {
            let config = get_or_read(&mut self.config)?;
            if !self.remote.is_being_cloned(config) {
                self.remote.refuse_relative(config)?;
            }
        }
        let snapshot = match &self.opened {
            Some(snapshot) => snapshot.clone(),
            None => self.remote.open(self.options.voice)?,
        };
        self.refuse_partial()?;
        self.write(&listing::object_format_line(snapshot.object_format()))?;
        let count = listing::list_refs(&snapshot, &mut self.output)?;
        self.listed = Some(Listed {
            snapshot: Some(snapshot),
            push: None,
        });
        self.reply(b"\n")?;
        if self.options.is_transfer && count >= ASK_AHEAD_FROM {
            // Where that fails, a fetch tells why.
            self.tips = Client::start_tips().ok();
        }
        Ok(())
    }

    fn list_for_push(&mut self) -> Result<()> {
        let client = Client::from_environment()?;
        let mut config = None;
        if self.remote.is_relative() {
            self.remote
                .refuse_relative(config.insert(config::Pending::start()?.finish()?))?;
        }
        let snapshot = match self.remote.open(self.options.voice) {
            Ok(snapshot) => Some(snapshot),
            // Who pushes waits for one that is being created.
            Err(Error::NotFound { .. } | Error::MissingParent { .. } | Error::BeingCreated { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        // Most pushes of a script have no news. For the listing alone no process is started, if a glance shows that nothing
        // is amiss.
        let format = match (client.glance(), &snapshot) {
            (Some((format, known)), Some(snapshot)) if known.iter().all(|uuid| *uuid == snapshot.uuid()) => format,
            (_, snapshot) => {
                let config = get_or_read(&mut config)?;
                match snapshot {
                    Some(snapshot) => self.remote.check_identity(config, &snapshot.uuid())?,
                    None => self.remote.check_creation(config)?,
                }
                Client::object_format(config)?
            }
        };
        if let Some(snapshot) = &snapshot {
            self.check_format(snapshot.object_format(), format)?;
        }
        self.write(&listing::object_format_line(format))?;
        let mut listing = Listing::default();
        if let Some(snapshot) = &snapshot {
            listing = listing::list_for_push(snapshot, &mut self.output)?;
        }
        self.listed = Some(Listed {
            snapshot,
            push: Some(PushState {
                client,
                config,
                format,
                listing,
                pushed: false,
                unproven: false,
            }),
        });
        self.reply(b"\n")
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
        self.refuse_partial()?;
        let client = Client::from_environment()?;
        // Read for `connect` already, or being read while the rest is prepared.
        let config = match self.config.take().zip(client.glance()) {
            Some((config, (format, _))) => Ok((config, format)),
            None => Err(config::Pending::start()?),
        };
        let mut snapshot = match self.listed.as_ref().and_then(|listed| listed.snapshot.clone()) {
            Some(snapshot) => snapshot,
            None => self.remote.open(self.options.voice)?,
        };
        let progress = Progress::new(self.options.voice, "Reading references", false);
        let tips = match (self.options.refetch, self.tips.take()) {
            (true, _) => Vec::new(),
            (false, Some(pending)) => client.tips(pending)?,
            (false, None) => client.tips(Client::start_tips()?)?,
        };
        drop(progress);
        let (config, format) = match config {
            Ok(known) => known,
            Err(pending) => {
                let config = pending.finish()?;
                let format = Client::object_format(&config)?;
                (config, format)
            }
        };
        match self.options.cloning {
            true => self.remote.make_absolute(&config)?,
            false => self.remote.refuse_relative(&config)?,
        }
        self.remote.check_identity(&config, &snapshot.uuid())?;
        self.check_format(snapshot.object_format(), format)?;
        let mut attempts = 0;
        let Fetched { keep, connected } = loop {
            let fetch = Fetch {
                remote: &self.remote,
                options: &self.options,
                config: &config,
                client: &client,
                snapshot: &snapshot,
                filter: self.filter.as_ref(),
            };
            match fetch.run(batch, tips.clone()) {
                // R26: what is wanted is mostly there in the new file too.
                Err(error) if attempts < MAX_REOPENS && is_stale(&error) => {
                    attempts += 1;
                    snapshot = self.remote.open(self.options.voice)?;
                    self.remote.check_identity(&config, &snapshot.uuid())?;
                }
                done => break done?,
            }
        };
        self.remote.remember(&config, &snapshot.uuid(), self.options.voice);
        let mut lines = Vec::new();
        if let Some((path, guard)) = keep {
            lines.extend_from_slice(b"lock ");
            lines.extend_from_slice(path.as_os_str().as_encoded_bytes());
            lines.push(b'\n');
            self.keeps.push((path, guard));
        }
        if connected {
            lines.extend_from_slice(b"connectivity-ok\n");
        }
        lines.push(b'\n');
        self.reply(&lines)
    }

    /// Carries out a batch, and returns whether git is to go on with commands.
    fn push(&mut self, batch: &[BString]) -> Result<bool> {
        let Some(Listed {
            snapshot,
            push: Some(state),
        }) = &mut self.listed
        else {
            bail!("git pushes without having asked what is there");
        };
        state.pushed = true;
        let pending = match state.config {
            Some(_) => None,
            None => Some(config::Pending::start()?),
        };
        let mut objects = Objects::default();
        let mut request = Request::read(batch, &self.options, snapshot.as_ref(), &state.listing, &mut objects)?;
        if let Some(pending) = pending {
            state.config = Some(pending.finish()?);
        }
        let config = get_or_read(&mut state.config)?;
        let mut attempts = 0;
        let (statuses, unproven, pack_refused) = loop {
            if let Some(snapshot) = snapshot.as_ref() {
                self.remote.check_identity(config, &snapshot.uuid())?;
            }
            let push = Push {
                remote: &self.remote,
                options: &self.options,
                config,
                client: &state.client,
                format: state.format,
                snapshot: snapshot.as_ref(),
                listed: &state.listing,
                objects: RefCell::new(objects),
                unproven: Cell::new(false),
                pack_refused: Cell::new(false),
            };
            attempts += 1;
            match push.run(request) {
                Ok(statuses) => break (statuses, push.unproven.get(), push.pack_refused.get()),
                Err(error) if attempts < MAX_ATTEMPTS && is_rewritten(&error) => objects = push.objects.into_inner(),
                Err(error) => return Err(error),
            }
            // What git and the user decided on stands; only what the pack may build on is looked up again.
            let found = self.remote.open(self.options.voice)?;
            let shown = found.refs()?.into_iter().filter_map(|each| match each.target {
                Target::Object { oid, .. } => Some(oid),
                Target::Symbolic(_) => None,
            });
            state.listing.live = Some(shown.collect());
            let found = snapshot.insert(found);
            request = Request::read(batch, &self.options, Some(found), &state.listing, &mut objects)?;
        };
        let mut lines = Vec::new();
        for line in statuses {
            lines.extend_from_slice(&line);
            lines.push(b'\n');
        }
        if !pack_refused {
            lines.push(b'\n');
        }
        state.unproven |= unproven;
        self.reply(&lines)?;
        // An end without an empty line tells git that the push as a whole failed, as its own server does where it does not take a
        // pack: `git push --porcelain` then does not end with `Done`, as it does where references are refused.
        Ok(!pack_refused)
    }
}

/// How often a pack is built anew because the archive was rewritten meanwhile.
const MAX_ATTEMPTS: usize = 3;

/// Returns whether `error` says that what a pack builds on is gone.
fn is_rewritten(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Rewritten { .. }))
}

impl<R, W> Session<R, W> {
    /// Ends a push that left something to prove. git has its answer already; failing here would take nothing back.
    fn catch_up(&self) -> Result<()> {
        let Some(Listed { push: Some(state), .. }) = &self.listed else {
            return Ok(());
        };
        let (true, Some(config)) = (state.unproven, &state.config) else {
            return Ok(());
        };
        let voice = self.options.voice;
        if let Err(error) = catch_up::catch_up(&self.remote, config, voice) {
            voice.warning(format_args!(
                "the push is stored, but is not proven yet: {}",
                znippy::error::one_line(error.as_ref())
            ));
        }
        Ok(())
    }
}

/// Returns whether the archive that was open has been replaced by another machine.
fn is_stale(error: &anyhow::Error) -> bool {
    let mut causes = error.chain();
    causes.any(|cause| matches!(cause.downcast_ref(), Some(Error::Stale { .. })))
}
