//! R19: what is damaged or missing is taken from a repository, and nothing answers from damaged bytes any more.

use std::fs;

use serde_json::Value;

use crate::{
    common::Sandbox,
    fixture::{fixture, size},
};

fn json(s: &Sandbox, line: &str) -> Value {
    let ran = s.sh("", line);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}{}", ran.stdout, ran.stderr))
}

fn damaged_objects(s: &Sandbox) -> u64 {
    json(s, "znippy info --json app")["damaged_objects"].as_u64().unwrap()
}

/// Damages some bytes of the archive's first pack, from `from` on: at least two objects.
fn damage(s: &Sandbox, from: usize) {
    let path = s.path("app.znippy");
    let mut bytes = fs::read(&path).unwrap();
    let pack = bytes.windows(8).position(|window| window == b"PACK\0\0\0\x02").unwrap();
    for at in [from, from + 150, from + 300] {
        bytes[pack + at] ^= 0x20;
    }
    fs::write(&path, &bytes).unwrap();
}

#[test]
fn r19_good_copies_come_from_a_repository() {
    for format in ["sha1", "sha256"] {
        let s = fixture(format);
        s.ok("work", "commit three && git push -q \"znippy::$A/app\" main");
        damage(&s, 20);
        let found = json(&s, "znippy verify --full --json app");
        assert_eq!(found["exit_code"], 5);
        // A repository that has nothing of it changes nothing about that; the damage is known now.
        s.ok("", &format!("git init -q --object-format={format} other"));
        let left = json(&s, "znippy verify --repair --from other --json app");
        assert_eq!(left["exit_code"], 5);
        let lost = damaged_objects(&s);
        assert!(lost > 1, "{lost}");
        let before = size(&s.path("app.znippy"));
        json(&s, "znippy verify --repair --from other --json app");
        assert_eq!(size(&s.path("app.znippy")), before, "nothing to say, nothing written");
        s.fails("", "git clone -q --mirror \"znippy::$A/app\" found");
        s.ok("", "rm -rf found");
        // One that has it heals all of it.
        let healed = json(&s, "znippy verify --repair --from work --json app");
        assert_eq!(healed["exit_code"], 1, "{healed:#}");
        assert_eq!(healed["worst"], "warning", "{healed:#}");
        assert!(!healed["repaired"].as_array().unwrap().is_empty());
        assert_eq!(damaged_objects(&s), 0);
        for level in ["", "--full"] {
            assert_eq!(s.sh("", &format!("znippy verify {level} app")).code, 1, "{level}");
        }
        assert_eq!(s.sh("", "znippy verify --quick app").code, 0);
        s.ok(
            "",
            "git clone -q --mirror \"znippy::$A/app\" found && git -C found fsck --full --strict",
        );
        s.ok(
            "",
            "git -C found show-ref > a && git -C work push -q --mirror ../found && git -C found show-ref > b",
        );
        s.ok("work", "commit four && git push -q \"znippy::$A/app\" main");
        // A gc leaves the damaged bytes behind.
        s.ok("", "znippy gc app && znippy verify --full app");
        s.ok(
            "",
            "git clone -q \"znippy::$A/app\" later && git -C later fsck --full --strict",
        );
    }
}

/// What an archive knows to be damaged it does not have: a push sends it again, whatever else it brings.
#[test]
fn r19_a_push_heals_what_is_known_to_be_damaged() {
    let s = fixture("sha1");
    damage(&s, 20);
    assert_eq!(s.fails("", "znippy index --rebuild app").code, 5);
    assert!(damaged_objects(&s) > 1);
    s.ok("work", "git push -q --dry-run \"znippy::$A/app\" side:refs/heads/dry");
    assert!(damaged_objects(&s) > 1);
    let ran = s.ok("work", "git push \"znippy::$A/app\" side:refs/heads/again");
    assert!(ran.stderr.contains("sent again"), "{}", ran.stderr);
    assert_eq!(damaged_objects(&s), 0);
    s.ok(
        "",
        "git clone -q --mirror \"znippy::$A/app\" found && git -C found fsck --full --strict",
    );
    let ran = s.ok("work", "commit more && git push \"znippy::$A/app\" main");
    assert!(!ran.stderr.contains("sent again"), "once: {}", ran.stderr);
    s.ok("", "znippy gc app && znippy verify --full app");
}

/// An archive that lacks objects: everything that the missing ones refer to comes too, by as many steps as it takes.
#[test]
fn r19_what_is_missing_comes_with_what_it_needs() {
    let s = fixture("sha1");
    // The same history, whose pack the archive gets without its older half.
    s.ok(
        "work",
        "for n in 5 6 7; do mkdir -p d$n && seq $n 90 > d$n/f && git add . && commit c$n; done",
    );
    s.ok("", "git clone -q --depth 1 file://$PWD/work shallow");
    let path = s.path("hole.znippy");
    let tip = s.ok("work", "git rev-parse main").text().to_owned();
    s.ok(
        "shallow",
        "git rev-list --objects HEAD --no-object-names | git pack-objects -q ../hole",
    );
    let pack = s.ok("", "ls hole-*.pack").text().to_owned();
    let pack = znippy::pack::disk::DiskPack::open(&s.path(&pack), gix_hash::Kind::Sha1).unwrap();
    let (file, name, id, entries) = pack.into_parts();
    let transaction = znippy::archive::Transaction {
        packs: vec![znippy::archive::NewPack {
            data: file.into(),
            path: name,
            id,
            entries: entries.as_ref().clone(),
            proof: znippy::format::row::Proof::None,
            commits: Default::default(),
        }],
        edits: vec![znippy::refs::RefEdit {
            name: "refs/heads/main".into(),
            expected: znippy::refs::Expected::Any,
            new: Some(znippy::refs::Target::Object {
                oid: gix_hash::ObjectId::from_hex(tip.as_bytes()).unwrap(),
                peeled: None,
            }),
            rewinds: false,
        }],
        ..Default::default()
    };
    znippy::archive::create_with(&path, gix_hash::Kind::Sha1, transaction, Default::default()).unwrap();
    assert_eq!(s.sh("", "znippy verify --full hole").code, 5);
    let healed = json(&s, "znippy verify --repair --from work/.git --json hole");
    assert_eq!(healed["exit_code"], 0, "{healed:#}");
    s.ok(
        "",
        "git clone -q \"znippy::$A/hole\" found && git -C found fsck --full --strict",
    );
    assert_eq!(
        s.ok("found", "git rev-list --count --objects HEAD").text(),
        s.ok("work", "git rev-list --count --objects main").text()
    );
}

/// What the repository hands over is hashed: its own damage does not spread.
#[test]
fn r19_a_damaged_copy_is_not_taken() {
    let s = fixture("sha1");
    damage(&s, 20);
    // Loose objects, each under the name of the next.
    s.ok("", "git clone -q --mirror --no-hardlinks work bad.git");
    s.ok(
        "bad.git",
        "mv objects/pack/*.pack ../p 2>/dev/null && rm -f objects/pack/* && git unpack-objects -q < ../p; true",
    );
    s.ok(
        "bad.git",
        "chmod -R u+w objects && first=; for f in objects/??/*; do test -z \"$first\" || cp \"$f\" \"$first\"; first=$f; done",
    );
    let left = json(&s, "znippy verify --repair --from bad.git --json app");
    assert_eq!(left["exit_code"], 5, "{left:#}");
    let healed = json(&s, "znippy verify --repair --from work --json app");
    assert_eq!(healed["exit_code"], 1, "{healed:#}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let s = fixture("sha1");
    let before = fs::read(s.path("app.znippy")).unwrap();
    for (line, code) in [
        ("verify --from work app", 2),
        ("verify --repair --quick app", 2),
        ("verify --repair --from . app", 2),
        ("verify --repair nowhere", 3),
        ("verify --repair --from work app", 0),
        ("verify --repair app", 0),
    ] {
        assert_eq!(s.sh("", &format!("znippy {line}")).code, code, "{line}");
    }
    assert_eq!(fs::read(s.path("app.znippy")).unwrap(), before);
}

/// R19: a newest footer that cannot be read is made again; until then no push is taken.
#[test]
fn r19_a_damaged_footer_is_repaired() {
    let s = fixture("sha1");
    s.ok("work", "commit three && git push -q \"znippy::$A/app\" main");
    let refs = s.ok("", "znippy refs list app").stdout;
    let path = s.path("app.znippy");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - 600;
    bytes[at] ^= 8;
    fs::write(&path, &bytes).unwrap();
    assert_ne!(s.ok("", "znippy refs list app").stdout, refs);
    s.ok("work", "commit four");
    s.fails("work", "git push -q \"znippy::$A/app\" main");
    assert_eq!(s.sh("", "znippy verify app").code, 5);
    let repaired = json(&s, "znippy verify --repair --json app");
    assert_eq!(repaired["exit_code"], 1, "{repaired:#}");
    assert_eq!(s.ok("", "znippy refs list app").stdout, refs);
    s.ok("work", "git push -q \"znippy::$A/app\" main");
    s.ok(
        "",
        "git clone -q \"znippy::$A/app\" found && git -C found fsck --full --strict",
    );
    s.ok("", "znippy gc app && znippy verify --full app");
}
