//! What the user sees: messages and progress on standard error.

use std::{
    io::{self, Write},
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
    line("fatal: ", &format!("{error:#}"));
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
pub struct Progress {
    title: &'static str,
    /// Bytes, shown in MiB.
    bytes: bool,
    started: Instant,
    next: Instant,
    shown: bool,
    enabled: bool,
    last: (u64, u64),
}

/// Short work should not flicker, long work should show within two seconds.
const DELAY: Duration = Duration::from_millis(900);
const INTERVAL: Duration = Duration::from_millis(250);

impl Progress {
    /// Starts a phase counted in `bytes` or in things.
    pub fn new(voice: Voice, title: &'static str, bytes: bool) -> Self {
        let started = Instant::now();
        let enabled = voice.shows_progress();
        Progress {
            title,
            bytes,
            started,
            next: started + DELAY,
            shown: false,
            enabled,
            last: (0, 0),
        }
    }

    /// Says how far the work is; `total` 0 = unknown.
    pub fn update(&mut self, done: u64, total: u64) {
        self.last = (done, total);
        if !self.enabled {
            return;
        }
        let now = Instant::now();
        if now >= self.next {
            self.next = now + INTERVAL;
            self.shown = true;
            self.print("\r");
        }
    }

    fn print(&self, end: &str) {
        let (done, total) = self.last;
        let percent = match total {
            0 => String::new(),
            total => format!(" {:3}%", u128::from(done) * 100 / u128::from(total)),
        };
        let amount = match (self.bytes, total) {
            (true, _) => {
                let seconds = self.started.elapsed().as_secs_f64().max(0.001);
                format!("{:.2} MiB | {:.2} MiB/s", mib(done as f64), mib(done as f64 / seconds))
            }
            (false, 0) => format!("{done}"),
            (false, total) => format!("({done}/{total})"),
        };
        let _ = io::stderr().write_all(format!("{}:{percent} {amount}{end}", self.title).as_bytes());
    }
}

fn mib(bytes: f64) -> f64 {
    bytes / (1024.0 * 1024.0)
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let complete = self.last.1 != 0 && self.last.0 >= self.last.1;
            self.print(if complete { ", done.\n" } else { ".\n" });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(escaped("a\u{1b}[31mb\rc"), "a\\u{1b}[31mb\\u{d}c");
        assert_eq!(escaped("a\nfatal: b"), "a\n  fatal: b");
        assert_eq!(escaped("naïve ☃ \u{202e}x"), "naïve ☃ \\u{202e}x");
    }
}
