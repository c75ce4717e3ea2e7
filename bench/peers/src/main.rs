//! The way of a pack to the disk: this project's four writers, git, gitoxide and the peer crate, on the same packs.
//!
//! `bench/push_path` builds and runs this; see there for what the columns mean.

mod arms;
mod measure;
mod packs;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde_json::json;

use arms::{Arm, Stage};

/// Bytes of a pack, and how many of them are stored in one run.
const RUNGS: [(usize, usize); 4] = [(200, 200), (8 << 10, 100), (512 << 10, 32), (32 << 20, 8)];

#[derive(Parser)]
struct Args {
    /// Only arms whose names start with one of these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only packs of this size, in bytes
    #[arg(long)]
    size: Option<usize>,
    /// How many packs in one run
    #[arg(long)]
    iters: Option<usize>,
    /// Only this stage
    #[arg(long, value_parser = ["ack", "index", "complete"])]
    stage: Option<String>,
    /// How many threads store packs at once
    #[arg(long, value_delimiter = ',', default_value = "1")]
    appenders: Vec<usize>,
    /// How often every arm runs; arms take turns within each round
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Where to work: on the disk that is to be measured
    #[arg(long)]
    dir: PathBuf,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let arms: Vec<Box<dyn Arm>> = arms::all()
        .into_iter()
        .filter(|arm| is_wanted(&args.only, &arm.name()))
        .collect();
    ensure!(!arms.is_empty(), "no arm has such a name");
    let is_chosen = |stage: &Stage| {
        args.stage
            .as_deref()
            .is_none_or(|name| name == format!("{stage:?}").to_lowercase())
    };
    let stages: Vec<_> = Stage::ALL.into_iter().filter(is_chosen).collect();
    let rungs: Vec<_> = match args.size {
        Some(size) => vec![(size, args.iters.or(default_iters(size)).context("--iters is missing")?)],
        None => RUNGS.map(|(size, iters)| (size, args.iters.unwrap_or(iters))).into(),
    };
    for (size, iters) in rungs {
        for &appenders in &args.appenders {
            let mut runs = 0;
            for round in 0..args.rounds {
                // Other packs each time, so that no arm meets one again.
                let packs = packs::make(size, iters, round as u64 + 1)?;
                for stage in &stages {
                    for turn in 0..arms.len() {
                        let arm = &arms[(turn + round) % arms.len()];
                        if arm.can(*stage, appenders) {
                            run(&args.dir, arm.as_ref(), &packs, size, *stage, appenders)?;
                            runs += 1;
                        }
                    }
                }
            }
            ensure!(runs > 0, "no arm can do that");
        }
    }
    Ok(())
}

/// Runs one arm and prints a line of JSON.
fn run(dir: &Path, arm: &dyn Arm, packs: &[packs::Pack], size: usize, stage: Stage, appenders: usize) -> Result<()> {
    let place = tempfile::Builder::new().prefix("push-path-").tempdir_in(dir)?;
    // No arm pays for the writes of the one before.
    rustix::fs::sync();
    let load = measure::load();
    let cost = arm
        .run(place.path(), packs, stage, appenders)
        .with_context(|| arm.name())?;
    let bytes: usize = packs.iter().map(|pack| pack.bytes().len()).sum();
    let line = json!({
        "size": size,
        "packs": packs.len(),
        "bytes": bytes,
        "arm": arm.name(),
        "stage": stage.name(),
        "appenders": appenders,
        "wall": cost.wall.as_secs_f64(),
        "cpu": cost.cpu.as_secs_f64(),
        "load": load,
        "durability": arm.durability(),
        "artifact": arm.artifact(stage),
    });
    println!("{line}");
    Ok(())
}

fn is_wanted(only: &[String], name: &str) -> bool {
    only.is_empty()
        || only
            .iter()
            .any(|wanted| name == wanted || (wanted.ends_with('*') && name.starts_with(wanted.trim_end_matches('*'))))
}

fn default_iters(size: usize) -> Option<usize> {
    RUNGS.iter().find(|(rung, _)| *rung == size).map(|(_, iters)| *iters)
}
