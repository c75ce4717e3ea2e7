//! When a commit counts as done: four ways to end an append, and what each promises.
//!
//! All arms write the same bytes to the same places; they differ in how the last of them get to the disk, and in what has
//! happened when the writer says that the commit is done.
//!
//! | arm | calls for the end of an append | on return the commit survives |
//! |---|---|---|
//! | [`Fast`] | write | the end of the process, `kill -9` included |
//! | [`Safe`] | write, sync | power loss |
//! | [`Uring`] | one for both | power loss |
//! | [`Batched`] | write and sync, for many packs at once | power loss |
//!
//! # Why a fast commit lies beyond the slot
//!
//! A slot names only what a successful sync covered. If it named more, a power cut could leave a slot whose commit has holes,
//! and the other slot, one write older, might name another such commit: both would be lost, and with them the way to the last
//! good state. So fast commits form a chain behind the slot, each naming the one before. After a crash of the machine the chain
//! is judged byte by byte like any tail: what is whole counts, the rest is cut off, and what was confirmed before is untouched.
//!
//! Until then readers need not hash the packs: in the *residence* that a fast commit names (this boot, this mount of a local
//! disk) its bytes cannot be missing. Writes go in order through memory that all readers share, the footer last, so a file that
//! is long enough and has a whole footer has all bytes before it.
//!
//! # Who confirms it
//!
//! The next safe commit. A writer that merely read the chain and synced would prove nothing: the pages may have been marked
//! clean by a sync that failed in another process, and another sync then succeeds without writing them. So it checks every byte,
//! writes the same bytes again, and its own sync covers them; then it writes a slot. One writer may skip that: one that wrote
//! all of the chain through the file that it has open. The system reports a failed write-back to every file that was open when
//! it failed, so its own successful sync does cover the chain. After one that failed it is a writer like any other.
//!
//! A commit whose sync fails is taken away again. The fast commits below it stay: they were promised to survive the process,
//! and nothing else has been said of them.

mod batched;
mod fast;
mod safe;
mod uring;

use std::{fmt, io, io::IoSlice, str::FromStr};

pub use batched::Batched;
pub use fast::Fast;
pub use safe::Safe;
pub use uring::Uring;

use crate::{error::Error, media::DiskFile};

/// When a commit counts as done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is written: see [`Fast`].
    Fast,
    /// When it is synced: see [`Safe`].
    #[default]
    Safe,
    /// When it is synced, with one call to the kernel: see [`Uring`].
    Uring,
    /// When it is synced, together with others: see [`Batched`].
    Batch,
}

impl Durability {
    /// All arms, from the weakest promise on.
    pub const ALL: [Durability; 4] = [Durability::Fast, Durability::Safe, Durability::Uring, Durability::Batch];

    /// Returns the arm's name in settings and options.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Fast => "fast",
            Durability::Safe => "safe",
            Durability::Uring => "uring",
            Durability::Batch => "batch",
        }
    }

    /// Makes the arm.
    pub fn arm(self) -> Box<dyn Arm> {
        match self {
            Durability::Fast => Box::new(Fast),
            Durability::Safe => Box::new(Safe),
            Durability::Uring => Box::new(Uring::new()),
            Durability::Batch => Box::new(Batched),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(name: &str) -> Result<Durability, String> {
        let found = Durability::ALL.into_iter().find(|arm| arm.name() == name);
        found.ok_or_else(|| format!("'{name}' is no durability (fast, safe, uring or batch)"))
    }
}

/// A way to end an append.
pub trait Arm: Send {
    /// Returns what it promises. An arm that could not work here says what it does instead.
    fn durability(&self) -> Durability;

    /// Writes the last bytes of a commit at offset `at` and makes the whole commit as durable as the arm promises.
    ///
    /// `still_ours` is asked once all bytes are written, and before the commit counts.
    ///
    /// # Errors
    /// [`Unlanded`] says how far it got.
    fn land(
        &mut self,
        file: &dyn DiskFile,
        at: u64,
        slices: &[IoSlice<'_>],
        still_ours: &dyn Fn() -> Result<(), Error>,
    ) -> Result<(), Unlanded>;

    /// Returns whether a slot may name what has landed: whether a sync covered it.
    fn confirms(&self) -> bool {
        true
    }

    /// Returns once what the user may want to know of how the arm works here.
    fn note(&mut self) -> Option<String> {
        None
    }
}

/// Why a commit did not land.
pub enum Unlanded {
    /// Not everything was written, and no sync was tried.
    Write(io::Error),
    /// The file is not the archive any more, and nothing of it may be cut off.
    NotOurs(Error),
    /// A sync failed, or something that includes one: nothing is known of what was written.
    Sync(io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_are_known_by_their_names() {
        for durability in Durability::ALL {
            assert_eq!(durability.to_string().parse(), Ok(durability));
        }
        assert!(
            "quick"
                .parse::<Durability>()
                .unwrap_err()
                .contains("fast, safe, uring or batch")
        );
        assert!(!Durability::Fast.arm().confirms());
        assert!(
            Durability::ALL[1..]
                .iter()
                .all(|durability| durability.arm().confirms())
        );
    }
}
