//! The command line. What a flag says wins over the file, and the file over the defaults.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Messina: a wide-column database that speaks CQL.
#[derive(Debug, Parser)]
#[command(
    name = "messina",
    version,
    about = "A wide-column database server that speaks CQL to the drivers you already use.",
    after_help = "Without any flag it serves 127.0.0.1:9042, keeps its data in ./messina-data and \
                  uses every core.\nA first session:  cqlsh 127.0.0.1 9042"
)]
pub(crate) struct Flags {
    /// Where the data lives
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// How many shards to run, one to a core [default: every usable core]
    #[arg(long, value_name = "N")]
    pub(crate) shards: Option<usize>,

    /// Memory for everything, all shards together, such as 512M or 4G [default: half of what the
    /// machine or container has]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,

    /// The address to serve CQL on [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<IpAddr>,

    /// The port to serve CQL on [default: 9042]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,

    /// The port where a connection's source port picks its shard; 0 for none [default: 19042]
    #[arg(long, value_name = "PORT")]
    pub(crate) shard_aware_port: Option<u16>,

    /// When a write is acknowledged: once it is on disk, or before [default: batch]
    #[arg(long, value_name = "MODE")]
    pub(crate) commitlog_sync: Option<SyncMode>,

    /// Settings by the names of cassandra.yaml and scylla.yaml
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SyncMode {
    /// After the flush that covers it
    Batch,
    /// At once; a crash may lose the last moments
    Periodic,
}
