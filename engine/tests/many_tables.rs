//! Tables of one shard: what one of them has, or had, does not hold up another.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::rc::Rc;

use engine::io::{Disk, Faults, SimDisk, SimExec};
use engine::limits::SCHEMA_MEMORY_DIVISOR;
use engine::{Config, Engine, Error, Job, JobKind};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::options::{KeyspaceOptions, TableOptions};
use model::row::{Cell, RowBuilder, RowHead};
use model::schema::{ColumnKind, SchemaChange, Table, TableBuilder};
use model::types::UserType;
use model::{ColumnId, CqlType, Deletion, Schema, TableId, Token};
use uuid::Uuid;

use crate::shard::{self, make, schema_of};

fn id(n: u128) -> TableId {
    TableId(Uuid::from_u128(n))
}

/// Tables with these numbers, each with what `gc_grace_seconds` says of it.
fn schema(tables: impl Iterator<Item = u128>, gc_grace_seconds: impl Fn(u128) -> i32) -> Schema {
    let table = |n: u128| {
        let gc_grace_seconds = gc_grace_seconds(n);
        let options = TableOptions { gc_grace_seconds, ..TableOptions::default() };
        let built = TableBuilder::new("ks", &format!("t{n}"), id(n))
            .options(options)
            .partition_key("k", CqlType::Blob)
            .and_then(|b| b.regular("v", CqlType::Blob))
            .and_then(TableBuilder::build);
        built.unwrap()
    };
    schema_of(tables.map(table))
}

fn record(table: u128, value: &[u8], timestamp: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, id(table), Token::of_key(&[1]), &[1]);
    m.row(&[], |out| {
        let cell = Cell::live(ColumnId(1), timestamp, value);
        RowBuilder::begin(out, &RowHead::bare(timestamp)).cell(&cell);
    });
    m.finish();
    out
}

fn on_sim(schema: Schema, main: impl AsyncFnOnce(Rc<Engine>) + 'static) {
    let segment_bytes = 64 << 10;
    on_sim_with(schema, (segment_bytes, 4 * u64::from(segment_bytes)), main);
}

fn on_sim_with(
    schema: Schema,
    (segment_bytes, log_bytes_max): (u32, u64),
    main: impl AsyncFnOnce(Rc<Engine>) + 'static,
) {
    let config = shard::config(1);
    let log = engine::commitlog::Config { segment_bytes, log_bytes_max, ..config.log };
    let config = Config { log, memory_bytes: 64 << 20, ..config };
    let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
    let exec = SimExec::new(1);
    let inner = exec.clone();
    exec.run(async move {
        make(&disk, &config).await;
        let engine = shard::open(&disk, &inner, config, &schema).await;
        main(engine).await;
    })
    .done();
}

/// Waits for the answers to all writes that have one by now, or soon.
async fn settle(engine: &Engine) {
    let mut done = Vec::new();
    for _ in 0..500 {
        engine.take_completed(&mut done);
        yield_now().await;
    }
    assert!(done.iter().all(|(_, result)| result.is_ok()), "{done:?}");
}

/// Before: nothing freed what a dropped table's rows held of the log, unless another table was flushed; a write that
/// waited for a segment waited in vain.
#[test]
fn a_log_that_a_dropped_table_has_filled_takes_writes_again() {
    on_sim(schema(1..=2, |_| 10), async |engine| {
        let mut timestamp = 0;
        while engine.log_segments() < 4 || engine.writes_deferred() == 0 {
            timestamp += 1;
            engine.write(&record(1, &[0; 4000], timestamp), 1).unwrap();
            settle(&engine).await;
        }
        engine.write(&record(2, &[0; 4000], timestamp), 2).unwrap();
        engine.set_schema(&schema(2..=2, |_| 10));
        while let Some(job) = engine.next_job_of(JobKind::Remove, 1) {
            engine.run(job, 1, yield_now).await.unwrap();
        }
        let mut done = Vec::new();
        for _ in 0..500 {
            engine.take_completed(&mut done);
            yield_now().await;
        }
        assert_eq!(engine.writes_deferred(), 0, "what waited was taken, or refused by name");
        assert!(done.contains(&(2, Ok(()))), "{done:?}");
        assert_eq!(engine.stats().flushes, 0, "and no other table was flushed for it");
    });
}

/// Before: the memory of many tables came on top of all that data may have.
#[test]
fn data_has_what_the_schema_leaves() {
    let tables = 4000;
    on_sim_with(schema(0..tables, |_| 10), (1 << 20, 1 << 30), async move |engine| {
        let most = 64 << 20;
        let filled = async |first: i64| {
            for n in first..first + 400 {
                engine.write(&record(n as u128, &vec![n as u8; 100_000], n), 1).unwrap();
                settle(&engine).await;
                if engine.writes_deferred() > 0 {
                    break;
                }
            }
            engine.stats().memtable_bytes
        };
        let schema_bytes = engine.stats().schema_bytes;
        assert!(schema_bytes > 4000 * 1000, "{schema_bytes}");
        let full = (most - schema_bytes) / 2;
        let filled_at_first = filled(1).await;
        assert!((full - 200_000..=full).contains(&filled_at_first), "{filled_at_first} of {full}");
        engine.set_schema(&schema(0..1000, |_| 10));
        assert!(engine.stats().schema_bytes < schema_bytes / 3);
        settle(&engine).await;
        assert!(filled(400).await > full + 2_000_000, "what it took is data's again");
    });
}

/// Before: each look went through all tables, and judged those with files again each minute.
#[test]
fn tables_in_which_nothing_happens_are_not_looked_at() {
    const TABLES: u128 = 500;
    on_sim(schema(0..TABLES, |_| 1_000_000), async |engine| {
        let mut now_s = 100;
        let mut looked_at = |seconds: u32, engine: &Engine| {
            let before = engine.stats().tables_looked_at;
            for _ in 0..seconds {
                now_s += 1;
                assert_eq!(engine.next_job_of(JobKind::Compact, now_s), None);
            }
            engine.stats().tables_looked_at - before
        };
        for table in 0..TABLES {
            engine.write(&record(table, b"v", 1), 1).unwrap();
        }
        settle(&engine).await;
        engine.flush_all(1, yield_now).await.unwrap();
        assert_eq!(looked_at(10, &engine), TABLES as u64, "each has a file now");
        assert_eq!(looked_at(1000, &engine), 0);
        engine.write(&record(7, b"w", 2), 1).unwrap();
        let mut out = Vec::new();
        let mut m = MutationBuilder::begin(&mut out, id(8), Token::of_key(&[1]), &[1]);
        m.delete_partition(Deletion { timestamp: 2, local_s: 100 });
        m.finish();
        engine.write(&out, 2).unwrap();
        settle(&engine).await;
        engine.flush_all(1, yield_now).await.unwrap();
        assert_eq!(looked_at(10, &engine), 2, "these have changed");
        assert_eq!(looked_at(600, &engine), 10, "a tombstone may go, each minute");
    });
}

/// Before: a look, which judges a bounded number of tables, always began with the same ones.
#[test]
fn tables_that_change_all_the_time_keep_no_other_from_being_judged() {
    const TABLES: u128 = 400;
    let is_quiet = |n: u128| n.is_multiple_of(20);
    let changed = move |round: u32| {
        let gc_grace_seconds = move |n: u128| if is_quiet(n) { 10 } else { round as i32 };
        schema(0..TABLES, gc_grace_seconds)
    };
    on_sim(changed(1), async move |engine| {
        for timestamp in 0..4 {
            for table in (0..TABLES).filter(|n| timestamp == 0 || is_quiet(*n)) {
                engine.write(&record(table, b"v", timestamp), 1).unwrap();
            }
            settle(&engine).await;
            engine.flush_all(1, yield_now).await.unwrap();
        }
        let mut merged = Vec::new();
        for round in 2..50 {
            engine.set_schema(&changed(round));
            if let Some(job @ Job::Compact(table)) = engine.next_job_of(JobKind::Compact, 1) {
                engine.run(job, 1, yield_now).await.unwrap();
                merged.push(table);
            }
        }
        merged.sort_unstable();
        let quiet: Vec<TableId> = (0..TABLES).filter(|n| is_quiet(*n)).map(id).collect();
        assert_eq!(merged, quiet, "each table with four files was served");
    });
}

/// A table with a comment of so many bytes, and so many columns.
fn commented(n: u128, comment_bytes: usize, columns: usize) -> Box<Table> {
    let options = TableOptions { comment: "c".repeat(comment_bytes), ..TableOptions::default() };
    let mut table = TableBuilder::new("ks", &format!("t{n}"), id(n))
        .options(options)
        .partition_key("k", CqlType::Blob)
        .unwrap();
    for column in 0..columns {
        table = table.regular(&format!("c{column}"), CqlType::Int).unwrap();
    }
    Box::new(table.build().unwrap())
}

/// A type of so many fields, each with a name of a kilobyte.
fn user_type(fields: usize) -> UserType {
    let field = |n: usize| (format!("{n}_{}", "f".repeat(1000)), CqlType::Int);
    UserType::new("ks", "address", (0..fields).map(field).collect())
}

/// A schema was taken whatever it had of the memory, and its tables came on top of all that data may have.
#[test]
fn a_change_of_the_schema_that_would_take_half_of_the_memory_is_refused() {
    on_sim(schema(0..0, |_| 10), async move |engine| {
        let keyspace =
            SchemaChange::CreateKeyspace { name: "ks".into(), options: KeyspaceOptions::default() };
        let mut made = vec![keyspace];
        let most = (64 << 20) / SCHEMA_MEMORY_DIVISOR as u64;
        let follow = |made: &[SchemaChange]| {
            let schema = Schema::of_changes(made.iter().cloned()).unwrap();
            engine.set_schema(&schema);
            assert!(engine.stats().schema_bytes <= most, "{} changes", made.len());
            schema
        };
        let mut now = follow(&made);
        let refused = |schema: &Schema, change: &SchemaChange| {
            let admitted = engine.admit_schema_change(schema, change);
            let says = |error: &Error| error.to_string().contains("33554432 are allowed");
            assert!(admitted.as_ref().is_err_and(says), "{admitted:?}");
        };
        loop {
            let next = SchemaChange::CreateTable(commented(made.len() as u128, 1 << 20, 1));
            if engine.admit_schema_change(&now, &next).is_err() {
                refused(&now, &next);
                break;
            }
            made.push(next);
            now = follow(&made);
        }
        assert!((25..=32).contains(&made.len()), "{} tables of 1 MiB", made.len());
        // What is left is less than that, and a type counts as a table does.
        let small = SchemaChange::CreateType(user_type(1));
        engine.admit_schema_change(&now, &small).unwrap();
        refused(&now, &SchemaChange::CreateType(user_type(2000)));
        made.push(small);
        now = follow(&made);
        let (definition, tables) = (user_type(2000), Vec::new());
        refused(&now, &SchemaChange::AlterType { definition, tables });
        refused(&now, &SchemaChange::AlterTable(commented(1, 1 << 20, 16_000)));
        for smaller in [
            SchemaChange::AlterTable(commented(1, 1000, 1)),
            SchemaChange::DropTable { keyspace: "ks".into(), name: "t1".into() },
        ] {
            engine.admit_schema_change(&now, &smaller).unwrap();
        }
        // It was made by a build that refused nothing, or with more memory: it is taken, and may become less.
        let large: Vec<_> =
            (0..20).map(|n| SchemaChange::CreateTable(commented(5000 + n, 1 << 20, 1))).collect();
        let over = Schema::of_changes(made.iter().cloned().chain(large)).unwrap();
        engine.set_schema(&over);
        assert!(engine.stats().schema_bytes > most);
        refused(&over, &SchemaChange::CreateTable(commented(9000, 0, 1)));
        engine
            .admit_schema_change(&over, &SchemaChange::AlterTable(commented(1, 1000, 1)))
            .unwrap();
        // A column that is dropped is remembered, in no more than it took. So is one that came back and goes again.
        let mut table = commented(1, 1 << 20, 1);
        for _ in 0..2 {
            table.drop_column("c0", 1).unwrap();
            engine.admit_schema_change(&over, &SchemaChange::AlterTable(table.clone())).unwrap();
            table.add_column("c0", CqlType::Int, ColumnKind::Regular).unwrap();
        }
    });
}
