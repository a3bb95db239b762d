//! Rows read: slices, orders, limits, pages, tokens.

use super::*;

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

/// Before: what an IN and a bound of many columns make of each other counted by the bytes of their values alone: 60 KB
/// became 0.5 GB and a second of work.
#[test]
fn many_pieces_of_bounds_of_empty_values_are_refused() {
    const COLUMNS: usize = 60;
    let names: Vec<String> = (1..=COLUMNS).map(|n| format!("c{n}")).collect();
    let columns: String = names.iter().map(|name| format!("{name} text, ")).collect();
    let names = names.join(", ");
    let mut db = Database::with(&format!("k int, c0 int, {columns} PRIMARY KEY (k, c0, {names})"));
    let bound = vec!["''"; COLUMNS].join(", ");
    for (values, is_refused) in [(100, false), (5_000, true)] {
        let list = (0..values).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        let text =
            format!("SELECT k FROM t WHERE k = 1 AND c0 IN ({list}) AND ({names}) > ({bound})");
        let refused = db.run(&text, &ValueList::new()).err().map(|error| error.to_string());
        let too_much =
            refused.as_ref().is_some_and(|text| text.starts_with("one row or statement"));
        assert_eq!(too_much, is_refused, "{refused:?}");
    }
}

/// Before: what makes numbers of the digits in a JSON text counted as its bytes: 140 long ones took 2 s.
#[test]
fn long_numbers_in_json_count() {
    let mut db = Database::with("k int PRIMARY KEY, l frozen<list<varint>>");
    for (count, is_refused) in [(2, false), (10, true)] {
        // Also as strings, where each digit may be escaped.
        let escaped = format!("\"{}\"", "\\u0037".repeat(100_000));
        for number in ["7".repeat(100_000), escaped] {
            let json = format!("[{}]", vec![number; count].join(", "));
            let row = format!("{{\"k\": 1, \"l\": {json}}}");
            for (text, json) in [
                ("SELECT k FROM t WHERE l = from_json(?) ALLOW FILTERING", &json),
                ("INSERT INTO t JSON ?", &row),
            ] {
                let refused = db.run(text, &bound(&[Value::Bytes(json.as_bytes())])).err();
                let refused = refused.map(|error| error.to_string());
                let too_much =
                    refused.as_ref().is_some_and(|text| text.starts_with("one row or statement"));
                assert_eq!(too_much, is_refused, "{text}: {refused:?}");
            }
        }
    }
}

/// Before: each run of digits counted, also in a text beside a decimal.
#[test]
fn digits_that_are_no_number_do_not_count() {
    let mut db = Database::with("k int PRIMARY KEY, l frozen<tuple<decimal, text>>");
    let json = format!("[1, \"{}\"]", "7".repeat(1 << 20));
    let text = "SELECT k FROM t WHERE l = from_json(?) ALLOW FILTERING";
    db.run(text, &bound(&[Value::Bytes(json.as_bytes())])).expect("a text");
}

/// Before: a set of `from_json` was put into order for nothing, and the type of its result was walked for nothing.
#[test]
fn sets_and_types_of_json_count() {
    let fields = vec!["int"; 2_000].join(", ");
    let mut db = Database::with("k int PRIMARY KEY, s frozen<set<int>>");
    db.ok(&format!("CREATE TYPE wide (t frozen<tuple<{fields}>>)"));
    db.ok("CREATE TABLE w (k int PRIMARY KEY, u frozen<wide>)");
    let numbers: Vec<String> = (0..600_000).map(|n| (900_000 - n).to_string()).collect();
    let set = format!("[{}]", numbers.join(","));
    let few = format!("[{}]", numbers[..1_000].join(","));
    let calls = |count: usize| format!("u IN ({})", vec!["from_json(:j)"; count].join(", "));
    for (of, rows, json, is_refused) in [
        ("t", "s = from_json(:j)", &few, false),
        ("t", "s = from_json(:j)", &set, true),
        ("w", &calls(100), &"{}".to_owned(), false),
        ("w", &calls(5_000), &"{}".to_owned(), true),
    ] {
        let text = format!("SELECT k FROM {of} WHERE {rows} ALLOW FILTERING");
        let mut values = ValueList::new();
        values.push_named("j", Value::Bytes(json.as_bytes()));
        let refused = db.run(&text, &values).err().map(|error| error.to_string());
        let too_much =
            refused.as_ref().is_some_and(|text| text.starts_with("one row or statement"));
        assert_eq!(too_much, is_refused, "{of}: {refused:?}");
    }
}
