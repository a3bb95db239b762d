//! Rows that are overwritten are known by samples of what is flushed: then files are merged, and writers slowed, by the
//! space that the old versions take. A table that grows is let be.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::cell::Cell as Slot;
use std::rc::Rc;

use engine::io::{Disk, IoClass, Rng, SimExec};
use engine::limits::BACKLOG_RUNS_SLOW;
use engine::{Config, Engine, Job, JobKind, TableSize, commitlog};
use futures_lite::future::{yield_now, zip};
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::options::{Compaction, TableOptions};
use model::row::{Cell, RowBuilder, RowHead};
use model::schema::TableBuilder;
use model::{ColumnId, CqlType, Deletion, Schema, Token};

use crate::shard::{self, TABLE};

/// Bytes of a row: with this many the files of a test are large enough to be sampled.
const ROW_BYTES: usize = 30_000;
const ROWS: u32 = 1_500;
/// Bytes of a long one.
const LONG_BYTES: usize = 3 << 20;
const NOW_S: u32 = 1;

/// `CREATE TABLE t (k int, c int, v blob, s blob static, PRIMARY KEY (k, c))`
fn schema() -> Schema {
    let class = [("class".to_owned(), "UnifiedCompactionStrategy".to_owned())];
    let compaction = Compaction::parse(&class.into()).unwrap();
    let table = TableBuilder::new("ks", "t", TABLE)
        .options(TableOptions { compaction, ..TableOptions::default() })
        .partition_key("k", CqlType::Int)
        .and_then(|t| t.clustering("c", CqlType::Int, false))
        .and_then(|t| t.regular("v", CqlType::Blob))
        .and_then(|t| t.stat("s", CqlType::Blob))
        .and_then(TableBuilder::build)
        .unwrap();
    shard::schema_of([table])
}

/// What one mutation does to a row.
#[derive(Clone, Copy)]
enum Write {
    Value,
    Static,
    /// [`LONG_BYTES`], and as many that take little when they are compressed.
    Long,
    LongZeros,
    /// A few bytes.
    Short,
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
    let mut random = |bytes: usize| -> Vec<u8> {
        (0..bytes / 8).flat_map(|_| random.roll().to_le_bytes()).collect()
    };
    let value = match write {
        Write::Value | Write::Static => random(ROW_BYTES),
        Write::Long => random(LONG_BYTES),
        Write::LongZeros => vec![0; LONG_BYTES],
        Write::Short => random(8),
        Write::DeleteRow | Write::DeletePartition => Vec::new(),
    };
    match write {
        Write::DeletePartition => m.delete_partition(deletion),
        Write::Static => m.static_row(|out| {
            let cell = Cell::live(ColumnId(2), timestamp, &value);
            RowBuilder::begin(out, &RowHead::bare(timestamp)).cell(&cell);
        }),
        Write::DeleteRow => m.row(&clustering, |out| {
            RowBuilder::begin(out, &RowHead { deletion, ..RowHead::bare(timestamp) });
        }),
        Write::Value | Write::Short | Write::Long | Write::LongZeros => m.row(&clustering, |out| {
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

    /// Writes these rows of a partition, flushes them and looks at the sample.
    async fn flush(&mut self, key: u32, rows: impl Iterator<Item = u32>, write: Write) {
        self.write(key, rows, write).await;
        shard::flush(&self.engine).await;
        self.look_up().await;
    }

    /// Looks up the samples that wait.
    async fn look_up(&self) {
        while let Some(job) = self.engine.next_job_of(JobKind::Sample, NOW_S) {
            self.engine.run(job, NOW_S, async || yield_now().await).await.unwrap();
        }
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
        shard.look_up().await;
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
        shard::flush(&shard.engine).await;
        let (unknown, is_due) = shard.judged();
        assert!(!is_due && unknown.surplus_bytes == 0, "{unknown:?}");
        let sample = shard.engine.next_job_of(JobKind::Sample, NOW_S).unwrap();
        let engine = shard.engine.clone();
        let look = async || {
            engine.next_job_of(JobKind::Compact, NOW_S);
            yield_now().await;
        };
        engine.run(sample, NOW_S, look).await.unwrap();
        let (overwritten, is_due) = shard.judged();
        assert!(is_due && overwritten.surplus_bytes > 0, "{overwritten:?}");
    });
}

/// Before: it was looked up in the flush, which held the table, the space that was promised and the next flush for it.
#[test]
fn no_flush_waits_for_a_sample_and_what_it_shows_of_a_table_of_before_is_forgotten() {
    on_sim(async |mut shard| {
        shard.flush(1, 0..ROWS, Write::Value).await;
        shard.write(1, 0..ROWS, Write::Value).await;
        shard::flush(&shard.engine).await;
        let sample = shard.engine.next_job_of(JobKind::Sample, NOW_S).unwrap();
        assert_eq!(sample, Job::Sample);
        // While it is looked up the table is flushed, emptied, and written to once more.
        let (is_begun, may_go_on) = (Slot::new(false), Slot::new(false));
        let pause = async || {
            is_begun.set(true);
            while !may_go_on.get() {
                yield_now().await;
            }
        };
        let engine = shard.engine.clone();
        let work = async {
            while !is_begun.get() {
                yield_now().await;
            }
            shard.write(1, 0..ROWS, Write::Value).await;
            shard::flush(&shard.engine).await;
            assert_eq!(shard.engine.table_size(TABLE).unwrap().sstables, 3);
            shard.engine.truncate(TABLE).await.unwrap();
            for rows in [0..ROWS, ROWS..2 * ROWS] {
                shard.write(1, rows, Write::Value).await;
                shard::flush(&shard.engine).await;
            }
            may_go_on.set(true);
        };
        let (looked_up, ()) = zip(engine.run(sample, NOW_S, pause), work).await;
        looked_up.unwrap();
        let (unknown, _) = shard.judged();
        assert_eq!((unknown.sstables, unknown.surplus_bytes), (2, 0));
        shard.look_up().await;
        assert_eq!(shard.judged().0.surplus_bytes, 0, "the last flush had new rows");
        assert!(!shard.judged().1);
    });
}

/// Before: the blocks of 16 rows at a time were read and opened at once, and each old row united in one step: a flush
/// of small updates of long rows took hundreds of megabytes.
#[test]
fn a_sample_reads_no_long_row_and_knows_nothing_where_all_are() {
    for long in [Write::Long, Write::LongZeros] {
        on_sim(async move |mut shard| {
            shard.engine.set_sampled_bytes_min(1);
            shard.flush(1, 0..12, long).await;
            let of_flushes = |shard: &Shard| {
                let classes = IoClass::ALL.into_iter().zip(shard.engine.disk().counts());
                classes.filter(|(class, _)| *class == IoClass::Flush).map(|(_, of)| of.bytes).sum()
            };
            for is_known in [false, true] {
                shard.write(1, 0..12, Write::Short).await;
                shard::flush(&shard.engine).await;
                let before: u64 = shard::until_still(|| of_flushes(&shard)).await;
                assert!(shard.engine.next_job_of(JobKind::Sample, NOW_S).is_some());
                shard.look_up().await;
                let read_bytes = of_flushes(&shard) - before;
                assert!(read_bytes < LONG_BYTES as u64, "{read_bytes} bytes");
                // The second time the newest of each row is short.
                assert_eq!(shard.judged().0.surplus_bytes > 0, is_known);
            }
        });
    }
}

/// Before: no static row was sampled, and a table of nothing else was not known to be overwritten.
#[test]
fn static_rows_that_are_overwritten_are_surplus() {
    on_sim(async |mut shard| {
        shard.engine.set_sampled_bytes_min(1);
        for (keys, is_overwritten) in [(0..30, false), (30..60, false), (0..30, true)] {
            for key in keys {
                shard.write(key, 0..1, Write::Static).await;
            }
            shard::flush(&shard.engine).await;
            shard.look_up().await;
            assert_eq!(shard.judged().0.surplus_bytes > 0, is_overwritten);
        }
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
