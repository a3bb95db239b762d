//! Rows read: slices, orders, limits, pages, tokens, groups.

use super::*;
use crate::limits::IN_LIST_MAX;

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

/// D1 of the engine's review: a client could make a paging state. A seal keeps it from that now, and each field is
/// checked all the same.
#[test]
fn a_paging_state_of_another_place_is_refused() {
    let mut db = five_partitions();
    db.page_rows = Some(2);
    let key = |a: i32| a.to_be_bytes().to_vec();
    let sound = Resume {
        token: Token::of_key(&key(1)),
        key: key(1),
        clustering: Some([[0x40, 0x80, 0, 0, 0]; 2].concat()),
        partition_done: false,
        rows_of_partition: 1,
    };
    let run = |db: &Database, text: &str, resume: Resume, rows_left| {
        let state = PagingState { resume, rows_left }.encode();
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

/// Before: groups came as one page, whatever the size of a page.
#[test]
fn groups_come_in_pages_that_make_the_whole() {
    let mut db = Database::with("k int, c int, d int, s int static, v int, PRIMARY KEY (k, c, d)");
    for k in 0..7 {
        db.ok(&format!("INSERT INTO t (k, s) VALUES ({k}, {})", k * 10));
        for n in 0..(k % 4) * 3 {
            db.ok(&format!("INSERT INTO t (k, c, d, v) VALUES ({k}, {}, {n}, {n})", n / 2));
        }
    }
    db.ok("CREATE TABLE h (k int, c int, t timestamp, s int static, PRIMARY KEY (k, c, t))");
    for k in 0..5 {
        db.ok(&format!("INSERT INTO h (k, s) VALUES ({k}, {})", k * 10));
        for n in 0..k * 4 {
            let millis = n * n * 1_200_000;
            db.ok(&format!("INSERT INTO h (k, c, t) VALUES ({k}, {}, {millis})", n % 2));
        }
    }
    for text in [
        "SELECT k, count(*), sum(v) FROM t GROUP BY k",
        "SELECT k, c, count(v), s FROM t GROUP BY k, c",
        "SELECT k, c, max(d) FROM t GROUP BY k, c LIMIT 6",
        "SELECT k, c, max(d) FROM t GROUP BY k, c PER PARTITION LIMIT 2",
        "SELECT k, c, max(d) FROM t GROUP BY k, c PER PARTITION LIMIT 2 LIMIT 5",
        "SELECT k, c, d FROM t GROUP BY k, c, d",
        "SELECT c, min(v) FROM t WHERE k = 3 GROUP BY c ORDER BY c DESC",
        "SELECT k, c, min(v) FROM t WHERE k IN (3, 1, 2) GROUP BY k, c",
        "SELECT k, c, min(v) FROM t WHERE k = 3 AND c > 0 GROUP BY k, c PER PARTITION LIMIT 3",
        "SELECT k, count(*) FROM t WHERE v > 2 GROUP BY k ALLOW FILTERING",
        "SELECT DISTINCT k, s FROM t GROUP BY k",
        "SELECT k, c, floor(t, 1h), count(*), s FROM h GROUP BY k, c, floor(t, 1h)",
        "SELECT k, max(t) FROM h WHERE c = 0 GROUP BY k, floor(t, 2h) LIMIT 5 ALLOW FILTERING",
        "SELECT k, c, min(t) FROM h GROUP BY k, c, floor(t, 1h) PER PARTITION LIMIT 3 LIMIT 8",
        "SELECT t, count(*) FROM h WHERE k = 3 AND c = 1 GROUP BY floor(t, 1h) ORDER BY c DESC",
        "SELECT k, t, count(*) FROM h WHERE k IN (3, 1, 2) GROUP BY k, c, floor(t, 1h)",
    ] {
        db.page_rows = None;
        let whole = db.ok(text);
        for page_rows in [1, 2, 3, 100] {
            db.page_rows = Some(page_rows);
            assert_eq!(db.ok(text), whole, "{text} in pages of {page_rows}");
            let pages = db.pages.get();
            let groups = whole.lines().count() as u32;
            let most = groups.div_ceil(page_rows).max(1);
            assert!(pages == most || pages == most + 1, "{text}: {pages} pages of {page_rows}");
        }
    }
}

#[test]
fn functions_group_by_their_first_argument_alone() {
    let mut db = Database::with("k int, c timestamp, PRIMARY KEY (k, c)");
    for text in [
        "SELECT c FROM t WHERE k = 1 GROUP BY k, floor(current_timestamp(), 2h, c)",
        "SELECT c FROM t GROUP BY k, floor(c, 2h, c)",
    ] {
        let refused = db.err(text);
        let words = "Only monotonic functions are supported in the GROUP BY clause. Got: ";
        assert!(refused.contains(words), "{text}: {refused}");
    }
    db.ok("SELECT c FROM t GROUP BY k, floor(c, 2h, '2020-01-01')");
}

/// Cassandra takes the second in the place of the first.
#[test]
fn groups_are_by_one_function_at_most() {
    let mut db = Database::with("k int, a int, c timestamp, d timestamp, PRIMARY KEY (k, a, c, d)");
    for text in [
        "SELECT k FROM t GROUP BY k, a, floor(c, 1h), floor(d, 1h)",
        "SELECT k FROM t GROUP BY k, abs(a), floor(c, 1h)",
    ] {
        let refused = db.err(text);
        let words = "Functions are only supported on the last element of the GROUP BY clause";
        assert!(refused.contains(words), "{text}: {refused}");
    }
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

/// A tuple of one column, as bound.
fn tuple_of(value: &[u8]) -> Vec<u8> {
    [&int(value.len() as i32)[..], value].concat()
}

#[test]
fn markers_that_are_tuples_of_one_column_filter() {
    let mut db = Database::with("k int, a int, b int, PRIMARY KEY (k, a, b)");
    for (a, b) in [(1, 1), (1, 2), (2, 2), (2, 3)] {
        db.ok(&format!("INSERT INTO t (k, a, b) VALUES (1, {a}, {b})"));
    }
    let (one, two) = (tuple_of(&int(1)), tuple_of(&int(2)));
    let values = bound(&[Value::Bytes(&one), Value::Bytes(&two)]);
    let text = "SELECT a, b FROM t WHERE (b) IN (?, ?) ALLOW FILTERING";
    assert_eq!(db.run(text, &values).unwrap(), "1, 1\n1, 2\n2, 2");
    let null = bound(&[Value::Bytes(&one), Value::Null]);
    assert!(db.run(text, &null).is_err());
}

/// A list of `count` values, as bound.
fn list_of(count: usize, value: impl Fn(i32) -> Vec<u8>) -> Vec<u8> {
    let mut list = int(count as i32).to_vec();
    for index in 0..count {
        let value = value(index as i32);
        list.extend_from_slice(&int(value.len() as i32));
        list.extend_from_slice(&value);
    }
    list
}

#[test]
fn long_lists_beside_an_empty_one_name_nothing() {
    let mut db = Database::with("k int, a int, b int, c int, v int, PRIMARY KEY (k, a, b, c)");
    db.ok("CREATE TABLE p (a int, b int, c int, v int, PRIMARY KEY ((a, b, c)))");
    let (long, empty) = (list_of(300_000, |n| int(n).to_vec()), list_of(0, |_| Vec::new()));
    let values = bound(&[Value::Bytes(&long), Value::Bytes(&long), Value::Bytes(&empty)]);
    for text in [
        "SELECT * FROM t WHERE k = 1 AND a IN ? AND b IN ? AND c IN ?",
        "UPDATE t SET v = 1 WHERE k = 1 AND a IN ? AND b IN ? AND c IN ?",
        "DELETE FROM t WHERE k = 1 AND a IN ? AND b IN ? AND c IN ?",
        "SELECT * FROM p WHERE a IN ? AND b IN ? AND c IN ?",
        "DELETE FROM p WHERE a IN ? AND b IN ? AND c IN ?",
    ] {
        assert_eq!(db.run(text, &values).as_deref(), Ok(""), "{text}");
    }
    let values = bound(&[Value::Bytes(&long), Value::Bytes(&long), Value::Bytes(&long)]);
    let refused = db.run("SELECT * FROM p WHERE a IN ? AND b IN ? AND c IN ?", &values);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.starts_with("partition-key cartesian product size"), "{refused}");
}

/// Before: an empty list hid the nulls of the lists before it, too. Cassandra judges the columns in their order, up to
/// the first empty list.
#[test]
fn nulls_before_an_empty_list_are_refused_and_those_behind_it_are_not_seen() {
    let mut db = Database::with("k int, a int, b int, c int, PRIMARY KEY (k, a, b, c)");
    let empty = list_of(0, |_| Vec::new());
    let tuples = list_of(2, |n| [int(4), int(n), int(-1)].concat());
    let mut run = |text: &str, first: &[u8], second: &[u8]| {
        let values = bound(&[Value::Bytes(first), Value::Bytes(second)]);
        db.run(text, &values).map_err(|error| error.to_string())
    };
    let refused =
        |column: &str| Err(format!("Invalid null value in condition for column {column}"));
    for verb in ["SELECT *", "DELETE"] {
        let behind = format!("{verb} FROM t WHERE k = 1 AND a IN ? AND (b, c) IN ?");
        assert_eq!(run(&behind, &empty, &tuples), Ok(String::new()), "{verb}");
        let before = format!("{verb} FROM t WHERE k = 1 AND (a, b) IN ? AND c IN ?");
        assert_eq!(run(&before, &tuples, &empty), refused("b"), "{verb}");
    }
}

/// Before: millions of values were copied first, and those of filters, which each row is compared with, had no limit.
#[test]
fn a_list_that_is_too_long_is_refused_by_its_count_alone() {
    let mut db = Database::with("k int, c int, v int, PRIMARY KEY (k, c)");
    let mut run = |text: &str, list: &[u8]| {
        db.run(text, &bound(&[Value::Bytes(list)])).map_err(|error| error.to_string())
    };
    let ints = |count: usize| list_of(count, |n| int(n).to_vec());
    let tuples_of_null = list_of(IN_LIST_MAX + 1, |_| int(-1).to_vec());
    let too_many =
        |what: &str| format!("{what} cartesian product size 10001 is greater than maximum 10000");
    for (text, what) in [
        ("SELECT * FROM t WHERE k IN ?", "partition-key"),
        ("SELECT * FROM t WHERE k = 1 AND c IN ?", "clustering-key"),
        ("SELECT * FROM t WHERE v IN ? ALLOW FILTERING", "filter"),
    ] {
        assert_eq!(run(text, &ints(IN_LIST_MAX)).as_deref(), Ok(""), "{text}");
        assert_eq!(run(text, &ints(IN_LIST_MAX + 1)), Err(too_many(what)), "{text}");
    }
    // Nulls would be found when they are copied.
    let text = "SELECT * FROM t WHERE k = 1 AND (c) IN ?";
    assert_eq!(run(text, &tuples_of_null), Err(too_many("clustering-key")));
    let named =
        format!("SELECT * FROM t WHERE v IN ({}1) ALLOW FILTERING", "1, ".repeat(IN_LIST_MAX));
    assert_eq!(db.run(&named, &bound(&[])).unwrap_err().to_string(), too_many("filter"));
}

#[test]
fn a_long_value_beside_an_in_is_not_copied_without_end() {
    let mut db = Database::with("k int, a text, b int, c text, PRIMARY KEY (k, a, b, c)");
    db.ok("CREATE TABLE p (a text, b int, v int, PRIMARY KEY ((a, b)))");
    let many = list_of(10_000, |n| int(n).to_vec());
    let [huge, long] = [8 << 20, 60_000].map(|bytes| vec![b'x'; bytes]);
    let mut run = |text: &str, value: &[u8]| {
        let values = bound(&[Value::Bytes(value), Value::Bytes(&many)]);
        db.run(text, &values).map_err(|error| error.to_string())
    };
    let nothing = Ok(String::new());
    assert_eq!(run("SELECT * FROM t WHERE k = 1 AND a = ? AND b IN ?", &huge), nothing);
    assert_eq!(run("DELETE FROM t WHERE k = 1 AND a = ? AND b IN ?", &huge), nothing);
    let write = "DELETE FROM t WHERE k = 1 AND a = ? AND b IN ? AND c = 'c'";
    let refused = Err("Key length of 8388613 is longer than maximum of 65535".to_owned());
    assert_eq!(run(write, &huge), refused);
    for text in [
        "SELECT * FROM t WHERE k = 1 AND a = ? AND b IN ?",
        "DELETE FROM t WHERE k = 1 AND a = ? AND b IN ?",
        "SELECT * FROM t WHERE k = 1 AND a = 'a' AND c > ? AND b IN ?",
        "SELECT * FROM p WHERE a = ? AND b IN ?",
        write,
    ] {
        let refused = run(text, &long).unwrap_err();
        assert!(refused.starts_with("the keys that the IN lists"), "{text}: {refused}");
    }
    let short = run("SELECT * FROM t WHERE k = 1 AND a = ? AND b IN ?", &[b'x'; 200]);
    assert_eq!(short, nothing);
}

/// Before: one frame of 8 MB became gigabytes, for the values before a column are copied for each.
#[test]
fn a_bound_of_many_columns_is_not_copied_without_end() {
    let names: Vec<String> = (0..100).map(|index| format!("c{index}")).collect();
    let columns = names.join(", ");
    let typed = names.join(" text, ");
    let mut db = Database::with(&format!("k int, {typed} text, PRIMARY KEY (k, {columns})"));
    let markers = vec!["?"; 100].join(", ");
    let text = format!("SELECT k FROM t WHERE k = 1 AND ({columns}) > ({markers})");
    let mut run = |bytes: usize| {
        let first = vec![b'x'; bytes];
        let mut values = vec![Value::Bytes(&first)];
        values.resize(100, Value::Bytes(b""));
        db.run(&text, &bound(&values)).map_err(|error| error.to_string())
    };
    assert_eq!(run(20_000), Ok(String::new()));
    let refused = run(1 << 20).unwrap_err();
    assert!(refused.starts_with("the keys that the IN lists"), "{refused}");
}

/// Before: a marker for the whole tuple was refused, in words of IN.
#[test]
fn a_tuple_that_is_one_marker_filters_as_its_parts_do() {
    let mut db = Database::with("p int, a int, b int, c int, PRIMARY KEY (p, a, b, c)");
    for (a, b, c) in [(1, 2, 3), (2, 2, 3), (2, 3, 3)] {
        db.ok(&format!("INSERT INTO t (p, a, b, c) VALUES (1, {a}, {b}, {c})"));
    }
    let text = "SELECT a FROM t WHERE (b, c) = ? ALLOW FILTERING";
    let tuple = [&4i32.to_be_bytes()[..], &int(2), &4i32.to_be_bytes(), &int(3)].concat();
    let found = db.run(text, &bound(&[Value::Bytes(&tuple)])).expect(text);
    assert_eq!(found, db.ok("SELECT a FROM t WHERE (b, c) = (2, 3) ALLOW FILTERING"));
    assert_eq!(found, "1\n2");
}

/// Before: all rows were kept until the end, and what they are ordered by was not counted.
#[test]
fn rows_of_several_partitions_in_order_are_the_first_however_many_there_are() {
    let mut db = Database::with("k int, c int, v int, PRIMARY KEY (k, c)");
    for c in 0..3000 {
        db.ok(&format!("INSERT INTO t (k, c, v) VALUES ({}, {c}, {c})", c % 3));
    }
    let first = |order: &str, limit: &str| {
        format!("SELECT v FROM t WHERE k IN (0, 1, 2) ORDER BY c {order} {limit}")
    };
    assert_eq!(db.ok(&first("ASC", "LIMIT 4")), "0\n1\n2\n3");
    assert_eq!(db.ok(&first("DESC", "LIMIT 3")), "2999\n2998\n2997");
    let all: Vec<String> = (0..3000).map(|c| c.to_string()).collect();
    assert_eq!(db.ok(&first("ASC", "")), all.join("\n"));
    assert_eq!(db.ok(&first("ASC", "LIMIT 2500")), all[..2500].join("\n"));
}
