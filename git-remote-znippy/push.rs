//! A batch of `push` lines: resolve, pack, judge, commit, report.
//!
//! No lock is held before the commit: a hook of the client may push to the same archive meanwhile. What was decided on
//! goes into the commit as the value each reference must still have.

use std::{
    collections::{HashMap, HashSet},
    os::unix::ffi::OsStringExt,
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::{Kind, ObjectId};
use znippy::{
    archive::{self, HeadHint, LockPolicy, NewPack, Outcome, Snapshot, Transaction},
    format::columns::Proof,
    pack::{
        PackStore,
        disk::{DiskPack, Layered},
        object::ObjectReader,
        select::{SelectOptions, select},
    },
    refs::{EditResult, Expected, RefEdit, Rejection, Target},
};

use crate::{
    client::Client,
    config::Config,
    judge::{Update, Verdict, refuse_all_for_one},
    objects,
    options::Options,
    quote::quoted,
    remote::Remote,
    spool::{self, Spool},
    ui::{self, Progress},
};

/// What `list for-push` showed: git, and the user, decided on that.
#[derive(Debug, Default)]
pub struct Listing {
    /// The value of each reference; of a symbolic one, the value of the one it leads to.
    pub values: HashMap<BString, ObjectId>,
    /// What each symbolic reference names.
    pub symbolic: HashMap<BString, BString>,
}

/// A push under way: what it was asked, and what it works with.
pub struct Push<'a> {
    pub remote: &'a Remote,
    pub options: &'a Options,
    pub config: &'a Config,
    pub client: &'a Client,
    /// The client's object format.
    pub format: Kind,
    /// The archive as it was listed; `None` where there is none yet.
    pub snapshot: Option<&'a Snapshot>,
    /// The references that `list for-push` showed.
    pub listed: &'a Listing,
}

impl Push<'_> {
    /// Carries out `lines`, each what follows `push `, and returns the status lines.
    ///
    /// # Errors
    /// Fails where nothing can be said about single references; nothing is stored then.
    pub fn run(&self, lines: &[BString]) -> Result<Vec<BString>> {
        let commands = lines
            .iter()
            .map(|line| parse(line.as_bstr()))
            .collect::<Result<Vec<_>>>()?;
        let (mut updates, bounds) = self.resolve(commands)?;
        let Some(prepared) = self.prepare(&mut updates, &bounds)? else {
            return Ok(updates.iter().map(|update| status(update, None)).collect());
        };
        let results = self.commit(&updates, prepared)?;
        let mut results = results.into_iter();
        // The edits of the transaction are the updates that apply, in their order.
        Ok(updates
            .iter()
            .map(|update| status(update, update.applies().then(|| results.next()).flatten()))
            .collect())
    }

    /// Returns tips of the archive that a pack may build on, if the client has them: for an update the values to be
    /// replaced and the default branch are enough, and quick; for a new reference any may be the nearest.
    fn candidate_bounds(&self, commands: &[Command]) -> Vec<ObjectId> {
        let values = &self.listed.values;
        let mut pushed = commands.iter().filter(|command| command.source.is_some());
        let mut bounds: Vec<ObjectId> = match pushed.clone().all(|command| values.contains_key(&command.name)) {
            false => values.values().copied().collect(),
            true => {
                let head = self
                    .snapshot
                    .and_then(|snapshot| snapshot.resolve_ref("HEAD".into()).ok())
                    .flatten();
                pushed
                    .by_ref()
                    .filter_map(|command| values.get(&command.name).copied())
                    .chain(head)
                    .collect()
            }
        };
        bounds.sort_unstable();
        bounds.dedup();
        bounds
    }

    /// Asks the client, once, what the sources are and which tips of the archive it has.
    fn resolve(&self, commands: Vec<Command>) -> Result<(Vec<Update>, Vec<ObjectId>)> {
        let bounds = self.candidate_bounds(&commands);
        let mut names: Vec<BString> = commands.iter().filter_map(|command| command.source.clone()).collect();
        let sources = names.len();
        names.extend(bounds.iter().map(|bound| BString::from(bound.to_string())));
        let mut found = objects::resolve(&names)?;
        let has: HashSet<ObjectId> = found.split_off(sources).into_iter().flatten().collect();
        let mut found = found.into_iter();
        let mut updates = Vec::with_capacity(commands.len());
        for Command { forced, source, name } in commands {
            let new = match &source {
                None => None,
                Some(text) => match found.next().flatten() {
                    Some(oid) => Some(oid),
                    None => bail!(
                        "cannot resolve '{}', which is to be pushed to {}",
                        ui::text(text),
                        ui::text(&name)
                    ),
                },
            };
            let old = self.listed.values.get(&name).copied();
            let lease = self.options.leases.get(&name).copied();
            let mut update = Update {
                name,
                source,
                old,
                new,
                forced,
                lease,
                verdict: Verdict::UpToDate,
            };
            update.judge_early(old.is_some_and(|old| has.contains(&old)));
            updates.push(update);
        }
        Ok((
            updates,
            bounds.into_iter().filter(|bound| has.contains(bound)).collect(),
        ))
    }

    /// Builds the pack and judges with its objects, until pack and verdicts agree: what is refused must not be stored.
    /// `None` where nothing is left to do.
    fn prepare(&self, updates: &mut [Update], bounds: &[ObjectId]) -> Result<Option<Prepared>> {
        loop {
            if self.options.atomic {
                refuse_all_for_one(updates);
            }
            if !updates.iter().any(Update::applies) {
                return Ok(None);
            }
            let (tips, incomplete) = self.tips(updates);
            let spool = match tips.is_empty() {
                true => None,
                false => spool::build(self.client, self.format, &tips, bounds, self.options.voice)?,
            };
            let before = updates.iter().filter(|update| update.applies()).count();
            self.judge(updates, spool.as_ref(), &tips, incomplete)?;
            if updates.iter().filter(|update| update.applies()).count() == before {
                return Ok(Some(Prepared { spool, incomplete }));
            }
        }
    }

    /// Returns the new values that the archive does not show yet, and whether some of them were left out: a dry run
    /// takes only those that need a look.
    fn tips(&self, updates: &[Update]) -> (Vec<ObjectId>, bool) {
        let shown: HashSet<ObjectId> = self.listed.values.values().copied().collect();
        let new = |update: &Update| update.new.filter(|new| update.applies() && !shown.contains(new));
        let looks = |update: &&Update| !self.options.dry_run || (update.old.is_some() && !update.forced);
        let mut tips: Vec<ObjectId> = updates.iter().filter(looks).filter_map(new).collect();
        let incomplete = tips.len() < updates.iter().filter_map(new).count();
        tips.sort_unstable();
        tips.dedup();
        (tips, incomplete)
    }

    /// Judges what is still to be applied with the objects of the archive and of the new pack.
    fn judge(&self, updates: &mut [Update], spool: Option<&Spool>, tips: &[ObjectId], incomplete: bool) -> Result<()> {
        // New objects first: most questions are about them, and the archive may be far away.
        let mut stores: Vec<&dyn PackStore> = Vec::new();
        stores.extend(spool.map(|spool| &spool.pack as &dyn PackStore));
        stores.extend(self.snapshot.map(|snapshot| snapshot as &dyn PackStore));
        if stores.is_empty() {
            // A dry run that creates everything.
            return Ok(());
        }
        let store = Layered::new(&stores)?;
        let reader = ObjectReader::new(&store);
        if !tips.is_empty() && self.client.may_have_holes(self.config) {
            self.refuse_holes(updates, &reader, tips)?;
        }
        let mut progress = Progress::new(self.options.voice, "Checking references", false);
        let total = updates.len() as u64;
        for (done, update) in updates.iter_mut().enumerate() {
            progress.update(done as u64, total);
            if incomplete && update.new.is_none_or(|new| tips.binary_search(&new).is_err()) {
                continue;
            }
            update
                .judge(&reader)
                .with_context(|| format!("cannot judge the update of {}", ui::text(&update.name)))?;
        }
        Ok(())
    }

    /// Refuses updates whose history the client does not have completely and the archive cannot complete.
    fn refuse_holes(&self, updates: &mut [Update], reader: &ObjectReader<'_>, tips: &[ObjectId]) -> Result<()> {
        let shown: Vec<ObjectId> = self.listed.values.values().copied().collect();
        let mut progress = Progress::new(self.options.voice, "Checking connectivity", false);
        let mut has_hole = |tips: &[ObjectId]| {
            let options = SelectOptions {
                progress: Some(&mut |done| progress.update(done, 0)),
                ..Default::default()
            };
            match select(reader, tips, &shown, options) {
                Ok(_) => Ok(false),
                Err(znippy::Error::MissingObject { .. }) => Ok(true),
                Err(error) => Err(error),
            }
        };
        if !has_hole(tips)? {
            return Ok(());
        }
        let why = match self.client.is_shallow() {
            true => "shallow update not allowed",
            false => "objects are missing in this repository",
        };
        for update in updates.iter_mut().filter(|update| update.applies()) {
            if let Some(new) = update.new
                && tips.contains(&new)
                && has_hole(&[new])?
            {
                update.refuse(why);
            }
        }
        Ok(())
    }

    /// Commits, and returns one result for each update that applies.
    fn commit(&self, updates: &[Update], prepared: Prepared) -> Result<Vec<EditResult>> {
        let Prepared { spool, incomplete } = prepared;
        let edits: Vec<RefEdit> = updates.iter().filter_map(|update| self.edit(update)).collect();
        if self.options.dry_run && self.snapshot.is_none() {
            return Ok(edits.iter().map(|_| EditResult::Applied { old: None }).collect());
        }
        let (packs, directory) = match spool {
            Some(Spool { pack, directory }) => (vec![new_pack(pack)], Some(directory)),
            None => (Vec::new(), None),
        };
        let transaction = Transaction {
            packs,
            edits,
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
        };
        let voice = self.options.voice;
        let mut progress = Progress::new(voice, "Writing archive", true);
        let mut on_copy = |done, total| progress.update(done, total);
        let mut on_wait = |text: &str| voice.note(text);
        let lock = LockPolicy {
            on_wait: Some(&mut on_wait),
            on_copy: Some(&mut on_copy),
            ..LockPolicy::default()
        };
        let path = self.remote.path();
        let outcome = match self.snapshot {
            Some(_) => archive::commit(path, transaction, lock)?,
            None => archive::create_with(path, self.format, transaction, lock)?,
        };
        drop((progress, directory));
        self.tell(&outcome);
        if outcome.written && !self.options.dry_run {
            self.remember()?;
        }
        let excuse = |result| match result {
            // A dry run packs only what it must look at.
            EditResult::Rejected(Rejection::MissingObject(_)) if incomplete => EditResult::Applied { old: None },
            result => result,
        };
        Ok(outcome.results.into_iter().map(excuse).collect())
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
                    while let Some(target) = self.listed.symbolic.get(&name) {
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
            voice.warning(warning);
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
}

/// A push that is ready to be committed.
struct Prepared {
    spool: Option<Spool>,
    /// Objects were left out, because it is a dry run.
    incomplete: bool,
}

/// One line: `[+]<source>:<name>`, without a source for a deletion.
#[derive(Debug, PartialEq, Eq)]
struct Command {
    forced: bool,
    source: Option<BString>,
    name: BString,
}

fn parse(line: &BStr) -> Result<Command> {
    let (forced, rest) = match line.strip_prefix(b"+") {
        Some(rest) => (true, rest),
        None => (false, line.as_bytes()),
    };
    // The source may be any expression, colons included; a reference's name holds none.
    match rest.rsplit_once_str(":") {
        Some((source, name)) if !name.is_empty() => Ok(Command {
            forced,
            source: (!source.is_empty()).then(|| source.into()),
            name: name.into(),
        }),
        _ => bail!("malformed push command '{}'", ui::text(line)),
    }
}

fn new_pack(pack: DiskPack) -> NewPack {
    let (file, path, id, entries) = pack.into_parts();
    NewPack {
        file,
        path,
        id,
        entries: Arc::unwrap_or_clone(entries),
        proof: Proof::None,
        commits: vec![],
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
        (Some(name), Some(email)) => Some(format_bytes(&[&name, b" <", &email, b">"])),
        (name, email) => name.or(email),
    }
}

fn format_bytes(parts: &[&[u8]]) -> BString {
    parts.concat().into()
}

/// Only the name of a push option is stored: its value may be a secret.
fn push_option_name(option: &BStr) -> (String, Vec<u8>) {
    let name = option.split_once_str("=").map_or(option.as_bytes(), |(name, _)| name);
    ("push-option".to_owned(), name.to_vec())
}

/// Returns the line that tells git what became of an update.
fn status(update: &Update, result: Option<EditResult>) -> BString {
    let name = update.name.as_bstr();
    let error = |why: &str| format_bytes(&[b"error ", name, b" ", &quoted(why.as_bytes())]);
    let ok = |what: &str| format_bytes(&[b"ok ", name, what.as_bytes()]);
    match (&update.verdict, result) {
        (Verdict::Refused(why), _) => error(why),
        (Verdict::UpToDate, _) | (_, Some(EditResult::Unchanged)) => match update.new {
            Some(_) => ok(" \"up to date\""),
            None => ok(""),
        },
        (Verdict::Apply { rewinds, .. }, Some(EditResult::Applied { .. })) => ok(if *rewinds && update.new.is_some() {
            " \"forced update\""
        } else {
            ""
        }),
        (Verdict::Apply { .. }, Some(EditResult::Rejected(rejection))) => match rejection {
            Rejection::Stale { .. } if update.lease.is_some() => error("stale info"),
            Rejection::Stale { .. } if !update.forced && update.new.is_some() => error("fetch first"),
            Rejection::Stale { .. } => error("changed by another push meanwhile, try again"),
            other => error(&other.to_string()),
        },
        (Verdict::Apply { .. }, None) => error("not done"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_lines() {
        let command = |line: &str| parse(line.into()).expect("parses");
        let made = |forced, source: &str, name: &str| Command {
            forced,
            source: (!source.is_empty()).then(|| source.into()),
            name: name.into(),
        };
        assert_eq!(
            command("refs/heads/a:refs/heads/b"),
            made(false, "refs/heads/a", "refs/heads/b")
        );
        assert_eq!(
            command("+HEAD^{/fix: it}:refs/heads/b"),
            made(true, "HEAD^{/fix: it}", "refs/heads/b")
        );
        assert_eq!(command(":refs/heads/b"), made(false, "", "refs/heads/b"));
        assert_eq!(command("+:refs/heads/b"), made(true, "", "refs/heads/b"));
        assert!(parse("refs/heads/a".into()).is_err());
        assert!(parse("refs/heads/a:".into()).is_err());
    }

    #[test]
    fn secrets_in_push_options_are_not_stored() {
        assert_eq!(
            push_option_name("token=hunter2=x".into()),
            ("push-option".into(), b"token".to_vec())
        );
        assert_eq!(
            push_option_name("ci.skip".into()),
            ("push-option".into(), b"ci.skip".to_vec())
        );
    }

    #[test]
    fn statuses_use_the_words_git_knows() {
        let id = ObjectId::null(Kind::Sha1);
        let update = |verdict, forced, new: Option<ObjectId>, lease| Update {
            name: "refs/heads/a".into(),
            source: None,
            old: None,
            new,
            forced,
            lease,
            verdict,
        };
        let apply = |rewinds| Verdict::Apply { rewinds, peeled: None };
        let stale = || {
            Some(EditResult::Rejected(Rejection::Stale {
                expected: String::new(),
                found: String::new(),
            }))
        };
        let applied = || Some(EditResult::Applied { old: None });
        let refused = Verdict::Refused("non-fast forward".into());
        for (update, result, line) in [
            (
                update(refused, false, Some(id), None),
                None,
                "error refs/heads/a non-fast forward",
            ),
            (
                update(Verdict::UpToDate, false, Some(id), None),
                None,
                "ok refs/heads/a \"up to date\"",
            ),
            (
                update(apply(false), false, Some(id), None),
                applied(),
                "ok refs/heads/a",
            ),
            (
                update(apply(true), true, Some(id), None),
                applied(),
                "ok refs/heads/a \"forced update\"",
            ),
            (update(apply(true), false, None, None), applied(), "ok refs/heads/a"),
            (
                update(apply(false), false, Some(id), None),
                stale(),
                "error refs/heads/a fetch first",
            ),
            (
                update(apply(true), false, Some(id), Some(id)),
                stale(),
                "error refs/heads/a stale info",
            ),
            (
                update(apply(false), false, Some(id), None),
                Some(EditResult::Rejected(Rejection::Atomic)),
                "error refs/heads/a atomic push failed",
            ),
        ] {
            assert_eq!(status(&update, result), line);
        }
    }
}
