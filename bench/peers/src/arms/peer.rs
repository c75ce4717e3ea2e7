//! The crate `znippy-plugin-git`: its three writers, and its store.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use git_storage_trait::{GitOps, RefUpdate};
use znippy_plugin_git::{
    archive_write::{ArchiveWrite, FastWriter, SafeWriter},
    arms::{StoreConfig, WriterArm},
    indexer::PushPath,
    uring_write::UringWriter,
};

use super::{Arm, Stage, in_threads, share};
use crate::{
    measure::{Cost, measure},
    packs::Pack,
};

pub fn all() -> Vec<Box<dyn Arm>> {
    [WriterArm::Fast, WriterArm::Safe, WriterArm::Uring]
        .map(|writer| Box::new(Peer { writer }) as Box<dyn Arm>)
        .into()
}

struct Peer {
    writer: WriterArm,
}

impl Peer {
    fn writer(&self, path: &Path) -> Result<(Box<dyn ArchiveWrite>, Option<PathBuf>)> {
        Ok(match self.writer {
            WriterArm::Fast => (Box::new(FastWriter::create(path)?), None),
            WriterArm::Safe => {
                let writer = SafeWriter::create(path)?;
                let journal = writer.journal_file();
                (Box::new(writer), Some(journal))
            }
            WriterArm::Uring => {
                let writer = UringWriter::create(path)?;
                let journal = writer.journal_file().to_path_buf();
                (Box::new(writer), Some(journal))
            }
        })
    }
}

impl Arm for Peer {
    fn name(&self) -> String {
        match self.writer {
            WriterArm::Fast => "peer FastWriter".into(),
            WriterArm::Safe => "peer SafeWriter".into(),
            WriterArm::Uring => "peer UringWriter".into(),
        }
    }

    fn durability(&self) -> &'static str {
        match self.writer {
            WriterArm::Fast => "process",
            WriterArm::Safe | WriterArm::Uring => "power loss (pack file and journal synced)",
        }
    }

    fn artifact(&self, stage: Stage) -> &'static str {
        match stage {
            Stage::Ack => "pack file, journal of places",
            Stage::Index => "pack file, journal, one row a pack (no objects)",
            Stage::Complete => "store directory: packs, journal, object tables, refs log",
        }
    }

    fn can(&self, stage: Stage, appenders: usize) -> bool {
        stage != Stage::Index || appenders == 1
    }

    fn run(&self, dir: &Path, packs: &[Pack], stage: Stage, appenders: usize) -> Result<Cost> {
        let path = dir.join("objects.pack");
        match stage {
            Stage::Ack => {
                let (writer, _) = self.writer(&path)?;
                measure(|| {
                    in_threads(appenders, |nth| {
                        share(packs, appenders, nth).try_for_each(|pack| writer.append(pack.bytes()).map(drop))
                    })
                })
            }
            Stage::Index => {
                let (writer, journal) = self.writer(&path)?;
                let push = PushPath::new(writer, &path, journal)?;
                let cost = measure(|| {
                    for pack in packs {
                        push.push_pack("bench", pack.bytes())?;
                    }
                    push.pool().wait_caught_up();
                    Ok(())
                })?;
                let rows = push.indexer("bench").rows();
                ensure!(rows == packs.len(), "{rows} rows for {} packs", packs.len());
                Ok(cost)
            }
            Stage::Complete => {
                let config = StoreConfig {
                    writer: self.writer,
                    ..StoreConfig::DEFAULT
                };
                let store = znippy_plugin_git::git_ops::open_selected(
                    dir,
                    "bench",
                    znippy_plugin_git::object::GitHashKind::Sha1,
                    config,
                )?;
                let cost = measure(|| {
                    in_threads(appenders, |nth| {
                        for (count, pack) in share(packs, appenders, nth).enumerate() {
                            let edit = RefUpdate::set(format!("refs/heads/t{nth}-{count}"), pack.commit.to_string());
                            store.put(pack.bytes(), &[edit])?;
                        }
                        Ok(())
                    })?;
                    store.wait_indexed();
                    Ok(())
                })?;
                for entry in packs.iter().flat_map(|pack| &pack.entries) {
                    ensure!(store.has(entry.oid.as_slice())?, "object {} was lost", entry.oid);
                }
                Ok(cost)
            }
        }
    }
}
