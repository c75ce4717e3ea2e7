//! The commit of a push: the transaction, and what the user is told of it.

use std::{os::unix::ffi::OsStringExt, sync::Arc};

use anyhow::Result;
use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;
use znippy::{
    archive::{self, HeadHint, NewPack, Outcome, Snapshot, Transaction, WritePolicy},
    format::row::Proof,
    pack::disk::DiskPack,
    refs::{
        EditResult, Expected, MAX_IN_A_ROW, RefEdit, Rejection, Target,
        alias::{Alias, INCONSISTENT, aliases},
    },
};

use crate::{
    config::Config,
    judge::{Update, Verdict},
    push::{Prepared, Push},
    spool::Spool,
    ui::{self, Progress},
};

/// Returns one result for each alias, of which `own` are those of the edits that were made.
fn with_aliases(aliases: &[Alias], own: impl Iterator<Item = EditResult>) -> Vec<EditResult> {
    let mut own = own;
    let mut results: Vec<EditResult> = Vec::with_capacity(aliases.len());
    for alias in aliases {
        results.push(match alias {
            Alias::Own => own.next().expect("each edit has a result"),
            Alias::Same(other) => results[*other].clone(),
            Alias::Inconsistent => EditResult::Rejected(Rejection::WrongTarget(INCONSISTENT.into())),
        });
    }
    results
}

impl Push<'_> {
    /// Commits, and returns one result for each update that applies.
    pub fn commit(&self, updates: &[Update], prepared: Prepared) -> Result<Vec<EditResult>> {
        let Prepared {
            spool,
            incomplete,
            mut relies_on,
        } = prepared;
        let mut edits: Vec<RefEdit> = updates.iter().filter_map(|update| self.edit(update)).collect();
        let aliases = aliases(&edits);
        let mut own = aliases.iter().map(|alias| *alias == Alias::Own);
        edits.retain(|_| own.next().unwrap_or(true));
        if edits.is_empty() || self.options.atomic && aliases.contains(&Alias::Inconsistent) {
            let atomic = edits.iter().map(|_| EditResult::Rejected(Rejection::Atomic));
            return Ok(with_aliases(&aliases, atomic));
        }
        if self.options.dry_run && self.snapshot.is_none() {
            return Ok(with_aliases(
                &aliases,
                edits.iter().map(|_| EditResult::Applied { old: None }),
            ));
        }
        let mut packs = Vec::from_iter(self.good_copies(&mut relies_on)?);
        let directory = match spool {
            Some(Spool { pack, directory }) => {
                packs.push(self.new_pack(pack, updates, &mut relies_on)?);
                Some(directory)
            }
            None => None,
        };
        let unproven = packs.iter().any(|pack| pack.proof == Proof::None);
        let transaction = Transaction {
            basis: self.snapshot.cloned(),
            packs,
            has_surplus: aliases.contains(&Alias::Inconsistent),
            edits,
            relies_on,
            atomic: self.options.atomic,
            dry_run: self.options.dry_run,
            actor: actor(self.config),
            settings: self
                .options
                .push_options
                .iter()
                .map(|option| push_option_name(option.as_bstr()))
                .collect(),
            head: self.head_hint(updates),
            is_push: true,
        };
        let voice = self.options.voice;
        let mut progress = Progress::new(voice, "Writing archive", true);
        let mut on_copy = |done, total| progress.update(done, total);
        let mut on_wait = |text: &str| voice.note(text);
        let lock = WritePolicy {
            durability: self.remote.durability(self.config)?,
            lock: self.remote.lock_mode(self.config)?,
            timeout: self.remote.lock_timeout(self.config)?,
            on_wait: Some(&mut on_wait),
            on_copy: Some(&mut on_copy),
            ..WritePolicy::default()
        };
        let path = self.remote.path();
        let outcome = match self.snapshot {
            Some(_) => archive::commit(path, transaction, lock)?,
            None => archive::create_with(path, self.format, transaction, lock)?,
        };
        drop((progress, directory));
        self.tell(&outcome);
        if outcome.written && !self.options.dry_run {
            self.unproven.set(unproven);
            self.remember()?;
        }
        let excuse = |result| match result {
            // A dry run packs only what it must look at.
            EditResult::Rejected(Rejection::MissingObject(_)) if incomplete => EditResult::Applied { old: None },
            result => result,
        };
        Ok(with_aliases(&aliases, outcome.results.into_iter().map(excuse)))
    }

    fn edit(&self, update: &Update) -> Option<RefEdit> {
        let Verdict::Apply { rewinds, peeled } = update.verdict else {
            return None;
        };
        let mut name = update.name.clone();
        let mut expected = update.old.map_or(Expected::Absent, Expected::Oid);
        // As for git's own server: an update goes through a symbolic reference, a deletion deletes the reference itself.
        if let Some(target) = self.listed.symbolic.get(&name) {
            match update.new {
                None => expected = Expected::Symbolic(target.clone()),
                Some(_) => {
                    // No further than git goes: an archive of somebody else's may have them in a circle.
                    for _ in 0..MAX_IN_A_ROW {
                        let Some(target) = self.listed.symbolic.get(&name) else {
                            break;
                        };
                        name = target.clone();
                    }
                }
            }
        }
        Some(RefEdit {
            name,
            expected,
            new: update.new.map(|oid| Target::Object { oid, peeled }),
            rewinds,
        })
    }

    /// HEAD of a new archive, or of one that loses its branch: what the client has checked out, if that is pushed, else
    /// what it calls the branch of a new repository.
    fn head_hint(&self, updates: &[Update]) -> HeadHint {
        let current = self.client.current_branch();
        let is_current = |update: &&Update| {
            update.new.is_some()
                && update.name.starts_with(b"refs/heads/")
                && update
                    .source
                    .as_ref()
                    .is_some_and(|source| source == "HEAD" || Some(source) == current.as_ref())
        };
        let pushed = updates
            .iter()
            .filter(|update| update.applies())
            .find(is_current)
            .map(|update| update.name.clone());
        let default = self.config.get("init.defaultbranch").map(|name| {
            let mut full = BString::from("refs/heads/");
            full.extend_from_slice(name);
            full
        });
        HeadHint {
            candidates: pushed.into_iter().chain(default).collect(),
        }
    }

    fn tell(&self, outcome: &Outcome) {
        let voice = self.options.voice;
        for warning in &outcome.warnings {
            voice.warning(format_args!("{}: {warning}", self.remote.path().display()));
        }
        for note in &outcome.notes {
            voice.detail(format_args!("{}: {note}", self.remote.path().display()));
        }
        if let (Some(branch), Some(_)) = (&outcome.head_moved, self.snapshot) {
            voice.note(format_args!("HEAD of the archive is now {}", ui::text(branch)));
        }
        if outcome.head_unborn {
            voice.warning("HEAD of the archive names no branch now: a clone will check out nothing");
        }
    }

    fn remember(&self) -> Result<()> {
        let uuid = match self.snapshot {
            Some(snapshot) => snapshot.uuid(),
            None => Snapshot::open(self.remote.path())?.uuid(),
        };
        self.remote.remember(self.config, &uuid, self.options.voice);
        Ok(())
    }

    fn new_pack(&self, pack: DiskPack, updates: &[Update], relies_on: &mut Vec<ObjectId>) -> Result<NewPack> {
        let proven = match self.options.dry_run {
            true => None,
            false => self.proven(&pack, updates)?,
        };
        let (file, path, id, table) = pack.into_parts();
        let mut entries = Arc::unwrap_or_clone(table);
        let (proof, commits) = match proven {
            Some(proven) => {
                relies_on.extend(proven.relies_on);
                (entries.kinds, entries.sizes) = (proven.kinds, proven.sizes);
                (proven.proof, proven.commits)
            }
            None => (Proof::None, Default::default()),
        };
        Ok(NewPack {
            data: file.into(),
            path,
            id,
            entries,
            proof,
            commits,
        })
    }
}

/// Returns who pushes, for the archive's log: free text that nothing relies on.
fn actor(config: &Config) -> Option<BString> {
    let part = |variable: &str, key: &str| {
        let value = std::env::var_os(variable).map(|value| BString::from(value.into_vec()));
        value
            .or_else(|| config.get(key).map(ToOwned::to_owned))
            .filter(|value| !value.is_empty())
    };
    match (
        part("GIT_COMMITTER_NAME", "user.name"),
        part("GIT_COMMITTER_EMAIL", "user.email"),
    ) {
        (Some(name), Some(email)) => Some([&name[..], b" <", &email[..], b">"].concat().into()),
        (name, email) => name.or(email),
    }
}

/// Only the name of a push option is stored: its value may be a secret.
fn push_option_name(option: &BStr) -> (String, Vec<u8>) {
    let name = option.split_once_str("=").map_or(option.as_bytes(), |(name, _)| name);
    ("push-option".to_owned(), name.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r28_secrets_in_push_options_are_not_stored() {
        assert_eq!(
            push_option_name("token=hunter2=x".into()),
            ("push-option".into(), b"token".to_vec())
        );
        assert_eq!(
            push_option_name("ci.skip".into()),
            ("push-option".into(), b"ci.skip".to_vec())
        );
    }
}
