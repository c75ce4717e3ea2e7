//! Whether an update of one reference is allowed.
//!
//! git's own judgement does not count: it sends references that it found out of date, and replaced objects, grafts and
//! a stale commit-graph can make it take a rewind for a fast-forward. The texts are those that git knows and explains.

use anyhow::Result;
use bstr::BString;
use gix_hash::{ObjectId, oid};
use znippy::pack::{
    Kind,
    graph::{is_ancestor, peel},
    object::ObjectReader,
};

/// One reference of a push.
#[derive(Debug)]
pub struct Update {
    pub name: BString,
    /// The client's expression for the new value.
    pub source: Option<BString>,
    /// What `list for-push` showed: git, and the user, decided on that.
    pub old: Option<ObjectId>,
    /// The new value; `None` deletes.
    pub new: Option<ObjectId>,
    /// `+`: the user allows a rewind.
    pub forced: bool,
    /// `--force-with-lease`: the value that must be there, which also allows a rewind. Null = must not exist.
    pub lease: Option<ObjectId>,
    pub verdict: Verdict,
}

/// What is to become of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Goes into the transaction.
    Apply {
        /// The old value may become unreachable.
        rewinds: bool,
        /// What the new value finally points at, where it is an annotated tag.
        peeled: Option<ObjectId>,
    },
    /// Holds the new value already.
    UpToDate,
    /// Not done, for this reason.
    Refused(String),
}

/// For a rewind that is allowed, the answer decides only how much the archive remembers as possibly unreachable: it is
/// not worth reading a whole history for.
const FORCED_BOUND: usize = 2000;

impl Update {
    /// Judges what needs no object of the new history. `has_old` tells whether the client has the old value.
    pub fn judge_early(&mut self, has_old: bool) {
        if let Some(lease) = self.lease {
            let expected = (!lease.is_null()).then_some(lease);
            if self.old != expected {
                return self.refuse("stale info");
            }
        }
        self.verdict = match (self.old, self.new) {
            (old, new) if old == new => Verdict::UpToDate,
            (Some(_), Some(_)) if !self.may_rewind() => {
                if self.name.starts_with(b"refs/tags/") {
                    return self.refuse("already exists");
                }
                if !has_old {
                    return self.refuse("fetch first");
                }
                Verdict::Apply {
                    rewinds: true,
                    peeled: None,
                }
            }
            (Some(_), _) => Verdict::Apply {
                rewinds: true,
                peeled: None,
            },
            (None, _) => Verdict::Apply {
                rewinds: false,
                peeled: None,
            },
        };
    }

    /// Judges with the objects of the archive and of the new pack.
    ///
    /// # Errors
    /// Fails where an object that the answer needs is missing or damaged.
    pub fn judge(&mut self, reader: &ObjectReader<'_>) -> Result<()> {
        let (Verdict::Apply { .. }, Some(new)) = (&self.verdict, self.new) else {
            return Ok(());
        };
        let (kind, peeled) = peel(reader, &new)?;
        if kind != Kind::Commit && self.name.starts_with(b"refs/heads/") {
            self.refuse(&format!("a branch must point at a commit, not at a {kind}"));
            return Ok(());
        }
        let rewinds = match self.old {
            None => false,
            Some(old) => {
                let bound = self.may_rewind().then_some(FORCED_BOUND);
                match self.fast_forwards(reader, &old, peeled.as_ref().unwrap_or(&new), bound)? {
                    Some(true) => false,
                    Some(false) if !self.may_rewind() => {
                        self.refuse("non-fast forward");
                        return Ok(());
                    }
                    None if !self.may_rewind() => {
                        self.refuse("needs force");
                        return Ok(());
                    }
                    _ => true,
                }
            }
        };
        self.verdict = Verdict::Apply { rewinds, peeled };
        Ok(())
    }

    /// `None`: old and new are not both commits, or the bound was met.
    fn fast_forwards(
        &self,
        reader: &ObjectReader<'_>,
        old: &oid,
        new: &oid,
        bound: Option<usize>,
    ) -> Result<Option<bool>> {
        let (new_kind, _) = peel(reader, new)?;
        if new_kind != Kind::Commit {
            return Ok(None);
        }
        // A branch holds a commit; elsewhere it can be anything.
        let mut old = old.to_owned();
        if !self.name.starts_with(b"refs/heads/") {
            let (kind, peeled) = peel(reader, &old)?;
            match (kind, peeled) {
                (Kind::Commit, _) => {}
                (Kind::Tag, Some(target)) if peel(reader, &target)?.0 == Kind::Commit => old = target,
                _ => return Ok(None),
            }
        }
        Ok(is_ancestor(reader, &old, new, bound)?)
    }

    fn may_rewind(&self) -> bool {
        self.forced || self.lease.is_some()
    }

    /// Refuses the update.
    pub fn refuse(&mut self, why: &str) {
        self.verdict = Verdict::Refused(why.into());
    }

    /// Returns whether the update still goes into the transaction.
    pub fn applies(&self) -> bool {
        matches!(self.verdict, Verdict::Apply { .. })
    }
}

/// For an atomic push: one refusal refuses all. Returns whether that happened.
pub fn refuse_all_for_one(updates: &mut [Update]) -> bool {
    if !updates
        .iter()
        .any(|update| matches!(update.verdict, Verdict::Refused(_)))
    {
        return false;
    }
    for update in updates.iter_mut().filter(|update| update.applies()) {
        update.refuse("atomic push failed");
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digit: u8) -> ObjectId {
        ObjectId::from_hex(&[digit; 40]).expect("hex")
    }

    fn verdict(
        name: &str,
        old: Option<u8>,
        new: Option<u8>,
        forced: bool,
        lease: Option<u8>,
        has_old: bool,
    ) -> Verdict {
        let lease = lease.map(|digit| {
            if digit == b'0' {
                ObjectId::null(gix_hash::Kind::Sha1)
            } else {
                id(digit)
            }
        });
        let mut update = Update {
            name: name.into(),
            source: None,
            old: old.map(id),
            new: new.map(id),
            forced,
            lease,
            verdict: Verdict::UpToDate,
        };
        update.judge_early(has_old);
        update.verdict
    }

    #[test]
    fn early_verdicts() {
        let refused = |why: &str| Verdict::Refused(why.into());
        let apply = |rewinds| Verdict::Apply { rewinds, peeled: None };
        assert_eq!(
            verdict("refs/heads/a", None, Some(b'1'), false, None, false),
            apply(false)
        );
        assert_eq!(
            verdict("refs/heads/a", Some(b'1'), Some(b'1'), false, None, true),
            Verdict::UpToDate
        );
        assert_eq!(
            verdict("refs/heads/a", Some(b'1'), None, false, None, false),
            apply(true)
        );
        assert_eq!(
            verdict("refs/heads/a", None, None, false, None, false),
            Verdict::UpToDate
        );
        assert_eq!(
            verdict("refs/heads/a", Some(b'1'), Some(b'2'), false, None, false),
            refused("fetch first")
        );
        assert_eq!(
            verdict("refs/heads/a", Some(b'1'), Some(b'2'), true, None, false),
            apply(true)
        );
        assert_eq!(
            verdict("refs/tags/a", Some(b'1'), Some(b'2'), false, None, true),
            refused("already exists")
        );
        assert_eq!(
            verdict("refs/tags/a", Some(b'1'), Some(b'2'), true, None, true),
            apply(true)
        );
    }

    #[test]
    fn a_lease_is_expectation_and_permission() {
        let refused = |why: &str| Verdict::Refused(why.into());
        let apply = |rewinds| Verdict::Apply { rewinds, peeled: None };
        assert_eq!(
            verdict("refs/heads/a", Some(b'1'), Some(b'2'), false, Some(b'1'), false),
            apply(true)
        );
        assert_eq!(
            verdict("refs/heads/a", Some(b'1'), Some(b'2'), true, Some(b'3'), true),
            refused("stale info")
        );
        assert_eq!(
            verdict("refs/heads/a", Some(b'1'), Some(b'2'), false, Some(b'0'), true),
            refused("stale info")
        );
        assert_eq!(
            verdict("refs/heads/a", None, Some(b'2'), false, Some(b'0'), true),
            apply(false)
        );
        assert_eq!(
            verdict("refs/heads/a", None, Some(b'2'), false, Some(b'1'), true),
            refused("stale info")
        );
        assert_eq!(
            verdict("refs/heads/a", Some(b'1'), None, false, Some(b'2'), true),
            refused("stale info")
        );
    }
}
