//! Appending one commit: rows and packs become bytes behind the last commit, then a sync, then the slot.
//!
//! What a crash leaves behind, and who repairs it:
//!
//! | after | on disk | repaired by |
//! |---|---|---|
//! | any part of metadata, columns, pack or footer | a tail that is cut short or has sectors of zeros | readers ignore it; the next writer cuts it off |
//! | all of them, before the sync returned | any mixture of written and unwritten sectors | as above; if all bytes happen to be there, the commit counts, and the next writer writes and syncs them again |
//! | the sync | the commit; the slot names the one before | readers accept the tail; the next writer confirms it |
//! | part of the slot | the commit; one slot unreadable | as above, by the other slot |
//! | the slot | the commit | nobody |

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use gix_hash::Kind;

use super::NewPack;
use crate::{
    error::{Error, Result},
    format::{
        columns::{self, PackMeta, Proof, RefRow, Row, RowKind},
        commit::{EncodedCommit, encode},
        footer::{RefsRow, RefsState},
        object_index,
        recover::State,
    },
    media::Medium,
    refs::{
        inline::{self, Changes},
        view::{RefView, ref_row},
    },
};

/// Commits up to this size are written with one call.
const SINGLE_WRITE: u64 = 4 << 20;
const COPY_CHUNK: usize = 1 << 20;
/// A previous time further than this ahead of the clock is a mistake that must not be inherited.
const MAX_CLOCK_LEAD_US: i64 = 24 * 60 * 60 * 1_000_000;

/// What to append: the rows' contents before they have numbers and places.
pub struct Addition {
    pub packs: Vec<NewPack>,
    pub changes: Changes,
    pub rewound: bool,
    pub actor: Option<bstr::BString>,
    pub settings: Vec<(String, Vec<u8>)>,
}

/// An addition that is laid out behind a state, with the packs whose bytes are still to be copied.
pub struct Prepared {
    pub commit: EncodedCommit,
    packs: Vec<NewPack>,
    pack_lens: Vec<u64>,
}

/// Lays an addition out behind `state`.
///
/// The first pack goes into the row with the reference changes; every further pack has a row of its own before it, so that no
/// row shows a reference before its objects.
pub fn prepare(path: &Path, state: &State, view: &RefView, mut addition: Addition) -> Result<Prepared> {
    let kind = state.footer.ident.object_format;
    let mut pack_lens = vec![];
    for pack in &addition.packs {
        pack_lens.push(pack.file.metadata().map_err(Error::io(&pack.path, "stat"))?.len());
    }
    let mut footer = state.footer.clone();
    footer.sequence += 1;
    footer.totals.dead_bytes += state.footer_len + (state.append - state.footer_end);
    let time_us = now_us(state.footer.totals.last_time_us);
    footer.totals.last_time_us = time_us;
    let mut txn = footer.totals.last_txn;
    let mut row = |kind| {
        txn += 1;
        empty_row(txn, time_us, kind)
    };
    let mut rows = vec![];
    let mut pack_ids = vec![];
    for (pack, len) in addition.packs.iter_mut().zip(&pack_lens) {
        let mut row = row(RowKind::Push);
        let entries = std::mem::take(&mut pack.entries);
        footer.totals.packs += 1;
        footer.totals.pack_bytes += len;
        footer.totals.objects += entries.len() as u64;
        footer.totals.unresolved += match entries.kinds.is_empty() {
            true => entries.len() as u64,
            false => entries.kinds.iter().filter(|kind| **kind == 0).count() as u64,
        };
        row.index = (entries.len() >= object_index::MIN_OBJECTS).then(|| object_index::encode(&entries));
        row.objects = entries;
        row.pack = Some(PackMeta { len: *len, id: pack.id });
        pack_ids.extend_from_slice(pack.id.as_slice());
        rows.push(row);
    }
    if rows.is_empty() {
        rows.push(row(RowKind::Push));
    }
    let last = rows.len() - 1;
    rows[last].actor = addition.actor.take();
    rows[last].settings = std::mem::take(&mut addition.settings);
    rows[last].refs = ref_rows(view, &addition.changes);
    let block = footer.blocks.len();
    let checkpoint = place_refs(&mut footer.refs, view, &addition.changes, block, last, kind);
    if let Some(refs) = checkpoint {
        let full = footer.refs.run.is_none();
        let mut row = row(RowKind::Checkpoint);
        row.covers = Some((if full { 0 } else { 1 }, row.txn - 1));
        row.refs = refs;
        rows.push(row);
    }
    footer.totals.last_txn = txn;
    footer.refs.rewound |= addition.rewound;
    let columns = columns::encode(rows, kind).map_err(|why| Error::Invalid(format!("{}: {why}", path.display())))?;
    let commit = encode(columns, state.append, state.footer.commit_id, &pack_ids, footer);
    Ok(Prepared {
        commit,
        packs: addition.packs,
        pack_lens,
    })
}

/// Decides where the references lie after `changes`, and returns the rows of a checkpoint where one is due.
///
/// The footer keeps the newest changes while they are few; then they move into a run, which is rewritten with what comes
/// after it until it would be a good part of the base; then all references become the new base. So a push writes some
/// hundred bytes for references on average, and a reader needs one read for the base and one for the run.
fn place_refs(
    refs: &mut RefsState,
    view: &RefView,
    changes: &Changes,
    block: usize,
    row: usize,
    kind: Kind,
) -> Option<Vec<RefRow>> {
    let mut inline = view.inline.clone();
    inline.extend(changes.clone());
    let own = |row| {
        Some(RefsRow {
            block,
            row,
            prefix_len: 0,
        })
    };
    if refs.base.is_none() {
        // The first commit holds all references there are.
        *refs = RefsState {
            base: own(row),
            run: None,
            inline: vec![],
            rewound: refs.rewound,
        };
        return None;
    }
    if let Some(bytes) = inline::encode(&inline).filter(|bytes| bytes.len() <= inline::MAX_LEN) {
        refs.inline = bytes;
        return None;
    }
    refs.inline = vec![];
    let mut run = view.changes_since_base();
    run.extend(changes.clone());
    let ref_len = |name_len: usize| 3 * kind.len_in_bytes() + name_len;
    let run_len: usize = run.keys().map(|name| ref_len(name.len())).sum();
    let base_len = view.base.as_ref().map_or(0, |base| base.len() * ref_len(24));
    // Rewriting a run of length R every MAX_LEN bytes of changes, and a base of length B every R bytes, costs least where R is
    // about the root of B × MAX_LEN.
    let best_len = ((base_len * inline::MAX_LEN) as f64).sqrt() as usize;
    if run_len <= best_len.max(16 << 10) {
        refs.run = own(row + 1);
        return Some(
            run.iter()
                .map(|(name, target)| restated(name, target.as_ref()))
                .collect(),
        );
    }
    let mut all = view.all();
    for (name, target) in changes {
        match target {
            Some(target) => drop(all.insert(name.clone(), target.clone())),
            None => drop(all.remove(name)),
        }
    }
    (refs.base, refs.run) = (own(row + 1), None);
    Some(all.iter().map(|(name, target)| restated(name, Some(target))).collect())
}

/// A checkpoint says what is: old and new value are the same.
fn restated(name: &bstr::BString, target: Option<&crate::refs::Target>) -> RefRow {
    ref_row(name.clone(), target, target)
}

fn ref_rows(view: &RefView, changes: &Changes) -> Vec<RefRow> {
    let row = |(name, new): (&bstr::BString, &Option<crate::refs::Target>)| {
        ref_row(name.clone(), view.find(name.as_ref()).as_ref(), new.as_ref())
    };
    changes.iter().map(row).collect()
}

fn empty_row(txn: u64, time_us: i64, kind: RowKind) -> Row {
    Row {
        txn,
        time_us,
        kind,
        actor: None,
        proof: Proof::None,
        settings: vec![],
        refs: vec![],
        objects: Default::default(),
        commits: vec![],
        covers: None,
        index: None,
        pack: None,
    }
}

/// Returns the time of a new row: now, but never before the row before it, unless that one is impossibly far ahead.
fn now_us(previous_us: i64) -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as i64);
    if previous_us > now + MAX_CLOCK_LEAD_US {
        now
    } else {
        now.max(previous_us)
    }
}

/// Writes a prepared commit, pack bytes included. Nothing is synced, no slot is touched.
///
/// # Errors
/// Fails where the medium does, or where a pack's bytes do not have the hash that it is named after.
pub fn write(
    medium: &dyn Medium,
    path: &Path,
    prepared: &mut Prepared,
    mut on_copy: impl FnMut(u64, u64),
) -> Result<()> {
    let Prepared {
        commit,
        packs,
        pack_lens,
    } = prepared;
    let put = |at: u64, bytes: &[u8]| medium.write_all_at(at, bytes).map_err(write_error(path));
    let total = commit.pack_end - commit.pack_at;
    let single = commit.end() - commit.at <= SINGLE_WRITE;
    let mut pending = std::mem::take(&mut commit.metadata);
    let mut at = commit.at;
    for chunk in &commit.columns {
        // Small buffers travel together; large ones are not copied for it.
        if !single && pending.len() + chunk.len() > COPY_CHUNK {
            put(at, &pending)?;
            at += pending.len() as u64;
            pending.clear();
        }
        if !single && chunk.len() > COPY_CHUNK {
            put(at, chunk)?;
            at += chunk.len() as u64;
        } else {
            pending.extend_from_slice(chunk);
        }
    }
    let mut done = 0;
    for (pack, len) in packs.iter_mut().zip(pack_lens) {
        copy_pack(pack, *len, |bytes| {
            if single {
                pending.extend_from_slice(bytes);
            } else {
                if !pending.is_empty() {
                    put(at, &pending)?;
                    at += pending.len() as u64;
                    pending.clear();
                }
                put(at, bytes)?;
                at += bytes.len() as u64;
            }
            done += bytes.len() as u64;
            on_copy(done, total);
            Ok(())
        })?;
    }
    pending.resize(pending.len() + (commit.footer_at - commit.pack_end) as usize, 0);
    pending.extend_from_slice(&commit.footer_bytes);
    put(at, &pending)
}

/// Hands the bytes of a pack to `sink` and checks them against the hash that the pack is named after.
fn copy_pack(pack: &mut NewPack, len: u64, mut sink: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let invalid = |why: &str| Error::InvalidPack {
        name: pack.path.display().to_string(),
        why: why.into(),
    };
    let hash_len = pack.id.kind().len_in_bytes();
    let body = len.checked_sub(hash_len as u64).ok_or_else(|| invalid("too short"))?;
    let mut file: &File = &pack.file;
    file.seek(SeekFrom::Start(0)).map_err(Error::io(&pack.path, "read"))?;
    let mut hasher = gix_hash::hasher(pack.id.kind());
    let mut buf = vec![0; COPY_CHUNK.min(len as usize)];
    let mut done = 0u64;
    while done < len {
        let part = (len - done).min(buf.len() as u64) as usize;
        let part = &mut buf[..part];
        file.read_exact(part).map_err(Error::io(&pack.path, "read"))?;
        let hashed = body.saturating_sub(done).min(part.len() as u64) as usize;
        hasher.update(&part[..hashed]);
        done += part.len() as u64;
        if done == len && part.len() >= hash_len && part[part.len() - hash_len..] != *pack.id.as_slice() {
            return Err(invalid("its trailing hash is not the one it is named after"));
        }
        sink(part)?;
    }
    match hasher.try_finalize() {
        Ok(actual) if actual == pack.id => Ok(()),
        _ => Err(invalid("its bytes do not have the hash that it ends with")),
    }
}

/// Wraps a failed write, saying "no space" in words of its own.
pub fn write_error(path: &Path) -> impl FnOnce(io::Error) -> Error {
    Error::io(path, "write to the archive")
}
