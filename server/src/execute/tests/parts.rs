//! Aggregates over ranges: each core makes its part.

use super::*;
use crate::limits::AGGREGATES_IN_PARTS_MAX;

/// A table of 30 partitions with values of every kind of sum, on so many cores.
fn with_values(shards: usize, config: &str) -> Bench {
    let mut bench = Bench::new(shards);
    let columns = "k int, c int, s int static, b bigint, f double, d decimal, v varint, t text";
    let table = format!("CREATE TABLE ks.a ({columns}, PRIMARY KEY (k, c))");
    assert_eq!(bench.query(&table), "CREATED TABLE ks a");
    for k in 0..30_i64 {
        assert_eq!(bench.query(&format!("INSERT INTO ks.a (k, s) VALUES ({k}, {k})")), "void");
        for c in 0..k % 4 {
            let (b, f) = (i64::MAX - k, 0.1 * k as f64);
            let insert = format!(
                "INSERT INTO ks.a (k, c, b, f, d, v, t) VALUES ({k}, {c}, {b}, {f}, {f}, {b}, 'text{k}')"
            );
            assert_eq!(bench.query(&insert), "void");
        }
        if k == 15 && config == "disk" {
            bench.server.flush();
        }
    }
    bench
}

/// Also where a result depends on the order of the rows: of sums of floats every bit is the same.
#[test]
fn an_aggregate_is_the_same_on_any_number_of_cores() {
    let statements = [
        "SELECT count(*) FROM ks.a",
        "SELECT count(b), min(t), max(t), min(d), max(v) FROM ks.a",
        "SELECT k, c, sum(b), avg(b), sum(v), avg(v), sum(d) FROM ks.a",
        "SELECT sum(f), avg(f), avg(d) FROM ks.a",
        "SELECT k, s, count(*), sum(f), avg(d) FROM ks.a GROUP BY k",
        "SELECT k, c, max(b) FROM ks.a GROUP BY k, c LIMIT 11",
        "SELECT k, c, max(b) FROM ks.a GROUP BY k, c PER PARTITION LIMIT 1",
        "SELECT count(*), sum(b) FROM ks.a WHERE c = 1 ALLOW FILTERING",
        "SELECT count(*), max(t) FROM ks.a WHERE token(k) > 0",
        "SELECT count(*), sum(f) FROM ks.a WHERE token(k) > 100 AND token(k) < 100",
        "SELECT count(*), min(b), sum(b), sum(f) FROM ks.a WHERE c = 77 ALLOW FILTERING",
        "SELECT DISTINCT k, count(*) FROM ks.a GROUP BY k",
    ];
    for stored in ["memory", "disk"] {
        let mut alone = with_values(1, stored);
        let mut many: Vec<Bench> = [2, 3, 5].map(|shards| with_values(shards, stored)).into();
        for text in statements {
            let expected = alone.query(text);
            for bench in &mut many {
                assert_eq!(bench.query(text), expected, "{text}");
                let id = bench.prepare(text);
                let request = Request::Execute(Execute {
                    id: &id,
                    result_metadata_id: None,
                    parameters: Parameters::plain(Consistency::One, VERSION),
                });
                assert_eq!(bench.show(&request), expected, "{text}");
            }
        }
        assert_eq!(alone.server.parts_asked(), 0, "one core has it all");
        for bench in &many {
            assert_eq!(bench.server.held(), (0, 0, 0));
        }
    }
}

/// Markers are bound by each core, from the request.
#[test]
fn parts_see_the_values_of_the_request() {
    let mut bench = with_values(3, "memory");
    let id = bench.prepare("SELECT count(*) FROM ks.a WHERE c = ? ALLOW FILTERING");
    assert_eq!(bench.execute(&id, &[2]), "7");
    assert_eq!(bench.execute(&id, &[3]), "0");
    assert_eq!(bench.server.parts_asked(), 4, "of two others, for each");
}

/// Before: rows came to the core that was asked, in pieces: a count of the table was as slow as reading it.
#[test]
fn other_cores_are_asked_for_parts_and_no_more_than_are_wanted() {
    let mut bench = with_values(3, "memory");
    let mut asked = 0;
    let mut parts = |bench: &mut Bench, text: &str| {
        assert!(!bench.query(text).starts_with("error"), "{text}");
        let before = std::mem::replace(&mut asked, bench.server.parts_asked());
        asked - before
    };
    assert_eq!(parts(&mut bench, "SELECT count(*) FROM ks.a"), 2);
    assert_eq!(parts(&mut bench, "SELECT sum(f) FROM ks.a"), 2);
    assert_eq!(parts(&mut bench, "SELECT k, count(*) FROM ks.a GROUP BY k"), 2);
    assert_eq!(parts(&mut bench, "SELECT k, count(*) FROM ks.a GROUP BY k LIMIT 1"), 0);
    assert_eq!(parts(&mut bench, "SELECT count(*) FROM ks.a WHERE k IN (1, 2, 3)"), 0);
    assert_eq!(parts(&mut bench, "SELECT k FROM ks.a"), 0);
}

/// What one core refuses is the answer, in the words that one core alone has for it.
#[test]
fn an_error_of_a_part_is_that_of_the_whole() {
    let digits = "9".repeat(30);
    for shards in [1, 3] {
        let mut bench = Bench::new(shards);
        assert_eq!(
            bench.query("CREATE TABLE ks.d (k int PRIMARY KEY, d decimal)"),
            "CREATED TABLE ks d"
        );
        for (k, d) in [(1, "1e-9000"), (2, "1e9000"), (3, &*digits), (4, "1e-9999"), (5, "1e9999")]
        {
            assert_eq!(bench.query(&format!("INSERT INTO ks.d (k, d) VALUES ({k}, {d})")), "void");
        }
        let error = "error: the sum of these decimals has too many digits";
        assert_eq!(bench.query("SELECT sum(d) FROM ks.d"), error, "{shards}");
        assert_eq!(bench.query("SELECT count(*) FROM ks.d"), "5");
        assert_eq!(bench.server.held(), (0, 0, 0));
    }
}

/// Before: hundreds of parts at once, each with a place in a mailbox, left none for writes.
#[test]
fn a_few_aggregates_at_a_time_are_made_in_parts() {
    let mut bench = with_values(3, "memory");
    let before = bench.server.parts_asked();
    let clients: Vec<ClientId> = (0..50).map(|_| bench.server.connect(0, VERSION)).collect();
    for client in &clients {
        bench.begin_as(*client, "SELECT count(*), sum(d) FROM ks.a");
    }
    clients.iter().for_each(|client| bench.server.run_until_answered(*client));
    let answers: Vec<_> = clients.iter().flat_map(|client| bench.answers_to(*client)).collect();
    assert_eq!(answers.len(), 50);
    assert!(answers.iter().all(|(_, answer)| *answer == answers[0].1), "{answers:?}");
    let asked = (bench.server.parts_asked() - before) as usize;
    assert!((1..=2 * AGGREGATES_IN_PARTS_MAX).contains(&asked), "{asked} parts");
    assert_eq!(bench.server.held(), (0, 0, 0));
}
