//! From a request and a pack to a commit.

use std::{collections::HashSet, io::BufRead, path::Path};

use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;

use super::{Command, Policy, ReceiveOptions, Report, Request, Snapshot, Spool, report::Status, shallow::without_cut};
use crate::{
    Error, Result,
    archive::{self, HeadHint, NewPack, Transaction, prove},
    pack::{
        Kind, PackStore,
        disk::{DiskPack, Layered},
        graph::{is_ancestor, peel},
        incoming::{self, IncomingError, Limits},
        object::ObjectReader,
    },
    policy::Service,
    refs::{
        EditResult, Expected, MAX_IN_A_ROW, RefEdit, Rejection, Target,
        alias::{Alias, INCONSISTENT, aliases},
        name,
    },
};

/// What the spool is called in messages.
pub(super) const SPOOL: &str = "the pushed pack";

/// So many commits are looked at to tell whether an update rewinds: the archive only remembers that it may.
const REWIND_BOUND: usize = 2000;

/// So much of the name of a push option is stored.
const OPTION_NAME: usize = 128;

/// Stores a push, and returns what became of it.
pub(super) fn store(
    snapshot: &Snapshot,
    policy: &Policy,
    request: &Request,
    input: &mut dyn BufRead,
    options: ReceiveOptions<'_>,
) -> Report {
    match try_store(snapshot, policy, request, input, options) {
        Ok(report) => report,
        Err(error) => Report::failed(request, error.to_string()),
    }
}

fn try_store(
    snapshot: &Snapshot,
    policy: &Policy,
    request: &Request,
    input: &mut dyn BufRead,
    options: ReceiveOptions<'_>,
) -> Result<Report> {
    let ReceiveOptions {
        actor,
        spool,
        fsck,
        policy: write_policy,
        ..
    } = options;
    let pack = match request.has_pack() {
        true => receive(snapshot, policy, input, spool)?,
        false => None,
    };
    let mut notes = Vec::new();
    if let (Some(pack), true) = (&pack, policy.checks_objects()) {
        let checked = fsck(pack)?;
        notes.extend(ByteSlice::lines(checked.told.as_slice()).map(|line| line.to_str_lossy().into_owned()));
        if !checked.passes {
            let mut report = Report::failed(request, "index-pack abnormal exit");
            report.notes = notes;
            return Ok(report);
        }
    }
    let mut statuses: Vec<Option<Status>> = request.commands.iter().map(refuse_early).collect();
    let mut relies_on = advertised(snapshot, policy)?;
    let pack = match pack {
        Some(pack) => proven_or_cut(snapshot, pack, request, &mut statuses, &mut relies_on, spool)?,
        None => None,
    };
    let Edits { edits, same } = edits(snapshot, pack.as_ref(), request, &mut statuses)?;
    let applies = |status: &Option<Status>| status.is_none();
    let refused = |status: &Option<Status>| matches!(status, Some(Status::No(_)));
    if request.is_atomic() && statuses.iter().any(refused) {
        for status in statuses.iter_mut().filter(|status| status.is_none()) {
            *status = Some(Status::No("atomic push failure".into()));
        }
    }
    if !statuses.iter().any(applies) {
        return Ok(report(statuses, vec![], &same, notes));
    }
    let rewinds: Vec<bool> = edits.iter().map(|edit| edit.rewinds).collect();
    let transaction = Transaction {
        basis: Some(snapshot.clone()),
        packs: pack.into_iter().map(|(_, pack)| pack).collect(),
        has_surplus: statuses.iter().any(refused),
        edits,
        relies_on,
        atomic: request.is_atomic(),
        actor,
        settings: request
            .push_options
            .iter()
            .map(|option| option_name(option.as_bstr()))
            .collect(),
        head: HeadHint {
            candidates: head_candidates(request),
        },
        is_push: true,
        ..Transaction::default()
    };
    let outcome = archive::commit(snapshot.path(), transaction, write_policy)?;
    for result in &outcome.results {
        if let EditResult::Rejected(Rejection::Pack(why)) = result {
            return Ok(Report::failed(request, why));
        }
    }
    let results = outcome
        .results
        .into_iter()
        .zip(rewinds)
        .map(|(result, rewinds)| match result {
            EditResult::Applied { old } => Status::Ok {
                forced: rewinds && old.is_some(),
                old: old.and_then(|old| match old {
                    Target::Object { oid, .. } => Some(oid),
                    Target::Symbolic(_) => None,
                }),
            },
            EditResult::Unchanged => Status::Ok {
                old: None,
                forced: false,
            },
            EditResult::Rejected(Rejection::Stale { .. }) => Status::No("failed to update ref".into()),
            EditResult::Rejected(why) => Status::No(why.to_string()),
        });
    notes.extend(outcome.warnings.iter().map(|text| format!("warning: {text}")));
    notes.extend(
        outcome
            .head_moved
            .map(|branch| format!("HEAD of the archive is now {branch}")),
    );
    if outcome.head_unborn {
        notes.push("warning: HEAD of the archive names no branch now: a clone will check out nothing".into());
    }
    Ok(report(statuses, results.collect(), &same, notes))
}

/// Returns the values that the client was shown: of these its pack may leave out what they reach.
fn advertised(snapshot: &Snapshot, policy: &Policy) -> Result<Vec<ObjectId>> {
    let shown = snapshot.refs()?.into_iter().filter_map(|each| match each.target {
        Target::Object { oid, .. } if !policy.hides(Service::ReceivePack, each.name.as_bstr()) => Some(oid),
        _ => None,
    });
    Ok(shown.collect())
}

/// Puts the results of the edits in the places of the commands that they are of. `same` are commands that have the results of others.
fn report(statuses: Vec<Option<Status>>, results: Vec<Status>, same: &[(usize, usize)], notes: Vec<String>) -> Report {
    let mut results = results.into_iter();
    let unknown = || Status::No("not done".into());
    let mut statuses: Vec<Status> = statuses
        .into_iter()
        .map(|status| status.or_else(|| results.next()).unwrap_or_else(unknown))
        .collect();
    for (at, other) in same {
        statuses[*at] = statuses[*other].clone();
    }
    Report {
        unpack: None,
        statuses,
        notes,
    }
}

/// Takes the pack out of the stream. `None` where it has no objects.
fn receive(
    snapshot: &Snapshot,
    policy: &Policy,
    input: &mut dyn BufRead,
    spool: Spool<'_>,
) -> Result<Option<DiskPack>> {
    let file = spool.make()?;
    let limits = Limits {
        pack: policy.max_input_size().unwrap_or(u64::MAX),
        object: policy.max_object_size().unwrap_or(Limits::default().object),
    };
    let format = snapshot.object_format();
    let received = incoming::receive(input, &file, format, limits, Some(snapshot), &mut |_, _| ());
    let received = received.map_err(|error| match error {
        IncomingError::Spool(source) => spool.failed(source),
        error => Error::InvalidPack {
            name: SPOOL.into(),
            why: error.to_string(),
        },
    })?;
    if received.entries.is_empty() {
        return Ok(None);
    }
    DiskPack::with_file(file, Path::new(SPOOL), received.entries, received.id).map(Some)
}

/// Proves a pack, or of one from a shallow clone that would cut the history of some references, what the others need.
fn proven_or_cut(
    snapshot: &Snapshot,
    pack: DiskPack,
    request: &Request,
    statuses: &mut [Option<Status>],
    relies_on: &mut Vec<ObjectId>,
    spool: Spool<'_>,
) -> Result<Option<(DiskPack, NewPack)>> {
    let tips = |statuses: &[Option<Status>]| -> Vec<ObjectId> {
        let commands = request.commands.iter().zip(statuses);
        commands
            .filter(|(_, status)| status.is_none())
            .filter_map(|(command, _)| command.new)
            .collect()
    };
    let new = proven(snapshot, &pack, &tips(statuses), relies_on);
    if !request.shallow.is_empty() && matches!(new, Err(Error::Incomplete { .. })) {
        let known = relies_on.clone();
        let Some(pack) = without_cut(snapshot, &pack, request, &known, statuses, spool)? else {
            return Ok(None);
        };
        let new = proven(snapshot, &pack, &tips(statuses), relies_on)?;
        return Ok(Some((pack, new)));
    }
    Ok(Some((pack, new?)))
}

/// Proves that every object bears its name and that nothing is missing.
fn proven(snapshot: &Snapshot, pack: &DiskPack, tips: &[ObjectId], relies_on: &mut Vec<ObjectId>) -> Result<NewPack> {
    let proven = prove(Some(snapshot), pack, 0, tips, None, None)?;
    relies_on.extend(proven.relies_on);
    let file = pack.file().try_clone().map_err(Error::io(SPOOL, "read"))?;
    let mut entries = pack.table().as_ref().clone();
    (entries.kinds, entries.sizes) = (proven.kinds, proven.sizes);
    Ok(NewPack {
        data: file.into(),
        path: SPOOL.into(),
        id: pack.pack_id(0)?,
        entries,
        proof: proven.proof,
        commits: proven.commits,
    })
}

/// Judges what needs no object.
fn refuse_early(command: &Command) -> Option<Status> {
    let is_name = command.name.starts_with(b"refs/") && name::validate(command.name.as_bstr()).is_ok();
    (command.new.is_some() && !is_name).then(|| Status::No("funny refname".into()))
}

/// What the commands of a push come to.
struct Edits {
    /// One for each command without a status.
    edits: Vec<RefEdit>,
    /// Commands that ask for what others ask for already, through a symbolic reference, by their places.
    same: Vec<(usize, usize)>,
}

/// Makes the edits of the commands that no status refuses, and adds statuses where one cannot be made.
fn edits(
    snapshot: &Snapshot,
    pack: Option<&(DiskPack, NewPack)>,
    request: &Request,
    statuses: &mut [Option<Status>],
) -> Result<Edits> {
    // New objects first: most questions are about them.
    let mut stores: Vec<&dyn PackStore> = Vec::new();
    stores.extend(pack.map(|(pack, _)| pack as &dyn PackStore));
    stores.push(snapshot);
    let store = Layered::new(&stores)?;
    let reader = ObjectReader::new(&store);
    let mut made: Vec<(usize, RefEdit)> = Vec::new();
    let mut seen = HashSet::new();
    for (at, (command, status)) in request.commands.iter().zip(statuses.iter_mut()).enumerate() {
        if status.is_none() && !seen.insert(&command.name) {
            *status = Some(Status::No("multiple updates for ref".into()));
        }
        if status.is_none() {
            match edit(snapshot, &reader, command)? {
                Ok(edit) => made.push((at, edit)),
                Err(why) => *status = Some(Status::No(why)),
            }
        }
    }
    let same = aliased(&made, statuses);
    made.retain(|(at, _)| statuses[*at].is_none());
    let edits = made.into_iter().map(|(_, edit)| edit).collect();
    Ok(Edits { edits, same })
}

/// Gives a status to each command that leads to the reference of another one, and returns those that have the result of the other.
fn aliased(made: &[(usize, RefEdit)], statuses: &mut [Option<Status>]) -> Vec<(usize, usize)> {
    let mut same = Vec::new();
    for ((at, _), alias) in made.iter().zip(aliases(made.iter().map(|(_, edit)| edit))) {
        statuses[*at] = match alias {
            Alias::Own => continue,
            Alias::Same(other) => {
                same.push((*at, made[other].0));
                Some(Status::Ok {
                    old: None,
                    forced: false,
                })
            }
            Alias::Inconsistent => Some(Status::No(INCONSISTENT.into())),
        };
    }
    same
}

fn edit(snapshot: &Snapshot, reader: &ObjectReader<'_>, command: &Command) -> Result<Result<RefEdit, String>> {
    let mut name = command.name.clone();
    let mut expected = command.old.map_or(Expected::Absent, Expected::Oid);
    // An update goes through a symbolic reference, a deletion deletes the reference itself.
    for _ in 0..MAX_IN_A_ROW {
        match snapshot.find_ref(name.as_bstr())? {
            Some(Target::Symbolic(to)) if command.new.is_none() => {
                if snapshot.resolve_ref(to.as_bstr())? != command.old {
                    return Ok(Err("failed to update ref".into()));
                }
                expected = Expected::Symbolic(to);
                break;
            }
            Some(Target::Symbolic(to)) => name = to,
            _ => break,
        }
    }
    let mut rewinds = false;
    let new = match command.new {
        None => None,
        Some(new) => {
            if reader.find(&new)?.is_none() {
                return Ok(Err("bad pack".into()));
            }
            let (kind, peeled) = peel(reader, &new)?;
            if kind != Kind::Commit && name.starts_with(b"refs/heads/") {
                return Ok(Err(format!("a branch must point at a commit, not at a {kind}")));
            }
            if let Some(old) = command.old {
                rewinds = !fast_forwards(reader, &old, peeled.as_ref().unwrap_or(&new));
            }
            Some(Target::Object { oid: new, peeled })
        }
    };
    Ok(Ok(RefEdit {
        name,
        expected,
        new,
        rewinds,
    }))
}

/// Returns whether the new value is known to keep the old one reachable.
fn fast_forwards(reader: &ObjectReader<'_>, old: &ObjectId, new: &ObjectId) -> bool {
    let is_commit = |id| matches!(reader.header(id), Ok(Some((Kind::Commit, _))));
    is_commit(old) && is_commit(new) && matches!(is_ancestor(reader, old, new, Some(REWIND_BOUND)), Ok(Some(true)))
}

/// HEAD of an archive without branches: the only branch that is pushed is what the client calls its own.
fn head_candidates(request: &Request) -> Vec<BString> {
    let branches = request
        .commands
        .iter()
        .filter(|command| command.new.is_some() && command.name.starts_with(b"refs/heads/"));
    let mut branches = branches.map(|command| command.name.clone());
    let first = branches.next();
    first.filter(|_| branches.next().is_none()).into_iter().collect()
}

/// Only the name of a push option is stored: its value may be a secret. Of a long one, its start.
fn option_name(option: &BStr) -> (String, Vec<u8>) {
    let name = option.split_once_str("=").map_or(option.as_bytes(), |(name, _)| name);
    let name = &name[..name.len().min(OPTION_NAME)];
    ("push-option".to_owned(), name.to_vec())
}
