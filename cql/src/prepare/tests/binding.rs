//! Bind markers: their names and types, and the values that are bound to them.

use super::*;

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
            vec![],
        ),
        // As Cassandra has it, the last marker of each column.
        (
            "BEGIN BATCH INSERT INTO t (k, c) VALUES (?, 1); INSERT INTO t (k, c) VALUES (?, 2); INSERT INTO t (k, c) VALUES (3, ?); APPLY BATCH",
            "k int, k int, c int",
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

/// Before: a long value of one name was copied for each marker of the name: one message took the memory of the node.
#[test]
fn a_long_value_that_many_markers_name_is_refused() {
    let mut db = Database::with("k text PRIMARY KEY, v text");
    let of = |text: &str, count: usize| text.replace("..", &vec![":x"; count].join(", "));
    let conditions = |count: usize| format!("IF {}", vec!["v = :x"; count].join(" AND "));
    for bytes in [10, 1 << 20] {
        let value = vec![b'x'; bytes];
        let mut list = ValueList::new();
        list.push_named("x", Value::Bytes(&value));
        for text in [
            of("SELECT * FROM t WHERE v IN (..) ALLOW FILTERING", 200),
            of("SELECT * FROM t WHERE k IN (..)", 90),
        ] {
            let refused = db.run(&text, &list).err().map(|error| error.to_string());
            let is_refused = refused.is_some_and(|text| text.starts_with("one row or statement"));
            assert_eq!(is_refused, bytes > 10 && text.contains('v'), "{bytes}: {text}");
        }
        let update = format!("UPDATE t SET v = 'y' WHERE k = 'k' {}", conditions(200));
        let refused = db.bind_conditional(&update, &list, &mut Vec::new());
        let refused = refused.err().map(|error| error.to_string());
        let is_refused = refused.is_some_and(|text| text.starts_with("one row or statement"));
        assert_eq!(is_refused, bytes > 10, "{bytes}");
    }
}
