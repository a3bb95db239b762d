//! Random tables, writes, schema changes and reads against a server, each answer compared with that of a model.
//!
//! ```text
//! seed ─► generator ─► step ─┬─► model  (table.rs, query.rs) ─► expected
//!                            └─► server (connection.rs) ──────► answer ─► the same, to the byte and in order?
//! ```
//!
//! The server is a Messina, whose tables are flushed and compacted in between when `--data-dir` names its data directory,
//! or an Apache Cassandra, which proves the model. The exit status is 1 for a wrong answer, 2 for a run that failed.
//!
//! Not here: starting servers (`cargo ci differential`), and the product's own merge, filter and paging: none of it is
//! used.

mod cell;
mod connection;
mod draw;
mod driver;
mod generate;
mod query;
mod schema;
mod shrink;
mod statement;
mod table;
mod text;
mod token;
mod value;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use cql::frame::Version;

use crate::connection::Connection;
use crate::driver::{Failed, Plan, Tally};

/// The model copies values all the time: a tenth of the program's time with the allocator of the C library.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// All tables are in it; it is dropped at the beginning.
pub(crate) const KEYSPACE: &str = "differential";
/// Steps that are shown of a history that could not be made shorter.
const SHOWN_STEPS: usize = 60;

/// Random statements against a server and a model of what they mean.
#[derive(Parser)]
#[command(name = "messina-differential", version)]
struct Arguments {
    /// Name or number of the server's host
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// CQL port of the server
    #[arg(long, default_value_t = 9042)]
    port: u16,
    /// Data directory of a Messina on this machine: its tables are flushed and compacted, too
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// The server is an Apache Cassandra: reads that fail by its own defects are passed over
    #[arg(long, conflicts_with = "data_dir")]
    cassandra: bool,
    /// The first world; the time if there is none
    #[arg(long)]
    seed: Option<u64>,
    /// Statements at least
    #[arg(long, default_value_t = 1_000_000)]
    operations: u64,
    /// Tell a wrong answer as it was found, without looking for a shorter history
    #[arg(long)]
    as_found: bool,
    /// Connections, each with a thread
    #[arg(long, default_value_t = 2)]
    connections: usize,
    /// Worlds of each connection at a time
    #[arg(long, default_value_t = 32)]
    worlds: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(told)) => {
            println!("{told}");
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("messina-differential: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs, and gives what is to be told of a wrong answer.
fn run(arguments: &Arguments) -> Result<Option<String>, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let plan = Plan {
        address: format!("{}:{}", arguments.host, arguments.port),
        admin: arguments.data_dir.as_ref().map(|folder| folder.join("admin.sock")),
        is_cassandra: arguments.cassandra,
        seed: arguments.seed.unwrap_or(now.as_millis() as u64),
        operations: arguments.operations,
        connections: arguments.connections,
        worlds: arguments.worlds,
    };
    println!("worlds from seed {}", plan.seed);
    let started = Instant::now();
    make_keyspace(&plan)?;
    let tally = Tally::default();
    let failed = driver::run(&plan, &tally)?;
    let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "{} operations, {} of them reads, {} flushes and compactions, in {} worlds, {:.1} s, {}",
        of(&tally.operations),
        of(&tally.reads),
        of(&tally.flushes),
        of(&tally.worlds),
        started.elapsed().as_secs_f64(),
        if failed.is_none() { "0 mismatches" } else { "1 mismatch" },
    );
    if of(&tally.forgiven) > 0 {
        println!("{} reads failed by defects of Apache Cassandra", of(&tally.forgiven));
    }
    match failed {
        None => Ok(None),
        Some(failed) => tell(&plan, &failed, arguments.as_found).map(Some),
    }
}

fn make_keyspace(plan: &Plan) -> Result<(), String> {
    let mut connection = Connection::open(&plan.address, Version::V4)?;
    connection.must(&format!("DROP KEYSPACE IF EXISTS {KEYSPACE}"))?;
    connection.must(&format!(
        "CREATE KEYSPACE {KEYSPACE} WITH replication = \
         {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    ))?;
    connection.must(&format!("USE {KEYSPACE}"))?;
    connection.must(value::PAIR)
}

/// A wrong answer, with a history as short as could be found.
fn tell(plan: &Plan, failed: &Failed, as_found: bool) -> Result<String, String> {
    let short = if as_found { None } else { shrink::shrink(plan, failed)? };
    let seed = failed.world.seed;
    let mut lines =
        vec![format!("WRONG ANSWER in the world of seed {seed} (--seed {seed} --operations 1)")];
    let shown = match &short {
        Some(short) => short,
        None => {
            let why = if as_found { "" } else { "not wrong when that world was lived again; " };
            lines.push(format!("{why}its last steps were"));
            failed
        }
    };
    lines.extend(shown.world.told(SHOWN_STEPS));
    let mismatch = &shown.mismatch;
    lines.push(format!("statement: {}", mismatch.statement));
    lines.push(format!("expected:\n{}", mismatch.expected));
    lines.push(format!("got:\n{}", mismatch.got));
    Ok(lines.join("\n"))
}
