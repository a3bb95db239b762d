//! IN lists and tuples, in the text and bound: what they name, what is refused, and what none of them may take.

use super::*;
use crate::limits::IN_LIST_MAX;

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
