//! Listing what there is to fetch, and fetching it.

use std::io::{BufRead, Write};

use anyhow::Result;
use bstr::BString;
use znippy::Error;

use super::{Listed, Session};
use crate::{
    client::Client,
    config::{self, get_or_read},
    fetch::{Fetch, Fetched},
    listing,
    ui::Progress,
};

/// How often a fetch starts again when another machine replaces the archive.
const MAX_REOPENS: usize = 3;

/// From so many references on git is busy for a while with the list: time to ask what a fetch needs to know of the client.
const ASK_AHEAD_FROM: usize = 1000;

impl<R: BufRead, W: Write> Session<R, W> {
    pub(super) fn list(&mut self) -> Result<()> {
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
            // The configuration of a clone is not complete yet. A remote whose archive is known is none.
            let glance = Client::from_environment().ok().and_then(|client| client.glance());
            if glance.is_some_and(|(_, known)| !known.is_empty()) {
                self.pending = config::Pending::start().ok();
            }
        }
        Ok(())
    }

    pub(super) fn fetch(&mut self, batch: &[BString]) -> Result<()> {
        self.refuse_partial()?;
        let client = Client::from_environment()?;
        // Read for `connect` already, or being read while the rest is prepared.
        let config = match self.config.take().zip(client.glance()) {
            Some((config, (format, _))) => Ok((config, format)),
            None => Err(self.pending.take().map_or_else(config::Pending::start, Ok)?),
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
}

/// Returns whether the archive that was open has been replaced by another machine.
fn is_stale(error: &anyhow::Error) -> bool {
    let mut causes = error.chain();
    causes.any(|cause| matches!(cause.downcast_ref(), Some(Error::Stale { .. })))
}
