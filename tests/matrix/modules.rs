//! Submodules, worktrees, sparse checkouts, bundles, archives: what other commands do with a remote.

use crate::matrix;

#[test]
fn modules() {
    matrix(
        "submodule and others",
        &[
            "$ git clone -q --recurse-submodules super got
             got$ git submodule status",
            "$ git clone -q super got && cd got && git submodule update --init
             got$ ls lib",
            "$ git clone -q super got && cd got && git submodule init && git submodule update --checkout",
            "$ git clone -q --recurse-submodules super got && cd got && git submodule update --remote
             got$ git status --porcelain",
            "$ git clone -q --recurse-submodules super got && cd got && git submodule update --remote --merge",
            "$ git clone -q --recurse-submodules super got && cd got && git submodule update --remote --rebase",
            "$ git clone -q --recurse-submodules super got && cd got && git submodule foreach 'git fetch -q && git log -1 --format=%s origin/main'",
            "$ git clone -q --recurse-submodules super got && cd got && git fetch --recurse-submodules",
            "$ git clone -q --recurse-submodules super got && cd got && git pull --recurse-submodules",
            "$ git clone -q --recurse-submodules super got && cd got/lib && git checkout -q main && commit inmodule && git push -q
             got$ git status --porcelain",
            "$ git clone -q --recurse-submodules super got && cd got && git submodule sync && git submodule update",
            "$ git clone -q --recurse-submodules super got && cd got && git submodule deinit -f lib && git submodule update --init",
            "$ git clone -q --recurse-submodules --reference-if-able reader super got",
            "$ git clone -q --recurse-submodules=lib -j2 super got",
            "$ git clone -q --recurse-submodules --remote-submodules super got
             got$ git -C lib log -1 --format=%s",
            "super$ git submodule add -q -b side there:lib second
             super$ git -C second log -1 --format=%s",
            "super$ git submodule add -q --name other there:lib third
             super$ git submodule status",
            "super$ git submodule set-branch -b side lib && git submodule update --remote",
            "up$ git push -q origin main
             super$ git submodule update --remote && git commit -q -a -m new && git log -1 --format=%s",
            "super$ git submodule summary; git diff --submodule=log",
            "reader$ git worktree add -q ../tree origin/side && cd ../tree && git pull -q origin main --no-rebase --no-edit",
            "reader$ git worktree add -q -b w ../tree && cd ../tree && commit w && git push -q origin w",
            "$ git clone -q --sparse $URL got
             got$ git sparse-checkout set a && ls",
            "reader$ git sparse-checkout set --no-cone '/c/' && git pull && ls",
            "reader$ git fetch && git bundle create ../b.bundle --all && git bundle verify ../b.bundle
             $ git clone -q b.bundle got",
            "$ git clone -q mirror.git got && cd got && git remote set-url origin $URL && git fetch -p",
            "reader$ git stash list; git fetch && git rebase origin/main",
            "reader$ git fetch && git cherry-pick origin/fresh",
            "reader$ git fetch && git log --format=%s main..origin/main",
            "reader$ git fetch && git merge-base main origin/main",
            "up! git request-pull main~1 $URL main",
            "up$ git push -q origin main && git request-pull main~1 $URL main",
            "reader$ git fetch && git describe --tags origin/main",
            "reader$ git maintenance run --task=prefetch
             reader$ git for-each-ref refs/prefetch",
            "reader$ git maintenance run --task=gc --task=commit-graph && git fetch",
            "reader$ git subtree --help >/dev/null 2>&1; git read-tree -m HEAD && git fetch",
        ],
    );
}
