//! Collections and user types, whole and by element.

use super::*;

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

/// Before: a set of a thousand such numbers held a core for seconds.
#[test]
fn decimals_that_take_long_to_put_into_order_are_refused() {
    let mut db = Database::with("k decimal PRIMARY KEY, s set<decimal>");
    let decimal = |bytes: usize, last: u8| [&[0; 4][..], &vec![5; bytes], &[last]].concat();
    let set = |count: u8, bytes: usize| {
        let mut set = i32::from(count).to_be_bytes().to_vec();
        for last in 0..count {
            let element = decimal(bytes, last);
            set.extend((element.len() as i32).to_be_bytes());
            set.extend(element);
        }
        set
    };
    for text in ["INSERT INTO t (k, s) VALUES (1, ?)", "SELECT s FROM t WHERE k IN ?"] {
        let mut run = |decimals: &[u8]| db.run(text, &bound(&[Value::Bytes(decimals)]));
        assert!(run(&set(4, 16_000)).is_ok(), "{text}");
        let error = run(&set(40, 16_000)).unwrap_err().to_string();
        assert!(error.starts_with("the decimals of one collection or IN have too many"), "{error}");
        assert!(run(&set(100, 100)).is_ok(), "{text}");
    }
}

/// Before: it was called the key of a map.
#[test]
fn an_element_of_a_set_that_is_null_is_refused_as_one() {
    let mut db = Database::with("k int PRIMARY KEY, s set<int>, m map<int, int>");
    assert_eq!(db.err("DELETE s[null] FROM t WHERE k = 1"), "Invalid null set element");
    assert_eq!(db.err("DELETE m[null] FROM t WHERE k = 1"), "Invalid null map key");
}

/// Before: a key was not looked at where its value is not set, and a DELETE of a key that is not set wrote nothing.
#[test]
fn keys_of_maps_are_judged_where_nothing_is_set() {
    let mut db = Database::with("k int PRIMARY KEY, m map<int, int>, s set<int>, v int");
    let one = int(1);
    let (unset, null, one) = (Value::Unset, Value::Null, Value::Bytes(&one));
    let mut run = |text: &str, values: &[Value<'_>]| {
        db.run(text, &bound(values)).map_err(|error| error.to_string())
    };
    let refused = |what: &str| Err(format!("Invalid {what}"));
    let put = "UPDATE t SET m[?] = ? WHERE k = 1";
    assert_eq!(run(put, &[null, unset]), refused("null map key"));
    assert_eq!(run(put, &[unset, unset]), refused("unset map key"));
    assert_eq!(run(put, &[one, unset]).unwrap(), "");
    assert_eq!(run("DELETE m[?] FROM t WHERE k = 1", &[unset]), refused("unset map key"));
    run("INSERT INTO t (k, s, v) VALUES (1, {1}, 2)", &[]).unwrap();
    // Of a set it is nothing.
    assert_eq!(run("DELETE s[?], v FROM t WHERE k = 1", &[unset]).unwrap(), "");
    assert_eq!(run("SELECT s, v FROM t", &[]).unwrap(), "[1], null");
}
