//! Progress while a run is going: a bar on a terminal, a line every few seconds elsewhere; and what is said at its end.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

use crate::client::run::Point;
use crate::error::{Error, Result};
use crate::measure::interval::{Interval, failure_count};
use crate::report::units::{duration, grouped, short};

/// Seconds between two lines where there is no terminal.
const LINE_S: u32 = 5;

/// Prints a result; an error if it cannot be written, such as to a full disk.
pub fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let said = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    said.map_err(Error::io("printing the result"))
}

/// What the bar's full length stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// How many operations.
    Operations(u64),
    /// How many seconds.
    Seconds(u64),
}

/// The progress of one run.
#[derive(Debug)]
pub struct Console {
    bar: Option<ProgressBar>,
    goal: Goal,
    lines: bool,
    operations: u64,
    since_line: u64,
}

impl Console {
    /// Shows progress towards `goal` under the name `title`; nothing if `quiet`.
    pub fn new(title: &str, goal: Goal, quiet: bool) -> Console {
        let terminal = std::io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let length = match goal {
                Goal::Operations(count) | Goal::Seconds(count) => count,
            };
            let style = ProgressStyle::with_template("{prefix} {wide_bar:.blue} {msg}")
                .expect("the template is a constant that parses")
                .progress_chars("━╸─");
            ProgressBar::new(length).with_style(style).with_prefix(title.to_owned())
        });
        Console { bar, goal, lines: !terminal && !quiet, operations: 0, since_line: 0 }
    }

    /// A second is over.
    pub fn second(&mut self, point: &Point, total: &Interval) {
        self.operations += point.total;
        self.since_line += point.total;
        let wrong = failure_count(&total.errors) + failure_count(&total.violations);
        let trouble =
            if wrong > 0 { format!(" · {} WRONG", grouped(wrong)) } else { String::new() };
        if let Some(bar) = &self.bar {
            bar.set_position(match self.goal {
                Goal::Operations(_) => self.operations,
                Goal::Seconds(_) => u64::from(point.second) + 1,
            });
            bar.set_message(format!(
                "{}/s · p99 {}{trouble}",
                short(point.total as f64),
                duration(point.p99_us)
            ));
        } else if self.lines && (point.second + 1).is_multiple_of(LINE_S) {
            eprintln!(
                "{:>5} s  {:>12} operations  {:>9}/s  p99 {}{trouble}",
                point.second + 1,
                grouped(self.operations),
                short(self.since_line as f64 / f64::from(LINE_S)),
                duration(point.p99_us)
            );
            self.since_line = 0;
        }
    }

    /// The run is over.
    pub fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
