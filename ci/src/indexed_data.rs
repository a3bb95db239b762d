//! Three indexes of a table that is larger than its memory: `cargo ci indexed-data --rows N`.
//!
//! ```text
//! --memory 1G ─► load N customers ─► CREATE INDEX × 3 ─► built, while more are inserted ─► flush, compactions end
//!                                                   └ progress is watched
//!      ─► sizes of the files ─► queries, 1,000 a second offered, each judged ─► kill -9, start ─► queries again
//!         └─────────────────── VmHWM of each server: within its budget ───────────────────┘
//! ```
//!
//! 1. What a customer is follows from the key (`tools/src/workload/customers.rs`), so that each answer is known to the row.
//! 2. Sizes, memory, answers and that progress is told are judged. Times are told, not judged: machines are shared.
//! 3. Rows are of 120 bytes, of which an index has the mail address (30), the city (6) and the amount (8); the rest, a
//!    note, hardly compresses.
//!
//! Not here: what lookups must find while files are lost, cut and merged (`shard/tests/sim`).

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use cql::frame::Version;

use crate::client::Connection;
use crate::load;
use crate::read_costs::device_reads;
use crate::repository::Repository;
use crate::server::{DataFolder, Server, Setup};
use crate::step::{Done, Failure, Log, Outcome};

/// Rows in `night`.
pub(crate) const ROWS: u64 = 10_000_000;
/// Indexes of fewer may be built before anybody looks.
const ROWS_MIN: u64 = 1_000_000;
const SHARDS: u32 = 2;
const MEMORY_MB: u32 = 1024;
/// What may be resident, in hundredths of the memory that the server was given, as in `large_data.rs`.
const RESIDENT_PERCENT_MAX: u64 = 115;
/// What the index files may take, in hundredths of the sstables.
const INDEX_PERCENT_MAX: u64 = 40;
const INDEXES: [&str; 3] = ["mail", "city", "amount"];
/// A load of nothing may take so long, and so much longer for each row.
const LOAD_LIMIT: Duration = Duration::from_secs(5 * 60);
const ROW_LIMIT: Duration = Duration::from_micros(200);
/// How often progress is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// So often in a row there must be nothing left to do.
const POLLS_AT_REST: u32 = 20;
/// How long the queries of a life are measured.
const MEASURED: [&str; 2] = ["60s", "10s"];

/// What of each index was left to be built, in bytes of sstables, each time it was less than ever before.
type Seen = BTreeMap<String, Vec<u64>>;

/// A data directory and what was found out.
struct Rig<'a> {
    repository: &'a Repository,
    log: &'a Log,
    rows: u64,
    passed: u64,
    complaints: Vec<String>,
    told: Vec<String>,
}

/// Loads, indexes, queries, starts again and queries; all is checked whatever an earlier check found.
pub(crate) fn run(repository: &Repository, rows: u64, log: &Log) -> Outcome {
    if rows < ROWS_MIN {
        return Err(Failure::from(format!("--rows is at least {ROWS_MIN}")));
    }
    let folder = DataFolder::new(repository, "indexed-data")?;
    let data = folder.join("data");
    let setup = Setup { memory_mb: MEMORY_MB, ..Setup::new(repository, &data, SHARDS) };
    let (complaints, told) = (Vec::new(), Vec::new());
    let mut rig = Rig { repository, log, rows, passed: 0, complaints, told };
    let mut server = Server::start_as(&setup, log)?;
    server.wait_ready()?;
    rig.tool(&server, &["load"])?;
    rig.build(&server)?;
    load::admin((repository, log), &data, &["flush", "ycsb"], rig.limit())?;
    rig.rest(&server, "")?;
    let bytes = |ending: &str| {
        let sizes = folder.files(ending).into_iter().map(std::fs::metadata);
        sizes.map(|file| file.map_or(0, |file| file.len())).sum::<u64>()
    };
    rig.judge_sizes(bytes(".idx"), bytes(".sst"));
    for (life, duration) in MEASURED.into_iter().enumerate() {
        if life > 0 {
            server.kill()?;
            server = Server::start_as(&setup, log)?;
            server.wait_ready()?;
        }
        rig.query(&server, duration)?;
        server.check_alive()?;
        rig.judge_memory(server.resident_mb_max()?);
    }
    server.stop()?;
    if rig.complaints.is_empty() {
        folder.discard()?;
        return Ok(Done::Told(rig.passed, rig.told));
    }
    let failed = rig.complaints.len() as u64;
    Err(Failure { text: rig.complaints.join("\n"), passed: rig.passed, failed })
}

impl Rig<'_> {
    fn limit(&self) -> Duration {
        LOAD_LIMIT + ROW_LIMIT * self.rows as u32
    }

    /// The arguments of the tool, with the shape of the data.
    fn arguments<'a>(&self, arguments: &[&'a str], rows: &'a str) -> Vec<&'a str> {
        let shape = ["--workload", "customers", "--field-bytes", "64", "--records", rows];
        [arguments, &shape].concat()
    }

    fn tool(&self, server: &Server, arguments: &[&str]) -> Result<String, String> {
        let rows = self.rows.to_string();
        let arguments = self.arguments(arguments, &rows);
        load::tool((self.repository, self.log), &server.address, &arguments, self.limit())
            .map_err(|text| format!("{text}\nthe server said:\n{}", server.said()))
    }

    /// Notes a check, and the complaint if it is not met.
    fn check(&mut self, is_met: bool, what: String) {
        self.log.note(&format!("{}: {what}", if is_met { "passed" } else { "FAILED" }));
        match is_met {
            true => self.passed += 1,
            false => self.complaints.push(what),
        }
    }

    fn tell(&mut self, line: String) {
        self.log.note(&line);
        self.told.push(line);
    }

    /// Makes the indexes and waits until they are built, while rows are inserted and now and then looked for.
    fn build(&mut self, server: &Server) -> Result<(), String> {
        let mut connection = Connection::open(&server.address, Version::V4)?;
        let run = ["run", "--mix", "insert=998,city=2", "--rate", "2000", "--verify"];
        let run = [&run[..], &["--scan-rows", "10", "--duration", "1d"]].concat();
        let rows = self.rows.to_string();
        let arguments = self.arguments(&run, &rows);
        let begun = Instant::now();
        for column in INDEXES {
            connection.must(&format!(
                "CREATE INDEX customers_{column} ON ycsb.customers ({column}) USING 'sai'"
            ))?;
        }
        let beside = load::beside((self.repository, self.log), &server.address, &arguments)?;
        let seen = self.rest(server, "secondary index build of ");
        let seconds = begun.elapsed().as_secs_f64();
        beside.interrupt(self.limit())?;
        self.check(true, "inserts and queries during the build were answered right".to_owned());
        for (index, left) in seen? {
            let what = format!("{index}: less was left {} times", left.len());
            self.check(left.len() > 1, what);
        }
        let info = "SELECT index_name FROM system.\"IndexInfo\" WHERE table_name = 'ycsb'";
        let built = connection.cells(info)?.len();
        self.check(built == INDEXES.len(), format!("{built} indexes in \"IndexInfo\""));
        self.tell(format!(
            "three indexes were built in {seconds:.1} s beside 2,000 inserts a second"
        ));
        Ok(())
    }

    /// Waits until the table has no task whose kind begins so; what was left of each meanwhile.
    fn rest(&self, server: &Server, kind: &str) -> Result<Seen, String> {
        let mut connection = Connection::open(&server.address, Version::V4)?;
        let mut seen: Seen = match kind {
            "" => Seen::new(),
            _ => INDEXES.map(|column| (format!("{kind}customers_{column}"), Vec::new())).into(),
        };
        let (begun, mut at_rest) = (Instant::now(), 0);
        while at_rest < POLLS_AT_REST {
            if begun.elapsed() > self.limit() {
                return Err(format!("not done after {} s: {seen:?}", self.limit().as_secs()));
            }
            let left = left_of_tasks(&mut connection, kind)?;
            at_rest = if left.is_empty() { at_rest + 1 } else { 0 };
            for (name, bytes) in left {
                let before = seen.entry(name).or_default();
                if before.last().is_none_or(|last| bytes < *last) {
                    before.push(bytes);
                }
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(seen)
    }

    fn judge_sizes(&mut self, index_bytes: u64, data_bytes: u64) {
        let percent = index_bytes as f64 * 100.0 / data_bytes.max(1) as f64;
        let is_met = data_bytes > 0 && index_bytes > 0 && percent <= INDEX_PERCENT_MAX as f64;
        let sizes = format!(
            "index files of {} MB are {percent:.1} % of {} MB of sstables",
            index_bytes / 1_000_000,
            data_bytes / 1_000_000
        );
        self.check(is_met, format!("{sizes}, {INDEX_PERCENT_MAX} % at most"));
        self.told.push(sizes);
    }

    fn judge_memory(&mut self, resident_mb: u64) {
        let most = u64::from(MEMORY_MB) * RESIDENT_PERCENT_MAX / 100;
        let what = format!("{resident_mb} MiB were resident, {most} at most");
        self.check(resident_mb <= most, what.clone());
        self.told.push(what);
    }

    /// Offers 1,000 queries a second and judges each answer; tells what they took.
    fn query(&mut self, server: &Server, duration: &str) -> Result<(), String> {
        let mut connection = Connection::open(&server.address, Version::V4)?;
        let (reads, spent) = (device_reads(&mut connection)?, server.processor_time()?);
        let mix = "mail=25,city=25,amount=50";
        let run = ["run", "--mix", mix, "--rate", "1000", "--verify", "--scan-rows", "10"];
        let said = self.tool(server, &[&run[..], &["--duration", duration]].concat())?;
        let spent = server.processor_time()?.saturating_sub(spent);
        let reads = device_reads(&mut connection)? - reads;
        self.check(true, format!("queries for {duration} were answered right"));
        let table = said
            .lines()
            .filter(|line| ["find", "scan", "      "].iter().any(|head| line.starts_with(head)));
        let table: Vec<String> = table.map(str::to_owned).collect();
        let operations = operations_of(&said).ok_or_else(|| format!("{said}\nno operations"))?;
        self.told.extend(table);
        self.tell(format!(
            "{:.2} device reads and {:.0} µs of the server's processor time a query",
            reads as f64 / operations as f64,
            spent.as_micros() as f64 / operations as f64
        ));
        Ok(())
    }
}

/// What is left of the tasks of the table whose kind begins so, in bytes, on all cores together.
fn left_of_tasks(connection: &mut Connection, kind: &str) -> Result<BTreeMap<String, u64>, String> {
    let tasks = "SELECT kind, progress, total FROM system_views.sstable_tasks WHERE \
                 keyspace_name = 'ycsb' AND table_name = 'customers'";
    let mut left: BTreeMap<String, u64> = BTreeMap::new();
    for row in connection.cells(tasks)?.chunks_exact(3) {
        let [Some(name), Some(progress), Some(total)] = row else { continue };
        let name = String::from_utf8_lossy(name).into_owned();
        let number = |cell: &[u8]| cell.try_into().map(u64::from_be_bytes);
        let (Ok(progress), Ok(total)) = (number(progress), number(total)) else {
            return Err("progress is no bigint".to_owned());
        };
        if name.starts_with(kind) {
            *left.entry(name).or_default() += total.saturating_sub(progress);
        }
    }
    Ok(left)
}

/// The operations of a report: the number behind `all`.
fn operations_of(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.starts_with("all "))?;
    line.split_whitespace().nth(1)?.replace(',', "").parse().ok().filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::fakes;

    #[test]
    fn sizes_and_memory_have_their_bounds() {
        let (repository, log) = fakes::checkout("indexed-data", fakes::SERVER, "");
        let judge = |index_bytes, data_bytes, resident_mb| {
            let (complaints, told) = (Vec::new(), Vec::new());
            let (repository, log) = (&repository, &log);
            let mut rig = Rig { repository, log, rows: ROWS, passed: 0, complaints, told };
            rig.judge_sizes(index_bytes, data_bytes);
            rig.judge_memory(resident_mb);
            (rig.passed, rig.complaints.len())
        };
        assert_eq!(judge(400, 1000, 1177), (2, 0));
        assert_eq!(judge(401, 1000, 1177), (1, 1));
        assert_eq!(judge(400, 1000, 1178), (1, 1));
        assert_eq!(judge(0, 1000, 1), (1, 1), "there are index files");
    }

    #[test]
    fn operations_are_read_from_a_report() {
        let said = "find   1   2\nall                      60,000        1,000   in 60.0 s\n";
        assert_eq!(operations_of(said), Some(60_000));
        assert_eq!(operations_of("nothing"), None);
    }

    #[test]
    fn a_load_that_fails_fails_the_step() {
        let (repository, log) =
            fakes::checkout("indexed-load", fakes::SERVER, "echo lost; exit 1\n");
        let failure = run(&repository, ROWS_MIN, &log).err().expect("the load failed");
        assert!(failure.text.contains("lost"), "{}", failure.text);
    }
}
