//! SHA-1 and SHA-256 do not mix.

use crate::common::{Side, subject_is_file};

#[test]
fn a_push_of_another_object_format_is_refused() {
    for (archive, client) in [("sha1", "sha256"), ("sha256", "sha1")] {
        let side = Side::archive(archive, &[]);
        side.play(&format!(
            "$ git init -q --object-format={archive} work
             work$ commit one
             work$ git push -q $URL main
             $ git init -q --object-format={client} other
             other$ commit two
             other!=? git push $URL main:refs/heads/other
             other!=? git push --mirror $URL"
        ));
        if !subject_is_file() {
            let ran = side.sandbox.fails("other", "git push $URL main:refs/heads/other");
            for word in ["sha1", "sha256", "remote.znippy"] {
                assert!(ran.stderr.contains(word), "{word} is not in: {}", ran.stderr);
            }
        }
    }
}

#[test]
fn a_fetch_of_another_object_format_is_refused() {
    for (archive, client) in [("sha1", "sha256"), ("sha256", "sha1")] {
        let side = Side::archive(archive, &[]);
        side.play(&format!(
            "$ git init -q --object-format={archive} work
             work$ commit one
             work$ git push -q $URL main
             $ git init -q --object-format={client} other
             other! git fetch $URL main
             other! git pull $URL main"
        ));
        let packs = side.sandbox.ok("other", "find .git/objects -type f | wc -l");
        assert_eq!(packs.text(), "0", "objects of another format were left behind");
    }
}

#[test]
fn a_new_archive_takes_the_format_of_the_pusher() {
    for format in ["sha1", "sha256"] {
        let side = Side::archive(format, &[]);
        side.play(&format!(
            "$ git init -q --object-format={format} work
             work$ commit one
             work$ git push -q $URL main
             $ git clone -q $URL copy"
        ));
        assert_eq!(
            side.sandbox.ok("copy", "git rev-parse --show-object-format").text(),
            format
        );
    }
}
