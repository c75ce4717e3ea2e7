//! `.idx` and `.rev` byte for byte as git writes them, and damaged ones refused.

use gix_hash::Kind;
use znippy::pack::{
    PackStore,
    disk::{DiskPack, Layered},
    idx,
};

use crate::repo::Repo;

#[test]
fn r21_indexes_are_byte_for_byte_those_of_git() {
    for format in [Kind::Sha1, Kind::Sha256] {
        let repo = Repo::generated(format, 1, 150);
        let path = repo.repack(&[]);
        let copy = repo.path.join("copy.pack");
        std::fs::copy(&path, &copy).unwrap();
        let copy_name = copy.to_str().unwrap();
        for limit in [0u64, 100, 5000, (1 << 31) - 1] {
            for name in ["copy.idx", "copy.rev"] {
                let _ = std::fs::remove_file(repo.path.join(name));
            }
            repo.git(&[
                "index-pack",
                "--rev-index",
                &format!("--index-version=2,{limit}"),
                copy_name,
            ]);
            let pack = repo.open(&copy);
            let (mut ours, mut reverse) = (Vec::new(), Vec::new());
            let id = idx::write_idx(pack.table(), &pack.pack_id(0).unwrap(), limit + 1, &mut ours).unwrap();
            idx::write_rev(pack.table(), &pack.pack_id(0).unwrap(), &mut reverse).unwrap();
            assert!(
                ours == std::fs::read(repo.path.join("copy.idx")).unwrap(),
                "{format} idx, limit {limit}"
            );
            assert!(
                reverse == std::fs::read(repo.path.join("copy.rev")).unwrap(),
                "{format} rev"
            );
            assert!(ours.ends_with(id.as_slice()));
        }
    }
}

#[test]
fn the_table_is_what_show_index_tells() {
    let repo = Repo::generated(Kind::Sha1, 2, 120);
    let path = repo.repack(&[]);
    let pack = repo.open(&path);
    let index = std::fs::read(path.with_extension("idx")).unwrap();
    let mut ours = String::new();
    for row in 0..pack.table().len() {
        let table = pack.table();
        ours += &format!(
            "{} {} ({:08x})\n",
            table.offsets[row],
            table.oid(row),
            table.crc32s[row]
        );
        let found = pack.lookup(table.oid(row)).unwrap().unwrap();
        assert_eq!((found.offset, found.crc32), (table.offsets[row], table.crc32s[row]));
    }
    assert_eq!(ours.trim_end(), repo.git_with(&["show-index"], &index));
    assert_eq!(
        pack.lookup(gix_hash::ObjectId::null(Kind::Sha1).as_ref()).unwrap(),
        None
    );
}

#[test]
fn a_damaged_index_or_pack_is_refused() {
    let repo = Repo::generated(Kind::Sha1, 3, 40);
    let path = repo.repack(&[]);
    let index_path = path.with_extension("idx");
    let good = std::fs::read(&index_path).unwrap();
    let copy = repo.path.join("damaged.idx");
    let open = |bytes: &[u8]| {
        std::fs::write(&copy, bytes).unwrap();
        DiskPack::open_with_index(&path, &copy, Kind::Sha1)
    };
    assert!(open(&good).is_ok());
    for at in (0..good.len()).step_by(97).chain(good.len() - 40..good.len()) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert!(open(&bad).is_err(), "byte {at} changed");
        assert!(open(&good[..at]).is_err(), "cut at {at}");
    }
    // The same with a checksum that fits, so that the checks behind it are reached: none may panic.
    for at in 0..good.len() - 20 {
        let mut bad = good.clone();
        bad[at] ^= 0x80;
        let end = bad.len() - 20;
        let mut hasher = gix_hash::hasher(Kind::Sha1);
        hasher.update(&bad[..end]);
        bad[end..].copy_from_slice(hasher.try_finalize().unwrap().as_slice());
        let crc32_table = 8 + 1024 + 20 * repo.open(&path).table().len();
        let harmless = (crc32_table..crc32_table + 4 * repo.open(&path).table().len()).contains(&at);
        if at % 16 == 0 || at < 1100 {
            let result = idx::read(&bad, Kind::Sha1);
            assert!(at >= 1032 || result.is_err(), "byte {at} of the head");
            assert!(!harmless || result.is_ok(), "crc at {at}");
        }
    }
    let cut = repo.path.join("cut.pack");
    let bytes = std::fs::read(&path).unwrap();
    for len in [0, 11, 12, 31, 32, bytes.len() - 1] {
        std::fs::write(&cut, &bytes[..len]).unwrap();
        assert!(
            DiskPack::open_with_index(&cut, &index_path, Kind::Sha1).is_err(),
            "pack cut at {len}"
        );
    }
}

#[test]
fn r21_the_first_of_stores_in_a_row_wins() {
    let repo = Repo::generated(Kind::Sha1, 4, 30);
    let path = repo.repack(&[]);
    let (one, two) = (repo.open(&path), repo.open(&path));
    let both = Layered::new(&[&one, &two]).unwrap();
    assert_eq!(both.packs(), 2);
    let id = one.table().oid(0);
    assert_eq!(both.lookup(id).unwrap().unwrap().pack, 0);
    assert_eq!(both.pack_len(1).unwrap(), two.pack_len(0).unwrap());
    let mut head = [0; 4];
    both.read_exact_at(1, 0, &mut head).unwrap();
    assert_eq!(&head, b"PACK");
    assert!(both.read_exact_at(1, two.pack_len(0).unwrap() - 3, &mut head).is_err());
    let other = Repo::generated(Kind::Sha256, 4, 3);
    let other_pack = other.open(&other.repack(&[]));
    assert!(Layered::new(&[&one as &dyn PackStore, &other_pack]).is_err());
    assert!(Layered::new(&[]).is_err());
}
