//! Rows written: inserted, updated, deleted, with times to live, and how much one statement may write.

use super::*;
use crate::steps::steps_of;

/// `0, 1, ..`, so many.
fn numbers(count: i32) -> String {
    (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(", ")
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

/// Before: 2,000 keys with one value of a megabyte made a record of 2 GB.
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

#[test]
fn stamps_of_elements_and_fields() {
    let mut db = Database::new();
    db.ok("CREATE TYPE u (a int, b int)");
    db.ok("CREATE TABLE t (k int PRIMARY KEY, m map<int, int>, s set<int>, u u, f frozen<map<set<int>, int>>, l list<int>)");
    db.ok("INSERT INTO t (k, m, s, u, f) VALUES (1, {1: 1, 2: 2}, {5}, {a: 1, b: 2}, {{2, 1}: 3}) USING TIMESTAMP 5");
    db.ok("UPDATE t USING TIMESTAMP 7 AND TTL 50 SET m[2] = 3, u.b = 4, s = s + {6} WHERE k = 1");
    assert_eq!(
        db.ok("SELECT writetime(m[1]), writetime(m[2]), ttl(m[2]), writetime(m[3]), writetime(s[6]), writetime(u.a), writetime(u.b), writetime(f[{1}]), writetime(f[{1, 2}]), writetime(m), f FROM t"),
        "5, 7, 50, null, 7, 5, 7, null, 5, [5, 7], {\"[1, 2]\": 3}"
    );
    assert!(db.err("SELECT writetime(l[0]) FROM t").starts_with("Element selection"));
    assert!(db.err("SELECT ttl(k[0]) FROM t").contains("PRIMARY KEY"));
}

/// As Cassandra 5.0.9: `(type)` is checked, and then the value is made for its receiver.
#[test]
fn a_type_hint_does_not_decide_the_bytes() {
    let mut db = Database::with("k varint PRIMARY KEY, b blob, t timestamp, d double");
    db.ok("INSERT INTO t (k) VALUES ((int)5)");
    assert_eq!(db.ok("SELECT k FROM t WHERE k = 5"), "5");
    assert_eq!(db.ok("SELECT k FROM t WHERE k = (int)5"), "5");
    assert_eq!(db.ok("SELECT k FROM t WHERE k IN ((bigint)5, (varint)(int)6)"), "5");
    db.ok("INSERT INTO t (k, t) VALUES ((int)9999999999, (bigint)5)");
    assert_eq!(db.ok("SELECT k FROM t WHERE k = 9999999999"), "9999999999");
    let marker = |text: &str| {
        let prepared = prepare(text, &db.schema, Some("ks")).unwrap();
        prepared.markers.iter().map(|m| format!("{} {}", m.name, m.ty)).collect::<String>()
    };
    assert_eq!(marker("INSERT INTO t (k) VALUES ((int)?)"), "k varint");
    assert_eq!(marker("INSERT INTO t (k, t) VALUES (1, (bigint)?)"), "t timestamp");
    assert_eq!(marker("INSERT INTO t (k, b) VALUES (1, (int)?)"), "b blob");
    for (text, error) in [
        (
            "UPDATE t SET d = (float)0.1 WHERE k = 5",
            "Cannot assign value (float)0.1 to d of type double",
        ),
        (
            "UPDATE t SET b = (int)5 WHERE k = 5",
            "Invalid INTEGER constant (5) for \"b\" of type blob",
        ),
        ("INSERT INTO t (k) VALUES ((int)(varint)14)", "Cannot cast value (varint)14 to type int"),
    ] {
        let found = db.err(text);
        assert!(found.starts_with(error), "{found}");
    }
}

#[test]
fn of_a_ttl_that_is_given_twice_the_last_counts() {
    let mut db = Database::with("k int PRIMARY KEY, v int");
    db.ok("INSERT INTO t (k, v) VALUES (1, 1) USING TTL 7000 AND TTL 100");
    assert_eq!(db.ok("SELECT ttl(v) FROM t"), "100");
    let values = [int(1000), int(50)];
    let values = bound(&values.each_ref().map(|value| Value::Bytes(value)));
    db.run("INSERT INTO t (k, v) VALUES (1, 1) USING TTL ? AND TTL ?", &values).unwrap();
    assert_eq!(db.ok("SELECT ttl(v) FROM t"), "50");
    let first = bound(&[Value::Bytes(&int(1000))]);
    db.run("UPDATE t USING TTL ? AND TTL 70 SET v = 2 WHERE k = 1", &first).unwrap();
    assert_eq!(db.ok("SELECT ttl(v) FROM t"), "70");
    let text =
        "INSERT INTO t (k, v) VALUES (1, 1) USING TTL ? AND TIMESTAMP ? AND TTL ? AND TIMESTAMP ?";
    let prepared = prepare(text, &db.schema, Some("ks")).unwrap();
    let names: Vec<&str> = prepared.markers.iter().map(|marker| marker.name.as_ref()).collect();
    assert_eq!(names, ["[ttl]", "[timestamp]", "[ttl]", "[timestamp]"]);
}

/// Before: each operation was compared with all before it.
#[test]
fn many_elements_of_a_column_are_written_in_time_in_proportion_to_their_number() {
    let mut db = Database::with("k int PRIMARY KEY, m map<int, int>");
    let puts = vec!["m[0]=0"; 30_000].join(",");
    let removed = format!("m[0], {}", vec!["m"; 60_000].join(","));
    for text in
        [format!("UPDATE t SET {puts} WHERE k = 1"), format!("DELETE {removed} FROM t WHERE k = 1")]
    {
        let (steps, prepared) = steps_of(|| prepare(&text, &db.schema, Some("ks")));
        prepared.expect("a write");
        assert!((30_000..60_000 * 4).contains(&steps), "{steps} comparisons of operations");
    }
    db.ok("DELETE m[0], m, m[1], m FROM t WHERE k = 1");
    for text in [
        "UPDATE t SET m[0] = 0, m = {} WHERE k = 1",
        "UPDATE t SET m = {}, m[0] = 0 WHERE k = 1",
        "UPDATE t SET m = {}, m = {} WHERE k = 1",
    ] {
        assert_eq!(db.err(text), "Multiple incompatible setting of column m", "{text}");
    }
}

/// Before: each key column of an INSERT was compared with all before it, and then sought among all of them: `{}` names
/// them all.
#[test]
fn a_long_key_is_inserted_in_steps_in_proportion_to_its_columns() {
    const COLUMNS: usize = 500;
    let names: Vec<String> = (0..COLUMNS).map(|at| format!("c{at}")).collect();
    let typed: Vec<String> = names.iter().map(|name| format!("{name} int")).collect();
    let (typed, key) = (typed.join(", "), names.join(", "));
    for key in [format!("({key})"), key] {
        let db = Database::with(&format!("{typed}, PRIMARY KEY ({key})"));
        let insert = "INSERT INTO t JSON '{}'";
        let (steps, prepared) = steps_of(|| prepare(insert, &db.schema, Some("ks")));
        prepared.expect("a write");
        assert!((1..20 * COLUMNS).contains(&steps), "{steps} restrictions looked at");
    }
}

#[test]
fn the_partition_key_columns_that_a_write_does_not_name_are_told_in_their_order() {
    let mut db = Database::with("a int, b int, c int, d int, PRIMARY KEY ((a, b, c, d))");
    for text in ["INSERT INTO t (d, b) VALUES (1, 2)", "DELETE FROM t WHERE d = 1 AND b > 2"] {
        assert_eq!(db.err(text), "Some partition key parts are missing: a, c", "{text}");
    }
    let refused = db.err("DELETE FROM t WHERE d = 1 AND c = 1 AND b > 2 AND a = 1");
    assert!(refused.starts_with("Only EQ and IN relation are supported"), "{refused}");
}

/// Before: the static row was written, too, of a statement whose list of rows is empty.
#[test]
fn where_no_row_is_named_the_static_row_is_not_written() {
    let mut db =
        Database::with("k int, c int, s int static, l list<int> static, v int, PRIMARY KEY (k, c)");
    let empty = int(0);
    let none = bound(&[Value::Bytes(&empty)]);
    db.ok("UPDATE t SET s = 1, v = 2 WHERE k = 1 AND c IN ()");
    db.run("UPDATE t SET s = 1, l = [1], v = 2 WHERE k = 1 AND c IN ?", &none).unwrap();
    assert_eq!(db.ok("SELECT * FROM t"), "");
    db.ok("INSERT INTO t (k, c, s, v) VALUES (1, 1, 5, 6)");
    db.ok("DELETE s, v FROM t WHERE k = 1 AND c IN ()");
    db.run("DELETE s, v FROM t WHERE k = 1 AND c IN ?", &none).unwrap();
    assert_eq!(db.ok("SELECT s, v FROM t"), "5, 6");
    let mut record = Vec::new();
    let text = "UPDATE t SET l[0] = 1, v = 2 WHERE k = 1 AND c IN ?";
    db.bind(text, &none, &mut record).unwrap();
    let changes =
        model::MutationRef::of_trusted_record(&record).map(|one| one.unwrap().reads_first());
    assert_eq!(changes.filter(|reads| *reads).count(), 0);
}

/// Before: each of many additions was evaluated for each of many rows, a hundred million times, in one step.
#[test]
fn what_a_static_list_grows_by_for_many_rows_is_counted() {
    let mut db = Database::with("k int, c int, l list<int> static, v int, PRIMARY KEY (k, c)");
    let rows = (0..10_000).map(|c| c.to_string()).collect::<Vec<_>>().join(", ");
    let update = |additions: usize| {
        let additions = vec!["l = l + []"; additions].join(", ");
        format!("UPDATE t SET {additions}, v = 1 WHERE k = 1 AND c IN ({rows})")
    };
    db.ok(&update(2));
    let refused = db.run(&update(3000), &bound(&[])).map(drop).unwrap_err().to_string();
    assert!(refused.starts_with("one row or statement takes more than"), "{refused}");
}

/// Before: the rows were evaluated anew for each partition.
#[test]
fn rows_are_evaluated_once_for_all_partitions() {
    let db = Database::with("k int, c int, s int static, v int, PRIMARY KEY (k, c)");
    let markers = ["blob_as_int((blob) ?)"; 10].join(", ");
    let one = int(1);
    let values = bound(&[vec![Value::Unset], vec![Value::Bytes(&one); 10]].concat());
    let work_for = |keys: i32, change: &str| {
        let keys = numbers(keys);
        let text = format!("UPDATE t SET {change} WHERE k IN ({keys}) AND c IN ({markers})");
        let (bound, work) = db.bind_counted(&text, &values, &mut Vec::new());
        bound.expect("a write");
        work
    };
    for change in ["s = 1, v = ?", "v = 1, s = ?"] {
        let each = (work_for(20, change) - work_for(10, change)) / 10;
        assert!(each < 64, "{each} units for each partition: {change}");
    }
}

/// The lists of keys are judged before the rows.
#[test]
fn keys_are_judged_before_the_rows_of_the_first_partition() {
    let mut db = Database::with("k int, c int, s int static, v int, PRIMARY KEY (k, c)");
    for change in ["UPDATE t SET s = 1, v = 1", "DELETE FROM t", "DELETE v FROM t"] {
        let refused = db.err(&format!("{change} WHERE k IN (1, null) AND c IN (1, null)"));
        assert_eq!(refused, "Invalid null value in condition for column k");
        let refused = db.err(&format!("{change} WHERE k IN (1, 2) AND c IN (1, null)"));
        assert_eq!(refused, "Invalid null value in condition for column c");
    }
    let refused = db.err("DELETE FROM t WHERE k IN (1, null) AND c > null");
    assert_eq!(refused, "Invalid null value in condition for column k");
}

/// Before: partitions times rows were walked in one step and counted nowhere, a hundred million where nothing is
/// written to them.
#[test]
fn rows_of_many_partitions_are_counted() {
    let mut db = Database::with(
        "k int, c int, d int, l list<int>, s list<int> static, v int, PRIMARY KEY (k, c, d)",
    );
    db.ok("CREATE TABLE n (k int, c int, s counter static, n counter, PRIMARY KEY (k, c))");
    let (unset, none) = (bound(&[Value::Unset]), bound(&[]));
    let mut said = Vec::new();
    for (change, rows, values) in [
        ("DELETE l[?] FROM t", "d = 1 AND c", &unset),
        ("UPDATE t SET s = s + [], l = l - ?", "d = 1 AND c", &unset),
        ("UPDATE n SET s = s + 1, n = n + ?", "c", &unset),
        ("DELETE FROM t", "d = 1 AND c", &none),
        ("DELETE FROM t", "c", &none),
    ] {
        let bind = |keys: i32, many: i32| {
            let (keys, many) = (numbers(keys), numbers(many));
            let text = format!("{change} WHERE {rows} IN ({many}) AND k IN ({keys})");
            db.bind_counted(&text, values, &mut Vec::new())
        };
        let (bound, work) = bind(100, 100);
        bound.expect(change);
        assert!((160_000..1_000_000).contains(&work), "{work}: {change}");
        let (refused, _) = bind(1500, 1500);
        said.push(refused.expect_err(change).to_string());
    }
    let too_much = "one row or statement takes more than 33554432 units of work";
    assert!(said[..3].iter().all(|said| said.starts_with(too_much)), "{said:?}");
    assert!(said[3..].iter().all(|said| said.starts_with("Mutation of 1")), "{said:?}");
}

/// Before: a column that is not set was looked at once for each row, and counted nowhere.
#[test]
fn columns_that_are_not_set_are_counted_for_each_row() {
    let db = Database::with("k int, c int, l list<int>, v int, w int, PRIMARY KEY (k, c)");
    let numbers = numbers(1000);
    let work_of = |change: &str, unset: usize| {
        let text = format!("{change} WHERE k = 1 AND c IN ({numbers})");
        let values = bound(&vec![Value::Unset; unset]);
        let (bound, work) = db.bind_counted(&text, &values, &mut Vec::new());
        bound.expect("a write");
        work
    };
    for (change, one) in
        [("UPDATE t SET v = 1", ", l = l + ?"), ("UPDATE t SET v = 1", ", l = l - ?")]
    {
        let few = work_of(&format!("{change}{one}"), 1);
        let many = work_of(&format!("{change}{}", one.repeat(101)), 101);
        assert!(many - few >= 400_000, "{few} and {many} units: {one}");
    }
}

/// Before: what was counted of an INSERT JSON was forgotten, so that the next one of a batch began from nothing.
#[test]
fn the_work_of_an_insert_json_is_kept() {
    let db = Database::with("k int, c int, v int, PRIMARY KEY (k, c)");
    let work_of = |inserts: usize, row: &str| {
        let insert = format!("INSERT INTO t JSON '{row}';");
        let text = format!("BEGIN BATCH {} APPLY BATCH", insert.repeat(inserts));
        let (bound, work) = db.bind_counted(&text, &bound(&[]), &mut Vec::new());
        (bound.map_err(|error| error.to_string()), work)
    };
    let (bound, one) = work_of(1, r#"{"k": 1, "c": 1}"#);
    assert!(bound.is_ok() && one > 0, "{one}");
    assert_eq!(work_of(3, r#"{"k": 1, "c": 1}"#), (Ok(()), 3 * one));
    let (refused, work) = work_of(1, r#"{"k": 1}"#);
    assert_eq!(refused, Err("Invalid null value in condition for column c".into()));
    assert!(work > 0, "what was done before the error");
}

/// Before: the elements that a static list gets once more for each row were copied for nothing.
#[test]
fn elements_that_are_added_again_are_counted() {
    const ELEMENTS: i32 = 340;
    let db = Database::with("k int, c int, l list<int> static, v int, PRIMARY KEY (k, c)");
    let item = [int(4), int(7)].concat();
    let items = [&int(ELEMENTS)[..], &item.repeat(ELEMENTS as usize)].concat();
    for (change, values) in [
        ("l = ? + l, v = 1", vec![Value::Bytes(&items)]),
        ("l = l + ?, v = 1", vec![Value::Bytes(&items)]),
        // The index is looked at where the list is: all are changes of what is there.
        ("l = l + ?, l[?] = 1, v = 1", vec![Value::Bytes(&items), Value::Bytes(&items[..4])]),
    ] {
        let work_of = |rows: i32| {
            let rows = numbers(rows);
            let text = format!("UPDATE t SET {change} WHERE k = 1 AND c IN ({rows})");
            let (bound, work) = db.bind_counted(&text, &bound(&values), &mut Vec::new());
            bound.expect("a write");
            work
        };
        let again = (work_of(20) - work_of(10)) / 10;
        assert!(again >= 24 * ELEMENTS as u64, "{again} units for each row: {change}");
        assert!(again <= 100 * ELEMENTS as u64, "{again} units for each row: {change}");
    }
}

/// Before: a static list grew once, however many rows were named. Cassandra writes the static row for each of them.
#[test]
fn a_static_list_grows_once_for_each_row() {
    let mut db = Database::with("k int, c int, l list<int> static, v int, PRIMARY KEY (k, c)");
    for (text, list) in [
        ("UPDATE t SET l = [1, 2], v = 1 WHERE k = 1 AND c IN (1, 2)", "[1, 2, 1, 2]"),
        ("UPDATE t SET l = l + [3], v = 1 WHERE k = 1 AND c IN (1, 2)", "[1, 2, 1, 2, 3, 3]"),
        ("UPDATE t SET l = [0] + l, v = 1 WHERE k = 1 AND c IN (2, 2)", "[0, 1, 2, 1, 2, 3, 3]"),
        ("UPDATE t SET l = l + [4] WHERE k = 1", "[0, 1, 2, 1, 2, 3, 3, 4]"),
    ] {
        db.ok(text);
        assert_eq!(db.ok("SELECT DISTINCT l FROM t WHERE k = 1"), list, "{text}");
    }
    // All copies of what is added count.
    let rows: Vec<String> = (0..40).map(|row| row.to_string()).collect();
    let text = format!("UPDATE t SET l = ?, v = 1 WHERE k = 1 AND c IN ({})", rows.join(", "));
    let items = [&int(1 << 18)[..], &[0, 0, 0, 4, 0, 0, 0, 1].repeat(1 << 18)].concat();
    let refused = db.run(&text, &bound(&[Value::Bytes(&items)])).unwrap_err();
    assert!(refused.to_string().contains("too large"), "{refused}");
}

/// Before: a row that cannot be named was not seen where no value was set, or where no partition was named.
#[test]
fn rows_are_judged_where_nothing_is_written_to_them() {
    let mut db = Database::with("k int, c int, s int static, v int, PRIMARY KEY (k, c)");
    let one = int(1);
    let (unset, null, one) = (Value::Unset, Value::Null, Value::Bytes(&one));
    let mut run = |text: &str, values: &[Value<'_>]| {
        db.run(text, &bound(values)).map_err(|error| error.to_string())
    };
    let condition =
        |column: &str| Err(format!("Invalid null value in condition for column {column}"));
    let update = "UPDATE t SET v = ? WHERE k = ? AND c = ?";
    assert_eq!(run(update, &[unset, one, null]), condition("c"));
    assert_eq!(run(update, &[unset, null, null]), condition("k"));
    let refused = run(update, &[unset, one, unset]).unwrap_err();
    assert_eq!(refused, "Invalid unset value for column c");
    let text = "UPDATE t SET v = ? WHERE k = ? AND c IN (1, ?)";
    assert_eq!(run(text, &[unset, one, null]), condition("c"));
    assert_eq!(
        run("UPDATE t SET s = 1, v = ? WHERE k = 1 AND c = ?", &[unset, null]),
        condition("c")
    );
    assert_eq!(
        run("BEGIN BATCH UPDATE t SET v = ? WHERE k = 1 AND c = ?; APPLY BATCH", &[unset, null]),
        condition("c")
    );
    assert_eq!(run("SELECT * FROM t", &[]).unwrap(), "");
    for text in [
        "UPDATE t SET v = 1 WHERE k IN () AND c IN (1, null)",
        "UPDATE t SET v = 1 WHERE k IN () AND c = null",
        "DELETE FROM t WHERE k IN () AND c = null",
        "DELETE v FROM t WHERE k IN () AND c IN (1, null)",
    ] {
        assert_eq!(run(text, &[]), condition("c"), "{text}");
    }
    assert_eq!(run("DELETE FROM t WHERE k IN () AND c > null", &[]).unwrap(), "");
    assert_eq!(run("UPDATE t SET v = ? WHERE k = ? AND c = ?", &[unset, one, one]).unwrap(), "");
}
