//! What a batch of `push` lines asks for, in objects.

use std::collections::HashSet;

use anyhow::{Result, bail};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;
use znippy::{archive::Snapshot, pack::Kind};

use crate::{
    bounds,
    judge::{Update, Verdict},
    listing::Listing,
    objects::Objects,
    options::Options,
    ui::{self, Progress},
};

/// The references to update, judged as far as that needs no new object.
pub struct Request {
    pub updates: Vec<Update>,
    /// Tips of the archive that the client has too: a pack may build on them.
    pub bounds: Vec<ObjectId>,
}

impl Request {
    /// Reads `lines`, each what follows `push `, and asks the client's `objects` what the sources are and which tips of the
    /// archive it has.
    ///
    /// # Errors
    /// Fails where a line or a source means nothing.
    pub fn read(
        lines: &[BString],
        options: &Options,
        snapshot: Option<&Snapshot>,
        listed: &Listing,
        objects: &mut Objects,
    ) -> Result<Request> {
        let commands: Vec<Command> = lines.iter().map(|line| parse(line.as_bstr())).collect::<Result<_>>()?;
        let shown = listed.shown();
        let olds = old_values(&commands, snapshot, listed);
        let mut created = created(&commands, listed);
        let too_many = created.len() > MAX_CREATED;
        if too_many {
            created.clear();
        }
        let mut names: Vec<BString> = commands.iter().filter_map(|command| command.source.clone()).collect();
        let sources = names.len();
        names.extend(olds.iter().map(|old| BString::from(old.to_string())));
        names.extend(
            created
                .into_iter()
                .map(|source| BString::from([source, &b"^{}"[..]].concat())),
        );
        let _progress = Progress::new(options.voice, "Comparing references", false);
        let mut found = objects.look_up(&names)?;
        let created = found.split_off(sources + olds.len()).into_iter().flatten();
        let created = created.filter(|(_, kind)| *kind == Kind::Commit).map(|(id, _)| id);
        let mut found: Vec<_> = found.into_iter().map(|found| found.map(|(id, _)| id)).collect();
        let mut has: HashSet<ObjectId> = found.split_off(sources).into_iter().flatten().collect();
        let (near, far): (Vec<_>, Vec<_>) = created.partition(|commit| shown.contains(commit));
        has.extend(near);
        if let Some(snapshot) = snapshot
            && (too_many || !far.is_empty())
        {
            let nearest = match too_many {
                true => None,
                false => bounds::nearest(&far, &shown, snapshot.resolve_ref("HEAD".into())?, snapshot)?,
            };
            match nearest {
                Some(nearest) => has.extend(nearest),
                None => {
                    let names: Vec<BString> = shown.iter().map(|oid| oid.to_string().into()).collect();
                    has.extend(objects.resolve(&names)?.into_iter().flatten());
                }
            }
        }
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
            let old = listed.values.get(&name).copied();
            let lease = options.leases.get(&name).copied();
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
        let mut bounds: Vec<ObjectId> = has.into_iter().collect();
        if listed.live.is_some() {
            bounds.retain(|bound| shown.contains(bound));
        }
        bounds.sort_unstable();
        Ok(Request { updates, bounds })
    }
}

/// For more new references than these, all tips of the archive are considered at once.
const MAX_CREATED: usize = 64;

/// Returns the values to be replaced and the default branch: for an update, they are enough to build on, and quick.
fn old_values(commands: &[Command], snapshot: Option<&Snapshot>, listed: &Listing) -> Vec<ObjectId> {
    let pushed = commands.iter().filter(|command| command.source.is_some());
    let head = snapshot.and_then(|snapshot| snapshot.resolve_ref("HEAD".into()).ok());
    let olds = pushed.filter_map(|command| listed.values.get(&command.name).copied());
    let mut olds: Vec<ObjectId> = olds.chain(head.flatten()).collect();
    olds.sort_unstable();
    olds.dedup();
    olds
}

/// Returns the sources of references that are new, where there are others already.
fn created<'a>(commands: &'a [Command], listed: &Listing) -> Vec<&'a BStr> {
    if listed.values.is_empty() {
        return Vec::new();
    }
    let created = commands
        .iter()
        .filter(|command| !listed.values.contains_key(&command.name));
    created
        .filter_map(|command| Some(command.source.as_ref()?.as_bstr()))
        .collect()
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
}
