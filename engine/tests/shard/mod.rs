//! What the tests of a shard share: its schema and its directory, how it is opened, written to, flushed and
//! set to work.
//!
//! Not here: a log and a manifest without an engine, life after life (`rig`).

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![allow(dead_code, clippy::allow_attributes, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::rc::Rc;

use futures_lite::future::yield_now;
use messina_engine as engine;
use messina_engine::io::{Disk, Faults, SimDisk, SimExec};
use messina_engine::layout::{self, Layout, Secret};
use messina_engine::{Config, Engine, Error, commitlog};
use model::options::{KeyspaceOptions, TableOptions};
use model::read::{Limits, Partitions, ReadCommand, Slice};
use model::schema::{
    Analysis, Index, IndexId, IndexKind, IndexTarget, SchemaChange, Table, TableBuilder,
};
use model::{CqlType, Schema, TableId, Token, TokenRange};
use uuid::Uuid;

/// The table of a test that has one.
pub(crate) const TABLE: TableId = TableId(Uuid::from_u128(7));

/// Seconds: long after every tombstone's grace.
pub(crate) const LATER_S: u32 = 2_000_000_000;

/// `CREATE TABLE t (k blob PRIMARY KEY, v blob)` with these options.
pub(crate) fn key_value(options: TableOptions) -> Table {
    TableBuilder::new("ks", "t", TABLE)
        .options(options)
        .partition_key("k", CqlType::Blob)
        .and_then(|table| table.regular("v", CqlType::Blob))
        .and_then(TableBuilder::build)
        .unwrap()
}

/// A value of so many words of 8 bytes that cannot be compressed, of which no two keys have the same.
pub(crate) fn noise(key: u32, words: u64) -> Vec<u8> {
    let word = |n: u64| (n * 1000 + u64::from(key)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..words).flat_map(|n| word(n).rotate_left(29).to_le_bytes()).collect()
}

/// A plain index of the values of a column.
pub(crate) fn index_of(table: &Table, column: &str) -> Index {
    Index {
        id: IndexId(0),
        name: format!("{}_{column}", table.name),
        column: table.column(column).unwrap().id,
        target: IndexTarget::Value,
        kind: IndexKind::Plain,
        class: None,
        options: BTreeMap::new(),
        analysis: Analysis::NONE,
    }
}

/// `CREATE TABLE t (k blob PRIMARY KEY, m map<tinyint, blob>)`: a row that elements make long.
pub(crate) fn map_of_blobs() -> Table {
    let (key, value) = (CqlType::Tinyint.into(), CqlType::Blob.into());
    let table = TableBuilder::new("ks", "t", TABLE)
        .partition_key("k", CqlType::Blob)
        .and_then(|t| t.regular("m", CqlType::Map { key, value, frozen: false }))
        .and_then(TableBuilder::build);
    table.expect("a sound table")
}

/// A keyspace with these tables.
pub(crate) fn schema_of(tables: impl IntoIterator<Item = Table>) -> Schema {
    let keyspace =
        SchemaChange::CreateKeyspace { name: "ks".into(), options: KeyspaceOptions::default() };
    let tables = tables.into_iter().map(|table| SchemaChange::CreateTable(Box::new(table)));
    Schema::of_changes([keyspace].into_iter().chain(tables)).unwrap()
}

/// The only shard, with 8 MiB and a log in small segments. Each start has another seed.
pub(crate) fn config(seed: u64) -> Config {
    Config {
        shard_dir: layout::shard_dir(1, 0),
        now_s: 0,
        owned: vec![TokenRange::ALL],
        log: commitlog::Config { segment_bytes: 64 << 10, ..commitlog::Config::new(seed) },
        memory_bytes: 8 << 20,
    }
}

/// Makes the data directory of one shard, and the shard in it.
pub(crate) async fn make(disk: &Disk, config: &Config) {
    Layout::first(1, Uuid::from_u128(1), Secret::NONE).make_directories(disk).await.unwrap();
    Engine::create(disk, config).await.unwrap();
}

/// Opens the shard with its log running.
pub(crate) async fn open(
    disk: &Disk,
    exec: &SimExec,
    config: Config,
    schema: &Schema,
) -> Rc<Engine> {
    drive(Engine::open(disk, config, schema).await.unwrap(), exec)
}

/// Runs the log of a shard that was opened, and its writes that read first.
pub(crate) fn drive(engine: Engine, exec: &SimExec) -> Rc<Engine> {
    let engine = Rc::new(engine);
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
    engine
}

/// A test on an open shard with these tables.
pub(crate) fn on_shard(
    config: Config,
    schema: Schema,
    main: impl AsyncFnOnce(Rc<Engine>, Disk, SimExec) + 'static,
) {
    on_sim(config.log.seed, async move |_, disk, exec| {
        make(&disk, &config).await;
        let engine = open(&disk, &exec, config, &schema).await;
        main(engine, disk, exec).await;
    });
}

/// Writes a record, and waits for its answer. Nothing else is under way.
pub(crate) async fn write(engine: &Engine, record: &[u8]) -> engine::Result<()> {
    // While a segment is made the log takes nothing.
    while let Err(error) = engine.write(record, 1) {
        match error {
            Error::Overloaded(_) => yield_now().await,
            error => return Err(error),
        }
    }
    let mut done = answers(engine, 1).await;
    assert_eq!(done.len(), 1, "one write was under way");
    done.remove(0).1
}

/// Waits until so many writes are answered.
pub(crate) async fn answers(engine: &Engine, count: usize) -> Vec<(u64, engine::Result<()>)> {
    let mut done = Vec::new();
    while done.len() < count {
        engine.take_completed(&mut done);
        yield_now().await;
    }
    done
}

/// Waits until what is measured stays the same, and gives it. After a write the log fills its next segments, in
/// requests and in memory of the simulated disk that are not those of what is tested.
pub(crate) async fn until_still<T: PartialEq>(measure: impl Fn() -> T) -> T {
    let mut measured = measure();
    loop {
        for _ in 0..100 {
            yield_now().await;
        }
        let now = measure();
        if measured == now {
            return now;
        }
        measured = now;
    }
}

/// Writes all memtables to sstables.
pub(crate) async fn flush(engine: &Engine) {
    engine.flush_all(1, yield_now).await.unwrap();
}

/// Does what the shard would like to be done at `now_s`.
pub(crate) async fn run_jobs(engine: &Engine, now_s: u32) {
    while let Some(job) = engine.next_job(now_s) {
        engine.run(job, now_s, yield_now).await.unwrap();
    }
}

/// Merges all of [`TABLE`], also what a strategy would leave for later.
pub(crate) async fn merge_whole(engine: &Engine, now_s: u32) {
    let request = engine.request_major(TABLE);
    while !engine.compact_major(&request, now_s, yield_now).await.unwrap() {}
}

/// `SELECT * FROM t`, at `now_s`.
pub(crate) fn select_all(now_s: u32) -> ReadCommand {
    ReadCommand {
        table: TABLE,
        partitions: Partitions::Range(TokenRange::ALL),
        slices: vec![Slice::all()],
        reversed: false,
        static_alone: false,
        distinct: false,
        filters: Vec::new(),
        lookups: Vec::new(),
        nearest: None,
        limits: Limits::none(1 << 30),
        resume: None,
        now_s,
    }
}

/// The partition of a key.
pub(crate) fn of_key(key: &[u8]) -> Partitions {
    Partitions::Keys(vec![(Token::of_key(key), key.into())])
}

/// Runs a test on an empty disk, whose operations are suspended now and then; the disk afterwards.
pub(crate) fn on_sim(
    seed: u64,
    main: impl AsyncFnOnce(SimDisk, Disk, SimExec) + 'static,
) -> SimDisk {
    let sim = SimDisk::new(seed, Faults { suspensions_max: 2, ..Faults::default() });
    let (disk, exec) = (Disk::Sim(sim.clone()), SimExec::new(seed));
    let (inner, inside) = (exec.clone(), sim.clone());
    exec.run(async move { main(inside, disk, inner).await }).done();
    sim
}
