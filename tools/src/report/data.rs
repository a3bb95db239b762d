//! A run as data: what `--json` writes and `report` reads.
//!
//! ```text
//! Setting (what was asked for) + Outcome (what was measured) ─► RunReport ─► JSON ─► RunReport ─► page
//! ```
//!
//! Invariant: a file says its `FORMAT`, and one of another format is refused. Not here: how a run is shown
//! (`page.rs`, `summary.rs`).

use std::collections::BTreeMap;
use std::path::Path;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::client::run::{Outcome, Point};
use crate::error::{Error, Result};
use crate::measure::cpu::Usage;
use crate::measure::interval::{Failure, Interval, Kind};

/// The value of `format`.
pub const FORMAT: &str = "messina-load report 2";

/// Where the curve of latencies is sampled: `1 - 10^-(i / 10)` for `i` up to this.
const CURVE_STEPS: u32 = 60;

/// The report of one run, as JSON holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// The value of `FORMAT`.
    pub format: String,
    /// What to call this run.
    pub title: String,
    /// When its connections began to be opened, in seconds since 1970.
    pub started_s: u64,
    /// The command that made it.
    pub command: String,
    /// The version of the tool.
    pub tool: String,
    /// What was done, in words.
    pub workload: String,
    /// How it was done, in words.
    pub load: String,
    /// The server, in words.
    pub server: String,
    /// The machine of the client, in words.
    pub host: String,
    /// How long was counted.
    pub seconds: f64,
    /// Seconds before that, shown but not counted.
    pub warmup_s: u32,
    /// Operations that were counted.
    pub operations: u64,
    /// Operations a second.
    pub rate: f64,
    /// The rate that was asked for, in an open loop.
    pub rate_offered: Option<f64>,
    /// Operations that were due and never sent.
    pub behind: u64,
    /// Number of rows read.
    pub rows: u64,
    /// Reads that found nothing.
    pub not_found: u64,
    /// Whether every read was judged.
    pub verified: bool,
    /// How much was held against its rule, and outcomes that are not known, by name.
    pub proved: Vec<(String, u64)>,
    /// Latencies by kind of operation.
    pub kinds: Vec<KindReport>,
    /// What failed for good.
    pub errors: Vec<FailureReport>,
    /// What was tried again.
    pub retries: Vec<FailureReport>,
    /// The promises that the server broke, by kind.
    pub violations: Vec<FailureReport>,
    /// What this tool used.
    pub client_usage: Usage,
    /// What the server used, if its process is known.
    pub server_usage: Option<Usage>,
    /// Why the run ended before its time.
    pub cause: Option<String>,
    /// Second by second.
    pub points: Vec<Point>,
}

/// The latencies of one kind of operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KindReport {
    /// Name of the operation, such as `read`.
    pub name: String,
    /// Number of operations that succeeded.
    pub operations: u64,
    /// How many a second.
    pub rate: f64,
    /// In µs, like all below.
    pub mean_us: f64,
    /// The median latency.
    pub p50_us: f64,
    /// 90 % are faster.
    pub p90_us: f64,
    /// 99 % are faster.
    pub p99_us: f64,
    /// 99.9 % are faster.
    pub p999_us: f64,
    /// 99.99 % are faster.
    pub p9999_us: f64,
    /// The highest latency seen.
    pub max_us: f64,
    /// Latency by quantile.
    pub curve: Vec<(f64, f64)>,
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureReport {
    /// Name of the failure, such as `overloaded`.
    pub name: String,
    /// Number of times it happened.
    pub count: u64,
    /// The first few, in words.
    pub examples: Vec<String>,
}

/// What a run was, beside what it measured.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// See `RunReport`, like all below.
    pub title: String,
    /// The workload in words.
    pub workload: String,
    /// The load in words.
    pub load: String,
    /// The server in words.
    pub server: String,
    /// The offered rate.
    pub rate_offered: Option<f64>,
    /// Seconds of warm-up.
    pub warmup_s: u32,
    /// Whether reads were judged.
    pub verified: bool,
    /// When it began.
    pub started_s: u64,
}

impl RunReport {
    /// Puts a measured run into its setting.
    pub fn new(setting: Setting, outcome: &Outcome) -> RunReport {
        let operations = outcome.total.operations();
        let rate = operations as f64 / outcome.seconds.max(1e-9);
        RunReport {
            format: FORMAT.to_owned(),
            title: setting.title,
            started_s: setting.started_s,
            command: std::env::args().collect::<Vec<_>>().join(" "),
            tool: format!("messina-load {}", env!("CARGO_PKG_VERSION")),
            workload: setting.workload,
            load: setting.load,
            server: setting.server,
            host: host(),
            seconds: outcome.seconds,
            warmup_s: setting.warmup_s,
            operations,
            rate,
            rate_offered: setting.rate_offered,
            behind: outcome.behind,
            rows: outcome.total.rows,
            not_found: outcome.total.not_found,
            verified: setting.verified,
            proved: proved(&outcome.total),
            kinds: kinds(&outcome.total, outcome.seconds),
            errors: failures(&outcome.total.errors),
            retries: failures(&outcome.total.retries),
            violations: failures(&outcome.total.violations),
            client_usage: outcome.client,
            server_usage: outcome.server,
            cause: outcome.cause.as_ref().map(ToString::to_string),
            points: outcome.points.clone(),
        }
    }

    /// Reads the file that `--json` wrote.
    pub fn read(path: &Path) -> Result<RunReport> {
        let doing = format!("reading {}", path.display());
        let text = std::fs::read(path).map_err(Error::io(doing))?;
        let report: RunReport = serde_json::from_slice(&text)
            .map_err(|error| Error::Invalid(format!("{} is no report: {error}", path.display())))?;
        if report.format != FORMAT {
            return Err(Error::Invalid(format!(
                "{} has the format '{}', this tool reads '{FORMAT}'",
                path.display(),
                report.format
            )));
        }
        Ok(report)
    }

    /// Writes the file that `report` reads.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).expect("a report is numbers and strings");
        std::fs::write(path, text).map_err(Error::io(format!("writing {}", path.display())))
    }

    /// Whether anything went wrong that makes the numbers or the server doubtful.
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty() && self.violations.is_empty() && self.cause.is_none()
    }
}

fn kinds(total: &Interval, seconds: f64) -> Vec<KindReport> {
    let report = |kind: Kind| {
        let latencies = total.latencies(kind)?;
        let micros = |quantile: f64| latencies.value_at_quantile(quantile) as f64 / 1000.0;
        Some(KindReport {
            name: kind.name().to_owned(),
            operations: latencies.len(),
            rate: latencies.len() as f64 / seconds.max(1e-9),
            mean_us: latencies.mean() / 1000.0,
            p50_us: micros(0.5),
            p90_us: micros(0.9),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            p9999_us: micros(0.9999),
            max_us: micros(1.0),
            curve: curve(latencies),
        })
    };
    Kind::ALL.into_iter().filter_map(report).collect()
}

/// As far into the tail as the number of samples carries.
fn curve(latencies: &Histogram<u64>) -> Vec<(f64, f64)> {
    let finest = 1.0 / latencies.len().max(1) as f64;
    (0..=CURVE_STEPS)
        .map(|step| 10f64.powf(-f64::from(step) / 10.0))
        .take_while(|rest| *rest >= finest)
        .map(|rest| (1.0 - rest, latencies.value_at_quantile(1.0 - rest) as f64 / 1000.0))
        .collect()
}

fn failures(failures: &BTreeMap<String, Failure>) -> Vec<FailureReport> {
    failures
        .iter()
        .map(|(name, failure)| FailureReport {
            name: name.clone(),
            count: failure.count,
            examples: failure.examples.clone(),
        })
        .collect()
}

fn proved(total: &Interval) -> Vec<(String, u64)> {
    total.proved.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

/// Kernel, processor and number of cores.
fn host() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let kernel = read("/proc/sys/kernel/osrelease");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let model = model.map_or("unknown processor", |(_, model)| model);
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::measure::interval::note_failure;

    /// A run of two seconds with 1000 reads of 1 to 1000 µs and one error.
    pub(crate) fn example() -> RunReport {
        let mut total = Interval::new(0);
        (1..=1000u64).for_each(|micros| total.record(Kind::Read, micros * 1000));
        note_failure(&mut total.errors, "overloaded", || "<too> much".to_owned());
        let point = |second| Point {
            second,
            operations: std::array::from_fn(|kind| if kind == 0 { 500 } else { 0 }),
            total: 500,
            p50_us: 500.0,
            p99_us: 990.0,
            max_us: 1000.0,
            ..Point::default()
        };
        let outcome = Outcome {
            total,
            points: vec![point(0), point(1)],
            seconds: 2.0,
            drawn: 1001,
            behind: 0,
            client: Usage { user_ms: 4, system_ms: 6, ..Usage::default() },
            server: Some(Usage { user_ms: 20, resident_kib: 2048, ..Usage::default() }),
            cause: None,
        };
        let setting = Setting { title: "example".into(), ..Setting::default() };
        RunReport::new(setting, &outcome)
    }

    #[test]
    fn a_report_survives_its_file() {
        let report = example();
        assert_eq!((report.operations, report.rate), (1000, 500.0));
        assert!((report.kinds[0].p99_us - 990.0).abs() < 2.0);
        let (last, _) = report.kinds[0].curve[report.kinds[0].curve.len() - 1];
        assert!((0.998..=0.999_001).contains(&last), "1000 samples carry to 99.9 %: {last}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        report.write(&path).unwrap();
        let read = RunReport::read(&path).unwrap();
        assert_eq!(read.points, report.points);
        assert_eq!(read.errors, report.errors);
        assert!(!read.is_clean());
        std::fs::write(&path, "{}").unwrap();
        assert!(RunReport::read(&path).is_err());
    }
}
