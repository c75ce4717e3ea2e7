//! Resolving a pack: what it finds is what git says, and nothing that is wrong passes.

use std::{collections::BTreeMap, sync::Arc};

use gix_hash::{Kind, ObjectId, oid};
use znippy::{
    Result,
    pack::{
        EntryTable, PackRank, PackStore,
        disk::DiskPack,
        header::{self, kind_of_code},
        idx,
        resolve::{ResolveOptions, Resolved, resolve},
    },
};

use crate::repo::Repo;

fn nothing_else(_: &oid, _: znippy::pack::Kind) -> Result<bool> {
    Ok(false)
}

fn resolved(store: &dyn PackStore, table: &EntryTable) -> Resolved {
    let options = ResolveOptions {
        is_there: Some(&nothing_else),
        check_pack_id: true,
        ..ResolveOptions::default()
    };
    resolve(store, 0, table, options).unwrap()
}

#[test]
fn what_is_found_is_what_git_says() {
    for format in [Kind::Sha1, Kind::Sha256] {
        let repo = Repo::generated(format, 70, 150);
        for args in [&["-f", "--depth=200", "--window=40"][..], &["-f", "--depth=0"]] {
            let pack = repo.open(&repo.repack(args));
            for waiting_bytes in [64 << 20, 0] {
                let mut commits = BTreeMap::new();
                let mut told = (0, 0);
                let mut on_commit = |commit: znippy::pack::resolve::ResolvedCommit<'_>| {
                    let links = &commit.links;
                    let mut line = links.tree.to_string();
                    for parent in &links.parents {
                        line += &format!(" {parent}");
                    }
                    line += &format!(" {} {}", links.time, String::from_utf8_lossy(links.author));
                    commits.insert(pack.table().oid(commit.row as usize).to_owned(), line);
                };
                let mut progress = |done, total| told = (done, total);
                let mut table = (**pack.table()).clone();
                let options = ResolveOptions {
                    waiting_bytes,
                    is_there: Some(&nothing_else),
                    on_commit: Some(&mut on_commit),
                    progress: Some(&mut progress),
                    check_pack_id: true,
                    ..ResolveOptions::default()
                };
                let result = resolve(&pack, 0, &table, options).unwrap();
                assert!(result.is_sound(), "{:?} {:?}", result.damaged, result.dangling);
                result.fill(&mut table);
                let mut ours = String::new();
                for row in 0..table.len() {
                    let kind = kind_of_code(table.kinds[row]).unwrap();
                    ours += &format!("{} {kind} {}\n", table.oid(row), table.sizes[row]);
                }
                assert_eq!(
                    ours.trim_end(),
                    repo.git(&["cat-file", "--batch-all-objects", "--batch-check"])
                );
                assert_eq!(told, (table.len() as u64, table.len() as u64));
                let log = repo.git(&[
                    "log",
                    "--all",
                    "--no-walk=sorted",
                    "--format=%H %T %P %ct %an <%ae> %ad",
                    "--date=raw",
                ]);
                for line in log.lines() {
                    let (id, rest) = line.split_once(' ').unwrap();
                    let ours = &commits[&ObjectId::from_hex(id.as_bytes()).unwrap()];
                    // Where there is no parent, git leaves two spaces.
                    assert_eq!(*ours, rest.replace("  ", " "));
                }
                assert_eq!(commits.len(), repo.git(&["rev-list", "--all"]).lines().count());
            }
        }
    }
}

#[test]
fn every_flipped_byte_is_noticed() {
    let repo = Repo::generated(Kind::Sha1, 71, 25);
    let path = repo.repack(&["-f"]);
    let pack = repo.open(&path);
    let bytes = std::fs::read(&path).unwrap();
    let copy = repo.path.join("damaged.pack");
    let starts = idx::rows_by_offset(&pack.table().offsets);
    let mut passed = 0;
    for at in (12..bytes.len() - 20).step_by(53) {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        std::fs::write(&copy, &bad).unwrap();
        let damaged = DiskPack::open_with_index(&copy, &path.with_extension("idx"), Kind::Sha1).unwrap();
        let result = resolved(&damaged, damaged.table());
        let hit = starts
            .iter()
            .rfind(|row| pack.table().offsets[**row as usize] <= at as u64)
            .unwrap();
        let id = pack.table().oid(*hit as usize);
        assert!(
            result.damaged.iter().any(|damage| *damage.oid == *id),
            "byte {at}: {:?}",
            result.damaged
        );
        assert!(result.other_pack_id.is_some());
        // The same where the table's CRC-32 was made from the damaged bytes.
        let mut table = (**damaged.table()).clone();
        let end = starts
            .iter()
            .map(|row| table.offsets[*row as usize])
            .find(|start| *start > at as u64);
        let end = end.unwrap_or(bytes.len() as u64 - 20) as usize;
        table.crc32s[*hit as usize] = crc32fast::hash(&bad[table.offsets[*hit as usize] as usize..end]);
        let result = resolved(&damaged, &table);
        // A few bits between the end of the data and its checksum mean nothing.
        passed += usize::from(!result.damaged.iter().any(|damage| *damage.oid == *id));
        for (row, kind) in result.kinds.iter().enumerate() {
            let told = result.damaged.iter().any(|damage| *damage.oid == *table.oid(row));
            assert_eq!(*kind == 0, told, "{} is either known or damaged", table.oid(row));
        }
    }
    assert!(passed < 5, "{passed} flipped bits passed");
}

#[test]
fn a_table_that_lies_is_noticed() {
    let repo = Repo::generated(Kind::Sha1, 72, 25);
    let pack = repo.open(&repo.repack(&["-f"]));
    let table = (**pack.table()).clone();
    // Two ids exchanged.
    let mut lie = table.clone();
    lie.offsets.swap(3, 9);
    lie.crc32s.swap(3, 9);
    let result = resolved(&pack, &lie);
    for row in [3, 9] {
        assert!(result.damaged.iter().any(|damage| *damage.oid == *lie.oid(row)));
    }
    // One entry twice, and entries that are none.
    for offset in [
        table.offsets[4],
        table.offsets[4] + 1,
        0,
        11,
        pack.pack_len(0).unwrap(),
        u64::MAX,
    ] {
        let mut lie = table.clone();
        lie.offsets[5] = offset;
        let result = resolved(&pack, &lie);
        assert!(
            result.damaged.iter().any(|damage| *damage.oid == *lie.oid(5)),
            "offset {offset}"
        );
    }
}

/// A store whose one pack lacks objects.
fn holed(repo: &Repo, victim: &ObjectId) -> DiskPack {
    let victim = victim.to_string();
    let all = repo.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
    let kept: String = all
        .lines()
        .filter(|id| **id != victim)
        .map(|id| format!("{id}\n"))
        .collect();
    let base = repo.path.join("holed");
    let name = repo.git_with(&["pack-objects", "-q", base.to_str().unwrap()], kept.as_bytes());
    repo.open(&repo.path.join(format!("holed-{name}.pack")))
}

#[test]
fn holes_are_found_from_every_link() {
    let repo = Repo::generated(Kind::Sha1, 73, 40);
    repo.repack(&[]);
    for spec in [
        "main~2",
        "main^{tree}",
        "main~1:file1.txt",
        "v1^{commit}",
        "of-tree^{tree}",
        "of-blob^{blob}",
        "v1",
    ] {
        let output = repo.try_git(&["rev-parse", "--verify", spec], b"");
        let Ok(victim) = ObjectId::from_hex(output.stdout.trim_ascii()) else {
            continue;
        };
        let pack = holed(&repo, &victim);
        let result = resolved(&pack, pack.table());
        assert!(result.damaged.is_empty());

        assert!(
            result
                .dangling
                .iter()
                .any(|link| link.to == victim && link.from.is_some()),
            "{spec}"
        );
        // There elsewhere: no hole.
        let elsewhere = |id: &oid, _| Ok(*id == *victim);
        let options = ResolveOptions {
            is_there: Some(&elsewhere),
            ..ResolveOptions::default()
        };
        assert!(resolve(&pack, 0, pack.table(), options).unwrap().is_sound());
    }
}

#[test]
fn a_link_to_the_wrong_kind_is_found() {
    let repo = Repo::empty(Kind::Sha1);
    let blob = repo.git_with(&["hash-object", "-w", "--stdin"], b"text");
    let tree = repo.git_with(&["mktree"], format!("100644 blob {blob}\tname\n").as_bytes());
    // A tree that says that a blob is a tree.
    let mut bad = b"40000 dir\0".to_vec();
    bad.extend(ObjectId::from_hex(blob.as_bytes()).unwrap().as_slice());
    let bad = repo.git_with(&["hash-object", "-w", "-t", "tree", "--literally", "--stdin"], &bad);
    let base = repo.path.join("odd");
    let list = format!("{blob}\n{tree}\n{bad}\n");
    let name = repo.git_with(&["pack-objects", "-q", base.to_str().unwrap()], list.as_bytes());
    let pack = repo.open(&repo.path.join(format!("odd-{name}.pack")));
    let result = resolved(&pack, pack.table());
    assert_eq!(result.dangling.len(), 1);
    assert_eq!(
        (result.dangling[0].to.to_string(), result.dangling[0].kind),
        (blob, gix_object::Kind::Tree)
    );
}

/// A pack in memory.
struct InMemory(Vec<u8>);

impl PackStore for InMemory {
    fn object_format(&self) -> Kind {
        Kind::Sha1
    }
    fn packs(&self) -> PackRank {
        1
    }
    fn pack_len(&self, _: PackRank) -> Result<u64> {
        Ok(self.0.len() as u64)
    }
    fn pack_id(&self, _: PackRank) -> Result<ObjectId> {
        Ok(ObjectId::null(Kind::Sha1))
    }
    fn pack_name(&self, _: PackRank) -> String {
        "in memory".into()
    }
    fn read_exact_at(&self, _: PackRank, offset: u64, buf: &mut [u8]) -> Result<()> {
        buf.copy_from_slice(&self.0[offset as usize..][..buf.len()]);
        Ok(())
    }
    fn lookup(&self, _: &oid) -> Result<Option<znippy::pack::Location>> {
        Ok(None)
    }
    fn entries(&self, _: PackRank) -> Result<Arc<EntryTable>> {
        unreachable!("the table is given")
    }
}

#[test]
fn large_blobs_and_long_chains_are_resolved() {
    use header::EntryKind;
    let mut pack = header::pack_header(0).to_vec();
    let mut rows: Vec<(ObjectId, u64, u32)> = Vec::new();
    let mut add = |base: Option<u64>, inflated: &[u8], object: &[u8]| {
        let at = pack.len() as u64;
        let kind = base.map_or(EntryKind::Base(gix_object::Kind::Blob), |base| {
            EntryKind::OfsDelta(at - base)
        });
        header::write_entry_header(kind, inflated.len() as u64, &mut pack);
        let mut stream = gix_zlib::stream::deflate::Write::new(&mut pack, gix_zlib::Compression::BEST_SPEED);
        std::io::Write::write_all(&mut stream, inflated).unwrap();
        std::io::Write::flush(&mut stream).unwrap();
        drop(stream);
        let mut hasher = gix_hash::hasher(Kind::Sha1);
        hasher.update(format!("blob {}\0", object.len()).as_bytes());
        hasher.update(object);
        rows.push((
            hasher.try_finalize().unwrap(),
            at,
            crc32fast::hash(&pack[at as usize..]),
        ));
        at
    };
    let large: Vec<u8> = (0..20_000_000u32)
        .map(|number| (number.wrapping_mul(number) >> 11) as u8)
        .collect();
    add(None, &large, &large);
    let mut last = add(None, b"????????", b"????????");
    for number in 1..=50_000u64 {
        let mut delta = vec![8, 8, 8];
        delta.extend(number.to_le_bytes());
        last = add(Some(last), &delta, &number.to_le_bytes());
        if number % 100 == 0 {
            // A branch off the chain.
            let mut delta = vec![8, 8, 8];
            delta.extend((number << 32).to_le_bytes());
            add(Some(last), &delta, &(number << 32).to_le_bytes());
        }
    }
    pack.extend([0; 20]);
    rows.sort();
    let mut table = EntryTable {
        oid_len: 20,
        ..EntryTable::default()
    };
    for (id, offset, crc32) in rows {
        table.oids.extend_from_slice(id.as_slice());
        table.offsets.push(offset);
        table.crc32s.push(crc32);
    }
    let pack = InMemory(pack);
    let result = resolve(&pack, 0, &table, ResolveOptions::default()).unwrap();
    assert!(result.is_sound(), "{:?}", result.damaged.first());
    assert!(result.sizes.contains(&20_000_000));
    // The large one damaged at its end, where all but the checksums fit.
    let row = result.sizes.iter().position(|size| *size == 20_000_000).unwrap();
    let mut bad = pack.0.clone();
    let end = *table
        .offsets
        .iter()
        .filter(|offset| **offset > table.offsets[row])
        .min()
        .unwrap() as usize;
    bad[end - 1] ^= 1;
    let result = resolve(&InMemory(bad), 0, &table, ResolveOptions::default()).unwrap();
    assert_eq!(result.damaged.len(), 1);
    assert_eq!(*result.damaged[0].oid, *table.oid(row));
}
