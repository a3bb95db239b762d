//! The files of a table that goes: no flush waits while they are unlinked, and those that come back meanwhile stay.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::cell::Cell as Slot;
use std::rc::Rc;

use engine::io::{Disk, RelPath, SimDisk, SimExec};
use engine::{Engine, Job, layout};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::options::TableOptions;
use model::row::{Cell, RowBuilder, RowHead};
use model::{ColumnId, Deletion, Schema, TableId, Token};
use uuid::Uuid;

use crate::shard::{
    self, LATER_S, TABLE, config, flush, key_value, make, on_sim, schema_of, write,
};

const OTHER: TableId = TableId(Uuid::from_u128(8));
/// It takes longer to unlink so many than to flush a table.
const FILES: u8 = 200;

/// With [`TABLE`], or after it was dropped.
fn schema(has_table: bool) -> Schema {
    let options = TableOptions { gc_grace_seconds: 10, ..TableOptions::default() };
    let table = key_value(options);
    let mut other = table.clone();
    (other.id, other.name) = (OTHER, "u".into());
    schema_of([table, other].into_iter().filter(|table| has_table || table.id == OTHER))
}

/// A row of a key, or the deletion of its partition.
fn record(table: TableId, key: u8, is_live: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, table, Token::of_key(&[key]), &[key]);
    match is_live {
        false => m.delete_partition(Deletion { timestamp: 1, local_s: 100 }),
        true => m.row(&[], |out| {
            let cell = Cell::live(ColumnId(1), 1, b"v");
            RowBuilder::begin(out, &RowHead::bare(1)).cell(&cell);
        }),
    }
    m.finish();
    out
}

/// How the files of [`TABLE`] go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Truncated,
    TruncatedToCut,
    Dropped,
    Dead,
}

impl Way {
    async fn prepare(self, engine: &Engine, sim: &SimDisk) {
        if self == Way::TruncatedToCut {
            let dir = RelPath::root().join("cut");
            Disk::Sim(sim.clone()).mkdir(&dir).await.unwrap();
            engine.link_and_cut(TABLE, &dir).await.unwrap();
        }
    }

    async fn take(self, engine: &Engine) {
        match self {
            Way::Truncated => engine.truncate(TABLE).await.unwrap(),
            Way::TruncatedToCut => engine.truncate_to_cut(TABLE).await.unwrap(),
            Way::Dropped => {
                engine.set_schema(&schema(false));
                engine.run(Job::Remove, 1, yield_now).await.unwrap();
            }
            Way::Dead => engine.run(Job::Compact(TABLE), LATER_S, yield_now).await.unwrap(),
        }
    }
}

/// Runs `work` beside the caller; whether it is done.
fn beside(exec: &SimExec, work: impl Future<Output = ()> + 'static) -> Rc<Slot<bool>> {
    let is_done = Rc::new(Slot::new(false));
    let done = is_done.clone();
    exec.spawn(async move {
        work.await;
        done.set(true);
    });
    is_done
}

/// Before: the files of a table were unlinked in the manifest's turn, and no flush of any table was committed before
/// the last of them was gone.
#[test]
fn a_flush_does_not_wait_while_the_files_of_another_table_are_unlinked() {
    for way in [Way::Truncated, Way::TruncatedToCut, Way::Dropped, Way::Dead] {
        on_sim(1, async move |sim, disk, exec| {
            make(&disk, &config(1)).await;
            let engine = shard::open(&disk, &exec, config(1), &schema(true)).await;
            for key in 0..FILES {
                write(&engine, &record(TABLE, key, way != Way::Dead)).await.unwrap();
                flush(&engine).await;
            }
            way.prepare(&engine, &sim).await;
            write(&engine, &record(OTHER, 1, true)).await.unwrap();
            let left = || sim.files_of(&layout::table_dir(TABLE.0)).len();
            assert_eq!(left(), usize::from(FILES));
            let gone = engine.clone();
            let is_done = beside(&exec, async move { way.take(&gone).await });
            while left() == usize::from(FILES) {
                yield_now().await;
            }
            flush(&engine).await;
            assert_eq!(engine.table_size(OTHER).unwrap().sstables, 1);
            assert!(left() > 0, "{way:?}: the flush waited for all of them");
            while !is_done.get() {
                yield_now().await;
            }
            assert_eq!(left(), 0, "{way:?}");
        });
    }
}

/// A removal that is under way has its directory gone when the table may be there again.
#[test]
fn what_is_forgotten_of_a_dropped_table_is_unlinked() {
    on_sim(1, async |sim, disk, exec| {
        make(&disk, &config(1)).await;
        let engine = shard::open(&disk, &exec, config(1), &schema(true)).await;
        for key in 0..20 {
            write(&engine, &record(TABLE, key, true)).await.unwrap();
            flush(&engine).await;
        }
        let (gone, dir) = (engine.clone(), layout::table_dir(TABLE.0));
        beside(&exec, async move { Way::Dropped.take(&gone).await });
        while sim.files_of(&dir).len() == 20 {
            yield_now().await;
        }
        engine.forget_dropped(TABLE).await.unwrap();
        assert!(!sim.has(&dir));
    });
}

/// Whenever a table's files come back while it is emptied, those that it has are there, and no others.
#[test]
fn what_comes_back_while_it_is_unlinked_stays() {
    for seed in 0..100 {
        on_sim(seed, async move |sim, disk, exec| {
            make(&disk, &config(1)).await;
            let engine = shard::open(&disk, &exec, config(1), &schema(true)).await;
            for key in 0..4 {
                write(&engine, &record(TABLE, key, true)).await.unwrap();
                flush(&engine).await;
            }
            let copies = RelPath::root().join("copies");
            disk.mkdir(&copies).await.unwrap();
            let entries = engine.link_files(TABLE, &copies).await.unwrap();
            let gone = engine.clone();
            let is_done = beside(&exec, async move {
                for _ in 0..seed % 10 {
                    yield_now().await;
                }
                gone.truncate(TABLE).await.unwrap();
            });
            for _ in 0..seed / 10 {
                yield_now().await;
            }
            let back = engine.adopt_files(TABLE, &copies, &entries).await.unwrap();
            while !is_done.get() {
                yield_now().await;
            }
            let size = engine.table_size(TABLE).unwrap();
            let files = sim.files_of(&layout::table_dir(TABLE.0)).len() as u64;
            assert_eq!((size.sstables, files), (back, back), "seed {seed}");
            flush(&engine).await;
            let again = shard::open(&disk, &exec, config(2), &schema(true)).await;
            assert_eq!(again.table_size(TABLE).unwrap().sstables, back, "seed {seed}");
            assert!(again.damaged_files().is_empty(), "seed {seed}");
        });
    }
}
