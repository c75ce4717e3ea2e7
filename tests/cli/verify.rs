//! `znippy verify`: clean archives are clean, damage is named with what it affects, and nothing is written.

use std::fs;

use serde_json::Value;

use crate::{
    common::Sandbox,
    fixture::{fixture, size},
};

fn report(s: &Sandbox, arguments: &str) -> Value {
    let ran = s.sh("", &format!("znippy verify --json {arguments}"));
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["exit_code"], ran.code, "{}", ran.stdout);
    json
}

fn codes(json: &Value) -> Vec<&str> {
    let findings = json["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|finding| finding["code"].as_str().unwrap())
        .collect()
}

/// Flips a bit of the byte at `at` of the archive.
fn flip(s: &Sandbox, at: usize) {
    let path = s.path("app.znippy");
    let mut bytes = fs::read(&path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(&path, bytes).unwrap();
}

fn find(s: &Sandbox, what: &[u8]) -> usize {
    let bytes = fs::read(s.path("app.znippy")).unwrap();
    bytes.windows(what.len()).position(|window| window == what).unwrap()
}

#[test]
fn a_sound_archive_is_clean_at_every_level() {
    for format in ["sha1", "sha256"] {
        let s = fixture(format);
        s.ok(
            "work",
            "for n in 1 2 3; do commit more$n && git push -q \"znippy::$A/app\" main; done",
        );
        s.ok(
            "work",
            "git push -q -f \"znippy::$A/app\" old:side && git push -q \"znippy::$A/app\" :refs/x/y",
        );
        let defer = "commit deferred && git -c znippy.resolve=defer push -q \"znippy::$A/app\" main";
        s.ok("work", defer);
        let before = fs::read(s.path("app.znippy")).unwrap();
        for level in ["--quick", "", "--full"] {
            let json = report(&s, &format!("{level} app"));
            assert_eq!(
                (&json["worst"], &json["findings"]),
                (&Value::Null, &Value::Array(vec![])),
                "{format} {level}"
            );
            assert_eq!(json["not_checked"].as_array().unwrap().is_empty(), level == "--full");
        }
        assert_eq!(before, fs::read(s.path("app.znippy")).unwrap(), "nothing was written");
        let full = report(&s, "--full app");
        let count = |key: &str| full["checked"][key].as_u64().unwrap();
        assert!(count("objects") > 10 && count("objects") == count("entries") && count("packs") > 4);
        assert_eq!(s.ok("", "znippy verify --quiet --full app").stdout, "");
    }
}

#[test]
fn a_read_only_file_in_a_read_only_directory_is_checked() {
    let s = fixture("sha1");
    s.ok(
        "",
        "mkdir ro && cp app.znippy ro/ && chmod 444 ro/app.znippy && chmod 555 ro",
    );
    s.ok("", "znippy verify --full ro/app && chmod 755 ro");
}

/// A changed byte of a blob costs that blob, and the references that reach it are named; those that do not are not.
#[test]
fn a_damaged_object_is_named_with_the_references_that_reach_it() {
    let s = fixture("sha1");
    let pack = find(&s, b"PACK\0\0\0\x02");
    let bytes = fs::read(s.path("app.znippy")).unwrap();
    let json: Value = serde_json::from_str(&s.ok("", "znippy info --json app").stdout).unwrap();
    let pack_len = json["pack_bytes"].as_u64().unwrap() as usize;
    // The last entry's last byte but four: a checksum of the compressed data.
    flip(&s, pack + pack_len - 20 - 4);
    let quick = report(&s, "--quick app");
    assert_eq!(codes(&quick), Vec::<&str>::new(), "the packs are not read");
    let standard = report(&s, "app");
    assert_eq!((codes(&standard), &standard["exit_code"]), (vec!["entry"], &5.into()));
    let full = report(&s, "--full app");
    let finding = &full["findings"][0];
    assert_eq!(
        (&finding["code"], &finding["severity"]),
        (&"entry".into(), &"damage".into())
    );
    for key in ["offset", "pack_offset", "pack", "txn", "what"] {
        assert_ne!(finding[key], Value::Null, "{key}");
    }
    // git tells which references reach the object.
    let oid = finding["oid"].as_str().unwrap();
    let reaching = s.ok(
        "bare.git",
        &format!(
            "for ref in $(git for-each-ref --format='%(refname)'); do
                 git rev-list --objects $ref | grep -q ^{oid} && echo $ref; done; true"
        ),
    );
    let named: Vec<&str> = finding["refs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    assert_eq!(named, reaching.stdout.lines().collect::<Vec<_>>());
    assert!(!named.is_empty());
    assert_eq!(finding["refs_affected"], named.len());
    assert_eq!(bytes.len() as u64, size(&s.path("app.znippy")), "nothing was written");
    let text = s.fails("", "znippy verify --full app");
    assert!(
        text.stdout.contains(oid) && text.stdout.contains(named[0]),
        "{}",
        text.stdout
    );
    assert_eq!(text.code, 5);
}

#[test]
fn tails_slots_and_truncation_are_named() {
    let s = fixture("sha1");
    let before = fs::read(s.path("app.znippy")).unwrap();
    s.ok("work", "commit three && git push -q \"znippy::$A/app\" main");
    let after = fs::read(s.path("app.znippy")).unwrap();
    let write = |bytes: &[u8]| fs::write(s.path("app.znippy"), bytes).unwrap();
    let spoil = |bytes: &[u8], at: usize, len: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at..at + len].fill(0xaa);
        bytes
    };
    let old_head = [&before[..12288], &after[12288..]].concat();
    for (what, bytes, expected, code) in [
        ("an unconfirmed commit", old_head.clone(), "tail-unconfirmed", 1),
        ("a torn one", old_head[..old_head.len() - 100].to_vec(), "tail-torn", 1),
        (
            "a damaged one",
            spoil(&old_head, old_head.len() - 100, 20),
            "tail-damaged",
            5,
        ),
        ("a bad slot", spoil(&after, 4096, 256), "slot", 1),
        ("a truncated file", after[..after.len() - 100].to_vec(), "truncated", 5),
    ] {
        write(&bytes);
        let json = report(&s, "--full app");
        assert!(codes(&json).contains(&expected), "{what}: {json}");
        assert_eq!(json["exit_code"], code, "{what}");
    }
    write(&spoil(&old_head, old_head.len() - 100, 20));
    s.ok("work", "git push -q -f \"znippy::$A/app\" main:kept");
    let json = report(&s, "--full app");
    assert_eq!(
        (codes(&json), &json["exit_code"]),
        (vec!["footer"], &1.into()),
        "kept, and nothing that counts"
    );
}

#[test]
fn one_archive_does_not_stop_the_others_and_the_worst_code_wins() {
    let s = fixture("sha1");
    s.ok("", "echo garbage >bad.znippy && znippy -q init empty");
    let ran = s.fails("", "znippy verify --json missing bad empty app");
    let records: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let codes: Vec<_> = records
        .iter()
        .map(|record| record["exit_code"].as_u64().unwrap())
        .collect();
    assert_eq!((codes, ran.code), (vec![3, 3, 0, 0], 3));
}

#[test]
fn the_keys_are_documented() {
    let s = fixture("sha1");
    let pack = find(&s, b"PACK\0\0\0\x02");
    flip(&s, pack + 5);
    let json = report(&s, "app");
    let help = s.ok("", "znippy help verify").stdout;
    let finding = json["findings"][0].as_object().unwrap();
    let checked = json["checked"].as_object().unwrap();
    for key in json
        .as_object()
        .unwrap()
        .keys()
        .chain(finding.keys())
        .chain(checked.keys())
    {
        assert!(help.contains(key), "{key} is not in the help text");
    }
}
