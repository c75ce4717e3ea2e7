//! The way to every append: the lock, the file behind it, what lies behind the last commit, and then the commit itself.

use std::{io, path::Path, sync::Arc};

use super::{
    Snapshot, WritePolicy,
    append::{self, write_error},
    merge,
    open::{describe_loss, is_same_file, open_file, read_head},
    prepare::{Addition, prepare},
};
use crate::{
    error::{Error, Result},
    format::{
        head::{self, Head},
        recover::{Recovered, State, Tail, recover},
        slot::{SLOT_LEN, Slot},
    },
    media::{DiskFile, LockByte, LockGuard, Medium, lock_with_timeout},
};

/// How often a writer goes back to the path when gc replaced the file that it waited for.
const MAX_REOPENS: usize = 5;

/// An archive whose writer lock is held, and its newest state.
pub struct Writer<'a> {
    pub snapshot: Snapshot,
    path: &'a Path,
    medium: Arc<dyn DiskFile>,
    head: Head,
    len: u64,
    recovered: Recovered,
}

/// Takes the writer lock of the archive at `path`, and runs `work` on its newest state. Where that is still the state of
/// `basis`, what was read of it already is not read again.
///
/// # Errors
/// Fails where the lock is not to be had, or where nothing may be appended to the file as it is.
pub fn with_writer<T>(
    path: &Path,
    basis: Option<&Snapshot>,
    policy: &mut WritePolicy<'_>,
    work: impl FnOnce(Writer<'_>, &mut WritePolicy<'_>) -> Result<T>,
) -> Result<T> {
    for _ in 0..MAX_REOPENS {
        let (medium, _) = open_file(policy.disk, path, true)?;
        let _lock = take_lock(medium.as_ref(), path, policy)?;
        // Only now is it certain which file this is: gc replaces it by rename, under the same lock.
        let stat = medium.stat().map_err(Error::io(path, "stat"))?;
        let len = stat.len;
        let head = read_head(medium.as_ref(), path, len)?;
        if head.superseded_by.is_some() || !is_same_file(policy.disk, &stat, path) {
            continue;
        }
        let recovered =
            recover(medium.as_ref(), &head, len, true).map_err(|error| describe_loss(path, &head, len, error))?;
        refuse_unsafe(path, &head, len, &recovered)?;
        let snapshot = match basis.filter(|basis| *basis.state() == recovered.state) {
            Some(basis) => basis.clone(),
            None => Snapshot::new(path, medium.clone(), recovered.clone(), len),
        };
        let writer = Writer {
            snapshot,
            path,
            medium: medium.clone(),
            head,
            len,
            recovered,
        };
        return work(writer, policy);
    }
    Err(Error::Replaced { path: path.into() })
}

impl Writer<'_> {
    /// Appends one commit, and returns when it is on the disk. What it returns is for the user: warnings.
    ///
    /// # Errors
    /// Nothing was committed, with one exception that says so: [`Error::DurabilityUnknown`].
    pub fn append(self, mut addition: Addition, policy: &mut WritePolicy<'_>) -> Result<Vec<String>> {
        let Writer {
            snapshot,
            path,
            medium,
            head,
            len,
            recovered,
        } = self;
        let mut warnings = recovered.warnings.clone();
        let (state, slot) = settle_tail(path, medium.as_ref(), &head, len, recovered)?;
        // A merge is a favour to later readers. Where a batch cannot be read it is verify's business, not this commit's.
        addition.merge = merge::plan(medium.as_ref(), &state).unwrap_or(None);
        let mut prepared = prepare(path, &state, snapshot.ref_view()?, addition)?;
        let end = prepared.commit.end();
        let on_copy = |done, total| {
            if let Some(on_copy) = &mut policy.on_copy {
                on_copy(done, total);
            }
        };
        if let Err(error) = append::write(medium.as_ref(), path, &mut prepared, on_copy) {
            // Best effort: what is left of the tail has no whole commit in it, and the next writer cuts it off.
            let _ = medium.set_len(state.append);
            return Err(error);
        }
        check_still_ours(path, medium.as_ref(), end)?;
        if let Err(source) = medium.sync_data() {
            return Err(take_back(path, medium.as_ref(), state.append, source));
        }
        let slot = Slot {
            write: slot + 1,
            append: end,
            footer_end: end,
            commit_id: prepared.commit.footer.commit_id,
        };
        if let Err(error) = medium.write_all_at(slot.offset(), &slot.encode()) {
            // The commit is durable: readers find it behind the old slot.
            warnings.push(format!(
                "{}: the commit is stored, but its slot could not be written: {error}",
                path.display()
            ));
        }
        medium.start_writeback(slot.offset(), SLOT_LEN as u64);
        Ok(warnings)
    }
}

/// Takes the writer lock of an open archive.
pub(super) fn take_lock<'a>(
    file: &'a dyn DiskFile,
    path: &Path,
    policy: &mut WritePolicy<'_>,
) -> Result<LockGuard<'a>> {
    let on_wait = &mut policy.on_wait;
    let locked = lock_with_timeout(file, LockByte::Writer, policy.timeout, |waited, rate| {
        if let Some(on_wait) = on_wait {
            let rate = if rate > 0 {
                format!(", which writes {} KiB/s", rate.div_ceil(1024))
            } else {
                String::new()
            };
            on_wait(&format!(
                "waiting {} s for another writer of {}{rate}",
                waited.as_secs(),
                path.display()
            ));
        }
    });
    locked.map_err(|source| match source.kind() {
        io::ErrorKind::TimedOut => Error::Locked {
            path: path.into(),
            holder: String::new(),
            waited_s: policy.timeout.as_secs(),
        },
        _ => Error::CannotLock {
            path: path.into(),
            source,
        },
    })
}

/// Refuses to append where that could bury something that is still to be saved.
fn refuse_unsafe(path: &Path, head: &Head, size: u64, recovered: &Recovered) -> Result<()> {
    if let Some(confirmed) = recovered.truncated {
        return Err(Error::Truncated {
            path: path.into(),
            size,
            confirmed,
        });
    }
    let unknown = match (recovered.slot, head.newest_slot()) {
        (None, Some(_)) => Some("its newest footer cannot be read, so nothing may be appended"),
        // Any number of commits may follow what stopped the walk.
        (None, None) if recovered.state.append != size => {
            Some("both slots and what follows the last readable commit cannot be read, so nothing may be appended")
        }
        _ => None,
    };
    if let Some(what) = unknown {
        return Err(Error::Damaged {
            path: path.into(),
            what: what.into(),
        });
    }
    if let Tail::Unreadable { why, .. } = &recovered.tail {
        return Err(Error::io(path, "read behind the last commit")(io::Error::other(
            why.clone(),
        )));
    }
    Ok(())
}

/// Makes what lies behind the confirmed state part of it, or takes it away. Returns the state to append to, and the number of
/// the last slot write.
fn settle_tail(path: &Path, medium: &dyn Medium, head: &Head, len: u64, recovered: Recovered) -> Result<(State, u64)> {
    let Recovered {
        mut state, slot, tail, ..
    } = recovered;
    let write = head.newest_slot().map_or(0, |slot| slot.write);
    let confirmed = slot.map_or(state.append, |slot| slot.append);
    let whole_until = state.append;
    match tail {
        Tail::Clean if slot.is_some() && head.is_readable() => return Ok((state, write)),
        Tail::Clean | Tail::Whole { .. } => {}
        // An error-free read under the lock showed that the write never finished.
        Tail::Torn { .. } => medium
            .set_len(whole_until)
            .map_err(Error::io(path, "cut off an unfinished write of"))?,
        // The damaged bytes stay for whoever can repair them; the next commit goes behind them.
        Tail::Damaged { .. } => {
            state.append = crate::format::align_up(len);
            medium.set_len(state.append).map_err(write_error(path))?;
        }
        Tail::Unreadable { .. } => unreachable!("refused before"),
    }
    if whole_until > confirmed {
        rewrite(medium, confirmed, whole_until).map_err(write_error(path))?;
    }
    if !head.is_readable() {
        let encoded = head::encode(&state.footer.ident);
        for (at, part) in head::constant_parts(&encoded) {
            medium.write_all_at(at, part).map_err(write_error(path))?;
        }
    }
    medium.sync_data().map_err(|source| Error::DurabilityUnknown {
        path: path.into(),
        source,
    })?;
    let slot = Slot {
        write: write + 1,
        append: state.append,
        footer_end: state.footer_end,
        commit_id: state.footer.commit_id,
    };
    medium
        .write_all_at(slot.offset(), &slot.encode())
        .map_err(write_error(path))?;
    Ok((state, slot.write))
}

/// Writes the same bytes again, so that the next sync covers them: pages that an earlier, failed sync marked clean would
/// otherwise never reach the disk.
fn rewrite(medium: &dyn Medium, from: u64, to: u64) -> io::Result<()> {
    const CHUNK: u64 = 1 << 20;
    let mut at = from;
    while at < to {
        let bytes = crate::media::read_vec(medium, at, (to - at).min(CHUNK) as usize)?;
        medium.write_all_at(at, &bytes)?;
        at += bytes.len() as u64;
    }
    Ok(())
}

/// Checks before the sync that the file is still the archive: as long as it was made, and with a name. Where it is not, somebody
/// else was at work on it in spite of the lock, and nothing of it may be cut off.
fn check_still_ours(path: &Path, file: &dyn DiskFile, end: u64) -> Result<()> {
    let stat = file.stat().map_err(Error::io(path, "stat"))?;
    if stat.links == 0 || stat.len != end {
        return Err(Error::Replaced { path: path.into() });
    }
    Ok(())
}

/// After a failed sync: takes the tail back and makes that durable, still under the lock.
fn take_back(path: &Path, medium: &dyn Medium, confirmed: u64, source: io::Error) -> Error {
    match medium.set_len(confirmed).and_then(|()| medium.sync_data()) {
        Ok(()) => Error::io(path, "sync")(source),
        Err(_) => Error::DurabilityUnknown {
            path: path.into(),
            source,
        },
    }
}
