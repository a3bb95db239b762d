//! Statements prepared, bound and run on a database of one process, and what is refused of them.

use super::*;
use crate::frame::request::ValueList;
use crate::frame::{Value, Version};
use crate::limits::{BATCH_BYTES_MAX, BATCH_WARN_BYTES};
use crate::plan::PagingState;
use crate::testing::Database;
use model::{CqlType, Resume, Token};

fn bound(values: &[Value<'_>]) -> ValueList {
    let mut list = ValueList::new();
    values.iter().for_each(|value| list.push(*value));
    list
}

fn int(n: i32) -> [u8; 4] {
    n.to_be_bytes()
}

#[test]
fn rows_are_inserted_updated_and_deleted() {
    let mut db = Database::with("k int, c text, v int, s int static, PRIMARY KEY (k, c)");
    db.ok("INSERT INTO t (k, c, v, s) VALUES (1, 'b', 20, 7)");
    db.ok("INSERT INTO t (k, c) VALUES (1, 'a')");
    db.ok("UPDATE t SET v = 30 WHERE k = 1 AND c IN ('c', 'd')");
    assert_eq!(
        db.ok("SELECT c, v, s FROM t"),
        "\"a\", null, 7\n\"b\", 20, 7\n\"c\", 30, 7\n\"d\", 30, 7"
    );
    db.ok("DELETE v FROM t WHERE k = 1 AND c = 'b'");
    db.ok("DELETE FROM t WHERE k = 1 AND c > 'c'");
    db.ok("UPDATE t SET v = null WHERE k = 1 AND c = 'c'");
    assert_eq!(db.ok("SELECT c, v FROM t WHERE k = 1"), "\"a\", null\n\"b\", null");
    db.ok("DELETE FROM t WHERE k = 1 AND c = 'a'");
    assert_eq!(db.ok("SELECT * FROM t"), "1, \"b\", 7, null");
    db.ok("DELETE FROM t WHERE k = 1");
    assert_eq!(db.ok("SELECT * FROM t"), "");
}

#[test]
fn a_partition_with_statics_alone_shows_them_unless_rows_are_asked_for() {
    let mut db = Database::with("k int, c int, v int, s int static, PRIMARY KEY (k, c)");
    db.ok("INSERT INTO t (k, s) VALUES (1, 5)");
    db.ok("UPDATE t SET s = 6 WHERE k = 2");
    assert_eq!(
        db.ok("SELECT k, c, s, v FROM t WHERE k IN (1, 2)"),
        "1, null, 5, null\n2, null, 6, null"
    );
    assert_eq!(db.ok("SELECT * FROM t WHERE k = 1 AND c > 0"), "");
    assert_eq!(db.ok("SELECT DISTINCT k, s FROM t WHERE k = 1"), "1, 5");
}

#[test]
fn slices_orders_and_limits_hold() {
    let mut db = Database::with(
        "k int, a int, b int, PRIMARY KEY (k, a, b)) WITH CLUSTERING ORDER BY (a ASC, b DESC",
    );
    for a in 1..4 {
        for b in 1..4 {
            db.ok(&format!("INSERT INTO t (k, a, b) VALUES (0, {a}, {b})"));
        }
    }
    let mut check = |text: &str, rows: &str| {
        let found = db.ok(&format!("SELECT a, b FROM t WHERE k = 0 {text}"));
        assert_eq!(found.replace(", ", "").replace('\n', " "), rows, "{text}");
    };
    check("", "13 12 11 23 22 21 33 32 31");
    check("ORDER BY a DESC, b ASC", "31 32 33 21 22 23 11 12 13");
    check("ORDER BY a DESC LIMIT 4", "31 32 33 21");
    check("AND a = 2 AND b >= 2", "23 22");
    check("AND a = 2 AND b > 1 AND b < 3", "22");
    check("AND a > 1 AND a <= 2", "23 22 21");
    check("AND a IN (3, 1, 3) AND b = 2", "12 32");
    check("AND a IN (3, 1) AND b < 2", "11 31");
    check("AND (a, b) > (2, 2)", "23 33 32 31");
    check("AND (a, b) >= (2, 2)", "23 22 33 32 31");
    check("AND (a, b) < (2, 2)", "13 12 11 21");
    check("AND (a, b) > (1, 2) AND (a, b) <= (2, 1)", "13 21");
    check("AND (a, b) IN ((1, 1), (3, 3), (9, 9))", "11 33");
    check("AND (a) > (1) AND (a) < (3)", "23 22 21");
    check("AND a > 3", "");
    check("AND a > 2 AND a < 1", "");
    check("AND a BETWEEN 2 AND 3 AND b = 1 ALLOW FILTERING", "21 31");
    check("PER PARTITION LIMIT 2", "13 12");
    check("ORDER BY a ASC, b DESC PER PARTITION LIMIT 2 LIMIT 1", "13");
}

#[test]
fn pages_of_any_size_give_the_same_rows() {
    let mut db = Database::with("k int, c int, v int, PRIMARY KEY (k, c)");
    for n in 0..20 {
        db.ok(&format!("INSERT INTO t (k, c, v) VALUES ({}, {n}, {n})", n % 3));
    }
    for text in [
        "SELECT * FROM t",
        "SELECT * FROM t LIMIT 11",
        "SELECT * FROM t PER PARTITION LIMIT 3",
        "SELECT * FROM t WHERE k IN (2, 0) AND c > 4",
        "SELECT * FROM t WHERE k = 1 ORDER BY c DESC",
        "SELECT DISTINCT k FROM t",
        "SELECT * FROM t WHERE v > 5 AND v < 15 ALLOW FILTERING",
        "SELECT count(*), sum(v) FROM t",
        "SELECT k, count(*), max(c) FROM t GROUP BY k",
        "SELECT k, c FROM t GROUP BY k LIMIT 2",
        "SELECT * FROM t WHERE k IN (2, 0, 1) PER PARTITION LIMIT 2",
        "SELECT * FROM t WHERE k IN (2, 0, 1) PER PARTITION LIMIT 3 LIMIT 7",
        "SELECT DISTINCT k FROM t WHERE k IN (2, 0, 1)",
        "SELECT DISTINCT k FROM t WHERE k IN (2, 0, 1) LIMIT 2",
        "SELECT * FROM t WHERE k = 1 AND (c) IN ((1), (4), (7)) ORDER BY c DESC",
        "SELECT k, count(*) FROM t WHERE k IN (2, 0, 1) GROUP BY k LIMIT 2",
    ] {
        db.page_rows = None;
        let whole = db.ok(text);
        assert!(!whole.is_empty());
        for rows in 1..8 {
            db.page_rows = Some(rows);
            assert_eq!(db.ok(text), whole, "{text} by {rows}");
        }
    }
}

/// A table of five partitions: four with rows (b, c) of 0..3 by 0..2, the last with a static alone.
fn five_partitions() -> Database {
    let mut db = Database::with("a int, b int, c int, d int, s int static, PRIMARY KEY (a, b, c)");
    for a in 0..5 {
        db.ok(&format!("INSERT INTO t (a, s) VALUES ({a}, {a}0)"));
        for (b, c) in (0..6).map(|n| (n / 2, n % 2)).filter(|_| a < 4) {
            db.ok(&format!("INSERT INTO t (a, b, c, d) VALUES ({a}, {b}, {c}, {a}{b}{c})"));
        }
    }
    db
}

/// Each answer is that of Apache Cassandra 5.0.9.
#[test]
fn groups_over_several_partitions_are_ordered() {
    let mut db = five_partitions();
    let mut check = |text: &str, rows: &str| assert_eq!(db.ok(text), rows, "{text}");
    check("SELECT count(*) FROM t WHERE a IN (1, 2, 4) ORDER BY b DESC", "13");
    check(
        "SELECT a, b, count(*) FROM t WHERE a IN (1, 2, 4) GROUP BY a, b ORDER BY b DESC, c DESC",
        "1, 2, 2\n2, 2, 2\n1, 1, 2\n2, 1, 2\n1, 0, 2\n2, 0, 2\n4, null, 1",
    );
    check(
        "SELECT a, b, count(*) FROM t WHERE a IN (1, 2, 3) GROUP BY a, b ORDER BY b DESC, c DESC LIMIT 4",
        "1, 2, 2\n2, 2, 2\n3, 2, 2\n1, 1, 2",
    );
    check(
        "SELECT a, b, count(*) FROM t WHERE a IN (1, 2, 3) GROUP BY a, b ORDER BY b DESC PER PARTITION LIMIT 1",
        "1, 2, 2\n2, 2, 2\n3, 2, 2",
    );
    check(
        "SELECT a, b, max(d) FROM t WHERE a IN (1, 2, 3) GROUP BY a ORDER BY b DESC",
        "1, 2, 121\n2, 2, 221\n3, 2, 321",
    );
    check("SELECT max(d) FROM t WHERE a IN (1, 2, 3) ORDER BY b DESC LIMIT 1", "321");
    db.page_rows = Some(100);
    let error = db.err("SELECT a FROM t WHERE a IN (3, 2, 1) ORDER BY b DESC LIMIT 2");
    assert!(error.starts_with("Cannot page queries with both ORDER BY and a IN"), "{error}");
}

/// Each answer is that of Apache Cassandra 5.0.9.
#[test]
fn partitions_of_an_in_come_in_the_order_of_their_keys() {
    let mut db = five_partitions();
    let mut check = |text: &str, rows: &str| {
        assert_eq!(db.ok(text).replace('\n', " | "), rows, "{text}");
    };
    check("SELECT a, b FROM t WHERE a IN (0, 3, 1) LIMIT 3", "0, 0 | 0, 0 | 0, 1");
    check("SELECT a FROM t WHERE a IN (3, 2, 1, 0, 1) PER PARTITION LIMIT 1", "0 | 1 | 2 | 3");
    check("SELECT DISTINCT a FROM t WHERE a IN (3, 2, 1, 0, 3)", "0 | 1 | 2 | 3");
    check("SELECT a, b FROM t WHERE a IN (3, 2, 1) ORDER BY b DESC LIMIT 2", "1, 2 | 1, 2");
    check("SELECT a, b, s FROM t WHERE a IN (4, 1) ORDER BY b LIMIT 2", "4, null, 40 | 1, 0, 10");
    let mut db = Database::with("a int, b text, c decimal, PRIMARY KEY ((a, b, c))");
    for (a, b, c) in [(5, "y", "1.50"), (-1, "xx", "2"), (-1, "x", "10"), (5, "x", "-3")] {
        db.ok(&format!("INSERT INTO t (a, b, c) VALUES ({a}, '{b}', {c})"));
    }
    assert_eq!(
        db.ok("SELECT * FROM t WHERE a IN (5, -1) AND b IN ('y', 'xx', 'x') AND c IN (2, 10, -3, 1.50, 1.5)"),
        "-1, \"x\", 10\n-1, \"xx\", 2\n5, \"x\", -3\n5, \"y\", 1.50"
    );
}

/// Each answer is that of Apache Cassandra 5.0.9.
#[test]
fn statics_of_named_partitions_are_distinct_without_their_key() {
    let mut db = five_partitions();
    assert_eq!(db.ok("SELECT DISTINCT s FROM t WHERE a = 1"), "10");
    assert_eq!(db.ok("SELECT DISTINCT s FROM t WHERE a IN (3, 1, 4)"), "10\n30\n40");
    let missing = "SELECT DISTINCT queries must request all the partition key columns (missing a)";
    for filter in ["", "WHERE s = 10 ALLOW FILTERING", "WHERE token(a) > 0"] {
        assert_eq!(db.err(&format!("SELECT DISTINCT s FROM t {filter}")), missing, "{filter}");
    }
}

/// Each answer is that of Apache Cassandra 5.0.9.
#[test]
fn an_in_of_one_value_is_an_equal() {
    let mut db = five_partitions();
    for filter in ["a = 0 AND b IN (1)", "a = 0 AND (b) IN ((1))", "a IN (0) AND b IN (1)"] {
        let text = format!("SELECT b, c FROM t WHERE {filter} ORDER BY c DESC");
        assert_eq!(db.ok(&text), "1, 1\n1, 0", "{text}");
    }
    let tuple = "SELECT d FROM t WHERE a = 0 AND (b, c) IN ((1, 1)) ORDER BY c DESC";
    assert_eq!(db.ok(tuple), "11");
    assert_eq!(
        db.ok("SELECT c, count(*) FROM t WHERE a = 0 AND b IN (1) GROUP BY a, c"),
        "0, 1\n1, 1"
    );
    let refused = "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY";
    for values in ["(1, 2)", "(1, 1)", "?"] {
        let text = format!("SELECT b FROM t WHERE a = 0 AND b IN {values} ORDER BY c");
        assert_eq!(db.err(&text), refused, "{text}");
    }
}

#[test]
fn tokens_cut_the_ring() {
    let mut db = Database::with("k int PRIMARY KEY, v int");
    for k in 0..20 {
        db.ok(&format!("INSERT INTO t (k, v) VALUES ({k}, {k})"));
    }
    let all = db.ok("SELECT token(k), k FROM t");
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines.len(), 20);
    let middle = lines[9].split(',').next().unwrap();
    let below = db.ok(&format!("SELECT token(k), k FROM t WHERE token(k) <= {middle}"));
    let above = db.ok(&format!("SELECT token(k), k FROM t WHERE token(k) > {middle}"));
    assert_eq!(format!("{below}\n{above}"), all);
    let key = lines[3].split(", ").nth(1).unwrap();
    assert_eq!(db.ok(&format!("SELECT k FROM t WHERE token(k) = token({key})")), key);
    assert_eq!(
        db.ok("SELECT k FROM t WHERE token(k) > 0 AND token(k) <= -9223372036854775808")
            .lines()
            .count(),
        db.ok("SELECT k FROM t WHERE token(k) > 0").lines().count()
    );
}

#[test]
fn markers_have_cassandras_names_and_types() {
    let mut db = Database::with(
        "k int, c int, l list<int>, m map<int, text>, s set<int>, v bigint, PRIMARY KEY (k, c)",
    );
    db.ok("CREATE TABLE kk (a int, b text, v int, PRIMARY KEY ((a, b)))");
    for (text, markers, keys) in [
        ("SELECT * FROM t WHERE k IN ? LIMIT ?", "in(k) frozen<list<int>>, [limit] int", vec![]),
        (
            "SELECT * FROM t WHERE token(k) > token(?) AND token(k) < ?",
            "arg0(system.token) int, partition key token bigint",
            vec![],
        ),
        (
            "SELECT * FROM t WHERE k = ? AND (c) > (?) AND (c) < ?",
            "k int, c int, (c) frozen<tuple<int>>",
            vec![0],
        ),
        (
            "SELECT * FROM t WHERE k = ? AND (c) IN ?",
            "k int, in(c) frozen<list<frozen<tuple<int>>>>",
            vec![0],
        ),
        (
            "INSERT INTO t (k, c, m) VALUES (?, ?, ?) USING TIMESTAMP ? AND TTL ?",
            "k int, c int, m map<int, text>, [timestamp] bigint, [ttl] int",
            vec![0],
        ),
        (
            "UPDATE t SET l = ? + l, v = ?, s = s - ?, m[?] = ? WHERE k = :kk AND c = :cc",
            "l list<int>, v bigint, s set<int>, key(m) int, value(m) text, kk int, cc int",
            vec![5],
        ),
        (
            "DELETE m[?] FROM t USING TIMESTAMP ? WHERE k = ? AND c = ?",
            "key(m) int, [timestamp] bigint, k int, c int",
            vec![2],
        ),
        (
            "SELECT * FROM t WHERE m[?] = ? AND s CONTAINS ? ALLOW FILTERING",
            "key(m) int, value(m) text, value(s) int",
            vec![],
        ),
        ("INSERT INTO kk (b, v, a) VALUES (?, ?, ?)", "b text, v int, a int", vec![2, 0]),
        ("SELECT * FROM kk WHERE a = 1 AND b = ?", "b text", vec![]),
        (
            "BEGIN BATCH USING TIMESTAMP ? INSERT INTO t (k, c) VALUES (?, ?); DELETE FROM kk WHERE a = ? AND b = ?; APPLY BATCH",
            "[timestamp] bigint, k int, c int, a int, b text",
            vec![1],
        ),
    ] {
        let prepared =
            prepare(text, &db.schema, Some("ks")).unwrap_or_else(|error| panic!("{text}: {error}"));
        let shown: Vec<String> =
            prepared.markers.iter().map(|m| format!("{} {}", m.name, m.ty)).collect();
        assert_eq!(shown.join(", "), markers, "{text}");
        assert_eq!(prepared.key_indexes, keys, "{text}");
    }
}

#[test]
fn bound_values_do_what_literals_do() {
    let mut db = Database::with("k int, c int, v text, PRIMARY KEY (k, c)");
    let (one, two) = (int(1), int(2));
    let insert = "INSERT INTO t (k, c, v) VALUES (?, ?, ?)";
    let values = [Value::Bytes(&one), Value::Bytes(&two), Value::Bytes(b"x")];
    db.run(insert, &bound(&values)).unwrap();
    let unset = [Value::Bytes(&one), Value::Bytes(&two), Value::Unset];
    db.run(insert, &bound(&unset)).unwrap();
    assert_eq!(db.ok("SELECT v FROM t"), "\"x\"");
    let null = [Value::Bytes(&one), Value::Bytes(&two), Value::Null];
    db.run(insert, &bound(&null)).unwrap();
    assert_eq!(db.ok("SELECT v FROM t"), "null");
    let mut list = ValueList::new();
    list.push_named("b", Value::Bytes(&two));
    list.push_named("a", Value::Bytes(&one));
    let found = db.run("SELECT k, c FROM t WHERE k = :a AND c = :b", &list).unwrap();
    assert_eq!(found, "1, 2");
}

#[test]
fn bad_bindings_are_refused() {
    let mut db = Database::with("k int, c int, v text, PRIMARY KEY (k, c)");
    let one = int(1);
    let insert = "INSERT INTO t (k, c, v) VALUES (?, ?, ?)";
    let mut check = |values: &[Value<'_>], error: &str| {
        let found = db.run(insert, &bound(values)).unwrap_err().to_string();
        assert!(found.starts_with(error), "{found}");
    };
    let one = Value::Bytes(&one);
    check(&[one, one], "Invalid amount of bind variables");
    check(&[Value::Null, one, one], "Invalid null value in condition for column k");
    check(&[one, Value::Unset, one], "Invalid unset value for column c");
    check(&[Value::Bytes(b"abc"), one, one], "Expected 4 or 0 byte int (3)");
    check(&[one, one, Value::Bytes(&[0xFF])], "String didn't validate.");
    check(&[Value::Bytes(b""), one, one], "Key may not be empty");
}

#[test]
fn what_is_wrong_anyway_is_told_before_a_condition_is_refused() {
    let mut db = Database::with("k int, c int, v int, PRIMARY KEY (k, c)");
    let refusal = "Conditional statements (IF ...) are not supported yet";
    let missing = "Some clustering keys are missing: c";
    for (text, error) in [
        ("INSERT INTO t (k, c) VALUES (?, ?) IF NOT EXISTS", refusal),
        ("INSERT INTO t (k, v) VALUES (1, 1) IF NOT EXISTS", missing),
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF EXISTS", refusal),
        ("UPDATE t SET v = 1 WHERE k = 1 IF EXISTS", missing),
        ("DELETE FROM t WHERE k = 1 AND c = 1 IF EXISTS", refusal),
        (
            "DELETE FROM t WHERE k = 1 AND c = 'x' IF EXISTS",
            "Invalid STRING constant (x) for \"c\" of type int",
        ),
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v = 2", refusal),
    ] {
        assert_eq!(db.err(text), error, "{text}");
    }
    assert_eq!(db.ok("SELECT * FROM t"), "");
}

#[test]
fn ttl_and_timestamps_are_kept_and_told() {
    let mut db = Database::with("k int PRIMARY KEY, v int, w int");
    db.ok("INSERT INTO t (k, v) VALUES (1, 2) USING TTL 100 AND TIMESTAMP 5");
    db.ok("UPDATE t USING TIMESTAMP 9 SET w = 3 WHERE k = 1");
    assert_eq!(
        db.ok("SELECT ttl(v), writetime(v), ttl(w), writetime(w) FROM t"),
        "100, 5, null, 9"
    );
    db.now_s += 40;
    assert_eq!(db.ok("SELECT ttl(v) FROM t"), "60");
    db.ok("UPDATE t USING TIMESTAMP 4 SET v = 7 WHERE k = 1");
    assert_eq!(db.ok("SELECT v FROM t"), "2");
    db.now_s += 60;
    assert_eq!(db.ok("SELECT k, v, w FROM t"), "1, null, 3");
    db.ok("CREATE TABLE d (k int PRIMARY KEY, v int) WITH default_time_to_live = 50");
    db.ok("INSERT INTO d (k, v) VALUES (1, 2)");
    db.ok("INSERT INTO d (k, v) VALUES (2, 2) USING TTL 0");
    assert_eq!(db.ok("SELECT k, ttl(v) FROM d WHERE k IN (1, 2)"), "1, 50\n2, null");
    for (using, error) in [
        ("TTL -1", "A TTL must be greater or equal to 0, but was -1"),
        ("TTL 630720001", "ttl is too large. requested (630720001) maximum (630720000)"),
        (
            "TIMESTAMP -9223372036854775808",
            "Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807]",
        ),
    ] {
        assert_eq!(db.err(&format!("INSERT INTO t (k) VALUES (1) USING {using}")), error);
    }
}

#[test]
fn batches_share_a_timestamp() {
    let mut db = Database::with("k int PRIMARY KEY, v int");
    db.ok("BEGIN BATCH APPLY BATCH");
    db.ok("BEGIN BATCH USING TIMESTAMP 9 INSERT INTO t (k, v) VALUES (1, 1); INSERT INTO t (k, v) VALUES (2, 2); APPLY BATCH");
    assert_eq!(db.ok("SELECT k, writetime(v) FROM t WHERE k IN (1, 2)"), "1, 9\n2, 9");
    let error = db.err(
        "BEGIN BATCH USING TIMESTAMP 5 INSERT INTO t (k) VALUES (2) USING TIMESTAMP 5; APPLY BATCH",
    );
    assert_eq!(error, "Timestamp must be set either on BATCH or individual statements");
}

#[test]
fn a_batch_over_partitions_is_bounded_and_one_of_a_partition_is_not() {
    let mut db = Database::with("k int, c int, v blob, PRIMARY KEY (k, c)");
    let mut run = |key: &str, bytes: usize| {
        let value = vec![7; bytes / 4];
        let insert = |c: i32| {
            format!(
                "INSERT INTO t (k, c, v) VALUES ({}, {c}, ?);",
                key.replace('c', &c.to_string())
            )
        };
        let text = format!("BEGIN BATCH {} APPLY BATCH", (0..4).map(insert).collect::<String>());
        let result = db.run(&text, &bound(&[Value::Bytes(&value); 4]));
        (result.map_err(|error| error.to_string()), db.warnings.clone())
    };
    assert_eq!(run("c", BATCH_WARN_BYTES / 2), (Ok(String::new()), Vec::new()));
    assert_eq!(run("7", 2 * BATCH_BYTES_MAX), (Ok(String::new()), Vec::new()));
    let (result, warnings) = run("c", BATCH_WARN_BYTES);
    assert!(result.is_ok() && warnings.len() == 1, "{warnings:?}");
    let words = ["Batch for [ks.t] is of size 5", ", exceeding specified threshold of 5120 by "];
    assert!(words.iter().all(|words| warnings[0].contains(words)), "{warnings:?}");
    assert_eq!(run("c", BATCH_BYTES_MAX).0, Err("Batch too large".into()));
}

#[test]
fn an_unlogged_batch_over_many_partitions_is_warned_of() {
    let mut db = Database::with("k int PRIMARY KEY, v int");
    db.ok("CREATE TABLE u (k int PRIMARY KEY, v int)");
    let mut warnings = |kind: &str, keys: i32| {
        let insert =
            |k| format!("INSERT INTO {} (k, v) VALUES ({k}, 1);", ["t", "u"][k as usize % 2]);
        let inserts: String = (0..keys).map(insert).collect();
        db.ok(&format!("BEGIN {kind} BATCH {inserts} APPLY BATCH"));
        db.warnings.clone()
    };
    assert_eq!(warnings("UNLOGGED", 10), [""; 0]);
    assert_eq!(warnings("", 12), [""; 0]);
    let words = "Unlogged batch covering 11 partitions detected against tables [ks.t, ks.u]. You should use a logged batch for atomicity, or asynchronous writes for performance.";
    assert_eq!(warnings("UNLOGGED", 11), [words]);
}

#[test]
fn what_execute_would_refuse_or_ignore_is_said_at_prepare() {
    let db = Database::with("k int PRIMARY KEY, v int");
    let prepared = |text: &str| prepare(text, &db.schema, Some("ks"));
    for text in [
        "INSERT INTO t (k) VALUES (?) IF NOT EXISTS",
        "UPDATE t SET v = 1 WHERE k = ? IF EXISTS",
        "DELETE FROM t WHERE k = ? IF EXISTS",
        "BEGIN BATCH INSERT INTO t (k) VALUES (?) IF NOT EXISTS; APPLY BATCH",
    ] {
        let error = prepared(text).map(drop).unwrap_err().to_string();
        assert_eq!(error, "Conditional statements (IF ...) are not supported yet", "{text}");
    }
    for text in [
        "INSERT INTO t (k) VALUES (1) USING TIMEOUT 5s",
        "UPDATE t USING TIMEOUT 5s SET v = 1 WHERE k = 1",
        "DELETE FROM t USING TIMEOUT 5s WHERE k = 1",
        "SELECT * FROM t USING TIMEOUT 5s",
        "TRUNCATE t USING TIMEOUT 5s",
        "BEGIN BATCH INSERT INTO t (k) VALUES (1) USING TIMEOUT 5s; APPLY BATCH",
    ] {
        let warnings = prepared(text).unwrap().warnings;
        assert!(warnings[0].starts_with("USING TIMEOUT has no effect"), "{text}: {warnings:?}");
    }
    let warnings = prepared("SELECT * FROM t BYPASS CACHE").unwrap().warnings;
    assert!(warnings[0].starts_with("BYPASS CACHE has no effect"), "{warnings:?}");
    assert_eq!(prepared("SELECT * FROM t").unwrap().warnings, [""; 0]);
}

/// Each answer is that of Apache Cassandra 5.0.9.
#[test]
fn several_assignments_to_one_collection() {
    let mut db =
        Database::with("k int PRIMARY KEY, m map<int, int>, s set<int>, l list<int>, v int");
    let mut check = |change: &str, column: &str, value: &str| {
        db.ok("INSERT INTO t (k, m, s, l) VALUES (1, {1: 1, 2: 2}, {1, 2}, [1, 2])");
        db.ok(change);
        assert_eq!(db.ok(&format!("SELECT {column} FROM t")), value, "{change}");
    };
    let both = "{\"1\": 1, \"2\": 2}";
    for (assignments, value) in [
        ("m = m + {3: 3}, m = m - {3}", both),
        ("m = m - {3}, m = m + {3: 3}", both),
        ("m = m - {1}, m = m + {1: 9}", "{\"2\": 2}"),
        ("m[2] = 5, m = m + {2: 9}", "{\"1\": 1, \"2\": 9}"),
        ("m = m + {2: 9}, m[2] = 5", "{\"1\": 1, \"2\": 9}"),
        ("m[2] = 5, m = m - {2}", "{\"1\": 1}"),
        ("m[0] = 7, m[0] = 3", "{\"0\": 7, \"1\": 1, \"2\": 2}"),
        ("m[0] = 3, m[0] = 7", "{\"0\": 7, \"1\": 1, \"2\": 2}"),
        ("m[0] = null, m[0] = 7", both),
        ("m[3] = 255, m[3] = -1", "{\"1\": 1, \"2\": 2, \"3\": -1}"),
    ] {
        check(&format!("UPDATE t SET {assignments} WHERE k = 1"), "m", value);
    }
    check("UPDATE t SET s = s + {3}, s = s - {3} WHERE k = 1", "s", "[1, 2]");
    check("UPDATE t SET s = s - {1}, s = s + {1} WHERE k = 1", "s", "[2]");
    check("UPDATE t SET l = l + [5], l = l + [6] WHERE k = 1", "l", "[1, 2, 5, 6]");
    check("UPDATE t SET l = [5] + l, l = l + [6] WHERE k = 1", "l", "[5, 1, 2, 6]");
    check("UPDATE t SET l = [5] + l, l = [6] + l WHERE k = 1", "l", "[6, 5, 1, 2]");
    for deletion in ["m[1], m", "m, m[1]", "m, m", "v, v, m"] {
        check(&format!("DELETE {deletion} FROM t WHERE k = 1"), "m", "null");
    }
    for assignments in ["m = {7: 7}, m = m + {8: 8}", "l = l + [2], l = [1]", "s = {1}, s = {2}"] {
        let error = db.err(&format!("UPDATE t SET {assignments} WHERE k = 1"));
        assert!(error.starts_with("Multiple incompatible setting of column "), "{error}");
    }
}

/// D3 of the engine's review: 2,000 keys with one value of a megabyte made a record of 2 GB.
#[test]
fn what_one_statement_writes_is_bounded_before_it_is_made() {
    let db = Database::with("k int, c int, v blob, m map<int, blob>, PRIMARY KEY (k, c)");
    let megabyte = vec![7; 1 << 20];
    let keys = CqlType::List { element: CqlType::Int.into(), frozen: true };
    let mut list = 2000i32.to_be_bytes().to_vec();
    (0..2000i32).for_each(|key| {
        list.extend_from_slice(&[0, 0, 0, 4]);
        list.extend_from_slice(&key.to_be_bytes());
    });
    keys.validate(&list).unwrap();
    let (value, list) = (Value::Bytes(&megabyte), Value::Bytes(&list));
    let puts: Vec<String> = (0..100).map(|n| format!("m[{n}] = ?")).collect();
    let puts = format!("UPDATE t SET {} WHERE k = 1 AND c = 1", puts.join(", "));
    let insert = "INSERT INTO t (k, c, v) VALUES (1, 1, ?);".repeat(100);
    let batch = format!("BEGIN BATCH {insert} APPLY BATCH");
    for (text, values) in [
        ("UPDATE t SET v = ? WHERE k IN ? AND c = 1", vec![value, list]),
        ("UPDATE t SET v = ? WHERE k = 1 AND c IN ?", vec![value, list]),
        (&puts, vec![value; 100]),
        (&batch, vec![value; 100]),
    ] {
        let mut record = Vec::new();
        let error = db.bind(text, &bound(&values), &mut record).unwrap_err().to_string();
        assert!(error.starts_with("Mutation of 1"), "{error}");
        assert!(error.contains("is too large for the maximum size of 16777216"), "{error}");
        assert!(record.capacity() < 48 << 20, "{} bytes: {text}", record.capacity());
    }
}

/// D1 of the engine's review: any client can make the bytes of a paging state and their checksum.
#[test]
fn a_paging_state_of_another_place_is_refused() {
    let mut db = five_partitions();
    db.page_rows = Some(2);
    let id = db.schema.table("ks", "t").unwrap().id;
    let key = |a: i32| a.to_be_bytes().to_vec();
    let sound = Resume {
        token: Token::of_key(&key(1)),
        key: key(1),
        clustering: Some([[0x40, 0x80, 0, 0, 0]; 2].concat()),
        partition_done: false,
        rows_of_partition: 1,
    };
    let run = |db: &Database, text: &str, resume: Resume, rows_left| {
        let state = PagingState { resume, rows_left }.encode(id);
        db.page_from(text, &state).map_err(|error| error.to_string())
    };
    let one = "SELECT a, b, c FROM t WHERE a = 1";
    assert_eq!(run(&db, one, sound.clone(), 10).unwrap(), "1, 0, 1\n1, 1, 0");
    // A number of any size neither overflows nor gives more than the statement's own limit.
    for rows_of_partition in [0, u64::MAX - 1, u64::MAX] {
        let forged = Resume { rows_of_partition, ..sound.clone() };
        assert!(run(&db, one, forged.clone(), u64::MAX).is_ok());
        let limited = run(&db, "SELECT a FROM t LIMIT 1", forged, u64::MAX).unwrap();
        assert!(limited.lines().count() <= 1, "{limited}");
    }
    for (text, forged) in [
        (one, Resume { token: Token(7), ..sound.clone() }),
        (one, Resume { token: Token::of_key(&key(2)), key: key(2), ..sound.clone() }),
        ("SELECT * FROM t", Resume { token: Token(7), ..sound.clone() }),
        ("SELECT * FROM t WHERE token(a) > 9223372036854775800", sound.clone()),
        (one, Resume { clustering: Some(Vec::new()), ..sound.clone() }),
        (one, Resume { clustering: Some(vec![0xFF; 70_000]), ..sound.clone() }),
    ] {
        let refused = run(&db, text, forged, 10).unwrap_err();
        assert_eq!(refused, "Invalid value for the paging state", "{text}");
    }
    assert!(run(&db, one, sound, 0).is_err(), "no page follows a LIMIT that is used up");
}

#[test]
fn collections_by_element_and_whole() {
    let mut db = Database::with(
        "k int PRIMARY KEY, l list<int>, s set<int>, m map<text, int>, f frozen<set<int>>, t tuple<int, text>, v vector<float, 2>",
    );
    db.ok("INSERT INTO t (k, l, s, m, f, t, v) VALUES (1, [3, 1, 3], {3, 1, 3}, {'b': 2, 'a': 1}, {5, 4}, (1, 'x'), [1, 2.5])");
    assert_eq!(
        db.ok("SELECT l, s, m, f, t, v FROM t"),
        "[3, 1, 3], [1, 3], {\"a\": 1, \"b\": 2}, [4, 5], [1, \"x\"], [1.0, 2.5]"
    );
    db.ok("UPDATE t SET l = l + [9], s = s - {1}, m['c'] = 3, m['a'] = 7 WHERE k = 1");
    db.ok("UPDATE t SET l = [0, 1] + l, s = s + {2}, m = m - {'b'} WHERE k = 1");
    db.ok("UPDATE t SET l = [-1] + l WHERE k = 1");
    assert_eq!(
        db.ok("SELECT l, s, m, m['c'], s[2], s[9] FROM t"),
        "[-1, 0, 1, 3, 1, 3, 9], [2, 3], {\"a\": 7, \"c\": 3}, 3, 2, null"
    );
    db.ok("DELETE m['a'], s[3] FROM t WHERE k = 1");
    db.ok("UPDATE t SET l = [5], f = {} WHERE k = 1");
    assert_eq!(db.ok("SELECT l, s, m, f FROM t"), "[5], [2], {\"c\": 3}, []");
    db.ok("UPDATE t SET l = null, s = {}, m = {} WHERE k = 1");
    assert_eq!(db.ok("SELECT l, s, m FROM t"), "null, null, null");
    db.ok("INSERT INTO t (k, s) VALUES (1, {4, 5})");
    assert_eq!(db.ok("SELECT k FROM t WHERE s CONTAINS 5 ALLOW FILTERING"), "1");
    assert_eq!(db.ok("SELECT k FROM t WHERE s CONTAINS 6 ALLOW FILTERING"), "");
}

#[test]
fn user_types_whole_and_by_field() {
    let mut db = Database::new();
    db.ok("CREATE TYPE u (a int, b text)");
    db.ok("CREATE TABLE t (k int PRIMARY KEY, u u, f frozen<u>, l list<frozen<u>>)");
    db.ok("INSERT INTO t (k, u, f, l) VALUES (1, {a: 1, b: 'x'}, {b: 'y'}, [{a: 3}])");
    assert_eq!(
        db.ok("SELECT u, f, l, u.b, f.a FROM t"),
        "{\"a\": 1, \"b\": \"x\"}, {\"a\": null, \"b\": \"y\"}, [{\"a\": 3, \"b\": null}], \"x\", null"
    );
    db.ok("UPDATE t SET u.a = 5 WHERE k = 1");
    db.ok("DELETE u.b FROM t WHERE k = 1");
    assert_eq!(db.ok("SELECT u FROM t"), "{\"a\": 5, \"b\": null}");
    db.ok("ALTER TYPE u ADD c int");
    db.ok("UPDATE t SET u.c = 6 WHERE k = 1");
    assert_eq!(
        db.ok("SELECT u, f FROM t"),
        "{\"a\": 5, \"b\": null, \"c\": 6}, {\"a\": null, \"b\": \"y\", \"c\": null}"
    );
}

#[test]
fn aggregates_and_groups() {
    let mut db = Database::with("k int, c int, v int, d double, PRIMARY KEY (k, c)");
    assert_eq!(
        db.ok("SELECT count(*), max(v), sum(v), avg(v), min(d) FROM t"),
        "0, null, 0, 0, null"
    );
    for (k, c, v) in [(1, 1, 10), (1, 2, 5), (2, 1, 7)] {
        db.ok(&format!("INSERT INTO t (k, c, v, d) VALUES ({k}, {c}, {v}, {v}.5)"));
    }
    db.ok("INSERT INTO t (k, c) VALUES (2, 2)");
    assert_eq!(
        db.ok("SELECT count(*), count(1), count(v), min(v), max(v), sum(v), avg(v), avg(d) FROM t"),
        "4, 4, 3, 5, 10, 22, 7, 7.833333333333333"
    );
    assert_eq!(db.warnings, ["Aggregation query used without partition key"]);
    assert_eq!(db.ok("SELECT k, count(*), sum(v) FROM t GROUP BY k"), "1, 2, 15\n2, 2, 7");
    assert_eq!(db.ok("SELECT k, c, max(v) FROM t WHERE k = 1 GROUP BY c LIMIT 1"), "1, 1, 10");
    assert_eq!(db.ok("SELECT c, v FROM t WHERE k = 1 GROUP BY k"), "1, 10");
    assert_eq!(db.ok("SELECT max(v) + 1, CAST(avg(v) AS double) FROM t"), "11, 7.0");
}

#[test]
fn result_columns_have_cassandras_headings() {
    let mut db = Database::with(
        "k int, c int, t text, \"T\" int, ts timestamp, v bigint, PRIMARY KEY (k, c)",
    );
    db.ok("INSERT INTO t (k, c) VALUES (1, 2)");
    for (selected, heading, ty) in [
        ("count(*)", "count", "bigint"),
        ("count(1)", "count", "bigint"),
        ("count(t)", "system.count(t)", "bigint"),
        ("min(c)", "system.min(c)", "int"),
        ("writetime(t)", "writetime(t)", "bigint"),
        ("ttl(t)", "ttl(t)", "int"),
        ("token(k)", "system.token(k)", "bigint"),
        ("toDate(ts)", "system.todate(ts)", "date"),
        ("to_unix_timestamp(ts)", "system.to_unix_timestamp(ts)", "bigint"),
        ("now()", "system.now()", "timeuuid"),
        ("cast(c as text)", "cast(c as text)", "text"),
        ("cast(avg(c) as double)", "cast(system.avg(c) as double)", "double"),
        ("textAsBlob(t)", "system.textasblob(t)", "blob"),
        ("\"T\"", "T", "int"),
        ("t as x", "x", "text"),
        ("(int)1", "(int)1", "int"),
        ("c + v", "c + v", "bigint"),
    ] {
        let text = format!("SELECT {selected} FROM t");
        let prepared = prepare(&text, &db.schema, Some("ks"))
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        let Statement::Select(plan) = &prepared.statement else { panic!() };
        assert_eq!(plan.columns[0].name, heading);
        assert_eq!(plan.columns[0].ty.to_string(), ty, "{selected}");
    }
    let values = ValueList::new();
    let prepared = prepare("SELECT * FROM t", &db.schema, Some("ks")).unwrap();
    assert_eq!(
        db.execute(&prepared, &values.as_values(Version::V4)).unwrap(),
        "1, 2, null, null, null, null"
    );
}

/// Statements and what Apache Cassandra 5.0.9 says of them.
#[test]
fn refusals_are_cassandras() {
    let mut db = Database::new();
    db.ok("CREATE TABLE fu (k int, c int, t text, ts timestamp, l list<int>, m map<int,text>, s set<int>, st int static, v bigint, primary key (k, c))");
    let table = include_str!("refusals.txt");
    let mut wrong = Vec::new();
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (text, error) = line.split_once(" => ").expect("statement => error");
        let error = error.replace("AF", crate::restrict::NEEDS_FILTERING);
        let found = db.err(text);
        if !found.starts_with(&error) {
            wrong.push(format!("{text}\n  found:    {found}\n  expected: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_cannot_exist_cannot_be_dropped() {
    let mut db = Database::new();
    assert_eq!(db.err("DROP INDEX i"), "Index 'ks.i' doesn't exist");
    assert_eq!(db.err("DROP MATERIALIZED VIEW ks.v"), "Materialized view 'ks.v' doesn't exist");
    db.ok("DROP INDEX IF EXISTS i");
    assert_eq!(db.err("CREATE INDEX ON t (a)"), "CREATE INDEX is not supported");
}

#[test]
fn stamps_of_elements_and_fields() {
    let mut db = Database::new();
    db.ok("CREATE TYPE u (a int, b int)");
    db.ok("CREATE TABLE t (k int PRIMARY KEY, m map<int, int>, s set<int>, u u, f frozen<map<set<int>, int>>, l list<int>)");
    db.ok("INSERT INTO t (k, m, s, u, f) VALUES (1, {1: 1, 2: 2}, {5}, {a: 1, b: 2}, {{2, 1}: 3}) USING TIMESTAMP 5");
    db.ok("UPDATE t USING TIMESTAMP 7 AND TTL 50 SET m[2] = 3, u.b = 4, s = s + {6} WHERE k = 1");
    assert_eq!(
        db.ok("SELECT writetime(m[1]), writetime(m[2]), ttl(m[2]), writetime(m[3]), writetime(s[6]), writetime(u.a), writetime(u.b), writetime(f[{1}]), writetime(m), f FROM t"),
        "5, 7, 50, null, 7, 5, 7, 5, [5, 7], {\"[1, 2]\": 3}"
    );
    assert!(db.err("SELECT writetime(l[0]) FROM t").starts_with("Element selection"));
    assert!(db.err("SELECT ttl(k[0]) FROM t").contains("PRIMARY KEY"));
}

#[test]
fn groups_are_limited_by_partition() {
    let mut db = Database::with("k int, c int, PRIMARY KEY (k, c)");
    for n in 0..6 {
        db.ok(&format!("INSERT INTO t (k, c) VALUES ({}, {n})", n % 2));
    }
    assert_eq!(
        db.ok("SELECT k, c, count(*) FROM t WHERE k IN (0, 1) GROUP BY k, c PER PARTITION LIMIT 2"),
        "0, 0, 1\n0, 2, 1\n1, 1, 1\n1, 3, 1"
    );
    assert_eq!(
        db.ok("SELECT k, c FROM t WHERE k IN (0, 1) GROUP BY k, c PER PARTITION LIMIT 2 LIMIT 3"),
        "0, 0\n0, 2\n1, 1"
    );
}

/// The answers of Apache Cassandra 5.0.9 for values of 65,536 bytes, and of 65,535 twice.
#[test]
fn clustering_values_that_no_row_can_have_find_none_and_cannot_be_written() {
    let mut db = Database::with("k text, c text, d text, v int, PRIMARY KEY (k, c, d)");
    db.ok("INSERT INTO t (k, c, d, v) VALUES ('a', 'z', 'z', 1)");
    let (long, half) = ("x".repeat(65_536), "y".repeat(65_535));
    let mut run = |text: &str, values: [&str; 3]| {
        let values = values.map(|value| Value::Bytes(value.as_bytes()));
        let count = text.matches('?').count();
        db.run(text, &bound(&values[..count])).map_err(|error| error.to_string())
    };
    let nothing = Ok(String::new());
    for (text, values) in [
        ("SELECT v FROM t WHERE k = ? AND c = ?", ["a", &long[..], ""]),
        ("SELECT v FROM t WHERE k = ? AND c = ? AND d = ?", ["a", &long, "a"]),
        ("SELECT v FROM t WHERE k = ? AND c = ? AND d = ?", ["a", &half, &half]),
        ("SELECT v FROM t WHERE k = ? AND c IN (?, 'b')", ["a", &long, ""]),
        ("SELECT v FROM t WHERE k = ? AND (c, d) = (?, ?)", ["a", &half, &half]),
        ("SELECT v FROM t WHERE k = ? AND c < ?", ["a", &long, ""]),
        ("DELETE FROM t WHERE k = ? AND c = ?", ["a", &long, ""]),
        ("DELETE FROM t WHERE k = ? AND c < ?", ["a", &long, ""]),
    ] {
        assert_eq!(run(text, values), nothing, "{text}");
    }
    assert_eq!(run("SELECT v FROM t WHERE k = ? AND c > ?", ["a", &long, ""]), Ok("1".into()));
    let too_long =
        |bytes: usize| Err(format!("Key length of {bytes} is longer than maximum of 65535"));
    for (text, values, bytes) in [
        ("INSERT INTO t (k, c, d, v) VALUES (?, ?, ?, 1)", ["a", &long[..], "a"], 65_537),
        ("INSERT INTO t (k, c, d, v) VALUES (?, ?, ?, 1)", ["a", &half, "a"], 65_536),
        ("INSERT INTO t (k, c, d, v) VALUES (?, ?, ?, 1)", ["a", &half, &half], 131_070),
        ("INSERT INTO t (k, c, d, v) VALUES (?, ?, ?, 1)", [&long, "a", "a"], 65_536),
        ("UPDATE t SET v = 1 WHERE k = ? AND c = ? AND d = ?", ["a", &long, "a"], 65_537),
        ("UPDATE t SET v = 1 WHERE k = ? AND c = ? AND d IN (?)", ["a", &long, "a"], 65_537),
        ("DELETE FROM t WHERE k = ? AND c = ? AND d = ?", ["a", &long, "a"], 65_537),
        ("DELETE FROM t WHERE k = ?", [&long, "", ""], 65_536),
        ("SELECT * FROM t WHERE k = ?", [&long, "", ""], 65_536),
    ] {
        assert_eq!(run(text, values), too_long(bytes), "{text}");
    }
}

/// As Apache Cassandra 5.0.9 keeps them: of a row the form written first, of an element the last.
#[test]
fn decimals_in_keys_and_elements_keep_their_scale() {
    let mut db = Database::with("k int, c decimal, v int, PRIMARY KEY (k, c)");
    for (scale, value) in [("1.50", 1), ("1.5", 2), ("1.500", 3)] {
        db.ok(&format!("INSERT INTO t (k, c, v) VALUES (1, {scale}, {value})"));
        assert_eq!(db.ok("SELECT c, v FROM t"), format!("1.50, {value}"));
    }
    db.ok("UPDATE t SET v = 9 WHERE k = 1 AND c IN (1.50000)");
    assert_eq!(db.ok("SELECT c, v FROM t WHERE k = 1 AND c = 1.5"), "1.50, 9");
    for number in ["0.00", "1E+5", "1.0E-3"] {
        db.ok(&format!("INSERT INTO t (k, c) VALUES (2, {number})"));
    }
    assert_eq!(db.ok("SELECT c FROM t WHERE k = 2"), "0.00\n0.0010\n1E+5");
    db.ok("CREATE TABLE u (k int, c frozen<tuple<decimal, int>>, d text, PRIMARY KEY (k, c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC)");
    db.ok("INSERT INTO u (k, c, d) VALUES (1, (2.0, 1), 'x')");
    assert_eq!(db.ok("SELECT c, d FROM u WHERE k = 1 AND c = (2, 1)"), "[2.0, 1], \"x\"");
    db.ok("CREATE TABLE s (k int PRIMARY KEY, s set<decimal>, m map<decimal, int>)");
    for (number, value) in [("1.50", 1), ("1.5", 2), ("1.500", 3)] {
        db.ok(&format!("UPDATE s SET s = s + {{{number}}}, m[{number}] = {value} WHERE k = 1"));
        let expected = format!("[{number}], {{\"{number}\": {value}}}");
        assert_eq!(db.ok("SELECT s, m FROM s"), expected);
    }
    db.ok("UPDATE s USING TIMESTAMP 1 SET s = s + {1.5000}, m[1.5000] = 4 WHERE k = 1");
    assert_eq!(db.ok("SELECT s, m FROM s"), "[1.500], {\"1.500\": 3}");
    assert_eq!(db.ok("SELECT m[1.5] FROM s WHERE k = 1"), "3");
    assert_eq!(db.ok("SELECT k FROM s WHERE s CONTAINS 1.50 ALLOW FILTERING"), "1");
    db.ok("UPDATE s SET s = s - {1.5} WHERE k = 1");
    assert_eq!(db.ok("SELECT s FROM s"), "null");
}

/// `frozen<>` is no level of a type, and what drivers' tests nest is accepted.
#[test]
fn types_nest_as_deep_as_tests_do_and_no_deeper_than_the_stack() {
    let nested = |levels: usize, open: &str, close: &str, inner: &str| {
        format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
    };
    let mut db = Database::new();
    for (index, (open, close)) in
        [("frozen<list<", ">>"), ("frozen<tuple<", ">>"), ("frozen<map<int, ", ">>")]
            .iter()
            .enumerate()
    {
        let ty = nested(40, open, close, "int");
        db.ok(&format!("CREATE TABLE t{index} (k int PRIMARY KEY, v {ty})"));
        let refused = db.err(&format!(
            "CREATE TABLE u (k int PRIMARY KEY, v {})",
            nested(48, open, close, "int")
        ));
        assert!(refused.contains("nested deeper than 48 levels"), "{refused}");
    }
    let value = nested(40, "[", "]", "7");
    db.ok(&format!("INSERT INTO t0 (k, v) VALUES (1, {value})"));
    assert_eq!(db.ok("SELECT v FROM t0"), value);
    // A value that claims more levels than its type has is read by the type.
    let mut hostile = Vec::new();
    for level in (0..100_000i32).rev() {
        hostile.extend_from_slice(&1i32.to_be_bytes());
        hostile.extend_from_slice(&(8 * level).to_be_bytes());
    }
    let text = "INSERT INTO t0 (k, v) VALUES (1, ?)";
    assert!(db.run(text, &bound(&[Value::Bytes(&hostile)])).is_err());
    db.ok("CREATE TYPE y0 (a int)");
    for level in 1..15 {
        db.ok(&format!("CREATE TYPE y{level} (a frozen<y{}>)", level - 1));
    }
    assert!(
        db.err("CREATE TYPE y15 (a frozen<y14>, b frozen<tuple<tuple<tuple<y14>>>>)")
            .contains("nested deeper")
    );
}
