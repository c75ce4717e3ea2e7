//! Listing what a push may change, and pushing.

use std::{
    cell::{Cell, RefCell},
    io::{BufRead, Write},
};

use anyhow::{Result, bail};
use bstr::{BString, ByteSlice};
use gix_hash::Kind;
use znippy::{Error, archive, refs::Target};

use super::{Listed, Session};
use crate::{
    catch_up,
    client::Client,
    config::{self, Config, get_or_read},
    listing::{self, Listing},
    objects::Objects,
    push::Push,
    request::Request,
};

/// How often a pack is built anew because the archive was rewritten meanwhile.
const MAX_ATTEMPTS: usize = 3;

/// What only a push needs.
pub(super) struct PushState {
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
    pub(super) fn list_for_push(&mut self) -> Result<()> {
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

    /// Carries out a batch, and returns whether git is to go on with commands.
    pub(super) fn push(&mut self, batch: &[BString]) -> Result<bool> {
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

    /// Takes leave of git. Where it had nothing to push and the archive is empty or missing, the question is why: an
    /// empty repository is kept as an empty archive, but otherwise a script must not take this for a backup.
    ///
    /// # Errors
    /// Fails in that other case.
    pub(super) fn end(&mut self) -> Result<()> {
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

    /// Ends a push that left something to prove. git has its answer already; failing here would take nothing back.
    pub(super) fn catch_up(&self) -> Result<()> {
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

/// Returns whether `error` says that what a pack builds on is gone.
fn is_rewritten(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Rewritten { .. }))
}
