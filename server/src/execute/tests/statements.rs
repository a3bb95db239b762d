//! What `system_views.statements` tells.

use super::*;

const TABLE: &str = "system_views.statements";

/// Columns of the entry of a fingerprint.
fn told(bench: &mut Bench, columns: &str, fingerprint: &str) -> String {
    bench.query(&format!("SELECT {columns} FROM {TABLE} WHERE statement = '{fingerprint}'"))
}

/// Whichever core runs them, by id or by text: one row, with all that any core has counted.
#[test]
fn statements_of_all_cores_are_added_up_by_fingerprint() {
    for shards in [1, 3] {
        let mut bench = Bench::new(shards);
        let write = bench.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)");
        let read = bench.prepare("SELECT v FROM ks.t WHERE k = ?");
        for k in 0..40 {
            assert_eq!(bench.execute(&write, &[k, 1, k]), "void");
            assert_eq!(bench.execute(&read, &[k]), k.to_string());
        }
        for k in 0..5 {
            assert_eq!(bench.query(&format!("select v from ks.t where k = {k}")), k.to_string());
            let none = format!("SELECT v FROM ks.t WHERE k = {} -- none", 1000 + k);
            assert_eq!(bench.query(&none), "");
        }
        let counts = "executions, errors, rows, blocks_read";
        let reads = told(&mut bench, counts, "select v from ks.t where k = ?");
        assert_eq!(reads, "50 0 45 0", "{shards} shards");
        let writes = told(&mut bench, counts, "insert into ks.t(k, c, v) values (?, ?, ?)");
        assert_eq!(writes, "40 0 0 0", "{shards} shards");
        // A VOID of v4 has nine bytes of header and four of kind.
        let bytes = told(&mut bench, "bytes", "insert into ks.t(k, c, v) values (?, ?, ?)");
        assert_eq!(bytes, (40 * 13).to_string());
        let latencies =
            told(&mut bench, "p50_us, p99_us, max_us", "select v from ks.t where k = ?");
        let latencies: Vec<i64> = latencies.split(' ').map(|us| us.parse().unwrap()).collect();
        assert!(latencies[0] > 0 && latencies.is_sorted(), "{latencies:?}");
        assert_eq!(told(&mut bench, "keyspace_name", "select v from ks.t where k = ?"), "");
    }
}

/// A block is counted for the read that read it, on whichever core, and only when it was not in the cache.
#[test]
fn blocks_are_counted_for_the_statement_that_reads_them() {
    for shards in [1, 3] {
        let mut bench = Bench::new(shards);
        for k in 0..30 {
            bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 1)"));
        }
        bench.server.flush();
        let blocks = |bench: &mut Bench, fingerprint: &str| -> u64 {
            told(bench, "blocks_read", fingerprint).parse().unwrap()
        };
        let (one, all) = ("select v from ks.t where k = ?", "select c from ks.t");
        assert_eq!(bench.query("SELECT v FROM ks.t WHERE k = 7"), "1");
        let first = blocks(&mut bench, one);
        assert!(first >= 1, "{shards} shards");
        assert_eq!(bench.query("SELECT v FROM ks.t WHERE k = 7"), "1");
        assert_eq!(blocks(&mut bench, one), first, "it is in the cache");
        bench.query("SELECT c FROM ks.t");
        // The one block that is cached is not read again.
        assert_eq!(blocks(&mut bench, all), shards as u64 - 1, "{shards} shards");
        bench.query("SELECT sum(v) FROM ks.t");
        let sum = blocks(&mut bench, "select sum(v) from ks.t");
        assert_eq!(sum, shards as u64 - 1, "a scan keeps no block");
    }
}

/// All of what waits is timed, not one in so many.
#[test]
fn what_waits_is_timed_to_its_end() {
    let mut bench = Bench::new(1);
    bench.query("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1)");
    let read = bench.prepare("SELECT c, v FROM ks.t");
    for _ in 0..200 {
        assert_eq!(bench.execute(&read, &[]), "1 1");
    }
    let p50_us: u64 = told(&mut bench, "p50_us", "select c, v from ks.t").parse().unwrap();
    assert!(p50_us > 0);
}

/// Errors of execution count, those of the language have no fingerprint; a batch is one execution.
#[test]
fn errors_and_batches_are_counted() {
    let mut bench = Bench::new(2);
    bench.query("USE ks");
    let refused = bench.query("INSERT INTO system.local (key) VALUES ('x')");
    assert!(refused.starts_with("error: system keyspace is not user-modifiable"), "{refused}");
    let counts = "executions, errors, keyspace_name";
    let told_of = told(&mut bench, counts, "insert into system.local(key) values (?)");
    assert_eq!(told_of, "1 1 ");
    assert!(bench.query("SELECT nothing FROM t").starts_with("error: "));
    assert_eq!(told(&mut bench, counts, "select nothing from t"), "");
    let insert = |k: i32| format!("INSERT INTO t (k, c) VALUES ({k}, 1)");
    let (first, second) = (insert(1), insert(2));
    for kind in [BatchKind::Logged, BatchKind::Unlogged, BatchKind::Unlogged] {
        let (parameters, mut items) = (Parameters::plain(Consistency::One, VERSION), Vec::new());
        let one = |text| BatchStatement { text: BatchText::Query(text), values: parameters.values };
        let statements = [one(&first), one(&second)];
        let batch = Batch::new(kind, &statements, parameters, VERSION, &mut items);
        assert_eq!(bench.show(&Request::Batch(batch)), "void");
    }
    let of_batch = |kind: &str| format!("begin {kind}batch insert into t(k, c) values (?, ?); ...");
    assert_eq!(told(&mut bench, counts, &of_batch("")), "1 0 ks");
    assert_eq!(told(&mut bench, counts, &of_batch("unlogged ")), "2 0 ks");
}

/// `STATEMENTS_MAX`: what is executed much stays, however many others come.
#[test]
fn what_is_used_much_is_told_after_a_flood_of_others() {
    let mut bench = Bench::new(1);
    let read = bench.prepare("SELECT v FROM ks.t WHERE k = ?");
    for n in 0..2 * crate::limits::STATEMENTS_MAX {
        bench.execute(&read, &[1]);
        bench.query(&format!("SELECT v AS v{n} FROM ks.t WHERE k = 1"));
    }
    let executions = told(&mut bench, "executions", "select v from ks.t where k = ?");
    assert_eq!(executions, (2 * crate::limits::STATEMENTS_MAX).to_string());
    let all: usize = bench.query(&format!("SELECT count(*) FROM {TABLE}")).parse().unwrap();
    assert!(all <= crate::limits::STATEMENTS_MAX, "{all}");
}
