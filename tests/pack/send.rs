//! What is selected and sent, against `git rev-list`, `git index-pack --strict` and `git fsck`.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use gix_hash::{Kind, ObjectId, oid};
use znippy::pack::{
    EntryTable, Location, PackRank, PackStore,
    disk::{DiskPack, Layered},
    emit::{self, Receipt},
    filter::Filter,
    idx,
    object::ObjectReader,
    select::{SelectOptions, select},
    selection::Selection,
};

use crate::repo::{Random, Repo};

fn ids(text: &str) -> BTreeSet<ObjectId> {
    text.lines()
        .map(|line| ObjectId::from_hex(line.as_bytes()).unwrap())
        .collect()
}

fn selected(store: &dyn PackStore, wants: &[ObjectId], haves: &[ObjectId]) -> Selection {
    select(&ObjectReader::new(store), wants, haves, SelectOptions::default()).unwrap()
}

/// Lists what git would send.
fn rev_list(repo: &Repo, wants: &[ObjectId], haves: &[ObjectId], more: &[&str]) -> BTreeSet<ObjectId> {
    let mut input = String::new();
    for want in wants {
        input += &format!("{want}\n");
    }
    for have in haves {
        input += &format!("^{have}\n");
    }
    let mut args = vec!["rev-list", "--objects", "--no-object-names", "--stdin"];
    args.extend(more);
    if repo.has_gaps() {
        args.push("--missing=allow-any");
    }
    ids(&repo.git_with(&args, input.as_bytes()))
}

/// Emits `set`, has git check and index the pack, and compares indexes and receipt with what git finds.
fn emitted(repo: &Repo, store: &dyn PackStore, set: &Selection, scratch: &Repo) -> Receipt {
    let mut pack = Vec::new();
    let mut told = (0, 0);
    let receipt = emit::emit(store, set, &mut pack, &mut |done, total| told = (done, total)).unwrap();
    let objects: BTreeSet<ObjectId> = set.oids().collect();
    assert_eq!(told, (objects.len() as u64, objects.len() as u64));
    assert_eq!(
        (receipt.bytes, receipt.objects),
        (pack.len() as u64, objects.len() as u64)
    );
    assert_eq!(receipt.copied + receipt.recompressed, receipt.objects);
    let path = scratch.path.join("sent.pack");
    for name in ["sent.pack", "sent.idx", "sent.rev"] {
        let _ = std::fs::remove_file(scratch.path.join(name));
    }
    std::fs::write(&path, &pack).unwrap();
    // Links to objects outside of the pack are not checked here: a fetch leaves out what the receiver has.
    scratch.git(&["index-pack", "--rev-index", path.to_str().unwrap()]);
    let theirs = DiskPack::open(&path, repo.format).unwrap();
    assert_eq!(**theirs.table(), receipt.entries, "entries of the new pack");
    assert_eq!(theirs.pack_id(0).unwrap(), receipt.pack_id);
    let mut index = Vec::new();
    idx::write_idx(
        &receipt.entries,
        &receipt.pack_id,
        idx::LARGE_OFFSET_THRESHOLD,
        &mut index,
    )
    .unwrap();
    assert!(index == std::fs::read(path.with_extension("idx")).unwrap());
    let sent: BTreeSet<ObjectId> = (0..receipt.entries.len())
        .map(|row| receipt.entries.oid(row).to_owned())
        .collect();
    assert_eq!(sent, objects);
    receipt
}

/// Drops the pack last emitted into an object store.
fn receive(scratch: &Repo, receiver: &Repo, receipt: &Receipt) {
    let name = |extension: &str| {
        receiver
            .path
            .join(format!("objects/pack/pack-{}.{extension}", receipt.pack_id))
    };
    for extension in ["pack", "idx"] {
        std::fs::copy(scratch.path.join(format!("sent.{extension}")), name(extension)).unwrap();
    }
}

#[test]
fn everything_is_sent_as_it_is() {
    for format in [Kind::Sha1, Kind::Sha256] {
        let repo = Repo::generated(format, 10, 100);
        let path = repo.repack(&[]);
        let pack = repo.open(&path);
        let scratch = Repo::empty(format);
        let all = Selection::all(&pack).unwrap();
        let receipt = emitted(&repo, &pack, &all, &scratch);
        assert_eq!(receipt.recompressed, 0);
        assert!(
            std::fs::read(scratch.path.join("sent.pack")).unwrap() == std::fs::read(&path).unwrap(),
            "byte for byte"
        );
        let mut verbatim = Vec::new();
        emit::copy_verbatim(&pack, 0, &mut verbatim, &mut |_, _| ()).unwrap();
        assert!(verbatim == std::fs::read(&path).unwrap());
        let tips: Vec<ObjectId> = ids(&repo.git(&["for-each-ref", "--format=%(objectname)"]))
            .into_iter()
            .collect();
        let walked: BTreeSet<ObjectId> = selected(&pack, &tips, &[]).oids().collect();
        assert_eq!(walked, all.oids().collect());
    }
}

/// A store that says that it has objects which it lacks: real repositories that were cloned with a filter.
struct Gaps<'a>(&'a dyn PackStore);

/// Where an object is said to be that is not there.
const NOWHERE: Location = Location {
    pack: 0,
    offset: 0,
    crc32: 0,
};

impl PackStore for Gaps<'_> {
    fn object_format(&self) -> Kind {
        self.0.object_format()
    }
    fn packs(&self) -> PackRank {
        self.0.packs()
    }
    fn pack_len(&self, pack: PackRank) -> znippy::Result<u64> {
        self.0.pack_len(pack)
    }
    fn pack_id(&self, pack: PackRank) -> znippy::Result<ObjectId> {
        self.0.pack_id(pack)
    }
    fn pack_name(&self, pack: PackRank) -> String {
        self.0.pack_name(pack)
    }
    fn read_exact_at(&self, pack: PackRank, offset: u64, buf: &mut [u8]) -> znippy::Result<()> {
        self.0.read_exact_at(pack, offset, buf)?;
        if offset == 0 && buf.len() == 12 {
            // So many objects that their tables, in which the gaps would show, are never read as a whole.
            buf[8..].fill(0xff);
        }
        Ok(())
    }
    fn lookup(&self, id: &oid) -> znippy::Result<Option<Location>> {
        Ok(Some(self.0.lookup(id)?.unwrap_or(NOWHERE)))
    }
    fn entries(&self, pack: PackRank) -> znippy::Result<Arc<EntryTable>> {
        self.0.entries(pack)
    }
}

/// What random requests came to.
#[derive(Default)]
struct Compared {
    requests: usize,
    objects: usize,
    /// Sets that were not the very one of git.
    odd: usize,
}

/// Commits of a repository and what random requests choose from.
struct Choices {
    all: Vec<ObjectId>,
    tips: Vec<ObjectId>,
    /// In topological order: neighbours are mostly related.
    commits: Vec<ObjectId>,
    first_parents: HashMap<ObjectId, ObjectId>,
}

impl Choices {
    fn of(repo: &Repo, store: &dyn PackStore) -> Choices {
        let listing = repo.git(&["rev-list", "--all", "--topo-order", "--parents"]);
        let mut choices = Choices {
            all: Selection::all(store).unwrap().oids().collect(),
            tips: ids(&repo.git(&["for-each-ref", "--format=%(objectname)"]))
                .into_iter()
                .collect(),
            commits: Default::default(),
            first_parents: HashMap::new(),
        };
        for line in listing.lines() {
            let mut oids = line.split(' ').map(|hex| ObjectId::from_hex(hex.as_bytes()).unwrap());
            let commit = oids.next().unwrap();
            choices.commits.push(commit);
            choices.first_parents.extend(oids.next().map(|parent| (commit, parent)));
        }
        choices
    }

    /// Chooses anything from anywhere: differences of any size, mostly large ones.
    fn far(&self, random: &mut Random) -> (Vec<ObjectId>, Vec<ObjectId>) {
        let mut some = |most: usize| -> Vec<ObjectId> {
            (0..random.below(most + 1))
                .map(|_| match random.below(10) {
                    0 => self.all[random.below(self.all.len())],
                    1..=3 => self.tips[random.below(self.tips.len())],
                    _ => self.commits[random.below(self.commits.len())],
                })
                .collect()
        };
        (some(3), some(3))
    }

    /// Chooses wants near each other, an ancestor of each, one to 2,000 commits back, and a few neighbours that may be anything.
    fn near(&self, random: &mut Random) -> (Vec<ObjectId>, Vec<ObjectId>) {
        let centre = random.below(self.commits.len());
        let around = |random: &mut Random, most: usize| -> Vec<ObjectId> {
            (0..random.below(most + 1))
                .map(|_| self.commits[(centre + random.below(300)) % self.commits.len()])
                .collect()
        };
        let mut wants = around(random, 3);
        let mut haves = around(random, 2);
        for want in &wants {
            let most = 1 << random.below(12);
            let back = 1 + random.below(most);
            let chain = std::iter::successors(Some(want), |id| self.first_parents.get(*id));
            haves.extend(chain.take(back + 1).last());
        }
        for _ in 0..random.below(3) {
            let any = self.all[random.below(self.all.len())];
            // A commit from anywhere would bring all that is below it.
            if !self.first_parents.contains_key(&any) {
                wants.push(any);
            }
        }
        (wants, haves)
    }
}

/// Random wants and haves, of which `far` in a hundred are chosen from everywhere.
fn compare_random(repo: &Repo, seed: u64, rounds: usize, far: usize) -> Compared {
    let packs: Vec<DiskPack> = repo.packs().iter().map(|path| repo.open(path)).collect();
    let stores: Vec<&dyn PackStore> = packs.iter().map(|pack| pack as &dyn PackStore).collect();
    let store = Layered::new(&stores).unwrap();
    let scratch = Repo::empty(repo.format);
    let choices = Choices::of(repo, &store);
    let mut random = Random(seed);
    let mut compared = Compared::default();
    for _ in 0..rounds {
        let (wants, mut haves) = match random.below(100) < far {
            true => choices.far(&mut random),
            false => choices.near(&mut random),
        };
        let mut set = if repo.has_gaps() {
            let gaps = Gaps(&store);
            selected(&gaps, &wants, &haves)
        } else {
            selected(&store, &wants, &haves)
        };
        set.retain(|id, _| store.lookup(id).unwrap().is_some());
        let ours: BTreeSet<ObjectId> = set.oids().collect();
        assert_eq!(ours.len(), set.len(), "each object once");
        let theirs = rev_list(repo, &wants, &haves, &[]);
        if ours != theirs {
            // Dates that are wrong by days let git stop too early. What it sends beyond us, the receiver has; and we never
            // leave out what the receiver needs.
            compared.odd += 1;
            let reached = rev_list(repo, &wants, &[], &[]);
            let had = rev_list(repo, &haves, &[], &[]);
            assert!(
                theirs.difference(&ours).all(|id| had.contains(id)),
                "wants {wants:?} haves {haves:?}"
            );
            assert!(
                reached.difference(&had).all(|id| ours.contains(id)),
                "wants {wants:?} haves {haves:?}"
            );
            assert!(ours.is_subset(&reached));
        }
        emitted(repo, &store, &set, &scratch);
        compared.requests += 1;
        compared.objects += set.len();
        if !repo.has_gaps() {
            haves.push(ObjectId::from_bytes_or_panic(&vec![0xab; repo.format.len_in_bytes()]));
            assert_eq!(
                selected(&store, &wants, &haves).len(),
                set.len(),
                "an unknown have changes nothing"
            );
        }
    }
    compared
}

#[test]
fn random_requests_are_what_git_sends() {
    for (format, seed) in [(Kind::Sha1, 11), (Kind::Sha256, 12), (Kind::Sha1, 13)] {
        let repo = Repo::generated(format, seed, 150);
        repo.repack(&["-f", "--depth=50", "--window=20"]);
        let odd = compare_random(&repo, seed, 40, 80).odd;
        assert!(odd <= 8, "{odd} sets differ");
        // Bases named by id.
        repo.git(&["config", "repack.useDeltaBaseOffset", "false"]);
        repo.repack(&["-f"]);
        compare_random(&repo, seed + 100, 10, 100);
    }
}

#[test]
fn r21_several_packs_with_duplicates_become_one() {
    for (format, seed) in [(Kind::Sha1, 20), (Kind::Sha256, 21)] {
        let repo = Repo::generated(format, seed, 120);
        let whole = repo.repack(&["-f"]);
        let pack_dir = whole.parent().unwrap().to_owned();
        // Packs as pushes leave them, each self-contained, so that many objects are in several of them.
        let commits: Vec<String> = repo
            .git(&["rev-list", "--all", "--reverse"])
            .lines()
            .map(str::to_owned)
            .collect();
        let mut known = String::new();
        for part in commits.chunks(17) {
            let tip = part.last().unwrap();
            let input = format!("{tip}\n--not\n{known}");
            repo.git_with(
                &[
                    "pack-objects",
                    "-q",
                    "--revs",
                    "--delta-base-offset",
                    pack_dir.join("pack").to_str().unwrap(),
                ],
                input.as_bytes(),
            );
            if known.len() < 200 {
                known = format!("{}\n", part[0]);
            }
        }
        let packs: Vec<DiskPack> = repo.packs().iter().map(|path| repo.open(path)).collect();
        assert!(packs.len() > 5);
        let stores: Vec<&dyn PackStore> = packs.iter().map(|pack| pack as &dyn PackStore).collect();
        let store = Layered::new(&stores).unwrap();
        let stored: usize = packs.iter().map(|pack| pack.table().len()).sum();
        let all = Selection::all(&store).unwrap();
        assert!(all.len() < stored, "there are duplicates");
        let (scratch, receiver) = (Repo::empty(format), Repo::empty(format));
        let receipt = emitted(&repo, &store, &all, &scratch);
        receive(&scratch, &receiver, &receipt);
        let refs = repo.git(&["for-each-ref", "--format=create %(refname) %(objectname)"]);
        receiver.git_with(&["update-ref", "--stdin"], format!("{refs}\n").as_bytes());
        receiver.git(&["fsck", "--full", "--strict"]);
        let list = &["cat-file", "--batch-all-objects", "--batch-check"];
        assert_eq!(receiver.git(list), repo.git(list));
        compare_random(&repo, seed, 15, 50);
    }
}

#[test]
fn fetch_after_fetch_gives_a_whole_repository() {
    let repo = Repo::generated(Kind::Sha1, 30, 150);
    let pack = repo.open(&repo.repack(&["-f"]));
    let (scratch, receiver) = (Repo::empty(Kind::Sha1), Repo::empty(Kind::Sha1));
    let commits: Vec<ObjectId> = repo
        .git(&["rev-list", "--all", "--topo-order", "--reverse"])
        .lines()
        .map(|line| ObjectId::from_hex(line.as_bytes()).unwrap())
        .collect();
    let mut haves: Vec<ObjectId> = Vec::new();
    for (step, want) in commits.iter().enumerate().step_by(9) {
        let set = selected(&pack, &[*want], &haves);
        if set.is_empty() {
            continue;
        }
        let receipt = emitted(&repo, &pack, &set, &scratch);
        receive(&scratch, &receiver, &receipt);
        receiver.git(&["update-ref", &format!("refs/heads/step{step}"), &want.to_string()]);
        receiver.git(&["fsck", "--full", "--strict"]);
        haves.push(*want);
    }
    assert!(haves.len() > 8);
}

fn filter(spec: &str) -> Filter {
    Filter::parse(spec.into(), &mut |_| unreachable!("no patterns")).unwrap()
}

#[test]
fn filters_and_shallow_commits_are_observed() {
    let repo = Repo::generated(Kind::Sha1, 40, 80);
    let pack = repo.open(&repo.repack(&[]));
    let reader = ObjectReader::new(&pack);
    let main = ObjectId::from_hex(repo.git(&["rev-parse", "main"]).as_bytes()).unwrap();
    let set = |options: SelectOptions<'_>| -> BTreeSet<ObjectId> {
        select(&reader, &[main], &[], options).unwrap().oids().collect()
    };
    let trees = set(SelectOptions {
        filter: filter("blob:none"),
        ..SelectOptions::default()
    });
    assert_eq!(trees, rev_list(&repo, &[main], &[], &["--filter=blob:none"]));
    let nothing = set(SelectOptions {
        filter: filter("tree:0"),
        ..SelectOptions::default()
    });
    assert_eq!(nothing, rev_list(&repo, &[main], &[], &["--filter=tree:0"]));
    let shallow = set(SelectOptions {
        parentless: [main].into(),
        ..SelectOptions::default()
    });
    assert_eq!(shallow, rev_list(&repo, &[main], &[], &["--max-count=1"]));
}

#[test]
fn damage_and_holes_are_named() {
    let repo = Repo::generated(Kind::Sha1, 50, 60);
    let path = repo.repack(&["-f"]);
    let pack = repo.open(&path);
    let all = Selection::all(&pack).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let copy = repo.path.join("damaged.pack");
    let scratch = Repo::empty(Kind::Sha1);
    let mut passed = 0;
    for at in (12..bytes.len() - 20).step_by(bytes.len() / 40) {
        let mut bad = bytes.clone();
        bad[at] ^= 4;
        std::fs::write(&copy, &bad).unwrap();
        let damaged = DiskPack::open_with_index(&copy, &path.with_extension("idx"), Kind::Sha1).unwrap();
        let result = emit::emit(&damaged, &all, &mut Vec::new(), &mut |_, _| ());
        assert!(emit::copy_verbatim(&damaged, 0, &mut Vec::new(), &mut |_, _| ()).is_err());
        // With a whole copy behind it, nothing is lost.
        let both = Layered::new(&[&damaged as &dyn PackStore, &pack]).unwrap();
        let receipt = emitted(&repo, &both, &Selection::all(&both).unwrap(), &scratch);
        let Err(err) = result else {
            // A bit that means nothing.
            passed += 1;
            continue;
        };
        assert!(!receipt.healed.is_empty());
        let err = err.to_string();
        let row = idx::rows_by_offset(&pack.table().offsets);
        let hit = row
            .iter()
            .rfind(|row| pack.table().offsets[**row as usize] <= at as u64)
            .unwrap();
        let id = pack.table().oid(*hit as usize).to_string();
        assert!(err.contains(&id) && err.contains("damaged.pack"), "{id}: {err}");
    }
    assert!(passed < 4, "{passed} flipped bits passed");
    // A pack with one object less.
    for _ in 0..3 {
        let mut random = Random(repo.packs().len() as u64);
        let victim = all.oid(random.below(all.len())).to_owned();
        let kept: String = all
            .oids()
            .filter(|id| *id != victim)
            .map(|id| format!("{id}\n"))
            .collect();
        let base = repo.path.join("holed");
        let name = repo.git_with(&["pack-objects", "-q", base.to_str().unwrap()], kept.as_bytes());
        let holed = repo.open(&repo.path.join(format!("holed-{name}.pack")));
        let tips: Vec<ObjectId> = ids(&repo.git(&["for-each-ref", "--format=%(objectname)"]))
            .into_iter()
            .collect();
        let err = select(&ObjectReader::new(&holed), &tips, &[], SelectOptions::default())
            .unwrap_err()
            .to_string();
        assert!(err.contains(&victim.to_string()) && err.contains("missing"), "{err}");
    }
}

#[test]
fn a_real_repository_if_one_is_named() {
    let Some(repo) = Repo::real() else {
        eprintln!("NOT RUN: ZNIPPY_TEST_REPO names no repository");
        return;
    };
    let number = |name: &str, otherwise| std::env::var(name).map_or(otherwise, |text| text.parse().unwrap());
    let rounds = number("ZNIPPY_TEST_ROUNDS", 12);
    let seed = number("ZNIPPY_TEST_SEED", 60) as u64;
    let Compared { requests, objects, odd } = compare_random(&repo, seed, rounds, number("ZNIPPY_TEST_FAR", 100));
    eprintln!(
        "COMPARED: {requests} requests, {objects} objects, {odd} sets that differ from git's as wrong dates let them"
    );
}

#[test]
fn large_entries_are_sent_in_pieces() {
    let repo = Repo::empty(Kind::Sha1);
    let mut random = Random(90);
    let mut noise = |len: usize| -> Vec<u8> { (0..len).map(|_| random.next() as u8).collect() };
    let mut blobs = Vec::new();
    for len in [3 << 20, 100, 2 << 20, (1 << 20) - 40, 70_000] {
        let mut data = noise(len);
        for version in 0..3 {
            data.splice(len / 2..len / 2, format!("version {version}").into_bytes());
            data.extend(noise(3000 * version));
            blobs.push(repo.git_with(&["hash-object", "-w", "--stdin"], &data));
        }
    }
    // A delta that is large itself: half of its base is new.
    let mut data = noise(4 << 20);
    blobs.push(repo.git_with(&["hash-object", "-w", "--stdin"], &data));
    data.splice(..2 << 20, noise(2 << 20));
    blobs.push(repo.git_with(&["hash-object", "-w", "--stdin"], &data));
    let list: String = blobs.iter().map(|id| format!("{id} blob\n")).collect();
    let base = repo.path.join("large");
    let name = repo.git_with(
        &[
            "pack-objects",
            "-q",
            "--window=20",
            "--delta-base-offset",
            base.to_str().unwrap(),
        ],
        list.as_bytes(),
    );
    let path = repo.path.join(format!("large-{name}.pack"));
    let pack = repo.open(&path);
    let all = Selection::all(&pack).unwrap();
    let scratch = Repo::empty(Kind::Sha1);
    let receipt = emitted(&repo, &pack, &all, &scratch);
    assert!(receipt.bytes > 8 << 20, "a second thread hashes");
    assert!(std::fs::read(scratch.path.join("sent.pack")).unwrap() == std::fs::read(&path).unwrap());
    let mut verbatim = Vec::new();
    emit::copy_verbatim(&pack, 0, &mut verbatim, &mut |_, _| ()).unwrap();
    assert!(verbatim == std::fs::read(&path).unwrap());
    // Each object left out in turn: what was made from it is made from another one, or whole.
    let mut rebuilt = 0;
    for left_out in all.oids().step_by(2) {
        let mut some = all.clone();
        some.retain(|id, _| *id != *left_out);
        rebuilt += emitted(&repo, &pack, &some, &scratch).recompressed;
    }
    assert!(rebuilt >= 3, "{rebuilt} entries");
    // Damage in the middle of each entry, with and without another copy behind it.
    let bytes = std::fs::read(&path).unwrap();
    let copy = repo.path.join("damaged.pack");
    for index in (0..all.len()).step_by(4) {
        let start = all.location(index).offset;
        let end = pack
            .table()
            .offsets
            .iter()
            .copied()
            .filter(|offset| *offset > start)
            .min();
        let mut bad = bytes.clone();
        bad[((start + end.unwrap_or(pack.pack_len(0).unwrap() - 20)) / 2) as usize] ^= 8;
        std::fs::write(&copy, &bad).unwrap();
        let damaged = DiskPack::open_with_index(&copy, &path.with_extension("idx"), Kind::Sha1).unwrap();
        let err = emit::emit(&damaged, &all, &mut Vec::new(), &mut |_, _| ())
            .unwrap_err()
            .to_string();
        assert!(err.contains(&all.oid(index).to_string()), "{err}");
        let both = Layered::new(&[&damaged as &dyn PackStore, &pack]).unwrap();
        let receipt = emitted(&repo, &both, &Selection::all(&both).unwrap(), &scratch);
        assert!(receipt.healed.contains(&all.oid(index).to_owned()));
    }
}
