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
//! used. Frames are the exception: `cql::frame` encodes and decodes them on both sides, and what it does wrong in the
//! same way on both is not seen here.

mod cell;
mod columns;
mod connection;
mod draw;
mod driver;
mod generate;
mod prepared;
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
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
    /// The first world; the time if there is none. With --operations 1 only this one
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

fn plan(arguments: &Arguments) -> Plan {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Plan {
        address: format!("{}:{}", arguments.host, arguments.port),
        admin: arguments.data_dir.as_ref().map(|folder| folder.join("admin.sock")),
        is_cassandra: arguments.cassandra,
        seed: arguments.seed.unwrap_or(now.as_millis() as u64),
        operations: arguments.operations,
        connections: arguments.connections,
        worlds: arguments.worlds,
    }
}

/// Runs, and gives what is to be told of a wrong answer.
fn run(arguments: &Arguments) -> Result<Option<String>, String> {
    let plan = plan(arguments);
    println!("worlds from seed {}", plan.seed);
    let started = Instant::now();
    make_keyspace(&plan)?;
    let tally = Tally::default();
    let failed = driver::run(&plan, &tally)?;
    summarize(&tally, started.elapsed(), failed.is_some());
    match failed {
        None => tally.preparations.check().map(|()| None),
        Some(failed) => Ok(Some(tell(arguments, &plan, &failed))),
    }
}

fn summarize(tally: &Tally, took: Duration, has_failed: bool) {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "{} operations, {} of them reads, {} flushes and compactions, in {} worlds, {:.1} s, {}",
        of(&tally.operations),
        of(&tally.reads),
        of(&tally.flushes),
        of(&tally.worlds),
        took.as_secs_f64(),
        if has_failed { "1 mismatch" } else { "0 mismatches" },
    );
    println!("{} statements prepared again without a reason", tally.preparations.needless());
    if of(&tally.forgiven) > 0 {
        println!("{} reads failed by defects of Apache Cassandra", of(&tally.forgiven));
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

/// A wrong answer, with a history as short as could be found. An error does not hide it: the server may have died of
/// the same defect.
fn tell(arguments: &Arguments, plan: &Plan, failed: &Failed) -> String {
    let shorter = match arguments.as_found {
        true => Err(String::new()),
        false => match shrink::shrink(plan, failed) {
            Ok(Some(short)) => Ok(short),
            Ok(None) => Err("not wrong when that world was lived again; ".to_owned()),
            Err(error) => Err(format!("that world could not be lived again: {error}; ")),
        },
    };
    let seed = failed.world.seed;
    let again = repeating(arguments, seed);
    let mut lines = vec![format!("WRONG ANSWER in the world of seed {seed} ({again})")];
    if let Some(error) = &failed.error {
        lines.push(format!("a connection failed, too: {error}"));
    }
    let shown = match &shorter {
        Ok(short) => short,
        Err(why) => {
            lines.push(format!("{why}its last steps were"));
            failed
        }
    };
    lines.extend(shown.world.told(SHOWN_STEPS));
    let mismatch = &shown.mismatch;
    lines.push(format!("statement: {}", mismatch.statement));
    lines.push(format!("expected:\n{}", mismatch.expected));
    lines.push(format!("got:\n{}", mismatch.got));
    lines.join("\n")
}

/// The arguments by which one world of this run is lived again, alone. What the server can do is among them, since it
/// decides what is drawn.
fn repeating(arguments: &Arguments, seed: u64) -> String {
    let mut again = format!("--seed {seed} --operations 1 --connections 1 --worlds 1");
    if let Some(folder) = &arguments.data_dir {
        again.push_str(&format!(" --data-dir {}", folder.display()));
    }
    if arguments.cassandra {
        again.push_str(" --cassandra");
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Abilities;
    use crate::world::{Mismatch, World};

    fn parse(text: &str) -> Arguments {
        Arguments::try_parse_from(["messina-differential"].into_iter().chain(text.split(' ')))
            .unwrap()
    }

    /// Before: the data directory was left out, without which another world is drawn.
    #[test]
    fn the_arguments_that_are_told_live_the_world_again() {
        let again = parse(&repeating(&parse("--seed 1 --data-dir some/folder --worlds 8"), 7));
        let numbers = (again.operations, again.connections, again.worlds);
        assert_eq!((again.seed, numbers), (Some(7), (1, 1, 1)));
        assert_eq!(again.data_dir, Some(PathBuf::from("some/folder")));
        let again = parse(&repeating(&parse("--cassandra"), 7));
        assert!(again.cassandra && again.data_dir.is_none());
    }

    #[test]
    fn a_wrong_answer_is_told_with_the_error_that_came_beside_it() {
        let arguments = parse("--as-found --seed 7");
        let abilities = Abilities { has_admin: false, is_cassandra: false };
        let world = World::drawn(7, "w7".to_owned(), abilities);
        let [statement, expected, got] = ["SELECT", "a", "b"].map(str::to_owned);
        let mismatch = Mismatch { statement, expected, got };
        let failed = Failed { world, mismatch, error: Some("gone".to_owned()) };
        let told = tell(&arguments, &plan(&arguments), &failed);
        assert!(told.starts_with("WRONG ANSWER in the world of seed 7 (--seed 7 --operations 1 "));
        assert!(told.contains("a connection failed, too: gone") && told.ends_with("got:\nb"));
    }
}
