//! gitoxide's index-pack.

use std::{fs, path::Path, sync::atomic::AtomicBool};

use anyhow::{Result, anyhow, ensure};

use super::{Arm, Stage, in_threads, share};
use crate::{
    measure::{Cost, measure},
    packs::Pack,
};

pub fn all() -> Vec<Box<dyn Arm>> {
    vec![
        Box::new(Bundle { threads: None }),
        Box::new(Bundle { threads: Some(1) }),
    ]
}

struct Bundle {
    threads: Option<usize>,
}

impl Arm for Bundle {
    fn name(&self) -> String {
        match self.threads {
            None => "gix write".into(),
            Some(_) => "gix write 1 thread".into(),
        }
    }

    fn durability(&self) -> &'static str {
        "process (renamed into place, never synced)"
    }

    fn artifact(&self, _stage: Stage) -> &'static str {
        ".pack, .idx"
    }

    fn can(&self, stage: Stage, _appenders: usize) -> bool {
        stage == Stage::Index
    }

    fn run(&self, dir: &Path, packs: &[Pack], _stage: Stage, appenders: usize) -> Result<Cost> {
        let stop = AtomicBool::new(false);
        let cost = measure(|| {
            in_threads(appenders, |nth| {
                for pack in share(packs, appenders, nth) {
                    let options = gix_pack::bundle::write::Options {
                        thread_limit: self.threads,
                        ..Default::default()
                    };
                    let outcome = gix_pack::Bundle::write_to_directory(
                        &mut pack.bytes(),
                        Some(dir),
                        &mut gix_utils::progress::Discard,
                        &stop,
                        None::<gix_object::find::Never>,
                        gix_hash::Kind::Sha1,
                        options,
                    );
                    outcome.map_err(|error| anyhow!("gix: {error:?}"))?;
                }
                Ok(())
            })
        })?;
        let indexes = fs::read_dir(dir)?
            .filter(|entry| {
                entry
                    .as_ref()
                    .is_ok_and(|entry| entry.path().extension().is_some_and(|e| e == "idx"))
            })
            .count();
        ensure!(
            indexes == packs.len(),
            "gix wrote {indexes} indexes for {} packs",
            packs.len()
        );
        Ok(cost)
    }
}
