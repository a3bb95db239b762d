//! Many tables that hold a little each: they are flushed together, and a power cut at any point loses none of them.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::rc::Rc;

use engine::io::{Crash, Disk, Faults, IoClass, Outcome, SimDisk, SimExec};
use engine::{Config, Engine, Job, JobKind, layout};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::row::{Cell, RowBuilder, RowHead};
use model::schema::TableBuilder;
use model::{ColumnId, CqlType, Schema, TableId, Token};
use uuid::Uuid;

use crate::shard::{self, answers, flush, make, noise, schema_of};

const TABLES: u128 = 300;

fn id(number: u128) -> TableId {
    TableId(Uuid::from_u128(number))
}

fn schema() -> Schema {
    let table = |number: u128| {
        let builder = TableBuilder::new("ks", &format!("t{number}"), id(number));
        let keyed = builder.partition_key("k", CqlType::Int);
        keyed.and_then(|t| t.regular("v", CqlType::Blob)).and_then(TableBuilder::build).unwrap()
    };
    schema_of((1..=TABLES).map(table))
}

fn config() -> Config {
    let log = engine::commitlog::Config {
        segment_bytes: 64 << 10,
        log_bytes_max: 256 << 10,
        ..engine::commitlog::Config::new(1)
    };
    Config { log, memory_bytes: 64 << 20, ..shard::config(1) }
}

fn row(table: u128) -> Vec<u8> {
    row_of(table, 1)
}

fn row_of(table: u128, key: i32) -> Vec<u8> {
    let mut out = Vec::new();
    let token = Token(key.into());
    let mut m = MutationBuilder::begin(&mut out, id(table), token, &key.to_be_bytes());
    m.row(&[], |out| {
        let head = RowHead { marker: Some(model::cell::Life::Live), ..RowHead::bare(1) };
        RowBuilder::begin(out, &head);
    });
    m.finish();
    out
}

/// A row with 8 KiB that cannot be compressed.
fn long_row_of(table: u128, key: i32) -> Vec<u8> {
    let value = noise(key.cast_unsigned(), 1024);
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, id(table), Token(key.into()), &key.to_be_bytes());
    m.row(&[], |out| {
        RowBuilder::begin(out, &RowHead::bare(1)).cell(&Cell::live(ColumnId(1), 1, &value));
    });
    m.finish();
    out
}

async fn open(disk: &Disk, exec: &SimExec) -> Rc<Engine> {
    shard::open(disk, exec, config(), &schema()).await
}

/// Writes a row to each table, and waits for all of them.
async fn write_to_all(engine: &Engine) {
    (1..=TABLES).for_each(|table| engine.write(&row(table), table as u64).unwrap());
    let done = answers(engine, TABLES as usize).await;
    assert!(done.iter().all(|(_, result)| result.is_ok()));
}

/// Runs `work` on a shard with a row in each table; what it gives, if the power lasts.
fn run<T: 'static>(
    faults: Faults,
    work: impl AsyncFnOnce(&Engine) -> T + 'static,
) -> (SimDisk, Option<T>) {
    let sim = SimDisk::new(1, Faults::default());
    let (disk, exec) = (Disk::Sim(sim.clone()), SimExec::powered_by(&sim, 1));
    let (inner, cut) = (exec.clone(), sim.clone());
    let outcome = exec.run(async move {
        make(&disk, &config()).await;
        let engine = open(&disk, &inner).await;
        write_to_all(&engine).await;
        let crash_at_op = faults.crash_at_op.map(|op| cut.ops() + op);
        cut.set_faults(Faults { crash_at_op, ..faults });
        work(&engine).await
    });
    let given = match outcome {
        Outcome::Done(given) => Some(given),
        Outcome::Stalled => None,
    };
    exec.end();
    (sim, given)
}

/// Before: each of 300 tables had an edit of the manifest of its own, which is a commit that the next one waited for.
#[test]
fn tables_that_hold_little_share_an_edit_of_the_manifest() {
    let (sim, _) = run(Faults::default(), async |engine| flush(engine).await);
    let unflushed = run(Faults::default(), async |_| ()).0;
    let commits = |sim: SimDisk| Disk::Sim(sim).counts()[IoClass::Commit as usize].requests;
    let of_flushes = commits(sim) - commits(unflushed);
    assert!((5..=15).contains(&of_flushes), "five groups: {of_flushes} requests");
}

/// Before: the files of a group were never as long as what is written at a time, so a group never asked for more space
/// than it was promised: it wrote on into what the reserve lacks, or met the full disk and gave up all of its files.
#[test]
fn a_group_whose_files_take_more_than_was_thought_flushes_those_for_which_there_is_space() {
    const KEPT_BYTES: u64 = 100 << 10;
    const TOGETHER: u128 = 40;
    const SPACE_BYTES: u64 = 80_000;
    let sim = SimDisk::new(1, Faults::default());
    let (disk, exec) = (Disk::Sim(sim.clone()), SimExec::new(1));
    let inner = exec.clone();
    exec.run(async move {
        make(&disk, &config()).await;
        let engine = open(&disk, &inner).await;
        write_to_all(&engine).await;
        flush(&engine).await;
        for table in 1..=TOGETHER {
            for key in 0..30 {
                engine.write(&row_of(table, key), 1).unwrap();
            }
            answers(&engine, 30).await;
        }
        let quota_bytes = Some(sim.used_bytes() + KEPT_BYTES + SPACE_BYTES);
        sim.set_faults(Faults { quota_bytes, ..Faults::default() });
        engine.measure_space(KEPT_BYTES).await.unwrap();
        let ended = engine.flush_all(1, async || yield_now().await).await;
        let (flushes, free_bytes) =
            (engine.stats().flushes - TABLES as u64, disk.free_space().await.unwrap().free_bytes);
        assert!(matches!(ended, Err(engine::Error::DiskFull { .. })), "{ended:?}");
        assert!((1..TOGETHER as u64).contains(&flushes), "{flushes} tables were flushed");
        assert!(free_bytes >= KEPT_BYTES, "{free_bytes}");
        sim.set_faults(Faults::default());
    })
    .done();
}

/// Before: the files of all tables of the group were removed, and each was to be flushed alone.
#[test]
fn a_group_in_which_a_long_file_finds_no_space_flushes_those_before_it() {
    let sim = SimDisk::new(1, Faults::default());
    let (disk, exec) = (Disk::Sim(sim.clone()), SimExec::new(1));
    let inner = exec.clone();
    exec.run(async move {
        make(&disk, &config()).await;
        let engine = open(&disk, &inner).await;
        engine.write(&row(1), 1).unwrap();
        for key in 0..18 {
            engine.write(&long_row_of(2, key), 1).unwrap();
        }
        answers(&engine, 19).await;
        let quota_bytes = Some(sim.used_bytes() + (100 << 10));
        sim.set_faults(Faults { quota_bytes, ..Faults::default() });
        let ended = engine.flush_all(1, async || yield_now().await).await;
        assert!(matches!(ended, Err(engine::Error::DiskFull { .. })), "{ended:?}");
        assert_eq!(engine.stats().flushes, 1);
        sim.set_faults(Faults::default());
        flush(&engine).await;
        assert_eq!(engine.stats().flushes, 2);
    })
    .done();
}

/// One job frees what many tables hold of the oldest segments.
#[test]
fn a_long_log_is_freed_by_few_jobs() {
    let (_, jobs) = run(Faults::default(), async |engine| {
        while engine.next_job_of(JobKind::Flush, 0).is_none() {
            write_to_all(engine).await;
        }
        let mut jobs = 0;
        while let Some(job) = engine.next_job_of(JobKind::Flush, 0) {
            engine.run(job, 0, async || yield_now().await).await.unwrap();
            jobs += 1;
        }
        jobs
    });
    assert!((1..=10).contains(&jobs.unwrap()), "{jobs:?} jobs for 300 tables");
}

#[test]
fn a_power_cut_in_a_shared_flush_loses_no_table() {
    for op in (0..3000).step_by(97) {
        let faults = Faults { crash_at_op: Some(op), ..Faults::default() };
        let (sim, _) = run(faults, async |engine| flush(engine).await);
        let mode = [Crash::Nothing, Crash::Everything, Crash::Random][op as usize % 3];
        let sim = sim.crash(op, mode);
        let (disk, exec) = (Disk::Sim(sim), SimExec::new(1));
        let inner = exec.clone();
        let held = exec.run(async move {
            let engine = open(&disk, &inner).await;
            let held = |table: u128| {
                let size = engine.table_size(id(table)).unwrap();
                size.sstables > 0 || size.memtable_bytes > 0
            };
            (1..=TABLES).filter(|table| held(*table)).count()
        });
        assert_eq!(held.done(), TABLES as usize, "after operation {op}");
    }
}

/// Before: a stop ended in the middle of a flush that was under way, and what was written beside it was not flushed.
#[test]
fn a_flush_of_everything_waits_for_those_that_are_under_way() {
    let sim = SimDisk::new(1, Faults { suspensions_max: 2, ..Faults::default() });
    let (disk, exec) = (Disk::Sim(sim.clone()), SimExec::new(1));
    let inner = exec.clone();
    let work = exec.run(async move {
        make(&disk, &config()).await;
        let engine = open(&disk, &inner).await;
        engine.write(&row(1), 1).unwrap();
        answers(&engine, 1).await;
        let flushing = engine.clone();
        inner.spawn(async move { flushing.run(Job::Flush(id(1)), 1, yield_now).await.unwrap() });
        while sim.files_of(&layout::table_dir(id(1).0)).is_empty() {
            yield_now().await;
        }
        engine.write(&row(1), 2).unwrap();
        answers(&engine, 1).await;
        assert_eq!(engine.stats().flushes, 0, "it goes on");
        flush(&engine).await;
        assert_eq!(engine.stats().flushes, 2);
        assert_eq!(engine.table_size(id(1)).unwrap().memtable_rows, 0);
    });
    work.done();
}
