//! Redis as a contender: records as hashes, loaded by `redis-cli --pipe`, driven by `redis-benchmark`.
//!
//! ```text
//! record:000000000007  ->  field0: 100 bytes, .., field9: 100 bytes
//! read: HGETALL record:N      update: HSET record:N field0 <100 bytes>
//! ```
//!
//! `redis-benchmark` draws N uniformly from the records and writes it with twelve digits. It does a number of
//! operations and not a number of seconds, so the caller first finds how many fill the time (`work.rs`).
//!
//! Invariant: a load with an error, or a benchmark without a result, is an error.
//!
//! Not here: starting Redis (`contender.rs`), its CPU and system calls (`work.rs`).

use std::io::Write;
use std::process::{Command, Stdio};

use super::contender::Running;
use super::work::{Pressure, Work};
use super::{Failed, Result, run_to_end};

const FIELDS: u32 = 10;
const FIELD_BYTES: usize = 100;

/// A Redis server and the number of its records.
#[derive(Clone, Copy, Debug)]
pub struct Redis<'s> {
    /// The server that runs.
    pub server: &'s Running,
    /// Number of records, all loaded.
    pub records: u64,
}

/// What `redis-benchmark` measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// Operations a second.
    pub rate: f64,
    /// 99th percentile of the latency in ms.
    pub p99_ms: f64,
}

impl Redis<'_> {
    /// Loads every record; an error if the server refuses one.
    pub fn load(&self) -> Result<()> {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.server.port.to_string(), "--pipe"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(Failed::io(format!("starting {command:?}")))?;
        let mut pipe = child.stdin.take().expect("it is piped");
        let mut commands = Vec::new();
        for record in 0..self.records {
            put_record(record, &mut commands);
            if commands.len() > 1 << 20 || record + 1 == self.records {
                pipe.write_all(&commands).map_err(Failed::io("loading Redis"))?;
                commands.clear();
            }
        }
        drop(pipe);
        let output = child.wait_with_output().map_err(Failed::io("loading Redis"))?;
        let told = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && told.contains("errors: 0") {
            return Ok(());
        }
        Err(Failed(format!("redis-cli --pipe: {}", told.trim())))
    }

    /// The command that does `operations` of `work`.
    pub fn command(&self, work: Work, pressure: Pressure, operations: u64) -> Command {
        let mut command = Command::new("redis-benchmark");
        command
            .args(["-p", &self.server.port.to_string(), "-c", &pressure.connections.to_string()])
            .args(["-P", &pressure.in_flight.to_string(), "-n", &operations.to_string(), "--csv"])
            .args(["-r", &self.records.to_string()]);
        match work {
            Work::Read => command.args(["HGETALL", "record:__rand_int__"]),
            Work::Update => {
                command.args(["HSET", "record:__rand_int__", "field0", &"u".repeat(FIELD_BYTES)])
            }
            _ => unreachable!("the sets of Redis have reads and updates"),
        };
        command
    }

    /// Does `operations` of `work`, and says how fast.
    pub fn run(&self, work: Work, pressure: Pressure, operations: u64) -> Result<Timed> {
        let output = run_to_end(&mut self.command(work, pressure, operations))?;
        let text = String::from_utf8_lossy(&output.stdout);
        parse(&text).ok_or_else(|| Failed(format!("redis-benchmark wrote no result: {text}")))
    }
}

/// Appends the command that makes one record, in the protocol of Redis.
fn put_record(record: u64, out: &mut Vec<u8>) {
    let value = "l".repeat(FIELD_BYTES);
    let mut words = vec!["HSET".to_owned(), format!("record:{record:012}")];
    words.extend((0..FIELDS).flat_map(|field| [format!("field{field}"), value.clone()]));
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in &words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

/// The last line of `--csv`: "test","rps","avg","min","p50","p95","p99","max".
fn parse(csv: &str) -> Option<Timed> {
    let line = csv.lines().rfind(|line| line.starts_with("\"H"))?;
    // The name of the test may hold commas; the numbers are the last seven fields.
    let mut numbers = line.rsplit(',').map(|field| field.trim_matches('"').parse().ok());
    let p99_ms = numbers.nth(1)??;
    let rate = numbers.nth(4)??;
    Some(Timed { rate, p99_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_csv_of_redis_benchmark_is_understood() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                   \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                   \"HGETALL record:__rand_int__\",\"116144.02\",\"0.435\",\"0.096\",\"0.431\",\
                   \"0.535\",\"0.607\",\"1.15\"\n";
        assert_eq!(parse(csv), Some(Timed { rate: 116_144.02, p99_ms: 0.607 }));
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_record_is_one_command_of_22_words() {
        let mut out = Vec::new();
        put_record(7, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("*22\r\n$4\r\nHSET\r\n$19\r\nrecord:000000000007\r\n"), "{text}");
        assert_eq!(text.matches("$100\r\n").count(), 10);
    }
}
