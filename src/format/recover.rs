//! Finding the newest whole commit of a file, whatever state a crash left it in.
//!
//! The slots name the last commit that a sync covered. What lies beyond is judged commit by commit with [`check_commit`]:
//!
//! - whole: metadata, columns, footer, hash chain and every pack byte fit. It is the newest state, not yet confirmed.
//! - torn: it reaches past the end of the file, or what does not fit contains sectors of zeros: a write that never finished.
//!   It is cut off by the next writer.
//! - damaged: complete, but bytes changed. It is kept for whoever can repair it, and skipped.
//!
//! A commit that its writer did not sync says where and when it counts all the same: its *residence*, a boot and a mount. There
//! its bytes cannot have been lost, because writes go through memory that every reader shares, in the order in which they were
//! made, with the footer last. So in its own residence a commit with whole metadata and a whole footer is whole, and its packs
//! are not hashed again; anywhere else, and for a writer that is about to confirm it, every byte is checked as for any other.
//!
//! Nothing here ever looks for a footer backwards: pushed bytes can imitate one.

use std::{io, ops::Range};

use super::{
    CommitId, HEAD_LEN,
    batch::{Batch, ReadError},
    footer::{BlockRef, Footer, TRAILER_LEN, decode_trailer},
    geometry::{PREFIX_LEN, decode_prefix},
    head::Head,
    ident::Ident,
    slot::Slot,
};
use crate::media::{Medium, read_vec};

/// How many bytes to read before a footer's end in the hope of getting all of it at once.
const FOOTER_GUESS: u64 = 8 * 1024;
/// A disk sector: what a power cut writes whole or not at all.
const SECTOR: u64 = 512;
const COPY_CHUNK: usize = 1 << 20;

/// A committed state of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub footer: Footer,
    /// Bytes of the footer, trailer included.
    pub footer_len: u64,
    /// Where the footer ends.
    pub footer_end: u64,
    /// Where the next commit starts.
    pub append: u64,
}

/// What lies beyond the confirmed state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    Clean,
    /// `commits` whole commits, the last of which is the newest state.
    Whole { commits: usize },
    /// An unfinished write from `at` on, after `commits` whole ones.
    Torn { commits: usize, at: u64, why: String },
    /// Complete but changed bytes from `at` on, after `commits` whole ones.
    Damaged { commits: usize, at: u64, why: String },
    /// The medium failed while reading from `at` on: nothing is known about it, and nobody may write there.
    Unreadable { commits: usize, at: u64, why: String },
}

/// A file's newest state and how it was found.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// The newest state, whole commits of the tail included.
    pub state: State,
    /// The state that the newer slot confirms; `None` where both slots are unreadable or the file was cut.
    pub slot: Option<Slot>,
    pub tail: Tail,
    /// The file is shorter than the newer slot says: the bytes that it confirmed.
    pub truncated: Option<u64>,
    /// What a careful caller tells the user.
    pub warnings: Vec<String>,
}

/// The result of looking at one commit.
#[derive(Debug)]
pub enum Check {
    Whole(Box<State>),
    Torn(String),
    Damaged(String),
}

/// Reads the footer that ends at `end` and returns it with its length, trailer included.
pub fn read_footer(medium: &dyn Medium, end: u64) -> Result<(Footer, u64), ReadError> {
    let guess = FOOTER_GUESS.min(end.saturating_sub(HEAD_LEN));
    let mut bytes = read_vec(medium, end - guess, guess as usize)?;
    let trailer_at = bytes
        .len()
        .checked_sub(TRAILER_LEN)
        .ok_or_else(|| "no room for a footer".to_string())?;
    let len = decode_trailer(&bytes[trailer_at..]).ok_or_else(|| format!("no footer ends at offset {end}"))?;
    let total = len + TRAILER_LEN as u64;
    if total > guess {
        let at = end
            .checked_sub(total)
            .filter(|at| *at >= HEAD_LEN)
            .ok_or_else(|| "footer too long".to_string())?;
        bytes = read_vec(medium, at, total as usize)?;
    }
    let body = &bytes[bytes.len() - total as usize..bytes.len() - TRAILER_LEN];
    let footer = Footer::decode(body)?;
    if footer.blocks.iter().any(|block| block.end() > end) {
        return Err("the footer names a batch beyond itself".to_string().into());
    }
    Ok((footer, total))
}

/// Reads the state whose footer ends where `slot` says.
pub fn read_slot_state(medium: &dyn Medium, slot: &Slot) -> Result<State, ReadError> {
    let (footer, footer_len) = read_footer(medium, slot.footer_end)?;
    if footer.commit_id != slot.commit_id {
        return Err("the footer belongs to another commit than the slot says"
            .to_string()
            .into());
    }
    Ok(State {
        footer,
        footer_len,
        footer_end: slot.footer_end,
        append: slot.append,
    })
}

/// How closely to look at a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scrutiny<'a> {
    /// At metadata, footer and chain.
    Outline,
    /// At every byte of columns and packs too.
    EveryByte,
    /// At the outline of commits that were written in this residence, and at every byte of others.
    Resident(&'a str),
    /// At the outline of commits that were written in this residence. Others are being written, and are not looked at.
    OnlyResident(&'a str),
}

/// Looks at the commit at `at`, which must follow `previous` (commit id and sequence), in a file of `len` bytes.
///
/// # Errors
/// Only what the medium reports: an unreadable byte proves nothing about the commit.
pub fn check_commit(
    medium: &dyn Medium,
    ident: Option<&Ident>,
    previous: (CommitId, u64),
    at: u64,
    len: u64,
    scrutiny: Scrutiny<'_>,
) -> io::Result<Check> {
    let torn = |why: &str| Ok(Check::Torn(why.into()));
    let judge = |from: u64, to: u64, end: u64, why: String| -> io::Result<Check> {
        // What is missing is missing by whole sectors, which the places of checksums do not end at.
        let sectors = (from - from % SECTOR).max(at)..to.next_multiple_of(SECTOR).min(end).min(len);
        let zeros = has_zero_sector(medium, sectors)?;
        Ok(if zeros { Check::Torn(why) } else { Check::Damaged(why) })
    };
    if at + PREFIX_LEN as u64 > len {
        return torn("the file ends within a message");
    }
    let prefix = read_vec(medium, at, PREFIX_LEN)?;
    let Some(metadata_len) = decode_prefix(&prefix) else {
        let why = format!("no message starts at offset {at}");
        // All that is missing may be the rest of the sector in which the commit before ends.
        return match prefix.iter().all(|b| *b == 0) {
            true => torn(&why),
            false => judge(at, len, len, why),
        };
    };
    if at + metadata_len > len {
        return torn("the file ends within a message");
    }
    let kind = ident.map(|ident| ident.object_format);
    let metadata = read_vec(medium, at, metadata_len as usize)?;
    let candidates = [kind.unwrap_or(gix_hash::Kind::Sha1), gix_hash::Kind::Sha256];
    let mut parsed = Err(String::new());
    for kind in candidates {
        parsed = super::geometry::Geometry::decode(&metadata, kind).map(|geometry| (geometry, kind));
        if parsed.is_ok() {
            break;
        }
    }
    let (geometry, _) = match parsed {
        Ok(parsed) => parsed,
        Err(why) => return judge(at, at + metadata_len, len, why),
    };
    let is_resident = |place: &str| geometry.residence.as_deref() == Some(place);
    let every_byte = match scrutiny {
        Scrutiny::Outline => false,
        Scrutiny::EveryByte => true,
        Scrutiny::Resident(place) => !is_resident(place),
        Scrutiny::OnlyResident(place) if is_resident(place) => false,
        Scrutiny::OnlyResident(_) => return torn("it is being written"),
    };
    let block = BlockRef {
        offset: at,
        metadata_len,
        body_len: geometry.body_len,
        level: 0,
    };
    if at
        .checked_add(metadata_len)
        .and_then(|end| end.checked_add(geometry.body_len))
        .is_none_or(|end| end > len)
    {
        return torn("the file ends within a commit");
    }
    let end = block.end();
    let (footer, footer_len) = match read_footer(medium, end) {
        Ok(found) => found,
        Err(ReadError::Io(error)) => return Err(error),
        // Only what does not fit is searched for zeros, here and below: the table of objects that nobody read yet has many.
        Err(ReadError::Damaged(why)) => {
            let trailer = read_vec(medium, end - TRAILER_LEN as u64, TRAILER_LEN)?;
            return match trailer.iter().all(|b| *b == 0) {
                true => torn(&why),
                false => judge(block.body_at() + geometry.pack_data().end, end, end, why),
            };
        }
    };
    if geometry.previous != previous.0 || ident.is_some_and(|ident| *ident != footer.ident) {
        return Ok(Check::Damaged(format!(
            "the commit at offset {at} belongs to another history of the archive"
        )));
    }
    let batch = match Batch::from_metadata(&metadata, block, footer.ident.object_format) {
        Ok(batch) => batch,
        Err(ReadError::Io(error)) => return Err(error),
        Err(ReadError::Damaged(why)) => return Ok(Check::Damaged(why)),
    };
    match check_content(medium, &batch, &footer, previous, every_byte)? {
        None => Ok(Check::Whole(Box::new(State {
            footer,
            footer_len,
            footer_end: end,
            append: end,
        }))),
        Some((why, place)) => judge(place.start, place.end, end, why),
    }
}

/// Returns what of a commit does not fit, and the place in the file that the checksum in question covers.
fn check_content(
    medium: &dyn Medium,
    batch: &Batch,
    footer: &Footer,
    previous: (CommitId, u64),
    every_byte: bool,
) -> io::Result<Option<(String, Range<u64>)>> {
    let misfit = |checked: Result<(), ReadError>, place: Range<u64>| match checked {
        Ok(()) => Ok(None),
        Err(ReadError::Io(error)) => Err(error),
        Err(ReadError::Damaged(why)) => Ok(Some((why, place))),
    };
    for (index, place) in batch.section_places().into_iter().enumerate().filter(|_| every_byte) {
        if let Some(found) = misfit(batch.check_section_of(medium, index), place)? {
            return Ok(Some(found));
        }
    }
    let nowhere = || batch.block.offset..batch.block.offset;
    let packs = match batch.packs(medium) {
        Ok(packs) => packs,
        Err(error) => return misfit(Err(error), nowhere()),
    };
    let pack_ids: Vec<u8> = packs.iter().flat_map(|pack| pack.id.as_slice()).copied().collect();
    let row_checksum = &batch.geometry.row_checksum;
    let commit_id = footer
        .ident
        .commit_id(footer.sequence, previous.0, row_checksum, &pack_ids);
    if commit_id != footer.commit_id || footer.sequence != previous.1 + 1 {
        let why = format!("the commit at offset {} does not bear its name", batch.block.offset);
        return Ok(Some((why, nowhere())));
    }
    for pack in packs.iter().filter(|_| every_byte) {
        let checked = check_pack_hash(medium, pack.at, pack.len, &pack.id);
        if let Some(found) = misfit(checked, pack.at..pack.at + pack.len)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Checks a pack's trailing hash over its bytes and against its recorded id.
pub fn check_pack_hash(medium: &dyn Medium, at: u64, len: u64, id: &gix_hash::oid) -> Result<(), ReadError> {
    let hash_len = id.kind().len_in_bytes() as u64;
    let bad = || ReadError::Damaged(format!("the bytes of pack {id} changed on the disk"));
    let body = len.checked_sub(hash_len).ok_or_else(bad)?;
    let mut hasher = gix_hash::hasher(id.kind());
    let mut buf = vec![0; body.min(COPY_CHUNK as u64) as usize];
    let mut done = 0;
    while done < body {
        let part = (body - done).min(COPY_CHUNK as u64) as usize;
        medium.read_exact_at(at + done, &mut buf[..part])?;
        hasher.update(&buf[..part]);
        done += part as u64;
    }
    let trailer = read_vec(medium, at + body, hash_len as usize)?;
    let actual = hasher.try_finalize().map_err(|_| bad())?;
    if trailer == id.as_bytes() && *actual == *id {
        Ok(())
    } else {
        Err(bad())
    }
}

/// Returns whether a range of one commit holds a sector of zeros: the mark of a write that never reached the disk. Of the sectors
/// at its ends, which it may share with others, only what is inside of the range counts: a commit starts and ends with bytes
/// that are not zero.
fn has_zero_sector(medium: &dyn Medium, range: Range<u64>) -> io::Result<bool> {
    let mut buf = vec![0; range.end.saturating_sub(range.start).min(COPY_CHUNK as u64) as usize];
    let mut at = range.start;
    while at < range.end {
        // Chunks start at multiples of the sector size but for the first.
        let until = (at + COPY_CHUNK as u64).next_multiple_of(SECTOR) - SECTOR;
        let part = &mut buf[..(until.min(range.end) - at) as usize];
        medium.read_exact_at(at, part)?;
        let lead = (at.next_multiple_of(SECTOR) - at).min(part.len() as u64) as usize;
        let (first, rest) = part.split_at(lead);
        let is_zero = |sector: &[u8]| !sector.is_empty() && sector.iter().all(|b| *b == 0);
        if is_zero(first) || rest.chunks(SECTOR as usize).any(is_zero) {
            return Ok(true);
        }
        at += part.len() as u64;
    }
    Ok(false)
}

/// Walks the commits from the first on and returns the last whole one. For files whose slots are of no use.
pub fn walk(medium: &dyn Medium, ident: Option<&Ident>, len: u64) -> io::Result<Option<State>> {
    let mut newest: Option<State> = None;
    loop {
        let (previous, at) = match &newest {
            Some(state) => ((state.footer.commit_id, state.footer.sequence), state.append),
            None => ((CommitId::NONE, 0), HEAD_LEN),
        };
        let ident = newest
            .as_ref()
            .map(|state| state.footer.ident.clone())
            .or_else(|| ident.cloned());
        if at >= len {
            return Ok(newest);
        }
        match check_commit(medium, ident.as_ref(), previous, at, len, Scrutiny::Outline)? {
            Check::Whole(state) => newest = Some(*state),
            Check::Torn(_) | Check::Damaged(_) => return Ok(newest),
        }
    }
}

/// Finds the newest state of a file of `len` bytes with this head.
///
/// `beyond` says how closely to look at what lies beyond the confirmed state, if at all.
///
/// # Errors
/// Damage that leaves no state to show; errors of the medium, except beyond the confirmed state, where they become a warning.
pub fn recover(
    medium: &dyn Medium,
    head: &Head,
    len: u64,
    beyond: Option<Scrutiny<'_>>,
) -> Result<Recovered, ReadError> {
    let mut warnings = vec![];
    let slot = head.newest_slot();
    if head.slots.iter().filter(|slot| slot.is_none()).count() == 1 && slot.is_some_and(|slot| slot.write > 1) {
        warnings.push("one of the two slots is unreadable; the next push repairs it".into());
    }
    if head.ident.is_none() {
        warnings.push("the head of the file is unreadable; the next push repairs it".into());
    }
    let truncated = slot.filter(|slot| len < slot.footer_end).map(|slot| slot.footer_end);
    let mut slots: Vec<Slot> = head.slots.into_iter().flatten().collect();
    slots.sort_by_key(|slot| std::cmp::Reverse(slot.write));
    // The older slot names the commit before, mostly: nearer to the newest state than what a walk finds behind a damage.
    let mut from_slot = None;
    for candidate in slots.into_iter().filter(|slot| slot.footer_end <= len) {
        match read_slot_state(medium, &candidate) {
            Ok(state) => {
                from_slot = Some((state, candidate));
                break;
            }
            Err(ReadError::Io(error)) => return Err(error.into()),
            Err(ReadError::Damaged(why)) => warnings.push(format!(
                "the footer that ends at offset {} is damaged ({why}); an earlier state is shown",
                candidate.footer_end
            )),
        }
    }
    let usable_slot = from_slot
        .as_ref()
        .map(|(_, used)| *used)
        .filter(|used| Some(*used) == slot);
    let state = match from_slot {
        Some((state, _)) => state,
        None => {
            let walked = walk(medium, head.ident.as_ref(), len)?;
            walked.ok_or_else(|| "no whole commit is left".to_string())?
        }
    };
    if let Some(confirmed) = truncated {
        warnings.push(format!(
            "the file is truncated: {len} bytes of {confirmed}; an earlier state is shown"
        ));
    } else if slot.is_none() {
        warnings.push("both slots are unreadable; the state was found by walking the file".into());
        if state.append < len {
            let behind = len - state.append;
            warnings.push(format!(
                "{behind} bytes behind the last commit that was found cannot be read as one"
            ));
        }
    }
    let mut recovered = Recovered {
        state,
        slot: usable_slot,
        tail: Tail::Clean,
        truncated,
        warnings,
    };
    if let Some(scrutiny) = beyond
        && truncated.is_none()
        && usable_slot.is_some()
    {
        follow_tail(medium, &mut recovered, len, scrutiny);
    }
    Ok(recovered)
}

/// Accepts whole commits beyond the confirmed state and classifies what stops it.
pub fn follow_tail(medium: &dyn Medium, recovered: &mut Recovered, len: u64, scrutiny: Scrutiny<'_>) {
    let mut commits = 0;
    loop {
        let state = &recovered.state;
        let at = state.append;
        if at >= len {
            recovered.tail = whole_tail(commits);
            return;
        }
        let previous = (state.footer.commit_id, state.footer.sequence);
        match check_commit(medium, Some(&state.footer.ident), previous, at, len, scrutiny) {
            Ok(Check::Whole(state)) => {
                recovered.state = *state;
                commits += 1;
            }
            // What another writer has not finished is nobody's business yet.
            Ok(Check::Torn(_) | Check::Damaged(_)) | Err(_) if matches!(scrutiny, Scrutiny::OnlyResident(_)) => {
                recovered.tail = whole_tail(commits);
                return;
            }
            Ok(Check::Torn(why)) => {
                recovered.tail = Tail::Torn { commits, at, why };
                return;
            }
            Ok(Check::Damaged(why)) => {
                recovered
                    .warnings
                    .push(format!("bytes behind the last good commit are damaged ({why})"));
                recovered.tail = Tail::Damaged { commits, at, why };
                return;
            }
            Err(error) => {
                let why = format!("cannot read behind the last confirmed commit: {error}");
                recovered.warnings.push(why.clone());
                recovered.tail = Tail::Unreadable { commits, at, why };
                return;
            }
        }
    }
}

fn whole_tail(commits: usize) -> Tail {
    match commits {
        0 => Tail::Clean,
        commits => Tail::Whole { commits },
    }
}
