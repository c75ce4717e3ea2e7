//! What tips reach, against `git rev-list --objects`.

use std::collections::{BTreeSet, HashSet};

use gix_hash::{Kind, ObjectId};
use znippy::pack::{object::ObjectReader, reach::Search, selection::Selection};

use crate::repo::{Random, Repo};

fn ids(text: &str) -> Vec<ObjectId> {
    text.lines()
        .map(|line| ObjectId::from_hex(line.as_bytes()).unwrap())
        .collect()
}

#[test]
fn what_is_left_is_what_git_does_not_list() {
    for (format, seed) in [(Kind::Sha1, 70), (Kind::Sha256, 71)] {
        let repo = Repo::generated(format, seed, 120);
        let pack = repo.open(&repo.repack(&[]));
        let reader = ObjectReader::new(&pack);
        let all: Vec<ObjectId> = Selection::all(&pack).unwrap().oids().collect();
        let commits = ids(&repo.git(&["rev-list", "--all"]));
        let refs = ids(&repo.git(&["for-each-ref", "--format=%(objectname)"]));
        let mut random = Random(seed);
        let mut both = (0, 0);
        for round in 0..60 {
            let from: &[ObjectId] = if round % 2 == 0 { &refs } else { &commits };
            let tips: Vec<ObjectId> = (0..1 + random.below(3))
                .map(|_| from[random.below(from.len())])
                .collect();
            let input: String = tips.iter().map(|id| format!("{id}\n")).collect();
            let list = ["rev-list", "--objects", "--no-object-names", "--stdin"];
            let listed: HashSet<ObjectId> = ids(&repo.git_with(&list, input.as_bytes())).into_iter().collect();
            // Of commits alone, and of anything.
            let among: &[ObjectId] = if round % 3 == 0 { &commits } else { &all };
            let wanted: HashSet<ObjectId> = (0..1 + random.below(4))
                .map(|_| among[random.below(among.len())])
                .collect();
            let expected: BTreeSet<ObjectId> = wanted.difference(&listed).copied().collect();
            let mut search = Search::new(&reader, wanted.clone());
            search.all(tips.iter().copied()).unwrap();
            assert_eq!(search.is_done(), expected.is_empty());
            let left: BTreeSet<ObjectId> = search.left().into_iter().collect();
            assert_eq!(left, expected, "tips {tips:?} wanted {wanted:?}");
            both.0 += left.len();
            both.1 += wanted.len() - left.len();
        }
        assert!(both.0 > 20 && both.1 > 20, "{both:?}");
    }
}

#[test]
fn a_checkout_is_one_tree() {
    let repo = Repo::generated(Kind::Sha1, 72, 40);
    let pack = repo.open(&repo.repack(&[]));
    let reader = ObjectReader::new(&pack);
    let here = ids(&repo.git(&["ls-tree", "-r", "--object-only", "main"]));
    let blob = *here.iter().find(|id| reader.find(id).unwrap().is_some()).unwrap();
    let parent = ids(&repo.git(&["rev-parse", "main~1"]))[0];
    let mut search = Search::new(&reader, [blob, parent].into());
    search.checkout(&ids(&repo.git(&["rev-parse", "main"]))[0]).unwrap();
    assert_eq!(search.left(), [parent].into());
}
