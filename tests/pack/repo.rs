//! Repositories to test with: generated ones, and a real one named by the environment.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use znippy::pack::disk::DiskPack;

/// A git directory.
pub struct Repo {
    _dir: Option<tempfile::TempDir>,
    pub path: PathBuf,
    pub format: gix_hash::Kind,
}

impl Repo {
    /// Creates an empty bare repository.
    pub fn empty(format: gix_hash::Kind) -> Repo {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("it.git");
        let repo = Repo {
            _dir: Some(dir),
            path,
            format,
        };
        std::fs::create_dir(&repo.path).unwrap();
        repo.git(&["init", "-q", "--bare", &format!("--object-format={format}")]);
        repo
    }

    /// Opens the repository that `ZNIPPY_TEST_REPO` names, for reading only.
    pub fn real() -> Option<Repo> {
        let path = PathBuf::from(std::env::var_os("ZNIPPY_TEST_REPO")?);
        let mut repo = Repo {
            _dir: None,
            path,
            format: gix_hash::Kind::Sha1,
        };
        if repo.git(&["rev-parse", "--show-object-format"]) == "sha256" {
            repo.format = gix_hash::Kind::Sha256;
        }
        Some(repo)
    }

    /// Returns whether it was cloned with a filter, so that objects may be missing.
    pub fn has_gaps(&self) -> bool {
        self.packs().iter().any(|pack| pack.with_extension("promisor").exists())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.path).args(args);
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        command
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", "/nonexistent")
            .env("LC_ALL", "C");
        command
            .env("GIT_AUTHOR_NAME", "A")
            .env("GIT_AUTHOR_EMAIL", "a@example.com");
        command
            .env("GIT_COMMITTER_NAME", "C")
            .env("GIT_COMMITTER_EMAIL", "c@example.com");
        command
    }

    /// Runs git and returns what it did, whatever that was.
    pub fn try_git(&self, args: &[&str], input: &[u8]) -> Output {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("git is installed");
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let _ = stdin.write_all(input);
            });
            child.wait_with_output().unwrap()
        })
    }

    /// Runs git with `input` and returns its trimmed standard output; panics where it fails.
    pub fn git_with(&self, args: &[&str], input: &[u8]) -> String {
        let output = self.try_git(args, input);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "git {args:?} in {}: {}\n{stderr}",
            self.path.display(),
            output.status
        );
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// As [`Repo::git_with`], without input.
    pub fn git(&self, args: &[&str]) -> String {
        self.git_with(args, b"")
    }

    /// Packs everything that is reachable into one pack (and one cruft-free pack only) and returns its path.
    pub fn repack(&self, args: &[&str]) -> PathBuf {
        let mut all = vec!["repack", "-q", "-a", "-d"];
        all.extend(args);
        self.git(&all);
        let packs = self.packs();
        assert_eq!(packs.len(), 1, "repack left one pack");
        packs.into_iter().next().unwrap()
    }

    /// Returns the packs of the repository in name order.
    pub fn packs(&self) -> Vec<PathBuf> {
        let git_dir = PathBuf::from(self.git(&["rev-parse", "--absolute-git-dir"]));
        let mut packs: Vec<_> = std::fs::read_dir(git_dir.join("objects/pack"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "pack"))
            .collect();
        packs.sort();
        packs
    }

    pub fn open(&self, pack: &Path) -> DiskPack {
        DiskPack::open(pack, self.format).unwrap()
    }

    /// Builds a history of `commits` commits on a few branches with merges, directories, deletions, odd names, modes and
    /// dates, and tags of all kinds, from `seed`. The same seed gives the same history.
    pub fn generated(format: gix_hash::Kind, seed: u64, commits: usize) -> Repo {
        let repo = Repo::empty(format);
        let mut random = Random(seed);
        let mut stream = Vec::new();
        let branches = ["main", "topic/one", "topic/two", "old"];
        let mut tips: Vec<Option<usize>> = vec![None; branches.len()];
        for mark in 1..=commits {
            let at = if mark == 1 { 0 } else { random.below(branches.len()) };
            // Some committers' clocks are wrong by days.
            let skew = if random.below(10) == 0 {
                random.below(400_000) as i64 - 200_000
            } else {
                0
            };
            let time = 1_600_000_000 + mark as i64 * 3600 + skew;
            writeln!(stream, "commit refs/heads/{}\nmark :{mark}", branches[at]).unwrap();
            writeln!(stream, "author A \u{e4} <a@example.com> {} +0200", time - 100).unwrap();
            writeln!(stream, "committer C <c@example.com> {time} -0130").unwrap();
            let message = format!("change {mark}\n\nWhy: {}\n", random.next());
            writeln!(stream, "data {}\n{message}", message.len()).unwrap();
            let from = tips[at].or(if mark == 1 {
                None
            } else {
                Some(1 + random.below(mark - 1))
            });
            // A rare second root.
            let from = from.filter(|_| mark == 1 || random.below(40) != 0);
            if let Some(from) = from {
                writeln!(stream, "from :{from}").unwrap();
                if random.below(6) == 0 {
                    let other = 1 + random.below(mark - 1);
                    if other != from {
                        writeln!(stream, "merge :{other}").unwrap();
                    }
                }
            } else if tips[at].is_some() {
                writeln!(stream, "deleteall").unwrap();
            }
            tips[at] = Some(mark);
            for _ in 0..1 + random.below(4) {
                let directory = ["", "src/", "src/deep/er/", "doc dir/", "a.b/"][random.below(5)];
                let path = format!("{directory}file{}.txt", random.below(30));
                match random.below(12) {
                    0 if from.is_some() => writeln!(stream, "D {path}").unwrap(),
                    1 => {
                        let module = "0123456789".repeat(7);
                        writeln!(
                            stream,
                            "M 160000 {} module{}",
                            &module[..format.len_in_hex()],
                            random.below(3)
                        )
                        .unwrap()
                    }
                    kind => {
                        let mode = ["100644", "100755", "120000"][if (2..4).contains(&kind) { kind - 1 } else { 0 }];
                        writeln!(stream, "M {mode} inline \"{path}\"").unwrap();
                        let mut text = format!("{}\n", random.below(5));
                        for line in 0..random.below(60) {
                            text += &format!("line {line} of {path} {}\n", random.below(3));
                        }
                        writeln!(stream, "data {}\n{text}", text.len()).unwrap();
                    }
                }
            }
        }
        for (number, at) in [1, commits / 2, commits].into_iter().enumerate() {
            writeln!(
                stream,
                "tag v{number}\nfrom :{at}\ntagger T <t@example.com> 1700000000 +0000\ndata 3\ntag"
            )
            .unwrap();
        }
        writeln!(stream, "done").unwrap();
        repo.git_with(&["fast-import", "--quiet", "--done", "--date-format=raw"], &stream);
        // A tag of a tag, of a tree and of a blob, and refs that name them without a tag.
        let of = |spec: &str| repo.git(&["rev-parse", spec]);
        repo.git(&["tag", "-a", "-m", "nested", "nested", "v1"]);
        repo.git(&["tag", "-a", "-m", "tree", "of-tree", &of("main^{tree}")]);
        let blob = repo.git_with(&["hash-object", "-w", "--stdin"], b"a blob that only a tag names");
        repo.git(&["tag", "-a", "-m", "blob", "of-blob", &blob]);
        repo.git(&["update-ref", "refs/odd/tree", &of("v0^{tree}")]);
        let blob = repo.git_with(&["hash-object", "-w", "--stdin"], b"a blob that only a ref names");
        repo.git(&["update-ref", "refs/odd/blob", &blob]);
        repo
    }
}

/// A small deterministic generator (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
