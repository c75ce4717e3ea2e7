//! Fetches into shallow clones.

use super::{Kind, Row, row, run};

const SHALLOW: &[Row] = &[
    row(
        "--depth of a full clone",
        "git clone -q $URL out && cd out && git fetch --depth 1",
    ),
    row(
        "--depth into an empty one",
        "git init -q out && cd out && git fetch --depth 1 $URL main:m",
    ),
    row(
        "--depth two branches",
        "git init -q out && cd out && git fetch --depth 2 $URL main:m dev:d",
    ),
    row(
        "--depth again",
        "git clone -q --depth 1 $URL out && cd out && git fetch --depth 3",
    ),
    row(
        "--depth smaller",
        "git clone -q --depth 3 $URL out && cd out && git fetch --depth 1",
    ),
    row(
        "--deepen",
        "git clone -q --depth 1 $URL out && cd out && git fetch --deepen 1",
    ),
    row(
        "--deepen 2",
        "git clone -q --depth 1 $URL out && cd out && git fetch --deepen 2 origin main",
    ),
    row(
        "--deepen a lot",
        "git clone -q --depth 1 $URL out && cd out && git fetch --deepen 100",
    ),
    row(
        "--unshallow",
        "git clone -q --depth 1 $URL out && cd out && git fetch --unshallow",
    ),
    row(
        "--unshallow a full clone",
        "git clone -q $URL out && cd out && git fetch --unshallow",
    ),
    row(
        "--shallow-since",
        "git clone -q --depth 1 $URL out && cd out && git fetch --shallow-since=1600150000",
    ),
    row(
        "--shallow-exclude",
        "git clone -q --depth 1 $URL out && cd out && git fetch --shallow-exclude=old",
    ),
    row(
        "another branch",
        "git clone -q --depth 1 $URL out && cd out && git fetch origin dev",
    ),
    row(
        "another branch, deep",
        "git clone -q --depth 1 $URL out && cd out && git fetch --depth 2 origin dev",
    ),
    row("nothing new", "git clone -q --depth 1 $URL out && cd out && git fetch"),
    row(
        "a tag",
        "git clone -q --depth 1 $URL out && cd out && git fetch --depth 1 origin tag v1",
    ),
    row(
        "all branches",
        "git clone -q --depth 1 $URL out && cd out && git fetch origin '+refs/heads/*:refs/remotes/origin/*'",
    ),
    row(
        "--update-shallow",
        "git clone -q --depth 2 $URL out && cd out && git fetch --update-shallow origin dev:d",
    ),
    row(
        "--unshallow --no-tags",
        "git clone -q --depth 1 --no-tags $URL out && cd out && git fetch --unshallow --no-tags",
    ),
    row(
        "bare --deepen",
        "git clone -q --bare --depth 1 $URL out && cd out && git fetch --deepen 1 origin main",
    ),
    row(
        "partial and shallow --unshallow",
        "git clone -q --filter=blob:none --depth 1 $URL out && cd out && git fetch --unshallow",
    ),
    row(
        "partial --deepen",
        "git clone -q --filter=tree:0 --depth 1 -n $URL out && cd out && git fetch --deepen 1",
    ),
    row(
        "gc between",
        "git clone -q --depth 2 $URL out && cd out && git gc -q --prune=now && git fetch --deepen 1",
    ),
    row(
        "worktree of a shallow clone",
        "git clone -q --depth 1 $URL out && cd out && git worktree add -q ../tree -b t && cd ../tree && git fetch --deepen 1 origin main",
    ),
    row(
        "log over the edge",
        "git clone -q --depth 2 $URL out && cd out && git log --format=%s --graph",
    ),
    row(
        "pull --depth",
        "git clone -q --depth 1 -b old $URL out && cd out && git pull --ff-only --depth 1 origin old",
    ),
    row(
        "pull --unshallow",
        "git clone -q --depth 1 $URL out && cd out && git pull --unshallow",
    ),
];

#[test]
fn shallow_fetches() {
    run("shallow", SHALLOW, false, &[Kind::Served]);
}
