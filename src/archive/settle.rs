//! What surrounds an append: what lies behind the last commit and may not stay so, the slot, and the ways back.

use std::{io, path::Path};

use super::append::{Failure, write_error};
use crate::{
    error::{Error, Result},
    format::{
        ALIGN, align_up,
        commit::EncodedCommit,
        head::{self, Head},
        recover::{Recovered, State, Tail},
        slot::{SLOT_LEN, Slot},
    },
    media::{DiskFile, read_vec},
};

/// Returns the slot that names a state whose bytes a sync has covered.
pub fn next_slot(head: &Head, state: &State) -> Slot {
    Slot {
        write: head.newest_slot().map_or(0, |slot| slot.write) + 1,
        append: state.append,
        footer_end: state.footer_end,
        commit_id: state.footer.commit_id,
    }
}

/// Writes a slot and returns its text.
pub fn write_slot(file: &dyn DiskFile, slot: &Slot) -> io::Result<[u8; SLOT_LEN]> {
    let text = slot.encode();
    file.write_all_at(slot.offset(), &text)?;
    file.start_writeback(slot.offset(), SLOT_LEN as u64);
    Ok(text)
}

/// R25: reads the commit's header back where another machine may have written at the same time, because a lock there said yes
/// and did nothing. What this machine remembers of it is forgotten first: it would only see what it wrote.
pub fn check_own_header(path: &Path, file: &dyn DiskFile, commit: &EncodedCommit) -> Result<()> {
    file.forget(commit.at, commit.metadata.len() as u64);
    let read = read_vec(file, commit.at, commit.metadata.len());
    // It was stored, and may be another's by now.
    let found = read.map_err(|source| Error::DurabilityUnknown {
        path: path.into(),
        source,
    })?;
    match found == commit.metadata {
        true => Ok(()),
        false => Err(Error::LockIgnored { path: path.into() }),
    }
}

/// Refuses to append where that could bury something that is still to be saved.
pub fn refuse_unsafe(path: &Path, head: &Head, size: u64, recovered: &Recovered) -> Result<()> {
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

/// Writes again what lies behind the confirmed state, or cuts it off. A sync and a slot must follow.
///
/// On a network disk nothing is cut off: whoever left it may be a machine whose writes are still on their way, and would land on
/// what the next commit puts there (see [`abandon`]).
pub fn settle_tail(
    path: &Path,
    file: &dyn DiskFile,
    head: &Head,
    len: u64,
    recovered: &mut Recovered,
    is_on_network: bool,
) -> Result<()> {
    let Recovered { state, slot, tail, .. } = recovered;
    let confirmed = slot.map_or(state.append, |slot| slot.append);
    let whole_until = state.append;
    match tail {
        Tail::Clean | Tail::Whole { .. } => {}
        // An error-free read under the lock showed that the write never finished.
        Tail::Torn { .. } if !is_on_network => file
            .set_len(whole_until)
            .map_err(Error::io(path, "cut off an unfinished write of"))?,
        // The damaged bytes stay for whoever can repair them; the next commit goes behind them.
        Tail::Torn { .. } | Tail::Damaged { .. } => {
            state.append = align_up(len);
            let padding = &[0; ALIGN as usize][..(state.append - len) as usize];
            file.write_all_at(len, padding).map_err(write_error(path))?;
        }
        Tail::Unreadable { .. } => unreachable!("refused before"),
    }
    if whole_until > confirmed {
        rewrite(file, confirmed, whole_until).map_err(write_error(path))?;
    }
    if !head.is_readable() {
        let encoded = head::encode(&state.footer.ident);
        for (at, part) in head::constant_parts(&encoded) {
            file.write_all_at(at, part).map_err(write_error(path))?;
        }
    }
    Ok(())
}

/// Writes the same bytes again, so that the next sync covers them: pages that an earlier, failed sync marked clean would
/// otherwise never reach the disk.
fn rewrite(medium: &dyn DiskFile, from: u64, to: u64) -> io::Result<()> {
    const CHUNK: u64 = 1 << 20;
    let mut at = from;
    while at < to {
        let bytes = read_vec(medium, at, (to - at).min(CHUNK) as usize)?;
        medium.write_all_at(at, &bytes)?;
        at += bytes.len() as u64;
    }
    Ok(())
}

/// Checks before the sync that the file is still the archive: as long as it was made, and with a name. Where it is not, somebody
/// else was at work on it in spite of the lock, and nothing of it may be cut off.
pub fn check_still_ours(path: &Path, file: &dyn DiskFile, end: u64) -> Result<()> {
    let stat = file.stat().map_err(Error::io(path, "stat"))?;
    if stat.links == 0 || stat.len != end {
        return Err(Error::Replaced { path: path.into() });
    }
    Ok(())
}

/// R25: takes the place of a commit on a network disk, before anything else of it is written: its last bytes are written and
/// synced. From then on every machine sees that the place is taken, up to its end, whatever becomes of the rest.
///
/// They are the bytes that belong there, so that it does no harm if they arrive late, or twice, among those of this commit. Where
/// they could not be stored, they may arrive among those of another one: nothing can be done about that which could not come late
/// as well. So this is asked once more, which is right after the server answered where the archive ends.
pub fn reserve(path: &Path, file: &dyn DiskFile, commit: &EncodedCommit, confirmed: u64) -> Result<()> {
    let store = || {
        file.write_all_at(commit.footer_at, &commit.footer_bytes)?;
        file.sync_data()
    };
    store().or_else(|_| store()).map_err(|source| {
        // The rest of it was never written: it cannot become a commit.
        if !may_land_later(&source, true) {
            let _ = file.set_len(confirmed).and_then(|()| file.sync_data());
        }
        write_error(path)(source)
    })
}

/// Where a commit was to go, and what to go back to if it cannot.
pub struct Place<'a> {
    pub path: &'a Path,
    pub file: &'a dyn DiskFile,
    pub head: &'a Head,
    /// What was there before it.
    pub recovered: &'a Recovered,
    /// Where it was to end.
    pub end: u64,
    pub is_on_network: bool,
}

/// Undoes an append that failed, still under the lock, and returns the error to tell.
pub fn abandon(place: &Place<'_>, failure: Failure) -> Error {
    let Place {
        path, file, recovered, ..
    } = *place;
    let confirmed = recovered.state.append;
    if let Some(source) = failure.source()
        && may_land_later(source, place.is_on_network)
    {
        return retire(place, failure);
    }
    match failure {
        // Best effort: what is left of the tail has no whole commit in it, and the next writer cuts it off. Synced, so that none
        // of it shows up again among the bytes of that one's commit.
        Failure::Incomplete(error) => {
            let _ = file.set_len(confirmed).and_then(|()| file.sync_data());
            error
        }
        Failure::NotOurs(error @ Error::Replaced { .. }) => error,
        // Not that it is another's, but that nobody can tell.
        Failure::NotOurs(error) => take_back(path, file, confirmed, error),
        Failure::Unsynced(source) => take_back(path, file, confirmed, Error::io(path, "sync")(source)),
    }
}

/// R25: returns whether what was written may still come to the disk after a call failed: where it timed out, and where a server
/// may have it without having said so. A server that says that there is no room has not.
fn may_land_later(source: &io::Error, is_on_network: bool) -> bool {
    match source.raw_os_error() {
        Some(libc::ETIMEDOUT) => true,
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::ESTALE) => false,
        _ => is_on_network,
    }
}

/// R25: gives up the place of a commit whose bytes may still arrive there. Nothing is cut off: a cut that arrives late would take
/// away what others have put there by then. Instead both slots name the place behind it, where the next commit goes.
///
/// | how far that gets | what the next writer finds |
/// |---|---|
/// | both slots are synced | the state before, and dead bytes; late ones land among them |
/// | one slot, or none | as above, or a tail, which it continues behind: a whole one it writes again as it is, of any other it keeps off, on a network disk |
/// | a slot arrives late | at most the older of two slots that are newer, or a state whose next commit lies where the slot says |
fn retire(place: &Place<'_>, failure: Failure) -> Error {
    let Place {
        path,
        file,
        head,
        recovered,
        end,
        is_on_network,
    } = *place;
    let error = failure.into_error(path);
    let unknown = |source| Error::DurabilityUnknown {
        path: path.into(),
        source,
    };
    // A slot may name only what a sync has covered.
    let is_confirmed = recovered.slot.is_some_and(|slot| slot.append == recovered.state.append);
    if !is_confirmed {
        return unknown(io::Error::other(error.to_string()));
    }
    let skip = || {
        let len = file.len()?;
        let append = if is_on_network {
            end.max(align_up(len))
        } else {
            align_up(len)
        };
        let mut head = head.clone();
        let state = State {
            append,
            ..recovered.state.clone()
        };
        for _ in 0..2 {
            let slot = next_slot(&head, &state);
            write_slot(file, &slot)?;
            file.sync_data()?;
            head.slots[(slot.write % 2) as usize] = Some(slot);
        }
        Ok(())
    };
    match skip() {
        Ok(()) => error,
        Err(source) => unknown(source),
    }
}

/// After a call that failed with `error`: takes the tail back and makes that durable, still under the lock.
fn take_back(path: &Path, medium: &dyn DiskFile, confirmed: u64, error: Error) -> Error {
    match medium.set_len(confirmed).and_then(|()| medium.sync_data()) {
        Ok(()) => error,
        Err(source) => Error::DurabilityUnknown {
            path: path.into(),
            source,
        },
    }
}
