//! The progress bar of verbs that take long.

use std::cell::Cell;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output::Output;

/// A bar on a terminal; nothing elsewhere or with --quiet.
pub struct Bar {
    bar: ProgressBar,
    /// The unit that the bar is drawn for.
    unit: Cell<&'static str>,
}

impl Bar {
    pub fn new(output: &Output) -> Bar {
        let target = if output.is_quiet() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        Bar {
            bar: ProgressBar::with_draw_target(None, target),
            unit: Cell::new(""),
        }
    }

    /// Shows that `done` of `total` is done of the stage that `message` names. Bytes are shown as such.
    pub fn show(&self, message: impl Into<std::borrow::Cow<'static, str>>, done: u64, total: u64, unit: &'static str) {
        if self.unit.replace(unit) != unit {
            let amount = match unit {
                "bytes" => "{bytes}/{total_bytes}".to_string(),
                unit => format!("{{human_pos}}/{{human_len}} {unit}"),
            };
            let template = format!("{{msg}} {{wide_bar}} {amount}, {{eta}}");
            let style = ProgressStyle::with_template(&template).expect("the template is valid");
            self.bar.set_style(style);
        }
        self.bar.set_message(message);
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
