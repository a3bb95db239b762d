//! A node of the simulation: a disk, a layout, and an engine for each shard.

use crate::oracle::{Cells, Seen, short};
use engine::commitlog::{self, SyncMode};
use engine::io::{Disk, Rng, SimExec};
use engine::layout::{self, Found, Layout};
use engine::{Config, Engine, Error, Reshard, sweep};
use messina_engine as engine;
use model::options::Compression;
use model::options::{Class, Compaction, KeyspaceOptions};
use model::read::{Flow, Limits, PartitionRef, Partitions, ReadCommand, RowSink, Slice};
use model::row::RowRef;
use model::schema::{SchemaChange, Table, TableBuilder};
use model::{ColumnId, CqlType, Schema, TableId, Token, TokenRange};
use std::collections::BTreeMap;
use std::rc::Rc;
use uuid::Uuid;

/// The tables of the test: 0 notes which records are there, 1 has no clustering, 2 and 3 have.
pub(crate) const TABLES: usize = 4;
/// Keys of a table, apart from the first.
pub(crate) const KEYS: u8 = 7;
/// Columns: static, two plain ones and a collection.
pub(crate) const STATIC: u16 = 3;
pub(crate) const PLAIN: [u16; 2] = [4, 5];
pub(crate) const MAP: u16 = 6;

/// When columns were dropped last, by table and id: each was added again at once.
pub(crate) type Drops = BTreeMap<(usize, u16), i64>;

/// How each table is compacted.
const STRATEGIES: [Class; TABLES] =
    [Class::SizeTiered, Class::Leveled, Class::Unified, Class::TimeWindow];

/// The columns keep their ids in every table, whatever keys it has.
fn definition(number: usize, id: TableId, gc_grace_s: i32, drops: &Drops) -> Table {
    let name = format!("t{number}");
    let map =
        CqlType::Map { key: CqlType::Tinyint.into(), value: CqlType::Blob.into(), frozen: false };
    let two = |b: TableBuilder, descending| {
        b.clustering("c1", CqlType::Tinyint, false)?.clustering("c2", CqlType::Tinyint, descending)
    };
    let build = || {
        let mut b = TableBuilder::new("ks", &name, id).partition_key("k", CqlType::Blob)?;
        b = match number {
            // Parts of the key that nobody looks at, so that the other columns have the same ids.
            0 | 1 => ["a", "b", "c"]
                .into_iter()
                .try_fold(b, |b, name| b.partition_key(name, CqlType::Blob))?,
            _ => two(b, number == 3)?.stat("s", CqlType::Blob)?,
        };
        b = b.regular("v", CqlType::Blob)?.regular("w", CqlType::Blob)?;
        if number == 1 { b.build() } else { b.regular("m", map.clone())?.build() }
    };
    let mut table = build().expect("a sound table");
    table.options.gc_grace_seconds = gc_grace_s;
    table.options.bloom_filter_fp_chance = 0.5;
    table.options.compaction = Compaction::of_class(STRATEGIES[number]);
    if number == 2 {
        table.options.compression = Compression::none();
    }
    for ((_, column), at) in drops.iter().filter(|((table, _), _)| *table == number) {
        let column = table.column_by_id(ColumnId(*column)).expect("it is there again").clone();
        table.drop_column(&column.name, *at).expect("it is no key");
        table.add_column(&column.name, column.ty, column.kind).expect("it was dropped");
        assert!(table.column_by_id(column.id).is_some(), "it has its id again");
    }
    table
}

/// The schema with these tables.
pub(crate) fn schema(ids: &[TableId; TABLES], gc_grace_s: i32, drops: &Drops) -> Schema {
    let keyspace =
        SchemaChange::CreateKeyspace { name: "ks".into(), options: KeyspaceOptions::default() };
    let table = |(number, id): (usize, &TableId)| {
        SchemaChange::CreateTable(Box::new(definition(number, *id, gc_grace_s, drops)))
    };
    let changes = std::iter::once(keyspace).chain(ids.iter().enumerate().map(table));
    Schema::of_changes(changes).expect("they fit")
}

/// The tokens of each shard: the formula of the product.
pub(crate) fn owned(shards: usize) -> Vec<TokenRange> {
    let first = |shard: usize| {
        let biased = (((shard as u128) << 64).div_ceil(shards as u128)) as u64;
        Token((biased ^ (1 << 63)) as i64)
    };
    let last = |shard: usize| match shard + 1 == shards {
        true => Token::MAX,
        false => Token(first(shard + 1).0 - 1),
    };
    (0..shards).map(|shard| TokenRange { first: first(shard), last: last(shard) }).collect()
}

/// How the logs of a run are kept.
pub(crate) fn log_config(sync: SyncMode, seed: u64) -> commitlog::Config {
    commitlog::Config {
        segment_bytes: 32 << 10,
        log_bytes_max: 160 << 10,
        sync,
        ..commitlog::Config::new(seed)
    }
}

/// All shards, open.
pub(crate) struct Node {
    pub(crate) engines: Vec<Rc<Engine>>,
    pub(crate) owned: Vec<TokenRange>,
}

/// Opens the node, making it or dealing it to `shards` shards first if it is not so.
pub(crate) async fn open(
    disk: &Disk,
    exec: &SimExec,
    shards: usize,
    sync: SyncMode,
    schema: &Schema,
    rng: &mut Rng,
) -> Result<Node, Error> {
    let found = Layout::find(disk).await?;
    let layout = match found {
        Found::Nothing => first(disk, shards, sync, rng).await?,
        Found::Unfinished(layout) => {
            layout.clear_unfinished(disk).await?;
            first(disk, shards, sync, rng).await?
        }
        Found::Ready(layout) => {
            layout.remove_other_generations(disk).await?;
            match layout.shards as usize == shards {
                true => layout,
                false => {
                    let (log, owned) = (log_config(sync, rng.roll()), owned(shards));
                    let (from, owned, log) = (&layout, owned.as_slice(), &log);
                    // Little memory, so that the logs' rows are written out in several pieces.
                    Reshard { disk, from, owned, schema, log, memory_bytes: 20 << 10 }.run().await?
                }
            }
        }
    };
    sweep(disk, &layout).await?;
    let owned = owned(shards);
    let mut engines = Vec::new();
    for (shard, range) in owned.iter().enumerate() {
        let config = Config {
            shard_dir: layout::shard_dir(layout.generation, shard as u32),
            owned: vec![*range],
            log: log_config(sync, rng.roll()),
            memory_bytes: engine::limits::MEMORY_BYTES_MIN,
        };
        let engine = Rc::new(Engine::open(disk, config, schema).await?);
        let driven = engine.clone();
        exec.spawn(async move {
            driven.drive_log().await;
        });
        engines.push(engine);
    }
    Ok(Node { engines, owned })
}

async fn first(disk: &Disk, shards: usize, sync: SyncMode, rng: &mut Rng) -> Result<Layout, Error> {
    let mut layout = Layout {
        ready: false,
        generation: 1,
        shards: shards as u32,
        host_id: Uuid::from_u128(1),
        timestamp_high: 0,
    };
    layout.store(disk).await?;
    layout.make_directories(disk).await?;
    for (shard, range) in owned(shards).into_iter().enumerate() {
        let config = Config {
            shard_dir: layout::shard_dir(1, shard as u32),
            owned: vec![range],
            log: log_config(sync, rng.roll()),
            memory_bytes: engine::limits::MEMORY_BYTES_MIN,
        };
        Engine::create(disk, &config).await?;
    }
    layout.ready = true;
    layout.store(disk).await?;
    Ok(layout)
}

impl Node {
    pub(crate) fn shard_of(&self, token: Token) -> usize {
        let shard = self.owned.iter().position(|range| range.contains(token));
        shard.expect("every token is somebody's")
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
        limits: Limits::none(u64::MAX),
        resume: None,
        now_s,
    }
}
