//! Every object and every question about the graph, against git.

use std::{fmt::Write as _, sync::Arc};

use gix_hash::{Kind, ObjectId, oid};
use znippy::{
    Error, Result,
    pack::{
        EntryTable, Location, PackRank, PackStore, graph,
        header::{EntryKind, pack_header, write_entry_header},
        object::{ObjectReader, ReaderOptions},
    },
};

use crate::repo::{Random, Repo};

/// Compares all objects of `repo`'s one pack with what `git cat-file` says, and hashes each.
fn compare_objects(repo: &Repo, store: &dyn PackStore, options: ReaderOptions) {
    let reader = ObjectReader::with_options(store, options);
    let table = store.entries(0).unwrap();
    let mut ours = String::new();
    for row in 0..table.len() {
        let id = table.oid(row);
        let object = reader.read(id).unwrap().expect("the index has it");
        let header = reader.header(id).unwrap().unwrap();
        assert_eq!(header, (object.kind, object.data.len() as u64), "{id}");
        writeln!(ours, "{id} {} {}", object.kind, object.data.len()).unwrap();
        let mut hasher = gix_hash::hasher(repo.format);
        hasher.update(format!("{} {}\0", object.kind, object.data.len()).as_bytes());
        hasher.update(&object.data);
        assert_eq!(hasher.try_finalize().unwrap(), id.to_owned());
    }
    assert_eq!(
        ours.trim_end(),
        repo.git(&["cat-file", "--batch-all-objects", "--batch-check"])
    );
    assert_eq!(reader.read(ObjectId::null(repo.format).as_ref()).unwrap(), None);
}

#[test]
fn objects_are_what_git_says() {
    for format in [Kind::Sha1, Kind::Sha256] {
        let repo = Repo::generated(format, 5, 150);
        for args in [&["--depth=200", "--window=50", "-f"][..], &["--depth=0", "-f"]] {
            let pack = repo.open(&repo.repack(args));
            compare_objects(&repo, &pack, ReaderOptions::default());
            compare_objects(
                &repo,
                &pack,
                ReaderOptions {
                    cache_bytes: 0,
                    ..ReaderOptions::default()
                },
            );
        }
        // Bases named by id.
        repo.git(&["config", "repack.useDeltaBaseOffset", "false"]);
        let pack = repo.open(&repo.repack(&["-f"]));
        compare_objects(
            &repo,
            &pack,
            ReaderOptions {
                cache_bytes: 10_000,
                ..ReaderOptions::default()
            },
        );
    }
}

#[test]
fn tags_and_ancestors_are_what_git_says() {
    for (format, seed) in [(Kind::Sha1, 6), (Kind::Sha256, 7)] {
        let repo = Repo::generated(format, seed, 120);
        let pack = repo.open(&repo.repack(&[]));
        let reader = ObjectReader::new(&pack);
        let refs = repo.git(&["for-each-ref", "--format=%(objectname) %(objecttype) %(*objectname)"]);
        for line in refs.lines() {
            let mut words = line.split(' ');
            let id = |word: Option<&str>| ObjectId::from_hex(word.unwrap().as_bytes()).ok();
            let tip = id(words.next()).unwrap();
            let kind = words.next().unwrap();
            let mut peeled = id(words.next());
            // `*objectname` follows one tag only in older versions.
            if kind == "tag" {
                let all = repo.git(&["rev-parse", &format!("{tip}^{{}}")]);
                peeled = ObjectId::from_hex(all.as_bytes()).ok();
            }
            let ours = graph::peel(&reader, &tip).unwrap();
            assert_eq!((ours.0.to_string().as_str(), ours.1), (kind, peeled));
        }
        let commits: Vec<ObjectId> = repo
            .git(&["rev-list", "--all"])
            .lines()
            .map(|line| ObjectId::from_hex(line.as_bytes()).unwrap())
            .collect();
        let mut random = Random(seed);
        let (mut yes, mut no) = (0, 0);
        for _ in 0..150 {
            let (old, new) = (
                commits[random.below(commits.len())],
                commits[random.below(commits.len())],
            );
            let git = repo.try_git(
                &["merge-base", "--is-ancestor", &old.to_string(), &new.to_string()],
                b"",
            );
            let expected = git.status.success();
            assert_eq!(
                graph::is_ancestor(&reader, &old, &new, None).unwrap(),
                Some(expected),
                "{old} {new}"
            );
            let bounded = graph::is_ancestor(&reader, &old, &new, Some(random.below(20))).unwrap();
            assert!(bounded.is_none() || bounded == Some(expected));
            if expected { yes += 1 } else { no += 1 }
        }
        assert!(yes > 10 && no > 10, "{yes} {no}");
    }
}

/// A pack in memory with an index that may lie.
struct Forged {
    bytes: Vec<u8>,
    ids: Vec<(ObjectId, u64)>,
}

impl PackStore for Forged {
    fn object_format(&self) -> Kind {
        Kind::Sha1
    }
    fn packs(&self) -> PackRank {
        1
    }
    fn pack_len(&self, _: PackRank) -> Result<u64> {
        Ok(self.bytes.len() as u64)
    }
    fn pack_id(&self, _: PackRank) -> Result<ObjectId> {
        Ok(ObjectId::null(Kind::Sha1))
    }
    fn pack_name(&self, _: PackRank) -> String {
        "forged".into()
    }
    fn read_exact_at(&self, _: PackRank, offset: u64, buf: &mut [u8]) -> Result<()> {
        let start = offset as usize;
        let bytes = self
            .bytes
            .get(start..start + buf.len())
            .ok_or(Error::Invalid("short".into()))?;
        buf.copy_from_slice(bytes);
        Ok(())
    }
    fn lookup(&self, id: &oid) -> Result<Option<Location>> {
        let found = self.ids.iter().find(|(known, _)| **known == *id);
        Ok(found.map(|&(_, offset)| Location {
            pack: 0,
            offset,
            crc32: 0,
        }))
    }
    fn entries(&self, _: PackRank) -> Result<Arc<EntryTable>> {
        unreachable!("single look-ups only")
    }
}

fn deflate(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut stream = gix_zlib::stream::deflate::Write::new(&mut out, gix_zlib::Compression::BEST_SPEED);
    std::io::Write::write_all(&mut stream, data).unwrap();
    std::io::Write::flush(&mut stream).unwrap();
    drop(stream);
    out
}

fn id(byte: u8) -> ObjectId {
    ObjectId::from_bytes_or_panic(&[byte; 20])
}

fn forged(entries: &[(EntryKind, u64, &[u8])]) -> Forged {
    let mut pack = Forged {
        bytes: pack_header(entries.len() as u32).to_vec(),
        ids: Vec::new(),
    };
    for (number, (kind, size, data)) in entries.iter().enumerate() {
        pack.ids.push((id(number as u8 + 1), pack.bytes.len() as u64));
        write_entry_header(*kind, *size, &mut pack.bytes);
        pack.bytes.extend(deflate(data));
    }
    pack.bytes.extend([0; 20]);
    pack
}

#[test]
fn hostile_packs_end_in_errors() {
    use gix_object::Kind::{Blob, Tag};
    let errors = |pack: &Forged, number: u8, expected: &str| {
        let options = ReaderOptions {
            object_limit: 1 << 24,
            ..ReaderOptions::default()
        };
        let reader = ObjectReader::with_options(pack, options);
        let err = reader.read(&id(number)).unwrap_err().to_string();
        assert!(err.contains(expected) && err.contains("forged"), "{err}");
        assert!(err.contains(&id(number).to_string()), "{err}");
        let _ = reader.header(&id(number));
    };
    errors(&forged(&[(EntryKind::Base(Blob), 4, b"hello")]), 1, "longer");
    errors(&forged(&[(EntryKind::Base(Blob), 6, b"hello")]), 1, "shorter");
    errors(&forged(&[(EntryKind::Base(Blob), u64::MAX, b"hello")]), 1, "limit");
    errors(&forged(&[(EntryKind::Base(Blob), 1 << 24, b"hello")]), 1, "shorter");
    errors(&forged(&[(EntryKind::OfsDelta(5), 2, b"\0\0")]), 1, "outside");
    errors(&forged(&[(EntryKind::RefDelta(id(9)), 2, b"\0\0")]), 1, "missing");
    // Circles of one, two and three.
    errors(&forged(&[(EntryKind::RefDelta(id(1)), 2, b"\0\0")]), 1, "circle");
    let two = forged(&[
        (EntryKind::RefDelta(id(2)), 2, b"\0\0"),
        (EntryKind::RefDelta(id(1)), 2, b"\0\0"),
    ]);
    errors(&two, 2, "circle");
    let delta = |base| (EntryKind::RefDelta(id(base)), 2, &b"\0\0"[..]);
    let three = forged(&[delta(2), delta(3), delta(4), delta(2)]);
    for number in 1..=4 {
        errors(&three, number, "circle");
        assert!(ObjectReader::new(&three).header(&id(number)).is_err());
    }
    // A delta of a few bytes that wants to be huge.
    let bomb: Vec<u8> = b"\x02\x80\x80\x80\x80\x08"
        .iter()
        .copied()
        .chain([0x90, 0x02].repeat(500))
        .collect();
    let pack = forged(&[
        (EntryKind::Base(Blob), 2, b"ab"),
        (EntryKind::RefDelta(id(1)), bomb.len() as u64, &bomb),
    ]);
    errors(&pack, 2, "limit");
    // Cut and damaged bytes at every place.
    let good = forged(&[
        (EntryKind::Base(Blob), 5, b"hello"),
        (EntryKind::RefDelta(id(1)), 6, b"\x05\x06\x90\x05\x01!"),
    ]);
    assert_eq!(*ObjectReader::new(&good).read(&id(2)).unwrap().unwrap().data, b"hello!");
    let mut damaged = 0;
    for at in 12..good.bytes.len() - 20 {
        let mut bytes = good.bytes.clone();
        bytes[at] ^= 1;
        let pack = Forged {
            bytes,
            ids: good.ids.clone(),
        };
        let reader = ObjectReader::new(&pack);
        damaged += usize::from(reader.read(&id(1)).is_err() || reader.read(&id(2)).is_err());
        let pack = Forged {
            bytes: good.bytes[..at + 20].to_vec(),
            ids: good.ids.clone(),
        };
        let reader = ObjectReader::new(&pack);
        assert!(
            reader.read(&id(1)).is_err() || reader.read(&id(2)).is_err(),
            "cut at {at}"
        );
    }
    assert!(damaged > 20);
    // Tags in a circle, which only an index that lies can make.
    let text = |byte| format!("object {}\ntype tag\ntag t\n", id(byte));
    let (one, two) = (text(2), text(1));
    let size = one.len() as u64;
    let pack = forged(&[
        (EntryKind::Base(Tag), size, one.as_bytes()),
        (EntryKind::Base(Tag), size, two.as_bytes()),
    ]);
    let err = graph::peel(&ObjectReader::new(&pack), &id(1)).unwrap_err().to_string();
    assert!(err.contains("circle"), "{err}");
}

#[test]
fn a_chain_of_fifty_thousand_deltas_is_read() {
    let mut pack = Forged {
        bytes: pack_header(50_001).to_vec(),
        ids: Vec::new(),
    };
    let mut last = pack.bytes.len() as u64;
    write_entry_header(EntryKind::Base(gix_object::Kind::Blob), 8, &mut pack.bytes);
    pack.bytes.extend(deflate(&[0; 8]));
    for number in 1..=50_000u64 {
        let at = pack.bytes.len() as u64;
        let mut delta = vec![8, 8, 8];
        delta.extend(number.to_le_bytes());
        write_entry_header(EntryKind::OfsDelta(at - last), delta.len() as u64, &mut pack.bytes);
        pack.bytes.extend(deflate(&delta));
        last = at;
    }
    pack.bytes.extend([0; 20]);
    pack.ids.push((id(1), last));
    let reader = ObjectReader::with_options(
        &pack,
        ReaderOptions {
            cache_bytes: 1000,
            ..ReaderOptions::default()
        },
    );
    assert_eq!(*reader.read(&id(1)).unwrap().unwrap().data, 50_000u64.to_le_bytes());
    assert_eq!(reader.header(&id(1)).unwrap(), Some((gix_object::Kind::Blob, 8)));
}
