//! `git archive --remote`.

use super::{Kind, Row, row, run};

const ARCHIVE: &[Row] = &[
    row("tar", "git archive --remote=$URL HEAD | sha1sum"),
    row("tar of a tag", "git archive --remote=$URL v1 | tar tv"),
    row("tgz", "git archive --remote=$URL --format=tgz main | gzip -d | sha1sum"),
    row("tar.gz", "git archive --remote=$URL --format=tar.gz dev | sha1sum"),
    row("zip", "git archive --remote=$URL --format=zip dev | sha1sum"),
    row("zip -9", "git archive --remote=$URL --format=zip -9 dev | sha1sum"),
    row("-0", "git archive --remote=$URL --format=zip -0 dev | sha1sum"),
    row("--prefix", "git archive --remote=$URL --prefix=x/y/ HEAD | tar t"),
    row("paths", "git archive --remote=$URL HEAD dir a.txt | tar t"),
    row(
        "a path that is not there",
        "git archive --remote=$URL HEAD nothing >/dev/null",
    ),
    row("a directory", "git archive --remote=$URL HEAD:dir | tar t"),
    row("a full name", "git archive --remote=$URL refs/heads/old | tar t"),
    row(
        "another reference",
        "git archive --remote=$URL refs/changes/01/1 | tar t",
    ),
    row("a wrong name", "git archive --remote=$URL nothing >/dev/null"),
    row(
        "an object",
        "git archive --remote=$URL $(git -C $SEED rev-parse main) >/dev/null",
    ),
    row("not just a name", "git archive --remote=$URL main~1 >/dev/null"),
    row("--list", "git archive --remote=$URL --list"),
    row(
        "--format=nonsense",
        "git archive --remote=$URL --format=nonsense HEAD >/dev/null",
    ),
    row("-v", "git archive --remote=$URL -v HEAD >/dev/null"),
    row("-o", "git archive --remote=$URL -o out.zip HEAD && sha1sum out.zip"),
    row(
        "--output tar.gz",
        "git archive --remote=$URL --output=out.tar.gz v1 && gzip -dc out.tar.gz | sha1sum",
    ),
    row(
        "by name",
        "git init -q out && cd out && git remote add origin $URL && git archive --remote=origin HEAD | sha1sum",
    ),
];

#[test]
fn archives() {
    run("archive", ARCHIVE, false, &[Kind::Archive, Kind::Served]);
}
