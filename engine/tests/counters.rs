//! Changes of counters: what is added is written as the sum, in whatever the counter is: memory, files, deleted.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use engine::limits::COUNTER_CHANGES_MAX;
use engine::{Engine, Error};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::mutation::{CounterChange, MutationBuilder, RangeTombstone};
use model::read::{Flow, PartitionRef, RowSink};
use model::row::{RowBuilder, RowHead, RowRef};
use model::schema::TableBuilder;
use model::{ColumnId, CqlType, Deletion, Schema, Token};

use crate::shard::{TABLE, answers, config, flush, on_shard, schema_of, select_all, write};

const STATIC: ColumnId = ColumnId(2);
const A: ColumnId = ColumnId(3);
const B: ColumnId = ColumnId(4);

/// `CREATE TABLE t (k blob, c blob, s counter static, a counter, b counter, PRIMARY KEY (k, c))`
fn schema() -> Schema {
    let table = TableBuilder::new("ks", "t", TABLE)
        .partition_key("k", CqlType::Blob)
        .and_then(|t| t.clustering("c", CqlType::Blob, false))
        .and_then(|t| t.stat("s", CqlType::Counter))
        .and_then(|t| t.regular("a", CqlType::Counter))
        .and_then(|t| t.regular("b", CqlType::Counter))
        .and_then(TableBuilder::build)
        .unwrap();
    let id = |name| table.column(name).unwrap().id;
    assert_eq!((id("s"), id("a"), id("b")), (STATIC, A, B), "in the order in which they were made");
    schema_of([table])
}

/// One mutation of a partition.
fn mutation_of(key: &[u8], fill: impl FnOnce(&mut MutationBuilder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(key), key);
    fill(&mut m);
    m.finish();
    out
}

fn mutation(fill: impl FnOnce(&mut MutationBuilder<'_>)) -> Vec<u8> {
    mutation_of(b"k", fill)
}

fn add_to(m: &mut MutationBuilder<'_>, c: u8, column: ColumnId, by: i64, timestamp: i64) {
    let clustering = [c];
    let clustering = (column != STATIC).then_some(&clustering[..]);
    m.counter_change(&CounterChange { clustering, column, timestamp, now_s: 5, by });
}

/// Adds to counters of row `c`.
fn add(c: u8, timestamp: i64, changes: &[(ColumnId, i64)]) -> Vec<u8> {
    mutation(|m| changes.iter().for_each(|(column, by)| add_to(m, c, *column, *by, timestamp)))
}

/// The counters of the static row, and of each row, by the ids of their columns.
#[derive(Default)]
struct Seen(Vec<Vec<(u16, i64)>>);

impl RowSink for Seen {
    fn row(&mut self, p: &PartitionRef<'_>, _: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        let counters = |row: RowRef<'_>| {
            let cells = row.cells();
            cells
                .map(|cell| (cell.column.0, i64::from_be_bytes(cell.value.try_into().unwrap())))
                .collect()
        };
        if let (true, Some(row)) = (self.0.is_empty(), p.static_row) {
            self.0.push(counters(row));
        }
        self.0.extend(row.map(counters));
        Flow::More
    }
}

async fn read(engine: &Engine) -> Vec<Vec<(u16, i64)>> {
    let mut seen = Seen::default();
    let command = model::ReadCommand { static_alone: true, ..select_all(6) };
    engine.read(&command, &mut seen, yield_now).await.unwrap();
    seen.0
}

#[test]
fn counters_add_up_in_memory_and_in_files_of_rows_and_of_the_static_row() {
    on_shard(config(1), schema(), async |engine, _, _| {
        write(&engine, &add(1, 10, &[(A, 5)])).await.unwrap();
        flush(&engine).await;
        write(&engine, &add(1, 11, &[(A, -7), (B, 1), (STATIC, 3)])).await.unwrap();
        write(&engine, &add(2, 12, &[(A, 9), (STATIC, 4)])).await.unwrap();
        assert_eq!(read(&engine).await, [vec![(2, 7)], vec![(3, -2), (4, 1)], vec![(3, 9)]]);
        flush(&engine).await;
        write(&engine, &add(1, 13, &[(A, 0), (A, 1), (A, 1)])).await.unwrap();
        assert_eq!(read(&engine).await, [vec![(2, 7)], vec![(3, 0), (4, 1)], vec![(3, 9)]]);
    });
}

#[test]
fn what_mutations_of_one_record_add_to_a_counter_is_all_there() {
    on_shard(config(2), schema(), async |engine, _, _| {
        let record =
            [add(1, 10, &[(A, 1)]), add(1, 10, &[(A, 10), (A, 100)]), add(2, 10, &[(B, 1)])];
        write(&engine, &record.concat()).await.unwrap();
        assert_eq!(read(&engine).await, [vec![(3, 111)], vec![(4, 1)]]);
    });
}

#[test]
fn sums_wrap() {
    on_shard(config(3), schema(), async |engine, _, _| {
        write(&engine, &add(1, 10, &[(A, i64::MAX), (B, i64::MIN)])).await.unwrap();
        write(&engine, &add(1, 11, &[(A, 2), (B, -1)])).await.unwrap();
        assert_eq!(read(&engine).await, [vec![(3, i64::MIN + 1), (4, i64::MAX)]]);
    });
}

#[test]
fn an_addition_is_seen_whatever_time_the_counter_was_written_or_deleted_at() {
    on_shard(config(4), schema(), async |engine, _, _| {
        write(&engine, &add(1, 1000, &[(A, 1)])).await.unwrap();
        write(&engine, &add(1, 10, &[(A, 1)])).await.unwrap();
        assert_eq!(read(&engine).await, [vec![(3, 2)]], "of a clock that is late");
        let deletion = Deletion { timestamp: 5000, local_s: 5 };
        let deletes = [
            mutation(|m| m.delete_partition(deletion)),
            mutation(|m| m.delete_range(&RangeTombstone { start: b"", end: b"\x09", deletion })),
            mutation(|m| {
                let head = RowHead { deletion, ..RowHead::bare(0) };
                m.row(&[1], |out| {
                    RowBuilder::begin(out, &head);
                });
            }),
        ];
        for delete in deletes {
            write(&engine, &delete).await.unwrap();
            write(&engine, &add(1, 20, &[(A, 4)])).await.unwrap();
            assert_eq!(read(&engine).await, [vec![(3, 4)]], "from 0 after a deletion");
            flush(&engine).await;
            engine.truncate(TABLE).await.unwrap();
        }
        let last = Deletion { timestamp: i64::MAX, local_s: 5 };
        write(&engine, &mutation(|m| m.delete_partition(last))).await.unwrap();
        let refused = write(&engine, &add(1, 20, &[(A, 4)])).await;
        let Err(Error::Invalid(text)) = refused else { panic!("not invalid: {refused:?}") };
        assert!(
            text.starts_with("A row was written or deleted with the largest timestamp"),
            "{text}"
        );
    });
}

#[test]
fn a_deletion_of_the_same_record_wins() {
    on_shard(config(5), schema(), async |engine, _, _| {
        for timestamp in [1000, 10] {
            write(&engine, &add(1, timestamp, &[(A, 1), (STATIC, 1)])).await.unwrap();
            let record = mutation(|m| {
                let start = &[][..];
                let deletion = Deletion { timestamp: 20, local_s: 5 };
                m.delete_range(&RangeTombstone { start, end: b"\x09", deletion });
                add_to(m, 1, A, 4, 20);
                add_to(m, 1, STATIC, 4, 20);
            });
            write(&engine, &record).await.unwrap();
            assert_eq!(read(&engine).await.len(), 1, "the static row alone");
        }
        assert_eq!(read(&engine).await, [vec![(2, 10)]]);
    });
}

#[test]
fn additions_that_are_sent_at_once_are_all_counted() {
    on_shard(config(6), schema(), async |engine, _, _| {
        for ticket in 0..100 {
            engine.write(&add(1, 10, &[(A, 1)]), ticket).unwrap();
        }
        let done = answers(&engine, 100).await;
        assert!(done.iter().all(|(_, result)| result.is_ok()), "{done:?}");
        assert_eq!(read(&engine).await, [vec![(3, 100)]]);
    });
}

#[test]
fn what_one_record_may_change_is_bounded() {
    on_shard(config(8), schema(), async |engine, _, _| {
        let many = vec![(A, 1); COUNTER_CHANGES_MAX];
        write(&engine, &add(1, 10, &many)).await.unwrap();
        assert_eq!(read(&engine).await, [vec![(3, COUNTER_CHANGES_MAX as i64)]]);
        let refused = write(&engine, &[add(1, 11, &many), add(2, 11, &[(B, 1)])].concat()).await;
        let Err(Error::Invalid(text)) = refused else { panic!("not invalid: {refused:?}") };
        assert!(text.contains("more than 65536 times"), "{text}");
        assert_eq!(read(&engine).await, [vec![(3, COUNTER_CHANGES_MAX as i64)]]);
    });
}
