//! A run on a terminal: one table, and what went wrong.
//!
//! ```text
//! title · workload
//! server · load
//!
//!                      operations   per second      mean       p50       p99     p99.9       max
//! read                        ..                                  a line for each kind
//! all                         ..
//! CPU per operation: ..
//! what was proved: 1,234
//! retried: .., failed: .., VIOLATED: ..             each with its first examples
//! 0 errors · every read verified: 0 violations · .. the verdict
//! ```
//!
//! Invariant: the lines `what was proved: COUNT` are read by `ci/src/load.rs`.
//!
//! Not here: the figures (`report/data.rs`), the page (`report/page.rs`), how a number is written (`report/units.rs`).

use std::fmt::Write;

use super::data::{FailureReport, RunReport};
use super::units::{duration, grouped, memory, short};

/// The whole summary.
pub fn summary(report: &RunReport) -> String {
    let mut out = String::new();
    line(&mut out, &format!("{} · {}", report.title, report.workload));
    line(&mut out, &format!("{} · {}", report.server, report.load));
    line(&mut out, "");
    table(&mut out, report);
    line(&mut out, "");
    line(&mut out, &cpu(report));
    for (name, count) in &report.proved {
        line(&mut out, &format!("{name}: {}", grouped(*count)));
    }
    for (what, failures) in
        [("retried", &report.retries), ("failed", &report.errors), ("VIOLATED", &report.violations)]
    {
        failed(&mut out, what, failures);
    }
    line(&mut out, &verdict(report));
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn table(out: &mut String, report: &RunReport) {
    let heads = ["", "operations", "per second", "mean", "p50", "p99", "p99.9", "max"];
    let row = |cells: [String; 8]| {
        let mut text = format!("{:<18}", cells[0]);
        for (at, cell) in cells.iter().enumerate().skip(1) {
            let width = if at <= 2 { 13 } else { 10 };
            let _ = write!(text, "{cell:>width$}");
        }
        text
    };
    line(out, &row(heads.map(str::to_owned)));
    for kind in &report.kinds {
        line(
            out,
            &row([
                kind.name.clone(),
                grouped(kind.operations),
                grouped(kind.rate as u64),
                duration(kind.mean_us),
                duration(kind.p50_us),
                duration(kind.p99_us),
                duration(kind.p999_us),
                duration(kind.max_us),
            ]),
        );
    }
    let all = format!(
        "{:<18}{:>13}{:>13}   in {:.1} s",
        "all",
        grouped(report.operations),
        grouped(report.rate as u64),
        report.seconds
    );
    line(out, &all);
}

fn cpu(report: &RunReport) -> String {
    let (user, system) = report.client_usage.micros_per(report.operations);
    let mut text = format!("CPU per operation: client {user:.2} + {system:.2} µs (user + system)");
    if let Some(server) = &report.server_usage {
        let (user, system) = server.micros_per(report.operations);
        let _ = write!(
            text,
            ", server {user:.2} + {system:.2} µs; server memory {} (at most {})",
            memory(server.resident_kib),
            memory(server.resident_max_kib)
        );
    }
    text
}

fn failed(out: &mut String, what: &str, failures: &[FailureReport]) {
    for failure in failures {
        line(out, &format!("{what}: {} {}", grouped(failure.count), failure.name));
        for example in &failure.examples {
            line(out, &format!("  {example}"));
        }
    }
}

fn verdict(report: &RunReport) -> String {
    let sum = |failures: &[FailureReport]| failures.iter().map(|f| f.count).sum::<u64>();
    let mut parts = vec![format!("{} errors", grouped(sum(&report.errors)))];
    if report.verified {
        parts.push(format!("every read verified: {} violations", sum(&report.violations)));
    }
    if report.not_found > 0 {
        parts.push(format!("{} reads found nothing", grouped(report.not_found)));
    }
    if let Some(offered) = report.rate_offered {
        parts.push(format!("{} of {} a second offered", short(report.rate), short(offered)));
    }
    if report.behind > 0 {
        parts.push(format!("{} due and never sent", grouped(report.behind)));
    }
    if let Some(cause) = &report.cause {
        parts.push(format!("ENDED EARLY: {cause}"));
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::data::tests::example;

    #[test]
    fn the_summary_shows_what_matters() {
        let text = summary(&example());
        for part in ["read", "1,000", "990 µs", "client 4.00 + 6.00", "server 20.00 + 0.00"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.contains("failed: 1 overloaded\n  <too> much\n1 errors"), "{text}");
    }
}
