use crate::{common::Sandbox, fixture::assert_one_error};

#[test]
fn an_empty_archive_has_the_format_and_head_asked_for() {
    for format in ["sha1", "sha256"] {
        let s = Sandbox::new();
        let ran = s.ok("", &format!("znippy init --object-format={format} -b trunk/x app"));
        assert_eq!(ran.stdout, "");
        assert!(ran.stderr.contains("app.znippy"), "{}", ran.stderr);
        assert_eq!(s.ok("", "znippy refs head app.znippy").stdout, "refs/heads/trunk/x\n");
        assert_eq!(
            s.ok("", "znippy refs list app").stdout,
            "ref: refs/heads/trunk/x\tHEAD\n"
        );
        let json: serde_json::Value = serde_json::from_str(&s.ok("", "znippy info --json app").stdout).unwrap();
        assert_eq!(json["object_format"], format);
        assert_eq!(
            (&json["refs"], &json["packs"], &json["objects"]),
            (&0.into(), &0.into(), &0.into())
        );
        assert_eq!(json["head"], "refs/heads/trunk/x");
    }
}

#[test]
fn what_is_not_given_comes_from_gits_settings() {
    let s = Sandbox::new();
    s.ok(
        "",
        "git config --global init.defaultBranch trunk && git config --global init.defaultObjectFormat sha256",
    );
    s.ok("", "znippy init app && znippy info app | grep -q sha256");
    assert_eq!(s.ok("", "znippy refs head app").stdout, "refs/heads/trunk\n");
    s.ok(
        "",
        "git config --global --unset init.defaultBranch && git config --global --unset init.defaultObjectFormat",
    );
    s.ok("", "znippy init b && znippy info b | grep -q sha1");
    assert_eq!(s.ok("", "znippy refs head b").stdout, "refs/heads/main\n");
    s.ok(
        "",
        "PATH=$(dirname \"$(command -v znippy)\")/nothing $(command -v znippy) init without-git",
    );
}

/// `GIT_DEFAULT_HASH` means what it means to `git init`: before the setting, after the option, and nonsense is an error.
#[test]
fn the_default_format_of_the_environment_is_gits() {
    let s = Sandbox::new();
    for setting in ["", "sha1", "sha256"] {
        if !setting.is_empty() {
            s.ok("", &format!("git config --global init.defaultObjectFormat {setting}"));
        }
        for variable in ["sha1", "sha256", "SHA256", "md5", ""] {
            for option in ["", "--object-format=sha1", "--object-format=sha256"] {
                s.set("GIT_DEFAULT_HASH", variable);
                let git = s.sh("", &format!("rm -rf g && git init -q {option} g"));
                let own = s.sh("", &format!("rm -f a.znippy && znippy init {option} a"));
                let what = format!(
                    "setting '{setting}', variable '{variable}', option '{option}': {}",
                    own.stderr
                );
                assert_eq!(own.code == 0, git.code == 0, "{what}");
                if git.code == 0 {
                    let format = s.ok("", "git -C g rev-parse --show-object-format").stdout;
                    let json: serde_json::Value =
                        serde_json::from_str(&s.ok("", "znippy info --json a").stdout).unwrap();
                    assert_eq!(json["object_format"], format.trim(), "{what}");
                } else {
                    assert!(own.code == 2 && own.stderr.contains("GIT_DEFAULT_HASH"), "{what}");
                    assert!(!s.path("a.znippy").exists(), "{what}");
                }
            }
        }
    }
}

#[test]
fn what_is_there_is_never_replaced() {
    let s = Sandbox::new();
    s.ok(
        "",
        "znippy init app && cp app.znippy before && echo text >text.znippy && mkdir dir.znippy",
    );
    for (path, part) in [
        ("app", "app.znippy"),
        ("app.znippy", "app.znippy"),
        ("text", "text.znippy"),
        ("dir", "dir.znippy"),
    ] {
        let ran = s.fails("", &format!("znippy init {path}"));
        assert_eq!(ran.code, 3, "{path}: {}", ran.stderr);
        assert_one_error(&ran.stderr, part);
    }
    s.ok(
        "",
        "cmp app.znippy before && grep -q text text.znippy && ls -A dir.znippy | wc -l | grep -qx 0",
    );
}

#[test]
fn a_missing_directory_is_not_made() {
    let s = Sandbox::new();
    let ran = s.fails("", "znippy init no/such/dir/app");
    assert_eq!(ran.code, 3);
    assert_one_error(&ran.stderr, "no/such/dir");
    assert!(!s.path("no").exists());
}

#[test]
fn names_that_git_forbids_are_refused() {
    let s = Sandbox::new();
    for branch in ["a..b", "HEAD", "'a b'", "a.lock", "''", "/a", "'a~1'"] {
        let ran = s.fails("", &format!("znippy init -b {branch} app"));
        assert_eq!(ran.code, 2, "{branch}");
        assert!(!s.path("app.znippy").exists(), "{branch}");
    }
    assert_eq!(s.fails("", "znippy init --object-format=md5 app").code, 2);
    assert_eq!(s.fails("", "znippy init").code, 2);
}

#[test]
fn odd_paths_work() {
    let s = Sandbox::new();
    for path in [
        "'a b'",
        "%41",
        "$'\\xff\\xfe'",
        "a+b",
        "-- -x",
        "./~",
        "'new\nline'",
        "☃",
        "x.git",
    ] {
        let line = format!("znippy -q init {path} && znippy -q info {path} && znippy -q refs head {path}");
        let mut command = s.command("", "bash");
        command.args(["-c", &line]);
        let ran = s.run(command);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{path}: {}", ran.stderr);
    }
    assert!(s.path("%41.znippy").exists() && s.path("x.git.znippy").exists() && s.path("~.znippy").exists());
}
