//! Conditional writes: what is judged, what is answered, and that what is applied can be read.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use engine::io::{Disk, Faults};
use engine::limits::{
    CONDITION_CELLS_MAX, CONDITION_ROWS_BYTES_MAX, CONDITION_TOMBSTONES_MAX, SUMS_OF_A_VALUE_MAX,
};
use engine::{Config, Engine, Error};
use futures_lite::future::{poll_once, yield_now, zip};
use messina_engine as engine;
use model::condition::{Comparison, ConditionsBuilder, Part, Wanted};
use model::limits::CONDITIONS_MAX;
use model::mutation::{ListChange, ListOp, MutationBuilder, RangeTombstone};
use model::read::{Flow, Operator, PartitionRef, RowSink};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::schema::TableBuilder;
use model::{ColumnId, CqlType, Deletion, MutationRef, Schema, Token};

use crate::shard::{
    self, TABLE, config, flush, make, on_shard, on_sim, schema_of, select_all, write,
};

const S: ColumnId = ColumnId(2);
const V: ColumnId = ColumnId(3);
const W: ColumnId = ColumnId(4);
const L: ColumnId = ColumnId(5);

/// `CREATE TABLE t (k blob, c blob, s blob static, v blob, w blob, l list<blob>, PRIMARY KEY (k, c))`
fn schema() -> Schema {
    let table = TableBuilder::new("ks", "t", TABLE)
        .partition_key("k", CqlType::Blob)
        .and_then(|t| t.clustering("c", CqlType::Blob, false))
        .and_then(|t| t.stat("s", CqlType::Blob))
        .and_then(|t| t.regular("v", CqlType::Blob))
        .and_then(|t| t.regular("w", CqlType::Blob))
        .and_then(|t| {
            t.regular("l", CqlType::List { element: CqlType::Blob.into(), frozen: false })
        })
        .and_then(TableBuilder::build)
        .unwrap();
    let ids = ["s", "v", "w", "l"].map(|name| table.column(name).unwrap().id);
    assert_eq!(ids, [S, V, W, L], "in the order in which they were made");
    schema_of([table])
}

fn begin(out: &mut Vec<u8>) -> MutationBuilder<'_> {
    MutationBuilder::begin(out, TABLE, Token::of_key(b"k"), b"k")
}

fn put(out: &mut Vec<u8>, at: i64, cells: &[(ColumnId, &[u8])]) {
    let mut row = RowBuilder::begin(out, &RowHead::bare(at));
    cells.iter().for_each(|(column, value)| row.cell(&Cell::live(*column, at, value)));
}

/// One mutation of the partition, without conditions.
fn plain(fill: impl FnOnce(&mut MutationBuilder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = begin(&mut out);
    fill(&mut m);
    m.finish();
    out
}

const ALL: Wanted = Wanted { statics: true, regulars: true };

/// The conditions of a write at time 10, and what it writes.
fn conditional(wanted: Wanted, conditions: &ConditionsBuilder, writes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    begin(&mut out).finish_with_conditions(conditions, wanted, (10, 5));
    out.extend_from_slice(writes);
    out
}

fn exists(rows: &[(Option<&[u8]>, bool)]) -> ConditionsBuilder {
    let mut conditions = ConditionsBuilder::default();
    rows.iter().for_each(|(row, is_there)| conditions.existence(*row, *is_there));
    conditions
}

fn equal(conditions: &mut ConditionsBuilder, row: Option<&[u8]>, column: ColumnId, value: &[u8]) {
    let test = (column, Part::Whole, Comparison::Is(Operator::Equal));
    conditions.column(row, test, [Some(value)].into_iter());
}

/// `c: column=value …` of each row, the static row before them as `-`.
#[derive(Default)]
struct Rows(Vec<String>);

fn text(row: RowRef<'_>) -> String {
    let value = |cell: Cell<'_>| format!(" {}", String::from_utf8_lossy(cell.value));
    row.cells().map(value).collect()
}

impl RowSink for Rows {
    fn row(&mut self, p: &PartitionRef<'_>, c: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        if let (true, Some(row)) = (self.0.is_empty(), p.static_row) {
            self.0.push(format!("-{}", text(row)));
        }
        if let (Some(c), Some(row)) = (c, row) {
            self.0.push(String::from_utf8_lossy(c).into_owned() + &text(row));
        }
        Flow::More
    }
}

async fn read(engine: &Engine) -> Vec<String> {
    let mut rows = Rows::default();
    let command = model::ReadCommand { static_alone: true, ..select_all(6) };
    engine.read(&command, &mut rows, yield_now).await.unwrap();
    rows.0
}

/// The rows of a write that was not applied.
async fn found(engine: &Engine, record: &[u8]) -> Vec<String> {
    let Err(Error::NotApplied { found }) = write(engine, record).await else {
        panic!("a condition does not hold");
    };
    let found = MutationRef::of_record(&found).next().unwrap().unwrap();
    let statics = found.static_row.map(|row| format!("-{}", text(row)));
    let rows = found.rows().map(|(c, row)| String::from_utf8_lossy(c).into_owned() + &text(row));
    statics.into_iter().chain(rows).collect()
}

/// Writes of a row while its table is emptied: none of it is there afterwards, as the write was done before the
/// truncation, or not at all.
fn emptied_meanwhile(empty: impl AsyncFn(&Engine, &Disk) + Copy + 'static) {
    for seed in 0..64 {
        on_sim(seed, async move |sim, disk, exec| {
            make(&disk, &config(seed)).await;
            let engine = shard::open(&disk, &exec, config(seed), &schema()).await;
            let row = plain(|m| m.row(b"1", |out| put(out, 1, &[(V, b"a")])));
            write(&engine, &row).await.unwrap();
            if seed % 2 == 0 {
                flush(&engine).await;
            }
            sim.set_faults(Faults { suspensions_max: 40, ..Faults::default() });
            let mut same = ConditionsBuilder::default();
            equal(&mut same, Some(b"1"), V, b"a");
            let update = plain(|m| m.row(b"1", |out| put(out, 10, &[(V, b"b")])));
            let record = conditional(Wanted::TESTED, &same, &update);
            let meanwhile = async {
                for _ in 0..seed {
                    yield_now().await;
                }
                let _ = write(&engine, &record).await;
            };
            zip(empty(&engine, &disk), meanwhile).await;
            assert_eq!(read(&engine).await, [""; 0], "seed {seed}");
        });
    }
}

/// Before: a condition was judged on rows that were about to go, and what it wrote stayed.
#[test]
fn a_condition_is_not_judged_on_rows_that_a_truncation_takes() {
    emptied_meanwhile(async |engine, _| engine.truncate(TABLE).await.unwrap());
}

#[test]
fn a_condition_is_not_judged_on_rows_that_a_snapshot_has_and_a_truncation_takes() {
    emptied_meanwhile(async |engine, disk| {
        let dir = engine::io::RelPath::root().join("snapshot");
        disk.mkdir(&dir).await.unwrap();
        engine.announce_truncation(TABLE).await.unwrap();
        flush(engine).await;
        engine.link_and_cut(TABLE, &dir).await.unwrap();
        engine.truncate_to_cut(TABLE).await.unwrap();
    });
}

#[test]
fn a_truncation_that_does_not_come_lets_conditions_be_judged() {
    on_shard(config(3), schema(), async |engine, _, exec| {
        let row = plain(|m| m.row(b"1", |out| put(out, 1, &[(V, b"a")])));
        write(&engine, &row).await.unwrap();
        engine.announce_truncation(TABLE).await.unwrap();
        let there = conditional(Wanted::TESTED, &exists(&[(Some(b"1"), true)]), &[]);
        let waits = engine.clone();
        exec.spawn(async move { waits.write(&there, 2).unwrap() });
        for _ in 0..100 {
            yield_now().await;
        }
        assert!(engine.writes_in_flight() > 0, "it waits");
        engine.end_cut(TABLE);
        assert_eq!(shard::answers(&engine, 1).await, [(2, Ok(()))]);
    });
}

/// Before: a write read what a truncation may have taken whose commit had failed, and was written behind it.
#[test]
fn a_truncation_that_may_have_been_done_lets_nothing_be_read() {
    on_shard(config(5), schema(), async |engine, disk, _| {
        let row = plain(|m| m.row(b"1", |out| put(out, 1, &[(V, b"a")])));
        write(&engine, &row).await.unwrap();
        flush(&engine).await;
        let Disk::Sim(sim) = &disk else { panic!("a simulated disk") };
        sim.set_faults(Faults { write_error_one_in: 1, ..Faults::default() });
        engine.truncate(TABLE).await.unwrap_err();
        sim.set_faults(Faults::default());
        assert!(engine.is_being_truncated(TABLE), "only the next start knows");
        let there = conditional(Wanted::TESTED, &exists(&[(Some(b"1"), true)]), &[]);
        engine.write(&there, 2).unwrap();
        for _ in 0..100 {
            yield_now().await;
        }
        let mut done = Vec::new();
        engine.take_completed(&mut done);
        assert!(done.is_empty(), "{done:?}");
    });
}

#[test]
fn values_grow_by_each_change_of_a_statement_and_only_where_there_are_any() {
    on_shard(config(6), schema(), async |engine, _, _| {
        let row = |out: &mut Vec<u8>| put(out, 20, &[(V, b"a")]);
        write(&engine, &plain(|m| m.row(b"1", row))).await.unwrap();
        let grow = |m: &mut MutationBuilder<'_>, column, value: &[u8]| {
            let op = ListOp::Grow { value, expiry: None };
            let clustering = Some(&b"1"[..]);
            m.list_change(&ListChange { clustering, column, timestamp: 10, now_s: 5, op });
        };
        let changes = plain(|m| {
            grow(m, V, b"b");
            grow(m, W, b"x");
            grow(m, V, b"c");
        });
        let there = conditional(Wanted::TESTED, &exists(&[(Some(b"1"), true)]), &changes);
        let error = write(&engine, &there).await.unwrap_err();
        assert_eq!(error, Error::invalid("Nothing adds up values here"));
        engine.set_sum(|_, a, b| Ok(Some([a, b].concat())));
        write(&engine, &there).await.unwrap();
        assert_eq!(read(&engine).await, ["1 abc"], "w was null, and what is read is older");
        let twice = [plain(|m| grow(m, V, b"d")), plain(|m| grow(m, V, b"e"))].concat();
        let there = conditional(Wanted::TESTED, &exists(&[(Some(b"1"), true)]), &twice);
        write(&engine, &there).await.unwrap();
        assert_eq!(read(&engine).await, ["1 abce"], "both statements have read abc");
        let often = plain(|m| (0..=SUMS_OF_A_VALUE_MAX).for_each(|_| grow(m, V, b"f")));
        let there = conditional(Wanted::TESTED, &exists(&[(Some(b"1"), true)]), &often);
        let error = write(&engine, &there).await.unwrap_err();
        assert!(error.to_string().contains("more than 64 times to one value"), "{error}");
        assert_eq!(read(&engine).await, ["1 abce"]);
    });
}

/// Before: a record that waited for space went in behind the truncation that made it, with what was read before.
#[test]
fn a_judged_write_that_waits_for_space_is_not_written_behind_a_truncation() {
    on_shard(config(4), schema(), async |engine, _, _| {
        let row = plain(|m| m.row(b"1", |out| put(out, 1, &[(V, b"a")])));
        write(&engine, &row).await.unwrap();
        let update = plain(|m| m.row(b"1", |out| put(out, 10, &[(V, b"b")])));
        let there = conditional(Wanted::TESTED, &exists(&[(Some(b"1"), true)]), &update);
        engine.write(&there, 2).unwrap();
        let turn = poll_once(engine.next_turn()).await.expect("nothing is before it");
        let mut count = 0_u32;
        let mut flood = async || {
            while engine.writes_deferred() == 0 {
                count += 1;
                let (mut other, key) = (Vec::new(), count.to_be_bytes());
                let mut m = MutationBuilder::begin(&mut other, TABLE, Token::of_key(&key), &key);
                m.row(b"1", |out| put(out, 1, &[(V, &[b'x'; 24 << 10])]));
                m.finish();
                engine.write(&other, 3).unwrap();
                for _ in 0..100 {
                    yield_now().await;
                }
            }
        };
        let is_flooded = std::cell::Cell::new(false);
        let flooding = async {
            flood().await;
            is_flooded.set(true);
        };
        let pause = async || {
            while !is_flooded.get() {
                yield_now().await;
            }
        };
        zip(engine.run_turn(turn, pause), flooding).await;
        assert!(engine.writes_deferred() > 1, "it waits behind the others");
        engine.truncate(TABLE).await.unwrap();
        while engine.writes_in_flight() > 0 {
            yield_now().await;
        }
        let mut done = Vec::new();
        engine.take_completed(&mut done);
        let refused =
            Error::Overloaded("the table was truncated, or got other views, while a write waited");
        assert!(done.contains(&(2, Err(refused))));
        assert!(!read(&engine).await.contains(&"1 b".to_owned()));
    });
}

#[test]
fn all_is_written_where_all_conditions_hold_and_nothing_where_one_does_not() {
    on_shard(config(1), schema(), async |engine, _, _| {
        let rows = plain(|m| {
            m.static_row(|out| put(out, 1, &[(S, b"s")]));
            m.row(b"1", |out| put(out, 1, &[(V, b"a"), (W, b"x")]));
            m.row(b"2", |out| put(out, 1, &[(V, b"b"), (W, b"y")]));
        });
        write(&engine, &rows).await.unwrap();
        flush(&engine).await;
        let writes = |at| {
            plain(move |m| {
                m.row(b"1", |out| put(out, at, &[(V, b"A")]));
                m.row(b"3", |out| put(out, at, &[(V, b"C")]));
            })
        };
        let mut conditions = ConditionsBuilder::default();
        equal(&mut conditions, Some(b"1"), V, b"a");
        equal(&mut conditions, Some(b"2"), V, b"nothing");
        let record = conditional(Wanted::TESTED, &conditions, &writes(10));
        assert_eq!(found(&engine, &record).await, ["1 a", "2 b"], "what was compared, and no more");
        let mut conditions = exists(&[(Some(b"1"), true), (Some(b"3"), false)]);
        equal(&mut conditions, None, S, b"t");
        let record = conditional(ALL, &conditions, &writes(10));
        assert_eq!(found(&engine, &record).await, ["- s", "1 a x"]);
        assert_eq!(read(&engine).await, ["- s", "1 a x", "2 b y"]);
        let mut conditions = exists(&[(Some(b"1"), true), (Some(b"3"), false)]);
        equal(&mut conditions, None, S, b"s");
        write(&engine, &conditional(ALL, &conditions, &writes(10))).await.unwrap();
        assert_eq!(read(&engine).await, ["- s", "1 A x", "2 b y", "3 C"]);
        let empty = conditional(ALL, &exists(&[(Some(b"9"), false)]), &[]);
        write(&engine, &empty).await.unwrap();
        let static_alone = conditional(ALL, &exists(&[(None, false)]), &[]);
        assert_eq!(found(&engine, &static_alone).await, ["- s", "1 A x"], "and the first row");
    });
}

#[test]
fn lists_are_changed_where_conditions_hold_and_not_looked_at_where_they_do_not() {
    on_shard(config(2), schema(), async |engine, _, _| {
        let elements = |out: &mut Vec<u8>| {
            let mut row = RowBuilder::begin(out, &RowHead::bare(1));
            row.cell(&Cell { path: Some(b"1"), ..Cell::live(L, 1, b"a") });
        };
        write(&engine, &plain(|m| m.row(b"1", elements))).await.unwrap();
        let set = |index| {
            let op = ListOp::Set { index, value: Some(b"b"), expiry: None };
            let (clustering, timestamp, now_s) = (Some(&b"1"[..]), 10, 5);
            plain(|m| m.list_change(&ListChange { clustering, column: L, timestamp, now_s, op }))
        };
        let no = exists(&[(Some(b"1"), false)]);
        assert_eq!(found(&engine, &conditional(ALL, &no, &set(7))).await, ["1 a"]);
        let yes = exists(&[(Some(b"1"), true)]);
        let refused = write(&engine, &conditional(ALL, &yes, &set(7))).await;
        assert!(matches!(refused, Err(Error::Invalid(text)) if text.contains("out of bound")));
        write(&engine, &conditional(ALL, &yes, &set(0))).await.unwrap();
        assert_eq!(read(&engine).await, ["1 b"]);
    });
}

#[test]
fn what_is_applied_is_newer_than_cells_and_tombstones_of_any_extent() {
    let deletion = Deletion { timestamp: 1_000, local_s: u32::MAX / 2 };
    type Fill = fn(&mut MutationBuilder<'_>, Deletion);
    let tombstones: [Fill; 4] = [
        |m, deletion| m.delete_partition(deletion),
        |m, deletion| m.delete_range(&RangeTombstone { start: b"0", end: b"2", deletion }),
        |m, deletion| {
            let head = RowHead { deletion, ..RowHead::bare(1) };
            m.row(b"1", |out| {
                RowBuilder::begin(out, &head);
            });
        },
        |m, deletion| {
            m.row(b"1", |out| {
                let mut row = RowBuilder::begin(out, &RowHead::bare(1));
                row.cell(&Cell::dead(V, deletion.timestamp, deletion.local_s));
            });
        },
    ];
    for (number, fill) in tombstones.into_iter().enumerate() {
        for flushed in [false, true] {
            on_shard(config(3), schema(), async move |engine, _, _| {
                write(&engine, &plain(|m| fill(m, deletion))).await.unwrap();
                if flushed {
                    flush(&engine).await;
                }
                let writes = plain(|m| m.row(b"1", |out| put(out, 10, &[(V, b"new")])));
                let new = exists(&[(Some(b"1"), false)]);
                write(&engine, &conditional(ALL, &new, &writes)).await.unwrap();
                assert_eq!(read(&engine).await, ["1 new"], "{number} {flushed}");
                // Of a batch also what is deleted and what is static.
                let mut old = ConditionsBuilder::default();
                equal(&mut old, Some(b"1"), V, b"new");
                let gone = Deletion { timestamp: 10, local_s: 5 };
                let writes = plain(|m| {
                    m.static_row(|out| put(out, 10, &[(S, b"s")]));
                    m.delete_range(&RangeTombstone { start: b"1", end: b"2", deletion: gone });
                });
                write(&engine, &conditional(Wanted::TESTED, &old, &writes)).await.unwrap();
                assert_eq!(read(&engine).await, ["- s"], "{number} {flushed}");
            });
        }
    }
}

fn invalid(result: Result<(), Error>, words: &str) {
    match result {
        Err(Error::Invalid(text)) if text.contains(words) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_newer_than_the_largest_timestamp() {
    on_shard(config(4), schema(), async |engine, _, _| {
        let last = plain(|m| m.row(b"1", |out| put(out, i64::MAX, &[(V, b"a")])));
        write(&engine, &last).await.unwrap();
        let writes = plain(|m| m.row(b"1", |out| put(out, 10, &[(V, b"b")])));
        let record = conditional(ALL, &exists(&[(Some(b"1"), true)]), &writes);
        invalid(write(&engine, &record).await, "nothing that reads it first can be newer");
        assert_eq!(read(&engine).await, ["1 a"]);
    });
}

#[test]
fn what_conditions_may_ask_and_read_is_bounded() {
    let log = engine::commitlog::Config::new(91);
    let large = Config { log, memory_bytes: 1 << 30, ..config(91) };
    on_shard(large, schema(), async |engine, _, _| {
        let many = |count| exists(&vec![(Some(&b"1"[..]), false); count]);
        write(&engine, &conditional(ALL, &many(CONDITIONS_MAX), &[])).await.unwrap();
        let refused = write(&engine, &conditional(ALL, &many(CONDITIONS_MAX + 1), &[])).await;
        invalid(refused, "more than 1024 conditions");
        let long = vec![b'x'; CONDITION_ROWS_BYTES_MAX];
        let row = plain(|m| m.row(b"1", |out| put(out, 1, &[(V, b"a"), (W, &long)])));
        write(&engine, &row).await.unwrap();
        let new = exists(&[(Some(b"1"), false)]);
        invalid(write(&engine, &conditional(ALL, &new, &[])).await, "1048576 bytes");
        let mut other = ConditionsBuilder::default();
        equal(&mut other, Some(b"1"), V, b"b");
        let record = conditional(Wanted::TESTED, &other, &[]);
        assert_eq!(found(&engine, &record).await, ["1 a"], "the long value is not asked for");
        let list = plain(|m| {
            m.row(b"2", |out| {
                let mut row = RowBuilder::begin(out, &RowHead::bare(1));
                for path in 0..=CONDITION_CELLS_MAX as u32 {
                    row.cell(&Cell { path: Some(&path.to_be_bytes()), ..Cell::live(L, 1, b"") });
                }
            });
        });
        write(&engine, &list).await.unwrap();
        let new = exists(&[(Some(b"2"), false)]);
        invalid(write(&engine, &conditional(ALL, &new, &[])).await, "65536 cells");
        write(&engine, &conditional(Wanted::TESTED, &exists(&[(Some(b"2"), true)]), &[]))
            .await
            .unwrap();
    });
}

#[test]
fn conditions_of_a_second_mutation_are_refused_and_not_dropped() {
    on_shard(config(92), schema(), async |engine, _, _| {
        let asks = conditional(ALL, &exists(&[(Some(b"1"), true)]), &[]);
        let mut record = plain(|m| m.row(b"1", |out| put(out, 10, &[(V, b"a")])));
        record.extend_from_slice(&asks);
        invalid(write(&engine, &record).await, "conditions stand in the first mutation");
        assert!(read(&engine).await.is_empty());
    });
}

/// Before: a condition on static columns alone passed any number of tombstones in search of a row.
#[test]
fn conditions_on_static_columns_alone_pass_so_many_tombstones_and_no_more() {
    let log = engine::commitlog::Config::new(93);
    let large = Config { log, memory_bytes: 1 << 30, ..config(93) };
    on_shard(large, schema(), async |engine, _, _| {
        let gone = |from: u32, to: u32| {
            plain(|m| {
                for row in from..to {
                    m.row(&row.to_be_bytes(), |out| {
                        let mut row = RowBuilder::begin(out, &RowHead::bare(1));
                        row.cell(&Cell::dead(V, 1, u32::MAX / 2));
                    });
                }
            })
        };
        let most = CONDITION_TOMBSTONES_MAX as u32;
        write(&engine, &gone(0, most)).await.unwrap();
        let mut conditions = ConditionsBuilder::default();
        equal(&mut conditions, None, S, b"s");
        let record = conditional(Wanted::TESTED, &conditions, &[]);
        assert_eq!(found(&engine, &record).await, [""; 0]);
        write(&engine, &gone(most, most + 2)).await.unwrap();
        invalid(write(&engine, &record).await, "more than 100000 tombstones");
    });
}
