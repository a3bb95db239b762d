//! Changes of counters with names, which are sent again: counted once.

use cql::frame::request::Values;

use super::*;
use crate::limits::REQUEST_ID_KEPT_S;

const ADD: &str = "UPDATE ks.n SET a += 1 WHERE k = 1 AND c = 1";

fn with_counters(disk: &Disk, shards: usize) -> Bench {
    let mut bench = Bench::make(disk, &small(shards));
    let tables = ["n", "m"];
    for table in tables {
        let columns = "k int, c int, s counter static, a counter, PRIMARY KEY (k, c)";
        let made = bench.query(&format!("CREATE TABLE ks.{table} ({columns})"));
        assert_eq!(made, format!("CREATED TABLE ks {table}"));
    }
    bench
}

fn new(shards: usize) -> Bench {
    with_counters(&Disk::Sim(SimDisk::new(1, Faults::default())), shards)
}

/// What a text with a name is answered, and for how long the name is said to be kept.
fn named(bench: &mut Bench, text: &str, name: &[u8]) -> (String, Option<u32>) {
    let plain = Parameters::plain(Consistency::One, VERSION);
    let parameters = Parameters { request_id: Some(name), ..plain };
    asked(bench, &Request::Query(Query { text, parameters }))
}

fn asked(bench: &mut Bench, request: &Request<'_>) -> (String, Option<u32>) {
    let frame = bench.ask(request);
    let header = Header::decode(&frame, Direction::Response).unwrap().unwrap();
    let answer = Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap();
    (shown(&answer), answer.kept_s)
}

fn done() -> (String, Option<u32>) {
    ("void".to_owned(), Some(REQUEST_ID_KEPT_S))
}

#[test]
fn a_change_that_is_sent_again_with_its_name_is_counted_once() {
    for shards in [1, 3] {
        let mut bench = new(shards);
        for k in 0..10 {
            let text = format!("UPDATE ks.n SET a += 5, s += 1 WHERE k = {k} AND c = 1");
            for name in [1, 2, 1, 2, 1] {
                assert_eq!(named(&mut bench, &text, &[name; 16]), done());
                if k % 3 == 0 {
                    bench.server.flush();
                }
            }
            assert_eq!(bench.query(&text), "void");
            assert_eq!(bench.query(&format!("SELECT s, a FROM ks.n WHERE k = {k}")), "3 15");
        }
        // A name is of a partition of a table.
        assert_eq!(
            named(&mut bench, "UPDATE ks.m SET a += 7 WHERE k = 1 AND c = 1", &[1; 16]),
            done()
        );
        assert_eq!(bench.query("SELECT a FROM ks.m WHERE k = 1"), "7");
    }
}

#[test]
fn copies_that_are_under_way_at_once_are_counted_once() {
    for shards in [1, 3] {
        let mut bench = new(shards);
        let plain = Parameters::plain(Consistency::One, VERSION);
        for copy in 0..60_u8 {
            let name = [copy % 3; 16];
            let parameters = Parameters { request_id: Some(&name), ..plain };
            bench.begin(&Request::Query(Query { text: ADD, parameters }));
        }
        assert!(bench.answers().values().all(|answer| answer == "void"));
        assert_eq!(bench.query("SELECT a FROM ks.n WHERE k = 1"), "3");
    }
}

#[test]
fn batches_and_prepared_changes_have_names_too() {
    let mut bench = new(2);
    let counted = "BEGIN COUNTER BATCH UPDATE ks.n SET a += 1 WHERE k = 1 AND c = 1; UPDATE ks.n SET a += 2 WHERE k = 1 AND c = 2; APPLY BATCH";
    for _ in 0..3 {
        assert_eq!(named(&mut bench, counted, &[1; 16]), done());
    }
    let id = bench.prepare(ADD);
    let name = [2; 16];
    let plain = Parameters::plain(Consistency::One, VERSION);
    let parameters = Parameters { request_id: Some(&name), ..plain };
    for _ in 0..3 {
        let execute = Execute { id: &id, result_metadata_id: None, parameters };
        assert_eq!(asked(&mut bench, &Request::Execute(execute)), done());
    }
    let name = [3; 16];
    let parameters = Parameters { request_id: Some(&name), ..plain };
    let values = Values::none(VERSION);
    let statements = [BatchStatement { text: BatchText::Query(ADD), values }; 2];
    for _ in 0..3 {
        let mut items = Vec::new();
        let batch = Batch::new(BatchKind::Counter, &statements, parameters, VERSION, &mut items);
        assert_eq!(asked(&mut bench, &Request::Batch(batch)), done());
    }
    // A deletion is done once, too: what was added after it stays.
    assert_eq!(bench.query("SELECT a FROM ks.n WHERE k = 1"), "4, 2");
    for _ in 0..2 {
        assert_eq!(named(&mut bench, "DELETE FROM ks.n WHERE k = 1", &[4; 16]), done());
        assert_eq!(bench.query(ADD), "void");
    }
    assert_eq!(bench.query("SELECT a FROM ks.n WHERE k = 1"), "2");
}

#[test]
fn names_outlive_a_kill_and_a_change_of_the_number_of_cores() {
    let mut sim = SimDisk::new(1, Faults::default());
    let mut bench = with_counters(&Disk::Sim(sim.clone()), 1);
    let add = |k: i32| format!("UPDATE ks.n SET a += 1 WHERE k = {k} AND c = 1");
    (0..20).for_each(|k| assert_eq!(named(&mut bench, &add(k), &[9; 16]), done()));
    bench.server.flush();
    (20..40).for_each(|k| assert_eq!(named(&mut bench, &add(k), &[9; 16]), done()));
    for shards in [3, 2] {
        sim = sim.kill();
        drop(bench);
        bench = Bench::open(&Disk::Sim(sim.clone()), &small(shards));
        (0..40).for_each(|k| assert_eq!(named(&mut bench, &add(k), &[9; 16]), done()));
        assert_eq!(bench.query("SELECT sum(a), count(a) FROM ks.n"), "40 40");
    }
}

#[test]
fn a_name_is_known_for_ten_minutes() {
    let mut bench = new(2);
    let now_us = shard::clock::Clock::new().wall_us();
    let kept_us = i64::from(REQUEST_ID_KEPT_S) * 1_000_000;
    // As the server says it, whatever the client says of the time.
    let plain = Parameters::plain(Consistency::One, VERSION);
    let name = [1; 16];
    let parameters = Parameters { request_id: Some(&name), timestamp_us: Some(1), ..plain };
    for (after_us, counted) in [(0, "1"), (kept_us - 5_000_000, "1"), (kept_us + 5_000_000, "2")] {
        bench.server.set_wall_us(now_us + after_us);
        let query = Request::Query(Query { text: ADD, parameters });
        assert_eq!(asked(&mut bench, &query), done());
        assert_eq!(bench.query("SELECT a FROM ks.n"), counted);
    }
}

/// It was done, and then the table was emptied: done again it would be there.
#[test]
fn what_a_truncation_has_taken_does_not_come_back() {
    let mut bench = new(2);
    assert_eq!(named(&mut bench, ADD, &[1; 16]), done());
    assert_eq!(bench.query("TRUNCATE ks.n"), "void");
    assert_eq!(named(&mut bench, ADD, &[1; 16]), done());
    assert_eq!(bench.query("SELECT a FROM ks.n"), "");
    assert_eq!(bench.query("DROP TABLE ks.n"), "DROPPED TABLE ks n");
    let columns = "k int, c int, a counter, PRIMARY KEY (k, c)";
    assert_eq!(bench.query(&format!("CREATE TABLE ks.n ({columns})")), "CREATED TABLE ks n");
    assert_eq!(named(&mut bench, ADD, &[1; 16]), done());
    assert_eq!(bench.query("SELECT a FROM ks.n"), "1");
}

#[test]
fn a_name_that_means_nothing_is_refused() {
    let mut bench = new(2);
    let nothing = "error: messina-request-id names a change of counters; other statements have no use for it (docs/conditional-writes.md says how to send a conditional write again)";
    for text in [
        "SELECT * FROM ks.n",
        "INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1)",
        "INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1) IF NOT EXISTS",
        "BEGIN BATCH INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1); APPLY BATCH",
        "BEGIN BATCH APPLY BATCH",
        "TRUNCATE ks.n",
        "CREATE TABLE ks.o (k int PRIMARY KEY)",
    ] {
        assert_eq!(named(&mut bench, text, &[1; 16]), (nothing.to_owned(), None), "{text}");
    }
    let name = [1; 16];
    let plain = Parameters::plain(Consistency::One, VERSION);
    let parameters = Parameters { request_id: Some(&name), ..plain };
    let values = Values::none(VERSION);
    let text = BatchText::Query("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1)");
    for statements in [&[BatchStatement { text, values }][..], &[]] {
        let mut items = Vec::new();
        let batch = Batch::new(BatchKind::Logged, statements, parameters, VERSION, &mut items);
        assert_eq!(asked(&mut bench, &Request::Batch(batch)), (nothing.to_owned(), None));
    }
    for length in [0, 15, 17] {
        let (answer, _) = named(&mut bench, ADD, &vec![1; length]);
        assert_eq!(answer, format!("error: messina-request-id has 16 bytes and not {length}"));
    }
    let several = "BEGIN COUNTER BATCH UPDATE ks.n SET a += 1 WHERE k = 1 AND c = 1; UPDATE ks.n SET a += 1 WHERE k = 2 AND c = 1; APPLY BATCH";
    let refused = "error: messina-request-id names a change of one partition, and this one is of several: send one for each";
    assert_eq!(named(&mut bench, several, &[1; 16]).0, refused);
    let several = "UPDATE ks.n SET a += 1 WHERE k IN (1, 2) AND c = 1";
    assert_eq!(named(&mut bench, several, &[1; 16]).0, refused);
    assert_eq!(bench.query("SELECT * FROM ks.n"), "");
    assert_eq!(bench.query("SELECT * FROM ks.t"), "");
}
