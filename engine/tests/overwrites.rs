//! Rows that are overwritten are known by samples of what is flushed: then files are merged, and writers slowed, by the
//! space that the old versions take. A table that grows is let be.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod shard;

use std::rc::Rc;

use engine::io::{Disk, Rng, SimExec};
use engine::limits::BACKLOG_RUNS_SLOW;
use engine::{Config, Engine, JobKind, TableSize, commitlog};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::options::{Compaction, TableOptions};
use model::row::{Cell, RowBuilder, RowHead};
use model::schema::TableBuilder;
use model::{ColumnId, CqlType, Deletion, Schema, Token};
use shard::TABLE;

/// Bytes of a row: with this many the files of a test are large enough to be sampled.
const ROW_BYTES: usize = 30_000;
const ROWS: u32 = 1_500;
const NOW_S: u32 = 1;

/// `CREATE TABLE t (k int, c int, v blob, PRIMARY KEY (k, c))`
fn schema() -> Schema {
    let class = [("class".to_owned(), "UnifiedCompactionStrategy".to_owned())];
    let compaction = Compaction::parse(&class.into()).unwrap();
    let table = TableBuilder::new("ks", "t", TABLE)
        .options(TableOptions { compaction, ..TableOptions::default() })
        .partition_key("k", CqlType::Int)
        .and_then(|t| t.clustering("c", CqlType::Int, false))
        .and_then(|t| t.regular("v", CqlType::Blob))
        .and_then(TableBuilder::build)
        .unwrap();
    shard::schema_of([table])
}

/// What one mutation does to a row.
#[derive(Clone, Copy)]
enum Write {
    Value,
    DeleteRow,
    DeletePartition,
}

fn record(key: u32, row: u32, write: Write, timestamp: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let key = key.to_be_bytes();
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&key), &key);
    let deletion = Deletion { timestamp, local_s: NOW_S };
    let clustering = (row ^ 1 << 31).to_be_bytes();
    // What compresses makes no large file.
    let mut random = Rng::new(timestamp as u64);
    let value: Vec<u8> = (0..ROW_BYTES / 8).flat_map(|_| random.roll().to_le_bytes()).collect();
    match write {
        Write::DeletePartition => m.delete_partition(deletion),
        Write::DeleteRow => m.row(&clustering, |out| {
            RowBuilder::begin(out, &RowHead { deletion, ..RowHead::bare(timestamp) });
        }),
        Write::Value => m.row(&clustering, |out| {
            let cell = Cell::live(ColumnId(1), timestamp, &value);
            RowBuilder::begin(out, &RowHead::bare(timestamp)).cell(&cell);
        }),
    }
    m.finish();
    out
}

struct Shard {
    engine: Rc<Engine>,
    timestamp: i64,
}

impl Shard {
    async fn create(disk: &Disk, exec: &SimExec) -> Shard {
        let config =
            Config { log: commitlog::Config::new(1), memory_bytes: 128 << 20, ..shard::config(1) };
        shard::make(disk, &config).await;
        Shard { engine: shard::open(disk, exec, config, &schema()).await, timestamp: 0 }
    }

    /// Writes these rows of a partition.
    async fn write(&mut self, key: u32, rows: impl Iterator<Item = u32>, write: Write) {
        for row in rows {
            self.timestamp += 1;
            shard::write(&self.engine, &record(key, row, write, self.timestamp)).await.unwrap();
        }
    }

    /// Writes these rows of a partition and flushes them.
    async fn flush(&mut self, key: u32, rows: impl Iterator<Item = u32>, write: Write) {
        self.write(key, rows, write).await;
        shard::flush(&self.engine).await;
    }

    /// The table, once its backlog is judged, and whether something is to be merged.
    fn judged(&self) -> (TableSize, bool) {
        let is_due = self.engine.next_job_of(JobKind::Compact, NOW_S).is_some();
        (self.engine.table_size(TABLE).unwrap(), is_due)
    }

    async fn compact(&self) {
        while let Some(job) = self.engine.next_job_of(JobKind::Compact, NOW_S) {
            self.engine.run(job, NOW_S, async || yield_now().await).await.unwrap();
        }
    }
}

fn on_sim(main: impl AsyncFnOnce(Shard) + 'static) {
    shard::on_sim(3, async |_, disk, exec| main(Shard::create(&disk, &exec).await).await);
}

#[test]
fn a_table_that_grows_is_left_alone_and_one_that_is_overwritten_is_merged() {
    on_sim(async |mut shard| {
        shard.flush(1, 0..ROWS, Write::Value).await;
        shard.flush(1, ROWS..2 * ROWS, Write::Value).await;
        let (grown, is_due) = shard.judged();
        assert!(!is_due && grown.surplus_bytes == 0, "new rows of a partition: {grown:?}");
        assert!(shard.engine.backlog_runs() < BACKLOG_RUNS_SLOW);
        // Three runs are too few for a merge, but for what they are of.
        shard.flush(1, 0..ROWS, Write::Value).await;
        let (overwritten, is_due) = shard.judged();
        assert!(is_due && overwritten.surplus_bytes > 0, "{overwritten:?}");
        assert!(shard.engine.backlog_runs() < BACKLOG_RUNS_SLOW, "one flush slows no writer");
        shard.write(1, 0..ROWS, Write::Value).await;
        assert!(shard.engine.backlog_runs() > BACKLOG_RUNS_SLOW, "it counts before it is flushed");
        shard::flush(&shard.engine).await;
        shard.judged();
        assert!(shard.engine.backlog_runs() > BACKLOG_RUNS_SLOW, "writers are slowed");
        shard.compact().await;
        let (merged, is_due) = shard.judged();
        assert!(!is_due && merged.surplus_bytes == 0 && merged.runs == 1, "{merged:?}");
        let least = overwritten.bytes * 2 / 3;
        assert!((least - least / 50..least + least / 50).contains(&merged.bytes), "{merged:?}");
    });
}

/// Before: a table was judged when its flush was committed, and not again when its sample was looked up.
#[test]
fn what_a_sample_shows_counts_though_the_table_was_judged_while_it_was_looked_up() {
    on_sim(async |mut shard| {
        shard.flush(1, 0..ROWS, Write::Value).await;
        shard.flush(1, ROWS..2 * ROWS, Write::Value).await;
        shard.write(1, 0..ROWS, Write::Value).await;
        let engine = shard.engine.clone();
        let look = async || {
            engine.next_job_of(JobKind::Compact, NOW_S);
            yield_now().await;
        };
        engine.flush_all(NOW_S, look).await.unwrap();
        let (overwritten, is_due) = shard.judged();
        assert!(is_due && overwritten.surplus_bytes > 0, "{overwritten:?}");
    });
}

#[test]
fn deletions_of_long_rows_are_surplus_of_as_many_bytes_and_of_partitions_say_nothing() {
    on_sim(async |mut shard| {
        shard.flush(1, 0..ROWS, Write::Value).await;
        shard.flush(1, ROWS..2 * ROWS, Write::Value).await;
        shard.flush(1, 0..ROWS, Write::Value).await;
        let (before, _) = shard.judged();
        assert!(before.surplus_bytes > 0, "{before:?}");
        shard.flush(2, 0..1, Write::DeletePartition).await;
        let (unknown, _) = shard.judged();
        assert_eq!(unknown.surplus_bytes, 0);
        shard.flush(1, 0..ROWS, Write::DeleteRow).await;
        let (deleted, _) = shard.judged();
        // Before, half of what lay beside the largest run was surplus; now all of it.
        assert!(deleted.surplus_bytes > before.surplus_bytes * 19 / 10, "{before:?} {deleted:?}");
        shard.engine.truncate(TABLE).await.unwrap();
        let (emptied, _) = shard.judged();
        assert_eq!((emptied.bytes, emptied.surplus_bytes), (0, 0));
    });
}
