//! One shard's engine on the simulated disk, with one table of records, driven by hand.
//!
//! 1. `Shape` makes keys, records and reads: those of ScyllaDB's `perf-simple-query`, and those of YCSB.
//! 2. `with_engine` makes the directories and opens an engine on an empty disk without faults.
//! 3. `Driver::commit` polls the engine's log until all writes are answered.
//!
//! Invariants
//! 1. No executor and no other task: a future is polled until it is ready, in the thread that counts.
//! 2. The same shape and number give the same bytes, so that counts repeat.
//! 3. The shard owns all tokens, and has memory and log enough for all that a count writes.
//!
//! Not here: what is counted (`path.rs`), whole cores with the server's executor (`frame.rs`).

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use engine::commitlog;
use engine::io::{Disk, Faults, File, RelPath, Rng, SimDisk};
use engine::layout::{self, Layout, Secret};
use engine::{Config, Engine, Error};
use model::mutation::MutationBuilder;
use model::options::KeyspaceOptions;
use model::read::{Limits, Partitions, ReadCommand, Slice};
use model::row::{Cell, RowBuilder, RowHead};
use model::schema::{SchemaChange, TableBuilder};
use model::{ColumnId, CqlType, Schema, TableId, Token, TokenRange};
use uuid::Uuid;

/// Id of the table of records.
pub const TABLE: TableId = TableId(Uuid::from_u128(7));
/// Enough for everything that is written, so that nothing is flushed meanwhile.
pub(super) const MEMORY_BYTES: usize = 2 << 30;

/// Large enough for every write of a count.
const LOG_FILE_BYTES: u64 = 256 << 20;

/// What a record looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Name of the shape, as the report shows it.
    pub name: &'static str,
    /// Bytes of the key.
    pub key_bytes: usize,
    /// Columns beside the key.
    pub columns: u16,
    /// Bytes of each.
    pub column_bytes: usize,
}

impl Shape {
    /// What ScyllaDB's `perf-simple-query` reads and writes: 5 blobs of 34 bytes.
    pub const SCYLLA: Shape =
        Shape { name: "5 × 34 bytes", key_bytes: 10, columns: 5, column_bytes: 34 };
    /// The record of YCSB: ten fields of 100 bytes.
    pub const YCSB: Shape =
        Shape { name: "10 × 100 bytes", key_bytes: 23, columns: 10, column_bytes: 100 };

    /// The key with this number.
    pub fn key(&self, number: u64) -> Vec<u8> {
        let mut key = vec![b'k'; self.key_bytes];
        key[..8].copy_from_slice(&number.to_be_bytes());
        key
    }

    /// Bytes of all columns of a record.
    pub fn record_bytes(&self) -> usize {
        usize::from(self.columns) * self.column_bytes
    }

    /// What the columns of the record with this number hold.
    pub fn value(&self, number: u64) -> Vec<u8> {
        vec![number as u8; self.column_bytes]
    }

    /// The record that writes the whole row of key `number`.
    pub fn record(&self, number: u64, timestamp: i64) -> Vec<u8> {
        let value = self.value(number);
        self.record_of(number, timestamp, |_| &value)
    }

    /// The same with values that do not compress, as those of load tools.
    pub fn noise_record(&self, number: u64, timestamp: i64) -> Vec<u8> {
        let mut rng = Rng::new(number);
        let bytes = self.record_bytes();
        let noise: Vec<u8> =
            (0..bytes.div_ceil(8)).flat_map(|_| rng.roll().to_le_bytes()).collect();
        self.record_of(number, timestamp, |column| {
            &noise[usize::from(column) * self.column_bytes..][..self.column_bytes]
        })
    }

    fn record_of<'v>(
        &self,
        number: u64,
        timestamp: i64,
        value: impl Fn(u16) -> &'v [u8],
    ) -> Vec<u8> {
        let key = self.key(number);
        let mut out = Vec::new();
        let mut mutation = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&key), &key);
        mutation.row(&[], |out| {
            let mut row = RowBuilder::begin(out, &RowHead::bare(timestamp));
            for column in 1..=self.columns {
                row.cell(&Cell::live(ColumnId(column), timestamp, value(column - 1)));
            }
        });
        mutation.finish();
        out
    }

    /// The command that reads the row of key `number`.
    pub fn read(&self, number: u64) -> ReadCommand {
        let key = self.key(number);
        ReadCommand {
            table: TABLE,
            partitions: Partitions::Keys(vec![(Token::of_key(&key), key.into())]),
            slices: vec![Slice::all()],
            reversed: false,
            static_alone: false,
            distinct: false,
            filters: Vec::new(),
            lookups: Vec::new(),
            nearest: None,
            limits: Limits::none(1 << 20),
            resume: None,
            now_s: 1,
        }
    }

    /// The schema with the one table.
    pub fn schema(&self) -> Schema {
        let table = TableBuilder::new("ks", "cf", TABLE).partition_key("key", CqlType::Blob);
        let table = (1..=self.columns)
            .fold(table, |table, c| table.and_then(|t| t.regular(&format!("c{c}"), CqlType::Blob)))
            .and_then(TableBuilder::build)
            .expect("the table is well-formed");
        let keyspace =
            SchemaChange::CreateKeyspace { name: "ks".into(), options: KeyspaceOptions::default() };
        let changes = [keyspace, SchemaChange::CreateTable(Box::new(table))];
        Schema::of_changes(changes).expect("a table in an empty schema conflicts with nothing")
    }
}

/// Runs `body` with an engine whose log is driven by `Driver::commit`.
pub fn with_engine<R>(shape: &Shape, body: impl FnOnce(&Engine, &mut Driver<'_>) -> R) -> R {
    let engine = at_once(open(shape)).expect("the simulated disk has no faults");
    let mut driver = Driver { log: Box::pin(engine.drive_log()), completed: Vec::new() };
    // The first poll prepares the log's segments.
    driver.poll();
    body(&engine, &mut driver)
}

async fn open(shape: &Shape) -> engine::Result<Engine> {
    let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
    let layout = Layout::first(1, Uuid::nil(), Secret::NONE);
    layout.make_directories(&disk).await?;
    let log = commitlog::Config::new(1);
    let owned = vec![TokenRange::ALL];
    let shard_dir = layout::shard_dir(1, 0);
    let config = Config { shard_dir, owned, log, memory_bytes: MEMORY_BYTES, now_s: 0 };
    Engine::create(&disk, &config).await?;
    Engine::open(&disk, config, &shape.schema()).await
}

/// Runs `body` with a file on the simulated disk as the log has it.
pub fn with_log_file<R>(body: impl FnOnce(&File) -> R) -> R {
    let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
    let path = RelPath::root().join("segment");
    let made = at_once(disk.create(&path)).and_then(|file| at_once(file.set_len(LOG_FILE_BYTES)));
    let file = made.and_then(|()| at_once(disk.open_log(&path)));
    body(&file.expect("the simulated disk has no faults"))
}

/// The engine's log task, polled by hand: one poll is one commit.
pub struct Driver<'e> {
    log: Pin<Box<dyn Future<Output = Error> + 'e>>,
    completed: Vec<(u64, engine::Result<()>)>,
}

impl Driver<'_> {
    fn poll(&mut self) {
        let polled = self.log.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "the log does not fail");
    }

    /// Commits what was written, and sees that all `count` writes are answered.
    #[inline]
    pub fn commit(&mut self, engine: &Engine, count: usize) {
        while self.completed.len() < count {
            self.poll();
            engine.take_completed(&mut self.completed);
        }
        for (_, result) in self.completed.drain(..) {
            result.expect("the simulated disk has no faults");
        }
    }
}

/// Runs a future that waits for nothing but the simulated disk, which never makes anyone wait.
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
}
