//! The set of objects to send: what the wants reach and the haves do not.
//!
//! The meaning is that of `git rev-list --objects WANTS --not HAVES`: exactly the commits that wants reach and haves do
//! not; of the trees, blobs and tags of those commits everything except what is in the trees of *boundary* commits, which
//! are the commits of the haves that are parents of commits sent. An object that only older commits of the haves contain
//! may be sent again, as git does; nothing that the receiver needs is left out.

mod commits;
mod everything;
mod paths;
mod trees;

use std::collections::HashSet;

use gix_hash::{ObjectId, oid};

pub use self::everything::everything;
use self::{commits::Commits, trees::Trees};
use super::{Kind, filter::Filter, graph::malformed, object::ObjectReader, parse, selection::Selection};
use crate::error::Result;

/// How often progress is told: once in so many objects.
const PROGRESS_STEP: usize = 4096;

/// What else to observe in a selection.
#[derive(Default)]
pub struct SelectOptions<'a> {
    /// Commits whose parents are taken as not there, neither wanted nor had: the shallow commits of both sides.
    pub parentless: HashSet<ObjectId>,
    /// Which objects of those that are reached to select.
    pub filter: Filter,
    /// Leave out what is in the trees of any have, not only of boundary commits. Where history that is older than the haves
    /// is wanted, there is no boundary.
    pub all_haves: bool,
    /// Called now and then with the number of objects found so far.
    pub progress: Option<&'a mut dyn FnMut(u64)>,
}

/// Selects what `wants` reach and `haves` do not.
///
/// Wants may be objects of any kind. Haves that the store does not know are ignored.
///
/// # Errors
/// Fails where a want, or an object it reaches, is missing or malformed; the error names it.
pub fn select(
    reader: &ObjectReader<'_>,
    wants: &[ObjectId],
    haves: &[ObjectId],
    options: SelectOptions<'_>,
) -> Result<Selection> {
    let store = reader.store();
    let mut selection = Selection::new(store.object_format());
    let mut nowhere = |_| ();
    let progress = options.progress.unwrap_or(&mut nowhere);
    let mut commits = Commits::new(reader, &options.parentless);
    let mut hidden = Tips::default();
    let mut had = Vec::new();
    for have in haves {
        if let Some(commit) = hidden.follow(reader, have, None)? {
            commits.add(commit, true)?;
            had.push(commit);
        }
    }
    let mut shown = Tips::default();
    for want in wants {
        if let Some(commit) = shown.follow(reader, want, Some((&hidden.tags, &mut selection)))? {
            commits.add(commit, false)?;
        }
    }
    commits.walk(&mut selection, progress)?;
    let graph = commits.finish(if options.all_haves { &had } else { &[] });
    let filter = &options.filter;
    // A tree that is also the root of a commit counts as that alone, as in git.
    if shown.others.iter().any(|(_, kind)| *kind == Kind::Tree) && !filter.is_everything() {
        let roots: HashSet<&ObjectId> = graph.shown.iter().map(|(tree, _)| tree).collect();
        shown.others.retain(|(id, _)| !roots.contains(id));
        shown.named.retain(|id| !roots.contains(id));
    }
    Trees::new(reader, &mut selection, filter, progress).run(&graph, &hidden.others, &shown.others)?;
    if ![Kind::Commit, Kind::Tree, Kind::Blob, Kind::Tag]
        .iter()
        .all(|kind| filter.allows_all(*kind))
    {
        let named = &shown.named;
        selection.retain(|id, kind| kind.is_none_or(|kind| filter.allows_all(kind)) || named.contains(id));
    }
    progress(selection.len() as u64);
    Ok(selection)
}

/// Returns the commits that `tips` reach and `hidden` do not; all are commits.
///
/// # Errors
/// Fails where a commit that `tips` reach is missing or malformed.
pub fn commits_between(reader: &ObjectReader<'_>, tips: &[ObjectId], hidden: &[ObjectId]) -> Result<Vec<ObjectId>> {
    let parentless = HashSet::new();
    let mut commits = Commits::new(reader, &parentless);
    for id in hidden {
        commits.add(*id, true)?;
    }
    for id in tips {
        commits.add(*id, false)?;
    }
    let mut selection = Selection::new(reader.store().object_format());
    commits.walk(&mut selection, &mut |_| ())?;
    Ok(selection.oids().collect())
}

/// The ends of chains of tags that are no commits, and the tags on the way.
#[derive(Default)]
struct Tips {
    tags: HashSet<ObjectId>,
    /// Everything on the way from a want, which no filter leaves out.
    named: HashSet<ObjectId>,
    /// Trees and blobs.
    others: Vec<(ObjectId, Kind)>,
}

impl Tips {
    /// Follows tags from `tip` and returns the commit at their end, if there is one.
    ///
    /// Of a want, tags that are not hidden go into the selection, and what is missing is an error. Of a have, what is
    /// missing is ignored.
    fn follow(
        &mut self,
        reader: &ObjectReader<'_>,
        tip: &oid,
        mut want: Option<(&HashSet<ObjectId>, &mut Selection)>,
    ) -> Result<Option<ObjectId>> {
        let store = reader.store();
        let mut id = tip.to_owned();
        let mut why = String::new();
        loop {
            let Some(at) = reader.find(&id)? else {
                return if want.is_some() {
                    Err(reader.missing(&id, &why))
                } else {
                    Ok(None)
                };
            };
            let (kind, _) = reader.header_at(at)?;
            if want.is_some() {
                self.named.insert(id);
            }
            match kind {
                Kind::Commit => return Ok(Some(id)),
                Kind::Tree | Kind::Blob => {
                    self.others.push((id, kind));
                    return Ok(None);
                }
                Kind::Tag => {
                    if !self.tags.insert(id) {
                        return Ok(None);
                    }
                    if let Some((hidden, selection)) = &mut want {
                        if hidden.contains(&id) {
                            return Ok(None);
                        }
                        selection.push(&id, Some(Kind::Tag), at);
                    }
                    let object = reader.read_at(at)?;
                    let target = parse::tag(&object.data, store.object_format());
                    let (target, _) = target.map_err(|why| malformed(&id, why))?;
                    why = format!(" (tag {id} names it)");
                    id = target;
                }
            }
        }
    }
}
