//! Edits that lead to one reference, by its name and through symbolic ones, as a push of everything has them.

use std::collections::HashMap;

use bstr::{BStr, ByteSlice};

use super::RefEdit;

/// What an edit is to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alias {
    /// An edit of its own.
    Own,
    /// Asks for what the edit at this place asks for already.
    Same(usize),
    /// Asks for something else than another: as with git's own server, none of them is done.
    Inconsistent,
}

/// What git's own server says of [`Alias::Inconsistent`].
pub const INCONSISTENT: &str = "inconsistent aliased update";

/// Returns for each edit what it is to the others.
pub fn aliases<'a>(edits: impl IntoIterator<Item = &'a RefEdit>) -> Vec<Alias> {
    let mut first: HashMap<&BStr, (usize, &RefEdit)> = HashMap::new();
    let mut aliases = Vec::new();
    for (at, edit) in edits.into_iter().enumerate() {
        let (other, earlier) = *first.entry(edit.name.as_bstr()).or_insert((at, edit));
        if other == at {
            aliases.push(Alias::Own);
        } else if (&earlier.new, &earlier.expected) == (&edit.new, &edit.expected) {
            aliases.push(Alias::Same(other));
        } else {
            aliases.push(Alias::Inconsistent);
            aliases[other] = Alias::Inconsistent;
        }
    }
    for at in 0..aliases.len() {
        if let Alias::Same(other) = aliases[at]
            && aliases[other] == Alias::Inconsistent
        {
            aliases[at] = Alias::Inconsistent;
        }
    }
    aliases
}
