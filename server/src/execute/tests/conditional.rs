//! Conditional writes from every core: what is answered, refused, and late.

use std::rc::Rc;

use shard::Shard;

use super::*;

fn at_level(bench: &mut Bench, text: &str, level: Consistency) -> String {
    let parameters = Parameters::plain(level, VERSION);
    bench.show(&Request::Query(Query { text, parameters }))
}

/// Statements, each with what it is answered.
fn all_are(bench: &mut Bench, statements: &[(&str, &str)]) {
    for (text, answer) in statements {
        assert_eq!(bench.query(text), *answer, "{text}");
    }
}

#[test]
fn conditions_are_judged_where_the_partition_is_and_answered_where_the_client_is() {
    for shards in [1, 3] {
        let mut bench = Bench::new(shards);
        let insert = bench.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?) IF NOT EXISTS");
        let update = bench.prepare("UPDATE ks.t SET v = ? WHERE k = ? AND c = ? IF v = ?");
        let delete = bench.prepare("DELETE FROM ks.t WHERE k = ? AND c = ? IF EXISTS");
        for k in 0..10 {
            assert_eq!(bench.execute(&insert, &[k, 1, 7]), "true");
            assert_eq!(bench.execute(&insert, &[k, 1, 8]), format!("false {k} 1 7"));
            assert_eq!(bench.execute(&update, &[9, k, 1, 8]), "false 7");
            assert_eq!(bench.execute(&update, &[9, k, 1, 7]), "true");
            if k == 5 {
                bench.server.flush();
            }
        }
        for k in 0..10 {
            assert_eq!(bench.execute(&update, &[9, k, 1, 7]), "false 9");
            assert_eq!(bench.execute(&delete, &[k, 1]), "true");
            assert_eq!(bench.execute(&delete, &[k, 1]), "false");
        }
        assert_eq!(bench.query("SELECT * FROM ks.t"), "");
    }
}

#[test]
fn an_applied_write_is_read_whatever_timestamps_were_before() {
    let mut bench = Bench::new(2);
    all_are(
        &mut bench,
        &[
            (
                "INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1) USING TIMESTAMP 9000000000000000",
                "void",
            ),
            ("UPDATE ks.t SET v = 2 WHERE k = 1 AND c = 1 IF v = 1", "true"),
            ("SELECT v FROM ks.t WHERE k = 1", "2"),
            ("DELETE FROM ks.t USING TIMESTAMP 9100000000000000 WHERE k = 1", "void"),
            ("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 3) IF NOT EXISTS", "true"),
            ("SELECT v FROM ks.t WHERE k = 1", "3"),
        ],
    );
    // What a driver says of the time does not count.
    let text = "UPDATE ks.t SET v = 4 WHERE k = 1 AND c = 1 IF v = 3";
    let plain = Parameters::plain(Consistency::One, VERSION);
    let parameters = Parameters { timestamp_us: Some(5), ..plain };
    assert_eq!(bench.show(&Request::Query(Query { text, parameters })), "true");
    assert_eq!(bench.query("SELECT v FROM ks.t WHERE k = 1"), "4");
}

/// Before: the key was evaluated for the conditions, and once more for what is written: the row of another key was
/// written, mostly on another core than that which looked.
#[test]
fn a_key_that_is_another_each_time_is_evaluated_once() {
    let mut bench = Bench::new(2);
    bench.query("CREATE TABLE ks.u (k uuid PRIMARY KEY, v int)");
    for _ in 0..20 {
        assert_eq!(bench.query("UPDATE ks.u SET v = 1 WHERE k = uuid() IF EXISTS"), "false");
    }
    assert_eq!(bench.query("SELECT v FROM ks.u"), "");
}

/// A batch of updates by id, `[v, k, c, old v]`, and an insert by text.
fn batch(bench: &mut Bench, update: &[u8], updates: &[[i32; 4]]) -> String {
    let lists: Vec<ValueList> = updates
        .iter()
        .map(|values| {
            let mut list = ValueList::new();
            values.iter().for_each(|value| list.push(Value::Bytes(&value.to_be_bytes())));
            list
        })
        .collect();
    let (parameters, mut items) = (Parameters::plain(Consistency::One, VERSION), Vec::new());
    let text = BatchText::Query("INSERT INTO ks.t (k, c, v) VALUES (1, 3, 3)");
    let insert = BatchStatement { text, values: parameters.values };
    let updates = lists.iter().map(|list| BatchStatement {
        text: BatchText::Prepared(update),
        values: list.as_values(VERSION),
    });
    let all: Vec<BatchStatement<'_>> = updates.chain([insert]).collect();
    let batch = Batch::new(BatchKind::Logged, &all, parameters, VERSION, &mut items);
    bench.show(&Request::Batch(batch))
}

#[test]
fn a_batch_with_conditions_is_done_as_a_whole_or_not() {
    let mut bench = Bench::new(3);
    let update = bench.prepare("UPDATE ks.t SET v = ? WHERE k = ? AND c = ? IF v = ?");
    let rows = [
        ("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1)", "void"),
        ("INSERT INTO ks.t (k, c, v) VALUES (1, 2, 2)", "void"),
    ];
    all_are(&mut bench, &rows);
    let not_applied = batch(&mut bench, &update, &[[5, 1, 1, 1], [6, 1, 2, 9]]);
    assert_eq!(not_applied, "false 1 1 1, false 1 2 2");
    assert_eq!(bench.query("SELECT v FROM ks.t WHERE k = 1"), "1, 2");
    assert_eq!(batch(&mut bench, &update, &[[5, 1, 1, 1], [6, 1, 2, 2]]), "true");
    assert_eq!(bench.query("SELECT v FROM ks.t WHERE k = 1"), "5, 6, 3");
    let refused = batch(&mut bench, &update, &[[5, 1, 1, 1], [6, 2, 2, 2]]);
    assert_eq!(refused, "error: Batch with conditions cannot span multiple partitions");
    let text = "BEGIN BATCH UPDATE ks.t SET v = 0 WHERE k = 1 AND c = 1 IF v = 5; \
                DELETE FROM ks.t WHERE k = 1 AND c > 1; APPLY BATCH";
    assert_eq!(bench.query(text), "true");
    assert_eq!(bench.query("SELECT v FROM ks.t WHERE k = 1"), "0");
}

/// Before: a deletion had the time of the batch and won over what the batch wrote beside it.
#[test]
fn what_a_conditional_batch_writes_stays_beside_what_it_deletes() {
    let mut bench = Bench::new(2);
    assert_eq!(bench.query("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1)"), "void");
    for deleted in ["k = 1", "k = 1 AND c > 0", "k = 1 AND c = 1"] {
        let text = format!(
            "BEGIN BATCH UPDATE ks.t SET v = 7 WHERE k = 1 AND c = 1 IF EXISTS; \
             DELETE FROM ks.t WHERE {deleted}; INSERT INTO ks.t (k, c) VALUES (1, 2); APPLY BATCH"
        );
        assert_eq!(bench.query(&text), "true", "{deleted}");
        assert_eq!(bench.query("SELECT v FROM ks.t WHERE k = 1 AND c = 1"), "7", "{deleted}");
    }
}

#[test]
fn levels_are_kept_or_refused_in_cassandras_words() {
    let mut bench = Bench::new(1);
    let update = "UPDATE ks.t SET v = 1 WHERE k = 1 AND c = 1 IF v = null";
    let batch = "BEGIN BATCH INSERT INTO ks.t (k, c) VALUES (2, 1) IF NOT EXISTS; APPLY BATCH";
    for level in [Consistency::Serial, Consistency::LocalSerial] {
        let refusal = format!(
            "error: {} is not supported as conditional update commit consistency. Use ANY if you mean",
            level.name()
        );
        for text in [update, batch] {
            let refused = at_level(&mut bench, text, level);
            assert!(refused.starts_with(&refusal), "{refused}");
        }
        assert_eq!(at_level(&mut bench, "SELECT v FROM ks.t WHERE k = 1", level), "");
    }
    let refused = at_level(&mut bench, update, Consistency::Two);
    assert_eq!(refused, "error: Cannot achieve consistency level TWO");
    assert_eq!(at_level(&mut bench, update, Consistency::Any), "true");
    let plain = Parameters::plain(Consistency::One, VERSION);
    let parameters = Parameters { serial_consistency: Some(Consistency::One), ..plain };
    let refused = bench.show(&Request::Query(Query { text: update, parameters }));
    assert!(refused.starts_with("error: Invalid consistency for conditional update"), "{refused}");
}

/// Its turn comes when the truncation is over, after the client was told; what becomes of it is known then.
#[test]
fn a_conditional_write_that_takes_too_long_is_told_as_cas() {
    let mut bench = Bench::new(1);
    let update = "UPDATE ks.t SET v = 1 WHERE k = 1 AND c = 1 IF v = null USING";
    assert!(bench.query(update).starts_with("error: line 1:"), "USING stands before SET");
    let truncated = bench.server.on_first_core(async |shard| {
        let table = shard.schema().table("ks", "t").unwrap().id;
        shard.engine().announce_truncation(table).await.unwrap();
        table
    });
    let update = "UPDATE ks.t USING TIMEOUT 0ms SET v = 1 WHERE k = 1 AND c = 1 IF v = null";
    let parameters = Parameters::plain(Consistency::One, VERSION);
    bench.begin(&Request::Query(Query { text: update, parameters }));
    bench.server.advance(Duration::from_millis(1));
    let answers = bench.answers();
    let answer = answers.values().next().unwrap();
    let late = "error: CAS operation timed out: received 0 of 1 required responses";
    assert!(answer.starts_with(late), "{answer}");
    let over = async move |shard: Rc<Shard<_>>| shard.engine().end_cut(truncated.unwrap());
    bench.server.on_first_core(over);
    // Judged behind the one in doubt.
    let again = "UPDATE ks.t SET v = 1 WHERE k = 1 AND c = 1 IF v = null";
    assert_eq!(bench.query(again), "false 1");
    assert_eq!(bench.query("SELECT v FROM ks.t WHERE k = 1"), "1");
}

/// Before: rows of answers that were not applied were held without a bound, 64 MiB on a core with 4.
#[test]
fn answers_of_writes_that_are_not_applied_are_bounded_together() {
    let mut bench = Bench::new(1);
    let table = "CREATE TABLE ks.long (k int PRIMARY KEY, v text)";
    assert_eq!(bench.query(table), "CREATED TABLE ks long");
    let long = "x".repeat(50_000);
    for k in 0..5 {
        let insert = format!("INSERT INTO ks.long (k, v) VALUES ({k}, '{long}')");
        assert_eq!(bench.query(&insert), "void");
    }
    // Other answers leave 124 KB of an eighth of 4 MiB.
    let mut others = bench.server.executor(0).answers.lease();
    assert!(others.hold(400_000));
    // Each of a partition of its own, so that all are judged before the first is answered.
    let text = |k| format!("INSERT INTO ks.long (k, v) VALUES ({k}, 'y') IF NOT EXISTS");
    for k in 0..5 {
        let parameters = Parameters::plain(Consistency::One, VERSION);
        bench.begin(&Request::Query(Query { text: &text(k), parameters }));
    }
    while bench.server.run_tasks() {}
    let answers = bench.answers();
    assert_eq!(answers.len(), 5, "each is answered");
    let told = answers.values().filter(|answer| answer.ends_with(&long)).count();
    let refused = answers.values().filter(|answer| answer.contains("memory of answers")).count();
    assert!(refused > 0 && told + refused == 5, "{told} and {refused}");
    drop(others);
    assert_eq!(bench.query(&text(1)), format!("false 1 {long}"), "what was held is given back");
}

/// For drivers that send conditional writes of one partition to one place.
#[test]
fn prepared_conditional_writes_are_marked_for_who_asks() {
    let mut bench = Bench::new(2);
    let texts = [
        ("UPDATE ks.t SET v = ? WHERE k = ? AND c = ? IF v = ?", true),
        ("BEGIN BATCH INSERT INTO ks.t (k, c) VALUES (?, 1) IF NOT EXISTS; APPLY BATCH", true),
        ("UPDATE ks.t SET v = ? WHERE k = ? AND c = ?", false),
        ("SELECT v FROM ks.t WHERE k = ?", false),
    ];
    let is_marked = |bench: &mut Bench, text| {
        let frame = bench.ask(&Request::Prepare(Prepare { text, keyspace: None }));
        let header = Header::decode(&frame, Direction::Response).unwrap().unwrap();
        match Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap().reply {
            Reply::Prepared(prepared) => prepared.is_marked,
            other => panic!("{other:?}"),
        }
    };
    assert!(texts.iter().all(|(text, _)| !is_marked(&mut bench, text)), "the client has not asked");
    let mut options = Vec::new();
    let told = [("CQL_VERSION", "3.0.0"), ("SCYLLA_LWT_ADD_METADATA_MARK", "2147483648")];
    writer::string_map(&mut options, told.into_iter());
    let options = Reader::new(&options).string_map().unwrap();
    bench.ask(&Request::Startup(Startup { options }));
    for (text, marked) in texts {
        assert_eq!(is_marked(&mut bench, text), marked, "{text}");
    }
}
