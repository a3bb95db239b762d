//! `compare`: Messina, Cassandra and Redis side by side; writes the table of docs/benchmarks.md, and its picture.
//!
//! 1. For each contender: start, load, measure each work of the set, then the open loop (plain set), stop.
//! 2. Print the tables; where it is wanted, put them between the document's marks and draw the picture.
//!
//! Invariants
//! 1. One contender runs at a time.
//! 2. An error ends the comparison, and no document is changed: a table is of one run.
//!
//! Not here: starting and stopping (`compare/contender.rs`), the works and how they are measured (`compare/work.rs`),
//! the tables (`compare/table.rs`), the marks (`document.rs`).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use messina_bench::compare::contender::{Contender, Programs};
use messina_bench::compare::picture::picture;
use messina_bench::compare::table::{Latencies, Results, latency_table, table};
use messina_bench::compare::work::{Set, Setup};
use messina_bench::compare::{Failed, Result};
use messina_bench::document::put_into;

/// Measures servers side by side on this machine.
#[derive(Debug, Parser)]
#[command(name = "compare")]
struct Flags {
    /// What is measured.
    #[arg(long, value_enum, default_value_t = Set::Plain)]
    set: Set,
    /// Some of the contenders: messina, messina-unaware, cassandra, redis.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Path of the Messina binary.
    #[arg(long, default_value = "target/dist/messina")]
    messina: PathBuf,
    /// More flags for it, in one string.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    messina_flags: String,
    /// The load tool.
    #[arg(long, default_value = "target/dist/messina-load")]
    messina_load: PathBuf,
    /// A script `cassandra start|stop DIR` that uses PORT and SYNC.
    #[arg(long, default_value = "bench/rivals/cassandra")]
    cassandra: PathBuf,
    /// Redis; redis-benchmark and redis-cli are looked for in the path.
    #[arg(long, default_value = "redis-server")]
    redis: PathBuf,
    /// Where data go: the disk that is measured.
    #[arg(long, default_value = "target")]
    data_dir: PathBuf,
    /// The first of the ports to use.
    #[arg(long, default_value_t = 9242)]
    port: u16,
    /// Records of 1 KB; rows, counters, groups of ten partitions.
    #[arg(long, default_value_t = 200_000)]
    records: u64,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Seconds before each that do not count.
    #[arg(long, default_value_t = 5)]
    warmup: u32,
    /// The same for Cassandra, whose compiler needs minutes.
    #[arg(long, default_value_t = 120)]
    cassandra_warmup: u32,
    /// Rates of the open loop, in operations a second.
    #[arg(long, value_delimiter = ',', default_value = "1000,5000,15000")]
    rates: Vec<u32>,
    /// Measurements of one work at most, while the host steals processor time; the one with the least steal counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    attempts: u32,
    /// The document whose marked place takes the table; else it is only printed.
    #[arg(long)]
    document: Option<PathBuf>,
    /// Where the picture goes.
    #[arg(long)]
    picture: Option<PathBuf>,
}

fn main() -> ExitCode {
    match compare(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("compare: {failed}");
            ExitCode::FAILURE
        }
    }
}

/// The contenders, by name: those that were named must be able to do the works.
fn chosen(flags: &Flags) -> Result<Vec<String>> {
    let able = flags.set.contenders();
    if flags.only.is_empty() {
        return Ok(able.iter().map(|&name| name.to_owned()).collect());
    }
    match flags.only.iter().find(|name| !able.contains(&name.as_str())) {
        Some(other) => Err(Failed(format!("--only {other}: there are {}", able.join(", ")))),
        None => Ok(flags.only.clone()),
    }
}

fn compare(flags: &Flags) -> Result<()> {
    let programs = Programs {
        messina: flags.messina.clone(),
        messina_flags: flags.messina_flags.split_whitespace().map(str::to_owned).collect(),
        cassandra: flags.cassandra.clone(),
        redis: flags.redis.clone(),
        port: flags.port,
        data_dir: flags.data_dir.clone(),
    };
    let setup = Setup {
        messina_load: flags.messina_load.clone(),
        records: flags.records,
        seconds: flags.seconds,
        warmup_s: flags.warmup,
        cassandra_warmup_s: flags.cassandra_warmup,
        rates: flags.rates.clone(),
        attempts_max: flags.attempts,
    };
    let works = flags.set.works();
    let mut results: Results = works.iter().map(|(w, p)| (*w, *p, Vec::new())).collect();
    let mut latencies = Latencies::new();
    for name in chosen(flags)? {
        let contender = match name.as_str() {
            "messina" => Contender::Messina,
            "messina-unaware" => Contender::MessinaUnaware,
            "cassandra" => Contender::Cassandra,
            "redis" => Contender::Redis,
            other => return Err(Failed(format!("--only {other}: no such contender"))),
        };
        eprintln!("{}: starting and loading", contender.title());
        let server = contender.start(&programs)?;
        setup.load(&server, works)?;
        for (work, pressure, costs) in &mut results {
            let cost = setup.measure(&server, *work, *pressure)?;
            eprintln!("{}: {} {pressure:?}: {cost:?}", contender.title(), work.title());
            costs.push((contender, cost));
        }
        if flags.set == Set::Plain {
            let lines = setup.open_loop(&server)?;
            eprintln!("{}: open loop: {lines:?}", contender.title());
            latencies.push((contender, lines));
        }
    }
    let text = table(&results) + &latency_table(&latencies);
    print!("{text}");
    if let Some(path) = &flags.picture {
        std::fs::write(path, picture(&results)).map_err(Failed::io(path.display()))?;
    }
    match &flags.document {
        Some(path) => put_into(path, flags.set.mark(), &text),
        None => Ok(()),
    }
}
