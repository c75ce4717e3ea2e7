//! What a rewrite keeps: what references reach, and what they do not reach any more until it expires.
//!
//! An object that no reference reaches is marked with the time of the rewrite that finds it so first. It goes when a later
//! rewrite finds that mark older than the time that was asked for: the clock is that of whoever rewrites, not that of who
//! pushed, and between mark and removal there is always a run that tells. An object that is reached again loses its mark.
//! What is kept is closed: an expired object that one which is not expired refers to stays.

use std::time::Duration;

use gix_hash::ObjectId;

use super::{OnProgress, Progress, history::History};
use crate::{
    archive::Snapshot,
    error::{Error, Result},
    pack::{
        PackStore,
        object::ObjectReader,
        oid_table::OidTable,
        select::{SelectOptions, select},
        selection::Selection,
    },
    refs::Target,
};

/// When what no reference reaches any more is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expire {
    /// At once, marked or not.
    Now,
    /// When an earlier run marked it at least so long ago.
    After(Duration),
    /// Never.
    Never,
}

impl Default for Expire {
    /// Two weeks, as git has it.
    fn default() -> Self {
        Expire::After(Duration::from_secs(14 * 24 * 60 * 60))
    }
}

/// What is kept, and what is to be noted of it.
pub struct Kept {
    pub objects: Selection,
    /// Objects that are kept although no reference reaches them, by the time they were marked.
    pub marks: Vec<(i64, Vec<ObjectId>)>,
    /// Objects that are not kept.
    pub pruned: OidTable,
    /// Whether it is known what references reach.
    pub is_judged: bool,
}

impl Kept {
    /// Returns the number of objects that are kept although no reference reaches them.
    pub fn unreachable(&self) -> u64 {
        self.marks.iter().map(|(_, ids)| ids.len() as u64).sum()
    }

    /// Decides about every object of a snapshot, at `now_us` microseconds since 1970.
    ///
    /// # Errors
    /// Fails where an object that is to be kept is missing or malformed; the error names it.
    pub fn decide(
        snapshot: &Snapshot,
        history: &History,
        expire: Expire,
        now_us: i64,
        progress: &mut OnProgress<'_>,
    ) -> Result<Kept> {
        let reader = ObjectReader::new(snapshot);
        let mut tips = vec![];
        for reference in snapshot.refs()? {
            if let Target::Object { oid, .. } = reference.target {
                tips.push(oid);
            }
        }
        tips.sort_unstable();
        tips.dedup();
        let mut count = |done| progress(Progress::Counting(done));
        let options = SelectOptions {
            progress: Some(&mut count),
            ..SelectOptions::default()
        };
        let reached = select(&reader, &tips, &[], options);
        let all = Selection::all(snapshot)?;
        let reached = match reached {
            // R19: of what cannot be read here the copy may find another one. Then nothing is judged, and nothing goes.
            Err(error) if expire != Expire::Now && is_damage(&error) => {
                return Ok(Kept {
                    objects: all,
                    marks: history.record.marks.clone(),
                    pruned: OidTable::new(PackStore::object_format(snapshot).len_in_bytes()),
                    is_judged: false,
                });
            }
            reached => reached?,
        };
        let pruned = OidTable::new(PackStore::object_format(snapshot).len_in_bytes());
        if reached.len() == all.len() {
            return Ok(Kept {
                objects: reached,
                marks: vec![],
                pruned,
                is_judged: true,
            });
        }
        let mut marks = Marks::new(history, now_us);
        let reached_ids = id_set(&reached);
        let mut young = vec![];
        let mut expired = vec![];
        for id in all.oids().filter(|id| reached_ids.get(id.as_slice()).is_none()) {
            let is_expired = match expire {
                Expire::Now => true,
                Expire::Never => false,
                Expire::After(age) => marks.is_older(&id, age),
            };
            if is_expired { &mut expired } else { &mut young }.push(id);
        }
        drop(reached_ids);
        if expired.is_empty() {
            return Ok(Kept {
                objects: all,
                marks: marks.renew(young),
                pruned,
                is_judged: true,
            });
        }
        let kept = if young.is_empty() {
            reached
        } else {
            tips.extend(young.iter().copied());
            let options = SelectOptions {
                progress: Some(&mut count),
                ..SelectOptions::default()
            };
            select(&reader, &tips, &[], options)?
        };
        let kept_ids = id_set(&kept);
        let mut pruned = pruned;
        for id in expired {
            match kept_ids.get(id.as_slice()) {
                Some(_) => young.push(id),
                None => drop(pruned.insert(id.as_slice())),
            }
        }
        Ok(Kept {
            objects: kept,
            marks: marks.renew(young),
            pruned,
            is_judged: true,
        })
    }
}

fn is_damage(error: &Error) -> bool {
    matches!(error, Error::InvalidPack { .. } | Error::MalformedObject { .. })
}

fn id_set(objects: &Selection) -> OidTable {
    let mut ids = OidTable::new(objects.oids().next().map_or(20, |id| id.as_slice().len()));
    for id in objects.oids() {
        ids.insert(id.as_slice());
    }
    ids
}

/// The marks of earlier rewrites.
struct Marks {
    now_us: i64,
    times: std::collections::HashMap<ObjectId, i64>,
}

impl Marks {
    fn new(history: &History, now_us: i64) -> Marks {
        let marked = history.record.marks.iter();
        // A mark from the future was made by a wrong clock; it must not keep an object for ever.
        let times = marked.flat_map(|(time, ids)| ids.iter().map(move |id| (*id, (*time).min(now_us))));
        Marks {
            now_us,
            times: times.collect(),
        }
    }

    /// Returns whether an earlier rewrite marked the object, at least `age` ago.
    fn is_older(&self, id: &ObjectId, age: Duration) -> bool {
        let age_us = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        self.times
            .get(id)
            .is_some_and(|time| self.now_us.saturating_sub(*time) >= age_us)
    }

    /// Returns the marks of `ids`, each with its old time or, where it has none, now.
    fn renew(&mut self, ids: Vec<ObjectId>) -> Vec<(i64, Vec<ObjectId>)> {
        let mut by_time = std::collections::BTreeMap::<i64, Vec<ObjectId>>::new();
        for id in ids {
            let time = self.times.get(&id).copied().unwrap_or(self.now_us);
            by_time.entry(time).or_default().push(id);
        }
        by_time
            .into_iter()
            .map(|(time, mut ids)| {
                ids.sort_unstable();
                (time, ids)
            })
            .collect()
    }
}
