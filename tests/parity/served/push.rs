//! `git push`. Every row has a remote of its own.

use super::{Kind, Row, row, run};

const PUSH: &[Row] = &[
    row(
        "a branch",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git push origin main",
    ),
    row("nothing new", "git clone -q $URL out && cd out && git push origin main"),
    row(
        "HEAD",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git push origin HEAD",
    ),
    row(
        "@",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git push origin @",
    ),
    row(
        "to a new branch",
        "git clone -q $URL out && cd out && git push origin main:new",
    ),
    row(
        "a new branch with commits",
        "git clone -q $URL out && cd out && git checkout -q -b new && seq 5 >n && git add n && git commit -qm n && git push origin new",
    ),
    row(
        "from the middle",
        "git clone -q $URL out && cd out && git push origin HEAD~2:refs/heads/middle",
    ),
    row(
        "an object",
        "git clone -q $URL out && cd out && git push origin $(git rev-parse HEAD~1):refs/heads/x",
    ),
    row(
        "--all",
        "git clone -q $URL out && cd out && git checkout -q -b one && git commit -q --allow-empty -m x && git branch two && git push --all origin",
    ),
    row(
        "--branches",
        "git clone -q $URL out && cd out && git branch one && git push --branches origin",
    ),
    row(
        "--tags",
        "git clone -q $URL out && cd out && git tag mine && git tag -m m mine2 && git push --tags origin",
    ),
    row(
        "--follow-tags",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git tag -m m mine && git tag light2 && git push --follow-tags origin main",
    ),
    row(
        "push.followTags",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git tag -m m mine && git -c push.followTags=true push origin main",
    ),
    row(
        "a tag",
        "git clone -q $URL out && cd out && git tag -m m mine && git push origin mine",
    ),
    row(
        "tag NAME",
        "git clone -q $URL out && cd out && git tag -m m mine && git push origin tag mine",
    ),
    row(
        "a tag of a tag",
        "git clone -q $URL out && cd out && git tag -m m mine v1 2>/dev/null && git push origin mine",
    ),
    row(
        "a tag that is there",
        "git clone -q $URL out && cd out && git tag -f light HEAD~3 && git push origin light",
    ),
    row(
        "a tag that is there, -f",
        "git clone -q $URL out && cd out && git tag -f light HEAD~3 && git push -f origin light",
    ),
    row(
        "--mirror",
        "git clone -q --mirror $URL out && cd out && git update-ref -d refs/heads/dev && git branch new main && git push --mirror $URL",
    ),
    row(
        "--mirror of a clone",
        "git clone -q $URL out && cd out && git push --mirror origin",
    ),
    row(
        "remote.mirror",
        "git clone -q --mirror $URL out && cd out && git branch new main && git push origin",
    ),
    row(
        "--prune",
        "git clone -q $URL out && cd out && git push --prune origin 'refs/heads/*:refs/heads/*'",
    ),
    row(
        "--delete",
        "git clone -q $URL out && cd out && git push --delete origin dev",
    ),
    row(
        "-d a tag",
        "git clone -q $URL out && cd out && git push -d origin v1 light",
    ),
    row("colon", "git clone -q $URL out && cd out && git push origin :dev"),
    row(
        "delete what is not there",
        "git clone -q $URL out && cd out && git push origin :nothing",
    ),
    row(
        "delete a full name that is not there",
        "git clone -q $URL out && cd out && git push origin :refs/heads/nothing",
    ),
    row(
        "delete a note",
        "git clone -q $URL out && cd out && git push origin :refs/notes/commits",
    ),
    row(
        "no fast-forward",
        "git clone -q $URL out && cd out && git reset -q --hard HEAD~1 && git push origin main",
    ),
    row(
        "diverged",
        "git clone -q $URL out && cd out && git reset -q --hard HEAD~1 && git commit -q --allow-empty -m x && git push origin main",
    ),
    row(
        "fetch first",
        "git clone -q -b old --single-branch --no-tags $URL out && cd out && git commit -q --allow-empty -m x && git push origin HEAD:main",
    ),
    row(
        "--force",
        "git clone -q $URL out && cd out && git reset -q --hard HEAD~1 && git push --force origin main",
    ),
    row(
        "plus",
        "git clone -q $URL out && cd out && git reset -q --hard HEAD~1 && git push origin +main",
    ),
    row(
        "--force to other history",
        "git clone -q $URL out && cd out && git checkout -q --orphan x && git commit -qm x && git push --force origin HEAD:main",
    ),
    row(
        "--force-with-lease",
        "git clone -q $URL out && cd out && git reset -q --hard HEAD~1 && git push --force-with-lease origin main",
    ),
    row(
        "--force-with-lease=NAME",
        "git clone -q $URL out && cd out && git reset -q --hard HEAD~1 && git push --force-with-lease=main origin main",
    ),
    row(
        "--force-with-lease=NAME:VALUE",
        "git clone -q $URL out && cd out && git reset -q --hard HEAD~1 && git push --force-with-lease=main:origin/main origin main",
    ),
    row(
        "a stale lease",
        "git clone -q $URL out && cd out && git reset -q --hard HEAD~1 && git push --force-with-lease=main:HEAD origin main",
    ),
    row(
        "a lease on nothing",
        "git clone -q $URL out && cd out && git push --force-with-lease=new: origin main:new",
    ),
    row(
        "a lease on nothing that is there",
        "git clone -q $URL out && cd out && git push --force-with-lease=dev: origin main:dev",
    ),
    row(
        "a lease on a deletion",
        "git clone -q $URL out && cd out && git push --force-with-lease=dev:origin/dev origin :dev",
    ),
    row(
        "a stale lease on a deletion",
        "git clone -q $URL out && cd out && git push --force-with-lease=dev:origin/main origin :dev",
    ),
    row(
        "--force-if-includes",
        "git clone -q $URL out && cd out && git reset -q --hard HEAD~1 && git push --force-with-lease --force-if-includes origin main",
    ),
    row(
        "--no-force-with-lease",
        "git clone -q $URL out && cd out && git reset -q --hard HEAD~1 && git push --force-with-lease --no-force-with-lease origin main",
    ),
    row(
        "--atomic",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git push --atomic origin main main:new :dev",
    ),
    row(
        "--atomic fails",
        "git clone -q $URL out && cd out && git reset -q --hard HEAD~1 && git commit -q --allow-empty -m x && git push --atomic origin main main:new",
    ),
    row(
        "--dry-run",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git push --dry-run origin main main:new",
    ),
    row("-n -d", "git clone -q $URL out && cd out && git push -n -d origin dev"),
    row(
        "-n of what is refused",
        "git clone -q $URL out && cd out && git reset -q --hard HEAD~1 && git push -n origin main",
    ),
    row(
        "--porcelain",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git push --porcelain origin main main:new :dev",
    ),
    row(
        "--porcelain refused",
        "git clone -q $URL out && cd out && git reset -q --hard HEAD~1 && git push --porcelain origin main main:new",
    ),
    row(
        "--porcelain -n",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git push --porcelain -n origin main",
    ),
    row(
        "-u",
        "git clone -q $URL out && cd out && git checkout -q -b new && git push -u origin new",
    ),
    row(
        "push.autoSetupRemote",
        "git clone -q $URL out && cd out && git checkout -q -b new && git -c push.autoSetupRemote=true push",
    ),
    row(
        "-q",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git push -q origin main",
    ),
    row(
        "-v",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git push -v origin main",
    ),
    row(
        "--progress",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git push --progress origin main",
    ),
    row(
        "--thin",
        "git clone -q $URL out && cd out && seq 3010 >big.txt && git commit -qam x && git push --thin origin main",
    ),
    row(
        "--no-thin",
        "git clone -q $URL out && cd out && seq 3010 >big.txt && git commit -qam x && git push --no-thin origin main",
    ),
    row(
        "--repo",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git push --repo=origin",
    ),
    row(
        "--no-verify",
        "git clone -q $URL out && cd out && printf '#!/bin/sh\\nexit 1\\n' >.git/hooks/pre-push && chmod +x .git/hooks/pre-push && git push --no-verify origin main:new",
    ),
    row(
        "pre-push refuses",
        "git clone -q $URL out && cd out && mkdir -p .git/hooks && printf '#!/bin/sh\\nexit 1\\n' >.git/hooks/pre-push && chmod +x .git/hooks/pre-push && git push origin main:new",
    ),
    row(
        "pre-push is told",
        "git clone -q $URL out && cd out && mkdir -p .git/hooks && printf '#!/bin/sh\\ncat >../told\\n' >.git/hooks/pre-push && chmod +x .git/hooks/pre-push && git push -q origin main:new :dev && cat ../told",
    ),
    row(
        "-o",
        "git clone -q $URL out && cd out && git push -o ci.skip -o a=b origin main:new",
    ),
    row(
        "push.pushOption",
        "git clone -q $URL out && cd out && git -c push.pushOption=x push origin main:new",
    ),
    row(
        "--signed",
        "git clone -q $URL out && cd out && git push --signed origin main:new",
    )
    .other_words("each says in its own way that it takes none"),
    row(
        "--signed=if-asked",
        "git clone -q $URL out && cd out && git push --signed=if-asked origin main:new",
    ),
    row(
        "--no-signed",
        "git clone -q $URL out && cd out && git push --no-signed origin main:new",
    ),
    row(
        "push.gpgSign=if-asked",
        "git clone -q $URL out && cd out && git -c push.gpgSign=if-asked push origin main:new",
    ),
    row(
        "--ipv4",
        "git clone -q $URL out && cd out && git push -4 origin main:new",
    ),
    row(
        "push.default=simple",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git -c push.default=simple push",
    ),
    row(
        "push.default=current",
        "git clone -q $URL out && cd out && git checkout -q -b new && git -c push.default=current push",
    ),
    row(
        "push.default=upstream",
        "git clone -q $URL out && cd out && git checkout -q -b new origin/dev && git commit -q --allow-empty -m x && git -c push.default=upstream push",
    ),
    row(
        "push.default=matching",
        "git clone -q $URL out && cd out && git branch dev origin/dev && git commit -q --allow-empty -m x && git -c push.default=matching push",
    ),
    row(
        "push.default=nothing",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git -c push.default=nothing push",
    ),
    row(
        "matching",
        "git clone -q $URL out && cd out && git branch new && git commit -q --allow-empty -m x && git push origin :",
    ),
    row(
        "remote.push",
        "git clone -q $URL out && cd out && git config remote.origin.push 'refs/heads/main:refs/heads/review' && git push origin",
    ),
    row(
        "remote.pushDefault",
        "git clone -q $URL out && cd out && git remote rename origin up && git config remote.pushDefault up && git commit -q --allow-empty -m x && git -c push.default=current push",
    ),
    row(
        "pushInsteadOf",
        "git clone -q $URL out && cd out && git -c url.$URL.pushInsteadOf=short push short main:new",
    ),
    row("by URL", "git clone -q $URL out && cd out && git push $URL main:new"),
    row(
        "a branch that is none",
        "git clone -q $URL out && cd out && git push origin nothing",
    ),
    row(
        "an ambiguous name",
        "git clone -q $URL out && cd out && git tag main && git push origin main:refs/heads/x",
    ),
    row(
        "a name that is none",
        "git clone -q $URL out && cd out && git push origin 'main:refs/heads/a..b'",
    ),
    row(
        "not below refs",
        "git clone -q $URL out && cd out && git push origin main:odd/name",
    ),
    row(
        "for review",
        "git clone -q $URL out && cd out && git push origin HEAD:refs/for/main",
    ),
    row(
        "a blob to a branch",
        "git clone -q $URL out && cd out && git push origin HEAD:a.txt:refs/heads/blob",
    ),
    row(
        "a blob to a tag",
        "git clone -q $URL out && cd out && git push origin HEAD:a.txt:refs/tags/blob",
    ),
    row(
        "a tree to a tag",
        "git clone -q $URL out && cd out && git push origin 'HEAD^{tree}:refs/tags/tree'",
    ),
    row(
        "a tag to a branch",
        "git clone -q $URL out && cd out && git push origin v1:refs/heads/tagged",
    ),
    row(
        "a name below another",
        "git clone -q $URL out && cd out && git push origin main:refs/heads/main/below",
    ),
    row(
        "a name above another",
        "git clone -q $URL out && cd out && git push origin main:refs/changes/01",
    ),
    row(
        "a directory for a file",
        "git clone -q $URL out && cd out && git push origin :old main:refs/heads/old/new",
    ),
    row(
        "delete HEAD's branch",
        "git clone -q $URL out && cd out && git push origin :main",
    ),
    row(
        "from a detached HEAD",
        "git clone -q $URL out && cd out && git checkout -q --detach && git commit -q --allow-empty -m x && git push origin HEAD:main",
    ),
    row(
        "from a worktree",
        "git clone -q $URL out && cd out && git worktree add -q ../tree -b t && cd ../tree && git commit -q --allow-empty -m x && git push origin t",
    ),
    row(
        "from a bare repository",
        "git clone -q --bare $URL out && cd out && git push $URL main:refs/heads/x",
    ),
    row(
        "notes",
        "git clone -q $URL out && cd out && git notes add -m mine HEAD~1 && git push -f origin refs/notes/commits",
    ),
    row(
        "twice",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git push -q && git commit -q --allow-empty -m y && git push",
    ),
    row(
        "push.negotiate",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git -c push.negotiate=true push origin main",
    ),
    row(
        "push.useBitmaps",
        "git clone -q $URL out && cd out && git repack -q -a -d -b && git commit -q --allow-empty -m x && git -c push.useBitmaps=false push",
    ),
    row(
        "pack.useSparse",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git -c pack.useSparse=false push",
    ),
    row(
        "with an alternate",
        "git clone -q --shared $SEED out && cd out && seq 9 >n && git add n && git commit -qm n && git push $URL HEAD:new",
    ),
    row(
        "a large change",
        "git clone -q $URL out && cd out && seq 40000 >big.txt && git commit -qam big && git push",
    ),
    row(
        "many branches",
        "git clone -q $URL out && cd out && for i in 1 2 3 4 5 6 7 8 9; do git branch b$i HEAD~$((i%4)); done && git push origin 'refs/heads/b*:refs/heads/b*'",
    ),
    row(
        "from a shallow clone",
        "git clone -q --depth 1 $URL out && cd out && git commit -q --allow-empty -m x && git push origin main",
    ),
    row(
        "a branch from a shallow clone",
        "git clone -q --depth 2 $URL out && cd out && git checkout -q -b new && seq 4 >n && git add n && git commit -qm n && git push origin new",
    ),
    row(
        "from a shallow clone, old commits",
        "git clone -q --depth 2 --no-single-branch $URL out && cd out && git push origin origin/dev:refs/heads/copy",
    ),
    row(
        "from a foreign shallow clone",
        "git clone -q --depth 1 file://$SEED out && cd out && git push $URL HEAD:refs/heads/x",
    ),
    row(
        "unrelated from a shallow clone",
        "git init -q other && cd other && git commit -q --allow-empty -m 1 && git commit -q --allow-empty -m 2 && cd .. && git clone -q --depth 1 file://$PWD/other out && git -C out remote remove origin && cd out && git push $URL HEAD:refs/heads/x",
    ),
    // One reference would be cut, and the others are not: each is judged by itself.
    row(
        "some references of a shallow clone",
        "git init -q other && cd other && git commit -q --allow-empty -m 1 && git commit -q --allow-empty -m 2 && cd .. && \
         git clone -q --depth 1 file://$PWD/other out && cd out && git fetch -q $SEED main:m dev:d && git checkout -q -b more m && \
         seq 7 >n && git add n && git commit -qm n && git push $URL main:cut more:new HEAD~1:refs/heads/old2 d:refs/tags/d",
    ),
    row(
        "some references of a shallow clone, and a deletion",
        "git init -q other && cd other && git commit -q --allow-empty -m 1 && git commit -q --allow-empty -m 2 && cd .. && \
         git clone -q --depth 1 file://$PWD/other out && cd out && git fetch -q $SEED main:m && git checkout -q -b more m && \
         git commit -q --allow-empty -m x && git push $URL :dev main:cut more:main main:refs/tags/cut",
    ),
    row(
        "a merge with a cut history",
        "git init -q other && cd other && git commit -q --allow-empty -m 1 && git commit -q --allow-empty -m 2 && cd .. && \
         git clone -q --depth 1 file://$PWD/other out && cd out && git fetch -q $SEED main:m && git checkout -q -b more m && \
         git commit -q --allow-empty -m x && git branch kept && git merge -q --allow-unrelated-histories -m merged main && \
         git push $URL more:refs/heads/merged kept:refs/heads/kept",
    ),
    row(
        "a tag of a cut history",
        "git init -q other && cd other && git commit -q --allow-empty -m 1 && git commit -q --allow-empty -m 2 && cd .. && \
         git clone -q --depth 1 file://$PWD/other out && cd out && git fetch -q $SEED main:m && git tag -m t cut main && git tag -m t fine m && \
         git push $URL cut fine",
    ),
    row(
        "from a partial clone",
        "git clone -q --filter=blob:none $URL out && cd out && seq 4 >n && git add n && git commit -qm n && git push origin main",
    ),
    row(
        "a branch from a partial clone",
        "git clone -q --filter=tree:0 $URL out && cd out && git push origin main:new HEAD~1:refs/heads/old2",
    ),
    row(
        "merge from a partial clone",
        "git clone -q --filter=blob:none $URL out && cd out && git merge -q -m m origin/dev && git push",
    ),
    row(
        "from a sparse partial clone",
        "git clone -q --sparse --filter=blob:none $URL out && cd out && seq 4 >a.txt && git commit -qam n && git push",
    ),
    row(
        "a fetch after it",
        "git clone -q $URL out && git clone -q $URL two && cd out && git commit -q --allow-empty -m x && git push -q && cd ../two && git pull",
    ),
    // What the client has is behind a merge that the date cuts off from its other side.
    row(
        "a fetch by date into a shallow clone after it",
        "git clone -q $URL up && cd up && c() { GIT_AUTHOR_DATE=\"$1 +0000\" GIT_COMMITTER_DATE=\"$1 +0000\" git $2 -q -m $1 $3 $4; } && \
         git checkout -q -b s && c 1600700000 commit --allow-empty && c 1600800000 commit --allow-empty && c 1600900000 commit --allow-empty && \
         git checkout -q -b o HEAD~5 && c 1600650000 commit --allow-empty && git checkout -q s && c 1601000000 merge --no-ff o && \
         c 1601100000 commit --allow-empty && git push -q origin s s~2:refs/heads/mid && cd .. && \
         git clone -q --depth 1 -b mid $URL out && cd out && git fetch -q --shallow-since=1600750000 origin s && git log --format=%s FETCH_HEAD && \
         git log --format=%s mid",
    ),
    row(
        "a symbolic reference's target",
        "git clone -q $URL out && cd out && git commit -q --allow-empty -m x && git push origin main:main && git ls-remote --symref origin HEAD",
    ),
    row(
        "an unknown option",
        "git clone -q $URL out && cd out && git push --nothing origin main",
    ),
];

#[test]
fn pushes() {
    run("push", PUSH, true, &[Kind::Served]);
}

/// The same as [`PUSH`]'s, without a server of ours: the helper looks at the history itself.
#[test]
fn shallow_pushes() {
    let some: Vec<Row> = PUSH
        .iter()
        .filter(|row| row.name.contains("cut history") || row.name.contains("shallow clone"))
        .copied()
        .collect();
    run("shallow-push", &some, true, &[Kind::Archive]);
}
