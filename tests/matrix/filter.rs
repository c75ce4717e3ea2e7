//! Partial clones and what they fetch later.

use crate::matrix;

#[test]
fn filters() {
    matrix(
        "partial",
        &[
            "$ git clone --filter=blob:none $URL got",
            "$ git clone --filter=blob:none --no-checkout $URL got",
            "$ git clone --filter=blob:none --bare $URL got",
            "$ git clone --filter=blob:limit=1k $URL got",
            "$ git clone --filter=blob:limit=0 --bare $URL got",
            "$ git clone --filter=tree:0 --bare $URL got",
            "$ git clone --filter=tree:1 --bare $URL got",
            "$ git clone --filter=tree:2 --bare $URL got",
            "$ git clone --filter=tree:0 $URL got",
            "$ git clone --filter=object:type=commit --bare $URL got",
            "$ git clone --filter=object:type=tree --bare $URL got",
            "$ git clone --filter=object:type=blob --bare $URL got",
            "$ git clone --filter=combine:blob:none+tree:2 --bare $URL got",
            "$ git clone --filter=blob:none --filter=tree:1 --bare $URL got",
            "! git clone --filter=nonsense $URL got",
            "$ git clone --filter=blob:none --sparse $URL got
             got$ git sparse-checkout set a && ls",
            "$ git clone --filter=blob:none --depth 1 $URL got",
            "$ git clone --filter=tree:0 --depth 2 --bare $URL got",
            "$ git clone --filter=blob:none --single-branch -b side $URL got",
            "$ git clone --filter=blob:none --no-tags $URL got",
            "$ git clone -q --filter=blob:none $URL got && cd got && git log -p --format=%s
             got$ git fetch",
            "$ git clone -q --filter=blob:none $URL got && cd got && git checkout -q side && ls",
            "$ git clone -q --filter=blob:none --bare $URL got && cd got && git cat-file -p main:a/b/deep.txt",
            "$ git clone -q --filter=tree:0 --bare $URL got && cd got && git ls-tree -r main",
            "$ git clone -q --filter=blob:none $URL got && cd got && git blame one.txt",
            "$ git clone -q --filter=blob:none $URL got && cd got && git fetch --refetch --no-filter",
            "$ git clone -q --filter=blob:none $URL got && cd got && git fetch --refetch --filter=blob:limit=1k",
            "$ git clone -q --filter=blob:none $URL got && git -C up push -q origin main newest && cd got && git pull -q && git fetch -q",
            "$ git clone -q --filter=blob:none $URL got && cd got && commit more && git push -q",
            "$ git clone -q --filter=blob:none $URL got && cd got && git gc -q && git fsck",
            "$ git clone -q --filter=blob:none $URL got && cd got && git repack -adq && git fetch",
            "partial$ git fetch",
            "partial$ git pull -q && ls",
            "partial$ git checkout -q origin/side && ls",
            "partial$ git log -p --format=%s -- a",
            "partial$ git diff main~2 main --stat",
            "partial$ git archive main~3 | tar t",
            "partial$ git merge -q --no-edit origin/topic/one && git push -q",
            "partial$ git grep -q content main~2",
            "blank$ git fetch --filter=blob:none origin main
             blank$ git config extensions.partialClone || true",
            "reader$ git fetch --filter=blob:none
             # makes the clone a partial one",
            "$ git clone -q --recurse-submodules --filter=blob:none --also-filter-submodules super got",
            "$ git -c protocol.version=0 clone --filter=blob:none --bare $URL got",
        ],
    );
}
