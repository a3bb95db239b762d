//! What cold reads cost in device reads, counted at a real server: `cargo ci read-costs --rows N`.
//!
//! ```text
//! one partition of N rows       10 rows at its ends, in its middle, in both orders, and single rows
//! a tenth of it deleted         LIMIT 10 behind the deletion: in memory, and from the disk
//! a series in 30 windows        10 rows of one window, of two, of none (TimeWindow)
//! N/10 records of 1 KB          single records, uniformly
//! ```
//!
//! Invariants
//! 1. A question about device reads is asked of a server that was just started, so that nothing is cached. Three are
//!    asked of one server again and again: single rows and single records, whose caches are far smaller than the data,
//!    and the one in memory, of which the best time counts.
//! 2. A device read is a request of the classes `read` and `read ahead` in `system_views.disk_requests`; the rows that
//!    come must be the right ones.
//!
//! Not here: the same bounds at small size, on the simulated disk (`engine/tests/read_costs.rs`).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cql::frame::Version;

use crate::client::Connection;
use crate::draw;
use crate::load;
use crate::repository::Repository;
use crate::server::{DataFolder, Server, Setup};
use crate::step::{Done, Failure, Log, Outcome};

/// Rows of the wide partition in `night`.
pub(crate) const ROWS: u64 = 10_000_000;
/// Fewer are in one block, or all of them in the cache.
const ROWS_MIN: u64 = 100_000;
/// A day of points, one a millisecond, is a partition: `messina-load` takes at most so many.
const ROWS_MAX: u64 = 16_000_000;
const SHARDS: u32 = 2;
/// Memory while data are written, in MiB; for reads it is the least.
const LOAD_MEMORY_MB: u32 = 512;
/// Loading takes so long, and so much longer for each row.
const LOAD_LIMIT: Duration = Duration::from_secs(5 * 60);
const ROW_LIMIT: Duration = Duration::from_micros(200);

/// A slice goes through a partition's index, and may end in the block after its first.
const SLICE_READS_MAX: u64 = 4;
/// One row, of which nothing is in memory: two nodes of the partition's index, and its block.
const ROW_READS_MAX: u64 = 3;
/// Behind a deletion, with the blocks that hold it.
const BEHIND_DELETION_READS_MAX: u64 = 10;
/// The same without the disk, in the best of [`REPEATS`].
const BEHIND_DELETION_TIME_MAX: Duration = Duration::from_millis(2);
const REPEATS: usize = 50;
/// Device reads of a single row that is there.
const READS_A_HIT_MAX: f64 = 1.02;
/// Fewer would come of caches that hold the data: then the count above proves nothing. Of [`ROWS`] only.
const READS_A_HIT_MIN: f64 = 0.5;
/// Single rows that are read in the wide partition, and single records. The first thousands also bring the nodes of the
/// index into memory, each when a row needs it: of ten million rows 430 reads, once.
const HITS: u64 = 50_000;

/// The wide partition, as what follows FROM. `messina-load` makes it: `tools/src/workload/series.rs`.
const WIDE: &str = "ycsb.series WHERE series = 'series-00000000' AND day = '2024-01-01'";
/// The instant of its first row.
const BEGIN_MS: i64 = 1_704_067_200_000;

/// The time series: windows of a day, so many rows in each.
const WINDOWS: i64 = 30;
const WINDOW_ROWS: i64 = 2000;
const BATCH_ROWS: i64 = 200;
const DAY_MS: i64 = 86_400_000;
/// Between two rows of it.
const STEP_MS: i64 = DAY_MS / WINDOW_ROWS;

/// A data directory, and servers on it one after another.
struct Rig<'a> {
    repository: &'a Repository,
    data: PathBuf,
    rows: u64,
    log: &'a Log,
    passed: u64,
    complaints: Vec<String>,
}

/// Counts the reads; each question is a check, and all are asked whatever an earlier one cost.
pub(crate) fn run(repository: &Repository, rows: u64, log: &Log) -> Outcome {
    if !(ROWS_MIN..=ROWS_MAX).contains(&rows) {
        return Err(Failure::from(format!("--rows is between {ROWS_MIN} and {ROWS_MAX}")));
    }
    let folder = DataFolder::new(repository, "read-costs")?;
    let data = folder.join("data");
    let mut rig = Rig { repository, data, rows, log, passed: 0, complaints: Vec::new() };
    rig.wide_partition()?;
    rig.deleted_rows()?;
    rig.time_windows()?;
    rig.records()?;
    if rig.complaints.is_empty() {
        folder.discard()?;
        return Ok(Done::Passed(rig.passed));
    }
    let failed = rig.complaints.len() as u64;
    Err(Failure { text: rig.complaints.join("\n"), passed: rig.passed, failed })
}

impl Rig<'_> {
    fn start(&self, memory_mb: Option<u32>) -> Result<Server, String> {
        let mut setup = Setup::new(self.repository, &self.data, SHARDS);
        setup.memory_mb = memory_mb.unwrap_or(setup.memory_mb);
        let mut server = Server::start_as(&setup, self.log)?;
        server.wait_ready()?;
        Ok(server)
    }

    fn admin(&self, arguments: &[&str]) -> Result<String, String> {
        load::admin((self.repository, self.log), &self.data, arguments, self.limit())
    }

    fn tool(&self, server: &Server, arguments: &[&str]) -> Result<String, String> {
        load::tool((self.repository, self.log), &server.address, arguments, self.limit())
    }

    fn limit(&self) -> Duration {
        LOAD_LIMIT + ROW_LIMIT * self.rows as u32
    }

    /// Notes a check, and the complaint if it is not met.
    fn check(&mut self, is_met: bool, what: &str) {
        self.log.note(&format!("{}: {what}", if is_met { "passed" } else { "FAILED" }));
        match is_met {
            true => self.passed += 1,
            false => self.complaints.push(what.to_owned()),
        }
    }

    /// Asks a server that was just started, and checks the instants of the rows and the reads they cost.
    fn ask_cold(&mut self, from: &str, wanted: &[i64], reads_max: u64) -> Result<(), String> {
        let server = self.start(None)?;
        let mut connection = Connection::open(&server.address, Version::V4)?;
        let before = device_reads(&mut connection)?;
        let rows = instants(&mut connection, from)?;
        let reads = device_reads(&mut connection)? - before;
        self.check(rows == wanted, &format!("{} of {} rows: {from}", rows.len(), wanted.len()));
        // Rows that come without a read were not on the disk.
        let is_cold = reads > 0 || wanted.is_empty();
        let what = format!("{reads} reads, {reads_max} at most: {from}");
        self.check(is_cold && reads <= reads_max, &what);
        server.stop()
    }

    /// Slices of the one partition as it was loaded, and of the one file of a major compaction; and single rows.
    fn wide_partition(&mut self) -> Result<(), String> {
        let points = self.rows.to_string();
        let server = self.start(Some(LOAD_MEMORY_MB))?;
        let load = ["load", "--workload", "timeseries", "--series", "1", "--step", "1ms"];
        let shape = ["--ttl", "0s", "--field-bytes", "32", "--points", &points];
        self.tool(&server, &[&load[..], &shape].concat())?;
        server.stop()?;
        self.slices()?;
        let server = self.start(Some(LOAD_MEMORY_MB))?;
        self.admin(&["compact", "ycsb"])?;
        server.stop()?;
        self.slices()?;
        let server = self.start(None)?;
        let mut connection = Connection::open(&server.address, Version::V4)?;
        let (before, mut found) = (device_reads(&mut connection)?, 0);
        for number in 0..HITS {
            let at = BEGIN_MS + (draw::at(number) % self.rows) as i64;
            found += instants(&mut connection, &format!("{WIDE} AND at = {at}"))?.len();
        }
        let reads = device_reads(&mut connection)? - before;
        self.check_hits("rows of the wide partition", reads, found as u64, HITS);
        server.stop()
    }

    fn slices(&mut self) -> Result<(), String> {
        let (begin, end) = (BEGIN_MS, BEGIN_MS + self.rows as i64);
        let middle = begin + self.rows as i64 / 2;
        let newest_first = |last: i64| (0..10).map(|back| last - back).collect::<Vec<_>>();
        let oldest_first = |first: i64| (0..10).map(|on| first + on).collect::<Vec<_>>();
        let asks = [
            ("LIMIT 10".to_owned(), newest_first(end - 1)),
            (format!("AND at <= {middle} LIMIT 10"), newest_first(middle)),
            (format!("AND at >= {middle} AND at < {}", middle + 10), newest_first(middle + 9)),
            (format!("AND at < {} LIMIT 10", begin + 10), newest_first(begin + 9)),
            ("ORDER BY at ASC LIMIT 10".to_owned(), oldest_first(begin)),
            (format!("AND at >= {middle} ORDER BY at ASC LIMIT 10"), oldest_first(middle)),
            (format!("AND at >= {} ORDER BY at ASC", end - 10), oldest_first(end - 10)),
        ];
        for (rest, wanted) in asks {
            self.ask_cold(&format!("{WIDE} {rest}"), &wanted, SLICE_READS_MAX)?;
        }
        self.ask_cold(&format!("{WIDE} AND at = {middle}"), &[middle], ROW_READS_MAX)
    }

    /// The newest tenth of the partition is deleted, and the ten rows before it are asked for.
    fn deleted_rows(&mut self) -> Result<(), String> {
        let first_deleted = BEGIN_MS + (self.rows - self.rows / 10) as i64;
        let wanted: Vec<i64> = (1..=10).map(|back| first_deleted - back).collect();
        let from = format!("{WIDE} LIMIT 10");
        let server = self.start(None)?;
        let mut connection = Connection::open(&server.address, Version::V4)?;
        connection.must(&format!("DELETE FROM {WIDE} AND at >= {first_deleted}"))?;
        let mut best = Duration::MAX;
        for _ in 0..REPEATS {
            let began = Instant::now();
            let rows = instants(&mut connection, &from)?;
            best = best.min(began.elapsed());
            if rows != wanted {
                return Err(format!("{} rows behind the deletion: {rows:?}", rows.len()));
            }
        }
        let what = format!("{best:?} in memory behind {} deleted rows", self.rows / 10);
        self.check(best <= BEHIND_DELETION_TIME_MAX, &what);
        server.stop()?;
        self.ask_cold(&from, &wanted, BEHIND_DELETION_READS_MAX)
    }

    /// A series whose days lie in a file each.
    fn time_windows(&mut self) -> Result<(), String> {
        let server = self.start(Some(LOAD_MEMORY_MB))?;
        let mut connection = Connection::open(&server.address, Version::V4)?;
        connection.must(
            "CREATE TABLE ycsb.days (k int, at timestamp, v int, PRIMARY KEY (k, at)) WITH compaction = \
             {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'DAYS', \
             'compaction_window_size': 1}",
        )?;
        for window in 0..WINDOWS {
            for first in (0..WINDOW_ROWS).step_by(BATCH_ROWS as usize) {
                connection.must(&batch(window * WINDOW_ROWS + first))?;
            }
            self.admin(&["flush", "ycsb", "days"])?;
        }
        let files = files_of("ycsb.days", &self.admin(&["status"])?);
        self.check(files == Some(WINDOWS as u64), &format!("{files:?} files of {WINDOWS} windows"));
        server.stop()?;
        let at = |row: i64| BEGIN_MS + row * STEP_MS;
        let rows = |rows: std::ops::Range<i64>| rows.map(at).collect::<Vec<_>>();
        let end = WINDOWS * WINDOW_ROWS;
        let (middle, edge) = (5 * WINDOW_ROWS + 700, 6 * WINDOW_ROWS);
        let between = |first, last| format!("AND at >= {} AND at < {}", at(first), at(last));
        let asks = [
            (between(middle, middle + 10), rows(middle..middle + 10), SLICE_READS_MAX),
            (between(end - 10, end), rows(end - 10..end), SLICE_READS_MAX),
            (between(edge - 5, edge + 5), rows(edge - 5..edge + 5), 2 * SLICE_READS_MAX),
            (
                format!("AND at >= {} LIMIT 10", at(end - 500)),
                rows(end - 500..end - 490),
                SLICE_READS_MAX,
            ),
            ("LIMIT 1".to_owned(), rows(0..1), SLICE_READS_MAX),
            ("ORDER BY at DESC LIMIT 1".to_owned(), rows(end - 1..end), SLICE_READS_MAX),
            (format!("AND at >= {}", at(end)), Vec::new(), 0),
        ];
        for (rest, wanted, reads_max) in asks {
            self.ask_cold(&format!("ycsb.days WHERE k = 1 {rest}"), &wanted, reads_max)?;
        }
        Ok(())
    }

    /// Single records of 1 KB, of which the cache has a twentieth.
    fn records(&mut self) -> Result<(), String> {
        let records = (self.rows / 10).to_string();
        let server = self.start(Some(LOAD_MEMORY_MB))?;
        self.tool(&server, &["load", "--records", &records])?;
        self.admin(&["flush", "ycsb"])?;
        self.admin(&["compact", "ycsb"])?;
        server.stop()?;
        let server = self.start(None)?;
        let mut connection = Connection::open(&server.address, Version::V4)?;
        let before = device_reads(&mut connection)?;
        let run = ["run", "--workload", "c", "--popularity", "uniform", "--verify", "--records"];
        let hits = HITS.to_string();
        self.tool(&server, &[&run[..], &[&records, "--operations", &hits]].concat())?;
        let reads = device_reads(&mut connection)? - before;
        self.check_hits("records of 1 KB", reads, HITS, HITS);
        server.stop()
    }

    fn check_hits(&mut self, of: &str, reads: u64, found: u64, asked: u64) {
        self.check(found == asked, &format!("{found} of {asked} {of} were found"));
        let each = reads as f64 / asked as f64;
        let is_cold = each >= READS_A_HIT_MIN || self.rows < ROWS && reads > 0;
        let what = format!("{each:.4} reads a hit, {READS_A_HIT_MAX} at most: {of}");
        self.check(each <= READS_A_HIT_MAX && is_cold, &what);
    }
}

/// Requests of the device that reads of clients have made since the server was started, of all its shards.
pub(crate) fn device_reads(connection: &mut Connection) -> Result<u64, String> {
    let cells = connection.cells("SELECT class, requests FROM system_views.disk_requests")?;
    let (mut reads, mut classes) = (0, 0);
    for row in cells.chunks_exact(2) {
        if let [Some(class), Some(requests)] = row
            && (class == b"read" || class == b"read ahead")
        {
            let requests = requests[..].try_into().map_err(|_| "requests are no bigint")?;
            reads += i64::from_be_bytes(requests) as u64;
            classes += 1;
        }
    }
    match classes == 2 * SHARDS {
        true => Ok(reads),
        false => Err(format!("{classes} rows of reads in system_views.disk_requests")),
    }
}

/// The sstables of a table, as `messina-admin status` lists them.
fn files_of(table: &str, status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.split_whitespace().next() == Some(table))?;
    line.split_whitespace().nth(4)?.parse().ok()
}

/// The column `at` of the rows, in milliseconds.
fn instants(connection: &mut Connection, from: &str) -> Result<Vec<i64>, String> {
    let cells = connection.cells(&format!("SELECT at FROM {from}"))?;
    let read = |cell: Option<Vec<u8>>| Some(i64::from_be_bytes(cell?[..].try_into().ok()?));
    cells.into_iter().map(|cell| read(cell).ok_or_else(|| "no timestamp".to_owned())).collect()
}

/// Writes rows of the time series, from this one on; each is as old as it says.
fn batch(first: i64) -> String {
    let mut text = String::from("BEGIN UNLOGGED BATCH ");
    for row in first..first + BATCH_ROWS {
        let at_ms = BEGIN_MS + row * STEP_MS;
        let timestamp_us = at_ms * 1000;
        text += &format!(
            "INSERT INTO ycsb.days (k, at, v) VALUES (1, {at_ms}, {}) USING TIMESTAMP {timestamp_us}; ",
            draw::at(row as u64) as i32
        );
    }
    text + "APPLY BATCH"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_table_are_read_from_its_line() {
        let status = "table  partitions  memtable bytes  memtable rows  sstables  bytes\n\
            ycsb.days2  1  0  0  7  900\nycsb.days  1  0  0  30  900\n";
        assert_eq!(files_of("ycsb.days", status), Some(30));
        assert_eq!(files_of("ycsb.day", status), None);
    }

    #[test]
    fn a_bound_that_is_passed_is_a_complaint() {
        let repository = Repository::find().unwrap();
        let log = crate::step::Report::new(repository.log_folder()).log("read costs, test");
        let mut rig = Rig {
            repository: &repository,
            data: PathBuf::new(),
            rows: ROWS,
            log: &log,
            passed: 0,
            complaints: Vec::new(),
        };
        rig.check_hits("records", 101, 100, 100);
        assert_eq!((rig.passed, rig.complaints.len()), (2, 0));
        rig.check_hits("records", 103, 100, 100);
        rig.check_hits("records", 10, 100, 100);
        rig.check_hits("records", 100, 99, 100);
        assert_eq!((rig.passed, rig.complaints.len()), (5, 3), "{:?}", rig.complaints);
    }
}
