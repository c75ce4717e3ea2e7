use crate::fixture::fixture;

#[test]
fn a_closed_pipe_is_no_error() {
    let s = fixture("sha1");
    let mut input = String::new();
    for n in 0..3000 {
        input += &format!("create refs/heads/many/{n:04}-with-a-rather-long-name-so-that-a-pipe-is-full-soon $MAIN\n");
    }
    std::fs::write(s.path("input"), input).unwrap();
    s.ok("", "sed \"s/\\$MAIN/$main/\" input | znippy refs update --stdin app");
    for verb in ["refs list app", "refs list --json app", "help refs update", "--help"] {
        let mut command = s.command("", "bash");
        command.args(["-c", &format!("set -o pipefail; znippy {verb} | head -n 1")]);
        let ran = s.run(command);
        assert_eq!(ran.code, 0, "{verb}: {}", ran.stderr);
        assert_eq!(ran.stderr, "", "{verb}");
        assert_eq!(ran.stdout.lines().count(), 1);
    }
}

#[test]
fn a_full_disk_under_standard_output_is_an_error() {
    let s = fixture("sha1");
    for verb in [
        "refs list app",
        "info app",
        "info --json app",
        "refs get app HEAD",
        "version",
    ] {
        let ran = s.fails("", &format!("znippy {verb} >/dev/full"));
        assert_eq!(ran.code, 128, "{verb}");
        assert!(
            ran.stderr.starts_with("error: cannot write to standard output"),
            "{verb}: {}",
            ran.stderr
        );
    }
}

#[test]
fn closed_descriptors_are_survived() {
    let s = fixture("sha1");
    for verb in ["refs list app", "info app", "info missing", "refs get app refs/none"] {
        let ran = s.sh("", &format!("znippy {verb} >&- 2>&- <&-"));
        assert!(ran.code <= 3, "{verb}: {}", ran.code);
    }
    s.ok(
        "",
        "cp app.znippy before && znippy refs list app >&- && cmp app.znippy before",
    );
}

#[test]
fn help_and_version() {
    let s = fixture("sha1");
    let version = s.ok("", "znippy version").stdout;
    assert_eq!(
        version,
        format!("znippy {} (archive format 1)\n", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(s.ok("", "znippy --version").stdout, version);
    let help = s.ok("", "znippy help").stdout;
    for part in ["Exit codes:", "128", "init", "info", "refs"] {
        assert!(help.contains(part), "{part}");
    }
    for verb in [
        "init",
        "info",
        "refs",
        "refs list",
        "refs get",
        "refs head",
        "refs cas",
        "refs update",
        "man",
        "version",
    ] {
        assert!(
            s.ok("", &format!("znippy help {verb}")).stdout.contains("Usage:"),
            "{verb}"
        );
        s.ok("", &format!("znippy {verb} -h"));
    }
    for wrong in [
        "",
        "frobnicate",
        "--frobnicate",
        "refs",
        "refs frobnicate",
        "info",
        "refs update app",
        "init a b",
    ] {
        let ran = s.fails("", &format!("znippy {wrong}"));
        assert_eq!(ran.code, 2, "{wrong}");
        assert_eq!(ran.stdout, "", "{wrong}");
    }
}

#[test]
fn manual_pages_are_written() {
    let s = fixture("sha1");
    s.ok(
        "",
        "znippy man a/b && test -s a/b/znippy.1 && test -s a/b/znippy-refs-update.1",
    );
    assert_eq!(s.fails("", "znippy man app.znippy").code, 128);
}
