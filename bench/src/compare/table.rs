//! The comparison as a table of `docs/benchmarks.md`.

use super::contender::Contender;
use super::work::{Cost, Pressure, Work};
use std::fmt::Write;

/// What was measured: each contender's cost of each work.
pub type Results = Vec<(Work, Pressure, Vec<(Contender, Cost)>)>;

/// The marks between which the table is kept.
const BEGIN: &str = "<!-- compare: begin -->";
const END: &str = "<!-- compare: end -->";

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

/// `71 K/s · 22.0 + 4.5 µs · 2.1 calls · p99 67 ms`
fn cell(cost: &Cost) -> String {
    let calls = cost.syscalls.map_or_else(|| "–".to_owned(), |calls| format!("{calls:.2}"));
    format!(
        "{:.0} K/s · {:.1} + {:.1} µs · {calls} calls · p99 {:.1} ms",
        cost.rate / 1000.0,
        cost.user_us,
        cost.system_us,
        cost.p99_ms
    )
}

/// `document` with `table` in the place that is marked for it; `None` without such a place.
pub fn put_into(document: &str, table: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_replaces_the_one_before() {
        let cost = Cost { rate: 71_234.0, user_us: 22.04, system_us: 4.5, ..Cost::default() };
        let pressure = Pressure { connections: 100, in_flight: 16 };
        let results = vec![(Work::Read, pressure, vec![(Contender::Cassandra, cost)])];
        let text = table(&results);
        assert!(text.contains("| 100 × 16 | 71 K/s · 22.0 + 4.5 µs · – calls · p99 0.0 ms |"));
        let once = put_into(&format!("# A\n{BEGIN}\nold\n{END}\nend\n"), &text).unwrap();
        assert!(!once.contains("old") && once.ends_with("\nend\n"));
        assert_eq!(put_into(&once, &text).unwrap(), once);
        assert_eq!(put_into("no place", &text), None);
    }
}
