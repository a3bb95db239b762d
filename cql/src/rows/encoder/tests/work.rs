//! The work of the expressions of a row: what takes too much is refused, what is counted is what it takes, and who
//! reads rows is told of it (`expr/work.rs`).

use super::TOO_MUCH_WORK;
use crate::bind::BoundOn;
use crate::frame::Value;
use crate::frame::request::ValueList;
use crate::limits::EXPRESSION_WORK_MAX;
use crate::testing::Database;

/// What is asked for so many times is answered, and so many times refused: it is too much work.
fn check_limit(
    what: &str,
    (taken, refused): (usize, usize),
    mut run: impl FnMut(usize) -> crate::Result<String>,
) {
    assert!(run(taken).is_ok(), "{what}");
    let error = run(refused).expect_err(what).to_string();
    assert!(error.starts_with(TOO_MUCH_WORK), "{what}: {error}");
}

/// Selects `part` so many times from the row of key `row`, with `value` for each `?`.
fn select(
    db: &mut Database,
    (part, times): (&str, usize),
    row: i32,
    value: &[u8],
) -> crate::Result<String> {
    let mut values = ValueList::new();
    (0..times * part.matches('?').count()).for_each(|_| values.push(Value::Bytes(value)));
    let selected = vec![part; times].join(", ");
    db.run(&format!("SELECT {selected} FROM t WHERE k = {row}"), &values)
}

/// Before: a hash of one value of 16 MiB, 800 times, took a core seconds in one step, and so did a thousand logarithms
/// of 1000 digits, and numbers of 60 KB as JSON.
#[test]
fn expressions_that_take_too_much_work_are_refused() {
    const MIB: usize = 1 << 20;
    let columns = "k int PRIMARY KEY, b blob, d decimal, v varint, l list<frozen<list<varint>>>, \
                   f frozen<map<int, blob>>";
    let mut db = Database::with(columns);
    let zeros = "00".repeat(MIB);
    let number = format!("1{}", "7".repeat(60_000));
    let (digits, numbers) = ("3".repeat(1000), [&number[..]; 10].join(", "));
    db.ok(&format!(
        "INSERT INTO t (k, b, d, v, l, f) \
         VALUES (1, 0x{zeros}, 1.{digits}, {number}, [[{numbers}]], {{1: 0x{zeros}}})"
    ));
    for (one, taken, refused) in [
        ("mask_hash(b)", 31, 32),
        ("mask_hash((blob)?)", 31, 32),
        ("[b, b]", 10, 20),
        ("log(d)", 2, 3),
        ("exp(1 + 1e-999)", 2, 3),
        ("v % 3", 30, 50),
        ("to_json(l)", 3, 10),
        ("f[2]", 400, 600),
        ("f[2..]", 400, 600),
    ] {
        let run = |times: usize| {
            let mut values = ValueList::new();
            let value = vec![1; MIB];
            (0..times * one.matches('?').count()).for_each(|_| values.push(Value::Bytes(&value)));
            db.run(&format!("SELECT {} FROM t", vec![one; times].join(", ")), &values)
        };
        check_limit(one, (taken, refused), run);
    }
    let write = "INSERT INTO t (k, b) VALUES (1, mask_hash((blob)?)); ".repeat(32);
    let (mut values, value) = (ValueList::new(), vec![1; MIB]);
    (0..32).for_each(|_| values.push(Value::Bytes(&value)));
    let batch = format!("BEGIN UNLOGGED BATCH {write} APPLY BATCH");
    let error = db.run(&batch, &values).expect_err("a hash for each").to_string();
    assert!(error.starts_with(TOO_MUCH_WORK), "{error}");
}

/// Before: a bound set counted a unit for each byte, and was put into order before it was refused: 14 MiB took a core a
/// second.
#[test]
fn long_sets_that_a_select_binds_are_refused_before_they_are_put_into_order() {
    let mut db =
        Database::with("k int PRIMARY KEY, f frozen<set<int>>, m map<frozen<set<int>>, int>");
    db.ok("INSERT INTO t (k, f, m) VALUES (1, {1, 2}, {{1, 2}: 3})");
    let set_of = |numbers: i32| {
        let mut set = numbers.to_be_bytes().to_vec();
        for number in (1..=numbers).rev() {
            set.extend_from_slice(&4i32.to_be_bytes());
            set.extend_from_slice(&number.to_be_bytes());
        }
        set
    };
    let (short, long) = (set_of(2), set_of(300_000));
    assert!(
        long.len() as u64 * 16 > EXPRESSION_WORK_MAX && (long.len() as u64) < EXPRESSION_WORK_MAX
    );
    for (text, shown) in [
        ("SELECT k FROM t WHERE f = ? ALLOW FILTERING", "1"),
        ("SELECT m[?] FROM t", "3"),
        ("SELECT (frozen<set<int>>)? FROM t", "[1, 2]"),
    ] {
        let mut run = |set: &[u8]| {
            let mut values = ValueList::new();
            values.push(Value::Bytes(set));
            db.run(text, &values)
        };
        assert_eq!(run(&short), Ok(shown.to_owned()), "{text}");
        let error = run(&long).expect_err(text).to_string();
        assert!(error.starts_with(TOO_MUCH_WORK), "{text}: {error}");
    }
}

/// Before: the key of an element was brought into the form of its path for each row and each use, and counted as
/// nothing: 4,000 times a decimal of 16 KB took a core 16 s a row, whether the row had a map or not. Keys of frozen
/// maps and the key that is looked for were, too, for each entry.
#[test]
fn keys_that_take_long_to_compare_count_what_they_take() {
    let columns = "k int PRIMARY KEY, m map<decimal, int>, b map<blob, int>, \
                   f frozen<map<decimal, int>>, s frozen<set<decimal>>";
    let mut db = Database::with(columns);
    db.ok("INSERT INTO t (k) VALUES (1)");
    let small = (1..=100).map(|n| format!("{n}.5: 1")).collect::<Vec<_>>().join(", ");
    let long = format!("{}.5", "7".repeat(4_000));
    db.ok(&format!(
        "INSERT INTO t (k, m, b, f, s) VALUES (2, {{1: 1}}, {{0x00: 1}}, {{{small}, {long}: 1}}, {{{long}}})"
    ));
    let (decimal, blob) = (vec![7; 16_000], vec![7; 60_000]);
    for (row, part, taken, refused) in [
        (1, "m[?]", 8, 32),
        (1, "m[?..]", 8, 32),
        (1, "writetime(m[?])", 8, 32),
        (2, "maxwritetime(m[..?])", 8, 32),
        (2, "m[?]", 8, 32),
        (2, "b[?]", 400, 800),
        (2, "f[?]", 8, 32),
        (2, "f[..?]", 8, 32),
        (2, "s[?]", 8, 32),
        (2, "f[1.25]", 200, 2_000),
        (2, "s[1.25..]", 200, 2_000),
    ] {
        let value = if part.starts_with('b') { &blob } else { &decimal };
        check_limit(part, (taken, refused), |times| select(&mut db, (part, times), row, value));
    }
}

/// Before: the type of the key was looked at for each use, which counted as nothing: of some tens of thousands of
/// fields it took a core 0.3 ms.
#[test]
fn keys_of_types_of_many_fields_count_what_they_take() {
    let fields = vec!["int"; 2_000].join(", ");
    let mut db = Database::with(&format!("k int PRIMARY KEY, m map<frozen<tuple<{fields}>>, int>"));
    db.ok("INSERT INTO t (k) VALUES (1)");
    let null = (-1i32).to_be_bytes();
    let run = |times| select(&mut db, ("m[?]", times), 1, &null);
    check_limit("8,000 units each", (100, 4_400), run);
}

/// Before: what aggregates do with a value was counted as nothing: a thousand sums of 1E+6000 and 1E-6000 took a core
/// 80 ms a row, `max` of decimals of 16 KB 8 ms for each.
#[test]
fn aggregates_count_what_they_do_with_long_numbers() {
    let mut db = Database::with("k int, c int, d decimal, v varint, PRIMARY KEY (k, c)");
    let (long, other) = ("7".repeat(30_000), "8".repeat(30_000));
    db.ok(&format!("INSERT INTO t (k, c, d, v) VALUES (1, 1, 1E+6000, {long})"));
    db.ok("INSERT INTO t (k, c, d, v) VALUES (1, 2, 1E-6000, 1)");
    db.ok(&format!("INSERT INTO t (k, c, d) VALUES (2, 1, {long})"));
    db.ok(&format!("INSERT INTO t (k, c, d) VALUES (2, 2, {other})"));
    db.ok("INSERT INTO t (k, c, d, v) VALUES (3, 1, 1.5, 7)");
    for (row, one, taken, refused) in [
        (1, "sum(d)", 200, 2_000),
        (1, "avg(d)", 200, 2_000),
        (1, "sum(v)", 1_000, 4_000),
        (2, "max(d)", 5, 40),
        (2, "min(d)", 5, 40),
        (1, "collection_sum([d, (decimal)1E-6000])", 100, 1_500),
        (2, "collection_max([d, 1])", 5, 40),
    ] {
        check_limit(one, (taken, refused), |times| {
            let selected = vec![one; times].join(", ");
            db.run(&format!("SELECT {selected} FROM t WHERE k = {row}"), &ValueList::new())
        });
    }
    db.ok("SELECT sum(d), avg(d), sum(v), max(c), sum(c), count(*) FROM t WHERE k = 3");
    assert!(db.row_work.get() < 100, "short numbers take nearly nothing");
}

/// Before: a copy of a value counted as much as a hash of it: `map_values` and `to_json` of a map of 15 MiB were
/// refused, and so were two `blob_as_text` of 9 MiB.
#[test]
fn cheap_functions_of_the_longest_rows_are_answered() {
    const MIB: usize = 1 << 20;
    let columns = "k int PRIMARY KEY, m map<int, blob>, t map<int, text>, n map<int, int>, b blob";
    let mut db = Database::with(columns);
    let mut set = |column: &str, key: i32, value: &[u8]| {
        let (mut values, key) = (ValueList::new(), key.to_be_bytes());
        values.push(Value::Bytes(&key));
        values.push(Value::Bytes(value));
        db.run(&format!("UPDATE t SET {column}[?] = ? WHERE k = 1"), &values).expect("short");
    };
    (0..60).for_each(|key| set("m", key, &vec![b'x'; MIB]));
    (0..15).for_each(|key| set("t", key, &vec![b'x'; MIB]));
    let mut values = ValueList::new();
    let value = vec![b'x'; 9 * MIB];
    values.push(Value::Bytes(&value));
    db.run("UPDATE t SET b = ? WHERE k = 1", &values).expect("short");
    assert_eq!(
        db.ok("SELECT collection_count(map_values(m)), collection_count(m) FROM t"),
        "60, 60"
    );
    assert_eq!(db.ok("SELECT collection_count(map_keys(m)), map_keys(t)[7] FROM t"), "60, 7");
    assert!(db.ok("SELECT to_json(t) FROM t").len() > 15 * MIB);
    assert!(db.ok("SELECT blob_as_text(b), blob_as_text(b) FROM t").len() > 18 * MIB);
    // A row has at most 1,048,576 cells.
    const ENTRIES: usize = 1 << 14;
    let all: Vec<String> = (0..ENTRIES).map(|n| format!("{n}: {n}")).collect();
    db.ok(&format!("UPDATE t SET n = {{{}}} WHERE k = 1", all.join(", ")));
    for one in ["map_values(n)", "map_keys(n)", "collection_count(n)", "to_json(n)"] {
        db.ok(&format!("SELECT {one} FROM t"));
        assert!(
            64 * db.row_work.get() < EXPRESSION_WORK_MAX as usize,
            "{one}: {}",
            db.row_work.get()
        );
    }
}

/// Before: a set or map that replaces another was evaluated twice, which counts as twice the work: a value from JSON
/// that takes more than half of `EXPRESSION_WORK_MAX` was refused.
#[test]
fn a_long_value_of_a_write_is_evaluated_once() {
    const VALUE_BYTES: usize = 7 << 20;
    // What is counted: the text, which has two digits for each byte, the value, and putting it into order. (Of a bound
    // set or map a thread beside the core counts the bytes alone, which are at most half of the limit.)
    const { assert!(2 * (2 + 1 + 1) * VALUE_BYTES as u64 > EXPRESSION_WORK_MAX) };
    let mut db = Database::with("k int PRIMARY KEY, m map<int, blob>");
    db.bound_on = BoundOn::ThreadBeside;
    let json = format!("{{\"7\": \"0x{}\"}}", "00".repeat(VALUE_BYTES));
    let mut values = ValueList::new();
    values.push(Value::Bytes(json.as_bytes()));
    db.run("INSERT INTO t (k, m) VALUES (1, from_json(?))", &values).expect("it is evaluated once");
}

/// Before: a reader paused after as many bytes as rows have, however often expressions went through them.
#[test]
fn a_reader_is_told_what_the_expressions_of_a_row_take() {
    let mut db = Database::with("k int PRIMARY KEY, v text");
    db.ok(&format!("INSERT INTO t (k, v) VALUES (1, '{}')", "x".repeat(1000)));
    for (selected, least, most) in [
        ("v".to_owned(), 0, 0),
        (vec!["mask_hash(v)"; 100].join(", "), 100_000, 120_000),
        (vec!["max(mask_hash(v))"; 100].join(", "), 100_000, 120_000),
    ] {
        db.ok(&format!("SELECT {selected} FROM t"));
        let work = db.row_work.get();
        assert!((least..=most).contains(&work), "{work}");
    }
}

/// Before: the cells of the static row were walked for each row, and counted once a partition: each row took a core up
/// to 8 ms, and a reader did not pause between them.
#[test]
fn a_reader_is_told_of_walks_over_the_static_row() {
    const ENTRIES: usize = 5_000;
    let mut db =
        Database::with("k int, c int, m map<int, int> STATIC, z int STATIC, PRIMARY KEY (k, c)");
    let all: Vec<String> = (0..ENTRIES).map(|n| format!("{n}: {n}")).collect();
    db.ok(&format!(
        "INSERT INTO t (k, m, z) VALUES (1, {{{}}}, 7) USING TIMESTAMP 7",
        all.join(", ")
    ));
    db.ok("INSERT INTO t (k, c) VALUES (1, 1)");
    db.ok("INSERT INTO t (k, c) VALUES (1, 2)");
    let last = ENTRIES - 1;
    for (selected, walks, shown) in [
        ("c", 0, "1\n2".to_owned()),
        ("z", 1, "7\n7".to_owned()),
        ("m[9999]", 1, "null\nnull".to_owned()),
        (&format!("m[{last}], m[{last}]"), 2, format!("{last}, {last}\n{last}, {last}")),
        (&format!("writetime(m[{last}])"), 1, "7\n7".to_owned()),
    ] {
        assert_eq!(db.ok(&format!("SELECT {selected} FROM t")), shown);
        let (work, cells) = (db.row_work.get(), walks * ENTRIES);
        assert!((cells..=10 * cells + 10).contains(&work), "{selected}: {work}");
    }
}

/// Before: aggregates of numbers of fixed width and counts took nothing: 52,000 of them took a core 3 ms a row, of
/// which it read 512 in one step. Their states counted as nothing, too: 15 MB of the memory of answers.
#[test]
fn a_reader_is_told_of_many_aggregates_and_of_their_memory() {
    const MANY: usize = 1_000;
    let mut db = Database::with("k int, c int, v int, PRIMARY KEY (k, c)");
    (1..=3).for_each(|c| drop(db.ok(&format!("INSERT INTO t (k, c, v) VALUES (1, {c}, 1)"))));
    for one in ["count(v)", "count(*)", "sum(v)", "max(v)"] {
        let mut told = |selected: &str, rows: &str| {
            db.ok(&format!("SELECT {selected} FROM t {rows}"));
            (db.row_work.get(), db.held_bytes.get())
        };
        let many = vec![one; MANY].join(", ");
        let (work, bytes) = told(&many, "WHERE k = 1");
        assert!((4 * MANY..=16 * MANY).contains(&work), "{one}: {work}");
        assert!((200 * MANY..=1_000 * MANY).contains(&bytes), "{one}: {bytes}");
        // Each row ends a group and begins another one.
        let (of_groups, _) = told(&many, "WHERE k = 1 GROUP BY k, c");
        assert!(of_groups >= 2 * work, "{one}: {of_groups}");
        let (work, bytes) = told(one, "");
        assert!(work <= 16 && bytes <= 1_000, "{one}: {work}, {bytes}");
    }
}

/// Before: each state of an aggregate walked the type of its values, and that counted as nothing.
#[test]
fn states_of_aggregates_count_the_types_in_their_type() {
    let fields = vec!["int"; 2_000].join(", ");
    let mut db = Database::with(&format!("k int PRIMARY KEY, u frozen<tuple<{fields}>>"));
    db.ok("INSERT INTO t (k) VALUES (1)");
    check_limit("8,000 units each", (100, 4_400), |times| {
        select(&mut db, ("max(u)", times), 1, &[])
    });
}

/// Before: what a filter compares with was brought into order for each row, and counted as nothing: 4 ms a row for
/// each decimal of 16 KB.
#[test]
fn values_of_filters_count_what_bringing_them_into_order_takes() {
    let mut db = Database::with("k int PRIMARY KEY, l list<decimal>");
    let value = [vec![0; 4], vec![7; 16 << 10]].concat();
    check_limit("CONTAINS", (10, 20), |times| {
        let mut values = ValueList::new();
        (0..times).for_each(|_| values.push(Value::Bytes(&value)));
        let filters = vec!["l CONTAINS ?"; times].join(" AND ");
        db.run(&format!("SELECT k FROM t WHERE {filters} ALLOW FILTERING"), &values)
    });
}

/// Before: a value of 64 KiB with short decimals in it, whose ordered form is made at once, was refused.
#[test]
fn long_values_of_filters_with_short_decimals_are_compared() {
    let mut db = Database::with(
        "k int PRIMARY KEY, f frozen<list<decimal>>, u frozen<tuple<decimal, text>>",
    );
    let one = [&[0, 0, 0, 5, 0, 0, 0, 1][..], &[7]].concat();
    let list = [&20_000i32.to_be_bytes()[..], &one.repeat(20_000)].concat();
    let text = vec![b'x'; 200 << 10];
    let tuple = [&one[..], &(text.len() as i32).to_be_bytes(), &text].concat();
    for (column, value) in [("f", list), ("u", tuple)] {
        let mut values = ValueList::new();
        values.push(Value::Bytes(&value));
        db.run(&format!("INSERT INTO t (k, {column}) VALUES (1, ?)"), &values).unwrap();
        let select = format!("SELECT k FROM t WHERE {column} = ? ALLOW FILTERING");
        assert!(db.run(&select, &values).is_ok(), "{column}");
    }
}
