//! Packs that come as a stream: the same entries as git finds, the stream left behind the pack, and nothing else accepted.

use std::io::{BufReader, Read};

use gix_hash::Kind;
use znippy::pack::incoming::{self, IncomingError, Limits, Received};

use crate::repo::Repo;

fn receive(bytes: &[u8], format: Kind, limits: Limits) -> Result<Received, IncomingError> {
    incoming::receive(
        &mut &*bytes,
        &tempfile::tempfile().unwrap(),
        format,
        limits,
        None,
        &mut |_, _| (),
    )
}

/// Gives one byte at a time.
struct Dripping<'a>(&'a [u8]);

impl Read for Dripping<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let most = buf.len().min(1);
        self.0.read(&mut buf[..most])
    }
}

#[test]
fn entries_are_those_that_git_finds() {
    let mut repos: Vec<Repo> = [Kind::Sha1, Kind::Sha256]
        .map(|format| Repo::generated(format, 7, 200))
        .into();
    repos.extend(Repo::real());
    for repo in repos {
        let packs = match repo.packs() {
            packs if packs.is_empty() => vec![repo.repack(&[])],
            packs => packs,
        };
        for path in packs {
            let bytes = std::fs::read(&path).unwrap();
            let expected = repo.open(&path);
            let spool = tempfile::NamedTempFile::new().unwrap();
            let stream = [&bytes[..], b"what follows"].concat();
            let mut input = &stream[..];
            let received = incoming::receive(
                &mut input,
                spool.as_file(),
                repo.format,
                Limits::default(),
                None,
                &mut |_, _| (),
            )
            .unwrap();
            assert_eq!(input, b"what follows", "the stream is left behind the pack");
            assert!(
                std::fs::read(spool.path()).unwrap() == bytes,
                "the pack is stored as it came"
            );
            assert_eq!(&received.entries, expected.table().as_ref());
        }
    }
}

#[test]
fn deltas_by_name_are_built_too() {
    let repo = Repo::generated(Kind::Sha1, 8, 120);
    let path = repo.repack(&[]);
    // Without --delta-base-offset every delta names its base.
    let ids = repo.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
    let out = repo.try_git(
        &[
            "-c",
            "repack.useDeltaBaseOffset=false",
            "pack-objects",
            "-q",
            "--stdout",
        ],
        format!("{ids}\n").as_bytes(),
    );
    let received = receive(&out.stdout, repo.format, Limits::default()).unwrap();
    assert_eq!(received.entries.oids, repo.open(&path).table().oids);
    let dripped = incoming::receive(
        &mut BufReader::with_capacity(1, Dripping(&out.stdout)),
        &tempfile::tempfile().unwrap(),
        repo.format,
        Limits::default(),
        None,
        &mut |_, _| (),
    );
    assert_eq!(dripped.unwrap().entries, received.entries);
}

#[test]
fn what_is_cut_or_changed_is_refused() {
    let repo = Repo::generated(Kind::Sha1, 9, 12);
    let bytes = std::fs::read(repo.repack(&[])).unwrap();
    assert!(receive(&bytes, repo.format, Limits::default()).is_ok());
    for len in (0..bytes.len()).step_by(7) {
        assert!(
            receive(&bytes[..len], repo.format, Limits::default()).is_err(),
            "cut at {len}"
        );
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(
            receive(&changed, repo.format, Limits::default()).is_err(),
            "byte {at} changed"
        );
    }
    let limits = |pack, object| Limits { pack, object };
    let len = bytes.len() as u64;
    assert!(receive(&bytes, repo.format, limits(len, u64::MAX)).is_ok());
    for most in [0, 11, len - 1] {
        let refused = receive(&bytes, repo.format, limits(most, u64::MAX));
        assert!(matches!(refused, Err(IncomingError::TooLarge)), "{most}: {refused:?}");
    }
    let refused = receive(&bytes, repo.format, limits(u64::MAX, 10));
    assert!(
        matches!(refused, Err(IncomingError::ObjectTooLarge { limit: 10, .. })),
        "{refused:?}"
    );
}
