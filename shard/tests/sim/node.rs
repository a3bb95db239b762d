//! A node of the simulation: opened by the product's own boot, with its schema log, and an engine for each shard.
//!
//! 1. `open` boots the data directory: it makes the node, or deals its data to another number of shards, as the product
//!    does. It boots with little memory, so that the rows of logs are dealt in several pieces.
//! 2. Each engine is opened with small limits (segments, fragments, sampled rows, rows of a file of vectors), so that
//!    little data goes through code for much. Segments have another size in every fourth life.
//! 3. Two tasks drive each engine: one writes the log, the other takes turns of writes that read first. Jobs are run by
//!    the life (`life.rs`).
//!
//! Invariants: the simulated disk and executor decide when operations end; whatever is drawn comes from the caller's
//! `Rng`. So a seed repeats a node.
//!
//! Not here: mailboxes between shards (`views/node.rs`), what a node is asked (`checks.rs`), power cuts and faults
//! (`world.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::commitlog::{self, SyncMode};
use engine::io::{Disk, Rng, SimExec};
use engine::{Engine, Error, LookupPolicy};
use futures_lite::future::yield_now;
use messina_shard::boot::{Home, boot, open_engine};
use messina_shard::node::NodeConfig;
use messina_shard::schema_changes::SchemaChanges;
use messina_shard::{AlterError, Sharder};
use model::read::{Flow, Limits, PartitionRef, Partitions, ReadCommand, RowSink, Slice};
use model::row::RowRef;
use model::{Schema, SchemaChange, TableId, Token, TokenRange};
use uuid::Uuid;

use crate::oracle::{Cells, Seen, short};

/// What a fragment has at least here.
const FRAGMENT_BYTES_MIN: u64 = 500;
/// An sstable of so many rows gets a file of vectors here.
const VECTOR_ROWS_MIN: u64 = 3;
/// Candidates that a lookup keeps of a source: few, so that it takes several passes over its terms.
const CANDIDATES_AT_ONCE: usize = 3;

/// Bytes that the node keeps aside on its disk: each part has space for the schema and for all manifests.
pub(crate) const RESERVE_BYTES: u64 = 4 << 20;

/// How a node of so many shards is opened.
fn config(shards: usize, sync: SyncMode, segment_bytes: u32) -> NodeConfig {
    NodeConfig {
        shards,
        cpus: Vec::new(),
        data_dir: PathBuf::new(),
        shard_memory_bytes: engine::limits::MEMORY_BYTES_MIN,
        log: commitlog::Config {
            segment_bytes,
            log_bytes_max: 160 << 10,
            sync,
            ..commitlog::Config::new(0)
        },
        reserve_bytes: RESERVE_BYTES,
        compaction_throughput_bytes: 0,
        idle_spin: Duration::ZERO,
        base: crate::schema::base(),
        sum: |_, _, _| Ok(None),
        wall_us: 1,
    }
}

/// All shards, open.
pub(crate) struct Node {
    pub(crate) engines: Vec<Rc<Engine>>,
    pub(crate) owned: Vec<TokenRange>,
    pub(crate) schema: Arc<Schema>,
    sharder: Sharder,
    schema_log: SchemaChanges,
    /// Holds the directory's lock.
    _home: Home,
}

/// Opens the node, making it or dealing it to `shards` shards first if it is not so.
pub(crate) async fn open(
    disk: &Disk,
    exec: &SimExec,
    shards: usize,
    sync: SyncMode,
    rng: &mut Rng,
) -> Result<Node, Error> {
    // The log of the life before may have segments of another size.
    let segment_bytes = if rng.below(4) == 0 { 64 << 10 } else { 32 << 10 };
    let config = config(shards, sync, segment_bytes);
    let rng = RefCell::new(rng);
    let seed = || rng.borrow_mut().roll();
    // Little memory, so that the logs' rows are dealt to other shards in several pieces.
    let little = NodeConfig { shard_memory_bytes: 20 << 10, ..config.clone() };
    let (booted, home, schema_log) = boot(disk, &little, &seed).await?;
    let sharder = Sharder::new(shards);
    let mut engines = Vec::new();
    for shard in sharder.all() {
        let engine = Rc::new(open_engine(disk, &config, &booted, shard, seed()).await?);
        // So that compactions of little data are adopted in several pieces, and flushes beside it are sampled.
        engine.set_fragment_bytes_min(FRAGMENT_BYTES_MIN);
        engine.set_sampled_bytes_min(1);
        engine.set_vector_rows_min(VECTOR_ROWS_MIN);
        engine.set_lookup_policy(match rng.borrow_mut().below(6) {
            0 => LookupPolicy::WhereWorth,
            1 => LookupPolicy::Always,
            _ => LookupPolicy::InPasses(CANDIDATES_AT_ONCE),
        });
        let driven = engine.clone();
        exec.spawn(async move {
            driven.drive_log().await;
        });
        let (driven, spawner) = (engine.clone(), exec.clone());
        exec.spawn(async move {
            loop {
                let (turn, engine) = (driven.next_turn().await, driven.clone());
                spawner.spawn(async move { engine.run_turn(turn, yield_now).await });
            }
        });
        engines.push(engine);
    }
    let owned = sharder.all().map(|shard| sharder.range_of(shard)).collect();
    Ok(Node { engines, owned, schema: booted.schema, sharder, schema_log, _home: home })
}

impl Node {
    pub(crate) fn shard_of(&self, token: Token) -> usize {
        self.sharder.shard_of(token).index()
    }

    /// Makes a change of the schema durable and tells every shard, as a shard of the product does.
    pub(crate) async fn alter(&mut self, change: SchemaChange, version: Uuid) -> Result<(), Error> {
        let next = self.schema_log.append(&self.schema, change, version, yield_now).await;
        let next = next.map_err(|error| match error {
            AlterError::Store(error) => error,
            error => panic!("the change fits: {error}"),
        })?;
        self.engines.iter().for_each(|engine| engine.set_schema(&next));
        self.schema = next;
        Ok(())
    }
}

/// Takes what a read gives, partition by partition.
#[derive(Default)]
pub(crate) struct Taken(pub(crate) BTreeMap<Vec<u8>, Seen>);

impl RowSink for Taken {
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow {
        let seen = self.0.entry(partition.key.to_vec()).or_default();
        seen.stat = partition.static_row.map(cells).unwrap_or_default();
        if let (Some(clustering), Some(row)) = (clustering, row) {
            seen.rows.push((clustering.to_vec(), cells(row)));
        }
        Flow::More
    }
}

fn cells(row: RowRef<'_>) -> Cells {
    let cell = |cell: model::row::Cell<'_>| {
        (cell.column.0, cell.path.map(<[u8]>::to_vec), short(cell.value))
    };
    row.cells().map(cell).collect()
}

/// A read of everything that `partitions` has.
pub(crate) fn command(table: TableId, partitions: Partitions, now_s: u32) -> ReadCommand {
    ReadCommand {
        table,
        partitions,
        slices: vec![Slice::all()],
        reversed: false,
        static_alone: true,
        distinct: false,
        filters: Vec::new(),
        lookups: Vec::new(),
        nearest: None,
        limits: Limits::none(u64::MAX),
        resume: None,
        now_s,
    }
}
