//! What references reach, in an archive that was pushed to and deleted from: against git's own listing.

use std::collections::BTreeSet;

use gix_hash::ObjectId;
use znippy::{
    archive::Snapshot,
    pack::{PackStore, object::ObjectReader, reach::Search},
};

use crate::common::{Sandbox, subject_is_file};

/// Returns the ids of lines.
pub fn ids<T: FromIterator<ObjectId>>(text: &str) -> T {
    text.lines()
        .map(|line| ObjectId::from_hex(line.as_bytes()).unwrap())
        .collect()
}

/// Pushes, deletions and pushes of what was deleted, each push with the settings of `how`; the last with those of a user.
fn archive(how: &str) -> Sandbox {
    let s = Sandbox::new();
    s.set("PUSH", format!("git {how} push -q"));
    s.ok(
        "",
        "git init -q work && cd work && mkdir d && seq 9 >d/a && seq 8 >b && git add . && git commit -qm one && $PUSH znippy::$A/app main
         git checkout -q -b gone && seq 7 >d/secret && seq 6 >again && git add . && git commit -qm two && $PUSH znippy::$A/app gone
         git checkout -q main && seq 5 >d/c && git add . && git commit -qm three && $PUSH znippy::$A/app main
         $PUSH znippy::$A/app :gone && git checkout -q -b side main~1 && seq 6 >again && git add . && git commit -qm four
         $PUSH znippy::$A/app side && git tag -m t t main^{tree} && git tag -m u u gone:d && $PUSH znippy::$A/app t
         git checkout -q main && git merge -q side && seq 4 >d/a && git commit -qam five && $PUSH znippy::$A/app main
         seq 3 >d/a && git commit -qam six && $PUSH znippy::$A/app main && git reset -q --hard main~1 && $PUSH -f znippy::$A/app main
         git push -q znippy::$A/app u && git push -q znippy::$A/app :u",
    );
    s
}

#[test]
fn what_is_reached_does_not_depend_on_the_packs_that_it_came_in() {
    if subject_is_file() {
        return;
    }
    let defer = "-c znippy.resolve=defer -c znippy.autoIndex=false";
    for (how, then, is_known) in [
        ("-c znippy.resolve=always", "true", true),
        (defer, "true", false),
        (defer, "znippy index app", false),
        ("-c znippy.resolve=defer", "true", true),
    ] {
        let s = archive(how);
        s.ok("", then);
        s.ok("", "git clone -q --mirror \"znippy::$A/app\" all");
        let reached: BTreeSet<ObjectId> = ids(&s.ok("all", "git rev-list --objects --all --no-object-names").stdout);
        let every: BTreeSet<ObjectId> = ids(&s
            .ok("work", "git cat-file --batch-all-objects --batch-check='%(objectname)'")
            .stdout);
        let tips: Vec<ObjectId> = ids(&s.ok("all", "git for-each-ref --format='%(objectname)'").stdout);
        let snapshot = Snapshot::open(&s.path("app.znippy")).unwrap();
        let reader = ObjectReader::new(&snapshot);
        let known = (1..snapshot.packs()).filter(|pack| snapshot.is_closed_before(*pack).unwrap());
        assert_eq!(known.count() > 3, is_known, "{how}, {then}");
        let mut unreached = 0;
        for id in every.iter().filter(|id| snapshot.lookup(id).unwrap().is_some()) {
            let mut search = Search::new(&reader, [*id].into());
            search.all(tips.iter().copied()).unwrap();
            assert_eq!(search.is_done(), reached.contains(id), "{how}, {then}: {id}");
            unreached += usize::from(!search.is_done());
        }
        assert!(unreached > 4, "{unreached}");
        // Several at once: the earliest counts.
        let stored = every.iter().filter(|id| snapshot.lookup(id).unwrap().is_some());
        let mut search = Search::new(&reader, stored.clone().copied().collect());
        search.all(tips.iter().copied()).unwrap();
        let left: BTreeSet<ObjectId> = search.left().into_iter().collect();
        assert_eq!(left, stored.copied().filter(|id| !reached.contains(id)).collect());
    }
}
