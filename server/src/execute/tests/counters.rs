//! Counters, through requests of a client, on one core and on several.

use engine::limits::READING_WRITES_QUEUED_MAX;
use model::Token;

use super::batches::timed_out;
use super::*;

fn with_counters(shards: usize) -> Bench {
    let mut bench = Bench::new(shards);
    let table = "CREATE TABLE ks.n (k int, c int, s counter static, a counter, b counter, PRIMARY KEY (k, c))";
    assert_eq!(bench.query(table), "CREATED TABLE ks n");
    bench
}

#[test]
fn counters_add_up_on_whichever_core_they_are_and_start_anew_after_a_deletion() {
    for shards in [1, 3] {
        let mut bench = with_counters(shards);
        for k in 0..10 {
            for by in [5, -2, 40] {
                let text = format!("UPDATE ks.n SET a += {by}, s += 1 WHERE k = {k} AND c = 1");
                assert_eq!(bench.query(&text), "void");
            }
            let read = format!("SELECT s, a, b FROM ks.n WHERE k = {k}");
            assert_eq!(bench.query(&read), "3 43 null");
            bench.server.flush();
            assert_eq!(
                bench.query(&format!("UPDATE ks.n SET a -= 3 WHERE k = {k} AND c = 1")),
                "void"
            );
            assert_eq!(bench.query(&read), "3 40 null");
            assert_eq!(bench.query(&format!("DELETE a FROM ks.n WHERE k = {k} AND c = 1")), "void");
            assert_eq!(
                bench.query(&format!("UPDATE ks.n SET a += 7 WHERE k = {k} AND c = 1")),
                "void"
            );
            assert_eq!(bench.query(&read), "3 7 null");
            assert_eq!(bench.query(&format!("DELETE FROM ks.n WHERE k = {k}")), "void");
            assert_eq!(
                bench.query(&format!("UPDATE ks.n SET a += 1 WHERE k = {k} AND c = 1")),
                "void"
            );
            assert_eq!(bench.query(&read), "null 1 null");
        }
        assert_eq!(bench.query("SELECT sum(a) FROM ks.n"), "10");
    }
}

#[test]
fn requests_that_are_under_way_at_once_are_all_counted() {
    for shards in [1, 3] {
        let mut bench = with_counters(shards);
        let parameters = Parameters::plain(Consistency::One, VERSION);
        let text = "UPDATE ks.n SET a += 1 WHERE k = 1 AND c = 1";
        for _ in 0..50 {
            bench.begin(&Request::Query(Query { text, parameters }));
        }
        assert!(bench.answers().values().all(|answer| answer == "void"));
        assert_eq!(bench.query("SELECT a FROM ks.n WHERE k = 1"), "50");
    }
}

#[test]
fn a_batch_adds_to_counters_of_several_cores_and_to_one_several_times() {
    let mut bench = with_counters(3);
    let adds = |kind: &str| {
        let update = |k: i32| format!("UPDATE ks.n SET a += {k}, b -= 1 WHERE k = {k} AND c = 1; ");
        let updates: String = [1, 2, 3, 4, 1].into_iter().map(update).collect();
        format!("BEGIN {kind} BATCH {updates} APPLY BATCH")
    };
    assert_eq!(bench.query(&adds("COUNTER")), "void");
    assert_eq!(bench.query(&adds("UNLOGGED")), "void");
    for (k, counters) in [(1, "4 -4"), (2, "4 -2"), (3, "6 -2"), (4, "8 -2")] {
        assert_eq!(bench.query(&format!("SELECT a, b FROM ks.n WHERE k = {k}")), counters);
    }
    let refused = "error: Cannot include a counter statement in a logged batch";
    assert_eq!(bench.query(&adds("")), refused);
}

#[test]
fn a_batch_as_a_message_has_counters_alone() {
    let mut bench = with_counters(2);
    let count = "UPDATE ks.n SET a += 2 WHERE k = 1 AND c = 1";
    let plain = "UPDATE ks.t SET v = 2 WHERE k = 1 AND c = 1";
    let mut batch = |kind, texts: &[&str]| {
        let (parameters, mut items) = (Parameters::plain(Consistency::One, VERSION), Vec::new());
        let one = |text| BatchStatement { text: BatchText::Query(text), values: parameters.values };
        let statements: Vec<_> = texts.iter().copied().map(one).collect();
        let batch = Batch::new(kind, &statements, parameters, VERSION, &mut items);
        bench.show(&Request::Batch(batch))
    };
    assert_eq!(batch(BatchKind::Counter, &[count, count]), "void");
    assert_eq!(batch(BatchKind::Unlogged, &[count]), "void");
    for (kind, texts, refused) in [
        (BatchKind::Logged, &[count][..], "Cannot include a counter statement in a logged batch"),
        (
            BatchKind::Counter,
            &[count, plain],
            "Cannot include non-counter statement in a counter batch",
        ),
        (
            BatchKind::Unlogged,
            &[count, plain],
            "Counter and non-counter mutations cannot exist in the same batch",
        ),
    ] {
        assert_eq!(batch(kind, texts), format!("error: {refused}"));
    }
    assert_eq!(bench.query("SELECT a FROM ks.n WHERE k = 1"), "6");
}

#[test]
fn levels_that_no_counter_has_are_refused() {
    let mut bench = with_counters(1);
    for (level, refused) in [
        (Consistency::Any, "Consistency level ANY is not yet supported for counter table n"),
        (Consistency::Serial, "Counter operations are inherently non-serializable"),
    ] {
        let text = "UPDATE ks.n SET a += 1 WHERE k = 1 AND c = 1";
        let parameters = Parameters::plain(level, VERSION);
        let answer = bench.show(&Request::Query(Query { text, parameters }));
        assert_eq!(answer, format!("error: {refused}"));
    }
}

/// Before: `OVERLOADED`, after which a driver sends the batch again, and what the other core had counted was counted
/// twice.
#[test]
fn a_batch_that_one_core_refuses_is_in_doubt_if_another_may_have_counted() {
    let mut bench = with_counters(2);
    let first_core = bench.client;
    let second_core = bench.server.connect(1, VERSION);
    let (table, keys) = bench
        .server
        .on_first_core(async |shard| {
            let of = |core| {
                let owner = |k: &i32| shard.sharder().shard_of(Token::of_key(&k.to_be_bytes()));
                (0..).find(|k| owner(k).index() == core).unwrap()
            };
            let table = shard.schema().table("ks", "n").unwrap().id;
            // Changes wait while their table is emptied.
            shard.engine().announce_truncation(table).await.unwrap();
            (table, [of(0), of(1)])
        })
        .unwrap();
    let update = |k: i32| format!("UPDATE ks.n SET a += 1 WHERE k = {k} AND c = 1");
    for _ in 0..READING_WRITES_QUEUED_MAX {
        bench.begin_as(first_core, &update(keys[0]));
    }
    let updates = keys.map(update).join("; ");
    let text = &*format!("BEGIN COUNTER BATCH {updates}; APPLY BATCH");
    let parameters = Parameters::plain(Consistency::One, VERSION);
    bench.client = second_core;
    let frame = bench.ask(&Request::Query(Query { text, parameters }));
    assert_eq!(timed_out(&frame), "COUNTER");
    bench.client = first_core;
    bench.begin_as(first_core, text);
    let refused = bench.answers_to(first_core);
    let said = "error: overloaded: writes that wait for others of one partition";
    assert_eq!(refused.last().map(|(_, said)| &**said), Some(said), "its own part comes first");
    bench.server.on_first_core(async move |shard| shard.engine().end_cut(table));
    assert_eq!(bench.answers().len(), READING_WRITES_QUEUED_MAX);
    let counted = keys.map(|k| bench.query(&format!("SELECT a FROM ks.n WHERE k = {k}")));
    assert_eq!(counted, ["256", "1"]);
}
