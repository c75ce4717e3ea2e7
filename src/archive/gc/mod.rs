//! `gc`: writing an archive anew, without what is dead, and putting the new file in the place of the old one.
//!
//! 1. The snapshot of the old generation is decided upon: what references reach is kept, and what they do not reach until it
//!    expires (`keep`).
//! 2. Without any lock on the archive the new generation is written to `.NAME.gc` beside it, read back and checked (`rewrite`),
//!    and synced. What is pushed meanwhile is proven as it comes in (`carry`).
//! 3. Under the writer lock what was pushed since is carried over and checked, the file is synced and renamed, the directory
//!    synced, and a tombstone written into the old file (`swap`). The new file is locked all the while, so that nobody is
//!    faster there.
//!
//! What is checked before the rename, all of it read back from the new file:
//!
//! | what | how |
//! |---|---|
//! | every object of the pack bears its name, and all it refers to is in the pack | `resolve`, of the pack as it stands in the file |
//! | every reference names such an object | compared with that |
//! | every commit is whole, and follows from the one before | `check_commit` |
//! | columns, checksums of sections, the history, the pack's trailer and the CRC of each entry | [`GcOptions::check`]: the command line gives the checker of `verify`; without one the checksums alone, every byte |
//! | what was carried over | R9: the closure of each pack; every byte of its commits |
//!
//! The graph of commits is not compared with the commits once more, but for those that are read here: rows of packs that were proven
//! before are taken over as they are. `verify --full` compares them.
//!
//! What a crash leaves behind, and who repairs it (R16):
//!
//! | after | on disk | repaired by |
//! |---|---|---|
//! | creating `.NAME.gc`, or any part of writing it | the old generation, untouched, and a file that nobody holds | the next gc removes it |
//! | carrying over under the lock, before the rename | the same; pushes wait for a lock that the kernel has released | the same |
//! | the rename, before the directory was synced | under the name either the old or the new generation, each whole; nobody could push to the new one, whose lock was held | the next gc removes a `.NAME.gc` that came back |
//! | the directory's sync, before the tombstone | the new generation; who still has the old file open finds it nameless and goes back to the path | nobody |
//! | part of the tombstone | the same; half a line is no tombstone | nobody |
//!
//! A failure, in contrast to a crash, removes the temporary file and leaves the old generation as it was: a damaged entry, a
//! full disk, a pushed object that relies on a pruned one, a disk that refuses to rename over an open file.

mod carry;
mod history;
mod keep;
mod record;
mod rewrite;
mod swap;

use std::path::{Path, PathBuf};

use bstr::BString;

pub use keep::Expire;
pub use swap::temporary_path;

use self::{
    carry::CarryOver,
    history::History,
    keep::Kept,
    record::Record,
    rewrite::Rewrite,
    swap::{Temporary, busy},
};
use super::{
    Snapshot, WritePolicy,
    locking::{reach, refuse_unshared, take_maintenance_lock},
    writer::{Writer, with_writer},
};
use crate::{
    error::{Error, Result},
    format::{
        recover::{Scrutiny, Tail},
        row::{Row, RowKind},
        slot::Slot,
    },
    media::{Disk, DiskFile},
    pack::PackStore,
};

/// Below so many dead bytes, or such a part of the file, `auto` does nothing.
const AUTO_BYTES: u64 = 64 << 20;
const AUTO_PERCENT: u64 = 30;
/// A rewrite writes about so many bytes that were not there before: metadata, footer, and the history in a commit of its own.
const OWN_BYTES: u64 = 16 << 10;
/// How often a rewrite starts again because a push relied on what it had pruned.
const MAX_RESTARTS: usize = 3;
/// How often what was pushed meanwhile is proven before the lock is taken.
const MAX_ROUNDS: usize = 20;

/// How to rewrite an archive.
pub struct GcOptions<'a> {
    pub expire: Expire,
    /// The time by which marks are made and judged: microseconds since 1970.
    pub now_us: i64,
    /// Do nothing unless that gives back at least 30 % of the file and 64 MiB.
    pub auto: bool,
    /// Say what would be done, and write nothing.
    pub dry_run: bool,
    /// Rewrite even where nothing is gained by it.
    pub force: bool,
    /// Rewrite a file that has several names, which all but one then go on naming the old generation, or that is a mount point.
    pub break_links: bool,
    /// Who does it: free bytes, for the log only.
    pub actor: Option<BString>,
    pub progress: Option<&'a mut OnProgress<'a>>,
    /// Checks the new generation before it takes the place of the old one, in place of a look at its checksums alone.
    pub check: Option<&'a CheckGeneration<'a>>,
}

/// Fails where a new generation is not whole.
pub type CheckGeneration<'a> = dyn Fn(&Snapshot) -> Result<()> + 'a;

impl Default for GcOptions<'_> {
    fn default() -> Self {
        GcOptions {
            expire: Expire::default(),
            now_us: now_us(),
            auto: false,
            dry_run: false,
            force: false,
            break_links: false,
            actor: None,
            progress: None,
            check: None,
        }
    }
}

/// How far a rewrite is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// So many objects were found to be reachable.
    Counting(u64),
    /// Objects copied, and of all.
    Copying(u64, u64),
    /// Objects of the new file read back and hashed, and of all.
    Checking(u64, u64),
}

/// Is called now and then.
pub type OnProgress<'a> = dyn FnMut(Progress) + 'a;

/// What a rewrite did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcReport {
    /// The archive, without symbolic links on the way.
    pub path: PathBuf,
    /// Whether there is a new generation.
    pub rewritten: bool,
    /// The generation that is the archive now.
    pub generation: u64,
    pub packs_before: u64,
    pub packs_after: u64,
    /// Objects in the archive now, of a dry run those that would be.
    pub objects: u64,
    /// Objects that went because they had expired.
    pub pruned: u64,
    /// Objects that no reference reaches and that have not expired.
    pub unreachable: u64,
    /// Transactions that came in meanwhile.
    pub carried: u64,
    /// Objects of which a damaged copy was replaced by a sound one.
    pub healed: u64,
    pub bytes_before: u64,
    pub bytes_after: u64,
    pub warnings: Vec<String>,
}

/// Writes the archive at `path` anew.
///
/// # Errors
/// Nothing was changed. See [`Error::Locked`] (another writer, gc or index run), [`Error::NotReplaced`] (the disk refuses the
/// rename), [`Error::HasLinks`]; R19: a damaged object of which there is no other copy is named.
pub fn gc(path: &Path, mut options: GcOptions<'_>, policy: &mut WritePolicy<'_>) -> Result<GcReport> {
    let disk = policy.disk;
    let path = &disk.canonical(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::NotFound { path: path.into() },
        _ => Error::io(path, "find")(error),
    })?;
    let mut restarts = 0;
    loop {
        match once(path, &mut options, policy) {
            Err(Failure::ReliesOnPruned(_)) if restarts < MAX_RESTARTS => {
                restarts += 1;
                if restarts == MAX_RESTARTS {
                    options.expire = Expire::Never;
                }
            }
            Err(Failure::ReliesOnPruned(error) | Failure::Other(error)) => return Err(error),
            Ok(mut report) => {
                if restarts == MAX_RESTARTS {
                    let why = "pushes relied on what was to be removed, again and again; nothing was removed this time";
                    report.warnings.push(why.into());
                }
                return Ok(report);
            }
        }
    }
}

enum Failure {
    /// Something that was pushed meanwhile needs an object that was pruned, or that came after it: a new attempt finds that object
    /// reachable.
    ReliesOnPruned(Error),
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Other(error)
    }
}

fn once(path: &Path, options: &mut GcOptions<'_>, policy: &mut WritePolicy<'_>) -> Result<GcReport, Failure> {
    let disk = policy.disk;
    let file = disk.open(path, true).map_err(Error::io(path, "open for writing"))?;
    refuse_links(disk, path, file.as_ref(), options.break_links)?;
    // Before all the work, not after it.
    refuse_unshared(&reach(file.as_ref(), path)?, path, policy.lock)?;
    let Some(_only_one) = take_maintenance_lock(file.as_ref(), path, policy.lock)? else {
        return Err(busy(path).into());
    };
    let source = Snapshot::open_on(disk, path)?;
    let mut report = GcReport {
        path: path.into(),
        generation: source.generation(),
        packs_before: source.packs().into(),
        packs_after: source.packs().into(),
        objects: source.state().footer.totals.objects,
        bytes_before: source.file_len(),
        bytes_after: source.file_len(),
        warnings: source.warnings().to_vec(),
        ..GcReport::default()
    };
    if options.auto && !is_worth_it(source.info()?.dead_bytes, source.file_len()) {
        return Ok(report);
    }
    let mut quiet = |_| ();
    let progress: &mut OnProgress<'_> = match &mut options.progress {
        Some(progress) => progress,
        None => &mut quiet,
    };
    let mut history = History::read(&source)?;
    let kept = Kept::decide(&source, &history, options.expire, options.now_us, progress)?;
    report.objects = kept.objects.len() as u64;
    report.pruned = kept.pruned.len() as u64;
    report.unreachable = kept.unreachable();
    let has_news = report.pruned > 0 || kept.marks != history.record.marks;
    if options.dry_run || !options.force && !has_news && is_compact(&source)? {
        if !options.dry_run {
            swap::sweep_left(disk, path)?;
        }
        return Ok(report);
    }
    let record = Record {
        horizon: history.horizon(|id| kept.pruned.get(id.as_slice()).is_some()),
        marks: kept.marks.clone(),
        earlier: history.record.earlier.clone(),
    };
    let temporary = Temporary::create(disk, path, policy.lock)?;
    let row = Row {
        actor: options.actor.clone(),
        ..Row::new(0, options.now_us, RowKind::Gc)
    };
    let mut rewrite = Rewrite::start(&source, temporary.file.clone())?;
    rewrite.write_base(&source, &mut history, &kept, &record, row, progress)?;
    rewrite.write_history(std::mem::take(&mut history.rows))?;
    drop((history, kept));
    let base = match options.check {
        None => rewrite.check(Scrutiny::EveryByte)?,
        Some(check) => {
            let base = rewrite.check(Scrutiny::Outline)?;
            check(&base)?;
            base
        }
    };
    // Most of it is on the disk before anybody has to wait for that.
    temporary
        .file
        .sync_data()
        .map_err(Error::io(path, "sync the new generation of"))?;
    let relies = |error| match error {
        Error::MissingObject { .. } => Failure::ReliesOnPruned(error),
        other => Failure::Other(other),
    };
    let mut carry = CarryOver::new(&source, &base);
    for _ in 0..MAX_ROUNDS {
        let now = Snapshot::open_on(disk, path)?;
        if now.generation() != source.generation() || carry.prove(&now).map_err(relies)? == 0 {
            break;
        }
    }
    let finished = with_writer(path, None, policy, |writer, policy| {
        finish(
            path,
            &source,
            &base,
            carry,
            rewrite,
            temporary,
            options,
            writer,
            policy.disk,
            &mut report,
        )
    });
    finished.map_err(relies)?;
    Ok(report)
}

/// Carries over what is left, and puts the new generation in the place of the old one; under the writer lock.
#[expect(clippy::too_many_arguments, reason = "the second half of one function")]
fn finish(
    path: &Path,
    source: &Snapshot,
    base: &Snapshot,
    carry: CarryOver<'_>,
    mut rewrite: Rewrite,
    temporary: Temporary<'_>,
    options: &GcOptions<'_>,
    writer: Writer<'_>,
    disk: &dyn Disk,
    report: &mut GcReport,
) -> Result<()> {
    let now = &writer.snapshot;
    if now.generation() != source.generation() || now.uuid() != source.uuid() {
        return Err(Error::Replaced { path: path.into() });
    }
    if let Tail::Damaged { why, .. } = writer.tail() {
        // It may have been acknowledged: what can be repaired of it must not go.
        return Err(Error::Damaged {
            path: path.into(),
            what: format!("bytes behind the last good commit would be lost by a gc ({why})"),
        });
    }
    refuse_links(disk, path, writer.file(), options.break_links)?;
    report.carried = carry.append(now, &mut rewrite)? as u64;
    if report.carried > 0 {
        rewrite.check_since(base.state())?;
    }
    let slot = Slot {
        write: 1,
        append: rewrite.state.append,
        footer_end: rewrite.state.footer_end,
        commit_id: rewrite.state.footer.commit_id,
    };
    let new = temporary.file.clone();
    let sync = |error| Error::io(path, "write the new generation of")(error);
    new.write_all_at(slot.offset(), &slot.encode()).map_err(sync)?;
    new.sync_all().map_err(sync)?;
    report
        .warnings
        .extend(temporary.replace(path, writer.file(), source.generation() + 1)?);
    report.rewritten = true;
    report.generation = source.generation() + 1;
    report.packs_after = rewrite.state.footer.totals.packs;
    report.objects = rewrite.state.footer.totals.objects;
    report.healed = rewrite.healed.len() as u64;
    report.bytes_after = rewrite.state.append;
    Ok(())
}

/// Refuses what a rename would tear apart: a file with other names, or one that is mounted where it is.
fn refuse_links(disk: &dyn Disk, path: &Path, file: &dyn DiskFile, asked_for: bool) -> Result<()> {
    let links = file.stat().map_err(Error::io(path, "stat"))?.links;
    let is_mounted = disk.is_mount_point(path);
    if asked_for || links <= 1 && !is_mounted {
        return Ok(());
    }
    Err(Error::HasLinks {
        path: path.into(),
        links,
        is_mounted,
    })
}

/// Returns whether a rewrite would leave an archive as it is: one pack, of which everything is known, and hardly a dead byte.
fn is_compact(source: &Snapshot) -> Result<bool> {
    let totals = &source.state().footer.totals;
    let is_known = totals.unproven == 0 && totals.unresolved == 0 && totals.damaged == 0;
    Ok(source.packs() <= 1 && is_known && source.info()?.dead_bytes <= OWN_BYTES)
}

fn is_worth_it(dead: u64, size: u64) -> bool {
    dead > AUTO_BYTES.max(size / 100 * AUTO_PERCENT)
}

fn now_us() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}
