//! Everything that a store has, as far as a filter lets it pass: for who wants all and has nothing, no history is walked.

use std::collections::HashSet;

use gix_hash::ObjectId;

use super::Tips;
use crate::{
    error::Result,
    pack::{Kind, filter::Filter, object::ObjectReader, selection::Selection},
};

/// Selects all objects of a store that pass `filter`, and in any case `wants` and what tags among them name. `None` where the
/// store's tables do not tell which those are.
///
/// # Errors
/// Fails where an index or a wanted tag cannot be read.
pub fn everything(reader: &ObjectReader<'_>, filter: &Filter, wants: &[ObjectId]) -> Result<Option<Selection>> {
    if !filter.is_everything() && (!filter.is_by_object() || filter.blobs_below().is_some_and(|limit| limit > 0)) {
        return Ok(None);
    }
    let mut all = Selection::all(reader.store())?;
    if filter.is_everything() {
        return Ok(Some(all));
    }
    let mut named: HashSet<ObjectId> = wants.iter().copied().collect();
    let mut tips = Tips::default();
    let mut names_trees = false;
    for index in 0..all.len() {
        match all.kind(index) {
            None => return Ok(None),
            Some(Kind::Tag) if named.contains(all.oid(index)) => {
                let mut tags = Selection::new(reader.store().object_format());
                tips.follow(reader, all.oid(index), Some((&HashSet::new(), &mut tags)))?;
            }
            Some(Kind::Tree) if named.contains(all.oid(index)) => names_trees = true,
            Some(_) => {}
        }
    }
    names_trees |= tips.others.iter().any(|(_, kind)| *kind == Kind::Tree);
    if names_trees && !filter.allows(Kind::Tree) {
        // It is left out where it is also the tree of a commit, which is not known here.
        return Ok(None);
    }
    named.extend(tips.named);
    all.retain(|id, kind| kind.is_some_and(|kind| filter.allows(kind)) || named.contains(id));
    Ok(Some(all))
}
