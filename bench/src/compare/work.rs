//! The work that every contender does, and what it costs it.

use super::contender::{Contender, Running};
use super::{Failed, Result, run_to_end};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::NamedTempFile;

/// Bytes of a record: ten fields of a hundred.
const RECORD_BYTES: u32 = 1000;
/// Milliseconds of a clock tick of `/proc`.
const TICK_MS: f64 = 10.0;

/// One line of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Point reads of whole records that are in memory.
    Read,
    /// Updates of one field, or of one value, each durable before its answer.
    Update,
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
    /// Seconds before each that do not count.
    pub warmup_s: u32,
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
}

/// What every contender does.
pub const WORKS: [(Work, Pressure); 4] = [
    (Work::Read, Pressure { connections: 100, in_flight: 1 }),
    (Work::Read, Pressure { connections: 100, in_flight: 16 }),
    (Work::Update, Pressure { connections: 100, in_flight: 1 }),
    (Work::Update, Pressure { connections: 100, in_flight: 16 }),
];

impl Work {
    /// Its name, as the table has it.
    pub fn title(self) -> &'static str {
        match self {
            Work::Read => "read 1 KB, in memory",
            Work::Update => "durable update",
        }
    }
}

impl Setup {
    /// Fills the server.
    pub fn load(&self, server: &Running) -> Result<()> {
        match server.contender {
            Contender::Redis => {
                let count = self.records.to_string();
                redis(server, Work::Update, WORKS[1].1, &count, self.records).map(drop)
            }
            _ => {
                let mut command = self.tool(server, "load");
                run_to_end(command.args(["--connections", "64", "--in-flight", "4"])).map(drop)
            }
        }
    }

    /// Measures one work; then repeats it to count system calls.
    pub fn measure(&self, server: &Running, work: Work, pressure: Pressure) -> Result<Cost> {
        let mut cost = match server.contender {
            Contender::Redis => self.measure_redis(server, work, pressure)?,
            _ => self.measure_cql(server, work, pressure)?,
        };
        let resident = proc_number(server.pid, "status", "VmRSS:");
        cost.resident_mib = resident.unwrap_or(0.0) / 1024.0;
        Ok(cost)
    }

    fn tool(&self, server: &Running, verb: &str) -> Command {
        let mut command = Command::new(&self.messina_load);
        command
            .args([verb, "--quiet", "--records", &self.records.to_string()])
            .args(["--host", &format!("127.0.0.1:{}", server.port)])
            .args(["--server-pid", &server.pid.to_string()]);
        command
    }

    fn measure_cql(&self, server: &Running, work: Work, pressure: Pressure) -> Result<Cost> {
        let json = NamedTempFile::new().map_err(Failed::io("making a file for a result"))?;
        let flags = |command: &mut Command, json: &NamedTempFile, seconds: u32| {
            command
                .args(["--mix", if work == Work::Read { "read=1" } else { "update=1" }])
                .args(["--connections", &pressure.connections.to_string()])
                .args(["--in-flight", &pressure.in_flight.to_string()])
                .args(["--duration", &format!("{seconds}s")])
                .arg("--json")
                .arg(json.path());
        };
        let mut command = self.tool(server, "run");
        flags(&mut command, &json, self.seconds);
        run_to_end(command.args(["--warmup", &format!("{}s", self.warmup_s)]))?;
        let report = read_json(&json)?;
        let number = |path: &str| report.pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
        let operations = number("/operations").max(1.0);
        let mut cost = Cost {
            rate: number("/rate"),
            user_us: number("/server_usage/user_ms") * 1000.0 / operations,
            system_us: number("/server_usage/system_ms") * 1000.0 / operations,
            p99_ms: number("/kinds/0/p99_us") / 1000.0,
            ..Cost::default()
        };
        let mut command = self.tool(server, "run");
        flags(&mut command, &json, self.seconds.min(5));
        if let Some(calls) = count_syscalls(server.pid, &command)? {
            let operations = read_json(&json)?["operations"].as_f64().unwrap_or(0.0);
            cost.syscalls = Some(calls / operations.max(1.0));
        }
        Ok(cost)
    }

    fn measure_redis(&self, server: &Running, work: Work, pressure: Pressure) -> Result<Cost> {
        // First find how many operations fill the time, then measure that many.
        let probe = 100_000u64;
        let first = redis(server, work, pressure, &probe.to_string(), self.records)?;
        let count = (first.rate * f64::from(self.seconds)) as u64;
        let mut cost = redis(server, work, pressure, &count.to_string(), self.records)?;
        let command = redis_command(server, work, pressure, &probe.to_string(), self.records);
        cost.syscalls = count_syscalls(server.pid, &command)?.map(|calls| calls / probe as f64);
        Ok(cost)
    }
}

fn read_json(file: &NamedTempFile) -> Result<Value> {
    let text = fs::read(file.path()).map_err(Failed::io("reading a result"))?;
    serde_json::from_slice(&text)
        .map_err(|error| Failed(format!("a result that is no JSON: {error}")))
}

fn redis_command(
    server: &Running,
    work: Work,
    pressure: Pressure,
    count: &str,
    keys: u64,
) -> Command {
    let mut command = Command::new("redis-benchmark");
    command
        .args(["-p", &server.port.to_string(), "-c", &pressure.connections.to_string()])
        .args(["-P", &pressure.in_flight.to_string(), "-n", count, "--csv"])
        .args(["-d", &RECORD_BYTES.to_string(), "-r", &keys.to_string()])
        .args(["-t", if work == Work::Read { "get" } else { "set" }]);
    command
}

/// Runs redis-benchmark once: rate and latency by its words, CPU by the kernel's.
fn redis(server: &Running, work: Work, pressure: Pressure, count: &str, keys: u64) -> Result<Cost> {
    let before = cpu_ms(server.pid)?;
    let output = run_to_end(&mut redis_command(server, work, pressure, count, keys))?;
    let after = cpu_ms(server.pid)?;
    let (rate, p99_ms) = parse_redis(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| Failed("redis-benchmark said nothing that is understood".into()))?;
    let each = 1000.0 / count.parse::<f64>().expect("the caller formatted a number");
    Ok(Cost {
        rate,
        user_us: (after.0 - before.0) * each,
        system_us: (after.1 - before.1) * each,
        p99_ms,
        ..Cost::default()
    })
}

/// The last line of `--csv`: "test","rps","avg","min","p50","p95","p99","max".
fn parse_redis(csv: &str) -> Option<(f64, f64)> {
    let line =
        csv.lines().rfind(|line| line.starts_with("\"GET\"") || line.starts_with("\"SET\""))?;
    let fields: Vec<&str> = line.split(',').map(|field| field.trim_matches('"')).collect();
    Some((fields.get(1)?.parse().ok()?, fields.get(6)?.parse().ok()?))
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
fn count_syscalls(pid: u32, command: &Command) -> Result<Option<f64>> {
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
    use super::*;

    #[test]
    fn the_csv_of_redis_benchmark_is_understood() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                   \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                   \"GET\",\"116144.02\",\"0.435\",\"0.096\",\"0.431\",\"0.535\",\"0.607\",\"1.15\"\n";
        assert_eq!(parse_redis(csv), Some((116_144.02, 0.607)));
        assert_eq!(parse_redis(""), None);
    }

    #[test]
    fn this_process_has_used_cpu_and_memory() {
        let pid = std::process::id();
        assert!(cpu_ms(pid).is_ok());
        assert!(proc_number(pid, "status", "VmRSS:").unwrap() > 0.0);
    }
}
