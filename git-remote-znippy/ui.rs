//! What the user sees: messages and progress on standard error.

use std::{
    io::{self, Write},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use bstr::ByteSlice;

/// How much to tell: what git passed on of its own `-q`, `-v` and `--progress`.
#[derive(Debug, Clone, Copy)]
pub struct Voice {
    /// 0 with `-q`, 1 normally, 2 and more with `-v`.
    pub verbosity: u8,
    /// Whether to show progress.
    pub progress: bool,
}

impl Voice {
    /// Prints a warning, unless the user wants quiet.
    pub fn warning(self, text: impl std::fmt::Display) {
        if self.verbosity > 0 {
            line("warning: ", &text.to_string());
        }
    }

    /// Prints a remark, unless the user wants quiet.
    pub fn note(self, text: impl std::fmt::Display) {
        if self.verbosity > 0 {
            line("znippy: ", &text.to_string());
        }
    }

    /// Prints why something is refused: git itself shows no more than a word.
    pub fn reason(self, text: impl std::fmt::Display) {
        line("znippy: ", &text.to_string());
    }

    /// Prints what only `-v` asks for.
    pub fn detail(self, text: impl std::fmt::Display) {
        if self.verbosity > 1 {
            line("znippy: ", &text.to_string());
        }
    }

    /// Returns whether progress is shown.
    pub fn shows_progress(self) -> bool {
        self.progress && self.verbosity > 0
    }
}

/// Prints the message that ends the program.
pub fn fatal(error: &anyhow::Error) {
    line("fatal: ", &znippy::error::one_line(error.as_ref()));
}

/// Returns whether `error` says that git no longer reads what it asked for.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<GitWentAway>().is_some()
}

/// Standard output or input is closed: git ended before the dialogue did.
#[derive(Debug, thiserror::Error)]
#[error("git went away")]
pub struct GitWentAway;

/// One line in one write, so that lines of several processes do not mix. A closed standard error is nobody's problem.
fn line(prefix: &str, text: &str) {
    let text = format!("{prefix}{}\n", escaped(text));
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Returns `text` without the control characters that could make a terminal obey: text from an archive is somebody
/// else's.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\n' => out.push_str("\n  "),
            char if char.is_control() || is_invisible(char) => out.extend(char.escape_unicode()),
            char => out.push(char),
        }
    }
    out
}

/// Returns whether `char` reorders or hides the text around it.
fn is_invisible(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Returns bytes from an archive or a protocol line as text for a message.
pub fn text(bytes: &[u8]) -> String {
    bytes.to_str_lossy().into_owned()
}

/// A progress line in git's own form: `Copying pack:  45% (221/490), done.` Appears after a second of work.
///
/// A thread of its own shows it: a phase that waits for the disk or for git has nothing to report, but should not look dead.
pub struct Progress(Option<Shown>);

struct Shown {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    title: &'static str,
    /// Counted in bytes, shown in MiB.
    bytes: bool,
    started: Instant,
    done: AtomicU64,
    total: AtomicU64,
    /// The phase is over.
    ended: Mutex<bool>,
    wake: Condvar,
}

/// Short work should not flicker, long work should show within two seconds.
const DELAY: Duration = Duration::from_millis(900);
const INTERVAL: Duration = Duration::from_millis(250);

impl Progress {
    /// Starts a phase counted in `bytes` or in things.
    pub fn new(voice: Voice, title: &'static str, bytes: bool) -> Self {
        if !voice.shows_progress() {
            return Progress(None);
        }
        let state = Arc::new(State {
            title,
            bytes,
            started: Instant::now(),
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            ended: Mutex::new(false),
            wake: Condvar::new(),
        });
        let shown = Arc::clone(&state);
        // Where the system has no thread to give, nothing is shown.
        let thread = thread::Builder::new().spawn(move || shown.show()).ok();
        Progress(Some(Shown { state, thread }))
    }

    /// Says how far the work is; `total` 0 = unknown.
    pub fn update(&mut self, done: u64, total: u64) {
        if let Some(Shown { state, .. }) = &self.0 {
            state.done.store(done, Ordering::Relaxed);
            state.total.store(total, Ordering::Relaxed);
        }
    }
}

impl State {
    /// Shows the line until the phase ends.
    fn show(&self) {
        let mut pause = DELAY;
        let mut shown = false;
        loop {
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let wait = self.wake.wait_timeout_while(ended, pause, |ended| !*ended);
            let (ended, _) = wait.unwrap_or_else(PoisonError::into_inner);
            let end = match *ended {
                true if !shown => return,
                true if self.is_complete() => ", done.\n",
                true => ".\n",
                false => "\r",
            };
            let _ = io::stderr().write_all(format!("{}{end}", self.line()).as_bytes());
            if *ended {
                return;
            }
            (pause, shown) = (INTERVAL, true);
        }
    }

    fn is_complete(&self) -> bool {
        let total = self.total.load(Ordering::Relaxed);
        total != 0 && self.done.load(Ordering::Relaxed) >= total
    }

    fn line(&self) -> String {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        let percent = match total {
            0 => String::new(),
            total => format!(" {:3}%", u128::from(done) * 100 / u128::from(total)),
        };
        let elapsed = self.started.elapsed();
        let amount = match (self.bytes, done, total) {
            // Nothing to count: how long it takes is all there is to tell.
            (_, 0, 0) => format!("{} s", elapsed.as_secs()),
            (true, ..) => {
                let rate = mib(done as f64 / elapsed.as_secs_f64().max(0.001));
                format!("{:.2} MiB | {rate:.2} MiB/s", mib(done as f64))
            }
            (false, _, 0) => format!("{done}"),
            (false, ..) => format!("({done}/{total})"),
        };
        format!("{}:{percent} {amount}", self.title)
    }
}

fn mib(bytes: f64) -> f64 {
    bytes / (1024.0 * 1024.0)
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(Shown { state, thread }) = &mut self.0 {
            *state.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
            state.wake.notify_all();
            // The last line is written before anything that comes after it.
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r28_control_characters_do_not_reach_the_terminal() {
        assert_eq!(escaped("a\u{1b}[31mb\rc"), "a\\u{1b}[31mb\\u{d}c");
        assert_eq!(escaped("a\nfatal: b"), "a\n  fatal: b");
        assert_eq!(escaped("naïve ☃ \u{202e}x"), "naïve ☃ \\u{202e}x");
    }

    #[test]
    fn a_progress_line_tells_what_is_known() {
        let voice = |verbosity, progress| Voice { verbosity, progress };
        let line = |bytes, done, total| {
            let mut progress = Progress::new(voice(1, true), "Counting", bytes);
            progress.update(done, total);
            let shown = progress.0.as_ref().expect("shown");
            (shown.state.line(), shown.state.is_complete())
        };
        assert_eq!(line(false, 0, 0), ("Counting: 0 s".into(), false));
        assert_eq!(line(false, 7, 0), ("Counting: 7".into(), false));
        assert_eq!(line(false, 7, 28), ("Counting:  25% (7/28)".into(), false));
        assert_eq!(line(false, 28, 28), ("Counting: 100% (28/28)".into(), true));
        let (bytes, _) = line(true, 3 << 20, 6 << 20);
        assert!(bytes.starts_with("Counting:  50% 3.00 MiB | "), "{bytes}");
        assert!(Progress::new(voice(0, true), "Counting", false).0.is_none());
        assert!(Progress::new(voice(2, false), "Counting", false).0.is_none());
    }
}
