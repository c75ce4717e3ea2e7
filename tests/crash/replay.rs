//! The oracle: what must be seen after a crash, and that the archive goes on from there.

use std::{
    collections::BTreeMap,
    panic,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    images::{Effort, Kind, Model, Random},
    volume::{Event, Image, Volume},
    work::{self, Blob, Known, TestPack, View, gc, is_pushed, push, set, view},
};

/// An operation that was run once without a crash, and every state that it went through.
pub struct Recording {
    pub volume: Arc<Volume>,
    base: Image,
    /// What was seen after each acknowledged step; the first is what was there before.
    views: Vec<Option<View>>,
    /// What was on the disk at each of these.
    images: Vec<Image>,
    /// What a step that failed was about to bring, by the number of acknowledged states before it.
    attempted: BTreeMap<usize, Vec<Option<View>>>,
}

/// How much was tried.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Images after a crash.
    pub images: u64,
    /// Images after a second crash, in the push that followed the first one.
    pub second: u64,
    /// Images that showed the state before an operation, and the one after it.
    pub before: u64,
    pub after: u64,
    /// Torn images in which a reader or writer spoke of damage, though it was only a crash.
    pub called_damaged: u64,
}

impl Recording {
    /// Starts with what is on a disk.
    pub fn new(base: Image) -> Recording {
        let volume = Arc::new(Volume::new(&base));
        let before = view(&volume).unwrap();
        Recording {
            volume,
            views: vec![before],
            images: vec![base.clone()],
            base,
            attempted: BTreeMap::new(),
        }
    }

    /// Runs a step that returns when it is durable.
    pub fn step(&mut self, work: impl FnOnce(&Arc<Volume>)) {
        self.steps(|volume, _| work(volume));
    }

    /// Runs a step within which others are done: it says so each time.
    pub fn steps(&mut self, work: impl FnOnce(&Arc<Volume>, &mut dyn FnMut())) {
        let Recording {
            volume, views, images, ..
        } = self;
        let mut done = || {
            views.push(view(volume).unwrap());
            images.push(volume.visible());
            volume.acknowledge(views.len() - 1);
        };
        work(volume, &mut done);
        done();
    }

    /// Runs a step that fails, and notes what it would have brought.
    pub fn attempt(&mut self, work: impl Fn(&Arc<Volume>), fault: impl FnOnce(&Volume)) {
        let twin = Arc::new(Volume::new(&self.volume.visible()));
        work(&twin);
        let brought = view(&twin).unwrap();
        self.attempted.entry(self.views.len() - 1).or_default().push(brought);
        fault(&self.volume);
        work(&self.volume);
        self.volume.fail(None);
    }

    /// Crashes after every event, checks every image, and returns how many there were.
    ///
    /// Whole sectors that are missing are no damage, and must not be called that, where `alarms` does not allow it.
    pub fn replay(&self, name: &str, effort: &Effort, second: &Effort, alarms: Alarms) -> Counts {
        let events = self.volume.events();
        // Both cores: each takes every other event.
        let failed = AtomicBool::new(false);
        let counts = std::thread::scope(|scope| {
            let run = |worker: usize| {
                let (events, failed) = (&events, &failed);
                move || {
                    let mut counts = Counts::default();
                    let mut next = NextPush::new(90);
                    self.images.iter().for_each(|image| next.known.learn(image).unwrap());
                    let mut model = Model::new(&self.base);
                    for (index, event) in events.iter().enumerate() {
                        model.apply(event);
                        if index % WORKERS != worker || failed.load(Ordering::Relaxed) {
                            continue;
                        }
                        let allowed = self.allowed(model.acknowledged.unwrap_or(0));
                        let mut random = Random(0x5eed + index as u64);
                        let mut dice = Random(0xd1ce + index as u64);
                        model.images(effort, &mut random, &mut |image, kind| {
                            if failed.load(Ordering::Relaxed) {
                                return;
                            }
                            counts.images += 1;
                            let context =
                                || format!("{name}: image {} after event {index}, {}", counts.images, brief(event));
                            let checked = panic::catch_unwind(panic::AssertUnwindSafe(|| {
                                next.check(
                                    &image,
                                    (kind, alarms),
                                    &allowed,
                                    (dice.below(SECOND_EVERY) == 0).then_some(second),
                                )
                            }));
                            match checked {
                                Ok(Ok(checked)) => counts.add(checked),
                                Ok(Err(why)) => {
                                    failed.store(true, Ordering::Relaxed);
                                    keep(&image);
                                    panic!("{}: {why}", context());
                                }
                                Err(panicked) => {
                                    failed.store(true, Ordering::Relaxed);
                                    eprintln!("{}: panicked", context());
                                    keep(&image);
                                    panic::resume_unwind(panicked);
                                }
                            }
                        });
                    }
                    counts
                }
            };
            let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(run(worker))).collect();
            let mut counts = Counts::default();
            for worker in workers {
                match worker.join() {
                    Ok(some) => counts.add(some),
                    Err(panicked) => panic::resume_unwind(panicked),
                }
            }
            counts
        });
        println!(
            "{name}: {} events, {} images, {} after a second crash; {} showed the state before, {} the one after; {} torn ones were called damaged",
            events.len(),
            counts.images,
            counts.second,
            counts.before,
            counts.after,
            counts.called_damaged
        );
        counts
    }

    fn allowed(&self, acknowledged: usize) -> Vec<&Option<View>> {
        let brought = self.attempted.get(&acknowledged).into_iter().flatten();
        self.views[acknowledged..].iter().take(2).chain(brought).collect()
    }
}

/// Whether readers and writers may speak of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alarms {
    /// A crash is not damage.
    None,
    /// There is damage, or the disk failed in such a way that its remains look like it.
    Allowed,
}

const WORKERS: usize = 2;
/// One image in this many is followed by a second crash.
const SECOND_EVERY: usize = 100;
/// After one push in this many all of the archive is read.
const READ_EVERY: usize = 16;

/// Leaves an image for whoever looks into a failure.
fn keep(image: &Image) {
    if let (Some(directory), Some(bytes)) = (std::env::var_os("ZNIPPY_TEST_KEEP_IMAGE"), image.get(work::NAME)) {
        std::fs::write(std::path::Path::new(&directory).join(work::NAME), bytes).unwrap();
    }
}

fn brief(event: &Event) -> String {
    match event {
        Event::Write { ino, at, bytes } => format!("a write of {} bytes at {at} of file {ino}", bytes.len()),
        other => format!("{other:?}"),
    }
}

impl Counts {
    pub fn add(&mut self, other: Counts) {
        self.images += other.images;
        self.second += other.second;
        self.before += other.before;
        self.after += other.after;
        self.called_damaged += other.called_damaged;
    }
}

/// The pushes that follow a crash.
struct NextPush {
    known: Known,
    checked: usize,
    blobs: [Blob; 2],
    packs: [TestPack; 2],
}

impl NextPush {
    fn new(number: u32) -> NextPush {
        let blobs = [0, 1].map(|i| work::small(number + i));
        NextPush {
            known: Known::default(),
            checked: 0,
            blobs,
            packs: blobs.map(|blob| TestPack::new(&[blob])),
        }
    }

    /// Checks an image: it shows one of the allowed states, takes the next push, and, where asked for, survives a crash in it.
    fn check(
        &mut self,
        image: &Image,
        (kind, alarms): (Kind, Alarms),
        allowed: &[&Option<View>],
        second: Option<&Effort>,
    ) -> Result<Counts, String> {
        let mut counts = Counts::default();
        let volume = Arc::new(Volume::new(image));
        let seen = self.known.view(image)?;
        let which = allowed.iter().position(|allowed| match (allowed, &seen) {
            (None, None) => true,
            (Some(allowed), Some(seen)) => seen.same_content(allowed),
            _ => false,
        });
        match which {
            Some(0) => counts.before += 1,
            Some(_) => counts.after += 1,
            None => {
                let brief = |view: &Option<View>| {
                    view.as_ref()
                        .map(|view| (view.refs.len(), view.packs.len(), view.unproven))
                };
                let allowed: Vec<_> = allowed.iter().map(|view| brief(view)).collect();
                return Err(format!("shows {:?}, allowed are {allowed:?}", brief(&seen)));
            }
        }
        let mut warned: Vec<&String> = seen.iter().flat_map(|seen| &seen.warnings).collect();
        let outcome = push(&volume, &self.packs[0], vec![set("refs/tags/next", self.blobs[0])])
            .map_err(|error| format!("the next push fails: {error}"))?;
        warned.extend(&outcome.warnings);
        // A slot that was torn is said to be unreadable: that is so, and is repaired.
        if warned.iter().any(|warning| warning.contains("damaged")) {
            counts.called_damaged += 1;
            if (kind, alarms) == (Kind::Sectors, Alarms::None) {
                return Err(format!("a crash is called damage: {warned:?}"));
            }
        }
        // What an append does to what is before it is the same each time, so most times it is enough that it is seen.
        self.checked += 1;
        if second.is_none() && !self.checked.is_multiple_of(READ_EVERY) {
            return match is_pushed(&volume, "refs/tags/next", self.blobs[0])? {
                true => Ok(counts),
                false => Err("the next push is not seen".into()),
            };
        }
        let after = view(&volume)?;
        self.check_pushed(&seen, &after)?;
        if image.len() > 1 {
            self.check_gc(image)?;
        }
        if let Some(effort) = second {
            let mut model = Model::new(image);
            let mut random = Random(0xa9a1);
            let mut failed = None;
            for event in volume.events() {
                model.apply(&event);
                model.images(effort, &mut random, &mut |image, _| {
                    counts.second += 1;
                    if failed.is_none() {
                        failed = self.check_second(&image, &seen, &after).err();
                    }
                });
            }
            if let Some(why) = failed {
                return Err(format!("after a second crash: {why}"));
            }
        }
        Ok(counts)
    }

    /// What a gc left behind that died does not stand in the way of the next one, which changes nothing that is seen.
    fn check_gc(&self, image: &Image) -> Result<(), String> {
        let volume = Arc::new(Volume::new(image));
        let before = view(&volume)?.ok_or("there is no archive")?;
        gc(&volume, &mut |_| ()).map_err(|error| format!("the next gc fails: {error}"))?;
        let after = view(&volume)?.ok_or("the archive is gone after a gc")?;
        if after.refs != before.refs || after.generation <= before.generation || volume.visible().len() != 1 {
            return Err(format!("the next gc made {after:?} of {before:?}"));
        }
        Ok(())
    }

    /// After a crash in the first push after a crash, its state or the one before it is seen, and another push works.
    fn check_second(&self, image: &Image, before: &Option<View>, after: &Option<View>) -> Result<(), String> {
        let volume = Arc::new(Volume::new(image));
        let seen = view(&volume)?;
        let is = |other: &Option<View>| match (&seen, other) {
            (None, None) => true,
            (Some(seen), Some(other)) => seen.same_content(other),
            _ => false,
        };
        if !is(before) && !is(after) {
            return Err(format!(
                "neither the state before nor the one after is seen, but {seen:?}"
            ));
        }
        push(&volume, &self.packs[1], vec![set("refs/tags/next", self.blobs[1])])
            .map_err(|error| format!("the push fails: {error}"))?;
        let now = view(&volume)?.ok_or("the archive is gone")?;
        if now.find("refs/tags/next") != Some(self.blobs[1].id()) {
            return Err("what was pushed is not seen".into());
        }
        Ok(())
    }

    /// Checks that a push added what it pushed and nothing else.
    fn check_pushed(&self, before: &Option<View>, after: &Option<View>) -> Result<(), String> {
        let after = after.as_ref().ok_or("the archive is gone after a push")?;
        if after.find("refs/tags/next") != Some(self.blobs[0].id()) {
            return Err("the next push is not seen".into());
        }
        let Some(before) = before else { return Ok(()) };
        let kept = before.refs.iter().all(|r| after.refs.contains(r));
        if !kept || after.refs.len() != before.refs.len() + 1 || after.packs.len() != before.packs.len() + 1 {
            return Err(format!(
                "the next push changed more than its own: {before:?} became {after:?}"
            ));
        }
        Ok(())
    }
}
