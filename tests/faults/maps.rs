//! Which calls are made on an archive.

use std::fs;

use crate::{common::Sandbox, inject::can_inject};

/// R28: no operation maps the archive into memory: a file that is cut while it is mapped kills the process.
#[test]
fn r28_the_archive_is_never_mapped() {
    if !can_inject("r28_the_archive_is_never_mapped") {
        return;
    }
    let s = Sandbox::new();
    s.ok("", "git init -q work");
    s.ok(
        "work",
        "head -c 300000 /dev/urandom >large && git add large && commit one",
    );
    s.ok("work", "git push -q \"znippy::$A/app\" main && commit two");
    for line in [
        "git -C work push -q \"znippy::$A/app\" main",
        "git clone -q \"znippy::$A/app\" copy",
        "git clone -q --depth=1 \"znippy::$A/app\" shallow",
        "git -C work fetch -q \"znippy::$A/app\" main",
        "znippy verify --full app",
        "znippy index --rebuild app",
        "znippy gc --force app",
        "znippy refs list app",
        "znippy info app",
    ] {
        s.ok(
            "",
            &format!("rm -f calls; strace -f -y -qq -o calls -e trace=mmap,openat {line}"),
        );
        let calls = fs::read_to_string(s.path("calls")).unwrap();
        let of_archive = |call: &str| {
            calls
                .lines()
                .filter(|line| line.contains(call) && line.contains("app.znippy"))
                .count()
        };
        assert!(of_archive("openat(") > 0, "{line} does not open it");
        assert_eq!(of_archive("mmap("), 0, "{line} maps it");
        assert!(calls.contains("mmap("), "nothing was traced");
    }
}
