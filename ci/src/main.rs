//! The checks, as a program: `cargo ci TIER` or `cargo ci STEP`.
//!
//!   fast    < 2 minutes warm: format, clippy, tidy, layers, unit tests
//!   full    fast + every test, crash simulation, kill -9, drivers, the documents' commands
//!   night   full with thirty times the simulation, ten minutes of fuzzing for each target, every driver,
//!           a full disk, what reads cost, large data in small memory, indexes of it
//!   fix     the only one that edits: rustfmt and clippy's own suggestions
//!
//! Each step is one line with its time; a failed one shows its output and the command that
//! runs it alone. The last line counts: `N passed, N failed, N skipped`.
//!
//! Not here: what a step does (one file each), which steps a tier has (`tier.rs`).

mod client;
mod conformance;
mod differential;
mod disk_space;
mod documents;
mod draw;
mod drivers;
mod evidence;
mod full_disk;
mod fuzz;
mod golden;
mod indexed_data;
mod kill9;
mod kit;
mod large_data;
mod layers;
mod load;
mod many_tables;
mod process;
mod read_costs;
mod repository;
mod server;
mod shards;
mod step;
mod tidy;
mod tier;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::drivers::Choice;
use crate::repository::Repository;
use crate::server::Address;
use crate::step::Report;

/// The checks of Messina.
#[derive(Parser)]
#[command(name = "cargo ci", bin_name = "cargo ci", disable_version_flag = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Format, clippy, tidy, layers, unit tests: under two minutes when warm.
    Fast,
    /// Everything that must hold before a release: 22 to 53 minutes on two cores.
    Full,
    /// Full, and the long runs.
    Night,
    /// Edit the sources as rustfmt and clippy suggest.
    Fix,
    /// File headers, sizes, names, where `unsafe` and the runtime may be named.
    Tidy,
    /// The arrows between the crates.
    Layers,
    /// Licences and origins of the dependencies, and that none is there twice.
    Deny,
    /// The ring between two shards, under Miri.
    Miri,
    /// Decoders and statements under libFuzzer.
    Fuzz {
        /// How long each target runs.
        #[arg(long, default_value_t = tier::FUZZ_SECONDS)]
        seconds: u64,
    },
    /// Every command that the documents tell the reader to type.
    Documents,
    /// The server is killed under load; no acknowledged write may be lost.
    Kill9 {
        #[command(flatten)]
        kills: Kills,
        #[command(flatten)]
        tested: Tested,
    },
    /// Data written with two shards, read with one, three and two.
    Shards,
    /// A disk is filled to the last byte; the server is killed, started, and made to have space.
    FullDisk {
        /// An empty folder on a file system of at most 4 GiB, which is filled; without it a small one is mounted.
        #[arg(long)]
        on: Option<PathBuf>,
        #[command(flatten)]
        tested: Tested,
    },
    /// Three indexes of a table in 1 GB: built while it is written, asked 1,000 times a second.
    IndexedData {
        /// How many rows.
        #[arg(long, default_value_t = indexed_data::ROWS)]
        rows: u64,
        #[command(flatten)]
        tested: Tested,
    },
    /// Rows of 100 bytes, far more than memory, are loaded and read.
    LargeData {
        /// How many rows.
        #[arg(long, default_value_t = large_data::ROWS)]
        rows: u64,
        #[command(flatten)]
        tested: Tested,
    },
    /// Ten thousand tables with 256 MB: memory, times, an idle node.
    ManyTables {
        /// How many tables.
        #[arg(long, default_value_t = many_tables::TABLES)]
        tables: u64,
        #[command(flatten)]
        tested: Tested,
    },
    /// What cold reads cost in device reads.
    ReadCosts {
        /// Rows of the wide partition; a tenth as many records of 1 KB.
        #[arg(long, default_value_t = read_costs::ROWS)]
        rows: u64,
        #[command(flatten)]
        tested: Tested,
    },
    /// Statements in every state of storage, answered as Apache Cassandra answers.
    Golden {
        /// Topics to run; all of them if none is named.
        topics: Vec<String>,
        /// Write the answers of the server at --port into the suite.
        #[arg(long, requires = "port")]
        record: bool,
        /// The folder with messina and messina-admin, if it is not the release build's.
        #[arg(long)]
        programs: Option<PathBuf>,
        /// Plant bugs in merge, paging and prepare, one by one: the suite must notice each.
        #[arg(long, conflicts_with_all = ["topics", "record", "programs", "port"])]
        planted: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Random statements, answered as a model of them says.
    Differential {
        /// The first world of random statements; with --operations 1 only this one.
        #[arg(long)]
        seed: Option<u64>,
        /// How many statements at least.
        #[arg(long, default_value_t = differential::OPERATIONS)]
        operations: u64,
        /// Plant bugs in merge, filter, paging, statics and order, one by one: each must be noticed.
        #[arg(long, conflicts_with_all = ["seed", "operations", "port"])]
        planted: bool,
        /// An Apache Cassandra instead of a fresh server.
        #[command(flatten)]
        target: Target,
    },
    /// The public conformance suite, compared with Apache Cassandra's outcomes.
    Conformance {
        /// A checkout of the suite's repository.
        #[arg(long)]
        suite: PathBuf,
        /// Only tests of these areas.
        #[arg(long, num_args = 1..)]
        area: Vec<String>,
        /// Judge the outcomes of the last run again, and run nothing.
        #[arg(long, conflicts_with = "area")]
        again: bool,
        /// Write the result here, as docs/conformance.md is.
        #[arg(long)]
        write: Option<PathBuf>,
        #[command(flatten)]
        target: Target,
    },
    /// Real clients against a fresh server, or any CQL server.
    Drivers {
        /// Clients to run; all of them if none is named.
        names: Vec<String>,
        #[command(flatten)]
        target: Target,
    },
}

/// How often the server is killed, and whether it has a bug.
#[derive(clap::Args)]
struct Kills {
    /// How many times.
    #[arg(long, default_value_t = tier::KILL_CYCLES)]
    cycles: u64,
    /// Repeat the moments of a failed run.
    #[arg(long)]
    seed: Option<u64>,
    /// Plant bugs of conditional writes, counters and batches, one by one: each must be found.
    #[arg(long, conflicts_with_all = ["cycles", "seed"])]
    planted: bool,
}

impl Kills {
    fn run(&self, repository: &Repository, report: &mut Report) {
        if self.planted {
            return tier::kill9_planted(repository, report);
        }
        tier::kill9(repository, report, self.cycles, self.seed);
    }
}

/// The programs that are tested.
#[derive(clap::Args)]
struct Tested {
    /// The folder with messina, messina-admin and messina-load, if it is not the release build's.
    #[arg(long)]
    programs: Option<PathBuf>,
}

impl Tested {
    /// Runs a step on the release build, which is made, or on the programs of another folder.
    fn run(
        self,
        repository: &mut Repository,
        report: &mut Report,
        step: impl FnOnce(&Repository, &mut Report),
    ) {
        match self.programs {
            Some(folder) => repository.set_programs(folder),
            None => tier::build_release(repository, report),
        }
        step(repository, report);
    }
}

/// A server that is there already.
#[derive(clap::Args)]
struct Target {
    /// Name or number of a running CQL server's host; without a port, a fresh server is started.
    #[arg(long, default_value = "127.0.0.1", requires = "port")]
    host: String,
    /// CQL port of a running server.
    #[arg(long)]
    port: Option<u16>,
}

impl Target {
    fn address(self) -> Option<Address> {
        self.port.map(|port| Address { host: self.host, port })
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut repository = match Repository::find() {
        Ok(repository) => repository,
        Err(error) => {
            eprintln!("cargo ci: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut report = Report::new(repository.log_folder());
    run(arguments.task, &mut repository, &mut report);
    report.close()
}

/// Runs what was asked for.
fn run(task: Task, repository: &mut Repository, report: &mut Report) {
    match task {
        Task::Fast => tier::fast(repository, report),
        Task::Full => tier::full(repository, report),
        Task::Night => tier::night(repository, report),
        Task::Fix => tier::fix(repository, report),
        Task::Tidy => tier::tidy(repository, report),
        Task::Layers => tier::layers(repository, report),
        Task::Deny => tier::dependencies(repository, report),
        Task::Miri => tier::miri(repository, report),
        Task::Fuzz { seconds } => tier::fuzz(repository, report, seconds),
        Task::Documents => tier::documents(repository, report),
        Task::Kill9 { kills, tested } => {
            tested.run(repository, report, |at, to| kills.run(at, to));
        }
        Task::Shards => {
            tier::build_release(repository, report);
            tier::shards(repository, report);
        }
        Task::FullDisk { on, tested } => {
            tested.run(repository, report, |at, to| tier::full_disk(at, to, on.as_deref()));
        }
        Task::IndexedData { rows, tested } => {
            tested.run(repository, report, |at, to| tier::indexed_data(at, to, rows));
        }
        Task::LargeData { rows, tested } => {
            tested.run(repository, report, |at, to| tier::large_data(at, to, rows));
        }
        Task::ManyTables { tables, tested } => {
            tested.run(repository, report, |at, to| tier::many_tables(at, to, tables));
        }
        Task::ReadCosts { rows, tested } => {
            tested.run(repository, report, |at, to| tier::read_costs(at, to, rows));
        }
        Task::Golden { planted: true, .. } => tier::golden_planted(repository, report),
        Task::Golden { topics, record, programs, target, .. } => {
            run_golden((repository, report), (topics, record), programs, target);
        }
        Task::Differential { planted, seed, operations, target } => {
            tier::build_release(repository, report);
            if planted {
                return tier::differential_planted(repository, report);
            }
            let choice = differential::Choice { seed, operations, against: target.address() };
            tier::differential(repository, report, &choice);
        }
        Task::Conformance { suite, area, again, write, target } => {
            let choice = conformance::Choice { suite, areas: area, again, write };
            let address = target.address();
            if address.is_none() && !again {
                tier::build_release(repository, report);
            }
            report.step("conformance", "cargo ci conformance", |log| {
                conformance::run(repository, &choice, address, log)
            });
        }
        Task::Drivers { names, target } => {
            let choice = if names.is_empty() { Choice::All } else { Choice::Named(&names) };
            let address = target.address();
            if address.is_none() {
                tier::build_release(repository, report);
            }
            drivers::run(repository, report, &choice, address);
        }
    }
}

/// Runs the statements of these topics.
fn run_golden(
    (repository, report): (&mut Repository, &mut Report),
    (topics, record): (Vec<String>, bool),
    programs: Option<PathBuf>,
    target: Target,
) {
    let address = target.address();
    if address.is_none() && programs.is_none() {
        tier::build_release(repository, report);
    }
    let programs = programs.unwrap_or_else(golden::release);
    let choice = golden::Choice { topics, record, programs, ..Default::default() };
    report.step("golden", "cargo ci golden", |log| golden::run(repository, &choice, address, log));
}
