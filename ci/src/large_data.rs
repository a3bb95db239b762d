//! More data than memory by far: `cargo ci large-data --rows N`.
//!
//! ```text
//! --memory 512M ─► load N rows of 100 bytes ─► read at random, each row judged ─► stop, start ─► read once more
//!                           └──────────── VmHWM of each server: within its budget ────────────┘
//! ```
//!
//! 1. 200 million rows, the usual number, are 20 GB of values: their keys, filters and indexes alone are several times
//!    the memory.
//! 2. Reads are of the whole key space, uniformly, so that nearly each goes to the device; a tenth are scans.
//!
//! Not here: what clients can do to a small memory (`server/tests/attacks.rs`).

use std::time::Duration;

use crate::load;
use crate::repository::Repository;
use crate::server::{DataFolder, Server, Setup};
use crate::step::{Done, Failure, Log, Outcome};

/// Rows in `night`.
pub(crate) const ROWS: u64 = 200_000_000;
const SHARDS: u32 = 2;
const MEMORY_MB: u32 = 512;
/// What may be resident, in hundredths of the memory that the server was given: the program itself, the stacks and what
/// the allocator has not given back are not in it. The bound of `server/tests/attacks.rs` is the same.
const RESIDENT_PERCENT_MAX: u64 = 115;
/// Reads after the load, and after the start.
const READS: &str = "200000";
/// A load of nothing may take so long, and so much longer for each row: a few thousand rows a second.
const LOAD_LIMIT: Duration = Duration::from_secs(10 * 60);
const ROW_LIMIT: Duration = Duration::from_micros(300);

/// Loads, reads, starts again and reads; each is a check, and so is the memory of each server.
pub(crate) fn run(repository: &Repository, rows: u64, log: &Log) -> Outcome {
    let folder = DataFolder::new(repository, "large-data")?;
    let data = folder.join("data");
    let setup = Setup { memory_mb: MEMORY_MB, ..Setup::new(repository, &data, SHARDS) };
    let records = rows.to_string();
    let shape = ["--fields", "1", "--field-bytes", "100", "--records", &records];
    let limit = LOAD_LIMIT + Duration::from_micros(ROW_LIMIT.as_micros() as u64 * rows);
    let tool = |server: &Server, arguments: &[&str]| {
        let arguments = [arguments, &shape].concat();
        load::tool((repository, log), &server.address, &arguments, limit)
            .map_err(|text| format!("{text}\nthe server said:\n{}", server.said()))
    };
    let read = ["run", "--mix", "read=90,scan=10", "--scan-rows", "10", "--popularity", "uniform"];
    let read = [&read[..], &["--verify", "--operations", READS]].concat();
    let mut passed = 0;
    for (life, loads) in [("loaded", true), ("started again", false)] {
        let mut server = Server::start_as(&setup, log)?;
        server.wait_ready()?;
        if loads {
            tool(&server, &["load"])?;
            passed += 1;
        }
        tool(&server, &read)?;
        server.check_alive()?;
        let resident_mb = server.resident_mb_max()?;
        log.note(&format!("{life}: at most {resident_mb} MiB were resident"));
        judge_memory(resident_mb).map_err(|text| Failure {
            text,
            passed: passed + 1,
            failed: 1,
        })?;
        server.stop()?;
        passed += 2;
    }
    folder.discard()?;
    Ok(Done::Passed(passed))
}

/// An error if more was resident than the budget has.
fn judge_memory(resident_mb: u64) -> Result<(), String> {
    let resident_mb_max = u64::from(MEMORY_MB) * RESIDENT_PERCENT_MAX / 100;
    match resident_mb <= resident_mb_max {
        true => Ok(()),
        false => Err(format!("{resident_mb} MiB were resident, {resident_mb_max} at most")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::fakes;

    #[test]
    fn a_server_that_takes_more_memory_than_its_budget_fails() {
        assert_eq!(judge_memory(588), Ok(()));
        assert!(judge_memory(589).is_err());
    }

    #[test]
    fn a_read_that_is_wrong_fails_the_step() {
        let wrong = "case $1 in run) echo 'VIOLATED: 1 missing row'; exit 1;; esac\nexit 0\n";
        let (repository, log) = fakes::checkout("large-data", fakes::SERVER, wrong);
        let failure = run(&repository, 1000, &log).err().expect("a row is missing");
        assert!(failure.text.contains("VIOLATED: 1 missing row"), "{}", failure.text);
        let (repository, log) = fakes::checkout("large-data", fakes::SERVER, "exit 0\n");
        assert!(matches!(run(&repository, 1000, &log), Ok(Done::Passed(5))));
    }
}
