//! Packs and indexes as gitoxide's gix-pack reads them: a second implementation beside git.

use std::{fs::File, io::Write, sync::atomic::AtomicBool};

use gix_hash::Kind;
use znippy::pack::{
    emit, idx,
    object::ObjectReader,
    select::{SelectOptions, select},
};

use crate::repo::Repo;

#[test]
fn gitoxide_verifies_what_is_emitted_and_indexed() {
    for format in [Kind::Sha1, Kind::Sha256] {
        let repo = Repo::generated(format, 11, 60);
        let store = repo.open(&repo.repack(&["-adq"]));
        let tip = repo.git(&["for-each-ref", "--count=1", "--format=%(objectname)", "refs/heads"]);
        let tip = gix_hash::ObjectId::from_hex(tip.trim().as_bytes()).unwrap();
        let set = select(&ObjectReader::new(&store), &[tip], &[], SelectOptions::default()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sent.pack");
        let receipt = emit::emit(&store, &set, &mut File::create(&path).unwrap(), &mut |_, _| ()).unwrap();
        let mut index = File::create(path.with_extension("idx")).unwrap();
        idx::write_idx(
            &receipt.entries,
            &receipt.pack_id,
            idx::LARGE_OFFSET_THRESHOLD,
            &mut index,
        )
        .unwrap();
        index.flush().unwrap();
        let bundle = gix_pack::Bundle::at(&path, format).unwrap();
        let verified = bundle
            .verify_integrity(
                &mut gix_utils::progress::Discard,
                &AtomicBool::new(false),
                gix_pack::index::verify::integrity::Options::default(),
            )
            .unwrap();
        let counted = verified.pack_traverse_outcome;
        assert_eq!(
            u64::from(counted.num_commits + counted.num_trees + counted.num_blobs + counted.num_tags),
            receipt.objects
        );
    }
}
