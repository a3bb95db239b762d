//! Many writes of one partition that read first, all under way at once: they share log writes, see each other, and are
//! answered when what they have read is durable.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::BTreeMap;
use std::rc::Rc;

use engine::io::{Disk, Faults, SimDisk, SimExec};
use engine::limits::{
    OVERLAY_BYTES_MAX, OVERLAY_MEMTABLE_BYTES, QUEUED_MEMORY_DIVISOR, READING_WRITES_MAX,
};
use engine::{Engine, Error, Result};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::condition::{Comparison, ConditionsBuilder, Part, Wanted};
use model::mutation::{CounterChange, MutationBuilder};
use model::read::{Flow, Operator, PartitionRef, RowSink};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::schema::TableBuilder;
use model::{ColumnId, CqlType, MutationRef, Schema, TableId, Token};
use uuid::Uuid;

use crate::shard::{self, TABLE, answers, config, make, on_sim, schema_of, select_all, write};

const V: ColumnId = ColumnId(1);
const N: ColumnId = ColumnId(2);

/// How many writes are under way at once.
const AT_ONCE: u64 = 64;

const OTHER: TableId = TableId(Uuid::from_u128(8));

/// Two tables `(k blob PRIMARY KEY, v blob, n counter)`, as far as the engine knows.
fn schema() -> Schema {
    let table = |name, id| {
        let table = TableBuilder::new("ks", name, id)
            .partition_key("k", CqlType::Blob)
            .and_then(|t| t.regular("v", CqlType::Blob))
            .and_then(|t| t.regular("n", CqlType::Counter))
            .and_then(TableBuilder::build)
            .unwrap();
        assert_eq!(["v", "n"].map(|name| table.column(name).unwrap().id), [V, N]);
        table
    };
    schema_of([table("t", TABLE), table("other", OTHER)])
}

/// A test on an open shard.
fn on_shard(seed: u64, main: impl AsyncFnOnce(Rc<Engine>, SimDisk) + 'static) {
    on_sim(seed, async move |sim, disk: Disk, exec: SimExec| {
        make(&disk, &config(seed)).await;
        main(shard::open(&disk, &exec, config(seed), &schema()).await, sim).await;
    });
}

fn cell(key: &[u8], at: i64, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(key), key);
    m.row(&[], |out| RowBuilder::begin(out, &RowHead::bare(at)).cell(&Cell::live(V, at, value)));
    m.finish();
    out
}

/// `UPDATE t SET v = to WHERE k = key IF v = from`, and what comes behind it in a batch.
fn swap(key: &[u8], from: Option<&[u8]>, to: &[u8], behind: &[u8]) -> Vec<u8> {
    let mut conditions = ConditionsBuilder::default();
    let test = (V, Part::Whole, Comparison::Is(Operator::Equal));
    conditions.column(Some(&[]), test, [from].into_iter());
    let mut out = Vec::new();
    MutationBuilder::begin(&mut out, TABLE, Token::of_key(key), key).finish_with_conditions(
        &conditions,
        Wanted::TESTED,
        (10, 5),
    );
    out.extend_from_slice(&cell(key, 10, to));
    out.extend_from_slice(behind);
    out
}

/// `UPDATE t SET n = n + 1 WHERE k = key`
fn add(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(key), key);
    let change = CounterChange { clustering: Some(&[]), column: N, by: 1, timestamp: 10, now_s: 5 };
    m.counter_change(&change);
    m.finish();
    out
}

/// The cells of each partition.
#[derive(Default)]
struct Rows(BTreeMap<Vec<u8>, Vec<Vec<u8>>>);

impl RowSink for Rows {
    fn row(&mut self, p: &PartitionRef<'_>, _: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        let cells = row.into_iter().flat_map(|row| row.cells().map(|cell| cell.value.to_vec()));
        self.0.insert(p.key.to_vec(), cells.collect());
        Flow::More
    }
}

async fn read(engine: &Engine) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
    let mut rows = Rows::default();
    engine.read(&select_all(6), &mut rows, yield_now).await.unwrap();
    rows.0
}

fn number(value: u64) -> [u8; 8] {
    value.to_be_bytes()
}

/// The value that a write was told which was not applied.
fn told(answer: &Result<()>) -> Vec<u8> {
    let Err(Error::NotApplied { found }) = answer else { panic!("{answer:?}") };
    let found = MutationRef::of_record(found).next().unwrap().unwrap();
    let (_, row) = found.rows().next().unwrap();
    row.cells().next().unwrap().value.to_vec()
}

/// A device that is slower than turns are: a log write takes as long as many of them.
fn slow(sim: &SimDisk) {
    sim.set_faults(Faults { suspensions_max: 400, ..Faults::default() });
}

/// Before: each waited for the log write of the one before it, 64 for 64.
#[test]
fn conditional_writes_of_one_partition_share_log_writes() {
    on_shard(1, async |engine, sim| {
        write(&engine, &cell(b"k", 1, &number(0))).await.unwrap();
        slow(&sim);
        let before = sim.ops();
        for at in 0..AT_ONCE {
            let (from, to) = (number(at), number(at + 1));
            engine.write(&swap(b"k", Some(&from), &to, &[]), at).unwrap();
        }
        let done = answers(&engine, AT_ONCE as usize).await;
        let in_order: Vec<_> = (0..AT_ONCE).map(|ticket| (ticket, Ok(()))).collect();
        assert_eq!(done, in_order);
        let operations = sim.ops() - before;
        println!("{operations} operations of the disk for {AT_ONCE} conditional writes");
        assert!(operations <= 6, "{operations}");
        assert_eq!(read(&engine).await[&b"k"[..]], [number(AT_ONCE)]);
    });
}

#[test]
fn additions_to_one_counter_share_log_writes_and_each_is_counted() {
    on_shard(2, async |engine, sim| {
        write(&engine, &add(b"k")).await.unwrap();
        slow(&sim);
        let before = sim.ops();
        (0..AT_ONCE).for_each(|ticket| engine.write(&add(b"k"), ticket).unwrap());
        let done = answers(&engine, AT_ONCE as usize).await;
        assert!(done.iter().all(|(_, answer)| answer.is_ok()), "{done:?}");
        let operations = sim.ops() - before;
        assert!(operations <= 6, "{operations}");
        assert_eq!(read(&engine).await[&b"k"[..]], [number(1 + AT_ONCE)]);
    });
}

/// Before: it waited until all that the shard had under way was readable, one log write more.
#[test]
fn a_write_that_reads_first_waits_for_its_own_partition_and_no_other() {
    on_shard(4, async |engine, sim| {
        write(&engine, &cell(b"k", 1, b"a")).await.unwrap();
        slow(&sim);
        engine.write(&cell(b"k", 2, b"b"), 0).unwrap();
        let before = engine.stats().writes;
        engine.write(&add(b"n"), 1).unwrap();
        engine.write(&swap(b"k", Some(b"b"), b"c", &[]), 2).unwrap();
        for _ in 0..20 {
            yield_now().await;
        }
        assert!(!engine.has_completed(), "the log write takes longer");
        assert_eq!(
            engine.stats().writes - before,
            1,
            "the addition is in the log, the other waits"
        );
        let done = answers(&engine, 3).await;
        assert!(done.iter().all(|(_, answer)| answer.is_ok()), "{done:?}");
        let rows = read(&engine).await;
        assert_eq!(
            (&rows[&b"k"[..]], &rows[&b"n"[..]]),
            (&vec![b"c".to_vec()], &vec![number(1).to_vec()])
        );
    });
}

/// What was not applied has read the write before it: when the log has that, and not before, it is answered.
#[test]
fn a_write_that_is_not_applied_is_answered_behind_what_it_has_read() {
    for seed in 0..20 {
        on_shard(seed, async move |engine, sim| {
            sim.set_faults(Faults { suspensions_max: 50, ..Faults::default() });
            engine.write(&cell(b"k", 1, b"a"), 0).unwrap();
            engine.write(&swap(b"k", Some(b"a"), b"b", &[]), 1).unwrap();
            engine.write(&swap(b"k", Some(b"a"), b"c", &[]), 2).unwrap();
            engine.write(&swap(b"k", Some(b"b"), b"d", &[]), 3).unwrap();
            engine.write(&swap(b"other", Some(b"x"), b"y", &[]), 4).unwrap();
            let done = answers(&engine, 5).await;
            let order: Vec<u64> = done.iter().map(|(ticket, _)| *ticket).collect();
            let of_partition: Vec<u64> = order.iter().copied().filter(|one| *one < 4).collect();
            assert_eq!(of_partition, [0, 1, 2, 3], "seed {seed}");
            let second = done.iter().find(|(ticket, _)| *ticket == 2).unwrap();
            assert_eq!(told(&second.1), b"b", "seed {seed}");
            assert_eq!(read(&engine).await[&b"k"[..]], [b"d"], "seed {seed}");
        });
    }
}

/// All that was built on a record which the log could not take fails with it, also what has written nothing.
#[test]
fn a_log_write_that_fails_fails_all_that_has_read_it() {
    on_shard(3, async |engine, sim| {
        write(&engine, &cell(b"k", 1, b"a")).await.unwrap();
        sim.set_faults(Faults { suspensions_max: 50, write_error_one_in: 1, ..Faults::default() });
        engine.write(&swap(b"k", Some(b"a"), b"b", &[]), 1).unwrap();
        engine.write(&swap(b"k", Some(b"a"), b"c", &[]), 2).unwrap();
        engine.write(&swap(b"k", Some(b"b"), b"d", &[]), 3).unwrap();
        for _ in 0..10 {
            yield_now().await;
        }
        // It finds the log failed, or comes just before.
        engine.write(&swap(b"k", Some(b"a"), b"e", &[]), 4).unwrap();
        let done = answers(&engine, 4).await;
        assert!(done.iter().all(|(_, answer)| answer.is_err()), "{done:?}");
        let is_told = |answer: &Result<()>| matches!(answer, Err(Error::NotApplied { .. }));
        assert!(!done.iter().any(|(_, answer)| is_told(answer)), "{done:?}");
        assert_eq!(engine.writes_in_flight(), 0);
        assert_eq!(engine.stats().queued_bytes, 0);
    });
}

/// A batch over two partitions is seen in both, and plain writes between conditional ones are seen, too.
#[test]
fn what_is_on_its_way_of_several_partitions_and_plain_is_seen() {
    on_shard(4, async |engine, _| {
        let both = swap(b"k", None, b"1", &cell(b"l", 10, b"1"));
        engine.write(&both, 0).unwrap();
        engine.write(&swap(b"l", Some(b"1"), b"2", &[]), 1).unwrap();
        engine.write(&cell(b"l", 20, b"3"), 2).unwrap();
        engine.write(&swap(b"l", Some(b"3"), b"4", &cell(b"k", 20, b"4")), 3).unwrap();
        engine.write(&swap(b"k", Some(b"4"), b"5", &[]), 4).unwrap();
        let done = answers(&engine, 5).await;
        assert!(done.iter().all(|(_, answer)| answer.is_ok()), "{done:?}");
        let rows = read(&engine).await;
        assert_eq!((&rows[&b"k"[..]][0][..], &rows[&b"l"[..]][0][..]), (&b"5"[..], &b"4"[..]));
    });
}

/// What an overlay has no space for is waited for: nothing is refused, and nothing is missed.
#[test]
fn what_does_not_fit_into_an_overlay_is_waited_for() {
    on_shard(5, async |engine, _| {
        let long = vec![b'x'; OVERLAY_BYTES_MAX / 3];
        let value = |at: u64| [&number(at)[..], &long].concat();
        write(&engine, &cell(b"k", 1, &value(0))).await.unwrap();
        let mut sent = 0;
        let mut done = Vec::new();
        while done.len() < 12 {
            while sent < 12 {
                let record = swap(b"k", Some(&value(sent)), &value(sent + 1), &[]);
                match engine.write(&record, sent) {
                    Ok(()) => sent += 1,
                    Err(Error::Overloaded(_)) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            engine.take_completed(&mut done);
            assert!(engine.stats().queued_bytes <= 8 << 20, "{:?}", engine.stats());
            yield_now().await;
        }
        assert!(done.iter().all(|(_, answer)| answer.is_ok()), "{done:?}");
        assert_eq!(read(&engine).await[&b"k"[..]], [value(12)]);
        assert_eq!(engine.stats().queued_bytes, 0);
    });
}

/// Before: they held all places of those that read, also of other tables, for as long as the truncation took.
#[test]
fn writes_that_wait_for_a_truncation_hold_up_no_other_table_and_are_given_up_in_time() {
    on_shard(6, async |engine, _| {
        engine.announce_truncation(TABLE).await.unwrap();
        let count = 2 * READING_WRITES_MAX as u64;
        for at in 0..count {
            engine.write(&swap(&number(at), None, b"a", &[]), at).unwrap();
        }
        let mut other = Vec::new();
        let key = b"other";
        let mut m = MutationBuilder::begin(&mut other, OTHER, Token::of_key(key), key);
        let change =
            CounterChange { clustering: Some(&[]), column: N, by: 1, timestamp: 10, now_s: 5 };
        m.counter_change(&change);
        m.finish();
        engine.write(&other, 1000).unwrap();
        assert_eq!(answers(&engine, 1).await, [(1000, Ok(()))]);
        let waited = engine.stats().writes_queued;
        engine.write(&swap(b"late", None, b"a", &[]), 2000).unwrap();
        engine.give_up_queued(waited);
        let late = Error::Overloaded("others of its partition were not done in time");
        let given_up = answers(&engine, count as usize).await;
        assert!(given_up.iter().all(|(_, answer)| *answer == Err(late.clone())), "{given_up:?}");
        engine.end_cut(TABLE);
        assert_eq!(answers(&engine, 1).await, [(2000, Ok(()))]);
        assert_eq!((engine.writes_in_flight(), engine.stats().queued_bytes), (0, 0));
    });
}

/// Before: memtables of overlays were made beyond the bound of the queues, to some times its size.
#[test]
fn overlays_of_many_partitions_keep_to_the_bound_of_the_queues() {
    on_shard(7, async |engine, sim| {
        let bound = (config(7).memory_bytes / QUEUED_MEMORY_DIVISOR) as u64;
        let count = 2 * bound / OVERLAY_MEMTABLE_BYTES as u64;
        let key = |at: u64| [b"key".as_slice(), &number(at)].concat();
        sim.set_faults(Faults { suspensions_max: 20_000, ..Faults::default() });
        let (mut done, mut highest) = (Vec::new(), 0);
        for round in 0..2 {
            for at in 0..count {
                let (from, to) = (number(round - u64::from(round > 0)), number(round));
                let from = (round > 0).then_some(&from[..]);
                engine.write(&swap(&key(at), from, &to, &[]), round * count + at).unwrap();
            }
        }
        while done.len() < 2 * count as usize {
            engine.take_completed(&mut done);
            highest = highest.max(engine.stats().queued_bytes);
            yield_now().await;
        }
        assert!(done.iter().all(|(_, answer)| answer.is_ok()), "{done:?}");
        assert!(highest > bound / 2, "{highest} bytes say nothing about a bound of {bound}");
        assert!(highest <= bound, "{highest} bytes, and the bound is {bound}");
        assert_eq!(engine.stats().queued_bytes, 0);
    });
}

/// Before: each kept one of the places of those that read until its answer had space, and what it had read was counted
/// nowhere.
#[test]
fn answers_that_wait_for_space_hold_up_no_other_partition() {
    on_shard(8, async |engine, _| {
        let long = vec![b'x'; 10 << 10];
        let count = 2 * READING_WRITES_MAX as u64;
        for at in 0..count {
            write(&engine, &cell(&number(at), 1, &long)).await.unwrap();
        }
        for at in 0..count {
            engine.write(&swap(&number(at), None, b"a", &[]), at).unwrap();
        }
        engine.write(&add(b"other"), 1000).unwrap();
        // No answer is taken.
        for _ in 0..100_000 {
            yield_now().await;
        }
        assert_eq!(read(&engine).await.get(&b"other"[..]).map(Vec::len), Some(1));
        let (mut applied, mut refused) = (0, 0);
        for (ticket, answer) in answers(&engine, count as usize + 1).await {
            match answer {
                Ok(()) => applied += ticket,
                Err(Error::NotApplied { .. }) => {}
                Err(Error::Overloaded(_)) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(applied, 1000);
        assert!(refused > 0, "128 answers are more than may wait");
    });
}
