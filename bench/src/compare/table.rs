//! The comparison as a table of `docs/benchmarks.md`.

use std::fmt::Write;

use super::contender::Contender;
use super::steal::STEAL_PERCENT_MAX;
use super::work::{Cost, Latency, Pressure, Work};

/// What was measured: each contender's cost of each work.
pub type Results = Vec<(Work, Pressure, Vec<(Contender, Cost)>)>;

/// Latency of each contender at each rate of the open loop.
pub type Latencies = Vec<(Contender, Vec<Latency>)>;

/// The latencies in Markdown, a line for each rate; empty if there are none.
pub fn latency_table(latencies: &Latencies) -> String {
    let measured: Vec<_> = latencies.iter().filter(|(_, lines)| !lines.is_empty()).collect();
    let Some((_, first)) = measured.first() else { return String::new() };
    let mut out = String::from("\n| Open loop, half read, half update |");
    for (contender, _) in &measured {
        let _ = write!(out, " {} |", contender.title());
    }
    out.push_str("\n|---|");
    measured.iter().for_each(|_| out.push_str("---|"));
    out.push('\n');
    for (place, line) in first.iter().enumerate() {
        let _ = write!(out, "| {} a second |", line.rate);
        for (_, lines) in &measured {
            let Latency { p50_ms, p99_ms, p999_ms, cpu_us, steal_percent, behind, .. } =
                lines[place];
            let _ = write!(
                out,
                " p50 {p50_ms:.2} · p99 {p99_ms:.1} · p99.9 {p999_ms:.1} ms · {cpu_us:.0} µs{}{} |",
                behind_mark(behind),
                mark(steal_percent)
            );
        }
        out.push('\n');
    }
    out
}

/// The table in Markdown.
pub fn table(results: &Results) -> String {
    let mut out = String::new();
    let Some((_, _, first)) = results.first() else { return out };
    out.push_str("| Work | connections × in flight |");
    for (contender, _) in first {
        let _ = write!(out, " {} |", contender.title());
    }
    out.push_str("\n|---|---|");
    first.iter().for_each(|_| out.push_str("---|"));
    out.push('\n');
    for (work, pressure, costs) in results {
        let _ =
            write!(out, "| {} | {} × {} |", work.title(), pressure.connections, pressure.in_flight);
        for (_, cost) in costs {
            let _ = write!(out, " {} |", cell(cost));
        }
        out.push('\n');
    }
    out
}

/// ` · steal 8.6 %` after a measurement that had too much of it at best.
fn mark(steal_percent: f64) -> String {
    match steal_percent > STEAL_PERCENT_MAX {
        true => format!(" · steal {steal_percent:.1} %"),
        false => String::new(),
    }
}

/// ` · 12 not sent` where the rate was not held.
fn behind_mark(behind: u64) -> String {
    if behind > 0 { format!(" · {behind} not sent") } else { String::new() }
}

/// `71 K/s · 22.0 + 4.5 µs · 2.1 calls · p99 67 ms`
fn cell(cost: &Cost) -> String {
    let calls = cost.syscalls.map_or_else(|| "–".to_owned(), |calls| format!("{calls:.2}"));
    let decimals = usize::from(cost.rate < 10_000.0);
    format!(
        "{:.decimals$} K/s · {:.1} + {:.1} µs · {calls} calls · p99 {:.1} ms{}",
        cost.rate / 1000.0,
        cost.user_us,
        cost.system_us,
        cost.p99_ms,
        mark(cost.steal_percent)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_every_contender() {
        let cost = Cost { rate: 71_234.0, user_us: 22.04, system_us: 4.5, ..Cost::default() };
        let pressure = Pressure { connections: 100, in_flight: 16 };
        let results = vec![(Work::Read, pressure, vec![(Contender::Cassandra, cost)])];
        let text = table(&results);
        assert!(text.contains("| 100 × 16 | 71 K/s · 22.0 + 4.5 µs · – calls · p99 0.0 ms |"));
        assert!(cell(&Cost { rate: 540.0, ..cost }).starts_with("0.5 K/s"));
    }

    #[test]
    fn contenders_without_latencies_have_no_column() {
        let line = Latency {
            rate: 5000,
            p50_ms: 0.25,
            p99_ms: 3.0,
            p999_ms: 9.0,
            cpu_us: 21.4,
            behind: 12,
            steal_percent: 8.61,
        };
        let latencies = vec![(Contender::Messina, vec![line]), (Contender::Redis, Vec::new())];
        let text = latency_table(&latencies);
        assert!(text.contains(
            "| 5000 a second | p50 0.25 · p99 3.0 · p99.9 9.0 ms · 21 µs · 12 not sent · steal 8.6 % |"
        ));
        assert!(!text.contains("Redis") && latency_table(&Vec::new()).is_empty());
    }
}
