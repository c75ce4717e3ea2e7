//! Annotated tags that follow what they point at.

use std::collections::{HashMap, HashSet};

use gix_hash::ObjectId;

use super::{Kind, object::ObjectReader, parse, selection::Selection};
use crate::error::Result;

/// Adds the annotated tags that point at what is selected, as git's own servers do with `include-tag`. `tags` are tags each with what it finally points at.
///
/// # Errors
/// Fails where a tag cannot be read.
pub fn add_following_tags(
    reader: &ObjectReader<'_>,
    tags: impl IntoIterator<Item = (ObjectId, ObjectId)>,
    selection: &mut Selection,
) -> Result<()> {
    let mut by_target: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
    for (tag, target) in tags {
        by_target.entry(target).or_default().push(tag);
    }
    if by_target.is_empty() {
        return Ok(());
    }
    let mut following: Vec<ObjectId> = selection
        .oids()
        .filter_map(|oid| by_target.remove(&oid))
        .flatten()
        .collect();
    let is_tag = |&index: &usize| selection.kind(index) == Some(Kind::Tag);
    let mut selected: HashSet<ObjectId> = (0..selection.len())
        .filter(is_tag)
        .map(|index| selection.oid(index).to_owned())
        .collect();
    // A tag may name another tag, which then follows too.
    while let Some(tag) = following.pop() {
        let Some(at) = reader.find(&tag)? else {
            continue;
        };
        let object = reader.read_at(at)?;
        if object.kind == Kind::Tag && selected.insert(tag) {
            selection.push(&tag, Some(Kind::Tag), at);
            following.extend(parse::tag(&object.data, reader.store().object_format()).map(|(target, _)| target));
        }
    }
    Ok(())
}
