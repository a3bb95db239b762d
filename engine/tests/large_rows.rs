//! A row that many writes make large: refused before it can hurt, and no job ends the process for one that is there.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::rc::Rc;

use engine::io::{Disk, Faults, SimDisk, SimExec};
use engine::limits::ROW_BYTES_MAX;
use engine::{Config, Engine, Error, Job, LargeData, LargeThresholds, RowLimits};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::cell::Life;
use model::mutation::MutationBuilder;
use model::read::{Flow, PartitionRef, RowSink};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::{ColumnId, Token};

use crate::shard::{self, TABLE, flush, make, map_of_blobs, schema_of, select_all, write};

const MAP: ColumnId = ColumnId(1);
const SMALL: RowLimits =
    RowLimits { bytes_max: 20 << 20, cells_max: 1 << 20, compacted_bytes_max: 1 << 30 };

fn config(seed: u64) -> Config {
    let log = engine::commitlog::Config::new(seed);
    Config { log, memory_bytes: 1 << 30, ..shard::config(seed) }
}

/// `UPDATE t SET m[element] = <bytes> WHERE k = key`, or the DELETE of the element, or of all of them first.
fn record(key: u8, element: u8, bytes: usize, timestamp: i64, whole: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&[key]), &[key]);
    let (value, path) = (vec![7; bytes], [element]);
    m.row(&[], |out| {
        let mut row = RowBuilder::begin(out, &RowHead::bare(timestamp));
        if whole {
            row.cell(&Cell { whole: true, ..Cell::dead(MAP, timestamp - 1, 1) });
        }
        let cell = Cell { path: Some(&path), ..Cell::live(MAP, timestamp, &value) };
        match bytes {
            0 => row.cell(&Cell { life: Life::Dead { local_s: 1 }, value: &[], ..cell }),
            _ => row.cell(&cell),
        }
    });
    m.finish();
    out
}

/// How many elements each row has.
#[derive(Default)]
struct Elements(Vec<(u8, usize)>);

impl RowSink for Elements {
    fn row(&mut self, p: &PartitionRef<'_>, _: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        self.0.push((p.key[0], row.unwrap().cells().count()));
        Flow::More
    }
}

async fn read(engine: &Engine) -> Vec<(u8, usize)> {
    let mut elements = Elements::default();
    engine.read(&select_all(1), &mut elements, yield_now).await.unwrap();
    elements.0.sort_unstable();
    elements.0
}

async fn open(disk: &Disk, exec: &SimExec, seed: u64) -> Rc<Engine> {
    shard::open(disk, exec, config(seed), &schema_of([map_of_blobs()])).await
}

async fn create(disk: &Disk, exec: &SimExec) -> Rc<Engine> {
    make(disk, &config(1)).await;
    open(disk, exec, 2).await
}

fn on_sim(main: impl AsyncFnOnce(Disk, SimExec) + 'static) {
    let disk = Disk::Sim(SimDisk::new(3, Faults::default()));
    let exec = SimExec::new(3);
    let inner = exec.clone();
    exec.run(async move { main(disk, inner).await }).done();
}

#[test]
fn forty_elements_of_15_megabytes_are_refused_before_the_row_is_too_large() {
    on_sim(async |disk, exec| {
        let engine = create(&disk, &exec).await;
        let mut taken = 0;
        for element in 0..40u8 {
            match write(&engine, &record(1, element, 15_000_000, i64::from(element) + 1, false))
                .await
            {
                Ok(()) => taken += 1,
                Err(Error::Invalid(what)) => {
                    assert!(what.contains("A row of ks.t would hold"), "{what}")
                }
                Err(error) => panic!("{error}"),
            }
            if element % 3 == 2 {
                flush(&engine).await;
            }
        }
        assert_eq!(taken, ROW_BYTES_MAX / 15_000_000);
        // The files are merged into one, and another row is as it was.
        engine.set_fragment_bytes_min(64 << 20);
        write(&engine, &record(2, 1, 15_000_000, 99, false)).await.unwrap();
        flush(&engine).await;
        let request = engine.request_major(TABLE);
        engine.compact_major(&request, 1, async || yield_now().await).await.unwrap();
        assert_eq!(read(&engine).await, [(1, taken as usize), (2, 1)]);
        assert_eq!(engine.table_size(TABLE).unwrap().sstables, 1);
        assert!(engine.stats().large_rows > 0 && engine.stats().jobs_failed == 0);
    });
}

/// A small core's limit is far below that of one write.
#[test]
fn the_first_write_of_a_row_is_held_against_its_limit_too() {
    on_sim(async |disk, exec| {
        let engine = create(&disk, &exec).await;
        engine.set_row_limits(RowLimits { bytes_max: 6 << 20, ..SMALL });
        let refused = write(&engine, &record(1, 1, 11 << 20, 1, false)).await;
        let Err(Error::Invalid(what)) = refused else { panic!("{refused:?}") };
        assert!(what.contains("a row may hold 6291456"), "{what}");
        // A row just below it is taken, and so are two in one record that are longer together.
        write(&engine, &record(1, 1, (6 << 20) - 100, 2, false)).await.unwrap();
        let mut two = record(2, 1, 4 << 20, 3, false);
        two.extend(record(3, 1, 4 << 20, 3, false));
        write(&engine, &two).await.unwrap();
        assert_eq!(read(&engine).await, [(1, 1), (2, 1), (3, 1)]);
    });
}

#[test]
fn a_row_at_its_limit_takes_deletions_and_a_new_value_for_all_of_it() {
    on_sim(async |disk, exec| {
        for flushes in [false, true] {
            let disk =
                if flushes { Disk::Sim(SimDisk::new(4, Faults::default())) } else { disk.clone() };
            let engine = create(&disk, &exec).await;
            engine.set_row_limits(SMALL);
            for element in 0..2 {
                write(&engine, &record(1, element, 9 << 20, 10, false)).await.unwrap();
                if flushes {
                    flush(&engine).await;
                }
            }
            let refused = write(&engine, &record(1, 3, 9 << 20, 11, false)).await;
            assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
            write(&engine, &record(1, 0, 0, 12, false)).await.unwrap();
            write(&engine, &record(2, 0, 9 << 20, 12, false)).await.unwrap();
            write(&engine, &record(1, 4, 9 << 20, 13, true)).await.unwrap();
            assert_eq!(read(&engine).await, [(1, 1), (2, 1)]);
        }
    });
}

#[test]
fn elements_are_counted_too() {
    on_sim(async |disk, exec| {
        let engine = create(&disk, &exec).await;
        engine.set_row_limits(RowLimits { cells_max: 3, ..SMALL });
        for element in 0..3 {
            write(&engine, &record(1, element, 1 << 20, 10, false)).await.unwrap();
            flush(&engine).await;
        }
        let refused = write(&engine, &record(1, 9, 1, 11, false)).await.unwrap_err();
        assert!(refused.to_string().contains("would hold 4 cells"), "{refused}");
    });
}

/// The row that an older version let grow: a merge of its files is given up, and everything else goes on.
#[test]
fn a_row_that_is_too_large_already_is_left_alone_and_the_rest_goes_on() {
    on_sim(async |disk, exec| {
        let engine = create(&disk, &exec).await;
        for element in 0..4 {
            write(&engine, &record(1, element, 2 << 20, 10, false)).await.unwrap();
            flush(&engine).await;
        }
        // The next start finds it, and so do its jobs.
        let engine = open(&disk, &exec, 1000).await;
        engine.set_row_limits(RowLimits { compacted_bytes_max: 5 << 20, ..SMALL });
        let pause = async || yield_now().await;
        assert_eq!(engine.next_job(1), Some(Job::Compact(TABLE)));
        let failed = engine.run(Job::Compact(TABLE), 1, pause).await.unwrap_err();
        assert!(failed.to_string().contains("a row of ks.t has"), "{failed}");
        assert!(failed.to_string().contains("partition 0x01"), "{failed}");
        assert_eq!(engine.stats().files_quarantined, 4);
        assert_eq!(engine.next_job(1_000_000), None, "the same merge is not tried again");
        assert_eq!(read(&engine).await, [(1, 4)]);
        // Files beside them are flushed and merged.
        for key in 2..6 {
            write(&engine, &record(key, 1, 2 << 20, 11, false)).await.unwrap();
            flush(&engine).await;
        }
        assert_eq!(engine.next_job(1_000_000), Some(Job::Compact(TABLE)));
        engine.run(Job::Compact(TABLE), 1_000_000, pause).await.unwrap();
        assert_eq!(engine.table_size(TABLE).unwrap().sstables, 5);
        assert_eq!(read(&engine).await, [(1, 4), (2, 1), (3, 1), (4, 1), (5, 1)]);
    });
}

/// What is large is listed while its file is there, also by the next start, and told once.
#[test]
fn a_large_row_is_listed_as_long_as_its_file_is_there() {
    async fn large(engine: &Engine) -> LargeData {
        engine.large_data(LargeThresholds::TOLD, async || yield_now().await).await
    }
    on_sim(async |disk, exec| {
        let engine = create(&disk, &exec).await;
        for (key, element, bytes) in [(1, 1, 6 << 20), (1, 2, 6 << 20), (2, 1, 2 << 20), (3, 1, 9)]
        {
            write(&engine, &record(key, element, bytes, 5, false)).await.unwrap();
        }
        assert_eq!(large(&engine).await, LargeData::default(), "in memory");
        flush(&engine).await;
        let told = engine.take_large_written().unwrap();
        assert!(told.is_row && told.bytes > 12 << 20, "{told:?}");
        assert_eq!((&*told.table, &told.key[..], told.files), ("ks.t", &[1][..], 1));
        assert_eq!(engine.take_large_written(), None);
        let found = large(&engine).await;
        assert_eq!(found.rows.iter().map(|row| row.key[0]).collect::<Vec<_>>(), [1]);
        let cells = found.cells.iter().map(|cell| (cell.key[0], cell.column));
        assert_eq!(cells.collect::<Vec<_>>(), [(1, Some((MAP.0, 2))), (2, Some((MAP.0, 1)))]);
        let again = open(&disk, &exec, 3).await;
        assert_eq!(large(&again).await, found);
        assert_eq!(again.take_large_written(), None);
        again.truncate(TABLE).await.unwrap();
        assert_eq!(large(&again).await, LargeData::default());
    });
}
