//! What a fetch brings between any two commits of an archive that was pushed to many times: against git's own listing.

use std::collections::BTreeSet;

use gix_hash::ObjectId;
use znippy::{
    archive::Snapshot,
    pack::{
        PackStore,
        object::ObjectReader,
        select::{SelectOptions, select},
    },
};

use crate::{
    common::{Sandbox, subject_is_file},
    reach::ids,
};

/// A history in which directories move, are copied, come back as they were and change, with a push after every other commit.
fn archive(how: &str) -> Sandbox {
    let s = Sandbox::new();
    s.set("PUSH", format!("git {how} push -q"));
    s.ok(
        "",
        "git init -q work && cd work && mkdir -p d/e f && for n in 1 2 3 4 5; do seq $n 40 >d/$n; seq $n 50 >d/e/$n; seq $n 60 >f/$n; done
         git add . && git commit -qm start && $PUSH znippy::$A/app main
         for i in $(seq 24); do
           case $((i % 8)) in
             0) seq $i 70 >f/$i;;
             1) seq $i 70 >d/e/1; seq $i 70 >new$i;;
             2) git mv d moved$i;;
             3) git mv moved* d; seq $i 80 >d/e/2;;
             4) cp -r d/e copied$i; rm -r f/1 2>/dev/null;;
             5) git checkout -q HEAD~3 -- . ;;
             6) git checkout -q -b side$i HEAD~2; seq $i 90 >side; git add .; git commit -qm side$i; git checkout -q main; git merge -q side$i -m merge;;
             7) git rm -rqf --ignore-unmatch copied* && cp -r d/e f/e;;
           esac
           git add -A . && git commit -q --allow-empty -m $i
           test $((i % 2)) = 0 || $PUSH znippy::$A/app main
         done
         $PUSH znippy::$A/app main",
    );
    s
}

#[test]
fn r22_a_fetch_brings_exactly_what_git_lists_however_the_packs_came() {
    if subject_is_file() {
        return;
    }
    for (how, is_known) in [
        ("-c znippy.resolve=defer -c znippy.autoIndex=false", false),
        ("-c znippy.resolve=always", true),
    ] {
        let s = archive(how);
        let snapshot = Snapshot::open(&s.path("app.znippy")).unwrap();
        let reader = ObjectReader::new(&snapshot);
        let known = (1..snapshot.packs()).filter(|pack| snapshot.seems_closed_before(*pack).unwrap());
        assert_eq!(known.count() > 10, is_known, "{how}");
        let commits: Vec<ObjectId> = ids(&s.ok("work", "git rev-list --all").stdout);
        let mut compared = 0;
        for (number, want) in commits.iter().enumerate() {
            for have in commits.iter().skip(number + 1).step_by(1 + number % 2) {
                let line = format!("git rev-list --objects --no-object-names {want} --not {have}");
                let expected: BTreeSet<ObjectId> = ids(&s.ok("work", &line).stdout);
                let selection = select(&reader, &[*want], &[*have], SelectOptions::default()).unwrap();
                let selected: BTreeSet<ObjectId> = selection.oids().collect();
                let more: Vec<_> = selected.difference(&expected).collect();
                let less: Vec<_> = expected.difference(&selected).collect();
                assert!(
                    more.is_empty() && less.is_empty(),
                    "{how}: {want} without {have}: more {more:?}, less {less:?}"
                );
                compared += usize::from(!expected.is_empty());
            }
        }
        assert!(compared > 200, "{compared}");
    }
}
