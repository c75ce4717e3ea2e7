//! `git ls-remote` and `git remote`, flag by flag.

use crate::matrix;

#[test]
fn listings() {
    matrix(
        "ls-remote",
        &[
            "$ git ls-remote $URL",
            "$ git ls-remote -q $URL",
            "$ git ls-remote --heads $URL",
            "$ git ls-remote --tags $URL",
            "$ git ls-remote --heads --tags $URL",
            "$ git ls-remote --refs $URL",
            "$ git ls-remote --symref $URL",
            "$ git ls-remote --symref $URL HEAD",
            "$ git ls-remote --sort=-version:refname $URL",
            "up$ git ls-remote --sort=refname origin",
            "$ git ls-remote $URL main",
            "$ git ls-remote $URL 'refs/heads/*'",
            "$ git ls-remote $URL '*one'",
            "$ git ls-remote $URL nothing",
            "! git ls-remote --exit-code $URL nothing",
            "$ git ls-remote --exit-code $URL side",
            "reader$ git ls-remote",
            "reader$ git ls-remote origin",
            "reader$ git ls-remote --get-url",
            "$ git ls-remote --upload-pack=git-upload-pack $URL",
            "$ git -c protocol.version=0 ls-remote $URL",
            "$ git ls-remote -o x $URL
             # server options mean nothing to either",
            "! git ls-remote $URL/nowhere",
            "reader$ git remote",
            "reader$ git remote -v",
            "reader$ git remote show origin",
            "reader$ git remote show -n origin",
            "reader$ git remote prune origin",
            "reader$ git remote prune --dry-run origin",
            "reader$ git remote set-head origin --auto",
            "reader$ git remote set-head origin -d && git remote set-head origin -a",
            "reader$ git remote set-head origin side",
            "reader$ git remote set-branches origin side && git fetch",
            "reader$ git remote set-branches --add origin 'topic/*' && git fetch",
            "reader$ git remote rename origin there && git fetch there",
            "reader$ git remote remove origin",
            "reader$ git remote get-url origin",
            "reader$ git remote set-url origin $URL && git fetch",
            "reader$ git remote set-url --add origin $URL && git fetch",
            "reader$ git remote add x $URL && git remote show x",
            "reader$ git remote update origin",
            "reader$ git branch -r --contains main",
            "mirror.git$ git remote show origin",
            "up$ git push -q origin :main; git ls-remote --symref $URL
             # an archive moves HEAD when its branch is deleted; git keeps it dangling (receive.denyDeleteCurrent=ignore)"
        ],
    );
}
