//! The new file: a head, one commit with the consolidated pack and all references, one with the history, and what is carried
//! over later.
//!
//! The pack goes straight to its place: the columns before it have a length that is known before the pack is, because it
//! depends on how many objects and commits there are, not on where they come to lie. So each byte is written once.

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use gix_hash::{ObjectId, oid};

use super::{OnProgress, Progress, history::History, keep::Kept, record::Record};
use crate::{
    archive::{
        Snapshot,
        append::{self, PackSource, write_error},
        commits::{number, parsed_row},
        durability::Fast,
        file::read_error,
        place_refs::restated,
        prepare::Prepared,
    },
    error::{Error, Result},
    format::{
        CommitId, HEAD_LEN,
        batch::ReadError,
        columns::{self, MAX_PART_LEN},
        commit::{self, EncodedCommit, Extra},
        commit_rows::CommitRows,
        footer::{Footer, RefsRow, RefsState, Totals},
        head,
        ident::Ident,
        object_index,
        recover::{Check, Recovered, Scrutiny, State, Tail, check_commit},
        row::{PackMeta, Proof, Row, RowKind},
    },
    media::{DiskFile, Medium},
    pack::{
        EntryTable, Kind, Location, PackRank, PackStore,
        emit::{self, Naming, emit_with},
        graph::malformed,
        object::ObjectReader,
        parse,
        resolve::{ResolveOptions, Resolved, resolve},
    },
};

/// The consolidated pack belongs to no transaction: its row comes before the first.
const BASE_TXN: u64 = 0;
/// The batch of the history is not to be merged with others.
const HISTORY_LEVEL: u8 = 9;

/// A new generation of an archive that is being written.
pub struct Rewrite {
    /// The archive's path, for error messages.
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    /// What was written so far.
    pub state: State,
    /// Entries that had to be compressed again.
    pub recompressed: u64,
    /// Objects of which a damaged copy was replaced by a sound one.
    pub healed: Vec<ObjectId>,
}

impl Rewrite {
    /// Starts the generation after that of `source` in an empty medium.
    pub fn start(source: &Snapshot, file: Arc<dyn DiskFile>) -> Result<Rewrite> {
        let ident = Ident {
            generation: source.generation() + 1,
            ..source.state().footer.ident.clone()
        };
        file.write_all_at(0, &head::encode(&ident))
            .map_err(write_error(source.path()))?;
        let Totals {
            last_txn, last_time_us, ..
        } = source.state().footer.totals;
        let totals = Totals {
            last_txn,
            last_time_us,
            ..Totals::default()
        };
        let footer = Footer {
            ident,
            sequence: 0,
            commit_id: CommitId::NONE,
            blocks: vec![],
            refs: RefsState::default(),
            totals,
            policy: source.state().footer.policy.clone(),
        };
        Ok(Rewrite {
            path: source.path().into(),
            file,
            state: State {
                footer,
                footer_len: 0,
                footer_end: HEAD_LEN,
                append: HEAD_LEN,
            },
            recompressed: 0,
            healed: vec![],
        })
    }

    /// Writes the first commit: the objects that are kept, in one pack whose every object is read back and hashed, and all
    /// references.
    ///
    /// # Errors
    /// R19: fails where an object is damaged and there is no other copy of it.
    pub fn write_base(
        &mut self,
        source: &Snapshot,
        history: &mut History,
        kept: &Kept,
        record: &Record,
        mut row: Row,
        progress: &mut OnProgress<'_>,
    ) -> Result<()> {
        let kind = source.object_format();
        let count = kept.objects.len();
        let reader = ObjectReader::new(source);
        row.txn = BASE_TXN;
        row.kind = RowKind::Gc;
        row.proof = Proof::Closed;
        row.covers = Some((0, source.state().footer.totals.last_txn));
        row.settings = record.settings();
        let refs = source.ref_view()?.in_order();
        row.refs = refs.iter().map(|(name, target)| restated(name, Some(target))).collect();
        row.commits = commits(source, &reader, history, kept)?;
        // Any numbers do for now, but as many as there will be.
        row.objects = EntryTable {
            oids: vec![0; count * kind.len_in_bytes()],
            oid_len: kind.len_in_bytes(),
            kinds: vec![1; count],
            sizes: vec![0; count],
            offsets: vec![0; count],
            crc32s: vec![0; count],
        };
        row.index = (count >= object_index::MIN_OBJECTS).then(|| object_index::encode(&row.objects));
        let old_len: u64 = (0..source.packs())
            .map(|rank| source.pack_len(rank))
            .sum::<Result<_>>()?;
        row.pack = (count > 0).then(|| PackMeta {
            len: most_bytes(old_len),
            id: ObjectId::null(kind),
        });
        let pack_at = self.lay_out(row.clone(), vec![], 0)?.pack_at;
        let mut pack_entries = EntryTable::default();
        if count > 0 {
            let mut out = At {
                medium: self.file.as_ref(),
                at: pack_at,
            };
            let mut on_emit = |done, total| progress(Progress::Copying(done, total));
            let receipt = emit_with(&reader, &kept.objects, Naming::Offset, &mut out, &mut on_emit)
                .map_err(|error| self.named(error))?;
            (self.recompressed, self.healed) = (receipt.recompressed, receipt.healed);
            row.pack = Some(PackMeta {
                len: receipt.bytes,
                id: receipt.pack_id,
            });
            pack_entries = receipt.entries;
        }
        drop(reader);
        if let Some(pack) = row.pack {
            let written = WrittenPack {
                medium: self.file.as_ref(),
                path: self.path.clone(),
                at: pack_at,
                pack,
                entries: Arc::new(pack_entries),
            };
            let resolved = check_pack(&written, progress)?;
            let mut entries = Arc::unwrap_or_clone(written.entries);
            resolved.fill(&mut entries);
            row.index = (count >= object_index::MIN_OBJECTS).then(|| object_index::encode(&entries));
            row.objects = entries;
        }
        for (name, target) in &refs {
            if let crate::refs::Target::Object { oid, .. } = target
                && row.objects.find(oid).is_none()
            {
                return Err(self.damaged(format!("'{name}' names object {oid}, which was not copied")));
            }
        }
        let totals = &mut self.state.footer.totals;
        totals.packs = u64::from(row.pack.is_some());
        totals.pack_bytes = row.pack.map_or(0, |pack| pack.len);
        totals.objects = count as u64;
        self.state.footer.refs = RefsState {
            base: Some(RefsRow {
                block: 0,
                row: 0,
                prefix_len: 0,
            }),
            rewound: kept.unreachable() > 0 || !kept.is_judged && source.has_unreachable(),
            ..RefsState::default()
        };
        let pack_id = row.pack.map_or(vec![], |pack| pack.id.as_slice().to_vec());
        let columns_at = pack_at - HEAD_LEN;
        let commit = self.lay_out(row, pack_id, columns_at)?;
        if commit.pack_at != pack_at {
            return Err(self.damaged("the consolidated pack is larger than its parts allow".into()));
        }
        self.write_around_pack(commit)
    }

    /// Writes the second commit: who moved which reference when.
    pub fn write_history(&mut self, rows: Vec<Row>) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        self.append(rows, vec![], self.next_footer(), HISTORY_LEVEL)
    }

    /// Returns the footer to write next, but for what follows from its commit.
    pub fn next_footer(&self) -> Footer {
        let mut footer = self.state.footer.clone();
        footer.sequence += 1;
        footer.totals.dead_bytes += self.state.footer_len;
        footer
    }

    /// Writes one more commit, whose packs are read from `packs`.
    pub fn append(&mut self, rows: Vec<Row>, packs: Vec<PackSource>, footer: Footer, level: u8) -> Result<()> {
        let kind = footer.ident.object_format;
        let ids: Vec<u8> = rows
            .iter()
            .flat_map(|row| row.pack)
            .flat_map(|pack| pack.id.as_slice().to_vec())
            .collect();
        let columns = columns::encode(rows, kind).map_err(|why| self.invalid(why))?;
        let State {
            append, footer: last, ..
        } = &self.state;
        let commit = commit::encode(columns, *append, last.commit_id, &ids, footer, level, None);
        let prepared = Prepared { commit, packs };
        // Nobody can see the file yet: it is synced as a whole.
        let written = append::write(
            self.file.as_ref(),
            &self.path,
            &prepared,
            &mut Fast,
            &|| Ok(()),
            |_, _| (),
        );
        written.map_err(|failure| failure.into_error(&self.path))?;
        self.take(&prepared.commit);
        Ok(())
    }

    /// Checks every commit as it stands in the file, and returns the new generation as a snapshot.
    pub fn check(&self, scrutiny: Scrutiny<'_>) -> Result<Snapshot> {
        self.check_from((CommitId::NONE, 0), HEAD_LEN, scrutiny)?;
        Ok(self.snapshot())
    }

    /// Checks every byte of what was written after `state`.
    pub fn check_since(&self, state: &State) -> Result<()> {
        let State { footer, append, .. } = state;
        self.check_from((footer.commit_id, footer.sequence), *append, Scrutiny::EveryByte)
    }

    fn check_from(&self, mut previous: (CommitId, u64), mut at: u64, scrutiny: Scrutiny<'_>) -> Result<()> {
        let len = self.file.len().map_err(Error::io(&self.path, "read back"))?;
        let ident = &self.state.footer.ident;
        while at < self.state.append {
            let check = check_commit(self.file.as_ref(), Some(ident), previous, at, len, scrutiny);
            match check.map_err(Error::io(&self.path, "read back"))? {
                Check::Whole(state) => (previous, at) = ((state.footer.commit_id, state.footer.sequence), state.append),
                Check::Torn(why) | Check::Damaged(why) => {
                    return Err(self.damaged(format!("what was just written is not what is read: {why}")));
                }
            }
        }
        if previous.0 != self.state.footer.commit_id || at != len {
            return Err(self.damaged("what was just written is not what is read".into()));
        }
        Ok(())
    }

    /// Returns the new generation as far as it was written.
    pub fn snapshot(&self) -> Snapshot {
        let recovered = Recovered {
            state: self.state.clone(),
            slot: None,
            tail: Tail::Clean,
            truncated: None,
            warnings: vec![],
        };
        Snapshot::new(&self.path, self.file.clone(), recovered, self.state.append)
    }

    /// Lays a row out as the first commit, with its columns ending at least `columns_at` bytes behind the commit's start.
    fn lay_out(&self, row: Row, pack_id: Vec<u8>, columns_at: u64) -> Result<EncodedCommit> {
        let footer = self.next_footer();
        let kind = footer.ident.object_format;
        let columns = columns::encode(vec![row], kind).map_err(|why| self.invalid(why))?;
        let extra = Extra {
            residence: None,
            min_metadata: columns_at.saturating_sub(columns.pack_at),
        };
        let previous = self.state.footer.commit_id;
        Ok(commit::encode_with(
            columns,
            self.state.append,
            previous,
            &pack_id,
            footer,
            0,
            extra,
        ))
    }

    /// Writes a commit whose pack bytes are in their place already.
    fn write_around_pack(&mut self, commit: EncodedCommit) -> Result<()> {
        let put = |at: u64, bytes: &[u8]| self.file.write_all_at(at, bytes).map_err(write_error(&self.path));
        put(commit.at, &commit.metadata)?;
        let mut at = commit.at + commit.metadata.len() as u64;
        for chunk in &commit.columns {
            put(at, chunk)?;
            at += chunk.len() as u64;
        }
        let mut end = vec![0; (commit.footer_at - commit.pack_end) as usize];
        end.extend_from_slice(&commit.footer_bytes);
        put(commit.pack_end, &end)?;
        self.take(&commit);
        Ok(())
    }

    fn take(&mut self, commit: &EncodedCommit) {
        self.state = State {
            footer: commit.footer.clone(),
            footer_len: commit.footer_bytes.len() as u64,
            footer_end: commit.end(),
            append: commit.end(),
        };
    }

    fn invalid(&self, why: String) -> Error {
        Error::Invalid(format!("{}: {why}", self.path.display()))
    }

    fn damaged(&self, what: String) -> Error {
        read_error(&self.path, ReadError::Damaged(what))
    }

    /// Names the archive in an error that the emitter could not give a path to.
    fn named(&self, error: Error) -> Error {
        match error {
            Error::Io { action, source, path } if path.as_os_str() == emit::OUTPUT => Error::Io {
                path: self.path.clone(),
                action: if action == "write" {
                    "write the new generation of"
                } else {
                    action
                },
                source,
            },
            other => other,
        }
    }
}

/// Returns more bytes than packs of `len` bytes take when they are written anew. Only the number of parts counts, of which each
/// costs eight bytes: deltas may have to become whole objects.
fn most_bytes(len: u64) -> u64 {
    4 * len + 64 * MAX_PART_LEN
}

/// Returns the graph of all commits that are kept. Those of packs that nobody has proven yet are read.
fn commits(source: &Snapshot, reader: &ObjectReader<'_>, history: &mut History, kept: &Kept) -> Result<CommitRows> {
    let mut txns = vec![];
    for rank in 0..source.packs() {
        txns.push(source.pack_txn(rank)?);
    }
    let mut commits = vec![];
    for index in 0..kept.objects.len() {
        let (id, at) = (kept.objects.oid(index), kept.objects.location(index));
        let known = || {
            let table = history.resolved.get(&txns[at.pack as usize])?;
            crate::pack::header::kind_of_code(*table.kinds.get(table.find(id)?)?)
        };
        let kind = match kept.objects.kind(index).or_else(known) {
            Some(kind) => kind,
            None => reader.header_at(at)?.0,
        };
        if kind != Kind::Commit {
            continue;
        }
        match history.commits.remove(id) {
            Some(commit) => commits.push(commit),
            None => {
                let object = reader.read_at(at)?;
                let links = parse::commit(&object.data, id.kind()).map_err(|why| malformed(id, why))?;
                commits.push(parsed_row(id, links));
            }
        }
    }
    history.resolved.clear();
    commits.sort_unstable_by_key(|commit| commit.oid);
    let mut commits = commits.into_iter().collect();
    number(&mut commits, None)?;
    Ok(commits)
}

/// Reads every object of the new pack, hashes it, and checks that all it refers to is in the pack.
fn check_pack(written: &WrittenPack<'_>, progress: &mut OnProgress<'_>) -> Result<Resolved> {
    let nowhere_else = |_: &oid, _| Ok(false);
    let mut on_objects = |done, total| progress(Progress::Checking(done, total));
    let options = ResolveOptions {
        is_there: Some(&nowhere_else),
        progress: Some(&mut on_objects),
        ..ResolveOptions::default()
    };
    let resolved = resolve(written, 0, &written.entries, options)?;
    refuse_unsound(&written.path, &resolved)?;
    Ok(resolved)
}

/// Fails where something is wrong with a pack, and names the first thing that is.
pub fn refuse_unsound(path: &std::path::Path, resolved: &Resolved) -> Result<()> {
    if let Some(damage) = resolved.damaged.first() {
        return Err(Error::Damaged {
            path: path.into(),
            what: format!("object {}: {}", damage.oid, damage.why),
        });
    }
    if let Some(dangling) = resolved.dangling.first() {
        let from = dangling
            .from
            .map_or_else(String::new, |from| format!(" ({from} refers to it)"));
        return Err(Error::MissingObject {
            path: path.into(),
            oid: dangling.to,
            why: from,
        });
    }
    Ok(())
}

/// Writes to a medium from an offset on.
struct At<'a> {
    medium: &'a dyn Medium,
    at: u64,
}

impl Write for At<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.medium.write_all_at(self.at, bytes)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The pack that was just written, before there are columns that describe it.
struct WrittenPack<'a> {
    medium: &'a dyn Medium,
    path: PathBuf,
    at: u64,
    pack: PackMeta,
    entries: Arc<EntryTable>,
}

impl PackStore for WrittenPack<'_> {
    fn object_format(&self) -> gix_hash::Kind {
        self.pack.id.kind()
    }
    fn packs(&self) -> PackRank {
        1
    }
    fn pack_len(&self, _: PackRank) -> Result<u64> {
        Ok(self.pack.len)
    }
    fn pack_id(&self, _: PackRank) -> Result<ObjectId> {
        Ok(self.pack.id)
    }
    fn pack_name(&self, _: PackRank) -> String {
        format!("{} of the new {}", self.pack.id, self.path.display())
    }
    fn store_path(&self) -> PathBuf {
        self.path.clone()
    }
    fn read_exact_at(&self, _: PackRank, offset: u64, buf: &mut [u8]) -> Result<()> {
        if offset
            .checked_add(buf.len() as u64)
            .is_none_or(|end| end > self.pack.len)
        {
            let what = "an entry of the new pack reaches beyond it".into();
            return Err(read_error(&self.path, ReadError::Damaged(what)));
        }
        self.medium
            .read_exact_at(self.at + offset, buf)
            .map_err(Error::io(&self.path, "read back"))
    }
    fn lookup(&self, id: &oid) -> Result<Option<Location>> {
        Ok(self.entries.find(id).map(|row| Location {
            pack: 0,
            offset: self.entries.offsets[row],
            crc32: self.entries.crc32s[row],
        }))
    }
    fn entries(&self, _: PackRank) -> Result<Arc<EntryTable>> {
        Ok(Arc::clone(&self.entries))
    }
}
