//! `git clone`, flag by flag.

use crate::matrix;

#[test]
fn clones() {
    matrix(
        "clone",
        &[
            "$ git clone $URL got",
            "$ git clone --bare $URL got",
            "$ git clone --mirror $URL got",
            "$ git clone -n $URL got
             got$ git status --porcelain",
            "$ git clone --quiet $URL got",
            "$ git clone --verbose --progress $URL got",
            "$ git clone -b side $URL got",
            "$ git clone -b v1.0 $URL got
             got$ git describe --tags",
            "$ git clone -b light $URL got",
            "! git clone -b nothing $URL got",
            "$ git clone --single-branch $URL got",
            "$ git clone --single-branch -b side $URL got",
            "$ git clone --single-branch --no-tags $URL got",
            "$ git clone --no-tags $URL got",
            "$ git clone --tags $URL got",
            "$ git clone --no-single-branch $URL got",
            "$ git clone -o upstream $URL got",
            "$ git clone -c core.autocrlf=true $URL got",
            "$ git clone -c remote.origin.fetch='+refs/pull/*:refs/pull/*' $URL got",
            "$ git clone --config transfer.fsckObjects=true $URL got",
            "$ git clone --separate-git-dir=apart $URL got
             $ ls apart/HEAD",
            "$ git clone --template= $URL got",
            "$ git clone --reference reader $URL got
             $ test -s got/.git/objects/info/alternates",
            "$ git clone --reference reader --dissociate $URL got
             $ test ! -e got/.git/objects/info/alternates",
            "! git clone --reference nowhere $URL got",
            "$ git clone --reference-if-able nowhere $URL got",
            "$ git clone --reference-if-able reader --bare $URL got",
            "$ git clone --reference mirror.git --reference up $URL got",
            "$ git clone --no-local $URL got",
            "$ git clone --no-hardlinks $URL got",
            "$ git clone --shared $URL got",
            "$ git clone --sparse $URL got
             got$ git sparse-checkout add a/b
             got$ git sparse-checkout list
             got$ ls",
            "$ git clone --recurse-submodules super got",
            "$ git clone --reject-shallow $URL got",
            "$ git clone --no-reject-shallow $URL got",
            "$ git clone -j2 $URL got",
            "$ git clone -4 $URL got",
            "$ git clone --upload-pack=git-upload-pack $URL got",
            "$ git clone --server-option=x $URL got
             # only protocol version 2 has server options: both ignore it here",
            "$ git clone $URL deep/er/got
             $ test -e deep/er/got/one.txt",
            "! git clone $URL reader",
            "$ mkdir got && git clone $URL got",
            "! mkdir got && touch got/x && git clone $URL got",
            "$ git -c clone.defaultRemoteName=there clone $URL got",
            "$ git -c init.defaultBranch=trunk clone $URL got",
            "$ git -c fetch.fsckObjects=true clone $URL got",
            "$ git -c core.sharedRepository=group clone $URL got",
            "$ git -c fetch.unpackLimit=100000 clone $URL got",
            "$ git -c fetch.unpackLimit=1 clone $URL got",
            "$ git -c protocol.version=0 clone $URL got",
            "$ git -c protocol.version=1 clone $URL got",
            "$ git -c submodule.recurse=true clone $URL got",
            "$ git -c remote.origin.prune=true clone $URL got",
            "$ GIT_DIR=$A/got.git git clone --bare $URL got.git",
            "$ git clone $URL one && git clone one two && git -C two remote set-url origin $URL
             two$ git fetch",
            "$ git clone -b fresh --single-branch --bare $URL got",
            "$ git clone --mirror -c remote.origin.tagOpt=--no-tags $URL got",
            "$ git clone --no-checkout --branch topic/one $URL got",
        ],
    );
}
