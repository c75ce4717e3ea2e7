//! What every scenario starts from: a remote with some history, and clients of it in several states.

use std::sync::OnceLock;

use crate::{common::subject_is_file, stage::Stage};

/// The remote's content. `up` is where it is made; it is ahead of what `reader` has.
///
/// | directory | what it is |
/// |---|---|
/// | `up` | the repository that the remote was filled from, with further commits on main and a new branch not pushed |
/// | `reader` | a clone from before the last pushes |
/// | `mirror.git` | a mirror clone from before the last pushes |
/// | `shallow` | the last two commits of each branch |
/// | `partial` | no blobs but those of the checkout |
/// | `blank` | an empty repository whose origin is the remote |
/// | `diverged` | a clone with a commit of its own on main |
/// | `super` | a superproject with the remote as submodule `lib` |
const SCRIPT: &str = "
    $ git init -q up
    up$ commit one
    up$ commit two
    up$ commit three
    up$ mkdir -p a/b c && head -c 5000 /dev/zero | tr '\\0' x >a/big.dat && echo deep >a/b/deep.txt && echo c >c/c.txt
    up$ git add . && git commit -q -m dirs
    up$ git checkout -q -b side HEAD~1 && commit four
    up$ git checkout -q main && git merge -q --no-edit side
    up$ git tag light main~1 && git tag -m annotated v1.0 main~1 && git tag -m nested nested v1.0
    up$ git branch topic/one main~2 && git branch old main~1 && commit five
    up$ git update-ref refs/pull/1/head side && git notes add -m 'a note' main
    up$ git push -q $URL 'refs/*:refs/*'
    $ git clone -q $URL reader
    $ git clone -q --mirror $URL mirror.git
    $ git clone -q $URL diverged
    diverged$ commit mine
    up$ git checkout -q -b fresh && commit six
    up$ commit seven && git tag -m later v2.0 && git checkout -q main
    up$ git merge -q fresh && git commit -q --allow-empty -m eight
    up$ git push -q $URL main fresh v2.0 :old
    $ git clone -q --no-local --depth 2 --no-single-branch up shallow && git -C shallow remote set-url origin $URL
    up$ git config uploadpack.allowFilter true && git config uploadpack.allowAnySHA1InWant true
    $ git clone -q --no-local --filter=blob:none up partial && git -C partial remote set-url origin $URL
    $ git init -q blank && git -C blank remote add origin $URL
    $ git init -q super
    super$ commit top
    super$ git submodule --quiet add there:lib lib && git commit -q -m 'with a module'
    up$ git remote add origin $URL && git fetch -q && git checkout -q -b newest && commit nine
    up$ git checkout -q main && commit ten
";

/// Returns the two prepared directories, made once.
pub fn both() -> (&'static Stage, &'static Stage) {
    static BOTH: OnceLock<(Stage, Stage)> = OnceLock::new();
    let both = BOTH.get_or_init(|| {
        let archive = match subject_is_file() {
            true => Stage::bare(),
            false => Stage::archive(),
        };
        let both = (Stage::bare(), archive);
        both.0.prepare(SCRIPT);
        both.1.prepare(SCRIPT);
        both
    });
    (&both.0, &both.1)
}
