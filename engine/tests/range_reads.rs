//! Many reads of ranges at once: as many as a part of the shard's memory holds are under way, the others wait in order.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use engine::limits::{SCAN_BYTES, SCAN_MEMORY_DIVISOR, lane_read_bytes};
use engine::{Config, Job, JobKind};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::read::{Flow, PartitionRef, RowSink};
use model::row::{Cell as RowCell, RowBuilder, RowHead, RowRef};
use model::{ColumnId, Token};

use crate::shard::{
    LATER_S, TABLE, config, flush, key_value, on_shard, schema_of, select_all, write,
};

const READS: usize = 512;
const RUNS: u64 = 3;
const ROWS: u64 = 40;

fn put(key: u64, value: &[u8]) -> Vec<u8> {
    let (key, mut out) = (key.to_be_bytes(), Vec::new());
    let mut mutation = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&key), &key);
    mutation.row(&[], |out| {
        RowBuilder::begin(out, &RowHead::bare(1)).cell(&RowCell::live(ColumnId(1), 1, value));
    });
    mutation.finish();
    out
}

#[derive(Default)]
struct Count(u64);

impl RowSink for Count {
    fn row(&mut self, _: &PartitionRef<'_>, _: Option<&[u8]>, _: Option<RowRef<'_>>) -> Flow {
        self.0 += 1;
        Flow::More
    }
}

/// Before: each read of a range that waited for the disk had a window and a block of every run, whatever their number:
/// 2,048 of them took 256 MiB and more of a shard that has 128.
#[test]
fn range_reads_at_once_hold_a_part_of_the_memory_and_are_all_answered() {
    let config = Config { memory_bytes: 32 << 20, ..config(3) };
    let most = config.memory_bytes / SCAN_MEMORY_DIVISOR;
    let of_read = SCAN_BYTES + RUNS as usize * lane_read_bytes(16 << 10);
    on_shard(config, schema_of([key_value(Default::default())]), async move |engine, _, exec| {
        for run in 0..RUNS {
            for key in 0..ROWS {
                write(&engine, &put(key * RUNS + run, &[7; 400])).await.unwrap();
            }
            flush(&engine).await;
        }
        let (under_way, largest) =
            (Rc::<RefCell<BTreeSet<usize>>>::default(), Rc::new(Cell::new(0)));
        let done = Rc::<RefCell<Vec<usize>>>::default();
        for number in 0..READS {
            let (under_way, largest) = (under_way.clone(), largest.clone());
            let (engine, done) = (engine.clone(), done.clone());
            exec.spawn(async move {
                let mut rows = Count::default();
                let pause = async || {
                    under_way.borrow_mut().insert(number);
                    largest.set(largest.get().max(under_way.borrow().len()));
                    assert!(engine.stats().scan_bytes <= most as u64);
                    yield_now().await;
                };
                let end = engine.read(&select_all(LATER_S), &mut rows, pause).await.unwrap();
                assert_eq!((end.rows, rows.0), (RUNS * ROWS, RUNS * ROWS));
                under_way.borrow_mut().remove(&number);
                done.borrow_mut().push(number);
            });
        }
        while done.borrow().len() < READS {
            yield_now().await;
        }
        let largest = largest.get();
        assert!(largest * of_read <= most && largest > 1, "{largest} reads were under way");
        assert_eq!(engine.stats().scan_bytes, 0);
    });
}

/// A block has at least one row, however long: of a table with long rows fewer reads are under way.
#[test]
fn reads_of_long_rows_count_with_these() {
    const LONG: usize = 300 << 10;
    let log = engine::commitlog::Config { segment_bytes: 4 << 20, ..config(5).log };
    let config = Config { memory_bytes: 32 << 20, log, ..config(5) };
    let most = config.memory_bytes / SCAN_MEMORY_DIVISOR / (2 * LONG);
    on_shard(config, schema_of([key_value(Default::default())]), async move |engine, _, exec| {
        for key in 0..12 {
            write(&engine, &put(key, &[7; LONG])).await.unwrap();
        }
        flush(&engine).await;
        let (under_way, largest) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let done = Rc::new(Cell::new(0));
        for _ in 0..20 {
            let (under_way, largest) = (under_way.clone(), largest.clone());
            let (engine, done) = (engine.clone(), done.clone());
            exec.spawn(async move {
                let (mut rows, has_begun) = (Count::default(), Cell::new(false));
                let pause = async || {
                    under_way.set(under_way.get() + usize::from(!has_begun.replace(true)));
                    largest.set(largest.get().max(under_way.get()));
                    yield_now().await;
                };
                engine.read(&select_all(LATER_S), &mut rows, pause).await.unwrap();
                assert_eq!((rows.0, has_begun.get()), (12, true));
                under_way.set(under_way.get() - 1);
                done.set(done.get() + 1);
            });
        }
        while done.get() < 20 {
            yield_now().await;
        }
        assert!((1..=most).contains(&largest.get()), "{} of {most}", largest.get());
    });
}

/// Before: see above; what waits for its turn is dropped when its time is over, and the next one has its turn.
#[test]
fn a_range_read_that_is_dropped_while_it_waits_lets_the_next_one_begin() {
    on_shard(config(4), schema_of([key_value(Default::default())]), async |engine, _, exec| {
        for key in 0..ROWS {
            write(&engine, &put(key, &[7; 400])).await.unwrap();
        }
        flush(&engine).await;
        let ended = Rc::new(Cell::new(0));
        for number in 0..60 {
            let (engine, ended) = (engine.clone(), ended.clone());
            exec.spawn(async move {
                let mut rows = Count::default();
                let command = select_all(LATER_S);
                let read = engine.read(&command, &mut rows, yield_now);
                if number % 3 > 0 {
                    futures_lite::future::or(async { drop(read.await) }, yield_now()).await;
                } else {
                    read.await.unwrap();
                }
                ended.set(ended.get() + 1);
            });
        }
        while ended.get() < 60 {
            yield_now().await;
        }
        assert_eq!(engine.stats().scan_bytes, 0);
    });
}

/// Before: a scan whose table was dropped while it waited for its turn, or for the disk, was told that it had all rows.
#[test]
fn a_scan_whose_table_is_dropped_on_the_way_is_refused() {
    on_shard(config(6), schema_of([key_value(Default::default())]), async |engine, _, _| {
        for key in 0..ROWS {
            write(&engine, &put(key, &[7; 4000])).await.unwrap();
        }
        flush(&engine).await;
        let (mut rows, command) = (Count::default(), select_all(LATER_S));
        let drop_table = async || engine.set_schema(&schema_of([]));
        let read = engine.read(&command, &mut rows, drop_table).await;
        assert!(matches!(read, Err(engine::Error::Invalid(text)) if text.contains("no table")));
    });
}

/// Before: a long read held all that its table had when it began, also the memtable that was flushed meanwhile, which
/// counts nowhere, and files that were merged.
#[test]
fn a_long_read_gives_back_what_its_table_has_no_more() {
    on_shard(config(7), schema_of([key_value(Default::default())]), async |engine, _, _| {
        for key in 0..2000 {
            write(&engine, &put(key, &[7; 100])).await.expect("it is taken");
        }
        let (pauses, freed) = (Cell::new(0), Cell::new(false));
        let mut rows = Count::default();
        let pause = async || {
            pauses.set(pauses.get() + 1);
            if pauses.get() == 2 {
                flush(&engine).await;
            }
            let is_free = engine.next_job_of(JobKind::Remove, LATER_S) == Some(Job::Remove);
            freed.set(freed.get() || is_free);
            yield_now().await;
        };
        engine.read(&select_all(LATER_S), &mut rows, pause).await.expect("all of it");
        assert_eq!(rows.0, 2000, "each row once");
        assert!(pauses.get() > 4 && freed.get(), "{} pauses", pauses.get());
    });
}
