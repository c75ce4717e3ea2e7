//! Everybody who takes packs.

mod git;
mod gix;
mod ours;
mod peer;

use std::path::Path;

use anyhow::Result;

use crate::{measure::Cost, packs::Pack};

/// How far a pack must have come when the clock stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// It is stored, and the one who sent it is told so.
    Ack,
    /// Besides, every object was read, and can be found by its id.
    Index,
    /// Besides, a reference points at its commit.
    Complete,
}

impl Stage {
    pub const ALL: [Stage; 3] = [Stage::Ack, Stage::Index, Stage::Complete];

    pub fn name(self) -> &'static str {
        match self {
            Stage::Ack => "ack",
            Stage::Index => "ack + index",
            Stage::Complete => "pack + ref + object index",
        }
    }
}

/// One who takes packs.
pub trait Arm {
    fn name(&self) -> String;
    /// What survives when a pack is acknowledged.
    fn durability(&self) -> &'static str;
    /// What is on the disk afterwards.
    fn artifact(&self, stage: Stage) -> &'static str;
    /// Whether it can do that at all.
    fn can(&self, stage: Stage, appenders: usize) -> bool;
    /// Stores all packs in a new place below `dir`, with so many threads, and fails where not all of it is there afterwards.
    fn run(&self, dir: &Path, packs: &[Pack], stage: Stage, appenders: usize) -> Result<Cost>;
}

/// Returns all arms.
pub fn all() -> Vec<Box<dyn Arm>> {
    let mut arms: Vec<Box<dyn Arm>> = vec![];
    arms.extend(ours::all());
    arms.push(Box::new(git::IndexPack));
    arms.extend(gix::all());
    arms.extend(peer::all());
    arms
}

/// Returns the part of the packs that one of several threads stores.
pub fn share(packs: &[Pack], appenders: usize, nth: usize) -> impl Iterator<Item = &Pack> {
    packs.iter().skip(nth).step_by(appenders)
}

/// Runs `work` for each of so many threads.
pub fn in_threads(appenders: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    if appenders == 1 {
        return work(0);
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..appenders)
            .map(|nth| {
                scope.spawn({
                    let work = &work;
                    move || work(nth)
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no arm panics"))
    })
}
