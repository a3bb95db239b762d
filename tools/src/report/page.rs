//! One run, or several side by side, as one HTML page that needs nothing else: style, script and pictures
//! inside.
//!
//! From top to bottom: what was run, the few numbers that are looked at first, three charts (operations a
//! second, latency over time, latency by percentile), the tables of latencies and of failures, and the
//! setting. Of two runs the second is compared with the first.
//!
//! Invariant: every text of a run is escaped, since it comes from a file. Not here: how a chart is drawn
//! (`chart.rs`), what is counted (`data.rs`).

use std::fmt::Write;

use super::chart::{Axis, Chart, Line, escape};
use super::data::{FailureReport, KindReport, RunReport};
use super::units::{duration, grouped, memory, short};
use crate::client::run::Point;
use crate::measure::interval::Kind;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The whole page: `runs` is one run, two to compare, or a few to look at together.
pub fn page(runs: &[RunReport]) -> String {
    let title = runs.iter().map(|run| run.title.as_str()).collect::<Vec<_>>().join(" · ");
    let mut out = format!(
        "<!doctype html><html lang=en><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style><main>",
        title = escape(&title)
    );
    header(&mut out, runs);
    tiles(&mut out, runs);
    for chart in [throughput(runs), latency_over_time(runs), latency_by_percentile(runs)] {
        out.push_str(&chart.figure());
    }
    latencies(&mut out, runs);
    failures(&mut out, runs);
    setting(&mut out, runs);
    let _ = write!(out, "</main><script>{SCRIPT}</script></html>");
    out
}

/// The letter a run goes by when there are two.
fn letter(at: usize) -> char {
    (b'A' + at as u8) as char
}

fn header(out: &mut String, runs: &[RunReport]) {
    out.push_str("<header>");
    for (at, run) in runs.iter().enumerate() {
        let mark = match runs.len() {
            1 => String::new(),
            _ => format!("<b class=\"mark c{}\">{}</b>", at + 1, letter(at)),
        };
        let _ = write!(
            out,
            "<div><h1>{mark}{}</h1><p>{}<br>{}</p></div>",
            escape(&run.title),
            escape(&run.workload),
            escape(&run.server)
        );
    }
    out.push_str("</header>");
}

/// The few numbers that are looked at first: name, value of a run, whether more is better.
type Tile = (&'static str, fn(&RunReport) -> Option<f64>, fn(f64) -> String, Better);

#[derive(Clone, Copy, PartialEq)]
enum Better {
    More,
    Less,
}

const TILES: [Tile; 6] = [
    ("operations / second", |run| Some(run.rate), short, Better::More),
    ("median", |run| main_kind(run).map(|k| k.p50_us), duration, Better::Less),
    ("99 % within", |run| main_kind(run).map(|k| k.p99_us), duration, Better::Less),
    ("99.9 % within", |run| main_kind(run).map(|k| k.p999_us), duration, Better::Less),
    ("server CPU / operation", server_cpu, duration, Better::Less),
    ("server memory", server_memory, |kib| memory(kib as u64), Better::Less),
];

/// The kind that most operations are of.
fn main_kind(run: &RunReport) -> Option<&KindReport> {
    run.kinds.iter().max_by_key(|kind| kind.operations)
}

fn server_cpu(run: &RunReport) -> Option<f64> {
    let (user, system) = run.server_usage.as_ref()?.micros_per(run.operations);
    Some(user + system)
}

fn server_memory(run: &RunReport) -> Option<f64> {
    Some(run.server_usage.as_ref()?.resident_kib as f64)
}

fn tiles(out: &mut String, runs: &[RunReport]) {
    out.push_str("<section class=tiles>");
    for (name, value, text, better) in TILES {
        let values: Vec<Option<f64>> = runs.iter().map(value).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        let _ = write!(out, "<div><span>{name}</span>");
        for (at, value) in values.iter().enumerate() {
            let shown = value.map_or_else(|| "–".to_owned(), text);
            let _ = write!(out, "<strong class=\"t{}\">{shown}</strong>", at + 1);
        }
        if let [Some(before), Some(after)] = values[..]
            && before > 0.0
        {
            let change = after / before;
            let good = (change > 1.0) == (better == Better::More);
            let class = match (0.97..1.03).contains(&change) {
                true => "same",
                false if good => "good",
                false => "worse",
            };
            let _ = write!(out, "<em class={class}>B is {change:.2} × A</em>");
        }
        out.push_str("</div>");
    }
    out.push_str("</section>");
}

/// A name for a line: of two runs it begins with the run's letter, of more with its title.
fn named(runs: &[RunReport], at: usize, name: &str) -> String {
    match runs.len() {
        1 => name.to_owned(),
        2 => format!("{} {name}", letter(at)),
        _ => format!("{} {name}", runs[at].title),
    }
}

fn over_time(run: &RunReport, value: impl Fn(&Point) -> f64) -> Vec<(f64, f64)> {
    run.points.iter().map(|point| (f64::from(point.second) + 0.5, value(point))).collect()
}

fn troubles(runs: &[RunReport]) -> Vec<f64> {
    let bad = |p: &&Point| p.errors + p.retries + p.violations > 0;
    let all = runs.iter().flat_map(|run| run.points.iter());
    all.filter(bad).map(|point| f64::from(point.second) + 0.5).collect()
}

fn throughput(runs: &[RunReport]) -> Chart {
    let mut lines = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        lines.push(Line {
            name: named(runs, at, "all"),
            colour: at + 1,
            dashed: false,
            points: over_time(run, |point| point.total as f64),
        });
    }
    if let [run] = runs
        && run.kinds.len() > 1
    {
        for (slot, kind) in Kind::ALL.iter().enumerate() {
            if run.kinds.iter().any(|known| known.name == kind.name()) {
                lines.push(Line {
                    name: kind.name().to_owned(),
                    colour: lines.len() + 1,
                    dashed: true,
                    points: over_time(run, |point| point.operations[slot] as f64),
                });
            }
        }
    }
    Chart {
        title: "Throughput over time".into(),
        note: "Operations completed in each second; the warm-up is drawn and not counted.".into(),
        x: Axis::Seconds,
        y: Axis::Rate,
        lines,
        troubles: troubles(runs),
    }
}

fn latency_over_time(runs: &[RunReport]) -> Chart {
    let mut lines = Vec::new();
    type Value = fn(&Point) -> f64;
    let values: [(&str, Value, usize); 3] =
        [("median", |p| p.p50_us, 1), ("99 %", |p| p.p99_us, 3), ("slowest", |p| p.max_us, 2)];
    for (at, run) in runs.iter().enumerate() {
        for (name, value, colour) in values {
            // Many runs with many lines each are a tangle.
            if runs.len() > 1 && name == "slowest" || runs.len() > 2 && name == "median" {
                continue;
            }
            let points = over_time(run, value).into_iter().filter(|p| p.1 > 0.0).collect();
            let (colour, dashed) =
                if runs.len() > 1 { (at + 1, name == "median") } else { (colour, false) };
            lines.push(Line { name: named(runs, at, name), colour, dashed, points });
        }
    }
    Chart {
        title: "Latency over time".into(),
        note: latency_note(runs),
        x: Axis::Seconds,
        y: Axis::Latency,
        lines,
        troubles: troubles(runs),
    }
}

fn latency_note(runs: &[RunReport]) -> String {
    let closed = runs.iter().any(|run| run.rate_offered.is_none());
    if closed {
        "Closed loop: the client waits for the server, so stalls weigh less than they would on users."
    } else {
        "Open loop: counted from when each operation was meant to be sent, so stalls are in it."
    }
    .to_owned()
}

fn latency_by_percentile(runs: &[RunReport]) -> Chart {
    let mut lines = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        for (slot, kind) in run.kinds.iter().enumerate() {
            let main = main_kind(run).is_some_and(|main| main.name == kind.name);
            if runs.len() > 2 && !main {
                continue;
            }
            lines.push(Line {
                name: named(runs, at, &kind.name),
                // As in the picture of the throughput, where the first colour is that of all kinds.
                colour: match (runs.len(), run.kinds.len()) {
                    (1, 1) => 1,
                    (1, _) => slot + 2,
                    _ => at + 1,
                },
                dashed: runs.len() == 2 && slot > 0,
                points: kind.curve.clone(),
            });
        }
    }
    Chart {
        title: "Latency by percentile".into(),
        note: "How slow the slowest share is; each step to the right is ten times rarer.".into(),
        x: Axis::Quantile,
        y: Axis::Latency,
        lines,
        troubles: Vec::new(),
    }
}

fn latencies(out: &mut String, runs: &[RunReport]) {
    out.push_str(
        "<section><h2>Latencies</h2><div class=wide><table><tr><th><th>operations\
         <th>a second<th>mean<th>p50<th>p90<th>p99<th>p99.9<th>p99.99<th>max</tr>",
    );
    for (at, run) in runs.iter().enumerate() {
        for kind in &run.kinds {
            let _ = write!(
                out,
                "<tr><td>{}<td>{}<td>{}",
                escape(&named(runs, at, &kind.name)),
                grouped(kind.operations),
                grouped(kind.rate as u64)
            );
            let columns = [
                kind.mean_us,
                kind.p50_us,
                kind.p90_us,
                kind.p99_us,
                kind.p999_us,
                kind.p9999_us,
                kind.max_us,
            ];
            for micros in columns {
                let _ = write!(out, "<td>{}", duration(micros));
            }
            out.push_str("</tr>");
        }
    }
    out.push_str("</table></div></section>");
}

fn failures(out: &mut String, runs: &[RunReport]) {
    out.push_str("<section><h2>Errors</h2>");
    for (at, run) in runs.iter().enumerate() {
        let groups =
            [("failed", &run.errors), ("tried again", &run.retries), ("violated", &run.violations)];
        let who = if runs.len() == 1 { String::new() } else { format!("{}: ", letter(at)) };
        if groups.iter().all(|(_, failures)| failures.is_empty()) {
            let verified = if run.verified { ", and every read was verified" } else { "" };
            let _ = write!(out, "<p class=fine>{who}None{verified}.</p>");
            continue;
        }
        let _ = write!(out, "<p>{who}</p><div class=wide><table class=failures>");
        for (what, failures) in groups {
            for failure in failures {
                failure_row(out, what, failure);
            }
        }
        out.push_str("</table></div>");
    }
    for run in runs {
        if let Some(cause) = &run.cause {
            let _ = write!(out, "<p class=bad>Ended early: {}</p>", escape(cause));
        }
    }
    out.push_str("</section>");
}

fn failure_row(out: &mut String, what: &str, failure: &FailureReport) {
    let _ = write!(
        out,
        "<tr><td>{what}<td>{}<td>{}<td><code>{}</code></tr>",
        grouped(failure.count),
        escape(&failure.name),
        escape(failure.examples.first().map_or("", String::as_str))
    );
}

fn setting(out: &mut String, runs: &[RunReport]) {
    out.push_str("<section><h2>Setting</h2>");
    for (at, run) in runs.iter().enumerate() {
        let (user, system) = run.client_usage.micros_per(run.operations);
        let client = format!("{user:.2} + {system:.2} µs an operation (user + system)");
        let server = run.server_usage.as_ref().map_or_else(
            || "unknown (give --server-pid)".to_owned(),
            |usage| {
                let (user, system) = usage.micros_per(run.operations);
                format!("{user:.2} + {system:.2} µs an operation (user + system)")
            },
        );
        let seconds = format!("{:.1} s, after {} s of warm-up", run.seconds, run.warmup_s);
        if runs.len() > 1 {
            let _ = write!(out, "<h3>{} {}</h3>", letter(at), escape(&run.title));
        }
        out.push_str("<dl>");
        for (name, text) in [
            ("server", &run.server),
            ("load", &run.load),
            ("counted", &seconds),
            ("server CPU", &server),
            ("client CPU", &client),
            ("client machine", &run.host),
            ("tool", &run.tool),
            ("command", &run.command),
        ] {
            let _ = write!(out, "<dt>{name}<dd>{}", escape(text));
        }
        out.push_str("</dl>");
    }
    out.push_str("</section>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::data::tests::example;

    #[test]
    fn a_page_stands_alone_and_escapes_what_it_shows() {
        let one = page(&[example()]);
        assert!(one.contains("&lt;too&gt; much"), "words of a server are text");
        for outside in ["http:", "https:", "src=", "href=", "@import", "NaN", "inf"] {
            assert!(!one.contains(outside), "{outside}");
        }
    }

    #[test]
    fn two_runs_are_compared() {
        let faster = RunReport { rate: 1000.0, ..example() };
        let two = page(&[example(), faster]);
        assert!(two.contains("<em class=good>B is 2.00 × A</em>"));
        assert!(two.contains("B read"));
    }
}
