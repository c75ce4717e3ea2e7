//! Which references reach what is damaged or missing.

use std::collections::{HashMap, HashSet};

use bstr::BString;
use gix_hash::{ObjectId, oid};

use super::{Check, Level, refs::Tip};
use crate::{
    archive::Snapshot,
    pack::{
        Kind, PackRank, PackStore,
        object::ObjectReader,
        oid_table::OidTable,
        parse::{self, EntryMode},
    },
};

/// So many suspects are told apart; all others share one more bit.
const BITS: usize = 63;

/// What is wrong with objects and packs, by the number of the finding.
#[derive(Default)]
pub(super) struct Suspects {
    objects: Vec<(usize, PackRank, ObjectId)>,
    packs: Vec<(usize, PackRank)>,
    /// Every entry that is no good, told or only counted: pack, offset, object.
    pub damaged: Vec<(PackRank, u64, ObjectId)>,
}

impl Suspects {
    pub fn add_object(&mut self, finding: usize, pack: PackRank, oid: ObjectId) {
        self.objects.push((finding, pack, oid));
    }
    /// Returns findings about objects, with packs and names.
    pub fn objects(&self) -> &[(usize, PackRank, ObjectId)] {
        &self.objects
    }
    /// Takes findings about objects out.
    pub fn clear(&mut self, is_cleared: impl Fn(usize) -> bool) {
        self.objects.retain(|(finding, ..)| !is_cleared(*finding));
    }
    /// Returns where the entries are that are no good.
    pub fn damaged_places(&self) -> HashSet<(PackRank, u64)> {
        let places = self.damaged.iter().map(|(pack, offset, _)| (*pack, *offset));
        places.collect()
    }
    pub fn add_pack(&mut self, finding: usize, pack: PackRank) {
        self.packs.push((finding, pack));
    }
}

/// Adds to the findings the references that they affect: with a full check those that reach the object, else those whose own
/// object is in the same pack.
pub(super) fn tell(check: &mut Check<'_>, snapshot: &Snapshot, tips: &[Tip], suspects: &Suspects) {
    let Suspects { objects, packs, .. } = suspects;
    if objects.is_empty() && packs.is_empty() {
        return;
    }
    let in_pack = |rank: PackRank| -> Vec<BString> {
        let Ok(table) = snapshot.entries(rank) else {
            return vec![];
        };
        let is_in = |tip: &&Tip| {
            let mut ids = [Some(tip.oid), tip.peeled].into_iter().flatten();
            ids.any(|id| table.find(&id).is_some())
        };
        tips.iter().filter(is_in).map(|tip| tip.name.clone()).collect()
    };
    let mut by_pack: HashMap<PackRank, Vec<BString>> = HashMap::new();
    for (finding, rank) in packs {
        let names = by_pack.entry(*rank).or_insert_with(|| in_pack(*rank));
        check.findings[*finding].affects(names.clone());
    }
    if check.level < Level::Full {
        for (finding, rank, oid) in objects {
            let names = by_pack.entry(*rank).or_insert_with(|| in_pack(*rank));
            check.findings[*finding].affects(names.iter().cloned());
            if names.is_empty() {
                let own = tips.iter().filter(|tip| tip.oid == *oid || tip.peeled == Some(*oid));
                check.findings[*finding].affects(own.map(|tip| tip.name.clone()));
            }
        }
        return;
    }
    let mut bits: HashMap<ObjectId, u64> = HashMap::new();
    for (_, _, oid) in objects {
        let next = 1 << bits.len().min(BITS);
        bits.entry(*oid).or_insert(next);
    }
    let mut walk = Walk {
        reader: ObjectReader::new(snapshot),
        ids: OidTable::new(snapshot.object_format().len_in_bytes()),
        masks: vec![],
        bits: &bits,
    };
    let mut names: HashMap<u64, Vec<BString>> = HashMap::new();
    for (done, tip) in tips.iter().enumerate() {
        check.progress("finding what is affected", done as u64, tips.len() as u64, "references");
        let mask = walk.reached(&tip.oid);
        if mask != 0 {
            names.entry(mask).or_default().push(tip.name.clone());
        }
    }
    for (finding, _, oid) in objects {
        let bit = bits[oid];
        for (mask, names) in &names {
            if mask & bit != 0 {
                check.findings[*finding].affects(names.iter().cloned());
            }
        }
        check.findings[*finding].refs.sort_unstable();
    }
}

/// A walk that looks at each object once, whoever reaches it.
struct Walk<'a> {
    reader: ObjectReader<'a>,
    ids: OidTable,
    /// What each object that was met reaches, itself included.
    masks: Vec<u64>,
    bits: &'a HashMap<ObjectId, u64>,
}

/// An object whose links are being followed.
struct Open {
    number: u32,
    links: Vec<ObjectId>,
}

impl Walk<'_> {
    /// Returns the bits of the suspects that `id` reaches.
    fn reached(&mut self, id: &oid) -> u64 {
        let (number, new) = self.meet(id);
        if !new {
            return self.masks[number as usize];
        }
        let mut stack = vec![self.open(number, id)];
        while let Some(open) = stack.last_mut() {
            let Some(link) = open.links.pop() else {
                let done = stack.pop().expect("it was just looked at");
                let mask = self.masks[done.number as usize];
                if let Some(parent) = stack.last() {
                    self.masks[parent.number as usize] |= mask;
                }
                continue;
            };
            let parent = open.number;
            let (number, new) = self.meet(&link);
            match new {
                true => {
                    let next = self.open(number, &link);
                    stack.push(next);
                }
                false => self.masks[parent as usize] |= self.masks[number as usize],
            }
        }
        self.masks[number as usize]
    }

    fn meet(&mut self, id: &oid) -> (u32, bool) {
        let (number, new) = self.ids.insert(id.as_bytes());
        if new {
            self.masks.push(self.bits.get(id).copied().unwrap_or(0));
        }
        (number, new)
    }

    /// Reads an object and its links. Of a damaged one they are not known.
    fn open(&mut self, number: u32, id: &oid) -> Open {
        let mut links = vec![];
        let format = self.reader.store().object_format();
        if let Ok(Some(object)) = self.reader.read(id) {
            match object.kind {
                Kind::Commit => {
                    if let Ok(commit) = parse::commit(&object.data, format) {
                        // The first parent last, so that it is followed first.
                        links.push(commit.tree);
                        links.extend(commit.parents.iter().rev());
                    }
                }
                Kind::Tag => links.extend(parse::tag(&object.data, format).map(|(target, _)| target)),
                Kind::Tree => self.tree(number, &object.data, &mut links),
                Kind::Blob => {}
            }
        }
        Open { number, links }
    }

    /// Adds the directories of a tree to `links`, and its files to what it reaches.
    fn tree(&mut self, number: u32, mut data: &[u8], links: &mut Vec<ObjectId>) {
        let width = self.reader.store().object_format().len_in_bytes();
        while let Ok(Some((entry, rest))) = parse::tree_entry(data, width) {
            data = rest;
            let id = ObjectId::from_bytes_or_panic(entry.id);
            match entry.mode {
                EntryMode::Tree => links.push(id),
                EntryMode::Blob => self.masks[number as usize] |= self.bits.get(&id).copied().unwrap_or(0),
                EntryMode::Submodule => {}
            }
        }
    }
}
