//! The work that every contender does, and what it costs it.
//!
//! The work is the same for all: records of ten fields of 100 bytes (rows, or hashes of Redis), of which every one is
//! loaded; keys drawn uniformly; a read returns all ten fields, an update writes one of them. What reads before it
//! writes has data of its own, which `messina-load` makes: rows for conditional writes, counters, groups of ten
//! partitions. Redis has none of that.
//!
//! 1. Warm up: the work, without measuring it.
//! 2. Measure for some seconds, again while the host steals processor time. The measurement with the least steal
//!    counts.
//! 3. Do the work once more under `perf`, which counts the server's system calls.
//!
//! Invariants
//! 1. A number that is missing from a report is an error, and not 0.
//! 2. CPU is that of the server's process alone, divided by the operations of the same time.
//! 3. In an open loop latency counts from when an operation was meant to be sent. Redis has no client here that does
//!    so.
//!
//! Not here: starting servers (`contender.rs`), the clients of Redis (`redis.rs`), steal (`steal.rs`), the table
//! (`table.rs`).

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::NamedTempFile;

use super::contender::{Contender, Running};
use super::redis::{Redis, Timed};
use super::steal::{Measured, with_least_steal, with_steal};
use super::{Failed, Result, run_to_end};

/// Milliseconds of a clock tick of `/proc`.
const TICK_MS: f64 = 10.0;
/// The first second of a run, which is not measured.
const WARMUP: &str = "1s";
/// Rows of the table with an index: ten for each of the 64 values that `messina-load` asks for.
const INDEXED_ROWS: u64 = 640;
/// Operations by which the speed of Redis is found before it is measured.
const PROBE_OPERATIONS: u64 = 100_000;

/// One line of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Point reads of whole records that are in memory.
    Read,
    /// Updates of one field of 100 bytes, each durable before its answer.
    Update,
    /// Inserts of a new row of 100 bytes if it is not there.
    ConditionalInsert,
    /// Updates of 100 bytes if another column has its value.
    ConditionalUpdate,
    /// The same, all of one row.
    HotUpdate,
    /// Increments of a counter.
    Increment,
    /// Logged batches of 10 rows of 100 bytes in 10 partitions.
    Batch,
    /// Queries by an index that find 10 rows of 100 bytes.
    IndexedFind,
    /// Writes of rows of 100 bytes whose indexed column changes.
    IndexedWrite,
    /// Writes of rows of 100 bytes that change the partition in a view.
    ViewedWrite,
}

/// Works that are measured together and make one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Set {
    /// Reads and updates of records, and latency in an open loop.
    Plain,
    /// Conditional writes, counters, logged batches, indexes and views, of the servers that speak CQL.
    Dependent,
}

impl Set {
    /// The works and how hard clients press.
    pub fn works(self) -> &'static [(Work, Pressure)] {
        match self {
            Set::Plain => &WORKS,
            Set::Dependent => &DEPENDENT,
        }
    }

    /// The contenders, unless others are named.
    pub fn contenders(self) -> &'static [&'static str] {
        match self {
            Set::Plain => &["messina", "messina-unaware", "cassandra", "redis"],
            Set::Dependent => &["messina", "messina-unaware", "cassandra"],
        }
    }

    /// The place in the document.
    pub fn mark(self) -> &'static str {
        match self {
            Set::Plain => "compare",
            Set::Dependent => "compare-dependent",
        }
    }
}

/// How hard the clients press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// Number of connections of the client.
    pub connections: u32,
    /// Requests in flight on each.
    pub in_flight: u32,
}

/// How the work is measured.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The load tool.
    pub messina_load: PathBuf,
    /// Records that are loaded.
    pub records: u64,
    /// Seconds of each measurement.
    pub seconds: u32,
    /// Seconds before each that do not count; a server with a just-in-time compiler needs minutes.
    pub warmup_s: u32,
    /// The same for Cassandra.
    pub cassandra_warmup_s: u32,
    /// Rates of the open loop, in operations a second.
    pub rates: Vec<u32>,
    /// Measurements of one work or rate at most: they are repeated while there is steal.
    pub attempts_max: u32,
}

/// Latency in an open loop, counted from when an operation was meant to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Operations a second that were asked for.
    pub rate: u32,
    /// Median of the latency in ms.
    pub p50_ms: f64,
    /// 99th percentile of the latency in ms.
    pub p99_ms: f64,
    /// 99.9th percentile of the latency in ms.
    pub p999_ms: f64,
    /// CPU of the server per operation, user and system, in µs.
    pub cpu_us: f64,
    /// Operations that were due and never sent: with any, the rate was not held.
    pub behind: u64,
    /// Steal meanwhile, in percent of all processor time.
    pub steal_percent: f64,
}

/// What one work cost one contender.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Operations a second.
    pub rate: f64,
    /// CPU of the server per operation, in its own code.
    pub user_us: f64,
    /// And in the kernel.
    pub system_us: f64,
    /// System calls of the server per operation; `None` where `perf` cannot count them.
    pub syscalls: Option<f64>,
    /// 99 % were answered within.
    pub p99_ms: f64,
    /// Memory that the server holds.
    pub resident_mib: f64,
    /// Steal meanwhile, in percent of all processor time.
    pub steal_percent: f64,
}

/// What every contender does.
pub const WORKS: [(Work, Pressure); 4] = [
    (Work::Read, Pressure { connections: 100, in_flight: 1 }),
    (Work::Read, Pressure { connections: 100, in_flight: 16 }),
    (Work::Update, Pressure { connections: 100, in_flight: 1 }),
    (Work::Update, Pressure { connections: 100, in_flight: 16 }),
];

/// One request in flight on a connection, but where a goal is a rate.
const DEPENDENT: [(Work, Pressure); 9] = [
    (Work::ConditionalInsert, Pressure { connections: 100, in_flight: 1 }),
    (Work::ConditionalUpdate, Pressure { connections: 100, in_flight: 1 }),
    (Work::ConditionalUpdate, Pressure { connections: 100, in_flight: 16 }),
    (Work::HotUpdate, Pressure { connections: 100, in_flight: 1 }),
    (Work::Increment, Pressure { connections: 100, in_flight: 1 }),
    (Work::Batch, Pressure { connections: 100, in_flight: 1 }),
    (Work::IndexedFind, Pressure { connections: 100, in_flight: 1 }),
    (Work::IndexedWrite, Pressure { connections: 100, in_flight: 1 }),
    (Work::ViewedWrite, Pressure { connections: 100, in_flight: 1 }),
];

impl Work {
    /// Its name, as the table has it.
    pub fn title(self) -> &'static str {
        match self {
            Work::Read => "read 1 KB, in memory",
            Work::Update => "durable update",
            Work::ConditionalInsert => "conditional insert (IF NOT EXISTS)",
            Work::ConditionalUpdate => "conditional update (IF column = value)",
            Work::HotUpdate => "conditional update of one hot row",
            Work::Increment => "increment of a counter",
            Work::Batch => "logged batch of 10 rows in 10 partitions",
            Work::IndexedFind => "query of 10 rows by an index",
            Work::IndexedWrite => "write of a row with an index",
            Work::ViewedWrite => "write of a row with a view",
        }
    }

    /// What the load tool calls its data.
    fn data(self) -> &'static str {
        match self {
            Work::Read | Work::Update => "ycsb",
            Work::ConditionalInsert | Work::ConditionalUpdate | Work::HotUpdate => "conditional",
            Work::Increment => "counters",
            Work::Batch => "batches",
            Work::IndexedFind | Work::IndexedWrite => "indexed",
            Work::ViewedWrite => "views",
        }
    }

    /// Rows that are loaded, where the comparison has so many records.
    fn loaded(self, records: u64) -> u64 {
        match self {
            Work::IndexedFind | Work::IndexedWrite => INDEXED_ROWS,
            _ => records,
        }
    }

    /// Rows that the work is done on.
    fn used(self, records: u64) -> u64 {
        match self {
            Work::HotUpdate => 1,
            _ => self.loaded(records),
        }
    }

    /// What the load tool does.
    fn flags(self) -> [&'static str; 4] {
        let [workload, mix] = match self {
            Work::Read => ["a", "read=1"],
            Work::Update => ["a", "update=1"],
            Work::ConditionalInsert => ["conditional", "claim=1"],
            Work::ConditionalUpdate => ["conditional", "change=1"],
            Work::HotUpdate => ["conditional", "contend=1"],
            Work::Increment => ["counters", "increment=1"],
            Work::Batch => ["batches", "batch=1"],
            Work::IndexedFind => ["indexed", "find=1"],
            Work::IndexedWrite => ["indexed", "tag=1"],
            Work::ViewedWrite => ["views", "tag=1"],
        };
        ["--workload", workload, "--mix", mix]
    }
}

impl Setup {
    /// Fills the server with what these works need.
    pub fn load(&self, server: &Running, works: &[(Work, Pressure)]) -> Result<()> {
        if server.contender == Contender::Redis {
            return self.redis(server).load();
        }
        let mut filled: Vec<&str> = Vec::new();
        works.iter().try_for_each(|(work, _)| {
            if filled.contains(&work.data()) {
                return Ok(());
            }
            filled.push(work.data());
            let mut command = self.tool(server, "load", work.loaded(self.records));
            command.args(["--workload", work.data(), "--connections", "64", "--in-flight", "4"]);
            run_to_end(&mut command).map(drop)
        })
    }

    /// Measures one work; then repeats it to count system calls.
    pub fn measure(&self, server: &Running, work: Work, pressure: Pressure) -> Result<Cost> {
        self.warm_up(server, work, pressure)?;
        let Measured { value, steal_percent } = with_least_steal(self.attempts_max, || {
            with_steal(|| match server.contender {
                Contender::Redis => self.measure_redis(server, work, pressure),
                _ => self.measure_cql(server, work, pressure),
            })
        })?;
        let syscalls = self.syscalls_per_operation(server, work, pressure)?;
        let mut cost = Cost { steal_percent, syscalls, ..value };
        let resident = proc_number(server.pid, "status", "VmRSS:");
        let gone = || Failed(format!("process {} has no memory", server.pid));
        cost.resident_mib = resident.ok_or_else(gone)? / 1024.0;
        Ok(cost)
    }

    /// Measures latency at each rate, half reads and half updates, on 64 connections. Redis has no
    /// client here that keeps a schedule, so it has no such line.
    pub fn open_loop(&self, server: &Running) -> Result<Vec<Latency>> {
        if server.contender == Contender::Redis {
            return Ok(Vec::new());
        }
        let at = |&rate: &u32| {
            let measure = || with_steal(|| self.open_loop_at(server, rate));
            let Measured { value, steal_percent } = with_least_steal(self.attempts_max, measure)?;
            Ok(Latency { steal_percent, ..value })
        };
        self.rates.iter().map(at).collect()
    }

    fn open_loop_at(&self, server: &Running, rate: u32) -> Result<Latency> {
        let json = NamedTempFile::new().map_err(Failed::io("making a file for a result"))?;
        let mut command = self.tool(server, "run", self.records);
        command
            .args(["--mix", "read=1,update=1", "--connections", "64", "--in-flight", "16"])
            .args(["--rate", &rate.to_string(), "--duration", &format!("{}s", self.seconds)])
            .args(["--warmup", WARMUP, "--json"])
            .arg(json.path());
        run_to_end(&mut command)?;
        latency(rate, &read_json(&json)?)
    }

    fn redis<'s>(&self, server: &'s Running) -> Redis<'s> {
        Redis { server, records: self.records }
    }

    fn warmup_s(&self, server: &Running) -> u32 {
        match server.contender {
            Contender::Cassandra => self.cassandra_warmup_s,
            _ => self.warmup_s,
        }
    }

    fn tool(&self, server: &Running, verb: &str, records: u64) -> Command {
        let mut command = Command::new(&self.messina_load);
        command
            .args([verb, "--quiet", "--records", &records.to_string()])
            .args(["--host", &format!("127.0.0.1:{}", server.port)])
            .args(["--server-pid", &server.pid.to_string()]);
        if verb == "run" {
            command.args(["--popularity", "uniform"]);
        }
        if server.contender == Contender::MessinaUnaware {
            command.arg("--no-shard-aware");
        }
        command
    }

    /// The client's command for one work.
    fn cql_command(
        &self,
        server: &Running,
        (work, pressure): (Work, Pressure),
        seconds: u32,
    ) -> Command {
        let mut command = self.tool(server, "run", work.used(self.records));
        command
            .args(work.flags())
            .args(["--connections", &pressure.connections.to_string()])
            .args(["--in-flight", &pressure.in_flight.to_string()])
            .args(["--duration", &format!("{seconds}s")]);
        command
    }

    /// Does the work without measuring it.
    fn warm_up(&self, server: &Running, work: Work, pressure: Pressure) -> Result<()> {
        match server.contender {
            Contender::Redis => self.redis(server).run(work, pressure, PROBE_OPERATIONS).map(drop),
            _ => {
                let seconds = self.warmup_s(server);
                run_to_end(&mut self.cql_command(server, (work, pressure), seconds)).map(drop)
            }
        }
    }

    fn measure_cql(&self, server: &Running, work: Work, pressure: Pressure) -> Result<Cost> {
        let json = NamedTempFile::new().map_err(Failed::io("making a file for a result"))?;
        let mut command = self.cql_command(server, (work, pressure), self.seconds);
        run_to_end(command.args(["--warmup", WARMUP, "--json"]).arg(json.path()))?;
        cost(&read_json(&json)?)
    }

    fn measure_redis(&self, server: &Running, work: Work, pressure: Pressure) -> Result<Cost> {
        let redis = self.redis(server);
        // First find how many operations fill the time, then measure that many.
        let first = redis.run(work, pressure, PROBE_OPERATIONS)?;
        let operations = (first.rate * f64::from(self.seconds)) as u64;
        let before = cpu_ms(server.pid)?;
        let Timed { rate, p99_ms } = redis.run(work, pressure, operations)?;
        let after = cpu_ms(server.pid)?;
        let each = 1000.0 / operations.max(1) as f64;
        Ok(Cost {
            rate,
            user_us: (after.0 - before.0) * each,
            system_us: (after.1 - before.1) * each,
            p99_ms,
            ..Cost::default()
        })
    }

    /// System calls of the server per operation, counted in a run of their own.
    fn syscalls_per_operation(
        &self,
        server: &Running,
        work: Work,
        pressure: Pressure,
    ) -> Result<Option<f64>> {
        if server.contender == Contender::Redis {
            let command = self.redis(server).command(work, pressure, PROBE_OPERATIONS);
            let calls = perf_syscalls(server.pid, &command)?;
            return Ok(calls.map(|calls| calls / PROBE_OPERATIONS as f64));
        }
        let json = NamedTempFile::new().map_err(Failed::io("making a file for a result"))?;
        let mut command = self.cql_command(server, (work, pressure), self.seconds.min(5));
        command.arg("--json").arg(json.path());
        let Some(calls) = perf_syscalls(server.pid, &command)? else { return Ok(None) };
        Ok(Some(calls / operations(&read_json(&json)?)?))
    }
}

/// A number of a report; one that is not there is no measurement, and not 0.
fn number(report: &Value, path: &str) -> Result<f64> {
    let number = report.pointer(path).and_then(Value::as_f64);
    number.ok_or_else(|| Failed(format!("the report of messina-load has no {path}")))
}

fn operations(report: &Value) -> Result<f64> {
    match number(report, "/operations")? {
        0.0 => Err(Failed("messina-load did no operation".to_owned())),
        operations => Ok(operations),
    }
}

/// What the report of a closed loop says.
fn cost(report: &Value) -> Result<Cost> {
    let operations = operations(report)?;
    Ok(Cost {
        rate: number(report, "/rate")?,
        user_us: number(report, "/server_usage/user_ms")? * 1000.0 / operations,
        system_us: number(report, "/server_usage/system_ms")? * 1000.0 / operations,
        p99_ms: number(report, "/kinds/0/p99_us")? / 1000.0,
        ..Cost::default()
    })
}

/// What the report of an open loop says: of its two kinds of operations the slower one.
fn latency(rate: u32, report: &Value) -> Result<Latency> {
    let worst = |name: &str| {
        let [one, other] = [0, 1].map(|kind| number(report, &format!("/kinds/{kind}/{name}")));
        Ok::<f64, Failed>(one?.max(other?) / 1000.0)
    };
    let cpu_ms =
        number(report, "/server_usage/user_ms")? + number(report, "/server_usage/system_ms")?;
    Ok(Latency {
        rate,
        p50_ms: worst("p50_us")?,
        p99_ms: worst("p99_us")?,
        p999_ms: worst("p999_us")?,
        cpu_us: cpu_ms * 1000.0 / operations(report)?,
        behind: number(report, "/behind")? as u64,
        ..Latency::default()
    })
}

fn read_json(file: &NamedTempFile) -> Result<Value> {
    let text = fs::read(file.path()).map_err(Failed::io("reading a result"))?;
    serde_json::from_slice(&text)
        .map_err(|error| Failed(format!("a result that is no JSON: {error}")))
}

/// User and system time of a process so far.
fn cpu_ms(pid: u32) -> Result<(f64, f64)> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).map_err(Failed::io(path))?;
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let mut ticks = after.split_ascii_whitespace().skip(11).map(|t| t.parse().unwrap_or(0.0));
    let mut next = || ticks.next().unwrap_or(0.0) * TICK_MS;
    Ok((next(), next()))
}

fn proc_number(pid: u32, file: &str, name: &str) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// System calls that process `pid` makes while `command` runs; `None` without `perf`.
fn perf_syscalls(pid: u32, command: &Command) -> Result<Option<f64>> {
    let counted = NamedTempFile::new().map_err(Failed::io("making a file for a count"))?;
    let mut perf = Command::new("perf");
    perf.args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-o"])
        .arg(counted.path())
        .args(["-p", &pid.to_string(), "--"])
        .arg(command.get_program())
        .args(command.get_args());
    if run_to_end(&mut perf).is_err() {
        return Ok(None);
    }
    let text = fs::read_to_string(counted.path()).map_err(Failed::io("reading a count"))?;
    let line = text.lines().find(|line| line.contains("raw_syscalls"));
    Ok(line.and_then(|line| line.split(',').next()?.parse().ok()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Before: what was missing was 0, the best of all, and a rate that was not held was told as held.
    #[test]
    fn a_report_that_lacks_a_number_is_no_measurement() {
        let kind = json!({"p50_us": 100.0, "p99_us": 300.0, "p999_us": 900.0});
        let mut report = json!({
            "operations": 1000, "rate": 500.0, "behind": 7, "kinds": [kind, kind],
            "server_usage": {"user_ms": 20, "system_ms": 5},
        });
        assert_eq!(cost(&report).unwrap().user_us, 20.0);
        let line = latency(500, &report).unwrap();
        assert_eq!((line.cpu_us, line.p99_ms, line.behind), (25.0, 0.3, 7));
        report["server_usage"] = Value::Null;
        let missing = cost(&report).unwrap_err().to_string();
        assert!(missing.contains("/server_usage/user_ms"), "{missing}");
        assert!(latency(500, &report).is_err());
    }

    #[test]
    fn this_process_has_used_cpu_and_memory() {
        let pid = std::process::id();
        assert!(cpu_ms(pid).is_ok());
        assert!(proc_number(pid, "status", "VmRSS:").unwrap() > 0.0);
    }
}
