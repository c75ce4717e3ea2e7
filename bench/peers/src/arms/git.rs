//! `git index-pack --stdin`: what a git server runs on a push.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Result, ensure};

use super::{Arm, Stage, in_threads, share};
use crate::{
    measure::{Cost, measure},
    packs::Pack,
};

pub struct IndexPack;

impl Arm for IndexPack {
    fn name(&self) -> String {
        "git index-pack".into()
    }

    fn durability(&self) -> &'static str {
        "power loss (git syncs pack, idx and rev; core.fsync default)"
    }

    fn artifact(&self, stage: Stage) -> &'static str {
        match stage {
            Stage::Complete => ".pack, .idx, .rev, loose ref",
            _ => ".pack, .idx, .rev",
        }
    }

    fn can(&self, stage: Stage, _appenders: usize) -> bool {
        stage != Stage::Ack
    }

    fn run(&self, dir: &Path, packs: &[Pack], stage: Stage, appenders: usize) -> Result<Cost> {
        let status = Command::new("git")
            .args(["init", "-q", "--bare", "."])
            .current_dir(dir)
            .status()?;
        ensure!(status.success(), "git init failed");
        let cost = measure(|| {
            in_threads(appenders, |nth| {
                for (count, pack) in share(packs, appenders, nth).enumerate() {
                    let mut child = Command::new("git")
                        .args(["index-pack", "--stdin"])
                        .current_dir(dir)
                        .stdin(Stdio::piped())
                        .stdout(Stdio::null())
                        .spawn()?;
                    child.stdin.take().expect("it is a pipe").write_all(pack.bytes())?;
                    ensure!(child.wait()?.success(), "git index-pack failed");
                    if stage == Stage::Complete {
                        let name = format!("refs/heads/t{nth}-{count}");
                        let status = Command::new("git")
                            .args(["update-ref", &name, &pack.commit.to_string()])
                            .current_dir(dir)
                            .status()?;
                        ensure!(status.success(), "git update-ref failed");
                    }
                }
                Ok(())
            })
        })?;
        let indexes = fs::read_dir(dir.join("objects/pack"))?
            .filter(|entry| {
                entry
                    .as_ref()
                    .is_ok_and(|entry| entry.path().extension().is_some_and(|e| e == "idx"))
            })
            .count();
        ensure!(
            indexes == packs.len(),
            "git wrote {indexes} indexes for {} packs",
            packs.len()
        );
        Ok(cost)
    }
}
