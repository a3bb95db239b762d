//! Opening the data directory, before any shard is: the lock, the layout, the schema.
//!
//! ```text
//! lock ─► layout ─┬─ nothing, or a first start cut short: make everything, then say that it is ready
//!                 └─ ready: clean up what an earlier start left
//!      ─► the schema's log, replayed onto the built-in tables
//!      ─► another number of shards than before: delete what nothing names, and deal the data again
//!      ─► delete what nothing names, and count who has the rest
//! ```
//!
//! Done once, on the first core, before the others start. A crash at any step is followed by the
//! same steps again: the layout file is replaced atomically and last.
//!
//! Not here: what an engine does with its directory, moving data between owners (`engine`).

use std::cell::Cell;
use std::sync::Arc;

use engine::io::{DirLock, Disk, InFlightLimits};
use engine::layout::{self, Found, Layout, SchemaLog, Secret};
use engine::{Engine, FileOwners, Reshard, Result, SpaceLedger, Swept, reserve};
use model::{Schema, TokenRange};
use uuid::Uuid;

use crate::limits::TIMESTAMP_SLACK_US;
use crate::node::NodeConfig;
use crate::owner::{ShardId, Sharder};
use crate::schema_changes::SchemaChanges;
use crate::throughput::CompactionThroughput;

/// What every core is told about the data directory.
#[derive(Clone, Debug)]
pub struct Booted {
    /// Where things are.
    pub layout: Layout,
    /// The schema as the log left it.
    pub schema: Arc<Schema>,
    /// The timestamps that the layout said were given, before this start, in microseconds.
    pub noted_us: i64,
    /// How many requests of jobs all cores together have with the device.
    pub device: InFlightLimits,
    /// How many shards have each file.
    pub owners: FileOwners,
    /// What the shards are going to write into the data directory.
    pub space: SpaceLedger,
    /// How fast their compactions may go.
    pub throughput: CompactionThroughput,
}

/// The data directory as the first core keeps it.
#[derive(Debug)]
pub struct Home {
    disk: Disk,
    layout: Layout,
    /// What the layout says was given, in microseconds.
    noted_us: Cell<i64>,
    /// The layout is being stored, or is not stored any more.
    is_storing: Cell<bool>,
    /// Held as long as the process lives: no other process may touch the files before.
    _lock: DirLock,
}

impl Home {
    /// Notes that timestamps up to `given_us` were given out, if that is far above what was noted: the wall clock may
    /// step back before the next start.
    pub(crate) async fn note(&self, given_us: i64) -> Result<()> {
        let is_far = given_us > self.noted_us.get().saturating_add(TIMESTAMP_SLACK_US / 2);
        if !is_far || self.is_storing.replace(true) {
            return Ok(());
        }
        let stored = self.store(given_us).await;
        self.is_storing.set(false);
        stored
    }

    /// Notes the last timestamps of the node, exactly; `None` while something else is noted: ask again.
    pub(crate) async fn leave(&self, given_us: i64) -> Option<Result<()>> {
        if self.is_storing.replace(true) {
            return None;
        }
        Some(self.store(given_us.max(self.noted_us.get())).await)
    }

    async fn store(&self, timestamp_high: i64) -> Result<()> {
        Layout { timestamp_high, ..self.layout.clone() }.store(&self.disk).await?;
        self.noted_us.set(timestamp_high);
        Ok(())
    }
}

/// Opens or makes the data directory for the configured number of shards. Each call of `seed` gives another number
/// that no start before had: names of files come from it.
pub async fn boot(
    disk: &Disk,
    config: &NodeConfig,
    seed: &impl Fn() -> u64,
) -> Result<(Booted, Home, SchemaChanges)> {
    let lock = Layout::lock(disk).await?;
    let mut layout = match Layout::find(disk).await? {
        Found::Nothing => first(disk, config, host_id(seed), seed).await?,
        Found::Unfinished(layout) => {
            layout.clear_unfinished(disk).await?;
            first(disk, config, layout.host_id, seed).await?
        }
        Found::Ready(layout) => layout,
    };
    layout.remove_other_generations(disk).await?;
    let (schema_log, schema) = SchemaChanges::open(disk, seed(), &config.base).await?;
    let schema = Arc::new(schema);
    if layout.shards as usize != config.shards {
        // A start whose dealing failed has left files of the logs' rows, which nothing names: dealing again needs their
        // space.
        engine::sweep(disk, &layout).await?;
        layout = deal_anew(disk, config, &layout, &schema, seed()).await?;
    }
    let Swept { strange: mut said, owners, .. } = engine::sweep(disk, &layout).await?;
    said.extend(engine::snapshot::sweep(disk).await?);
    for what in said {
        tracing::warn!("left alone: {what}");
    }
    let noted_us = layout.timestamp_high;
    layout.timestamp_high = noted_us.max(config.wall_us);
    if layout.secret == Secret::NONE {
        layout.secret = secret(seed);
    }
    layout.store(disk).await?;
    reserve::keep(disk, config.reserve_bytes).await?;
    let home = Home {
        disk: disk.clone(),
        noted_us: Cell::new(layout.timestamp_high),
        is_storing: Cell::new(false),
        layout: layout.clone(),
        _lock: lock,
    };
    let device = InFlightLimits::default();
    let space = SpaceLedger::default();
    let throughput = CompactionThroughput::new(config.compaction_throughput_bytes);
    let booted = Booted { layout, schema, noted_us, device, owners, space, throughput };
    Ok((booted, home, schema_log))
}

/// Opens the engine of one shard of a data directory that was booted; `seed` as for [`boot`].
pub async fn open_engine(
    disk: &Disk,
    config: &NodeConfig,
    booted: &Booted,
    shard: ShardId,
    seed: u64,
) -> Result<Engine> {
    let mut engine =
        Engine::open(disk, engine_config(config, &booted.layout, shard, seed), &booted.schema)
            .await?;
    engine.set_sum(config.sum);
    engine.share_space(&booted.space);
    engine.share_files(&booted.owners);
    engine.share_schema(booted.layout.shards as usize);
    measure_space(&engine, config, shard).await;
    for damaged in engine.damaged_files() {
        let (file, error, first, last) = (
            damaged.path(),
            &damaged.error,
            damaged.entry.tokens.first.0,
            damaged.entry.tokens.last.0,
        );
        tracing::error!(
            %shard, file, %error, first, last,
            "an sstable cannot be opened: reads of its tokens fail, everything else is served"
        );
    }
    Ok(engine)
}

/// Has an engine know what is free, before its log and its flushes take any: what a start has released of the reserve
/// is for the steps of starts alone. Once more when all shards are open: any of them may have released it.
pub(crate) async fn measure_space(engine: &Engine, config: &NodeConfig, shard: ShardId) {
    if let Err(error) = engine.measure_space(config.reserve_bytes).await {
        tracing::warn!(%shard, %error, "the free space is unknown");
    }
}

fn engine_config(
    config: &NodeConfig,
    layout: &Layout,
    shard: ShardId,
    seed: u64,
) -> engine::Config {
    engine::Config {
        shard_dir: layout::shard_dir(layout.generation, shard.index() as u32),
        owned: vec![Sharder::new(layout.shards as usize).range_of(shard)],
        log: engine::commitlog::Config { seed, ..config.log.clone() },
        memory_bytes: config.shard_memory_bytes,
        now_s: wall_s(config),
    }
}

/// The wall clock at the start, in seconds since 1970.
fn wall_s(config: &NodeConfig) -> u32 {
    u32::try_from(config.wall_us / 1_000_000).unwrap_or(0)
}

/// Gives the data to another number of shards.
async fn deal_anew(
    disk: &Disk,
    config: &NodeConfig,
    from: &Layout,
    schema: &Schema,
    seed: u64,
) -> Result<Layout> {
    tracing::info!(from = from.shards, to = config.shards, "dealing the data to other shards");
    let sharder = Sharder::new(config.shards);
    let owned: Vec<TokenRange> = sharder.all().map(|shard| sharder.range_of(shard)).collect();
    let log = engine::commitlog::Config { seed, ..config.log.clone() };
    let (owned, memory_bytes) = (owned.as_slice(), config.shard_memory_bytes);
    let (log, now_s) = (&log, wall_s(config));
    Reshard { disk, from, owned, schema, log, memory_bytes, now_s }.run().await
}

/// A seed for names that must never repeat, from the system's random numbers.
pub(crate) fn random_seed() -> u64 {
    Uuid::new_v4().as_u64_pair().1
}

/// The id of a new host: a random UUID (version 4) of two seeds.
fn host_id(seed: &impl Fn() -> u64) -> Uuid {
    let bytes = Uuid::from_u64_pair(seed(), seed()).into_bytes();
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

/// The secret of a new host.
fn secret(seed: &impl Fn() -> u64) -> Secret {
    let mut secret = Secret::NONE;
    secret.0.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&seed().to_le_bytes()));
    secret
}

async fn first(
    disk: &Disk,
    config: &NodeConfig,
    host_id: Uuid,
    seed: &impl Fn() -> u64,
) -> Result<Layout> {
    let mut layout = Layout::first(config.shards as u32, host_id, secret(seed));
    layout.store(disk).await?;
    layout.make_directories(disk).await?;
    SchemaLog::create(disk, seed()).await?;
    for shard in Sharder::new(config.shards).all() {
        Engine::create(disk, &engine_config(config, &layout, shard, seed())).await?;
    }
    layout.ready = true;
    layout.store(disk).await?;
    Ok(layout)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::PathBuf;
    use std::rc::Rc;
    use std::time::Duration;

    use engine::io::{Faults, RelPath, SimDisk, SimExec};
    use engine::{Error, commitlog};
    use futures_lite::future::yield_now;
    use model::cell::Life;
    use model::options::KeyspaceOptions;
    use model::row::RowHead;
    use model::schema::TableBuilder;
    use model::{CqlType, MutationBuilder, RowBuilder, SchemaChange, TableId, Token};

    use super::*;

    pub(crate) const TABLE: TableId = TableId(Uuid::from_u128(7));

    /// A node with a small log and the table [`TABLE`].
    pub(crate) fn config(shards: usize) -> NodeConfig {
        let keyspace =
            SchemaChange::CreateKeyspace { name: "ks".into(), options: KeyspaceOptions::default() };
        let table = TableBuilder::new("ks", "t", TABLE).partition_key("k", CqlType::Blob);
        let table = table.and_then(TableBuilder::build).unwrap();
        let base = Schema::of_changes([keyspace, SchemaChange::CreateTable(Box::new(table))]);
        NodeConfig {
            shards,
            cpus: Vec::new(),
            data_dir: PathBuf::new(),
            shard_memory_bytes: engine::limits::MEMORY_BYTES_MIN,
            log: commitlog::Config { segment_bytes: 1 << 20, ..commitlog::Config::new(0) },
            reserve_bytes: 0,
            compaction_throughput_bytes: 0,
            idle_spin: Duration::ZERO,
            base: Arc::new(base.unwrap()),
            sum: |_, _, _| Ok(None),
            wall_us: 1_700_000_000_000_000,
        }
    }

    /// A write of a row of [`TABLE`].
    pub(crate) fn row() -> Vec<u8> {
        let mut record = Vec::new();
        let mut m = MutationBuilder::begin(&mut record, TABLE, Token::of_key(b"k"), b"k");
        let head = RowHead { marker: Some(Life::Live), ..RowHead::bare(1) };
        m.row(&[], |out| {
            let _ = RowBuilder::begin(out, &head);
        });
        m.finish();
        record
    }

    /// A disk on which a node of one shard has a row in its log.
    fn disk_of_one(seed: &'static impl Fn() -> u64) -> SimDisk {
        let (sim, exec) = (SimDisk::new(1, Faults::default()), SimExec::new(1));
        let (disk, inner) = (Disk::Sim(sim.clone()), exec.clone());
        exec.run(async move {
            let (booted, _home, _) = boot(&disk, &config(1), seed).await.unwrap();
            let shard = Sharder::new(1).all().next().unwrap();
            let engine = open_engine(&disk, &config(1), &booted, shard, seed()).await.unwrap();
            let engine = Rc::new(engine);
            let driven = engine.clone();
            inner.spawn(async move {
                driven.drive_log().await;
            });
            engine.write(&row(), 1).unwrap();
            let mut done = Vec::new();
            while done.is_empty() {
                engine.take_completed(&mut done);
                yield_now().await;
            }
            assert_eq!(done, [(1, Ok(()))]);
        })
        .done();
        sim.kill()
    }

    /// Before: the rows of the log that it had written to a file by then stayed, and each further start wrote another.
    #[test]
    fn a_start_that_finds_no_space_to_deal_the_data_takes_away_what_the_one_before_it_left() {
        static SEED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let seed = &|| SEED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let sim = disk_of_one(seed);
        let files = |sim: &SimDisk| -> Vec<RelPath> { sim.files_of(&layout::table_dir(TABLE.0)) };
        let disk = Disk::Sim(sim.clone());
        assert_eq!(files(&sim), []);
        // There is space for files of rows, and not for the logs of two shards.
        let quota_bytes = Some(sim.used_bytes() + (1 << 20));
        sim.set_faults(Faults { quota_bytes, ..Faults::default() });
        let inner = sim.clone();
        SimExec::new(2)
            .run(async move {
                for start in 0..4 {
                    let error = boot(&disk, &config(2), seed).await.err().unwrap();
                    assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
                    assert_eq!(files(&inner).len(), 1, "start {start}: {error:?}");
                }
                inner.set_faults(Faults::default());
                let (booted, ..) = boot(&disk, &config(2), seed).await.unwrap();
                assert_eq!((booted.layout.shards, files(&inner).len()), (2, 1));
            })
            .done();
    }
}
