//! Shallow and partial clones.

use super::{Kind, Row, row, run};

const PART: &[Row] = &[
    row("--depth 1", "git clone --depth 1 $URL out"),
    row("--depth 2", "git clone --depth 2 $URL out"),
    row("--depth 3", "git clone --depth 3 $URL out"),
    row("--depth 100", "git clone --depth 100 $URL out"),
    row("--depth 0", "git clone --depth 0 $URL out"),
    row("--depth -1", "git clone --depth -1 $URL out"),
    row("--depth x", "git clone --depth x $URL out"),
    row(
        "--depth --no-single-branch",
        "git clone --depth 1 --no-single-branch $URL out",
    ),
    row(
        "--depth 2 --no-single-branch",
        "git clone --depth 2 --no-single-branch $URL out",
    ),
    row("--depth -b", "git clone --depth 1 -b dev $URL out"),
    row("--depth -b tag", "git clone --depth 1 -b v1 $URL out"),
    row("--depth --bare", "git clone --depth 1 --bare $URL out"),
    row("--depth --mirror", "git clone --depth 1 --mirror $URL out"),
    row(
        "--depth --no-tags",
        "git clone --depth 1 --no-tags --no-single-branch $URL out",
    ),
    row(
        "--depth fsck",
        "git -c transfer.fsckObjects=true clone --depth 1 $URL out",
    ),
    row(
        "--depth version 0",
        "git -c protocol.version=0 clone --depth 2 $URL out",
    ),
    row("--shallow-since", "git clone --shallow-since='2020-09-17' $URL out"),
    row("--shallow-since raw", "git clone --shallow-since=1600350000 $URL out"),
    row(
        "--shallow-since later",
        "git clone --shallow-since='2030-01-01' $URL out",
    ),
    row("--shallow-exclude", "git clone --shallow-exclude=v1 $URL out"),
    row("--shallow-exclude branch", "git clone --shallow-exclude=old $URL out"),
    row(
        "--shallow-exclude twice",
        "git clone --shallow-exclude=old --shallow-exclude=dev $URL out",
    ),
    row(
        "--shallow-exclude nothing",
        "git clone --shallow-exclude=nothing $URL out",
    ),
    row("--filter=blob:none", "git clone --filter=blob:none $URL out"),
    row("--filter=blob:none -n", "git clone --filter=blob:none -n $URL out"),
    row(
        "--filter=blob:none --bare",
        "git clone --filter=blob:none --bare $URL out",
    ),
    row(
        "--filter=blob:none --mirror",
        "git clone --filter=blob:none --mirror $URL out",
    ),
    row(
        "--filter=blob:none -b",
        "git clone --filter=blob:none --single-branch -b dev $URL out",
    ),
    row("--filter=blob:limit=1k", "git clone --filter=blob:limit=1k $URL out"),
    row(
        "--filter=blob:limit=1k -n",
        "git clone --filter=blob:limit=1k -n $URL out",
    ),
    row("--filter=blob:limit=0", "git clone --filter=blob:limit=0 -n $URL out"),
    row("--filter=tree:0", "git clone --filter=tree:0 $URL out"),
    row("--filter=tree:0 -n", "git clone --filter=tree:0 -n $URL out"),
    row("--filter=tree:1 -n", "git clone --filter=tree:1 -n $URL out"),
    row("--filter=tree:2 -n", "git clone --filter=tree:2 -n $URL out"),
    row(
        "--filter=object:type",
        "git clone --filter=object:type=commit -n --bare $URL out",
    ),
    row(
        "--filter=combine",
        "git clone --filter=combine:blob:none+tree:2 -n $URL out",
    ),
    row(
        "--filter twice",
        "git clone --filter=blob:none --filter=tree:2 -n $URL out",
    ),
    row("--filter=nonsense", "git clone --filter=nonsense $URL out"),
    row("--filter --depth", "git clone --filter=blob:none --depth 1 $URL out"),
    row(
        "--filter --depth --bare",
        "git clone --filter=tree:0 --depth 2 --bare $URL out",
    ),
    row(
        "--filter version 0",
        "git -c protocol.version=0 clone --filter=blob:none $URL out",
    ),
    row(
        "--filter fsck",
        "git -c fetch.fsckObjects=true clone --filter=blob:none $URL out",
    ),
    row("--sparse", "git clone --sparse $URL out"),
    row("--sparse --filter", "git clone --sparse --filter=blob:none $URL out"),
    row("--sparse --depth", "git clone --sparse --depth 1 $URL out"),
    row(
        "sparse-checkout set",
        "git clone -q --sparse --filter=blob:none $URL out && git -C out sparse-checkout set dir",
    ),
    row(
        "sparse-checkout add",
        "git clone -q --sparse --filter=blob:none $URL out && git -C out sparse-checkout set dir/deep && git -C out sparse-checkout add dir",
    ),
    row(
        "sparse-checkout disable",
        "git clone -q --sparse --filter=blob:none $URL out && git -C out sparse-checkout disable",
    ),
    row(
        "sparse-checkout --no-cone",
        "git clone -q -n --filter=blob:none $URL out && git -C out sparse-checkout set --no-cone '/a.txt' && git -C out checkout -q main",
    ),
    row(
        "lazy cat-file",
        "git clone -q --filter=blob:none -n $URL out && git -C out cat-file -p HEAD~2:dir/b.txt",
    ),
    row(
        "lazy log -p",
        "git clone -q --filter=blob:none -n $URL out && git -C out log -p --stat",
    ),
    row(
        "lazy tree",
        "git clone -q --filter=tree:0 -n $URL out && git -C out ls-tree -r HEAD",
    ),
    row(
        "lazy diff",
        "git clone -q --filter=blob:none -n $URL out && git -C out diff --stat old@{0} HEAD 2>/dev/null; git -C out diff --stat origin/old HEAD",
    ),
    row(
        "lazy checkout",
        "git clone -q --filter=blob:none -n $URL out && git -C out checkout -q origin/dev",
    ),
    row(
        "lazy blame",
        "git clone -q --filter=blob:none -n $URL out && git -C out blame -s HEAD -- dir/b.txt",
    ),
    row(
        "lazy grep",
        "git clone -q --filter=blob:none -n $URL out && git -C out grep -c 7 HEAD",
    ),
    row(
        "lazy merge",
        "git clone -q --filter=blob:none $URL out && git -C out merge -q -m m origin/dev",
    ),
    row(
        "lazy archive",
        "git clone -q --filter=blob:none -n $URL out && git -C out archive v1 | sha1sum",
    ),
    row(
        "partial gc",
        "git clone -q --filter=blob:none $URL out && git -C out gc -q --prune=now",
    ),
    row(
        "partial fsck",
        "git clone -q --filter=tree:0 $URL out && git -C out fsck --full",
    ),
    row(
        "partial fetch",
        "git clone -q --filter=blob:none --single-branch -b old $URL out && git -C out fetch origin main",
    ),
    row(
        "partial --refetch",
        "git clone -q --filter=blob:none -n $URL out && git -C out fetch -q --refetch --filter=blob:limit=1k origin",
    ),
    row(
        "partial rev-list",
        "git clone -q --filter=blob:none -n $URL out && git -C out rev-list --objects --missing=print HEAD | sort",
    ),
    row(
        "partial unfiltered",
        "git clone -q --filter=blob:none -n $URL out && git -C out fetch -q --refetch --no-filter origin",
    ),
    row(
        "partial clone.filterSubmodules",
        "git -c clone.filterSubmodules=true clone -q --filter=blob:none --also-filter-submodules --recurse-submodules $URL out",
    ),
    row(
        "shallow of a shallow clone",
        "git clone -q --depth 2 $URL out && git clone -q --depth 1 file://$PWD/out again && git -C again remote remove origin",
    ),
];

#[test]
fn shallow_and_partial_clones() {
    run("part", PART, false, &[Kind::Served]);
}
