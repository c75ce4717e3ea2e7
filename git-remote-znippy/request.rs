//! What a batch of `push` lines asks for, in objects.

use std::collections::HashSet;

use anyhow::{Result, bail};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;
use znippy::archive::Snapshot;

use crate::{
    judge::{Update, Verdict},
    listing::Listing,
    objects,
    options::Options,
    ui,
};

/// The references to update, judged as far as that needs no new object.
pub struct Request {
    pub updates: Vec<Update>,
    /// Tips of the archive that the client has too: a pack may build on them.
    pub bounds: Vec<ObjectId>,
}

impl Request {
    /// Reads `lines`, each what follows `push `, and asks the client, once, what the sources are and which tips of the
    /// archive it has.
    ///
    /// # Errors
    /// Fails where a line or a source means nothing.
    pub fn read(
        lines: &[BString],
        options: &Options,
        snapshot: Option<&Snapshot>,
        listed: &Listing,
    ) -> Result<Request> {
        let commands: Vec<Command> = lines.iter().map(|line| parse(line.as_bstr())).collect::<Result<_>>()?;
        let bounds = candidate_bounds(&commands, snapshot, listed);
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
        let bounds = bounds.into_iter().filter(|bound| has.contains(bound)).collect();
        Ok(Request { updates, bounds })
    }
}

/// Returns tips of the archive that a pack may build on, if the client has them: for an update the values to be replaced and
/// the default branch are enough, and quick; for a new reference any may be the nearest.
fn candidate_bounds(commands: &[Command], snapshot: Option<&Snapshot>, listed: &Listing) -> Vec<ObjectId> {
    let pushed = commands.iter().filter(|command| command.source.is_some());
    let old_values: Option<Vec<ObjectId>> = pushed
        .map(|command| listed.values.get(&command.name).copied())
        .collect();
    let mut bounds = match old_values {
        None => listed.values.values().copied().collect(),
        Some(mut values) => {
            let head = snapshot.and_then(|snapshot| snapshot.resolve_ref("HEAD".into()).ok());
            values.extend(head.flatten());
            values
        }
    };
    bounds.sort_unstable();
    bounds.dedup();
    bounds
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
