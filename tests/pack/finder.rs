//! Many look-ups find what single ones find.

use gix_hash::{Kind, ObjectId};
use znippy::pack::{
    PackStore,
    disk::{DiskPack, Layered},
    finder::Finder,
};

use crate::repo::Repo;

#[test]
fn many_lookups_find_what_single_ones_find() {
    let repo = Repo::generated(Kind::Sha1, 80, 60);
    let path = repo.repack(&[]);
    let whole = repo.open(&path);
    // Packs with a part of the objects each, so that some objects are in several and some in none of the first ones.
    let ids: Vec<ObjectId> = (0..whole.table().len())
        .map(|row| whole.table().oid(row).to_owned())
        .collect();
    let mut packs: Vec<DiskPack> = (2..7)
        .map(|part| {
            let some: String = ids.iter().step_by(part).map(|id| format!("{id}\n")).collect();
            let base = repo.path.join(format!("part{part}"));
            let name = repo.git_with(&["pack-objects", "-q", base.to_str().unwrap()], some.as_bytes());
            repo.open(&repo.path.join(format!("part{part}-{name}.pack")))
        })
        .collect();
    packs.push(whole);
    for count in [1, 3, 6] {
        let stores: Vec<&dyn PackStore> = packs.iter().take(count).map(|pack| pack as &dyn PackStore).collect();
        let store = Layered::new(&stores).unwrap();
        let finder = Finder::new(&store);
        // Far more than it takes to read the tables.
        for _ in 0..5 {
            for id in &ids {
                assert_eq!(finder.find(id).unwrap(), store.lookup(id).unwrap());
            }
            assert_eq!(finder.find(ObjectId::null(Kind::Sha1).as_ref()).unwrap(), None);
        }
        assert!(ids.len() * 5 > 1000);
    }
}
