//! Statements of long texts, which are compiled beside the core: answered as short ones are, and bounded.

use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::super::ExecuteError;
use super::super::batch::at_once;
use super::super::statement::ServerStatement;
use super::*;
use crate::limits::{
    COMPILE_ATTEMPTS_MAX, COMPILED_AT_ONCE_BYTES, WAITING_STATEMENTS_MEMORY_DIVISOR,
};

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
    let plain = Parameters::plain(Consistency::One, VERSION);
    let (mut values, mut named) = (ValueList::new(), ValueList::new());
    for (name, value) in [("k", 1i32), ("c", 2), ("v", 3)] {
        values.push(Value::Bytes(&value.to_be_bytes()));
        named.push_named(name, Value::Bytes(&(value + 1).to_be_bytes()));
    }
    let text = long("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)");
    for (values, timestamp_us) in [(&values, Some(77)), (&named, Some(78))] {
        let values = values.as_values(VERSION);
        let parameters = Parameters { values, timestamp_us, ..plain };
        assert_eq!(bench.show(&Request::Query(Query { text: &text, parameters })), "void");
    }
    let select = "SELECT v, writetime(v) FROM ks.t WHERE k IN (1, 2)";
    assert_eq!(bench.query(select), "3 77, 4 78");
    let (first, state) = bench.page(&long(select), None);
    assert_eq!(first, "3 77, more");
    assert_eq!(bench.page(&long(select), Some(&state)).0, "4 78");
    let serial = Parameters { serial_consistency: Some(Consistency::One), ..plain };
    let refused = bench.show(&Request::Query(Query { text: &long(select), parameters: serial }));
    assert!(refused.starts_with("error: Invalid consistency for conditional update"), "{refused}");
}

/// An increment with a name is done once, however often it is sent.
#[test]
fn a_long_text_takes_the_name_of_a_change_along() {
    let mut bench = Bench::new(2);
    bench.query("CREATE TABLE ks.n (k int PRIMARY KEY, n counter)");
    let plain = Parameters::plain(Consistency::One, VERSION);
    let parameters = Parameters { request_id: Some(&[7; 16]), ..plain };
    let text = long("UPDATE ks.n SET n = n + 5 WHERE k = 1");
    for _ in 0..2 {
        assert_eq!(bench.show(&Request::Query(Query { text: &text, parameters })), "void");
    }
    assert_eq!(bench.query("SELECT n FROM ks.n"), "5");
}

/// A write that came before another one loses to it, though it is compiled later.
#[test]
fn a_write_of_a_long_text_has_the_timestamp_of_when_it_came() {
    let mut bench = Bench::new(1);
    let executor = bench.server.executor(0);
    let turn = at_once(executor.long_statements.take(1));
    bench.begin_as(bench.client, &long("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1)"));
    bench.begin_as(bench.client, "INSERT INTO ks.t (k, c, v) VALUES (1, 1, 2)");
    while bench.server.run_once() {}
    drop(turn);
    assert_eq!(bench.answers().into_values().collect::<Vec<_>>(), ["void", "void"]);
    assert_eq!(bench.query("SELECT v FROM ks.t"), "2");
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
        let kept = |bench: &Bench| -> Vec<Rc<ServerStatement>> {
            let kept_by = |core| {
                let executor = bench.server.executor(core);
                executor.state.prepared(&executor.shard, &read).unwrap()
            };
            (0..shards).map(kept_by).collect()
        };
        let before = kept(&bench);
        assert_eq!(bench.prepare(&long("SELECT v FROM ks.t WHERE k = ?")), read);
        let after = kept(&bench);
        assert!(before.iter().zip(&after).all(|(before, after)| Rc::ptr_eq(before, after)));
        let text = long("SELECT v FROM ks.none WHERE k = ?");
        let refused = bench.show(&Request::Prepare(Prepare { text: &text, keyspace: None }));
        assert_eq!(refused, "error: table none does not exist");
    }
}

/// The core of the client reads what others own: none of them compiles the text once more.
#[test]
fn a_select_of_a_long_text_is_not_forwarded() {
    let mut bench = Bench::new(3);
    for k in 0..8 {
        bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, {k})"));
    }
    let (executor, own) = (bench.server.executor(0), bench.client);
    for (text, is_asked) in [
        ("SELECT v FROM ks.t WHERE k = 0", false),
        ("SELECT v FROM ks.t WHERE k = 1", false),
        ("SELECT v FROM ks.t WHERE k = 2", false),
        ("SELECT sum(v) FROM ks.t", false),
    ]
    .into_iter()
    .map(|(text, is_asked)| (long(text), is_asked))
    .chain([("SELECT sum(v) FROM ks.t".to_owned(), true)])
    {
        let (forwarded, parts) = (executor.selects_forwarded.get(), executor.parts_asked.get());
        bench.begin_as(own, &text);
        bench.answers();
        let asked = (executor.selects_forwarded.get(), executor.parts_asked.get());
        assert_eq!(asked != (forwarded, parts), is_asked, "{text}");
    }
}

/// Before: reads were begun for clients that had gone, or sent nothing more, while their texts were compiled, and went
/// on to their deadlines.
#[test]
fn no_read_is_begun_for_a_client_that_is_gone() {
    let ends: [fn(&mut ManualServer, ClientId); 2] =
        [ManualServer::disconnect, ManualServer::fall_silent];
    for end in [None, Some(ends[0]), Some(ends[1])] {
        let mut bench = Bench::new(1);
        for k in 0..100 {
            bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, {k})"));
        }
        let executor = bench.server.executor(0);
        let turn = at_once(executor.long_statements.take(1));
        let client = bench.server.connect(0, VERSION);
        bench.begin_as(client, &long("SELECT sum(v) FROM ks.t WHERE v > 7 ALLOW FILTERING"));
        let before = bench.server.rows_read();
        if let Some(end) = end {
            end(&mut bench.server, client);
        }
        drop(turn);
        while bench.server.run_once() {}
        assert_eq!(bench.server.rows_read() == before, end.is_some());
    }
}

/// Before: long texts of clients that had gone were compiled and run in their turn, for which others waited.
#[test]
fn no_long_text_is_compiled_for_a_client_that_is_gone() {
    for is_gone in [false, true] {
        let mut bench = Bench::new(1);
        let executor = bench.server.executor(0);
        let turn = at_once(executor.long_statements.take(1));
        let client = bench.server.connect(0, VERSION);
        bench.begin_as(client, &long("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1)"));
        if is_gone {
            bench.server.disconnect(client);
        }
        drop(turn);
        while bench.server.run_once() {}
        let rows = if is_gone { "0" } else { "1" };
        assert_eq!(bench.query("SELECT count(*) FROM ks.t"), rows);
        assert_eq!(executor.long_statements.held(), 0);
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
    let expected = "error: Not compiled within 3600000 ms, with the long statements before it: nothing of it was done";
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
        bench.begin_and_leave(&text);
    }
    let parameters = Parameters::plain(Consistency::One, VERSION);
    let requests = [
        Request::Query(Query { text: &text, parameters }),
        Request::Prepare(Prepare { text: &text, keyspace: None }),
    ];
    for request in requests {
        let said = bench.show(&request);
        let refused = "error: Request not taken: long texts, long values";
        assert!(said.starts_with(refused), "{said}");
    }
    drop(turn);
    while bench.server.run_once() {}
    assert_eq!(bench.query(&text), "", "there is space again");
}

/// What a text is compiled to is that of the schema as it is then, or the text is refused.
#[test]
fn a_long_text_is_compiled_once_more_when_its_table_was_changed() {
    for changes in [1, COMPILE_ATTEMPTS_MAX] {
        let mut bench = Bench::new(1);
        let executor = bench.server.executor(0);
        let mut compiled = pin!(executor.compile_off_core("SELECT * FROM ks.t".into(), None));
        let mut poll = || compiled.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        for number in 0..changes {
            assert!(poll().is_pending(), "the thread compiles");
            let alter = format!("ALTER TABLE ks.t ADD w{number} int");
            assert_eq!(bench.query(&alter), "UPDATED TABLE ks t");
            assert!(poll().is_pending(), "a pass comes first");
        }
        match (changes, poll()) {
            (1, Poll::Pending) => {
                assert!(poll().is_pending());
                let Poll::Ready(Ok(statement)) = poll() else { panic!("it was not changed again") };
                assert!(statement.is_valid(&executor.shard.schema()));
            }
            (COMPILE_ATTEMPTS_MAX, Poll::Ready(Err(ExecuteError::Overloaded(text)))) => {
                assert!(text.starts_with("What the statement names was changed 3 times"), "{text}");
            }
            _ => panic!("{changes} changes"),
        }
    }
}
