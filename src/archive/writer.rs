//! The way to every append: the lock, the file behind it, what lies behind the last commit, and then the commit itself.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Durability, Snapshot, WritePolicy,
    append::{self, write_error},
    create::sync_directory,
    damage,
    durability::Arm,
    file::{describe_loss, is_same_file, open_file, read_error, read_head_bytes, refuse_unstable},
    locking::{self, take_lock},
    merge,
    prepare::{Addition, prepare},
    settle::{
        Place, abandon, check_own_header, check_still_ours, next_slot, refuse_unsafe, reserve, settle_tail, write_slot,
    },
};
use crate::{
    error::{Error, Result},
    format::{
        batch::ReadError,
        commit::EncodedCommit,
        head::{self, Changing, Head},
        recover::{Recovered, Scrutiny, State, Tail, recover},
        slot::{SLOT_LEN, Slot},
    },
    media::{Disk, DiskFile, LockMode, LockReach, Stat},
};

/// How often a writer goes back to the path when gc replaced the file that it waited for.
const MAX_REOPENS: usize = 100;

/// How many commits, and how many bytes of them, may lie beyond the slot before one that need not be synced is synced all the
/// same: readers look at each of them.
const MAX_UNCONFIRMED: (usize, u64) = (256, 1 << 30);

/// The number of the slot write that comes with a new file; every synced commit to it writes one more.
const FIRST_WRITE: u64 = 1;

/// What stays between two commits of one writer: how to make them durable, the open file, and what is known of it.
pub struct Handle {
    arm: Box<dyn Arm>,
    open: Option<Open>,
    /// What to do where the newest footer cannot be read; else that is refused.
    pub mend: Option<Mend>,
}

/// Finds a state to continue where the footer that a slot names cannot be read.
pub type Mend = fn(&Path, &Arc<dyn DiskFile>, Slot, u64, Recovered) -> Result<Recovered, ReadError>;

impl Handle {
    /// Makes a handle that opens the archive when it is first used.
    pub fn new(durability: Durability) -> Handle {
        Handle {
            arm: durability.arm(),
            open: None,
            mend: None,
        }
    }

    /// Returns once what the user may want to know of how commits are made here.
    pub fn note(&mut self) -> Option<String> {
        self.arm.note()
    }
}

struct Open {
    file: Arc<dyn DiskFile>,
    /// Which writers a lock on it keeps away.
    reach: LockReach,
    /// Where commits count before they are synced; not asked for where they are.
    residence: Option<String>,
    /// What the file held when the lock was given back; `None` where nobody knows.
    known: Option<Known>,
}

/// A state of the file, and the bytes by which to see that it is still that.
struct Known {
    /// The part of the head in which something may change.
    head: Box<Changing>,
    len: u64,
    /// The last bytes of the file, where there are commits beyond the slot.
    end: Option<FooterEnd>,
    view: View,
}

/// Half a digest, a length and a magic: the end of a footer.
type FooterEnd = [u8; 32];

/// What a writer knows of the file while it holds the lock.
struct View {
    head: Head,
    snapshot: Snapshot,
    recovered: Recovered,
    beyond: Beyond,
}

/// What lies beyond the slot.
#[derive(Clone, Copy)]
enum Beyond {
    Nothing,
    /// So many whole commits, all written through the file that is open here, and no sync of it has failed since.
    Own(usize),
    /// So many commits that count here without a sync, and whose bytes were not all looked at.
    Resident(usize),
    /// What must be made part of the confirmed state, or taken away, before anything is appended.
    Unsettled,
}

/// An archive whose writer lock is held, and its newest state.
pub struct Writer<'a> {
    pub snapshot: Snapshot,
    path: &'a Path,
    file: Arc<dyn DiskFile>,
    len: u64,
    view: View,
    head_bytes: Box<Changing>,
    residence: Option<&'a str>,
    /// Whether other machines may write there.
    is_on_network: bool,
    arm: &'a mut dyn Arm,
    known: &'a mut Option<Known>,
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
    with_handle(&mut Handle::new(policy.durability), path, basis, policy, work)
}

/// As [`with_writer`], by way of a handle that may be used again.
pub fn with_handle<T>(
    handle: &mut Handle,
    path: &Path,
    basis: Option<&Snapshot>,
    policy: &mut WritePolicy<'_>,
    work: impl FnOnce(Writer<'_>, &mut WritePolicy<'_>) -> Result<T>,
) -> Result<T> {
    for _ in 0..MAX_REOPENS {
        let syncs = handle.arm.confirms();
        let open = match handle.open.take() {
            Some(open) => open,
            None => {
                let file = open_file(policy.disk, path, true)?.0;
                let residence = if syncs { None } else { file.residence() };
                Open {
                    reach: locking::reach(file.as_ref(), path)?,
                    file,
                    residence,
                    known: None,
                }
            }
        };
        let Open {
            file,
            reach,
            residence,
            known,
        } = open;
        let lock = match take_lock(file.as_ref(), path, &reach, policy) {
            // R26: another machine put a new file in its place.
            Err(Error::Stale { .. }) => continue,
            lock => lock?,
        };
        // Only now is it certain which file this is: gc replaces it by rename, under the same lock.
        let ((file, stat), known) = match policy.lock {
            // R25: a lock file tells no machine to look again at what it has open. What is opened under it is the archive, and is
            // what others left there.
            LockMode::File => (open_file(policy.disk, path, true)?, None),
            LockMode::Os | LockMode::Local => {
                let stat = match file.stat().map_err(Error::io(path, "stat")) {
                    Err(Error::Stale { .. }) => continue,
                    stat => stat?,
                };
                if !is_same_file(policy.disk, &stat, path) {
                    refuse_unstable(file.as_ref(), &stat, path)?;
                    continue;
                }
                ((file.clone(), stat), known)
            }
        };
        let (head_bytes, view) = match known
            .map(|known| recall(path, file.as_ref(), &stat, known))
            .transpose()?
        {
            Some(Some((bytes, view))) => (bytes, view),
            _ => {
                let (bytes, head) = read_head_bytes(file.as_ref(), path, stat.len)?;
                // R16: another name of the old generation, or a mount of it. What was written there would be lost.
                if let Some(generation) = head.superseder_of(stat.id) {
                    return Err(Error::Superseded {
                        path: path.into(),
                        generation,
                    });
                }
                if stat.links == 0 {
                    break;
                }
                let view = look(path, &file, head, stat.len, basis, residence.as_deref(), handle.mend)?;
                (Box::new(head::changing(&bytes)), view)
            }
        };
        let mut after = None;
        let writer = Writer {
            snapshot: view.snapshot.clone(),
            path,
            file: file.clone(),
            len: stat.len,
            view,
            head_bytes,
            residence: residence.as_deref(),
            is_on_network: reach != LockReach::Machine,
            arm: handle.arm.as_mut(),
            known: &mut after,
        };
        let done = work(writer, policy);
        drop(lock);
        let known = after;
        handle.open = Some(Open {
            file,
            reach,
            residence,
            known,
        });
        return done;
    }
    Err(Error::Replaced { path: path.into() })
}

/// Returns what was known of the file and its head, if that is still so. See [`super::appender`] for why that can be told.
fn recall(path: &Path, file: &dyn DiskFile, stat: &Stat, known: Known) -> Result<Option<(Box<Changing>, View)>> {
    if known.len != stat.len {
        return Ok(None);
    }
    let mut head = [0; size_of::<Changing>()];
    file.read_exact_at(head::CHANGING.start, &mut head)
        .map_err(Error::io(path, "read"))?;
    if head != *known.head {
        return Ok(None);
    }
    if let Some(end) = known.end {
        let mut found = FooterEnd::default();
        file.read_exact_at(known.len - found.len() as u64, &mut found)
            .map_err(Error::io(path, "read"))?;
        if found != end {
            return Ok(None);
        }
    }
    Ok(Some((known.head, known.view)))
}

/// Finds the newest state of an open file whose lock is held.
///
/// With a `residence`, commits that count there are taken as they are, while they are few. Everything else beyond the slot is
/// checked to the last byte: the writer will vouch for it.
fn look(
    path: &Path,
    file: &Arc<dyn DiskFile>,
    head: Head,
    len: u64,
    basis: Option<&Snapshot>,
    residence: Option<&str>,
    mend: Option<Mend>,
) -> Result<View> {
    let recover = |scrutiny| {
        recover(file.as_ref(), &head, len, Some(scrutiny)).map_err(|error| describe_loss(path, &head, len, error))
    };
    let beyond = head.newest_slot().map_or(0, |slot| len.saturating_sub(slot.append));
    let residence = residence.filter(|_| beyond > 0 && beyond < MAX_UNCONFIRMED.1 && head.is_readable());
    let resident = residence
        .map(|place| recover(Scrutiny::OnlyResident(place)))
        .transpose()?;
    let resident = resident.and_then(|found| match found.tail {
        Tail::Whole { commits } if found.state.append == len && commits < MAX_UNCONFIRMED.0 => Some((found, commits)),
        _ => None,
    });
    let (recovered, beyond) = match resident {
        Some((found, commits)) => (found, Beyond::Resident(commits)),
        None => {
            let mut found = recover(Scrutiny::EveryByte)?;
            if let (Some(mend), Some(slot), None, None) = (mend, head.newest_slot(), found.slot, found.truncated) {
                found = mend(path, file, slot, len, found).map_err(|error| read_error(path, error))?;
            }
            // A slot that skips damage is written again: the sync that was to cover it may have failed.
            let is_plain = found.slot.is_some_and(|slot| slot.append == slot.footer_end);
            let settled = found.tail == Tail::Clean && is_plain && head.is_readable();
            (found, if settled { Beyond::Nothing } else { Beyond::Unsettled })
        }
    };
    refuse_unsafe(path, &head, len, &recovered)?;
    let snapshot = match basis.filter(|basis| *basis.state() == recovered.state) {
        Some(basis) => basis.clone(),
        None => Snapshot::new(path, file.clone(), recovered.clone(), len),
    };
    Ok(View {
        head,
        snapshot,
        recovered,
        beyond,
    })
}

impl Writer<'_> {
    /// Returns what lies behind the confirmed state.
    pub fn tail(&self) -> &Tail {
        &self.view.recovered.tail
    }

    /// Returns the open file, whose lock is held.
    pub fn file(&self) -> &dyn DiskFile {
        self.file.as_ref()
    }

    /// Appends one commit, and returns when it is as durable as was asked for. What it returns is for the user: warnings.
    ///
    /// # Errors
    /// Nothing was committed, with one exception that says so: [`Error::DurabilityUnknown`].
    pub fn append(mut self, mut addition: Addition, policy: &mut WritePolicy<'_>) -> Result<Vec<String>> {
        let mut warnings = self.view.recovered.warnings.clone();
        let below = self.settle()?;
        let Writer {
            snapshot,
            path,
            file,
            view,
            mut head_bytes,
            arm,
            is_on_network,
            ..
        } = self;
        let View {
            mut head,
            mut recovered,
            ..
        } = view;
        let confirms = arm.confirms();
        if confirms && head.newest_slot().is_none_or(|slot| slot.write <= FIRST_WRITE) {
            // Nobody has committed to this file since it got its name: whoever gave it that may have died before it was durable.
            sync_directory(policy.disk, &directory_of(policy.disk, path))?;
        }
        // A merge is a favour to later readers. Where a batch cannot be read it is verify's business, not this commit's. A commit
        // that goes behind others which no sync has covered leaves it to one that can take the time.
        if confirms || matches!(below, Beyond::Nothing) {
            addition.merge = merge::plan(file.as_ref(), &recovered.state).unwrap_or(None);
        }
        // What is known of damage is a favour too.
        addition.damage = damage::after(&snapshot, &addition).unwrap_or(None);
        addition.residence = self.residence.filter(|_| !confirms).map(str::to_owned);
        let prepared = prepare(path, &recovered.state, snapshot.ref_view()?, addition)?;
        let end = prepared.commit.end();
        let on_copy = |done, total| {
            if let Some(on_copy) = &mut policy.on_copy {
                on_copy(done, total);
            }
        };
        let still_ours = || check_still_ours(path, file.as_ref(), end);
        if is_on_network {
            reserve(path, file.as_ref(), &prepared.commit, recovered.state.append)?;
        }
        let landed = append::write(file.as_ref(), path, &prepared, arm, &still_ours, on_copy);
        if let Err(failure) = landed {
            let place = Place {
                path,
                file: file.as_ref(),
                head: &head,
                recovered: &recovered,
                end,
                is_on_network,
            };
            return Err(abandon(&place, failure));
        }
        if is_on_network {
            check_own_header(path, file.as_ref(), &prepared.commit)?;
        }
        let EncodedCommit {
            footer, footer_bytes, ..
        } = prepared.commit;
        recovered.state = State {
            footer_len: footer_bytes.len() as u64,
            footer_end: end,
            append: end,
            footer,
        };
        recovered.warnings.clear();
        let beyond = if confirms {
            let slot = next_slot(&head, &recovered.state);
            match write_slot(file.as_ref(), &slot) {
                Ok(text) => {
                    // R5: other machines see the slot no later than that the lock is free.
                    if is_on_network && let Err(error) = file.sync_data() {
                        let path = path.display();
                        warnings.push(format!(
                            "{path}: the commit is stored, but its slot may not be: {error}"
                        ));
                    }
                    head_bytes[head::in_changing(slot.offset())..][..SLOT_LEN].copy_from_slice(&text);
                    head.slots[(slot.write % 2) as usize] = Some(slot);
                    (recovered.slot, recovered.tail) = (Some(slot), Tail::Clean);
                    Beyond::Nothing
                }
                // The commit is durable: readers find it behind the old slot.
                Err(error) => {
                    warnings.push(format!(
                        "{}: the commit is stored, but its slot could not be written: {error}",
                        path.display()
                    ));
                    return Ok(warnings);
                }
            }
        } else {
            let (beyond, commits) = match below {
                Beyond::Resident(commits) => (Beyond::Resident(commits + 1), commits + 1),
                Beyond::Own(commits) => (Beyond::Own(commits + 1), commits + 1),
                Beyond::Nothing | Beyond::Unsettled => (Beyond::Own(1), 1),
            };
            recovered.tail = Tail::Whole { commits };
            beyond
        };
        let snapshot = snapshot.followed_by(file, recovered.clone(), end);
        *self.known = Some(Known {
            head: head_bytes,
            len: end,
            end: footer_bytes.last_chunk().copied().filter(|_| !confirms),
            view: View {
                head,
                snapshot,
                recovered,
                beyond,
            },
        });
        Ok(warnings)
    }

    /// Sees to it that the next commit can go behind what is there. Returns what of it no sync is known to have covered.
    fn settle(&mut self) -> Result<Beyond> {
        let confirms = self.arm.confirms();
        let unconfirmed = (self.view.recovered.slot).map_or(0, |slot| self.len.saturating_sub(slot.append));
        let is_little = |commits| commits < MAX_UNCONFIRMED.0 && unconfirmed < MAX_UNCONFIRMED.1;
        match self.view.beyond {
            Beyond::Nothing => Ok(Beyond::Nothing),
            Beyond::Own(commits) | Beyond::Resident(commits) if !confirms && is_little(commits) => Ok(self.view.beyond),
            Beyond::Own(_) | Beyond::Resident(_) | Beyond::Unsettled => {
                self.confirm()?;
                Ok(Beyond::Nothing)
            }
        }
    }

    /// Makes all that lies beyond the slot durable, or takes it away, and writes a slot.
    fn confirm(&mut self) -> Result<()> {
        let Writer { path, file, .. } = self;
        if let Beyond::Resident(_) = self.view.beyond {
            // Now every byte counts.
            self.view = look(path, file, self.view.head.clone(), self.len, None, None, None)?;
        }
        let View {
            head,
            recovered,
            beyond,
            ..
        } = &mut self.view;
        match beyond {
            Beyond::Nothing => return Ok(()),
            Beyond::Own(_) => {}
            Beyond::Resident(_) | Beyond::Unsettled => {
                settle_tail(path, file.as_ref(), head, self.len, recovered, self.is_on_network)?
            }
        }
        // Where damage is skipped both slots have to say so: while one of them still names a place before it, a crash could leave
        // that one alone, and the way to what comes later would be lost.
        let skips = recovered.state.append > recovered.state.footer_end;
        let mut slot = next_slot(head, &recovered.state);
        for again in [false, true].into_iter().take(1 + usize::from(skips)) {
            slot.write += u64::from(again);
            file.sync_data().map_err(|source| Error::DurabilityUnknown {
                path: (*path).into(),
                source,
            })?;
            let text = write_slot(file.as_ref(), &slot).map_err(write_error(path))?;
            self.head_bytes[head::in_changing(slot.offset())..][..SLOT_LEN].copy_from_slice(&text);
            head.slots[(slot.write % 2) as usize] = Some(slot);
        }
        (recovered.slot, recovered.tail) = (Some(slot), Tail::Clean);
        *beyond = Beyond::Nothing;
        Ok(())
    }
}

/// Makes durable what lies beyond the slot.
pub fn confirm(mut writer: Writer<'_>) -> Result<()> {
    writer.confirm()
}

/// Writes the older of the two slots anew, so that both name the newest state. What a sync must have covered, it has: the newer slot
/// names it.
pub fn restate_slot(writer: Writer<'_>) -> Result<()> {
    let Writer { path, file, view, .. } = &writer;
    if matches!(view.beyond, Beyond::Nothing) {
        write_slot(file.as_ref(), &next_slot(&view.head, &view.recovered.state)).map_err(write_error(path))?;
    }
    Ok(())
}

/// Returns the directory that has the archive's name in it.
fn directory_of(disk: &dyn Disk, path: &Path) -> PathBuf {
    let real = disk.canonical(path).unwrap_or_else(|_| path.into());
    match real.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.into(),
        _ => PathBuf::from("."),
    }
}
