//! What surrounds an append: what lies behind the last commit and may not stay so, the slot, and the ways back.

use std::{io, path::Path};

use super::append::write_error;
use crate::{
    error::{Error, Result},
    format::{
        align_up,
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
/// and did nothing.
pub fn check_own_header(path: &Path, file: &dyn DiskFile, commit: &EncodedCommit) -> Result<()> {
    let found = read_vec(file, commit.at, commit.metadata.len()).map_err(Error::io(path, "read back"))?;
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
pub fn settle_tail(path: &Path, file: &dyn DiskFile, head: &Head, len: u64, recovered: &mut Recovered) -> Result<()> {
    let Recovered { state, slot, tail, .. } = recovered;
    let confirmed = slot.map_or(state.append, |slot| slot.append);
    let whole_until = state.append;
    match tail {
        Tail::Clean | Tail::Whole { .. } => {}
        // An error-free read under the lock showed that the write never finished.
        Tail::Torn { .. } => file
            .set_len(whole_until)
            .map_err(Error::io(path, "cut off an unfinished write of"))?,
        // The damaged bytes stay for whoever can repair them; the next commit goes behind them.
        Tail::Damaged { .. } => {
            state.append = align_up(len);
            file.set_len(state.append).map_err(write_error(path))?;
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

/// After a call that failed with `error`: takes the tail back and makes that durable, still under the lock.
pub fn take_back(path: &Path, medium: &dyn DiskFile, confirmed: u64, error: Error) -> Error {
    match medium.set_len(confirmed).and_then(|()| medium.sync_data()) {
        Ok(()) => error,
        Err(source) => Error::DurabilityUnknown {
            path: path.into(),
            source,
        },
    }
}
