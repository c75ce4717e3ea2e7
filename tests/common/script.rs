//! Scripts that run twice, on a bare repository and on an archive, and must be seen to do the same.
//!
//! A script is a list of lines `dir MARK command`. The command is a line of shell that runs in `dir` below the sandbox,
//! with `$URL` (the remote), `$PROTO` (its URL scheme), `$A` (the sandbox) in its environment. The mark says what must hold
//! on the bare repository already, so that both sides cannot agree on nothing:
//!
//! | mark | meaning |
//! |---|---|
//! | `$` | succeeds |
//! | `!` | fails |
//! | `=` | further: the remote's bytes stay as they are |
//! | `?` | further: the output is not compared, only the exit code |
//!
//! Compared after each line: exit code, standard output, and the lines of standard error in which git tells what became
//! of a reference. Compared at the end: the remote's references, HEAD and objects, and the same of every repository in the sandbox.

use std::path::PathBuf;

use super::{
    Sandbox, assert_no_leftovers, fingerprint,
    state::{reachable, refs_of, repositories, same},
    subject_is_file,
};

/// One of the two remotes that a script runs on.
pub struct Side {
    pub sandbox: Sandbox,
    /// The remote's URL.
    pub url: String,
    /// The bare repository or the archive.
    pub remote: PathBuf,
}

impl Side {
    /// Makes a sandbox whose remote is an empty bare repository.
    pub fn bare(format: &str, config: &[&str]) -> Side {
        let sandbox = Sandbox::new();
        let remote = sandbox.path("remote");
        sandbox.ok("", &format!("git init -q --bare --object-format={format} remote"));
        for setting in ["receive.advertisePushOptions=true", "receive.denyDeleteCurrent=ignore"]
            .iter()
            .chain(config)
        {
            let (key, value) = setting.split_once('=').unwrap();
            sandbox.ok("remote", &format!("git config {key} {value}"));
        }
        Side::finish(sandbox, format!("file://{}", remote.display()), remote, "file", format)
    }

    /// Makes a sandbox whose remote is an archive that does not exist yet.
    pub fn archive(format: &str, config: &[&str]) -> Side {
        if subject_is_file() {
            return Side::bare(format, config);
        }
        let sandbox = Sandbox::new();
        let remote = sandbox.path("remote.znippy");
        Side::finish(
            sandbox,
            format!("znippy::{}", remote.display()),
            remote,
            "znippy",
            format,
        )
    }

    fn finish(sandbox: Sandbox, url: String, remote: PathBuf, scheme: &str, format: &str) -> Side {
        sandbox.set("URL", &url);
        sandbox.set("PROTO", scheme);
        sandbox.set("GIT_DEFAULT_HASH", format);
        sandbox.restart_clock();
        Side { sandbox, url, remote }
    }

    /// Runs a script and returns what was seen.
    #[track_caller]
    pub fn play(&self, script: &str) -> Vec<(String, String)> {
        let mut seen = Vec::new();
        for line in script
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            seen.push(self.try_line(line).unwrap_or_else(|why| panic!("{why}")));
        }
        seen
    }

    /// Runs one line of a script and returns it with what was seen.
    ///
    /// # Errors
    /// Says how it did not do what its mark says.
    pub fn try_line(&self, line: &str) -> Result<(String, String), String> {
        let (head, command) = line.split_once(' ').expect("a line is `dirMARK command`");
        let dir = head.trim_end_matches(['$', '!', '=', '?']);
        let marks = &head[dir.len()..];
        let before = marks.contains('=').then(|| self.remote_bytes());
        let ran = self.sandbox.sh(dir, command);
        let wrong = |why: &str| Err(format!("{line}: {why}\n{}{}", ran.stdout, ran.stderr));
        match (marks.contains('!'), ran.code) {
            (false, 0) | (true, 1..=128) => {}
            (true, 0) => return wrong("should have failed"),
            (_, code) => return wrong(&format!("ended with {code}")),
        }
        if ran.stderr.contains("panicked at") {
            return wrong("panicked");
        }
        if before.is_some_and(|before| before != self.remote_bytes()) {
            return wrong("the remote was written to");
        }
        let mut saw = format!("exit {}\n", ran.code);
        if !marks.contains('?') {
            saw.push_str(&without_reasons(&self.neutral(&ran.stdout)));
            saw.push_str(&without_reasons(&status_lines(&self.neutral(&ran.stderr))));
        }
        Ok((line.to_owned(), saw))
    }

    /// Returns what the remote and all client repositories hold.
    #[track_caller]
    pub fn state(&self) -> Vec<(String, String)> {
        let listing = self.sandbox.ok("", "git ls-remote --symref $URL").stdout;
        let mut seen = vec![("ls-remote".to_owned(), listing)];
        self.sandbox.ok("", "git clone -q --mirror $URL .mirror");
        self.sandbox.ok(".mirror", "git fsck --full --strict --no-dangling");
        seen.push(("mirror: references".to_owned(), refs_of(&self.sandbox, ".mirror")));
        seen.push(("mirror: objects".to_owned(), reachable(&self.sandbox, ".mirror")));
        for name in repositories(&self.sandbox).into_iter().filter(|name| name != "remote") {
            let shown = "git config --local --get-regexp '^(remote|branch)[.]' | grep -v znippyuuid | LC_ALL=C sort";
            seen.push((format!("{name}: references"), refs_of(&self.sandbox, &name)));
            seen.push((format!("{name}: objects"), reachable(&self.sandbox, &name)));
            seen.push((
                format!("{name}: settings"),
                self.neutral(&self.sandbox.ok(&name, shown).stdout),
            ));
            self.sandbox.ok(&name, "git fsck --full --strict --no-dangling");
        }
        assert_no_leftovers(&self.sandbox);
        seen
    }

    /// Returns everything that an archive holds, and of a bare repository its references: it may keep rejected packs.
    fn remote_bytes(&self) -> Vec<u8> {
        match self.remote.is_dir() {
            true => ["HEAD", "packed-refs", "refs"]
                .map(|name| fingerprint(&self.remote.join(name)))
                .concat(),
            false => fingerprint(&self.remote),
        }
    }

    /// Replaces what differs between the sides by nature: the URL and the sandbox's path.
    pub fn neutral(&self, text: &str) -> String {
        let root = self.sandbox.root().display().to_string();
        text.replace(&self.url, "<url>").replace(&root, "<root>")
    }
}

/// Two sides and what is done to them.
pub struct Parity {
    format: &'static str,
    config: Vec<&'static str>,
    state: bool,
}

impl Parity {
    /// Returns a comparison with SHA-1 objects.
    pub fn new() -> Parity {
        Parity {
            format: "sha1",
            config: Vec::new(),
            state: true,
        }
    }

    /// Chooses the object format.
    pub fn format(mut self, format: &'static str) -> Parity {
        self.format = format;
        self
    }

    /// Sets something in the bare repository that an archive does anyway.
    pub fn bare_config(mut self, setting: &'static str) -> Parity {
        self.config.push(setting);
        self
    }

    /// Leaves out the comparison of the final states, which a script may make impossible.
    pub fn without_state(mut self) -> Parity {
        self.state = false;
        self
    }

    /// Runs `script` on both sides and compares.
    #[track_caller]
    pub fn run(self, script: &str) {
        let bare = Side::bare(self.format, &self.config);
        let expected = bare.play(script);
        let archive = Side::archive(self.format, &self.config);
        let found = archive.play(script);
        compare(&expected, &found);
        if self.state {
            compare(&bare.state(), &archive.state());
        }
    }
}

/// Runs `script` on a bare repository and on an archive and compares what was seen.
#[track_caller]
pub fn parity(script: &str) {
    Parity::new().run(script);
}

#[track_caller]
fn compare(expected: &[(String, String)], found: &[(String, String)]) {
    assert_eq!(expected.len(), found.len());
    for ((what, expected), (_, found)) in expected.iter().zip(found) {
        same(what, expected, found);
    }
}

/// Cuts off the reason after `[remote rejected]`, which is the remote's own words.
///
/// Which of the two a reference of a failed atomic push is called depends on who saw the failure first.
pub fn without_reasons(text: &str) -> String {
    let mut kept = String::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        if line.ends_with("(atomic push failed)") {
            line = line
                .replace("[rejected]       ", "[remote rejected]")
                .replace("[rejected]", "[remote rejected]");
        }
        if line.contains("[remote rejected]") {
            line.truncate(line.rfind(" (").unwrap_or(line.len()));
        }
        kept.push_str(&line);
        kept.push('\n');
    }
    kept
}

/// Returns the lines in which git tells the user what became of a reference.
fn status_lines(stderr: &str) -> String {
    let starts = [
        " * ",
        " ! ",
        " + ",
        " - ",
        " = ",
        " t ",
        "hint: ",
        "To <url>",
        "From <url>",
        "Everything up-to-date",
        "error: failed to push",
        "error: unable to delete",
        "error: src refspec",
        "warning: You appear",
    ];
    let mut kept = String::new();
    for line in stderr.lines() {
        let fast_forward = line.starts_with("   ") && line.contains("..") && line.contains(" -> ");
        if fast_forward || starts.iter().any(|start| line.starts_with(start)) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}
