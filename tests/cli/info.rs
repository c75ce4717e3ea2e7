use serde_json::Value;

use crate::fixture::{fixture, size};

fn names_what_defeats(section: &str) {
    for part in [
        "cp -al",
        "Hard-link snapshots",
        "mv tmp app.znippy",
        "lie about sync",
        "nolock",
        "4 GiB",
        "Sync clients",
    ] {
        assert!(section.contains(part), "{part}");
    }
}

/// R30: so does the man page of the format.
#[test]
fn r30_the_man_page_names_what_defeats_an_archive() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/man/znippy-format.5")).unwrap();
    let section = page
        .split(".SH WHAT DEFEATS AN ARCHIVE")
        .nth(1)
        .expect("a section of its own");
    let section = section.split(".SH ").next().unwrap().replace('\\', "");
    names_what_defeats(&section);
}

/// R30: the README names what defeats an archive that is appended in place.
#[test]
fn r30_what_defeats_an_archive_is_documented() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let section = readme.split("What defeats it").nth(1).expect("a section of its own");
    let section = section.split("\n## ").next().unwrap();
    names_what_defeats(section);
}

#[test]
fn figures_are_those_of_git() {
    for format in ["sha1", "sha256"] {
        let s = fixture(format);
        let json: Value = serde_json::from_str(&s.ok("", "znippy info --json app").stdout).unwrap();
        let count = |line: &str| s.ok("bare.git", line).text().parse::<u64>().unwrap();
        assert_eq!(json["objects"], count("git rev-list --objects --all | wc -l"));
        assert_eq!(json["refs"], count("git for-each-ref | wc -l"));
        assert_eq!(json["packs"], 1);
        assert_eq!(json["object_format"], format);
        assert_eq!(json["head"], "refs/heads/main");
        assert_eq!(json["format_version"], 1);
        assert_eq!(json["file_bytes"], size(&s.path("app.znippy")));
        assert_eq!(json["path"], "app");
        assert_eq!(json["warnings"], Value::Array(vec![]));
        assert_eq!(json["uuid"].as_str().unwrap().len(), 36);
        let number = |key: &str| json[key].as_u64().unwrap_or_else(|| panic!("{key}: {json}"));
        assert!(number("pack_bytes") > 32 && number("index_bytes") > 0);
        assert!(number("pack_bytes") + number("index_bytes") + number("dead_bytes") <= number("file_bytes"));
        assert!(number("unresolved_objects") <= number("objects"));
        assert!(number("sequence") >= 1);
    }
}

#[test]
fn settings_are_shown() {
    let s = fixture("sha1");
    let of = |s: &crate::common::Sandbox| -> Value {
        serde_json::from_str(&s.ok("", "znippy info --json app").stdout).unwrap()
    };
    assert_eq!(of(&s)["settings"], Value::Array(vec![]));
    assert!(!s.ok("", "znippy info app").stdout.contains("settings"));
    s.ok(
        "",
        "znippy config app --set receive.denyDeletes true && znippy config app --add transfer.hideRefs refs/a &&
         znippy config app --add transfer.hideRefs '!refs/a/b'",
    );
    let told = s.ok("", "znippy info app").stdout;
    for line in [
        "  settings    receive.denyDeletes = true",
        "              transfer.hideRefs = refs/a",
        "              transfer.hideRefs = !refs/a/b",
    ] {
        assert!(told.lines().any(|each| each == line), "{line}\n{told}");
    }
    let json = of(&s);
    assert_eq!(
        json["settings"][2],
        serde_json::json!({"key": "transfer.hideRefs", "value": "!refs/a/b"})
    );
}

#[test]
fn the_keys_are_stable() {
    let s = fixture("sha1");
    let json: Value = serde_json::from_str(&s.ok("", "znippy info --json app").stdout).unwrap();
    let mut keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let expected = "commit_id damaged_objects dead_bytes file_bytes format_version generation head index_bytes object_format objects pack_bytes \
                    packs path refs sequence settings unproven_packs unresolved_objects uuid warnings";
    assert_eq!(keys.join(" "), expected);
    let help = s.ok("", "znippy help info").stdout;
    for key in keys {
        assert!(help.contains(key), "{key} is not in the help text");
    }
}

#[test]
fn people_see_the_same_figures() {
    let s = fixture("sha256");
    let text = s.ok("", "znippy info app").stdout;
    assert!(text.starts_with("app\n"), "{text}");
    for part in ["sha256 objects", "refs/heads/main", "uuid", "dead", "refs        7"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn one_bad_archive_stops_no_other_and_the_worst_code_wins() {
    let s = fixture("sha1");
    s.ok("", "echo garbage >bad.znippy && znippy -q init empty");
    let ran = s.fails("", "znippy info --json app missing bad empty");
    assert_eq!(ran.code, 3);
    let records: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), 4);
    for (record, path) in records.iter().zip(["app", "missing", "bad", "empty"]) {
        assert_eq!(record["path"], path);
        let failed = path == "missing" || path == "bad";
        assert_eq!(record["error"].is_string(), failed, "{record}");
        assert_eq!(record["exit_code"] == 3, failed, "{record}");
        assert_eq!(record["uuid"].is_string(), !failed, "{record}");
    }
    assert_eq!(
        ran.stderr.lines().filter(|line| line.starts_with("error: ")).count(),
        2,
        "{}",
        ran.stderr
    );
    let text = s.fails("", "znippy info app missing bad empty");
    assert_eq!(text.code, 3);
    assert!(
        text.stdout.contains("empty\n") && text.stdout.matches("cannot be read").count() == 2,
        "{}",
        text.stdout
    );
}

#[test]
fn paths_are_shown_escaped() {
    let s = fixture("sha1");
    let mut command = s.command("", "bash");
    command.args([
        "-c",
        "cp app.znippy $'a\\e[31m\\n.znippy' && znippy info $'a\\e[31m\\n.znippy' $'b\\e[31m\\n'",
    ]);
    let ran = s.run(command);
    assert_eq!(ran.code, 3);
    assert!(
        !format!("{}{}", ran.stdout, ran.stderr).contains('\x1b'),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    assert!(ran.stdout.starts_with("a\\x1b[31m\\x0a.znippy\n"), "{}", ran.stdout);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
}
