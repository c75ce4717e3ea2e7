//! Writes that come to the disk after their sync failed: a server may have them all the time without having said so.

use std::sync::Arc;

use znippy::archive::Durability;

use crate::{
    images::{Random, SECTOR},
    volume::{Call, Event, Fault, Image, Plan, Volume},
    work::{self, Blob, TestPack, archive_of, push, push_as, set, small, tag, view},
};

/// A write, or a sector of one.
#[derive(Debug, Clone)]
struct Late {
    at: usize,
    bytes: Vec<u8>,
}

impl Late {
    fn land(&self, file: &mut Vec<u8>) {
        let end = self.at + self.bytes.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[self.at..end].copy_from_slice(&self.bytes);
    }

    /// Cuts the write where sectors end.
    fn sectors(&self) -> Vec<Late> {
        let mut sectors = vec![];
        let (mut at, mut rest) = (self.at, &self.bytes[..]);
        while !rest.is_empty() {
            let (first, others) = rest.split_at((SECTOR - at % SECTOR).min(rest.len()));
            sectors.push(Late {
                at,
                bytes: first.to_vec(),
            });
            (at, rest) = (at + first.len(), others);
        }
        sectors
    }
}

/// What a push that failed has left: what is on the disk for certain, and what may land there at any time.
struct Remains {
    image: Image,
    late: Vec<Late>,
    /// What the pusher was told.
    error: String,
}

fn remains(base: &Image, is_on_network: bool, durability: Durability, plan: Plan) -> Option<Remains> {
    let volume = Arc::new(Volume::new(base));
    volume.on_network(is_on_network);
    volume.fail(Some(plan));
    let blob = Blob { number: 40, len: 1900 };
    let pack = TestPack::new(&[blob]);
    let error = push_as(durability, &volume, &pack, vec![set("refs/tags/failed", blob)]).err()?;
    let (mut certain, mut written, mut late) = (base[work::NAME].clone(), vec![], vec![]);
    for event in volume.events() {
        match event {
            Event::Write { at, bytes, .. } => {
                let at = at as usize;
                written.push(Late { at, bytes });
            }
            Event::Sync { .. } => written.drain(..).for_each(|write| write.land(&mut certain)),
            Event::FailedSync { .. } => late.append(&mut written),
            Event::SetLen { .. } => panic!("a cut may come late too, and take away what others wrote: {plan:?}"),
            _ => {}
        }
    }
    late.append(&mut written);
    Some(Remains {
        image: Image::from([(work::NAME.into(), certain)]),
        late: late.iter().flat_map(Late::sectors).collect(),
        error: error.to_string(),
    })
}

/// Lets some of what is under way land.
fn land(image: &mut Image, late: &[Late], mut which: impl FnMut() -> bool) {
    let file = image.get_mut(work::NAME).expect("the archive");
    late.iter().filter(|_| which()).for_each(|write| write.land(file));
}

/// Lets some of the sectors land before the next push, which another machine makes, and some after it, or again.
fn check(context: &str, remains: &Remains, is_on_network: bool, random: &mut Random, nth: usize) {
    let context = format!("{context}, {nth}: {}", remains.error);
    let is_told = !remains.error.contains("unknown");
    let mut pick = |always: bool, never: bool| always || !never && random.below(2) == 0;
    let mut image = remains.image.clone();
    land(&mut image, &remains.late, || pick(nth % 4 == 1, nth.is_multiple_of(4)));
    let open = |image: &Image| {
        let volume = Arc::new(Volume::new(image));
        volume.on_network(is_on_network);
        volume
    };
    let mut expected: Vec<(String, Blob)> = (1..=3).map(|number| (tag(number), small(number))).collect();
    for number in [50, 51, 52] {
        let volume = open(&image);
        let seen = view(&volume).unwrap_or_else(|why| panic!("{context}: {why}")).unwrap();
        for (name, blob) in &expected {
            assert_eq!(seen.find(name), Some(blob.id()), "{context}: {name} is lost");
        }
        let failed = seen.find("refs/tags/failed");
        assert!(failed.is_none() || !is_told, "{context}: it is there all the same");
        let (blob, name) = (small(number), tag(number));
        push(&volume, &TestPack::new(&[blob]), vec![set(&name, blob)])
            .unwrap_or_else(|error| panic!("{context}: the next push: {error}"));
        expected.push((name, blob));
        image = volume.visible();
        land(&mut image, &remains.late, || pick(nth % 3 == 1, false));
    }
    view(&open(&image)).unwrap_or_else(|why| panic!("{context}: {why}"));
}

/// R25: after a sync that timed out, or a call that failed on a network disk, nobody writes other bytes where those of the failed
/// commit may still arrive.
#[test]
fn r25_offsets_of_a_sync_that_timed_out_are_not_used_again() {
    let base = archive_of(3);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut tried, mut told) = (0, 0);
    for (is_on_network, number) in [(true, libc::ETIMEDOUT), (true, libc::EIO), (false, libc::ETIMEDOUT)] {
        for durability in [Durability::Safe, Durability::Uring, Durability::Fast] {
            for call in [Call::Sync, Call::Write] {
                for (nth, stays) in (1..=6).flat_map(|nth| [(nth, false), (nth, true)]) {
                    let fault = Fault::Error(number);
                    let plan = Plan {
                        call,
                        nth,
                        fault,
                        stays,
                    };
                    let Some(remains) = remains(&base, is_on_network, durability, plan) else {
                        continue;
                    };
                    // The place was never taken, as far as anyone can see.
                    if is_on_network && nth == 1 && stays {
                        continue;
                    }
                    // A machine of which nobody knows that the sync timed out cannot keep off what it does not see.
                    if !is_on_network && remains.error.contains("unknown") {
                        continue;
                    }
                    told += u64::from(!remains.error.contains("unknown"));
                    for image in 0..60 {
                        tried += 1;
                        let context = format!("network: {is_on_network}, {durability}, {plan:?}");
                        check(&context, &remains, is_on_network, &mut random, image);
                    }
                }
            }
        }
    }
    println!("late writes: {tried} ways to arrive; {told} failures of which the pusher could be told for certain");
    assert!(tried > 1000 && told > 5);
}

/// R25: where the server says that there is no room, or on a disk of this machine, the place is used again.
#[test]
fn r25_offsets_are_used_again_where_nothing_can_arrive_late() {
    for (is_on_network, number) in [(true, libc::ENOSPC), (true, libc::EDQUOT), (false, libc::EIO)] {
        let base = archive_of(3);
        let volume = Arc::new(Volume::new(&base));
        volume.on_network(is_on_network);
        for nth in 1..=2 {
            volume.fail(Some(Plan {
                call: Call::Write,
                nth,
                fault: Fault::Half(number),
                stays: true,
            }));
            let blob = small(9);
            let pushed = push(&volume, &TestPack::new(&[blob]), vec![set(&tag(9), blob)]);
            // On a disk of this machine the second write is that of the slot.
            assert_eq!(pushed.is_err(), is_on_network || nth == 1, "{pushed:?}");
            if pushed.is_err() {
                assert!(volume.visible()[work::NAME].len() == base[work::NAME].len());
            }
        }
    }
}

/// R25: on a network disk the place of a commit is taken, for every machine to see, before anything else of it is written.
#[test]
fn r25_a_place_is_taken_before_it_is_filled() {
    for durability in [Durability::Safe, Durability::Uring, Durability::Fast] {
        let base = archive_of(3);
        let volume = Arc::new(Volume::new(&base));
        volume.on_network(true);
        let blob = small(9);
        push_as(durability, &volume, &TestPack::new(&[blob]), vec![set(&tag(9), blob)]).unwrap();
        let (start, end) = (base[work::NAME].len() as u64, volume.visible()[work::NAME].len() as u64);
        let events = volume.events();
        let mut events = events
            .iter()
            .filter(|event| matches!(event, Event::Write { .. } | Event::Sync { .. }));
        match (events.next(), events.next()) {
            (Some(Event::Write { at, bytes, .. }), Some(Event::Sync { .. })) => {
                assert!(
                    *at > start,
                    "{durability}: the first write is not the last part of the commit"
                );
                assert_eq!(*at + bytes.len() as u64, end, "{durability}");
            }
            other => panic!("{durability}: {other:?}"),
        }
    }
}
