//! Writes that read first: changes of lists by index and by value, and who waits for whom.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::cell::Cell as Flag;

use engine::limits::{
    CHANGED_LIST_ELEMENTS_MAX, LIST_CHANGES_MAX, MEMORY_BYTES_MIN, QUEUED_MEMORY_DIVISOR,
    READING_WRITES_MAX, READING_WRITES_QUEUED_MAX,
};
use engine::{Config, Engine, Error, Turn};
use futures_lite::future::{poll_once, yield_now};
use messina_engine as engine;
use model::cell::Expiry;
use model::mutation::{ListChange, ListOp, MutationBuilder};
use model::read::{Flow, PartitionRef, RowSink};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::schema::TableBuilder;
use model::{ColumnId, CqlType, Deletion, Schema, Token};

use crate::shard::{TABLE, answers, config, flush, on_shard, schema_of, select_all, write};

const STATIC_LIST: ColumnId = ColumnId(2);
const LIST: ColumnId = ColumnId(3);

/// `CREATE TABLE t (k blob, c blob, s list<blob> static, l list<blob>, PRIMARY KEY (k, c))`
fn schema() -> Schema {
    let list = || CqlType::List { element: CqlType::Blob.into(), frozen: false };
    let table = TableBuilder::new("ks", "t", TABLE)
        .partition_key("k", CqlType::Blob)
        .and_then(|t| t.clustering("c", CqlType::Blob, false))
        .and_then(|t| t.stat("s", list()))
        .and_then(|t| t.regular("l", list()))
        .and_then(TableBuilder::build)
        .unwrap();
    let id = |name| table.column(name).unwrap().id;
    assert_eq!((id("s"), id("l")), (STATIC_LIST, LIST), "in the order in which they were made");
    schema_of([table])
}

/// One mutation of the partition `k`.
fn mutation(fill: impl FnOnce(&mut MutationBuilder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(b"k"), b"k");
    fill(&mut m);
    m.finish();
    out
}

/// Elements at these paths, whose values are their paths.
fn put_elements(column: ColumnId, paths: &[u8], timestamp: i64, out: &mut Vec<u8>) {
    let mut row = RowBuilder::begin(out, &RowHead::bare(timestamp));
    for path in paths {
        let path = std::slice::from_ref(path);
        row.cell(&Cell { path: Some(path), ..Cell::live(column, timestamp, path) });
    }
}

/// `UPDATE t SET l = l + [..] WHERE k = 'k' AND c = <c>`
fn add(c: u8, paths: &[u8], timestamp: i64) -> Vec<u8> {
    mutation(|m| m.row(&[c], |out| put_elements(LIST, paths, timestamp, out)))
}

fn change<'a>(clustering: Option<&'a [u8]>, timestamp: i64, op: ListOp<'a>) -> ListChange<'a> {
    let column = if clustering.is_none() { STATIC_LIST } else { LIST };
    ListChange { clustering, column, timestamp, now_s: 5, op }
}

fn set(index: i32, value: &[u8]) -> ListOp<'_> {
    ListOp::Set { index, value: Some(value), expiry: None }
}

/// Changes of the list of row `c`.
fn changes(c: u8, timestamp: i64, ops: &[ListOp<'_>]) -> Vec<u8> {
    mutation(|m| ops.iter().for_each(|op| m.list_change(&change(Some(&[c]), timestamp, *op))))
}

/// The values of all elements: the static list's first, then those of the rows.
#[derive(Default)]
struct Elements(Vec<String>);

impl RowSink for Elements {
    fn row(&mut self, p: &PartitionRef<'_>, _: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        let text = |row: RowRef<'_>| {
            row.cells().map(|cell| String::from_utf8_lossy(cell.value).into_owned()).collect()
        };
        if let (true, Some(row)) = (self.0.is_empty(), p.static_row) {
            self.0.push(text(row));
        }
        self.0.extend(row.map(text));
        Flow::More
    }
}

async fn read(engine: &Engine) -> Vec<String> {
    let mut elements = Elements::default();
    let command = model::ReadCommand { static_alone: true, ..select_all(6) };
    engine.read(&command, &mut elements, yield_now).await.unwrap();
    elements.0
}

#[test]
fn elements_are_set_deleted_and_discarded_where_they_are_in_memory_and_in_files() {
    on_shard(config(1), schema(), async |engine, _, _| {
        write(&engine, &add(1, b"acf", 10)).await.unwrap();
        flush(&engine).await;
        write(&engine, &add(1, b"be", 11)).await.unwrap();
        write(&engine, &changes(1, 20, &[set(1, b"B"), set(4, b"F")])).await.unwrap();
        assert_eq!(read(&engine).await, ["aBceF"]);
        let ops = [ListOp::Delete { index: 0 }, ListOp::Discard { value: b"c" }, set(1, b"B")];
        write(&engine, &changes(1, 21, &ops)).await.unwrap();
        assert_eq!(read(&engine).await, ["BBF"], "each change sees what those before it made");
        let ops = [ListOp::Set { index: 2, value: None, expiry: None }];
        write(&engine, &changes(1, 22, &ops)).await.unwrap();
        assert_eq!(read(&engine).await, ["BB"]);
        let spent = Some(Expiry { ttl_s: 1, at_s: 6 });
        let ops = [ListOp::Set { index: 0, value: Some(b"x"), expiry: spent }];
        write(&engine, &changes(1, 23, &ops)).await.unwrap();
        flush(&engine).await;
        assert_eq!(read(&engine).await, ["B"], "what is set may expire");
        write(&engine, &changes(1, 9, &[set(0, b"x")])).await.unwrap();
        assert_eq!(read(&engine).await, ["B"], "an older write does not win");
    });
}

#[test]
fn static_lists_and_several_rows_are_changed_beside_plain_cells() {
    on_shard(config(2), schema(), async |engine, _, _| {
        let record = mutation(|m| {
            m.static_row(|out| put_elements(STATIC_LIST, b"pq", 1, out));
            m.row(b"1", |out| put_elements(LIST, b"ab", 1, out));
            m.row(b"2", |out| put_elements(LIST, b"cd", 1, out));
        });
        write(&engine, &record).await.unwrap();
        let record = mutation(|m| {
            m.static_row(|out| put_elements(STATIC_LIST, b"r", 2, out));
            m.row(b"1", |out| put_elements(LIST, b"z", 2, out));
            m.list_change(&change(Some(b"2"), 2, set(0, b"C")));
            m.list_change(&change(None, 2, ListOp::Delete { index: 0 }));
            m.list_change(&change(Some(b"1"), 2, set(1, b"B")));
        });
        write(&engine, &record).await.unwrap();
        assert_eq!(read(&engine).await, ["qr", "aBz", "Cd"]);
    });
}

#[test]
fn of_two_writes_to_one_element_the_one_stays_that_wins_later() {
    on_shard(config(3), schema(), async |engine, _, _| {
        write(&engine, &add(1, b"abc", 10)).await.unwrap();
        let add = |path, value| ListOp::Add { path, value, expiry: None };
        let ops = [set(0, b"x"), set(0, b"y"), set(0, b"w"), add(b"d", b"d"), set(3, b"D")];
        write(&engine, &changes(1, 20, &ops)).await.unwrap();
        assert_eq!(read(&engine).await, ["ybcd"], "the larger value");
        let ops = [add(b"A", b"1"), ListOp::Discard { value: b"1" }, set(0, b"z")];
        write(&engine, &changes(1, 21, &ops)).await.unwrap();
        assert_eq!(read(&engine).await, ["zbcd"], "a tombstone over any");
        let ops = [ListOp::Delete { index: 0 }, ListOp::Clear];
        write(&engine, &changes(1, 22, &ops)).await.unwrap();
        write(&engine, &self::add(1, b"e", 22)).await.unwrap();
        assert_eq!(read(&engine).await, [""; 0], "what is not newer went with all of the list");
    });
}

#[test]
fn what_is_not_there_is_told_in_cassandras_words_and_nothing_is_written() {
    on_shard(config(4), schema(), async |engine, _, _| {
        write(&engine, &add(1, b"ab", 10)).await.unwrap();
        let refusal = async |c, ops: &[ListOp<'_>]| match write(&engine, &changes(c, 20, ops))
            .await
            .unwrap_err()
        {
            Error::Invalid(text) => text.to_string(),
            other => panic!("{other:?}"),
        };
        let null_set = "Attempted to set an element on a list which is null";
        let null_delete = "Attempted to delete an element from a list which is null";
        let beyond = |index| format!("List index {index} out of bound, list has size 2");
        assert_eq!(refusal(2, &[set(0, b"x")]).await, null_set);
        assert_eq!(refusal(2, &[ListOp::Delete { index: 0 }]).await, null_delete);
        assert_eq!(refusal(1, &[set(0, b"x"), set(2, b"y")]).await, beyond(2));
        assert_eq!(refusal(1, &[set(i32::MIN, b"x"), set(i32::MAX, b"y")]).await, beyond(i32::MIN));
        assert_eq!(refusal(1, &[ListOp::Delete { index: -1 }]).await, beyond(-1));
        let of_two_rows = mutation(|m| {
            m.list_change(&change(Some(b"\x02"), 20, ListOp::Delete { index: 7 }));
            m.list_change(&change(Some(b"\x01"), 20, set(9, b"x")));
        });
        let first = write(&engine, &of_two_rows).await.unwrap_err();
        assert_eq!(
            first,
            Error::invalid(null_delete),
            "the first of the statement, not of the rows"
        );
        let nothing = [ListOp::Discard { value: b"x" }];
        write(&engine, &changes(1, 20, &nothing)).await.unwrap();
        write(&engine, &changes(2, 20, &nothing)).await.unwrap();
        assert_eq!(read(&engine).await, ["ab"]);
        assert_eq!(engine.writes_in_flight(), 0, "none of them waits");
    });
}

#[test]
fn writes_of_one_partition_see_each_other_in_the_order_in_which_they_came() {
    for seed in 10..40 {
        on_shard(config(seed), schema(), async |engine, _, _| {
            write(&engine, &add(1, b"abcdefgh", 1)).await.unwrap();
            // What is appended in front is what the next deletes, though nothing waits for an answer.
            let pop = [ListOp::Delete { index: 0 }];
            for (ticket, record) in [
                changes(1, 2, &pop),
                add(1, b"A", 3),
                changes(1, 4, &pop),
                changes(1, 5, &pop),
                changes(2, 6, &pop),
                add(1, b"B", 7),
                changes(1, 8, &[set(0, b"!"), ListOp::Delete { index: 1 }]),
            ]
            .iter()
            .enumerate()
            {
                engine.write(record, 100 + ticket as u64).unwrap();
            }
            let done = answers(&engine, 7).await;
            let refused: Vec<u64> = done.iter().filter(|(_, r)| r.is_err()).map(|d| d.0).collect();
            assert_eq!(refused, [104], "row 2 has no list");
            let tickets: Vec<u64> = done.iter().map(|done| done.0).collect();
            assert!(tickets.is_sorted(), "{tickets:?}");
            assert_eq!(read(&engine).await, ["!defgh"]);
        });
    }
}

#[test]
fn a_record_of_two_partitions_waits_for_both() {
    for seed in 50..60 {
        on_shard(config(seed), schema(), async |engine, _, _| {
            let of = |key: &[u8], fill: &dyn Fn(&mut MutationBuilder<'_>), out: &mut Vec<u8>| {
                let mut m = MutationBuilder::begin(out, TABLE, Token::of_key(key), key);
                fill(&mut m);
                m.finish();
            };
            let elements = |m: &mut MutationBuilder<'_>| {
                m.row(&[1], |out| put_elements(LIST, b"abc", 1, out));
            };
            let mut both = Vec::new();
            of(b"k", &elements, &mut both);
            of(b"x", &elements, &mut both);
            write(&engine, &both).await.unwrap();
            let pop = |m: &mut MutationBuilder<'_>| {
                m.list_change(&change(Some(&[1]), 2, ListOp::Delete { index: 0 }));
            };
            let (mut of_k, mut of_x, mut of_both) = (Vec::new(), Vec::new(), Vec::new());
            of(b"k", &pop, &mut of_k);
            of(b"x", &pop, &mut of_x);
            of(b"x", &pop, &mut of_both);
            of(b"k", &pop, &mut of_both);
            for (ticket, record) in [&of_k, &of_both, &of_x, &of_k].into_iter().enumerate() {
                engine.write(record, ticket as u64).unwrap();
            }
            let done = answers(&engine, 4).await;
            assert!(done.iter().all(|(_, result)| result.is_ok()), "{done:?}");
            let mut left = read(&engine).await;
            left.sort();
            assert_eq!(left, ["c"], "three of k's elements went, and two of x's");
        });
    }
}

#[test]
fn the_queues_are_bounded_and_empty_themselves() {
    let little = Config { memory_bytes: MEMORY_BYTES_MIN, ..config(70) };
    on_shard(little, schema(), async |engine, _, _| {
        write(&engine, &add(1, b"ab", 1)).await.unwrap();
        let value = vec![b'v'; 20 << 10];
        let big = changes(1, 2, &[set(0, &value)]);
        let taken = (0..100).take_while(|ticket| engine.write(&big, *ticket).is_ok()).count();
        let bytes_max = MEMORY_BYTES_MIN / QUEUED_MEMORY_DIVISOR;
        assert!(taken > 0 && taken * big.len() <= bytes_max, "{taken}");
        let full = Error::Overloaded("memory of writes that wait for others of their partition");
        assert_eq!(engine.write(&big, 100), Err(full));
        assert!(engine.stats().queued_bytes > 0);
        answers(&engine, taken).await;
        assert_eq!((engine.stats().queued_bytes, engine.writes_in_flight()), (0, 0));
        write(&engine, &big).await.unwrap();
    });
}

/// Before: the last of these waited until something else was written.
#[test]
fn more_writes_that_read_first_than_may_read_at_once_are_all_done() {
    on_shard(config(75), schema(), async |engine, _, _| {
        let count = 2 * READING_WRITES_MAX as u64 + 1;
        for ticket in 0..count {
            let (key, mut record) = (ticket.to_be_bytes(), Vec::new());
            let token = Token::of_key(&key);
            let mut m = MutationBuilder::begin(&mut record, TABLE, token, &key);
            m.list_change(&change(Some(&[1]), 1, ListOp::Discard { value: b"x" }));
            m.finish();
            engine.write(&record, ticket).unwrap();
        }
        assert_eq!(answers(&engine, count as usize).await.len(), count as usize);
        assert_eq!(engine.writes_in_flight(), 0);
    });
}

#[test]
fn a_write_of_a_table_that_is_dropped_while_it_waits_is_refused() {
    on_shard(config(80), schema(), async |engine, _, _| {
        write(&engine, &add(1, b"ab", 1)).await.unwrap();
        engine.write(&changes(1, 2, &[set(0, b"x")]), 1).unwrap();
        engine.write(&add(1, b"c", 3), 2).unwrap();
        engine.set_schema(&schema_of([]));
        let done = answers(&engine, 2).await;
        assert!(
            done.iter().all(|(_, result)| matches!(result, Err(Error::Invalid(_)))),
            "{done:?}"
        );
        assert_eq!(engine.writes_in_flight(), 0);
    });
}

#[test]
fn deletions_of_the_same_statement_do_not_hide_what_is_read() {
    on_shard(config(90), schema(), async |engine, _, _| {
        write(&engine, &add(1, b"ab", 10)).await.unwrap();
        let record = mutation(|m| {
            m.delete_partition(Deletion { timestamp: 10, local_s: 5 });
            m.list_change(&change(Some(&[1]), 11, set(0, b"x")));
        });
        write(&engine, &record).await.unwrap();
        assert_eq!(read(&engine).await, ["x"]);
    });
}

/// Takes a record, and its turn, before the owner does.
async fn begin(engine: &Engine, record: &[u8], ticket: u64) -> Turn {
    engine.write(record, ticket).unwrap();
    poll_once(engine.next_turn()).await.expect("nothing is before it")
}

/// As many elements, at paths from 0 on, of one value.
fn long_list(c: u8, elements: usize) -> Vec<u8> {
    mutation(|m| {
        m.row(&[c], |out| {
            let mut row = RowBuilder::begin(out, &RowHead::bare(1));
            for path in 0..elements as u32 {
                let path = path.to_be_bytes();
                row.cell(&Cell { path: Some(&path), ..Cell::live(LIST, 1, b"v") });
            }
        });
    })
}

fn invalid(result: engine::Result<()>, words: &str) {
    let Err(Error::Invalid(text)) = result else { panic!("not invalid: {result:?}") };
    assert!(text.contains(words), "{text}");
}

/// Before: a batch of 65,535 changes of one short list ran for seconds without a pause.
#[test]
fn a_turn_pauses_after_each_mutation() {
    on_shard(config(90), schema(), async |engine, _, _| {
        write(&engine, &add(1, b"abcdef", 1)).await.unwrap();
        let record = changes(1, 2, &[ListOp::Delete { index: 0 }]).repeat(500);
        let (turn, pauses) = (begin(&engine, &record, 1).await, Flag::new(0));
        engine.run_turn(turn, async || pauses.set(pauses.get() + 1)).await;
        assert!(pauses.get() >= 500, "{}", pauses.get());
        assert_eq!(answers(&engine, 1).await, [(1, Ok(()))]);
    });
}

/// Before: what a statement took out of lists was made whole, however much, and the length of the mutation asserted.
#[test]
fn what_list_changes_may_read_and_write_is_bounded() {
    let log = engine::commitlog::Config::new(91);
    let large = Config { log, memory_bytes: 1 << 30, ..config(91) };
    on_shard(large, schema(), async |engine, _, _| {
        for c in 1..=3 {
            write(&engine, &long_list(c, CHANGED_LIST_ELEMENTS_MAX)).await.unwrap();
        }
        let out = ListOp::Discard { value: b"v" };
        let of_rows = |rows: &[u8]| {
            mutation(|m| rows.iter().for_each(|c| m.list_change(&change(Some(&[*c]), 2, out))))
        };
        let refused = write(&engine, &of_rows(&[1, 2, 3])).await;
        invalid(refused, "A statement changes more than 16777216 bytes of elements of lists");
        write(&engine, &of_rows(&[1])).await.unwrap();
        write(&engine, &add(2, b"x", 1)).await.unwrap();
        let refused = write(&engine, &changes(2, 2, &[set(0, b"y")])).await;
        invalid(refused, "List has more than 65536 elements");
        let ops = vec![out; LIST_CHANGES_MAX];
        write(&engine, &changes(9, 2, &ops)).await.unwrap();
        let refused = write(&engine, &changes(9, 2, &[ops, vec![out]].concat())).await;
        invalid(refused, "more than 65536 times");
    });
}

/// Before: 2,048 of them held all places that a core has in the mailbox of the owner, for seconds.
#[test]
fn writes_that_read_first_are_bounded_in_one_partition_and_plain_ones_behind_them_are_not() {
    on_shard(config(92), schema(), async |engine, _, _| {
        let pop = changes(1, 2, &[ListOp::Discard { value: b"x" }]);
        for ticket in 0..READING_WRITES_QUEUED_MAX as u64 {
            engine.write(&pop, ticket).unwrap();
        }
        let full = Error::Overloaded("writes that wait for others of one partition");
        assert_eq!(engine.write(&pop, 900), Err(full));
        engine.write(&add(1, b"a", 3), 901).unwrap();
        let done = answers(&engine, READING_WRITES_QUEUED_MAX + 1).await;
        assert!(done.iter().all(|(_, result)| result.is_ok()), "{done:?}");
        write(&engine, &pop).await.unwrap();
    });
}

/// Before: writes waited in a queue for as long as it was, minutes after their clients had gone.
#[test]
fn what_has_waited_too_long_for_its_turn_is_given_up() {
    on_shard(config(93), schema(), async |engine, _, _| {
        write(&engine, &add(1, b"abc", 1)).await.unwrap();
        let pop = changes(1, 2, &[ListOp::Delete { index: 0 }]);
        let turn = begin(&engine, &pop, 1).await;
        engine.write(&pop, 2).unwrap();
        engine.write(&add(1, b"d", 3), 3).unwrap();
        let until = engine.stats().writes_queued;
        engine.write(&pop, 4).unwrap();
        engine.give_up_queued(until);
        let late = Error::Overloaded("others of its partition were not done in time");
        let done = answers(&engine, 2).await;
        assert_eq!(done, [(2, Err(late.clone())), (3, Err(late))]);
        engine.run_turn(turn, yield_now).await;
        assert_eq!(answers(&engine, 2).await, [(1, Ok(())), (4, Ok(()))]);
        assert_eq!((engine.writes_in_flight(), engine.stats().queued_bytes), (0, 0));
        assert_eq!(read(&engine).await, ["c"]);
    });
}

/// Before: an element of a list that the truncation had taken came back.
#[test]
fn a_table_that_is_emptied_between_read_and_write_is_read_again() {
    on_shard(config(94), schema(), async |engine, _, _| {
        write(&engine, &add(1, b"ab", 1)).await.unwrap();
        let turn = begin(&engine, &changes(1, 2, &[set(0, b"x")]), 1).await;
        let emptied = Flag::new(false);
        let empty = async || {
            if !emptied.replace(true) {
                engine.truncate(TABLE).await.unwrap();
            }
        };
        engine.run_turn(turn, empty).await;
        let (_, refused) = answers(&engine, 1).await.remove(0);
        invalid(refused, "a list which is null");
        assert_eq!(read(&engine).await, [""; 0]);
    });
}
