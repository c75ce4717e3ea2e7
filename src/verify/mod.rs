//! Checking an archive: what is damaged, where, and what that costs.
//!
//! Nothing is written, no lock is taken, and nothing stops a check but the end: behind a damage it goes on with what the
//! footer says is there. Each level does what the levels before it do:
//!
//! | level | reads | checks |
//! |---|---|---|
//! | [`Level::Quick`] | all but the packs | head, slots, tail, the chain of commits, every checksum of metadata, columns and footers; rows against each other, against the footer and against their block indexes; the history of references, their names, and that the objects they name are there |
//! | [`Level::Standard`] | the packs, once | the hash of every pack and the CRC-32 of every entry |
//! | [`Level::Full`] | the packs, once or twice | every object is made and hashed and its links are followed; tables, index rows and commit graph are what the packs say; what is dead too |
//!
//! Where every object of every pack is what it should be and each of its links leads to an object, everything that a
//! reference reaches is there: that takes no walk. Only where something is wrong is the history walked, to tell which
//! references reach it.

mod affected;
mod columns;
mod dead;
mod finding;
mod healed;
mod objects;
mod packs;
mod ref_log;
mod refs;
pub mod repair;
mod structure;
mod tables;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use finding::{Code, Finding, REFS_NAMED, Severity};
pub use repair::{Repairable, Repaired, repair};

use crate::{
    archive::{Opened, Snapshot},
    error::{Error, Result},
    format::{
        batch::{PackSpan, ReadError},
        slot::Slot,
    },
    media::{Disk, LocalDisk},
    pack::PackRank,
};

/// How many findings of a kind are told of one pack; the rest is counted.
const TOLD: usize = 1000;

/// How much to check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Quick,
    #[default]
    Standard,
    Full,
}

impl Level {
    /// Returns what the level leaves unchecked.
    fn not_checked(self) -> Vec<&'static str> {
        let all = [
            (Level::Standard, "the bytes of the packs"),
            (Level::Full, "that objects bear their names"),
            (Level::Full, "that everything that the references reach is there"),
            (Level::Full, "what was derived from the packs, and dead bytes"),
        ];
        let left = all.into_iter().filter(|(from, _)| *from > self);
        left.map(|(_, what)| what).collect()
    }
}

/// What is being done now, and how far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub stage: &'static str,
    /// Done and to be done, in `unit`.
    pub done: u64,
    pub total: u64,
    pub unit: &'static str,
}

/// How to check.
pub struct Options<'a> {
    pub level: Level,
    /// The file system that the archive is on.
    pub disk: &'a dyn Disk,
    /// The most threads to use.
    pub threads: usize,
    /// Called now and then.
    pub on_progress: Option<&'a mut dyn FnMut(Progress)>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            level: Level::default(),
            disk: &LocalDisk,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            on_progress: None,
        }
    }
}

/// Checks a state that has no path yet: a new generation of an archive before it takes the place of the old one.
pub fn verify_state(snapshot: &Snapshot, level: Level, threads: usize) -> Vec<Finding> {
    let mut check = Check {
        level,
        threads,
        findings: vec![],
        checked: Checked::default(),
        repairable: Repairable::default(),
        on_progress: None,
    };
    check.state(snapshot, &[None, None]);
    check.findings
}

/// Checks a new generation for gc: everything but what the objects of the pack are and refer to, which gc itself has compared, and
/// what was derived from them.
///
/// # Errors
/// Fails where something is not as it was to be written.
pub fn check_new_generation(snapshot: &Snapshot) -> Result<()> {
    let threads = Options::default().threads;
    let findings = verify_state(snapshot, Level::Standard, threads);
    match findings
        .into_iter()
        .find(|finding| finding.severity >= Severity::Damage)
    {
        None => Ok(()),
        Some(finding) => Err(Error::Damaged {
            path: snapshot.path().into(),
            what: format!("what was just written is not what is read: {}", finding.what),
        }),
    }
}

/// How often a check starts again because the file was replaced on the server of a network disk.
const ATTEMPTS: usize = 5;

/// How much was checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Commits on the way from the first to the newest, dead ones too.
    pub commits: u64,
    /// Rows of live commits.
    pub rows: u64,
    pub refs: u64,
    /// Packs whose bytes were read.
    pub packs: u64,
    pub pack_bytes: u64,
    /// Entries whose CRC-32 was compared.
    pub entries: u64,
    /// Objects that were made and hashed.
    pub objects: u64,
}

/// What a check found out about an archive.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub path: PathBuf,
    pub level: Level,
    /// The worst of the findings; `None` where there are none.
    pub worst: Option<Severity>,
    /// The state that was checked; `None` where there is none to show.
    pub uuid: Option<String>,
    pub generation: Option<u64>,
    pub sequence: Option<u64>,
    pub commit_id: Option<String>,
    pub checked: Checked,
    /// What this level does not check.
    pub not_checked: Vec<&'static str>,
    /// In the order in which they were found: the file from its start, then its packs, then the references.
    pub findings: Vec<Finding>,
    /// What of it can be repaired; known after a full check.
    #[serde(skip)]
    pub repairable: Repairable,
}

/// Checks the newest state of the archive at `path`.
///
/// # Errors
/// Fails where the path names no archive. Damage is no error: it is in the report.
pub fn verify(path: &Path, mut options: Options<'_>) -> Result<Report> {
    for _ in 1..ATTEMPTS {
        match once(path, &mut options) {
            // R26: another machine put a new file in its place. What is there now is to be checked.
            Err(Error::Stale { .. }) => {}
            checked => return checked,
        }
    }
    once(path, &mut options)
}

fn once(path: &Path, options: &mut Options<'_>) -> Result<Report> {
    let mut report = Report {
        path: path.into(),
        level: options.level,
        worst: None,
        uuid: None,
        generation: None,
        sequence: None,
        commit_id: None,
        checked: Checked::default(),
        not_checked: options.level.not_checked(),
        findings: vec![],
        repairable: Repairable::default(),
    };
    let mut check = Check {
        level: options.level,
        threads: options.threads,
        findings: vec![],
        checked: Checked::default(),
        repairable: Repairable::default(),
        on_progress: match &mut options.on_progress {
            Some(on_progress) => Some(&mut **on_progress),
            None => None,
        },
    };
    match Opened::open(options.disk, path) {
        Ok(opened) => {
            structure::check_head(&mut check, &opened);
            structure::check_tail(&mut check, &opened);
            let Opened {
                file,
                len,
                head,
                recovered,
                judged,
            } = opened;
            if !judged {
                report.not_checked.push("what another process is writing now");
            }
            let snapshot = Snapshot::new(path, file.clone(), recovered, len);
            report.uuid = Some(snapshot.uuid());
            report.generation = Some(snapshot.generation());
            report.sequence = Some(snapshot.sequence());
            report.commit_id = Some(snapshot.state().footer.commit_id.to_string());
            check.state(&snapshot, &head.slots);
            if check
                .findings
                .iter()
                .any(|finding| finding.severity == Severity::Unreadable)
            {
                // A file that is gone from the server is no damage.
                let stat = file.stat().map_err(Error::io(path, "stat"));
                if let Err(error @ Error::Stale { .. }) = stat {
                    return Err(error);
                }
            }
        }
        Err(error @ (Error::Damaged { .. } | Error::Truncated { .. })) => {
            let (code, what) = match error {
                Error::Truncated { size, confirmed, .. } => {
                    let what = format!("{size} bytes of {confirmed} are left, and no whole commit among them");
                    (Code::Truncated, what)
                }
                Error::Damaged { what, .. } => (Code::NoState, format!("no state can be shown: {what}")),
                other => (Code::NoState, other.to_string()),
            };
            check.find(Finding::new(Severity::Damage, code, what));
        }
        Err(error) => return Err(error),
    }
    report.worst = check.findings.iter().map(|finding| finding.severity).max();
    (report.findings, report.checked) = (check.findings, check.checked);
    report.repairable = check.repairable;
    Ok(report)
}

/// A check under way.
struct Check<'a> {
    level: Level,
    threads: usize,
    findings: Vec<Finding>,
    checked: Checked,
    repairable: Repairable,
    on_progress: Option<&'a mut dyn FnMut(Progress)>,
}

impl Check<'_> {
    fn find(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Notes that something could not be read, or is not what was written.
    fn fail(&mut self, code: Code, error: ReadError) {
        let (severity, what) = match error {
            ReadError::Io(error) => (Severity::Unreadable, format!("the disk failed: {error}")),
            ReadError::Damaged(what) => (Severity::Damage, what),
        };
        self.find(Finding::new(severity, code, what));
    }

    /// Notes an error of the layers above the format.
    fn fail_with(&mut self, code: Code, error: &Error) {
        let severity = match error {
            Error::Io { .. } | Error::Stale { .. } => Severity::Unreadable,
            _ => Severity::Damage,
        };
        let what = match error {
            Error::Damaged { what, .. } => what.clone(),
            Error::Io { action, source, .. } => format!("cannot {action}: {source}"),
            other => other.to_string(),
        };
        self.find(Finding::new(severity, code, what));
    }

    /// Returns where the packs lie. Where that cannot be told it is a finding.
    fn pack_spans(&mut self, snapshot: &Snapshot) -> Vec<(PackRank, PackSpan)> {
        snapshot.pack_spans().unwrap_or_else(|error| {
            self.fail_with(Code::Pack, &error);
            vec![]
        })
    }

    fn progress(&mut self, stage: &'static str, done: u64, total: u64, unit: &'static str) {
        if let Some(on_progress) = &mut self.on_progress {
            on_progress(Progress {
                stage,
                done,
                total,
                unit,
            });
        }
    }

    /// Checks everything that a state consists of.
    fn state(&mut self, snapshot: &Snapshot, slots: &[Option<Slot>; 2]) {
        let walked = structure::walk(self, snapshot, slots);
        let stored = columns::check(self, snapshot, &walked);
        if self.level >= Level::Full {
            dead::check(self, snapshot, &walked);
        }
        let mut suspects = affected::Suspects::default();
        match self.level {
            Level::Quick => {}
            Level::Standard => packs::check(self, snapshot, &mut suspects),
            Level::Full => objects::check(self, snapshot, &stored, &mut suspects),
        }
        healed::settle(self, snapshot, &mut suspects);
        objects::tell_marks(self, snapshot, &stored, &mut suspects);
        let tips = refs::check(self, snapshot, &mut suspects);
        healed::note_lost(self, snapshot, &suspects);
        affected::tell(self, snapshot, &tips, &suspects);
    }
}
