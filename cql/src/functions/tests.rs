//! Functions as statements call them, against one table.

use crate::testing::Database;

#[test]
fn conversions_of_time_agree() {
    let mut db = Database::with("k int PRIMARY KEY, ts timestamp, d date, u timeuuid");
    db.ok("INSERT INTO t (k, ts, d, u) VALUES (1, '2026-11-21 12:34:56.789', '2026-11-21', 50554d6e-29bb-11e5-b345-feff819cdc9f)");
    for (expr, value) in [
        ("to_date(ts)", "\"2026-11-21\""),
        ("toTimestamp(d)", "\"2026-11-21 00:00:00.000Z\""),
        ("to_unix_timestamp(d)", "1795219200000"),
        ("dateOf(u)", "\"2015-07-14 00:00:18.805Z\""),
        ("unixTimestampOf(u)", "1436832018805"),
        ("toTimestamp(min_timeuuid(ts))", "\"2026-11-21 12:34:56.789Z\""),
        ("toTimestamp(maxTimeuuid(ts))", "\"2026-11-21 12:34:56.789Z\""),
        ("current_date()", "\"1970-01-01\""),
        ("d + 1mo", "\"2026-12-21\""),
        ("ts - 1d", "\"2026-11-20 12:34:56.789Z\""),
    ] {
        assert_eq!(db.ok(&format!("SELECT {expr} FROM t")), value, "{expr}");
    }
}

#[test]
fn casts_and_arithmetic_are_javas() {
    let mut db = Database::with(
        "k int PRIMARY KEY, i int, b bigint, t tinyint, f float, d double, v varint, e decimal, s text",
    );
    db.ok("INSERT INTO t (k, i, b, t, f, d, v, e, s) VALUES (1, 7, 5000000000, 100, 1.5, 1e10, 123, 1.50, 'x')");
    for (expr, value) in [
        ("i + b", "5000000007"),
        ("i / 2", "3"),
        ("-i % 4", "-3"),
        ("i * 1000000000", "-1589934592"),
        ("t + t", "-56"),
        ("i + f", "8.5"),
        ("b + f", "5.0000000015E9"),
        ("v * v", "15129"),
        ("e + 1", "2.50"),
        ("e / 3", "0.5"),
        ("s + 'y'", "\"xy\""),
        ("CAST(i AS text)", "\"7\""),
        ("CAST(d AS text)", "\"1.0E10\""),
        ("CAST(d AS int)", "2147483647"),
        ("CAST(b AS int)", "705032704"),
        ("CAST(f AS varint)", "1"),
        ("CAST(e AS double)", "1.5"),
        ("intAsBlob(i)", "\"0x00000007\""),
        ("blob_as_int(int_as_blob(i))", "7"),
        ("toJson(s)", "\"\\\"x\\\"\""),
        ("(int)3 + i", "10"),
    ] {
        assert_eq!(db.ok(&format!("SELECT {expr} FROM t")), value, "{expr}");
    }
    assert_eq!(db.err("SELECT i / 0 FROM t"), "the operation 'int / int' failed: / by zero");
    assert_eq!(db.err("SELECT CAST(s AS int) FROM t"), "text cannot be cast to int");
    db.ok("INSERT INTO t (k, b, i) VALUES (2, 1 + 2, (int)4 * 5)");
    assert_eq!(db.ok("SELECT b, i FROM t WHERE k = 2"), "3, 20");
}

#[test]
fn functions_of_writes_are_evaluated_when_bound() {
    let mut db = Database::with("k timeuuid PRIMARY KEY, v text, ts timestamp");
    db.ok("INSERT INTO t (k, v, ts) VALUES (now(), blobAsText(0x6162), currentTimestamp())");
    db.ok("INSERT INTO t (k) VALUES (now())");
    assert_eq!(db.ok("SELECT k FROM t").lines().count(), 2);
    assert_eq!(
        db.ok("SELECT v, ts FROM t WHERE v = 'ab' ALLOW FILTERING"),
        "\"ab\", \"1970-01-01 00:16:40.000Z\""
    );
    for (text, error) in [
        (
            "INSERT INTO t (k, v) VALUES (now(), now())",
            "Type error: cannot assign result of function system.now (type timeuuid) to v (type text)",
        ),
        ("INSERT INTO t (k, v) VALUES (now(), foo())", "Unknown function foo called"),
        ("INSERT INTO t (k, v) VALUES (now(), (text)5)", "Cannot cast value 5 to type text"),
        (
            "INSERT INTO t (k, v) VALUES (now(), (int)5)",
            "Cannot assign value (int)5 to v of type text",
        ),
        (
            "INSERT INTO t (k, v) VALUES (now(), max(1))",
            "Aggregation functions are not allowed here: max",
        ),
    ] {
        assert_eq!(db.err(text), error);
    }
}

#[test]
fn a_call_means_one_function() {
    let mut db = Database::with("k int PRIMARY KEY, d date, ts timestamp, b bigint");
    let error = db.err("INSERT INTO t (k, d) VALUES (1, toDate(?))");
    assert!(error.starts_with("Ambiguous call to function todate"), "{error}");
    db.ok("INSERT INTO t (k, d, b) VALUES (1, toDate((timestamp)0), 5)");
    assert_eq!(
        db.ok("SELECT d, CAST(k AS int), toTimestamp(mintimeuuid(b)) FROM t"),
        "\"1970-01-01\", 1, \"1970-01-01 00:00:00.005Z\""
    );
}
