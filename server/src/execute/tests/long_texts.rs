//! Statements of long texts, which are compiled beside the core: answered as short ones are, and bounded.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::super::ExecuteError;
use super::super::batch::at_once;
use super::*;
use crate::limits::{COMPILED_AT_ONCE_BYTES, WAITING_STATEMENTS_MEMORY_DIVISOR};

/// `text`, made long by a comment.
fn long(text: &str) -> String {
    format!("{text} /* {} */", " ".repeat(COMPILED_AT_ONCE_BYTES))
}

#[test]
fn long_texts_are_answered_as_short_ones() {
    for shards in [1, 3] {
        let mut bench = Bench::new(shards);
        for k in 1..9 {
            let insert = format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, {k}0)");
            assert_eq!(bench.query(&long(&insert)), "void");
            let select = long(&format!("SELECT v FROM ks.t WHERE k = {k}"));
            assert_eq!(bench.query(&select), format!("{k}0"));
        }
        for text in [
            "SELECT sum(v) FROM ks.t",
            "SELECT k, v FROM ks.t WHERE k IN (3, 1, 7)",
            "SELECT v FROM ks.t WHERE k = 3 ORDER BY c DESC",
            "SELECT v FROM ks.none",
            "SELECT v FRO ks.t",
            "UPDATE ks.t SET v = 1 WHERE k = 1 AND c = 1 IF v = 2",
            "BEGIN BATCH DELETE FROM ks.t WHERE k = 6; DELETE FROM ks.t WHERE k = 7 APPLY BATCH",
            "CREATE TABLE ks.t (k int PRIMARY KEY)",
        ] {
            // Behind the first line an error shows the text.
            let first_line = |said: String| said.lines().next().map(str::to_owned);
            assert_eq!(
                first_line(bench.query(&long(text))),
                first_line(bench.query(text)),
                "{text}"
            );
        }
        assert_eq!(bench.query("SELECT k FROM ks.t WHERE k IN (5, 6, 7)"), "5");
        assert_eq!(bench.query(&long("USE ks")), bench.query("USE ks"));
        assert_eq!(bench.query(&long("SELECT v FROM t WHERE k = 1")), "10");
    }
}

#[test]
fn a_long_text_takes_its_parameters_along() {
    let mut bench = Bench::new(2);
    let mut values = ValueList::new();
    for value in [1i32, 2, 3] {
        values.push(Value::Bytes(&value.to_be_bytes()));
    }
    let plain = Parameters::plain(Consistency::One, VERSION);
    let parameters =
        Parameters { values: values.as_values(VERSION), timestamp_us: Some(77), ..plain };
    let text = long("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)");
    assert_eq!(bench.show(&Request::Query(Query { text: &text, parameters })), "void");
    assert_eq!(bench.query("SELECT v, writetime(v) FROM ks.t WHERE k = 1"), "3 77");
}

#[test]
fn a_long_text_is_prepared_on_all_cores_once() {
    for shards in [1, 3] {
        let mut bench = Bench::new(shards);
        let write = bench.prepare(&long("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)"));
        let read = bench.prepare(&long("SELECT v FROM ks.t WHERE k = ?"));
        for core in 0..shards {
            bench.client = bench.server.connect(core, VERSION);
            for k in 0..8 {
                assert_eq!(bench.execute(&write, &[k, 1, k]), "void");
                assert_eq!(bench.execute(&read, &[k]), k.to_string());
            }
        }
        let twice = bench.prepare(&long("SELECT v FROM ks.t WHERE k = ?"));
        assert_eq!(twice, read);
        let text = long("SELECT v FROM ks.none WHERE k = ?");
        let refused = bench.show(&Request::Prepare(Prepare { text: &text, keyspace: None }));
        assert_eq!(refused, "error: table none does not exist");
    }
}

/// A batch of few statements, of which one is long.
#[test]
fn a_long_text_in_a_short_batch() {
    let mut bench = Bench::new(2);
    let parameters = Parameters::plain(Consistency::One, VERSION);
    let insert = |k: i32| format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, {k})");
    let (texts, mut items) = ([insert(1), long(&insert(2)), insert(3)], Vec::new());
    let statements = texts
        .each_ref()
        .map(|text| BatchStatement { text: BatchText::Query(text), values: parameters.values });
    let batch = Batch::new(BatchKind::Logged, &statements, parameters, VERSION, &mut items);
    assert_eq!(bench.show(&Request::Batch(batch)), "void");
    assert_eq!(bench.query("SELECT k FROM ks.t WHERE k IN (1, 2, 3)"), "1, 2, 3");
}

#[test]
fn a_long_text_that_has_no_turn_in_time_does_nothing() {
    let mut bench = Bench::new(1);
    let executor = bench.server.executor(0);
    let turn = at_once(executor.long_statements.take(1));
    let text = long("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1)");
    bench.begin_as(bench.client, &text);
    while bench.server.run_once() {}
    bench.server.advance(Duration::from_secs(3601));
    let said = bench.answers().into_values().next().unwrap();
    let expected = "error: Not compiled within 3600000 ms, behind the long statements before it: nothing of it was done";
    assert_eq!(said, expected);
    drop(turn);
    assert_eq!(bench.query("SELECT count(*) FROM ks.t"), "0");
}

#[test]
fn long_texts_that_wait_are_counted_though_their_clients_are_gone() {
    let mut bench = Bench::new(1);
    let executor = bench.server.executor(0);
    let turn = at_once(executor.long_statements.take(1));
    // Two of these fit, and not three.
    let bytes = small(1).shard_memory_bytes / WAITING_STATEMENTS_MEMORY_DIVISOR * 2 / 5;
    let text = format!("SELECT v FROM ks.t WHERE k = 1 /* {} */", " ".repeat(bytes));
    for _ in 0..2 {
        let gone = bench.server.connect(0, VERSION);
        bench.begin_as(gone, &text);
        bench.server.disconnect(gone);
    }
    let parameters = Parameters::plain(Consistency::One, VERSION);
    let requests = [
        Request::Query(Query { text: &text, parameters }),
        Request::Prepare(Prepare { text: &text, keyspace: None }),
    ];
    for request in requests {
        let said = bench.show(&request);
        let refused = "error: Request not taken: the statements of a long text";
        assert!(said.starts_with(refused), "{said}");
    }
    drop(turn);
    while bench.server.run_once() {}
    assert_eq!(bench.query(&text), "", "there is space again");
}

/// What a text is compiled to is that of the schema as it is then, or the text is refused.
#[test]
fn a_long_text_is_compiled_once_more_when_its_table_was_changed() {
    for changes in [1, 3] {
        let mut bench = Bench::new(1);
        let executor = bench.server.executor(0);
        let mut compiled = pin!(executor.compile_beside("SELECT * FROM ks.t".into(), None));
        let mut poll = || compiled.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        for number in 0..changes {
            assert!(poll().is_pending());
            assert_eq!(
                bench.query(&format!("ALTER TABLE ks.t ADD w{number} int")),
                "UPDATED TABLE ks t"
            );
        }
        match (changes, poll()) {
            (1, Poll::Pending) => {
                let Poll::Ready(Ok(statement)) = poll() else { panic!("it was not changed again") };
                assert!(statement.is_valid(&executor.shard.schema()));
            }
            (3, Poll::Ready(Err(ExecuteError::Overloaded(text)))) => {
                assert!(text.starts_with("What the statement names was changed 3 times"), "{text}");
            }
            _ => panic!("{changes} changes"),
        }
    }
}
