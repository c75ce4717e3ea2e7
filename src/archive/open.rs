//! Opening an archive for reading: one open, one head, one footer.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use arrow_buffer::Buffer;
use bstr::{BStr, ByteSlice};
use gix_hash::{ObjectId, oid};

use super::{Info, graph::Graph, packs::Packs};
use crate::{
    error::{Error, Result},
    format::{
        CommitId, HEAD_LEN, VERSION,
        batch::{Batch, ReadError},
        footer::RefsRow,
        geometry::{Geometry, PREFIX_LEN, decode_prefix},
        head::{Head, HeadError},
        recover::{Check, Recovered, Scrutiny, State, Tail, check_commit, recover},
        slot::Slot,
    },
    media::{Disk, DiskFile, FileKind, Holder, LocalDisk, LockByte, Medium, Stat},
    policy::Policy,
    refs::{
        Ref, Target, inline,
        view::{RefTable, RefView},
    },
};

/// How often a reader goes back to the path when the file it has open was replaced.
const MAX_REOPENS: usize = 5;
/// How often the head is read again when a slot is not valid: a writer may be at work on the page.
const SLOT_RETRIES: usize = 3;

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

    /// Returns whether a reference was ever deleted or rewound in this generation, so that packs may hold objects that no
    /// reference reaches.
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

    /// Follows symbolic references from `name` (at most 5) to an object. `None` where the end is unborn or a loop.
    pub fn resolve_ref(&self, name: &BStr) -> Result<Option<ObjectId>> {
        let mut name = name.to_owned();
        for _ in 0..=5 {
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

/// Opens a file, with an error of its own for each way in which that fails. Returns what the disk says of it too.
pub(crate) fn open_file(disk: &dyn Disk, path: &Path, write: bool) -> Result<(Arc<dyn DiskFile>, Stat)> {
    let file = match disk.open(path, write) {
        Ok(file) => file,
        Err(error) => {
            let is_directory = || disk.stat(path).is_ok_and(|stat| stat.kind == FileKind::Directory);
            return Err(match error.kind() {
                io::ErrorKind::NotFound => Error::NotFound { path: path.into() },
                io::ErrorKind::IsADirectory => Error::IsDirectory { path: path.into() },
                _ if is_directory() => Error::IsDirectory { path: path.into() },
                _ => Error::io(path, if write { "open for writing" } else { "open" })(error),
            });
        }
    };
    let stat = file.stat().map_err(Error::io(path, "stat"))?;
    match stat.kind {
        FileKind::File => Ok((file, stat)),
        FileKind::Directory => Err(Error::IsDirectory { path: path.into() }),
        FileKind::Other => Err(Error::NotAnArchive {
            path: path.into(),
            why: "not a regular file".into(),
        }),
    }
}

/// Returns whether `path` still names the open file. Where the path cannot be read, the open file is as good as any.
pub(crate) fn is_same_file(disk: &dyn Disk, open: &Stat, path: &Path) -> bool {
    disk.stat(path).map_or(true, |named| named.id == open.id)
}

/// Refuses to go on with an open file, whose `stat` does not say what its path says, where it does not say the same twice either.
pub(crate) fn refuse_unstable(file: &dyn DiskFile, stat: &Stat, path: &Path) -> Result<()> {
    match file.stat() {
        Ok(again) if again.id != stat.id => Err(Error::UnstableIds { path: path.into() }),
        _ => Ok(()),
    }
}

/// Reads the head of a file of `len` bytes.
pub(crate) fn read_head(medium: &dyn Medium, path: &Path, len: u64) -> Result<Head> {
    Ok(read_head_bytes(medium, path, len)?.1)
}

/// Reads the head of a file of `len` bytes, and returns its bytes too.
pub(crate) fn read_head_bytes(medium: &dyn Medium, path: &Path, len: u64) -> Result<(Vec<u8>, Head)> {
    let not_an_archive = |why: &str| Error::NotAnArchive {
        path: path.into(),
        why: why.into(),
    };
    if let Some(creator) = creator(medium, len).map_err(Error::io(path, "read"))? {
        return Err(Error::BeingCreated {
            path: path.into(),
            holder: creator.map(|holder| holder.to_string()),
        });
    }
    let mut attempt = 0;
    loop {
        let bytes = crate::media::read_vec(medium, 0, HEAD_LEN.min(len) as usize).map_err(Error::io(path, "read"))?;
        let decoded = match Head::decode(&bytes) {
            Err(HeadError::NotArrow | HeadError::NotZnippy)
                if attempt == SLOT_RETRIES && starts_with_commit(medium, path, len)? =>
            {
                Ok(Head::default())
            }
            Err(HeadError::NotArrow | HeadError::NotZnippy) if attempt < SLOT_RETRIES && len > HEAD_LEN => {
                attempt += 1;
                continue;
            }
            decoded => decoded,
        };
        let head = decoded.map_err(|error| match error {
            HeadError::NotArrow => not_an_archive("it does not start as one"),
            HeadError::NotZnippy if len < HEAD_LEN => not_an_archive("it ends within the head"),
            HeadError::NotZnippy => not_an_archive("an Arrow file, but not written by znippy"),
            HeadError::Version(version) => Error::UnsupportedVersion {
                path: path.into(),
                version,
            },
            HeadError::ObjectFormat(format) => Error::UnsupportedObjectFormat {
                path: path.into(),
                format,
            },
        })?;
        attempt += 1;
        if head.has_all_slots() || attempt > SLOT_RETRIES {
            return Ok((bytes, head));
        }
    }
}

/// R14: returns who is about to create the archive, where a file of `len` bytes only takes its place. Of an empty one that is not
/// known.
pub(crate) fn creator(medium: &dyn Medium, len: u64) -> io::Result<Option<Option<Holder>>> {
    Ok(match len {
        0 => Some(None),
        1..HEAD_LEN => Holder::decode(&crate::media::read_vec(medium, 0, len as usize)?).map(Some),
        _ => None,
    })
}

/// Returns whether a whole commit lies where the first one must: an archive then, whatever became of its head.
fn starts_with_commit(medium: &dyn Medium, path: &Path, len: u64) -> Result<bool> {
    let first = check_commit(medium, None, (CommitId::NONE, 0), HEAD_LEN, len, Scrutiny::Outline);
    Ok(matches!(first.map_err(Error::io(path, "read"))?, Check::Whole(_)))
}

/// Says why nothing of a file can be shown: cut short, or damaged.
pub(crate) fn describe_loss(path: &Path, head: &Head, size: u64, error: ReadError) -> Error {
    match (head.newest_slot(), &error) {
        (
            Some(Slot {
                footer_end: confirmed, ..
            }),
            ReadError::Damaged(_),
        ) if size < confirmed => Error::Truncated {
            path: path.into(),
            size,
            confirmed,
        },
        _ => read_error(path, error),
    }
}

/// Adds the path to a read error.
pub(crate) fn read_error(path: &Path, error: ReadError) -> Error {
    match error {
        ReadError::Io(source) => Error::io(path, "read")(source),
        ReadError::Damaged(what) => Error::Damaged {
            path: path.into(),
            what,
        },
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
