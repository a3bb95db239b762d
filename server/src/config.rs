//! The configuration: one struct, validated whole before anything starts, printed once.
//!
//! ```text
//!  defaults ◄── file (`--config`) ◄── flags ──► Config ──► checks, listeners, shards
//! ```
//!
//! Nothing here can be changed later, and nothing is global: `main` hands it on.

mod batch;
mod file;
mod flags;
mod machine;
mod promises;
pub(crate) mod quantity;

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use batch::BatchThresholds;
use clap::Parser;
use flags::Flags;
pub(crate) use flags::SyncMode;
use quantity::Bytes;

use crate::guardrails::{self, Values};
use crate::limits::{
    COMMITLOG_SEGMENT_BYTES, COMMITLOG_SEGMENT_BYTES_MAX, COMMITLOG_SEGMENT_BYTES_MIN,
    CONNECTIONS_MAX, REQUEST_TIMEOUT_MIN, SHARD_MEMORY_BYTES_MIN,
};
use crate::timeouts::{Timeouts, TombstoneThresholds};

/// Everything the server can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) data_dir: PathBuf,
    pub(crate) shards: usize,
    /// The whole budget, all shards together.
    pub(crate) memory_bytes: u64,
    pub(crate) listen: IpAddr,
    pub(crate) port: u16,
    pub(crate) shard_aware_port: Option<u16>,
    /// What drivers are told to connect to: never 0.0.0.0.
    pub(crate) broadcast_address: IpAddr,
    pub(crate) commitlog_sync: SyncMode,
    pub(crate) commitlog_segment_bytes: u64,
    pub(crate) cluster_name: String,
    pub(crate) data_center: String,
    pub(crate) rack: String,
    /// What compactions may go through in a second, all shards together; 0 for no limit.
    pub(crate) compaction_throughput_bytes: u64,
    /// Over all shards.
    pub(crate) connections_max: usize,
    /// From when on batches are warned of and refused.
    pub(crate) batch: BatchThresholds,
    /// How long requests may take.
    pub(crate) timeouts: Timeouts,
    /// Whether TRUNCATE and DROP take a snapshot first.
    pub(crate) auto_snapshot: bool,
    /// How long such a snapshot stays; `None`: until it is removed.
    pub(crate) auto_snapshot_ttl: Option<Duration>,
    /// Whether `ALTER TABLE .. DROP COMPACT STORAGE` is allowed.
    pub(crate) drop_compact_storage: bool,
    /// Whether indexes of the class SASIIndex are made.
    pub(crate) sasi_indexes: bool,
    /// Whether functions and aggregates of users are made.
    pub(crate) functions_enabled: bool,
    /// How many tombstones a read may pass.
    pub(crate) tombstones: TombstoneThresholds,
    /// What the guardrails are at the start.
    pub(crate) guardrails: Values,
}

/// What a source said; `None` leaves it to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Choices {
    data_dir: Option<PathBuf>,
    shards: Option<usize>,
    memory_bytes: Option<u64>,
    listen: Option<IpAddr>,
    port: Option<u16>,
    shard_aware_port: Option<u16>,
    broadcast_address: Option<IpAddr>,
    commitlog_sync: Option<SyncMode>,
    commitlog_segment_bytes: Option<u64>,
    cluster_name: Option<String>,
    data_center: Option<String>,
    rack: Option<String>,
    compaction_throughput_bytes: Option<u64>,
    connections_max: Option<usize>,
    batch_warn_bytes: Option<u64>,
    batch_fail_bytes: Option<u64>,
    batch_unlogged_partitions: Option<usize>,
    read_timeout: Option<Duration>,
    range_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
    cas_timeout: Option<Duration>,
    auto_snapshot: Option<bool>,
    auto_snapshot_ttl: Option<Duration>,
    drop_compact_storage: Option<bool>,
    sasi_indexes: Option<bool>,
    functions_enabled: Option<bool>,
    tombstone_warn: Option<usize>,
    tombstone_failure: Option<usize>,
    guardrails: Values,
}

/// A configuration, and what its owner should know about it.
pub(crate) struct Loaded {
    pub(crate) config: Config,
    pub(crate) warnings: Vec<String>,
}

/// What the configuration is measured against.
#[derive(Clone, Copy, Debug)]
struct Machine {
    cpus: usize,
    memory_bytes: u64,
}

/// Reads the command line and the file it names. Ends the process for `--help` and `--version`.
pub(crate) fn load() -> Result<Loaded, String> {
    let flags = Flags::parse();
    let cpus = shard::os::cpus::usable().map_err(|error| {
        format!("cannot tell which processors may be used: sched_getaffinity: {error}")
    })?;
    let machine = Machine { cpus: cpus.len().max(1), memory_bytes: machine::memory_bytes() };
    let mut warnings = Vec::new();
    let from_file = match &flags.config {
        Some(path) => read_file(path, &mut warnings)?,
        None => Choices::default(),
    };
    let choices = override_with(from_file, flags)?;
    Ok(Loaded { config: with_defaults(choices, machine, &mut warnings)?, warnings })
}

fn read_file(path: &Path, warnings: &mut Vec<String>) -> Result<Choices, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the configuration {}: {error}", path.display()))?;
    file::read(&text, warnings).map_err(|error| format!("{}: {error}", path.display()))
}

/// The choices of the file, with those that a flag makes in their place.
fn override_with(file: Choices, flags: Flags) -> Result<Choices, String> {
    let memory_bytes = match &flags.memory {
        Some(text) => Some(quantity::size(text, 1).map_err(|error| format!("--memory: {error}"))?),
        None => None,
    };
    Ok(Choices {
        data_dir: flags.data_dir.or(file.data_dir),
        shards: flags.shards.or(file.shards),
        memory_bytes: memory_bytes.or(file.memory_bytes),
        listen: flags.listen.or(file.listen),
        port: flags.port.or(file.port),
        shard_aware_port: flags.shard_aware_port.or(file.shard_aware_port),
        commitlog_sync: flags.commitlog_sync.or(file.commitlog_sync),
        ..file
    })
}

/// Fills in the defaults and checks the whole.
fn with_defaults(
    choices: Choices,
    machine: Machine,
    warnings: &mut Vec<String>,
) -> Result<Config, String> {
    let memory_bytes = choices.memory_bytes.unwrap_or(machine.memory_bytes / 2);
    let shards_fit = (memory_bytes / SHARD_MEMORY_BYTES_MIN) as usize;
    let shards = choices.shards.unwrap_or(machine.cpus.min(shards_fit.max(1)));
    let listen = choices.listen.unwrap_or(IpAddr::from([127, 0, 0, 1]));
    let port = choices.port.unwrap_or(9042);
    let batch = batch::thresholds(&choices);
    let (default, default_tombstones) = (Timeouts::default(), TombstoneThresholds::default());
    let tombstones = TombstoneThresholds {
        warn: choices.tombstone_warn.map_or(default_tombstones.warn, |n| n as u64),
        failure: choices.tombstone_failure.map_or(default_tombstones.failure, |n| n as u64),
    };
    let timeouts = Timeouts {
        read: choices.read_timeout.unwrap_or(default.read),
        range: choices.range_timeout.unwrap_or(default.range),
        write: choices.write_timeout.unwrap_or(default.write),
        cas_contention: choices.cas_timeout.unwrap_or(default.cas_contention),
    };
    let config = Config {
        data_dir: choices.data_dir.unwrap_or_else(|| PathBuf::from("messina-data")),
        shards,
        memory_bytes,
        listen,
        port,
        shard_aware_port: Some(choices.shard_aware_port.unwrap_or(19042)).filter(|p| *p != 0),
        broadcast_address: broadcast_address(choices.broadcast_address, listen)?,
        commitlog_sync: choices.commitlog_sync.unwrap_or(SyncMode::Batch),
        commitlog_segment_bytes: choices.commitlog_segment_bytes.unwrap_or(COMMITLOG_SEGMENT_BYTES),
        cluster_name: choices.cluster_name.unwrap_or_else(|| "Test Cluster".to_owned()),
        data_center: choices.data_center.unwrap_or_else(|| "datacenter1".to_owned()),
        rack: choices.rack.unwrap_or_else(|| "rack1".to_owned()),
        compaction_throughput_bytes: choices.compaction_throughput_bytes.unwrap_or(0),
        connections_max: choices.connections_max.unwrap_or(CONNECTIONS_MAX),
        batch,
        timeouts,
        auto_snapshot: choices.auto_snapshot.unwrap_or(true),
        auto_snapshot_ttl: choices.auto_snapshot_ttl,
        drop_compact_storage: choices.drop_compact_storage.unwrap_or(false),
        sasi_indexes: choices.sasi_indexes.unwrap_or(false),
        functions_enabled: choices.functions_enabled.unwrap_or(false),
        tombstones,
        guardrails: choices.guardrails,
    };
    config.validate(machine)?;
    if !listen.is_loopback() {
        warnings.push(format!(
            "serving {listen} without authentication: every client that reaches this port may read and \
             change everything. Listen on 127.0.0.1, or put a firewall in front"
        ));
    }
    if shards > machine.cpus {
        warnings.push(format!(
            "{shards} shards share {} processors: expect latencies of milliseconds",
            machine.cpus
        ));
    }
    Ok(config)
}

/// What drivers are told: what was chosen, else the address served; that of all interfaces is none.
fn broadcast_address(chosen: Option<IpAddr>, listen: IpAddr) -> Result<IpAddr, String> {
    let address = chosen.unwrap_or(listen);
    if !address.is_unspecified() {
        return Ok(address);
    }
    Err(format!(
        "{listen} is every address of this machine, and drivers must be told one: set \
         broadcast_rpc_address in a --config file, or --listen one address"
    ))
}

fn check_segment_bytes(bytes: u64) -> Result<(), String> {
    let (least, most) = (COMMITLOG_SEGMENT_BYTES_MIN, COMMITLOG_SEGMENT_BYTES_MAX);
    let unit = engine::limits::WRITE_ALIGN_BYTES as u64;
    if (least..=most).contains(&bytes) && bytes.is_multiple_of(unit) {
        return Ok(());
    }
    let (least, most) = (Bytes(least), Bytes(most));
    Err(format!(
        "commitlog_segment_size: {bytes} bytes are asked for; {least} to {most} are possible, in \
         whole units of {unit} bytes"
    ))
}

impl Config {
    fn validate(&self, machine: Machine) -> Result<(), String> {
        if self.shards == 0 || self.shards > shard::limits::SHARDS_MAX {
            return Err(format!("--shards: 1 to {} are possible", shard::limits::SHARDS_MAX));
        }
        if self.memory_bytes > machine.memory_bytes {
            return Err(format!(
                "--memory: {} is more than the {} there are",
                Bytes(self.memory_bytes),
                Bytes(machine.memory_bytes)
            ));
        }
        if self.shard_memory_bytes() < SHARD_MEMORY_BYTES_MIN {
            let needed = SHARD_MEMORY_BYTES_MIN * self.shards as u64;
            return Err(format!(
                "--memory: {} for {} shards is less than the {} that each needs: give {} or use \
                 fewer --shards",
                Bytes(self.memory_bytes),
                self.shards,
                Bytes(SHARD_MEMORY_BYTES_MIN),
                Bytes(needed)
            ));
        }
        if self.port == 0 {
            return Err("--port: 0 is no port to tell drivers of".to_owned());
        }
        if self.shard_aware_port == Some(self.port) {
            return Err(format!("--shard-aware-port: {} is taken by --port", self.port));
        }
        check_segment_bytes(self.commitlog_segment_bytes)?;
        let Timeouts { read, range, write, cas_contention } = self.timeouts;
        let timeouts = [
            ("read_request_timeout", read),
            ("range_request_timeout", range),
            ("write_request_timeout", write),
            ("cas_contention_timeout", cas_contention),
        ];
        for (name, timeout) in timeouts {
            if timeout < REQUEST_TIMEOUT_MIN {
                let least = REQUEST_TIMEOUT_MIN.as_millis();
                return Err(format!("{name}: at least {least}ms are possible"));
            }
        }
        if self.batch.fail_bytes < self.batch.warn_bytes {
            return Err(
                "batch_size_fail_threshold: it is below batch_size_warn_threshold".to_owned()
            );
        }
        guardrails::check(&self.guardrails)
    }

    /// The defaults, with the data in `data_dir`.
    #[cfg(test)]
    pub(crate) fn for_tests(data_dir: &Path) -> Config {
        let machine = Machine { cpus: 1, memory_bytes: 1 << 30 };
        let choices = Choices { data_dir: Some(data_dir.to_owned()), ..Choices::default() };
        with_defaults(choices, machine, &mut Vec::new()).expect("the defaults are good")
    }

    /// The budget of one shard.
    pub(crate) fn shard_memory_bytes(&self) -> u64 {
        self.memory_bytes / self.shards as u64
    }
}

/// One setting a line, by the name the file has for it.
impl Display for Config {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "auto_snapshot: {}", self.auto_snapshot)?;
        if let Some(ttl) = self.auto_snapshot_ttl {
            writeln!(f, "auto_snapshot_ttl: {}s", ttl.as_secs())?;
        }
        writeln!(f, "batch_size_fail_threshold: {}B", self.batch.fail_bytes)?;
        writeln!(f, "batch_size_warn_threshold: {}B", self.batch.warn_bytes)?;
        writeln!(f, "broadcast_rpc_address: {}", self.broadcast_address)?;
        let cas = self.timeouts.cas_contention.as_millis();
        writeln!(f, "cas_contention_timeout: {cas}ms")?;
        writeln!(f, "cluster_name: {}", self.cluster_name)?;
        writeln!(f, "commitlog_segment_size: {}B", self.commitlog_segment_bytes)?;
        let sync = if self.commitlog_sync == SyncMode::Batch { "batch" } else { "periodic" };
        writeln!(f, "commitlog_sync: {sync}")?;
        writeln!(f, "compaction_throughput: {}B/s", self.compaction_throughput_bytes)?;
        writeln!(f, "data_center: {}", self.data_center)?;
        writeln!(f, "data_file_directories: [{}]", self.data_dir.display())?;
        writeln!(f, "drop_compact_storage_enabled: {}", self.drop_compact_storage)?;
        writeln!(f, "sasi_indexes_enabled: {}", self.sasi_indexes)?;
        for (name, value) in guardrails::changed(&self.guardrails) {
            writeln!(f, "{name}: {value}")?;
        }
        writeln!(f, "memory: {}B", self.memory_bytes)?;
        let aware = self.shard_aware_port.unwrap_or(0);
        writeln!(f, "native_shard_aware_transport_port: {aware}")?;
        writeln!(f, "native_transport_max_concurrent_connections: {}", self.connections_max)?;
        writeln!(f, "native_transport_port: {}", self.port)?;
        writeln!(f, "rack: {}", self.rack)?;
        writeln!(f, "range_request_timeout: {}ms", self.timeouts.range.as_millis())?;
        writeln!(f, "read_request_timeout: {}ms", self.timeouts.read.as_millis())?;
        writeln!(f, "rpc_address: {}", self.listen)?;
        writeln!(f, "shards: {}", self.shards)?;
        writeln!(f, "tombstone_failure_threshold: {}", self.tombstones.failure)?;
        writeln!(f, "tombstone_warn_threshold: {}", self.tombstones.warn)?;
        let partitions = self.batch.unlogged_partitions;
        writeln!(f, "unlogged_batch_across_partitions_warn_threshold: {partitions}")?;
        writeln!(f, "user_defined_functions_enabled: {}", self.functions_enabled)?;
        write!(f, "write_request_timeout: {}ms", self.timeouts.write.as_millis())
    }
}

#[cfg(test)]
mod tests;
