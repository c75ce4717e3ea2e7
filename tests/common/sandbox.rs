//! One directory, one environment, one transcript.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use bstr::ByteSlice;

/// The time of the first command, in seconds since 1970. Each command is a minute later than the one before.
const START: u64 = 1_700_000_000;

/// Returns the git under test.
pub fn test_git() -> PathBuf {
    if let Some(git) = std::env::var_os("ZNIPPY_TEST_GIT") {
        return git.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join("git"))
        .find(|git| git.is_file())
        .expect("git is on the path")
}

/// Returns bytes as text, with what is not UTF-8 as `\xNN`, so that different bytes stay different.
pub fn show(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// What a command did.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The exit code; 128 and the signal's number where a signal ended it, as a shell says it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Returns standard output without the space around it.
    pub fn text(&self) -> &str {
        self.stdout.trim()
    }
}

/// A directory with an environment of its own. Prints its transcript when the test fails.
pub struct Sandbox {
    dir: tempfile::TempDir,
    root: PathBuf,
    log: Mutex<String>,
    clock: AtomicU64,
    variables: Mutex<Vec<(String, OsString)>>,
}

impl Sandbox {
    /// Makes an empty sandbox.
    pub fn new() -> Sandbox {
        let mut dir = tempfile::Builder::new().prefix("znippy-test-").tempdir().unwrap();
        dir.disable_cleanup(std::env::var_os("ZNIPPY_TEST_KEEP").is_some());
        let root = dir.path().canonicalize().unwrap();
        for sub in [".bin", ".home/config", ".home/data", ".home/cache", ".tmp"] {
            fs::create_dir_all(root.join(sub)).unwrap();
        }
        symlink(test_git(), root.join(".bin/git")).unwrap();
        symlink(
            env!("CARGO_BIN_EXE_git-remote-znippy"),
            root.join(".bin/git-remote-znippy"),
        )
        .unwrap();
        symlink(env!("CARGO_BIN_EXE_znippy"), root.join(".bin/znippy")).unwrap();
        let sandbox = Sandbox {
            dir,
            root,
            log: Mutex::default(),
            clock: AtomicU64::new(START),
            variables: Mutex::default(),
        };
        let config = "[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n[gc]\n\tauto = 0\n\
                      [maintenance]\n\tauto = false\n[pull]\n\tff = only\n[fetch]\n\tparallel = 1\n";
        fs::write(sandbox.path(".home/.gitconfig"), config).unwrap();
        sandbox
    }

    /// Returns the sandbox's directory, without symbolic links in it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a path below the sandbox's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Sets an environment variable for all later commands.
    pub fn set(&self, name: &str, value: impl Into<OsString>) {
        self.variables.lock().unwrap().push((name.to_owned(), value.into()));
    }

    /// Sets the clock back, so that two sandboxes that were prepared in different ways make the same commits.
    pub fn restart_clock(&self) {
        self.clock.store(START, Ordering::Relaxed);
    }

    /// Returns a command that runs in `dir` below the sandbox with the sandbox's environment and nothing else.
    pub fn command(&self, dir: &str, program: &str) -> Command {
        let home = self.path(".home");
        let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/bin");
        let date = format!("{} +0000", self.clock.fetch_add(60, Ordering::Relaxed));
        let mut command = Command::new(program);
        command.current_dir(self.path(dir)).env_clear().stdin(Stdio::null());
        command.env(
            "PATH",
            format!(
                "{}:{scripts}:/usr/local/bin:/usr/bin:/bin:/usr/sbin",
                self.path(".bin").display()
            ),
        );
        command
            .env("HOME", &home)
            .env("TMPDIR", self.path(".tmp"))
            .env("LC_ALL", "C")
            .env("TZ", "UTC");
        command
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_CACHE_HOME", home.join("cache"));
        command
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_STATE_HOME", home.join("data"));
        command
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", home.join(".gitconfig"));
        command
            .env("GIT_AUTHOR_NAME", "A U Thor")
            .env("GIT_AUTHOR_EMAIL", "author@example.com");
        command
            .env("GIT_COMMITTER_NAME", "C O Mitter")
            .env("GIT_COMMITTER_EMAIL", "committer@example.com");
        command.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
        command
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_EDITOR", "true")
            .env("GIT_MERGE_AUTOEDIT", "no");
        command.env("RUST_BACKTRACE", "1").env("A", &self.root);
        command.envs(self.variables.lock().unwrap().iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end and notes it in the transcript.
    pub fn run(&self, mut command: Command) -> Ran {
        use std::os::unix::process::ExitStatusExt;
        let shown = command
            .get_args()
            .map(|arg| show(arg.as_encoded_bytes()))
            .collect::<Vec<_>>()
            .join(" ");
        let dir = command
            .get_current_dir()
            .map(|dir| dir.strip_prefix(&self.root).unwrap_or(dir).to_owned());
        let output = command.output().unwrap();
        let code = output
            .status
            .code()
            .unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0));
        let ran = Ran {
            code,
            stdout: show(&output.stdout),
            stderr: show(&output.stderr),
        };
        let program = command.get_program().to_string_lossy().into_owned();
        let head = format!("{}> {program} {shown}\n", dir.unwrap_or_default().display());
        let (stdout, stderr) = (clip(&ran.stdout), clip(&ran.stderr));
        self.log
            .lock()
            .unwrap()
            .push_str(&format!("{head}{stdout}{stderr}[exit {code}]\n"));
        ran
    }

    /// Runs a line of shell in `dir`.
    pub fn sh(&self, dir: &str, line: &str) -> Ran {
        let mut command = self.command(dir, "sh");
        command.args(["-c", line]);
        self.run(command)
    }

    /// Runs a line of shell that must succeed.
    #[track_caller]
    pub fn ok(&self, dir: &str, line: &str) -> Ran {
        let ran = self.sh(dir, line);
        assert_eq!(ran.code, 0, "{line}\n{}{}", ran.stdout, ran.stderr);
        ran
    }

    /// Runs a line of shell that must fail, and not by a signal or a panic.
    #[track_caller]
    pub fn fails(&self, dir: &str, line: &str) -> Ran {
        let ran = self.sh(dir, line);
        assert_ne!(ran.code, 0, "{line} should have failed\n{}{}", ran.stdout, ran.stderr);
        assert!(ran.code <= 128, "{line} ended with {}\n{}", ran.code, ran.stderr);
        assert!(!ran.stderr.contains("panicked at"), "{line} panicked\n{}", ran.stderr);
        ran
    }

    /// Returns what was run until now.
    pub fn transcript(&self) -> String {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log.lock().map(|log| log.clone()).unwrap_or_default();
            eprintln!("--- transcript of {} ---\n{log}--- end ---", self.root.display());
        }
    }
}

/// Shortens output that would bury the rest of a transcript.
fn clip(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.len() {
        0 => String::new(),
        1..=60 => format!("{}\n", lines.join("\n")),
        n => format!(
            "{}\n… {} lines …\n{}\n",
            lines[..40].join("\n"),
            n - 50,
            lines[n - 10..].join("\n")
        ),
    }
}
