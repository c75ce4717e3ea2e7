//! Creating an archive: head and first commit in a file without a name, synced, then linked into place.
//!
//! What a crash leaves behind: before the link nothing (a nameless file vanishes with its process; where the disk has none, a
//! hidden temporary file that no one takes for an archive); after it, the whole archive. Where the disk has neither links nor
//! renames that do not replace, the name is first taken by a file that says who is doing that: a crash may leave it, and the next
//! first push on the same machine removes it once it sees that the process is gone.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bstr::BStr;
use gix_hash::Kind;

use super::{
    HeadHint, Outcome, Transaction, WritePolicy,
    append::{self, write_error},
    commit::commit,
    durability::Fast,
    file::creator,
    incoming::Incoming,
    prepare::{Addition, prepare},
};
use crate::{
    error::{Error, Result},
    format::{
        CommitId, HEAD_LEN,
        footer::{Footer, RefsState, Totals},
        head,
        ident::{Ident, uuid_from_random},
        recover::State,
        slot::Slot,
    },
    media::{Disk, FileKind, remove_lock_file, unmounted_ancestor, wait_for},
    pack::{EntryTable, Kind as ObjectKind, object::ObjectReader},
    refs::{
        EditResult, Expected, RefEdit, Target,
        apply::{Objects, apply},
        view::RefView,
    },
};

/// Creates an empty archive whose HEAD names `head` (unborn).
///
/// # Errors
/// Fails where the file exists or its parent does not.
pub fn create(path: &Path, format: Kind, head: &BStr) -> Result<()> {
    let edit = RefEdit {
        name: "HEAD".into(),
        expected: Expected::Absent,
        new: Some(Target::Symbolic(head.to_owned())),
        rewinds: false,
    };
    let mut transaction = Transaction {
        edits: vec![edit],
        ..Transaction::default()
    };
    match try_create(path, format, &mut transaction, &mut WritePolicy::default())? {
        Created::Yes(outcome) => match outcome.results.into_iter().next() {
            Some(EditResult::Rejected(why)) => Err(Error::Invalid(format!("{}: {why}", path.display()))),
            _ => Ok(()),
        },
        Created::Exists => Err(Error::AlreadyExists { path: path.into() }),
    }
}

/// Creates the archive with `transaction` as its first commit, so that no empty state is ever visible. Where another
/// process created it first, commits to the winner, by whose state the edits are then judged.
///
/// # Errors
/// As [`commit`]; and where the parent directory is missing, or is the mount point of a disk that is not mounted.
pub fn create_with(
    path: &Path,
    format: Kind,
    mut transaction: Transaction,
    mut policy: WritePolicy<'_>,
) -> Result<Outcome> {
    loop {
        match try_create(path, format, &mut transaction, &mut policy)? {
            Created::Yes(outcome) => return Ok(outcome),
            Created::Exists if await_creator(path, &mut policy)? => return commit(path, transaction, policy),
            // Who was about to create it did not.
            Created::Exists => {}
        }
    }
}

/// An empty file says no more about who is creating it than that nobody has got further: for no longer than this.
const PATIENCE_WITH_EMPTY: Duration = Duration::from_secs(2);

/// R14: waits while a file only takes the place of an archive that somebody is about to create. Returns whether an archive is
/// there then. The file of a process that is known to be gone is removed.
///
/// # Errors
/// [`Error::BeingCreated`] after the policy's timeout.
fn await_creator(path: &Path, policy: &mut WritePolicy<'_>) -> Result<bool> {
    let disk = policy.disk;
    let started = Instant::now();
    let mut last = None;
    let look = || -> io::Result<Option<bool>> {
        let found = disk
            .open(path, false)
            .and_then(|file| creator(file.as_ref(), file.len()?));
        match found {
            Ok(None) => return Ok(Some(true)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(false)),
            // It was replaced just now.
            Err(error) if error.kind() == io::ErrorKind::StaleNetworkFileHandle => return Ok(None),
            // For whoever writes to it.
            Err(_) => return Ok(Some(true)),
            Ok(Some(holder)) => last = holder,
        }
        match &last {
            Some(holder) if holder.is_dead() => drop(remove_lock_file(disk, path, Some(holder))?),
            None if started.elapsed() >= PATIENCE_WITH_EMPTY => return Err(io::ErrorKind::TimedOut.into()),
            _ => {}
        }
        Ok(None)
    };
    let tell = |waited: Duration, _| {
        if let Some(on_wait) = &mut policy.on_wait {
            let (waited, path) = (waited.as_secs(), path.display());
            on_wait(&format!(
                "waiting {waited} s for the creation of {path} by another writer"
            ));
        }
    };
    let waited = wait_for(|| Ok(0), policy.timeout, look, tell);
    waited.map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => Error::BeingCreated {
            path: path.into(),
            holder: last.map(|holder| holder.to_string()),
        },
        _ => Error::io(path, "take the place of")(error),
    })
}

enum Created {
    Yes(Outcome),
    Exists,
}

fn try_create(
    path: &Path,
    format: Kind,
    transaction: &mut Transaction,
    policy: &mut WritePolicy<'_>,
) -> Result<Created> {
    let disk = policy.disk;
    let parent = parent_of(disk, path)?;
    if disk.stat(path).is_ok() {
        return Ok(Created::Exists);
    }
    let view = RefView::default();
    let incoming = Incoming::new(&transaction.packs, format);
    let reader = ObjectReader::new(&incoming);
    let exists = |id: &gix_hash::oid| Ok(incoming.has(id));
    let is_commit = |id: &gix_hash::oid| match incoming.is_commit(id) {
        Some(is_commit) => Ok(is_commit),
        None => Ok(reader.header(id)?.is_some_and(|(kind, _)| kind == ObjectKind::Commit)),
    };
    let HeadHint { candidates } = &transaction.head;
    let applied = apply(
        &view,
        &transaction.edits,
        transaction.atomic,
        candidates,
        &Objects {
            exists: &exists,
            is_commit: &is_commit,
        },
        &|_, _| Ok(None),
    )?;
    let outcome = |written| Outcome {
        results: applied.results.clone(),
        head_moved: applied.head_moved.clone(),
        head_unborn: false,
        written,
        warnings: vec![],
        notes: vec![],
    };
    if transaction.dry_run || applied.changes.is_empty() {
        return Ok(Created::Yes(outcome(false)));
    }
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Error::io(path, "make an identity for")(error.into()))?;
    let ident = Ident {
        object_format: format,
        uuid: uuid_from_random(random),
        generation: 1,
    };
    let temporary = disk.temporary(path).map_err(Error::io(path, "create"))?;
    let medium = temporary.file();
    medium
        .write_all_at(0, &head::encode(&ident))
        .map_err(write_error(path))?;
    let addition = Addition {
        // Kept, so that they can go into the winner's archive if another process is faster.
        packs: transaction.packs.iter().map(clone_pack).collect::<Result<_>>()?,
        changes: applied.changes.clone(),
        rewound: false,
        actor: transaction.actor.clone(),
        settings: transaction.settings.clone(),
        ..Addition::default()
    };
    let prepared = prepare(path, &empty_state(ident), &view, addition)?;
    let on_copy = |done, total| {
        if let Some(on_copy) = &mut policy.on_copy {
            on_copy(done, total);
        }
    };
    // Nobody can see the file yet: it is synced as a whole, and before that nothing counts.
    let written = append::write(medium.as_ref(), path, &prepared, &mut Fast, &|| Ok(()), on_copy);
    written.map_err(|failure| failure.into_error(path))?;
    let end = prepared.commit.end();
    let slot = Slot {
        write: 1,
        append: end,
        footer_end: end,
        commit_id: prepared.commit.footer.commit_id,
    };
    // Nobody can see the file yet, so one sync may cover data and slot alike.
    medium
        .write_all_at(slot.offset(), &slot.encode())
        .map_err(write_error(path))?;
    medium.sync_all().map_err(Error::io(path, "sync"))?;
    match temporary.link(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            refuse_dangling_link(path)?;
            return Ok(Created::Exists);
        }
        Err(error) => return Err(Error::io(path, "create")(error)),
    }
    sync_directory(disk, &parent)?;
    Ok(Created::Yes(outcome(true)))
}

/// Fails where the name is taken by a symbolic link that leads to no file: there is nothing that will ever be an archive.
fn refuse_dangling_link(path: &Path) -> Result<()> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    match fs::metadata(path) {
        Err(error) if is_link && error.kind() == io::ErrorKind::NotFound => {
            let why = "it is a symbolic link to a file that does not exist: remove it, or name that file itself";
            Err(Error::io(path, "create")(io::Error::new(error.kind(), why)))
        }
        _ => Ok(()),
    }
}

fn clone_pack(pack: &super::NewPack) -> Result<super::NewPack> {
    Ok(super::NewPack {
        data: pack.data.try_clone().map_err(Error::io(&pack.path, "read"))?,
        path: pack.path.clone(),
        id: pack.id,
        entries: EntryTable::clone(&pack.entries),
        proof: pack.proof,
        commits: pack.commits.clone(),
    })
}

fn empty_state(ident: Ident) -> State {
    let footer = Footer {
        ident,
        sequence: 0,
        commit_id: CommitId::NONE,
        blocks: vec![],
        refs: RefsState::default(),
        totals: Totals::default(),
        policy: vec![],
    };
    State {
        footer,
        footer_len: 0,
        footer_end: HEAD_LEN,
        append: HEAD_LEN,
    }
}

/// Returns the directory that a new archive goes into.
fn parent_of(disk: &dyn Disk, path: &Path) -> Result<PathBuf> {
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.into(),
        None => return Err(Error::IsDirectory { path: path.into() }),
    };
    let is_directory = disk.stat(&parent).is_ok_and(|stat| stat.kind == FileKind::Directory);
    // A backup must not go into an empty mount point, to be hidden as soon as the disk is back.
    let is_unmounted = || {
        parent
            .canonicalize()
            .is_ok_and(|parent| unmounted_ancestor(&parent).is_some())
    };
    if !is_directory || is_unmounted() {
        return Err(Error::MissingParent { path: path.into() });
    }
    Ok(parent)
}

/// Makes a new name durable. Disks that cannot sync a directory say EINVAL, which is not an error: there is nothing to do. Nor is
/// there where names may be made but the directory not be read.
pub(super) fn sync_directory(disk: &dyn Disk, directory: &Path) -> Result<()> {
    match disk.sync_directory(directory) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOTSUP | libc::EACCES)) => Ok(()),
        other => other.map_err(Error::io(directory, "sync the directory")),
    }
}
