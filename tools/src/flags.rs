//! The command line of `messina-load`: a sub-command, with flags for the client, the table, the load and
//! the report.
//!
//! Each flag says its unit and its default. What several sub-commands take is one struct, flattened into
//! each. Not here: what the flags lead to (`command.rs`), and which of them fit together, beyond what one
//! flag can tell of itself.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use cql::frame::compress::Compression;
use cql::frame::{Consistency, Version};

use crate::error::{Error, Result};
use crate::limits::RECORDS_MAX;
use crate::workload::scenario::ScenarioName;
use crate::workload::{customers, record, series};

const EXAMPLES: &str = "\
EXAMPLES
  One million records of 1 KB, then a minute of workload A with every read verified:
    messina-load load --records 1000000
    messina-load run --workload a --records 1000000 --duration 60s --verify

  The latency at 20,000 operations a second, as users would see it, with a page of pictures:
    messina-load run --workload b --records 1000000 --rate 20000 --html b.html

  Does a server keep its word when it is killed?
    messina-load run --mix insert=50,update=50 --records 1000000 --journal acks &
    kill -9 SERVER; restart it; messina-load verify --journal acks

  Does money stay the same when it is moved by conditional writes? And after a crash?
    messina-load load --workload bank --journal acks
    messina-load run --workload bank --verify --journal acks --duration 60s
    messina-load verify --journal acks

  Two runs in one page:
    messina-load report before.json after.json --html compared.html

EXIT STATUS
  0 all went well   1 operations failed, a promise was broken, or a signal came before all was done
  2 wrong flags     3 the server went away, or was never there";

/// Drives any CQL server: YCSB, time series, conditional writes, counters, batches; verified reads, honest latencies.
#[derive(Debug, Parser)]
#[command(name = "messina-load", version, after_long_help = EXAMPLES, arg_required_else_help = true)]
pub struct Flags {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The sub-commands of `messina-load`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Create the table and insert the records.
    #[command(after_long_help = EXAMPLES)]
    Load(LoadFlags),
    /// Run a workload on records that are loaded.
    #[command(after_long_help = EXAMPLES)]
    Run(RunFlags),
    /// Read back what a journal says was acknowledged, or every record.
    #[command(after_long_help = EXAMPLES)]
    Verify(VerifyFlags),
    /// Draw the results of one run, or of a few, as one HTML page.
    #[command(after_long_help = EXAMPLES)]
    Report(ReportFlags),
}

/// How to reach the server, and how hard to press.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Server and client")]
pub struct ClientFlags {
    /// The server: HOST or HOST:PORT.
    #[arg(long, default_value = "127.0.0.1:9042")]
    pub host: String,
    /// Client threads; one per core that the client may use.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Connections of all threads together.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=32767))]
    pub connections: u16,
    /// Requests in flight on each connection.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32767))]
    pub in_flight: u16,
    /// Cores to run the threads on, such as 0,2,3.
    #[arg(long, value_delimiter = ',')]
    pub cores: Vec<usize>,
    /// Version of the native protocol.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(3..=5))]
    pub protocol: u8,
    /// Compression of messages.
    #[arg(long, value_enum, default_value_t = CompressionName::None)]
    pub compression: CompressionName,
    /// Consistency level, such as one, quorum, local_quorum.
    #[arg(long, default_value = "local_one", value_parser = parse_consistency)]
    pub consistency: Consistency,
    /// Do not send requests to the shard that owns their key.
    #[arg(long)]
    pub no_shard_aware: bool,
    /// User name, if the server asks.
    #[arg(long, requires = "password")]
    pub user: Option<String>,
    /// Password, if the server asks.
    #[arg(long, requires = "user")]
    pub password: Option<String>,
    /// How long one operation may take.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub timeout: Duration,
    /// Go on when connections are lost, and try for this long to get them back.
    #[arg(long, num_args = 0..=1, default_missing_value = "60s", value_parser = parse_duration)]
    pub reconnect: Option<Duration>,
    /// The server's process, if it is on this machine: reports its CPU and memory.
    #[arg(long)]
    pub server_pid: Option<u32>,
}

/// What the data look like.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Data")]
pub struct DataFlags {
    /// Keyspace of the table.
    #[arg(long, default_value = "ycsb")]
    pub keyspace: String,
    /// Records that the load phase makes; banks of 8 accounts, counters, or groups of 10 partitions.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(..=RECORDS_MAX))]
    pub records: u64,
    /// Fields of a record.
    #[arg(long, default_value_t = 10)]
    pub fields: usize,
    /// Bytes of a field, of a point of a series, of a row of a batch, or of a customer's note.
    #[arg(long, default_value_t = 100)]
    pub field_bytes: usize,
    /// Series (workload timeseries).
    #[arg(long, default_value_t = 1000)]
    pub series: u64,
    /// Points of each series that the load phase makes.
    #[arg(long, default_value_t = 100)]
    pub points: u32,
    /// Time between two points; a partition holds one day of them.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub step: Duration,
    /// How long a point lives; 0 is for ever.
    #[arg(long, default_value = "7d", value_parser = parse_duration)]
    pub ttl: Duration,
}

/// Where results go.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Results")]
pub struct OutputFlags {
    /// What to call this run in reports.
    #[arg(long)]
    pub title: Option<String>,
    /// Write the result as data, for `report`.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Draw the result as one HTML page.
    #[arg(long)]
    pub html: Option<PathBuf>,
    /// Show no progress.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Flags of `load`.
#[derive(Args, Clone, Debug)]
pub struct LoadFlags {
    /// The table to make and fill.
    #[arg(long, value_enum, default_value_t = DataName::Ycsb)]
    pub workload: DataName,
    /// Drop the keyspace first.
    #[arg(long)]
    pub drop: bool,
    /// The first record to insert, to go on with a load that was broken off.
    #[arg(long, default_value_t = 0)]
    pub from: u64,
    /// Replicas of the keyspace, if it has to be created.
    #[arg(long, default_value_t = 1)]
    pub replication: u32,
    /// Options of the table, such as "compression = {'enabled': false}".
    #[arg(long, default_value = "")]
    pub table_options: String,
    /// Append every acknowledged write to this file, for `verify`.
    #[arg(long)]
    pub journal: Option<PathBuf>,
    /// Flags shared by all commands: see `DataFlags`.
    #[command(flatten)]
    pub data: DataFlags,
    /// Flags shared by all commands: see `ClientFlags`.
    #[command(flatten)]
    pub client: ClientFlags,
    /// Flags shared by all commands: see `OutputFlags`.
    #[command(flatten)]
    pub output: OutputFlags,
}

/// Flags of `run`.
#[derive(Args, Clone, Debug)]
pub struct RunFlags {
    /// YCSB's core workload a to f, time series, customers, or data that obey a rule: bank, conditional,
    /// counters, named, batches, indexed, views.
    #[arg(long, value_enum, default_value_t = WorkloadName::A)]
    pub workload: WorkloadName,
    /// Other shares of operations, such as read=80,update=20. Of records: read, update, insert,
    /// scan, modify; of series: append, latest, window; of a bank: transfer, read, receipt;
    /// of conditional rows: claim, change, contend, read; of counters: increment, read; of named ones: count, read;
    /// of batches: batch, read;
    /// of customers: insert, read, mail, city, amount, both; of indexed rows: tag, find, read; of rows with a view:
    /// tag, update, remove, find.
    #[arg(long)]
    pub mix: Option<String>,
    /// An update, and the write of a modify, writes all fields of its record, not one (YCSB's writeallfields).
    #[arg(long)]
    pub write_all_fields: bool,
    /// Another popularity of keys.
    #[arg(long, value_enum)]
    pub popularity: Option<PopularityName>,
    /// Hot share of the keys and of the operations, for hotspot.
    #[arg(long, default_value = "0.2,0.8", value_delimiter = ',')]
    pub hotspot: Vec<f64>,
    /// The most rows of a scan, of a window, of the latest points, or of customers that are found.
    #[arg(long, default_value_t = 100)]
    pub scan_rows: u32,
    /// How long to run, once warm.
    #[arg(long, default_value = "60s", value_parser = parse_duration, conflicts_with = "operations")]
    pub duration: Duration,
    /// How many operations to run instead.
    #[arg(long)]
    pub operations: Option<u64>,
    /// How long to run before counting.
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub warmup: Duration,
    /// Open loop: so many operations a second, latency from when each was meant to be sent.
    #[arg(long)]
    pub rate: Option<f64>,
    /// Judge every read. Of the data of a rule this run must be all that writes.
    #[arg(long)]
    pub verify: bool,
    /// Repeat this statement on one more connection while connections are opened and the workload runs, such as "SELECT count(*) FROM ycsb.usertable".
    #[arg(long, value_name = "STATEMENT")]
    pub beside: Option<String>,
    /// Rows of a page of --beside.
    #[arg(long, default_value_t = 5000)]
    pub beside_rows: u32,
    /// Append every acknowledged write to this file, for `verify`.
    #[arg(long)]
    pub journal: Option<PathBuf>,
    /// Seed of keys and operations; runs with the same seed choose alike.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Flags shared by all commands: see `DataFlags`.
    #[command(flatten)]
    pub data: DataFlags,
    /// Flags shared by all commands: see `ClientFlags`.
    #[command(flatten)]
    pub client: ClientFlags,
    /// Flags shared by all commands: see `OutputFlags`.
    #[command(flatten)]
    pub output: OutputFlags,
}

/// Flags of `verify`.
#[derive(Args, Clone, Debug)]
pub struct VerifyFlags {
    /// The journal to check: every write in it, or a newer one, must be there, and whole. Without
    /// one, all --records (or all points of all series) must be there and whole. Of a bank: every applied
    /// transfer is there, no refused one, and all add up; of counters: what was acknowledged is counted, and
    /// no more than was begun; of batches: every one is whole.
    #[arg(long)]
    pub journal: Option<PathBuf>,
    /// Without a journal: what was loaded.
    #[arg(long, value_enum, default_value_t = DataName::Ycsb)]
    pub workload: DataName,
    /// Flags shared by all commands: see `DataFlags`.
    #[command(flatten)]
    pub data: DataFlags,
    /// Flags shared by all commands: see `ClientFlags`.
    #[command(flatten)]
    pub client: ClientFlags,
    /// Flags shared by all commands: see `OutputFlags`.
    #[command(flatten)]
    pub output: OutputFlags,
}

/// Flags of `report`.
#[derive(Args, Clone, Debug)]
pub struct ReportFlags {
    /// One result of --json, two to compare, or up to six to look at together.
    #[arg(required = true, num_args = 1..=6)]
    pub runs: Vec<PathBuf>,
    /// The page to write.
    #[arg(long)]
    pub html: PathBuf,
}

/// The workloads of `run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadName {
    /// 50 % read, 50 % update.
    A,
    /// 95 % read, 5 % update.
    B,
    /// YCSB C: reads only.
    C,
    /// 95 % read, 5 % insert, the newest most.
    D,
    /// 95 % scan, 5 % insert.
    E,
    /// 50 % read, 50 % read-modify-write.
    F,
    /// Points appended to series, read newest first and by stretches.
    Timeseries,
    /// Customers, found by mail address, city and amount: exactly those that have it.
    Customers,
    /// Transfers between accounts by conditional batches: the sum stays.
    Bank,
    /// Rows that are inserted if they are not there, and updated if a column has its value.
    Conditional,
    /// Counters: each acknowledged increment is counted once.
    Counters,
    /// Counters whose increments have names: sent again, each is counted once.
    Named,
    /// Logged batches over 10 partitions: all of one, or nothing.
    Batches,
    /// Rows found by an index: exactly those whose column has the value.
    Indexed,
    /// Rows and a view of them: exactly what the table has.
    Views,
}

/// The data sets of `load` and `verify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DataName {
    /// The usertable of YCSB.
    Ycsb,
    /// The table of series.
    Timeseries,
    /// Customers, to be found by indexes.
    Customers,
    /// Banks of 8 accounts.
    Bank,
    /// Rows for conditional writes.
    Conditional,
    /// Counters that have counted once.
    Counters,
    /// Counters whose increments have names.
    Named,
    /// Groups of 10 partitions that a batch writes.
    Batches,
    /// Rows with an indexed column.
    Indexed,
    /// Rows with a materialized view.
    Views,
}

impl DataName {
    /// The name of their table.
    pub fn table(self) -> &'static str {
        match self {
            DataName::Ycsb => record::TABLE,
            DataName::Timeseries => series::TABLE,
            DataName::Customers => customers::TABLE,
            DataName::Bank => ScenarioName::Bank.table(),
            DataName::Conditional => ScenarioName::Conditional.table(),
            DataName::Counters => ScenarioName::Counters.table(),
            DataName::Named => ScenarioName::Named.table(),
            DataName::Batches => ScenarioName::Batches.table(),
            DataName::Indexed => ScenarioName::Indexed.table(),
            DataName::Views => ScenarioName::Views.table(),
        }
    }

    /// The scenario that these are the data of, if it has one.
    pub fn scenario(self) -> Option<ScenarioName> {
        ScenarioName::of_table(self.table())
    }
}

impl WorkloadName {
    /// The data that the workload needs.
    pub fn data(self) -> DataName {
        match self {
            WorkloadName::Timeseries => DataName::Timeseries,
            WorkloadName::Customers => DataName::Customers,
            WorkloadName::Bank => DataName::Bank,
            WorkloadName::Conditional => DataName::Conditional,
            WorkloadName::Counters => DataName::Counters,
            WorkloadName::Named => DataName::Named,
            WorkloadName::Batches => DataName::Batches,
            WorkloadName::Indexed => DataName::Indexed,
            WorkloadName::Views => DataName::Views,
            _ => DataName::Ycsb,
        }
    }
}

/// The distributions of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PopularityName {
    /// Every key is equally likely.
    Uniform,
    /// Zipf, hot keys are neighbours.
    Zipfian,
    /// Zipf, hot keys are strewn (YCSB's "zipfian").
    Scrambled,
    /// Zipf, the newest most.
    Latest,
    /// A hot share.
    Hotspot,
}

/// Compressions of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompressionName {
    /// Frames are not compressed.
    None,
    /// Frames are compressed with LZ4.
    Lz4,
    /// Snappy (protocol 3 and 4).
    Snappy,
}

impl ClientFlags {
    /// The protocol version.
    pub fn version(&self) -> Version {
        Version::from_number(self.protocol).expect("clap allows 3 to 5")
    }

    /// The compression of frames; an error if protocol v5 lacks it.
    pub fn compression(&self) -> Result<Compression> {
        match self.compression {
            CompressionName::None => Ok(Compression::None),
            CompressionName::Lz4 => Ok(Compression::Lz4),
            CompressionName::Snappy if self.protocol < 5 => Ok(Compression::Snappy),
            CompressionName::Snappy => {
                Err(Error::Invalid("protocol 5 compresses with lz4 only".into()))
            }
        }
    }
}

/// Reads `90`, `90s`, `250ms`, `5m`, `2h`, `7d`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(format!("'{unit}' is no unit of time; there are ms, s, m, h, d")),
    };
    let number: f64 = number.parse().map_err(|_| "a duration is a number and a unit, as 90s")?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

fn parse_consistency(text: &str) -> Result<Consistency, String> {
    let level = Consistency::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(text));
    level.ok_or_else(|| {
        let names: Vec<String> =
            Consistency::ALL.iter().map(|level| level.name().to_lowercase()).collect();
        format!("no such level; there are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Flags::command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("7d"), Ok(Duration::from_secs(604_800)));
        for wrong in ["", "s", "5 s", "5y", "-1s", "1.2.3s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reconnect_has_a_default_patience() {
        let flags = Flags::parse_from(["messina-load", "run", "--reconnect"]);
        let Verb::Run(run) = flags.verb else { panic!("run") };
        assert_eq!(run.client.reconnect, Some(Duration::from_secs(60)));
        assert!(Flags::try_parse_from(["messina-load", "run", "--user", "x"]).is_err());
    }
}
