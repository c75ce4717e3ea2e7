//! Every image that a crash may leave, from a record of what was done.
//!
//! The model is weaker than any file system that is known, so that nothing is relied on but what a sync promises:
//!
//! - A sector (512 bytes) that was written since the last sync of its file has, after a crash, any content that it ever had
//!   since: sectors come in any order, or not at all. Where nothing arrived that a longer file should hold, there are zeros.
//! - A file has any length that it had since its last sync, or one in between at a sector's edge.
//! - A name means any file that it meant since the last sync of the directory, or none.
//! - A sync that fails makes the cache forget what is to be written: a later sync that succeeds covers only what was
//!   written after it, and everything before stays as uncertain as it was.
//! - Beyond what disks do, a sector may be torn: some of its first bytes from one content, the rest from another.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    volume::{Event, Image, Ino},
    work::NAME,
};

pub const SECTOR: usize = 512;

/// What is known of a file's bytes on the disk.
#[derive(Debug, Clone)]
struct Durable {
    /// What a process sees.
    cached: Vec<u8>,
    /// Which sectors hold what by the next sync.
    dirty: BTreeSet<usize>,
    /// The contents that a sector may have; one where it is certain. A sector beyond is zeros.
    sectors: Vec<Vec<Sector>>,
    /// The lengths that the file may have, the newest last.
    lens: Vec<usize>,
}

type Sector = [u8; SECTOR];

/// The disk as the record tells it up to some event.
#[derive(Debug, Clone, Default)]
pub struct Model {
    files: BTreeMap<Ino, Durable>,
    names: BTreeMap<String, Vec<Option<Ino>>>,
    /// The last state that somebody was told of, from 0.
    pub acknowledged: Option<usize>,
    /// The place of the last write, for tears at every byte.
    last_write: Option<(Ino, usize, usize)>,
}

/// The content of a sector of `bytes`, with zeros behind their end.
fn sector_of(bytes: &[u8], index: usize) -> Sector {
    let mut sector = [0; SECTOR];
    if let Some(rest) = bytes.get(index * SECTOR..) {
        let len = rest.len().min(SECTOR);
        sector[..len].copy_from_slice(&rest[..len]);
    }
    sector
}

impl Durable {
    fn new(bytes: Vec<u8>) -> Durable {
        let sectors = (0..bytes.len().div_ceil(SECTOR)).map(|index| vec![sector_of(&bytes, index)]);
        Durable {
            sectors: sectors.collect(),
            lens: vec![bytes.len()],
            dirty: BTreeSet::new(),
            cached: bytes,
        }
    }

    fn touch(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        for index in from / SECTOR..to.div_ceil(SECTOR) {
            self.dirty.insert(index);
            if self.sectors.len() <= index {
                self.sectors.resize(index + 1, vec![[0; SECTOR]]);
            }
            let now = sector_of(&self.cached, index);
            // The newest comes last.
            self.sectors[index].retain(|sector| *sector != now);
            self.sectors[index].push(now);
        }
    }

    fn set_len(&mut self, len: usize) {
        let before = self.cached.len();
        self.cached.resize(len, 0);
        if len < before {
            self.touch(len, before);
        }
        self.lens.retain(|known| *known != len);
        self.lens.push(len);
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.cached.len() < end {
            self.set_len(end);
        }
        self.cached[at..end].copy_from_slice(bytes);
        self.touch(at, end);
    }

    fn sync(&mut self) {
        for index in std::mem::take(&mut self.dirty) {
            let newest = *self.sectors[index].last().expect("a sector has a content");
            self.sectors[index] = vec![newest];
        }
        self.lens = vec![self.cached.len()];
    }

    /// Returns the sectors that may have more than one content.
    fn open_sectors(&self) -> Vec<usize> {
        (0..self.sectors.len())
            .filter(|index| self.sectors[*index].len() > 1)
            .collect()
    }

    /// Puts a file together: `choose` says which content an uncertain sector has (0 is the oldest).
    fn assemble(&self, len: usize, mut choose: impl FnMut(usize, usize) -> usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.sectors.len().max(len.div_ceil(SECTOR)) * SECTOR);
        for (index, contents) in self.sectors.iter().enumerate() {
            let which = match contents.len() {
                1 => 0,
                count => choose(index, count),
            };
            bytes.extend_from_slice(&contents[which]);
        }
        bytes.resize(len, 0);
        bytes
    }
}

impl Model {
    /// Starts from what is durable.
    pub fn new(image: &Image) -> Model {
        let mut model = Model::default();
        for (ino, (name, bytes)) in image.iter().enumerate() {
            model.files.insert(ino, Durable::new(bytes.clone()));
            model.names.insert(name.clone(), vec![Some(ino)]);
        }
        model
    }

    /// Takes the next event in.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Create { ino } => drop(self.files.insert(*ino, Durable::new(vec![]))),
            Event::Write { ino, at, bytes } => {
                self.file(*ino).write(*at as usize, bytes);
                self.last_write = Some((*ino, *at as usize, bytes.len()));
            }
            Event::SetLen { ino, len } => {
                self.file(*ino).set_len(*len as usize);
                self.last_write = None;
            }
            Event::Sync { ino } => self.file(*ino).sync(),
            Event::FailedSync { ino } => self.file(*ino).dirty.clear(),
            Event::Name { name, ino } => {
                let known = self.names.entry(name.clone()).or_insert_with(|| vec![None]);
                known.retain(|known| known != ino);
                known.push(*ino);
            }
            Event::SyncDir => {
                for known in self.names.values_mut() {
                    *known = vec![*known.last().expect("a name has a meaning")];
                }
            }
            Event::Acknowledged { state } => self.acknowledged = Some(*state),
        }
    }

    fn file(&mut self, ino: Ino) -> &mut Durable {
        self.files.get_mut(&ino).expect("events name files that were created")
    }

    /// Returns all combinations of what the names may mean.
    fn directories(&self) -> Vec<BTreeMap<String, Ino>> {
        let mut directories = vec![BTreeMap::new()];
        for (name, meanings) in &self.names {
            let with = |directory: &BTreeMap<String, Ino>, meaning: &Option<Ino>| {
                let mut directory = directory.clone();
                if let Some(ino) = meaning {
                    directory.insert(name.clone(), *ino);
                }
                directory
            };
            directories = directories
                .iter()
                .flat_map(|d| meanings.iter().map(|m| with(d, m)).collect::<Vec<_>>())
                .collect();
        }
        directories
    }

    /// Hands every image of the enumeration to `visit`, with whether it has a torn sector.
    ///
    /// Up to `exhaustive` uncertain sectors, all combinations of the oldest and the newest contents are tried; beyond, those in
    /// which a run of sectors differs. `samples` more are drawn at random from everything the model allows, and as many again
    /// with a torn sector.
    pub fn images(&self, effort: &Effort, random: &mut Random, visit: &mut dyn FnMut(Image, Kind)) {
        for directory in self.directories() {
            let inos: BTreeSet<Ino> = directory.values().copied().collect();
            let open: Vec<Ino> = inos.iter().copied().filter(|ino| self.is_open(*ino)).collect();
            // Files that are certain, and one version of those that are not while another one varies.
            let with = |ino: Option<Ino>, bytes: Vec<u8>, newest: bool| -> Image {
                let one = |(name, other): (&String, &Ino)| {
                    let file = &self.files[other];
                    let bytes = match Some(*other) == ino {
                        true => bytes.clone(),
                        false => file.assemble(file.lens[if newest { file.lens.len() - 1 } else { 0 }], |_, count| {
                            if newest { count - 1 } else { 0 }
                        }),
                    };
                    (name.clone(), bytes)
                };
                directory.iter().map(one).collect()
            };
            // Of other files than the archive it matters that they are there, whatever is in them.
            let archive = directory.get(NAME).filter(|ino| open.contains(ino));
            for newest in [true, false]
                .into_iter()
                .take(1 + usize::from(open.len() > usize::from(archive.is_some())))
            {
                match archive {
                    None => visit(with(None, vec![], newest), Kind::Sectors),
                    Some(ino) => self.images_of(*ino, effort, random, &mut |bytes, kind| {
                        visit(with(Some(*ino), bytes, newest), kind)
                    }),
                }
            }
        }
    }

    fn is_open(&self, ino: Ino) -> bool {
        let file = &self.files[&ino];
        file.lens.len() > 1 || file.sectors.iter().any(|contents| contents.len() > 1)
    }

    fn images_of(&self, ino: Ino, effort: &Effort, random: &mut Random, visit: &mut dyn FnMut(Vec<u8>, Kind)) {
        let file = &self.files[&ino];
        let open = file.open_sectors();
        let mut lens: BTreeSet<usize> = file.lens.iter().copied().collect();
        let (shortest, longest) = (*lens.first().expect("a length"), *lens.last().expect("a length"));
        let edges: Vec<usize> = (shortest / SECTOR + 1..longest.div_ceil(SECTOR))
            .map(|sector| sector * SECTOR)
            .collect();
        let mut arrived: BTreeSet<Vec<bool>> = BTreeSet::new();
        if open.len() <= effort.exhaustive {
            arrived.extend((0..1u64 << open.len()).map(|bits| (0..open.len()).map(|i| bits >> i & 1 == 1).collect()));
        } else {
            for from in 0..=open.len() {
                let tried = |to: &usize| match effort.runs {
                    // All runs where that is a few hundred; else those at the ends, and single sectors.
                    true => open.len() <= 12 || from == 0 || *to == open.len() || *to == from + 1,
                    false => (from, *to) == (0, open.len()),
                };
                for to in (from..=open.len()).filter(tried) {
                    let run: Vec<bool> = (0..open.len()).map(|i| (from..to).contains(&i)).collect();
                    arrived.insert(run.iter().map(|arrived| !arrived).collect());
                    arrived.insert(run);
                }
            }
        }
        for arrived in &arrived {
            let choose = |index: usize, count: usize| {
                let at = open
                    .binary_search(&index)
                    .expect("only uncertain sectors are asked for");
                if arrived[at] { count - 1 } else { 0 }
            };
            for len in &lens {
                visit(file.assemble(*len, choose), Kind::Sectors);
            }
        }
        // Cut at each sector's edge, with all that is before it.
        for len in edges.iter().filter(|_| effort.runs) {
            visit(file.assemble(*len, |_, count| count - 1), Kind::Sectors);
            visit(file.assemble(*len, |_, _| 0), Kind::Sectors);
        }
        lens.extend(edges);
        let lens: Vec<usize> = lens.into_iter().collect();
        for _ in 0..effort.samples {
            let len = lens[random.below(lens.len())];
            visit(file.assemble(len, |_, count| random.below(count)), Kind::Sectors);
            if !open.is_empty() {
                let mut bytes = file.assemble(longest, |_, count| random.below(count));
                let index = open[random.below(open.len())];
                let contents = &file.sectors[index];
                let (first, rest) = (
                    contents[random.below(contents.len())],
                    contents[random.below(contents.len())],
                );
                let cut = random.below(SECTOR);
                let torn: Vec<u8> = [&first[..cut], &rest[cut..]].concat();
                let at = index * SECTOR;
                let end = (at + SECTOR).min(bytes.len());
                if at < end {
                    bytes[at..end].copy_from_slice(&torn[..end - at]);
                    visit(bytes, Kind::Bytes);
                }
            }
        }
        self.tears(ino, effort, visit);
    }

    /// The last write of a file, cut at every byte: only what is before arrived, or only what is behind; with the file as
    /// short as that makes it, or as long as it was to be.
    fn tears(&self, ino: Ino, effort: &Effort, visit: &mut dyn FnMut(Vec<u8>, Kind)) {
        let Some((_, at, len)) = self.last_write.filter(|(of, ..)| *of == ino && effort.every > 0) else {
            return;
        };
        let file = &self.files[&ino];
        // Nothing to tear where it is durable already.
        if (at / SECTOR..(at + len).div_ceil(SECTOR)).all(|index| file.sectors[index].len() == 1) {
            return;
        }
        let newest = file.assemble(file.cached.len(), |_, count| count - 1);
        let oldest = file.assemble(newest.len(), |_, _| 0);
        let shortest = file.lens.iter().copied().min().expect("a length");
        for cut in (0..=len).step_by(effort.every) {
            let cut = at + cut;
            let before = [&newest[..cut], &oldest[cut..]].concat();
            let mut short = before.clone();
            short.truncate(cut.max(shortest));
            visit(before, Kind::Bytes);
            visit(short, Kind::Bytes);
            visit([&newest[..at], &oldest[at..cut], &newest[cut..]].concat(), Kind::Bytes);
        }
    }
}

/// How thorough an enumeration is.
#[derive(Debug, Clone)]
pub struct Effort {
    /// Up to this many uncertain sectors all combinations are tried.
    pub exhaustive: usize,
    /// Beyond, whether every run of sectors is tried and the file is cut at every sector, or only all sectors and none.
    pub runs: bool,
    /// How many images are drawn at random.
    pub samples: usize,
    /// The last write is torn at each multiple of this; 0 for never.
    pub every: usize,
}

/// What an image is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whole sectors, which is what disks do.
    Sectors,
    /// One sector is torn.
    Bytes,
}

/// Numbers that look random and are the same in every run.
pub struct Random(pub u64);

impl Random {
    /// Returns a number below `bound`, by the generator xorshift64* (Vigna 2016).
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}
