//! The four arms of this project, through the library.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::sync_channel,
    },
    thread,
};

use anyhow::{Result, ensure};
use gix_hash::{Kind, ObjectId, oid};
use znippy::{
    archive::{Appender, Durability, NewPack, PackData, Snapshot, Transaction, WritePolicy, create},
    format::{commit_rows::CommitRows, row::Proof},
    pack::{
        EntryTable, Location, PackRank, PackStore,
        resolve::{ResolveOptions, resolve},
    },
    refs::{Expected, RefEdit, Target},
};

use super::{Arm, Stage, in_threads, share};
use crate::{
    measure::{Cost, measure},
    packs::Pack,
};

pub fn all() -> Vec<Box<dyn Arm>> {
    let arm = |durability, hash| Box::new(Ours { durability, hash }) as Box<dyn Arm>;
    let mut arms: Vec<_> = Durability::ALL.map(|durability| arm(durability, false)).into();
    arms.insert(1, arm(Durability::Fast, true));
    arms
}

/// One arm. Packs come in memory, as the others get them, with their table of objects, as `pack-objects` gives it to a pusher.
///
/// A pack's trailing hash is checked by whoever receives it, byte by byte as it comes in; `hash` says to do it within the clock.
/// The others never check it, but for those that index.
struct Ours {
    durability: Durability,
    hash: bool,
}

impl Arm for Ours {
    fn name(&self) -> String {
        match self.hash {
            true => format!("{} + hash", self.durability),
            false => self.durability.to_string(),
        }
    }

    fn durability(&self) -> &'static str {
        match self.durability {
            Durability::Fast => "process",
            Durability::Safe | Durability::Uring => "power loss",
            Durability::Batch => "power loss, from the end of the batch",
        }
    }

    fn artifact(&self, stage: Stage) -> &'static str {
        match stage {
            Stage::Ack => "one Arrow file: pack, object table",
            Stage::Index => "one Arrow file: pack, object table with kinds and sizes, commit graph",
            Stage::Complete => "one Arrow file: pack, object table with kinds and sizes, commit graph, refs",
        }
    }

    fn can(&self, stage: Stage, appenders: usize) -> bool {
        (!self.hash || stage == Stage::Ack) && (self.durability != Durability::Batch || appenders == 1)
    }

    fn run(&self, dir: &Path, packs: &[Pack], stage: Stage, appenders: usize) -> Result<Cost> {
        let path = dir.join("a.znippy");
        create(&path, Kind::Sha1, "refs/heads/main".into())?;
        // Every thread has the archive open for itself, as if it were another process.
        let appender = || {
            let policy = WritePolicy {
                durability: self.durability,
                ..WritePolicy::default()
            };
            Appender::new(&path, policy)
        };
        // What comes with a pack is there before the clock starts, as its bytes are.
        let given: Vec<_> = packs
            .iter()
            .map(|pack| Ok(Mutex::new(Some(given(pack)?))))
            .collect::<Result<_>>()?;
        let next = AtomicUsize::new(0);
        let take = |pack: &Pack| {
            let index = (pack as *const Pack as usize - packs.as_ptr() as usize) / size_of::<Pack>();
            let mut new = given[index]
                .lock()
                .expect("nobody panics")
                .take()
                .expect("each is taken once");
            if self.hash {
                pack.check()?;
            }
            if stage != Stage::Ack {
                index_pack(&mut new, pack)?;
            }
            Ok::<_, anyhow::Error>(new)
        };
        let edit = |pack: &Pack| RefEdit {
            name: format!("refs/heads/t{}", next.fetch_add(1, Ordering::Relaxed)).into(),
            expected: Expected::Any,
            new: Some(Target::Object {
                oid: pack.commit,
                peeled: None,
            }),
            rewinds: false,
        };
        let cost = measure(|| match self.durability {
            Durability::Batch => {
                let mut appender = appender();
                let mut batch = appender.batch();
                for pack in packs {
                    batch.add_pack(take(pack)?)?;
                    if stage == Stage::Complete {
                        batch.edit(edit(pack))?;
                    }
                }
                batch.finish()?;
                Ok(())
            }
            _ => in_threads(appenders, |nth| {
                let commit_all = |packs: &mut dyn Iterator<Item = Result<(&Pack, NewPack)>>| {
                    let mut appender = appender();
                    for next in packs {
                        let (pack, new) = next?;
                        let edits = match stage {
                            Stage::Complete => vec![edit(pack)],
                            Stage::Ack | Stage::Index => vec![],
                        };
                        let transaction = Transaction {
                            packs: vec![new],
                            edits,
                            ..Transaction::default()
                        };
                        let outcome = appender.commit(transaction)?;
                        ensure!(outcome.written, "nothing was written");
                    }
                    Ok(())
                };
                let mut mine = share(packs, appenders, nth).map(|pack| Ok((pack, take(pack)?)));
                if stage == Stage::Ack {
                    return commit_all(&mut mine);
                }
                // While a pack is on its way to the disk, the next one is read and hashed, as the peer's are after their writes.
                thread::scope(|scope| {
                    let (indexed, ready) = sync_channel(1);
                    let committer = scope.spawn(move || commit_all(&mut ready.into_iter()));
                    // A committer that failed takes no more.
                    let _ = mine.try_for_each(|next| indexed.send(next));
                    drop(indexed);
                    committer.join().expect("no arm panics")
                })
            }),
        })?;
        prove(&path, packs, stage)?;
        Ok(cost)
    }
}

/// Fails unless another reader finds every object, with the bytes and the kind that it must have, and every reference.
fn prove(path: &Path, packs: &[Pack], stage: Stage) -> Result<()> {
    let snapshot = Snapshot::open(path)?;
    ensure!(
        snapshot.packs() as usize == packs.len(),
        "{} packs, not {}",
        snapshot.packs(),
        packs.len()
    );
    for pack in packs {
        for entry in &pack.entries {
            let found = snapshot.lookup(&entry.oid)?;
            ensure!(
                found.is_some_and(|at| at.offset == entry.offset && at.crc32 == entry.crc32),
                "an object was lost"
            );
        }
    }
    if stage != Stage::Ack {
        let info = snapshot.info()?;
        ensure!(
            (info.unresolved_objects, info.unproven_packs) == (0, 0),
            "the index is not complete"
        );
        for rank in 0..snapshot.packs() {
            let table = snapshot.entries(rank)?;
            ensure!(table.kinds.len() == table.len(), "kinds are missing");
        }
    }
    let refs = if stage == Stage::Complete { packs.len() } else { 0 };
    ensure!(snapshot.info()?.refs as usize == refs, "references were lost");
    Ok(())
}

/// What comes with a pack.
fn given(pack: &Pack) -> Result<NewPack> {
    Ok(NewPack {
        data: PackData::Checked(pack.checked.clone()),
        path: "pack".into(),
        id: pack.id,
        entries: EntryTable {
            oids: pack
                .entries
                .iter()
                .flat_map(|entry| entry.oid.as_slice().to_vec())
                .collect(),
            oid_len: 20,
            offsets: pack.entries.iter().map(|entry| entry.offset).collect(),
            crc32s: pack.entries.iter().map(|entry| entry.crc32).collect(),
            ..EntryTable::default()
        },
        proof: Proof::None,
        commits: Default::default(),
    })
}

/// Reads and re-hashes every object of the pack, and takes kinds, sizes and the commit graph from what it finds.
fn index_pack(new: &mut NewPack, pack: &Pack) -> Result<()> {
    let table = Arc::new(new.entries.clone());
    let mut commits = CommitRows::default();
    let mut on_commit = |commit: znippy::pack::resolve::ResolvedCommit<'_>| {
        let (id, links) = (table.oid(commit.row as usize), &commit.links);
        commits.push(
            id,
            &links.tree,
            links.parents.iter().map(AsRef::as_ref),
            b"",
            links.time,
        );
        commits.set_generation(commits.len() - 1, 1);
    };
    let store = InMemory {
        pack,
        table: table.clone(),
    };
    let options = ResolveOptions {
        threads: 1,
        on_commit: Some(&mut on_commit),
        ..ResolveOptions::default()
    };
    let resolved = resolve(&store, 0, &store.table, options)?;
    ensure!(resolved.is_sound(), "the pack is damaged");
    resolved.fill(&mut new.entries);
    new.commits = commits;
    new.proof = Proof::Names;
    Ok(())
}

/// A pack in memory.
struct InMemory<'a> {
    pack: &'a Pack,
    table: Arc<EntryTable>,
}

impl PackStore for InMemory<'_> {
    fn object_format(&self) -> Kind {
        Kind::Sha1
    }
    fn packs(&self) -> PackRank {
        1
    }
    fn pack_len(&self, _: PackRank) -> znippy::Result<u64> {
        Ok(self.pack.bytes().len() as u64)
    }
    fn pack_id(&self, _: PackRank) -> znippy::Result<ObjectId> {
        Ok(self.pack.id)
    }
    fn pack_name(&self, _: PackRank) -> String {
        "pack".into()
    }
    fn read_exact_at(&self, _: PackRank, offset: u64, buf: &mut [u8]) -> znippy::Result<()> {
        let at = offset as usize;
        let bytes = self.pack.bytes().get(at..at + buf.len());
        buf.copy_from_slice(bytes.ok_or_else(|| znippy::Error::Invalid("beyond the pack".into()))?);
        Ok(())
    }
    fn lookup(&self, id: &oid) -> znippy::Result<Option<Location>> {
        Ok(self.table.find(id).map(|index| Location {
            pack: 0,
            offset: self.table.offsets[index],
            crc32: self.table.crc32s[index],
        }))
    }
    fn entries(&self, _: PackRank) -> znippy::Result<Arc<EntryTable>> {
        Ok(self.table.clone())
    }
}
