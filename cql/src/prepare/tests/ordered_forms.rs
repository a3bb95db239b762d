//! What the ordered form of keys takes is counted: of rows, of elements, and of what rows are sought by
//! (`expr/work.rs`).

use super::*;
use crate::limits::EXPRESSION_WORK_MAX;

const TOO_MUCH_WORK: &str = "one row or statement takes more than";

/// A decimal of so many bytes.
fn decimal(bytes: usize) -> Vec<u8> {
    [vec![0; 4], vec![7; bytes - 4]].concat()
}

/// A list, set or map of these, each of which has its length before it.
fn collection(count: usize, items: &[&[u8]]) -> Vec<u8> {
    let mut value = int(count as i32).to_vec();
    for item in items {
        value.extend_from_slice(&int(item.len() as i32));
        value.extend_from_slice(item);
    }
    value
}

/// Before: a path counted as an element and a clustering key as a row, whatever their decimals had: 550 keys of 16 KB
/// in an UPDATE, or a BEGIN BATCH of as many rows, took a core 2 s in the step that took the request.
#[test]
fn writes_count_the_digits_of_decimals_in_keys() {
    let mut db = Database::with("k int, c decimal, v int, PRIMARY KEY (k, c)");
    db.ok("CREATE TABLE e (k int PRIMARY KEY, m map<decimal, int>, s set<decimal>, \
           f map<frozen<list<decimal>>, int>)");
    let long = decimal(16_000);
    let (map, set) = (collection(1, &[&long, &int(1)]), collection(1, &[&long]));
    for (write, value) in [
        ("UPDATE e SET m[?] = 1 WHERE k = 1", &long),
        ("DELETE m[?] FROM e WHERE k = 1", &long),
        ("UPDATE e SET m = ? WHERE k = 1", &map),
        ("UPDATE e SET m = m + ? WHERE k = 1", &map),
        ("UPDATE e SET m = m - ? WHERE k = 1", &set),
        ("UPDATE e SET s = s + ? WHERE k = 1", &set),
        ("UPDATE e SET f[?] = 1 WHERE k = 1", &set),
        ("INSERT INTO t (k, c) VALUES (1, ?)", &long),
        ("DELETE FROM t WHERE k = 1 AND c IN (?, 1)", &long),
        ("DELETE FROM t WHERE k = 1 AND c > ?", &long),
    ] {
        let bind = |times: usize| {
            let text = format!("BEGIN BATCH {} APPLY BATCH", format!("{write};").repeat(times));
            db.bind_counted(&text, &bound(&vec![Value::Bytes(value); times]), &mut Vec::new())
        };
        let (taken, work) = bind(1);
        taken.expect(write);
        // What is bound as a set is put into order twice: as one, and by element.
        assert!((2_000_000..5_000_000).contains(&work), "{work} units: {write}");
        let (refused, _) = bind(20);
        let refused = refused.expect_err(write).to_string();
        assert!(refused.starts_with(TOO_MUCH_WORK), "{write}: {refused}");
    }
}

/// Before: what reads seek in a partition counted as nothing: 128 decimals of 16 KB in an IN took a core 0.5 s.
#[test]
fn reads_count_the_digits_of_decimals_in_clustering_keys() {
    let mut db = Database::with("k int, c decimal, d decimal, PRIMARY KEY (k, c, d)");
    let long = decimal(16_000);
    let all = collection(128, &[&long[..]; 128]);
    let prefixes = (1..=20).map(|c| c.to_string()).collect::<Vec<_>>().join(", ");
    for (rows, few, many) in [
        ("c IN ?", collection(8, &[&long[..]; 8]), all),
        (&format!("c IN ({prefixes}) AND d > ?"), decimal(1_000), long.clone()),
        (&format!("c IN ({prefixes}) AND d = ?"), decimal(1_000), long),
    ] {
        let text = format!("SELECT c FROM t WHERE k = 1 AND {rows}");
        assert_eq!(db.run(&text, &bound(&[Value::Bytes(&few)])), Ok(String::new()), "{rows}");
        let refused = db.run(&text, &bound(&[Value::Bytes(&many)])).expect_err(rows).to_string();
        assert!(refused.starts_with(TOO_MUCH_WORK), "{rows}: {refused}");
    }
}

/// Before: the type of a key was walked for each element that was written, and counted as nothing.
#[test]
fn writes_count_the_types_in_the_type_of_a_key() {
    let fields = vec!["int"; 2_000].join(", ");
    let db = Database::with(&format!("k int PRIMARY KEY, m map<frozen<tuple<{fields}>>, int>"));
    let null = int(-1);
    let map = collection(2, &[&null, &int(1), &[int(4), int(1)].concat(), &int(1)]);
    for (set, value, keys) in [("m[?] = 1", &null[..], 1), ("m = m + ?", &map, 2)] {
        let text = format!("UPDATE t SET {set} WHERE k = 1");
        let values = bound(&[Value::Bytes(value)]);
        let (taken, work) = db.bind_counted(&text, &values, &mut Vec::new());
        taken.expect(set);
        // And the fields that the tuples lack.
        assert!((9_999 * keys..17_000 * keys).contains(&work), "{work} units: {set}");
    }
}

/// Keys of other types, and those of many short decimals, take about as much as they have bytes, or nothing.
#[test]
fn keys_without_long_decimals_count_little() {
    let db = Database::with("k int, i int, t text, d decimal, v int, PRIMARY KEY (k, i, t, d)");
    let short = decimal(12);
    let row = "INSERT INTO t (k, i, t, d, v) VALUES (1, 1, ?, ?, 1)";
    let work_of = |text: &[u8]| {
        let values = bound(&[Value::Bytes(text), Value::Bytes(&short)]);
        let (taken, work) = db.bind_counted(row, &values, &mut Vec::new());
        taken.expect(row);
        work
    };
    assert_eq!(work_of(b"a"), work_of(&[b'a'; 31]), "short keys are counted with their row");
    assert_eq!(work_of(&[b'a'; 6_000]) - work_of(b"a"), 1_500);
    let db = Database::with("k int, c frozen<list<decimal>>, PRIMARY KEY (k, c)");
    let many = collection(3_800, &[&short[..]; 3_800]);
    let row = "INSERT INTO t (k, c) VALUES (1, ?)";
    let (taken, work) = db.bind_counted(row, &bound(&[Value::Bytes(&many)]), &mut Vec::new());
    taken.expect(row);
    assert!(work < EXPRESSION_WORK_MAX / 512, "{work} units");
}

/// A list of so many tuples of which only the first field is there, and null.
fn short_tuples(count: usize) -> Vec<u8> {
    let tuple = int(-1);
    collection(count, &vec![&tuple[..]; count])
}

/// Before: what a tuple lacks counted as nothing: 16 MiB of tuples of 2,000 fields became 4 GB to seek a row, and a key
/// of 64 KiB that came back as 60 MB was written.
#[test]
fn what_tuples_lack_counts() {
    let fields = vec!["int"; 2_000].join(", ");
    let list = format!("frozen<list<frozen<tuple<{fields}>>>>");
    let mut db = Database::with(&format!("k int, c {list}, v {list}, PRIMARY KEY (k, c)"));
    db.ok(&format!("CREATE TABLE e (k int PRIMARY KEY, m map<{list}, int>)"));
    let (few, long) = (short_tuples(8), short_tuples(8_000));
    let bind = |text: &str, value: &[u8]| {
        let values = bound(&[Value::Bytes(value)]);
        let (taken, work) = db.bind_counted(text, &values, &mut Vec::new());
        (taken.map(drop), work)
    };
    let (long_form, long_element) =
        ("a value takes more than 4 times its bytes", "a key or an element has more than");
    for (write, told) in [
        ("INSERT INTO t (k, c) VALUES (1, ?)", long_form),
        ("DELETE FROM t WHERE k = 1 AND c = ?", long_form),
        ("DELETE FROM t WHERE k = 1 AND c IN (?, [])", long_form),
        ("DELETE FROM t WHERE k = 1 AND c > ?", long_form),
        ("UPDATE e SET m[?] = 1 WHERE k = 1", long_element),
        ("DELETE m[?] FROM e WHERE k = 1", long_element),
    ] {
        let (taken, work) = bind(write, &few);
        assert_eq!(taken, Ok(()), "{write}");
        assert!((23_000..33_000).contains(&work), "{work} units: {write}");
        let (refused, work) = bind(write, &long);
        let refused = refused.expect_err(write).to_string();
        assert!(refused.starts_with(told), "{write}: {refused}");
        assert!(work > 15_000_000, "{work} units: {write}");
    }
    let millions = short_tuples(1 << 20);
    let many_fields = "the tuples of one collection or IN lack too many fields";
    for (rows, many, told) in [
        ("c = ?", &millions, TOO_MUCH_WORK),
        ("c > ?", &millions, TOO_MUCH_WORK),
        ("c IN (?, [])", &long, long_form),
        ("v > ?", &millions, TOO_MUCH_WORK),
        ("v IN (?, [])", &millions, many_fields),
    ] {
        let text = format!("SELECT k FROM t WHERE k = 1 AND {rows} ALLOW FILTERING");
        db.run(&text, &bound(&[Value::Bytes(&few)])).expect(rows);
        let refused = db.run(&text, &bound(&[Value::Bytes(many)])).expect_err(rows).to_string();
        assert!(refused.starts_with(told), "{rows}: {refused}");
    }
}

/// `CLUSTERING_FORM_BYTES_MAX`: also where nothing else is asked of a key, since its row is deleted.
#[test]
fn a_key_with_a_long_form_is_refused() {
    let fields = vec!["int"; 2_000].join(", ");
    let list = format!("frozen<list<frozen<tuple<{fields}>>>>");
    let mut db = Database::with(&format!("k int, c {list}, PRIMARY KEY (k, c)"));
    for (count, is_refused) in [(200, false), (220, true)] {
        for rows in ["c = ?", "c IN (?, [])"] {
            let text = format!("DELETE FROM t WHERE k = 1 AND {rows}");
            let refused = db.run(&text, &bound(&[Value::Bytes(&short_tuples(count))])).err();
            let told = refused.as_ref().is_some_and(|error| {
                error.to_string().contains("in the form by which rows are ordered is longer")
            });
            assert_eq!(told, is_refused, "{count} {rows}: {refused:?}");
        }
    }
}

/// A key comes back with all fields that its types have, which may be many more than it was written with.
#[test]
fn a_key_whose_type_has_grown_is_found_and_deleted_but_not_written() {
    let mut db = Database::new();
    db.ok("CREATE TYPE u (f0 int)");
    db.ok("CREATE TABLE t (k int, c frozen<list<frozen<u>>>, d int, PRIMARY KEY (k, c, d))");
    let key = short_tuples(200);
    let insert = "INSERT INTO t (k, c, d) VALUES (1, ?, 1)";
    let run = |db: &mut Database, text: &str| {
        db.run(text, &bound(&[Value::Bytes(&key)])).map_err(|error| error.to_string())
    };
    assert_eq!(run(&mut db, insert), Ok(String::new()));
    for field in 1..=82 {
        if field == 82 {
            // 200 values that lack 81 fields: just less than 64 KiB.
            assert_eq!(run(&mut db, insert), Ok(String::new()));
        }
        db.ok(&format!("ALTER TYPE u ADD f{field} int"));
    }
    let refused = run(&mut db, insert).expect_err("65,600 bytes");
    assert!(refused.starts_with("The tuples and user types of a key lack fields"), "{refused}");
    for rows in ["c = ? AND d = 1", "c = ? AND d IN (1, 2)", "c IN (?, []) AND d = 1"] {
        let select = format!("SELECT d FROM t WHERE k = 1 AND {rows}");
        assert_eq!(run(&mut db, &select), Ok("1".into()), "{rows}");
    }
    assert_eq!(run(&mut db, "DELETE FROM t WHERE k = 1 AND c = ? AND d = 1"), Ok(String::new()));
    assert_eq!(run(&mut db, "SELECT d FROM t WHERE k = 1 AND c = ? AND d = 1"), Ok(String::new()));
}

/// Before: each set of a literal was put into order for nothing: a SELECT of a thousand sets of decimals took a core 30
/// s.
#[test]
fn sets_of_decimals_in_a_literal_count() {
    let mut db = Database::with("k int PRIMARY KEY, d decimal");
    let long = decimal(16_000);
    let values = bound(&[Value::Bytes(&long)]);
    db.run("INSERT INTO t (k, d) VALUES (1, ?)", &values).expect("a decimal");
    let set = format!("{{{}}}", ["d"; 8].join(", "));
    for (sets, is_refused) in [(1, false), (3, true)] {
        let select = format!("SELECT [{}] FROM t", vec![&set[..]; sets].join(", "));
        let refused = db.run(&select, &bound(&[])).err().map(|error| error.to_string());
        let too_much = refused.as_ref().is_some_and(|text| text.starts_with(TOO_MUCH_WORK));
        assert_eq!(too_much, is_refused, "{refused:?}");
    }
}
