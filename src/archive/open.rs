//! Opening an archive for reading: one open, one head, one footer.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use arrow_buffer::Buffer;
use bstr::{BStr, ByteSlice};
use gix_hash::{ObjectId, oid};

use super::{
    Info,
    file::{describe_loss, is_same_file, open_file, read_error, read_head},
    graph::Graph,
    packs::Packs,
};
use crate::{
    error::{Error, Result},
    format::{
        CommitId, HEAD_LEN, VERSION,
        batch::{Batch, ReadError},
        footer::RefsRow,
        geometry::{Geometry, PREFIX_LEN, decode_prefix},
        head::Head,
        recover::{Recovered, Scrutiny, State, Tail, recover},
    },
    media::{Disk, DiskFile, LocalDisk, LockByte, Medium},
    policy::Policy,
    refs::{
        MAX_IN_A_ROW, Ref, Target, inline,
        view::{RefTable, RefView},
    },
};

/// How often a reader goes back to the path when the file it has open was replaced.
const MAX_REOPENS: usize = 5;

/// A state of an archive, fixed at the moment it was opened: no lock is held, later commits are not seen.
/// Cheap to clone, may be shared between threads.
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    medium: Arc<dyn Medium>,
    state: State,
    file_len: u64,
    warnings: Vec<String>,
    refs: OnceLock<RefView>,
    packs: OnceLock<Packs>,
    graph: Graph,
}

impl Snapshot {
    /// Opens the newest committed state of the archive at `path`. Takes no lock and never writes.
    ///
    /// # Errors
    /// Each way in which a path can fail to be an archive has its own error.
    pub fn open(path: &Path) -> Result<Snapshot> {
        Snapshot::open_on(&LocalDisk, path)
    }

    /// As [`Snapshot::open`], on any disk.
    pub fn open_on(disk: &dyn Disk, path: &Path) -> Result<Snapshot> {
        let mut attempt = 1;
        loop {
            match Opened::open(disk, path) {
                // R26: another machine put a new file in its place between two reads.
                Err(Error::Stale { .. }) if attempt < MAX_REOPENS => attempt += 1,
                opened => {
                    let Opened {
                        file, len, recovered, ..
                    } = opened?;
                    return Ok(Snapshot::new(path, file, recovered, len));
                }
            }
        }
    }

    /// Makes the snapshot of a state that was found in `medium`.
    pub(crate) fn new(path: &Path, medium: Arc<dyn Medium>, recovered: Recovered, file_len: u64) -> Snapshot {
        let Recovered {
            state, mut warnings, ..
        } = recovered;
        if state.footer.totals.damaged > 0 {
            let damaged = state.footer.totals.damaged;
            warnings.push(format!(
                "{damaged} objects in the archive are damaged; `znippy verify --full` names them"
            ));
        }
        let (refs, packs) = (OnceLock::new(), OnceLock::new());
        Snapshot {
            inner: Arc::new(Inner {
                path: path.into(),
                medium,
                state,
                file_len,
                warnings,
                refs,
                packs,
                graph: Graph::default(),
            }),
        }
    }

    /// Makes the snapshot of the state that a commit to this one made in `medium`. What is known of the references is kept
    /// where only the newest of them changed.
    pub(crate) fn followed_by(&self, medium: Arc<dyn Medium>, recovered: Recovered, file_len: u64) -> Snapshot {
        let next = Snapshot::new(&self.inner.path, medium, recovered, file_len);
        let (old, new) = (&self.state().footer, &next.state().footer);
        if let Some(view) = self.inner.refs.get()
            && (old.refs.base, old.refs.run) == (new.refs.base, new.refs.run)
            && let Some(inline) = inline::decode(&new.refs.inline, new.ident.object_format)
        {
            let _ = next.inner.refs.set(RefView { inline, ..view.clone() });
        }
        next
    }

    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    pub fn object_format(&self) -> gix_hash::Kind {
        self.inner.state.footer.ident.object_format
    }

    /// Returns the archive's identity, 36 characters; survives gc, is lost by nothing but a new creation.
    pub fn uuid(&self) -> String {
        self.inner.state.footer.ident.uuid.clone()
    }

    /// Returns which rewrite (gc) of the archive this is.
    pub fn generation(&self) -> u64 {
        self.inner.state.footer.ident.generation
    }

    /// Returns the number of commits in this generation.
    pub fn sequence(&self) -> u64 {
        self.inner.state.footer.sequence
    }

    /// Returns everything a careful caller tells the user: truncated, one slot bad, unconfirmed tail, …
    pub fn warnings(&self) -> &[String] {
        &self.inner.warnings
    }

    /// Returns whether a reference was ever deleted or rewound, or a push refused in part, in this generation, so that packs may
    /// hold objects that no reference reaches.
    pub fn has_unreachable(&self) -> bool {
        self.inner.state.footer.refs.rewound
    }

    /// Returns whether it is proven that everything a reference reaches is here and bears its name.
    pub fn is_closed(&self) -> bool {
        self.inner.state.footer.totals.unproven == 0
    }

    /// Returns the settings of the archive.
    pub fn policy(&self) -> Policy {
        Policy::from_entries(self.inner.state.footer.policy.clone())
    }

    /// Returns whether this is a later state of the file that `earlier` was read from: the commit after that one is here, at its
    /// place. Then everything that was there still is.
    ///
    /// # Errors
    /// Fails where the medium does.
    pub fn continues(&self, earlier: &Snapshot) -> Result<bool> {
        let (now, then) = (self.state(), earlier.state());
        if now.footer.ident != then.footer.ident || now.footer.sequence < then.footer.sequence {
            return Ok(false);
        }
        if now.footer.commit_id == then.footer.commit_id {
            return Ok(true);
        }
        match next_commit(self.medium(), then.append, now.append, self.object_format()) {
            Ok(previous) => Ok(previous == then.footer.commit_id),
            // No commit is there: the file took another way.
            Err(ReadError::Damaged(_)) => Ok(false),
            Err(error) => Err(read_error(self.path(), error)),
        }
    }

    /// Returns the size of the file when the snapshot was taken, in bytes.
    pub fn file_len(&self) -> u64 {
        self.inner.file_len
    }

    /// Returns all references in name order, HEAD among them (first), a dangling HEAD too.
    pub fn refs(&self) -> Result<Vec<Ref>> {
        Ok(self.ref_view()?.in_order().into_iter().map(Ref::from).collect())
    }

    /// Calls `on_ref` with each reference in name order, HEAD among them (first), a dangling HEAD too. Ends with its first error.
    pub fn for_each_ref<E: From<Error>>(
        &self,
        on_ref: &mut dyn FnMut(&BStr, &Target) -> Result<(), E>,
    ) -> Result<(), E> {
        self.ref_view()?.for_each(on_ref)
    }

    /// Reads one reference without materialising all of them.
    pub fn find_ref(&self, name: &BStr) -> Result<Option<Target>> {
        Ok(self.ref_view()?.find(name))
    }

    /// Returns whether a reference holds the object `id` by itself.
    pub fn shows(&self, id: &oid) -> Result<bool> {
        Ok(self.ref_view()?.holds(id))
    }

    /// Follows symbolic references from `name`, as far as git does, to an object. `None` where the end is unborn or a loop.
    pub fn resolve_ref(&self, name: &BStr) -> Result<Option<ObjectId>> {
        let mut name = name.to_owned();
        for _ in 0..MAX_IN_A_ROW {
            match self.find_ref(name.as_bstr())? {
                Some(Target::Object { oid, .. }) => return Ok(Some(oid)),
                Some(Target::Symbolic(next)) => name = next,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns figures for `znippy info`.
    pub fn info(&self) -> Result<Info> {
        let Inner {
            path, state, file_len, ..
        } = &*self.inner;
        let totals = &state.footer.totals;
        let view = self.ref_view()?;
        let head = match view.find("HEAD".into()) {
            Some(Target::Symbolic(name)) => Some(name.to_string()),
            Some(Target::Object { oid, .. }) => Some(oid.to_string()),
            None => None,
        };
        let refs = view.all().len() as u64 - u64::from(head.is_some());
        Ok(Info {
            path: path.clone(),
            format_version: VERSION,
            object_format: state.footer.ident.format_name().into(),
            uuid: self.uuid(),
            generation: self.generation(),
            sequence: self.sequence(),
            commit_id: state.footer.commit_id.to_string(),
            head,
            refs,
            packs: totals.packs,
            objects: totals.objects,
            unresolved_objects: totals.unresolved,
            unproven_packs: totals.unproven,
            damaged_objects: totals.damaged,
            file_bytes: *file_len,
            pack_bytes: totals.pack_bytes,
            index_bytes: file_len.saturating_sub(HEAD_LEN + totals.pack_bytes + totals.dead_bytes),
            dead_bytes: totals.dead_bytes + file_len.saturating_sub(state.footer_end),
        })
    }

    /// Returns the references, read on first use.
    pub(crate) fn ref_view(&self) -> Result<&RefView> {
        let Inner {
            path,
            medium,
            state,
            refs,
            ..
        } = &*self.inner;
        if let Some(view) = refs.get() {
            return Ok(view);
        }
        let view = read_refs(medium.as_ref(), state).map_err(|error| read_error(path, error))?;
        Ok(refs.get_or_init(|| view))
    }

    /// Returns the packs and the object index, read on first use.
    pub(crate) fn packs_or_load(&self) -> Result<&Packs> {
        let Inner {
            path,
            medium,
            state,
            packs,
            ..
        } = &*self.inner;
        if let Some(packs) = packs.get() {
            return Ok(packs);
        }
        let loaded = Packs::load(medium.as_ref(), state).map_err(|error| read_error(path, error))?;
        Ok(packs.get_or_init(|| loaded))
    }

    /// Returns what was read of the commit graph.
    pub(super) fn graph(&self) -> &Graph {
        &self.inner.graph
    }

    pub(crate) fn medium(&self) -> &dyn Medium {
        self.inner.medium.as_ref()
    }

    pub(crate) fn state(&self) -> &State {
        &self.inner.state
    }
}

/// A file that was opened for reading, and what it says of itself.
pub(crate) struct Opened {
    pub file: Arc<dyn DiskFile>,
    pub len: u64,
    pub head: Head,
    pub recovered: Recovered,
    /// Whether what lies behind the confirmed state was looked at; not so while somebody writes there.
    pub judged: bool,
}

impl Opened {
    /// Opens the archive at `path` and finds its newest state.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<Opened> {
        let mut attempt = 1;
        loop {
            match Opened::try_open(disk, path) {
                // R26: another machine put a new file in its place between two reads.
                Err(Error::Stale { .. }) if attempt < MAX_REOPENS => attempt += 1,
                done => return done,
            }
        }
    }

    fn try_open(disk: &dyn Disk, path: &Path) -> Result<Opened> {
        for attempt in 1..=MAX_REOPENS {
            let (file, stat) = open_file(disk, path, false)?;
            let mut len = stat.len;
            let head = read_head(file.as_ref(), path, len)?;
            if head.superseder_of(stat.id).is_some() && !is_same_file(disk, &stat, path) {
                continue;
            }
            if head.newest_slot().is_some_and(|slot| slot.append > len) {
                // Another commit was finished meanwhile.
                len = file.len().map_err(Error::io(path, "stat"))?;
            }
            let look = |scrutiny: Option<Scrutiny<'_>>| {
                recover(file.as_ref(), &head, len, scrutiny).map_err(|error| describe_loss(path, &head, len, error))
            };
            let beyond = head.newest_slot().is_none_or(|slot| slot.append != len);
            // Commits that count in this residence are whole whatever else is going on.
            let residence = if beyond { file.residence() } else { None };
            let resident = residence.as_deref();
            let recovered = look(resident.map(Scrutiny::OnlyResident))?;
            // While somebody writes, the rest of what lies beyond the slot is unfinished by definition. A disk that cannot be
            // asked is judged by the bytes.
            let is_written = || file.is_locked(LockByte::Writer).unwrap_or(false);
            if recovered.state.append == len || attempt == MAX_REOPENS || is_written() {
                let judged = recovered.state.append == len;
                return Ok(Opened {
                    file,
                    len,
                    head,
                    recovered,
                    judged,
                });
            }
            let recovered = look(Some(resident.map_or(Scrutiny::EveryByte, Scrutiny::Resident)))?;
            // A writer that came while the tail was judged may have cut it off or finished it.
            if recovered.tail != Tail::Clean && (is_written() || read_head(file.as_ref(), path, len)? != head) {
                continue;
            }
            return Ok(Opened {
                file,
                len,
                head,
                recovered,
                judged: true,
            });
        }
        Err(Error::Replaced { path: path.into() })
    }
}

/// Returns which commit the one at `at` follows, in a file with commits up to `end`.
fn next_commit(medium: &dyn Medium, at: u64, end: u64, kind: gix_hash::Kind) -> Result<CommitId, ReadError> {
    let none = || ReadError::from("no commit is there".to_string());
    if at + PREFIX_LEN as u64 > end {
        return Err(none());
    }
    let prefix = crate::media::read_vec(medium, at, PREFIX_LEN)?;
    let len = decode_prefix(&prefix).filter(|len| at + len <= end).ok_or_else(none)?;
    let metadata = crate::media::read_vec(medium, at, len as usize)?;
    Ok(Geometry::decode(&metadata, kind)?.previous)
}

fn read_refs(medium: &dyn Medium, state: &State) -> Result<RefView, ReadError> {
    let footer = &state.footer;
    let table = |row: &Option<RefsRow>| row.as_ref().map(|row| read_ref_table(medium, state, row)).transpose();
    Ok(RefView {
        base: table(&footer.refs.base)?,
        run: table(&footer.refs.run)?,
        inline: inline::decode(&footer.refs.inline, footer.ident.object_format)
            .ok_or_else(|| "the newest references in the footer do not parse".to_string())?,
    })
}

/// Reads one row's references with one read: the footer knows how far they reach.
fn read_ref_table(medium: &dyn Medium, state: &State, row: &RefsRow) -> Result<RefTable, ReadError> {
    let block = *state
        .footer
        .blocks
        .get(row.block)
        .ok_or_else(|| "references in a batch that is gone".to_string())?;
    if row.prefix_len < block.metadata_len || row.prefix_len > block.metadata_len + block.body_len {
        return Err("references reach beyond their batch".to_string().into());
    }
    let bytes = Buffer::from_vec(crate::media::read_vec(medium, block.offset, row.prefix_len as usize)?);
    let batch = Batch::from_metadata(
        &bytes[..block.metadata_len as usize],
        block,
        state.footer.ident.object_format,
    )?;
    // Thousands of references are a megabyte, which is not copied again.
    let body = bytes.slice(block.metadata_len as usize);
    Ok(RefTable::new(&batch.head_columns_from(body)?, row.row)?)
}
