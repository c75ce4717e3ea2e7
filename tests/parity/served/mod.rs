//! Archives behind `znippy upload-pack`, `receive-pack` and `upload-archive`, as git sees them over `ext::`, and `git archive`: every
//! flag, on a bare repository and on an archive.
//!
//! A row is a name and lines of shell, which run in an empty directory with `$URL` (the remote), `$A` (the sandbox) and `$SEED`
//! (a repository with the same history) in their environment. Compared are the exit code, standard output, the lines in which
//! git tells what became of a reference, and of every repository that the lines leave behind: references, HEAD, reachable and
//! missing objects, `shallow`, the settings of remotes and branches, the work tree, and whether `git fsck` is content. For rows
//! that push, every row has a remote of its own, whose references are compared too.

mod archive;
mod part;
mod push;
mod shallow;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::common::{Ran, Sandbox, subject_is_file, without_reasons};

/// What two sides must have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Everything.
    Same,
    /// All but the output, for this reason.
    OtherWords(&'static str),
}

/// One scenario.
#[derive(Clone, Copy)]
pub struct Row {
    name: &'static str,
    script: &'static str,
    expect: Expect,
}

/// Returns a row that must be the same on both sides.
pub const fn row(name: &'static str, script: &'static str) -> Row {
    Row {
        name,
        script,
        expect: Expect::Same,
    }
}

impl Row {
    /// Says why the output is another one.
    pub const fn other_words(self, why: &'static str) -> Row {
        Row {
            expect: Expect::OtherWords(why),
            ..self
        }
    }
}

/// What the remote is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A bare repository, over `file://`.
    Bare,
    /// An archive, over `znippy::`.
    Archive,
    /// An archive behind `znippy upload-pack` and `znippy receive-pack`, over `ext::`.
    Served,
}

/// A remote with the history of the matrix.
struct Side {
    kind: Kind,
    sandbox: Sandbox,
}

/// The history: `main` with five commits, of which the third is tagged `v1` (annotated) and the fourth `light`; `dev` leaves main
/// after the second; `old` is the second; a merge; directories and files of some sizes; notes and a reference elsewhere.
const HISTORY: &str = "
git init -q seed && cd seed
at() { export GIT_AUTHOR_DATE=\"$1 +0000\" GIT_COMMITTER_DATE=\"$1 +0000\"; }
put() { mkdir -p $(dirname $1) && seq $2 >$1 && git add $1; }
at 1600000000; put a.txt 10; put dir/b.txt 500; put dir/deep/c.txt 20; git commit -qm one
at 1600100000; put a.txt 20; git commit -qm two; git branch old
at 1600200000; git checkout -q -b dev; put dev.txt 900; git commit -qm dev-one
at 1600300000; git checkout -q main; put dir/b.txt 600; git commit -qm three; git tag -m annotated v1
at 1600400000; git merge -q --no-ff -m merged dev; git tag light
at 1600500000; git checkout -q dev; put dev.txt 950; git commit -qm dev-two
at 1600600000; git checkout -q main; put big.txt 3000; git commit -qm five
git tag -m again v2 old; git notes add -m note main 2>/dev/null; git update-ref refs/changes/01/1 dev~1
cd .. && git clone -q --mirror seed all";

impl Side {
    fn new(kind: Kind) -> Side {
        let sandbox = Sandbox::new();
        sandbox.ok("", HISTORY);
        let remote = match kind {
            Kind::Bare => {
                let settings = "uploadpack.allowFilter=true uploadpack.allowAnySHA1InWant=true receive.advertisePushOptions=true \
                                receive.denyDeleteCurrent=ignore";
                sandbox.ok(
                    "",
                    &format!("git init -q --bare remote && for s in {settings}; do git -C remote config ${{s%=*}} ${{s#*=}}; done"),
                );
                format!("file://{}", sandbox.path("remote").display())
            }
            Kind::Archive | Kind::Served => format!("znippy::{}", sandbox.path("remote.znippy").display()),
        };
        sandbox.ok("all", &format!("git push -q --mirror {remote}"));
        Side { kind, sandbox }
    }

    /// Returns the remote's file or directory in `dir`.
    fn remote(&self, dir: &Path) -> PathBuf {
        dir.join(if self.kind == Kind::Bare {
            "remote"
        } else {
            "remote.znippy"
        })
    }

    /// Returns the URL of the remote in `dir`.
    fn url(&self, dir: &Path) -> String {
        let remote = self.remote(dir).display().to_string();
        match self.kind {
            Kind::Bare => format!("file://{remote}"),
            Kind::Archive => format!("znippy::{remote}"),
            // The URL must be one word: a script in the remote's directory knows the rest.
            Kind::Served => format!("ext::{}/serve-%s", dir.display()),
        }
    }

    /// Runs a row and returns what was seen: exit code, output, and state.
    fn play(&self, at: &str, row: &Row, writes: bool) -> [String; 3] {
        let dir = self.sandbox.path(at);
        std::fs::create_dir_all(dir.join("w")).unwrap();
        let home = match writes || self.kind == Kind::Served {
            true => {
                let from = self.remote(self.sandbox.root());
                self.sandbox.ok(at, &format!("cp -r {} .", from.display()));
                dir.clone()
            }
            false => self.sandbox.root().to_owned(),
        };
        if self.kind == Kind::Served {
            for service in ["upload-pack", "receive-pack", "upload-archive"] {
                use std::os::unix::fs::PermissionsExt;
                let script = format!("#!/bin/sh\nexec znippy {service} {}\n", self.remote(&dir).display());
                let path = dir.join(format!("serve-{service}"));
                std::fs::write(&path, script).unwrap();
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        let url = self.url(&home);
        let run = |script: &str| -> Ran {
            let mut command = self.sandbox.command(&format!("{at}/w"), "sh");
            command.env("URL", &url).env("SEED", self.sandbox.path("seed"));
            command
                .env("GIT_AUTHOR_DATE", "1700000000 +0000")
                .env("GIT_COMMITTER_DATE", "1700000000 +0000");
            let settings = [
                ("protocol.znippy.allow", "always".to_owned()),
                ("protocol.ext.allow", "always".to_owned()),
                ("protocol.file.allow", "always".to_owned()),
            ];
            command.env("GIT_CONFIG_COUNT", settings.len().to_string());
            for (number, (key, value)) in settings.iter().enumerate() {
                command
                    .env(format!("GIT_CONFIG_KEY_{number}"), key)
                    .env(format!("GIT_CONFIG_VALUE_{number}"), value);
            }
            command.args(["-c", script]);
            self.sandbox.run(command)
        };
        let ran = run(row.script);
        assert!(!ran.stderr.contains("panicked at"), "{}: {}", row.name, ran.stderr);
        let neutral = |text: &str| {
            text.replace(&url, "<url>")
                .replace(&dir.display().to_string(), "<here>")
                .replace(&self.sandbox.root().display().to_string(), "<root>")
        };
        let output = format!("{}{}", neutral(&ran.stdout), class(&neutral(&ran.stderr)));
        let mut state = neutral(&run(STATE).stdout);
        if writes {
            state.push_str(&neutral(&run("git ls-remote --symref $URL").stdout));
        }
        [ran.code.to_string(), output, state]
    }
}

/// Shows all repositories below the current directory. Nothing that is missing is fetched. git before 2.47 names commits in
/// `shallow` that are not there.
const STATE: &str = r#"
export GIT_NO_LAZY_FETCH=1
find . -maxdepth 4 -name HEAD -not -path '*/logs/*' -not -path '*/refs/*' -not -path '*/worktrees/*' | LC_ALL=C sort | while read head; do
    dir=$(dirname $head)
    echo "== $dir"
    cat $head
    git -C $dir for-each-ref --format='%(refname) %(objectname) %(symref)'
    [ -f $dir/shallow ] && while read id; do git -C $dir cat-file -e $id 2>/dev/null && echo $id; done <$dir/shallow
    git -C $dir rev-list --objects --all --missing=print --no-object-names 2>&1 | LC_ALL=C sort
    git -C $dir config --local --get-regexp '^(remote|branch|submodule|extensions)[.]' | grep -v -i znippyuuid | LC_ALL=C sort
    [ -d $dir/../.git ] && git -C $dir/.. ls-files -s
    ls $dir | grep -v -E '^(ORIG_HEAD|COMMIT_EDITMSG|logs|index|description|hooks|info|branches|objects|refs|packed-refs|config|gitk.cache|FETCH_HEAD)$'
    [ -f $dir/FETCH_HEAD ] && cat $dir/FETCH_HEAD
    ls $dir/objects/pack | grep -E -c '[.](promisor)$' | sed 's/[1-9][0-9]*/promised/'
    ls $dir/objects/pack | grep -E '^tmp|[.](keep|lock)$'
    git -C $dir fsck --connectivity-only --no-dangling >/dev/null 2>&1; echo "fsck $?"
done
find . -type f -not -path '*/.git/*' -not -path '*.git/*' -not -path '*/objects/*' -not -path '*/refs/*' -not -path '*/hooks/*' | LC_ALL=C sort | head -50
true"#;

/// Returns the lines in which git tells the user what became of a reference, or why it failed, without what differs by nature:
/// reasons that a remote words in its own way.
fn class(stderr: &str) -> String {
    let starts = [
        " * ",
        " ! ",
        " + ",
        " - ",
        " = ",
        " t ",
        "   ",
        "To <url>",
        "From <url>",
        "Everything up-to-date",
        "error: failed to push",
        "error: unable to delete",
        "error: src refspec",
        "warning: You appear",
        "fatal: Remote branch",
        "fatal: couldn't find",
        "fatal: --unshallow",
        "fatal: depth",
        "fatal: invalid filter",
        "fatal: refusing",
        "error: Server",
        "fatal: no such",
    ];
    let told = stderr
        .lines()
        .filter(|line| starts.iter().any(|start| line.starts_with(start)));
    without_reasons(&told.map(|line| format!("{line}\n")).collect::<String>())
}

/// Runs the rows of a table on a bare repository and on an archive that is reached in each of these ways.
#[track_caller]
pub fn run(table: &str, rows: &[Row], writes: bool, kinds: &[Kind]) {
    if subject_is_file() {
        return;
    }
    let bare = Side::new(Kind::Bare);
    let others: Vec<Side> = kinds.iter().map(|kind| Side::new(*kind)).collect();
    let next = AtomicUsize::new(0);
    let failures = std::sync::Mutex::new(Vec::new());
    let counted = AtomicUsize::new(0);
    let work = || {
        while let Some((number, row)) = rows
            .get(next.fetch_add(1, Ordering::Relaxed))
            .map(|row| (next.load(Ordering::Relaxed), row))
        {
            let at = format!(
                "{table}-{}",
                rows.iter().position(|each| std::ptr::eq(each, row)).unwrap_or(number)
            );
            let expected = bare.play(&at, row, writes);
            for other in &others {
                let found = other.play(&at, row, writes);
                counted.fetch_add(1, Ordering::Relaxed);
                if let Some(failure) = judge(row, other.kind, &expected, &found) {
                    failures.lock().unwrap().push(failure);
                }
                let _ = std::fs::remove_dir_all(other.sandbox.path(&at));
            }
            let _ = std::fs::remove_dir_all(bare.sandbox.path(&at));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let failures = failures.into_inner().unwrap();
    eprintln!("served: {table}: {} scenarios", counted.into_inner());
    assert!(
        failures.is_empty(),
        "{} of {table} differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Returns what is wrong with a row, if anything.
fn judge(row: &Row, kind: Kind, expected: &[String; 3], found: &[String; 3]) -> Option<String> {
    let same = match row.expect {
        Expect::Same => expected == found,
        Expect::OtherWords(why) => {
            assert!(!why.is_empty(), "{} has no reason", row.name);
            expected[0] == found[0] && expected[2] == found[2]
        }
    };
    if same {
        return None;
    }
    let side = if kind == Kind::Served { "served" } else { "archive" };
    let mut text = format!("--- {} ({side}): {}\n", row.name, row.script);
    for (what, expected, found) in [
        ("exit", &expected[0], &found[0]),
        ("output", &expected[1], &found[1]),
        ("state", &expected[2], &found[2]),
    ] {
        let only = |a: &str, b: &str, sign: char| {
            let lines = a.lines().filter(|line| !b.lines().any(|other| other == *line)).take(12);
            lines
                .map(|line| format!("  {what} {sign} {line}\n"))
                .collect::<String>()
        };
        text.push_str(&only(expected, found, '-'));
        text.push_str(&only(found, expected, '+'));
    }
    Some(text)
}
