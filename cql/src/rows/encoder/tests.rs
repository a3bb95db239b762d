//! Rows of an answer: many columns, cells that are selected often, elements that are looked for, pages by groups, and
//! values stored in old forms.
//!
//! Each test asks statements of a database in memory (`testing.rs`).
//!
//! Not here: parts of several cores (`part.rs`), the order of rows (`ordered.rs`), the work of expressions
//! (`tests/work.rs`).

mod work;

use model::cell::Life;
use model::key::{put_clustering, put_partition_key};
use model::row::{Cell, RowHead};
use model::schema::{SchemaChange, SchemaEntry, Table};
use model::types::{Redefined, UserType};
use model::{CqlType, MutationBuilder, RowBuilder, Token};
use uuid::Uuid;

use crate::frame::Value;
use crate::frame::request::ValueList;
use crate::limits::RESULT_BYTES_MAX;
use crate::steps::steps_of;
use crate::testing::Database;

/// More cells of a row than have a slot without allocating, static ones beside them, and some of them missing.
#[test]
fn rows_of_many_columns_are_answered_whole() {
    let columns: Vec<String> = (0..40).map(|n| format!("v{n:02}")).collect();
    let types = columns.iter().map(|name| format!("{name} int, ")).collect::<String>();
    let mut db = Database::with(&format!("k int, c int, s int STATIC, {types}PRIMARY KEY (k, c)"));
    db.ok("INSERT INTO t (k, s) VALUES (1, 9)");
    for (row, step) in [(0, 1), (1, 3)] {
        for (value, name) in columns.iter().enumerate().step_by(step) {
            db.ok(&format!("INSERT INTO t (k, c, {name}) VALUES (1, {row}, {value})"));
        }
    }
    for wanted in [1, 15, 16, 17, 40] {
        let values = |step: usize| -> Vec<String> {
            let value =
                |n: usize| if n.is_multiple_of(step) { n.to_string() } else { "null".into() };
            (0..wanted).map(value).collect()
        };
        let names = columns[..wanted].join(", ");
        assert_eq!(
            db.ok(&format!("SELECT s, {names} FROM t")),
            format!("9, {}\n9, {}", values(1).join(", "), values(3).join(", "))
        );
    }
}

/// Before: only whole rows were counted: 30,000 times a cell of 1 MB ended the process.
#[test]
fn a_row_that_selects_a_large_cell_often_is_refused_before_it_is_made() {
    let mut db = Database::with("k int PRIMARY KEY, v text");
    db.ok(&format!("INSERT INTO t (k, v) VALUES (1, '{}')", "x".repeat(1 << 20)));
    let times = |one: &str| vec![one; 30_000].join(", ");
    let result = format!("the result has more than {RESULT_BYTES_MAX} bytes");
    for selected in [times("v"), times("max(v)"), format!("count(*), {}", times("v"))] {
        let error = db.err(&format!("SELECT {selected} FROM t"));
        assert!(error.starts_with(&result), "{error}");
    }
    for one in [format!("[{}]", times("v")), format!("({})", times("v"))] {
        let error = db.err(&format!("SELECT {one} FROM t"));
        assert_eq!(error, "a value has more than 16711680 bytes");
    }
    let sum = vec!["v"; 30].join(" + ");
    let error = db.err(&format!("SELECT {sum} FROM t"));
    assert!(error.starts_with(TOO_MUCH_WORK), "{error}");
    db.ok(&format!("INSERT INTO t (k, v) VALUES (1, '{}')", "x".repeat(9 << 20)));
    assert_eq!(
        db.err("SELECT v + v FROM t"),
        "the operation 'text + text' failed: the text has more than 16711680 bytes"
    );
}

/// How the error begins of expressions that take too much work.
const TOO_MUCH_WORK: &str = "one row or statement takes more than 33554432 units";

/// Before: each element was looked for in a map that was put together anew: 3,000 of a map of 60,000 entries took a
/// core seconds in one step.
#[test]
fn elements_of_a_long_collection_are_found_without_a_walk_for_each() {
    const ENTRIES: usize = 20_000;
    const SELECTED: usize = 500;
    let mut db = Database::with("k int PRIMARY KEY, a text, m map<int, int>, s set<int>, z text");
    let all = |one: &dyn Fn(usize) -> String| (0..ENTRIES).map(one).collect::<Vec<_>>().join(", ");
    let (map, set) = (all(&|n| format!("{n}: {}", n + 1)), all(&|n| n.to_string()));
    db.ok(&format!(
        "INSERT INTO t (k, a, m, s, z) VALUES (1, 'a', {{{map}}}, {{{set}}}, 'z') USING TIMESTAMP 7"
    ));
    let each = |one: &dyn Fn(usize) -> String| {
        let step = ENTRIES / SELECTED;
        (0..SELECTED).map(|n| one(n * step + 3)).collect::<Vec<_>>().join(", ")
    };
    for (selected, shown) in [
        (each(&|n| format!("m[{n}]")), each(&|n| (n + 1).to_string())),
        (each(&|n| format!("s[{n}]")), each(&|n| n.to_string())),
        (each(&|n| format!("m[{n}..{n}]")), each(&|n| format!("{{\"{n}\": {}}}", n + 1))),
        (each(&|n| format!("writetime(s[{n}])")), each(&|_| "7".to_owned())),
        (each(&|n| format!("maxwritetime(m[{n}..{n}])")), each(&|_| "7".to_owned())),
        (each(&|n| format!("s[..-{n}]")), each(&|_| "null".to_owned())),
    ] {
        let text = format!("SELECT a, {selected}, z FROM t");
        let (steps, got) = steps_of(|| db.ok(&text));
        assert!(got == format!("\"a\", {shown}, \"z\""), "{}: {}", &text[..40], &got[..80]);
        assert!(steps < 10 * ENTRIES + 300 * SELECTED, "{}: {steps}", &text[..40]);
    }
}

/// Before: an element with such a key, or a slice with such an end, was an error, which refused all rows.
#[test]
fn a_number_that_is_too_long_for_a_key_is_no_element_and_ends_a_slice() {
    let mut db =
        Database::with("k int PRIMARY KEY, v map<varint, int>, d map<decimal, int>, s set<varint>");
    db.ok("INSERT INTO t (k, v, d, s) VALUES (1, {-5: 1, 7: 2}, {-5.5: 1, 7: 2}, {-5, 7})");
    db.ok("INSERT INTO t (k) VALUES (2)");
    // Above zero the first byte of the first is below that of 7, and the second ones are below zero.
    let varints = [[&[1][..], &[0; 17_000]].concat(), [&[0xFE][..], &[0; 17_000]].concat()];
    let decimals = varints.clone().map(|varint| [&[0; 4][..], &varint].concat());
    let whole = [r#"{"-5": 1, "7": 2}"#, r#"{"-5.5": 1, "7": 2}"#, "[-5, 7]"];
    for (at, (above, column)) in
        [(true, "v"), (false, "v"), (true, "d"), (false, "d"), (true, "s")].into_iter().enumerate()
    {
        let number = if column == "d" { &decimals } else { &varints };
        let value = &number[usize::from(!above)];
        let shown = whole[["v", "d", "s"].iter().position(|name| *name == column).expect("one")];
        let mut ask = |part: &str| {
            let mut values = ValueList::new();
            values.push(Value::Bytes(value));
            db.run(&format!("SELECT {part} FROM t WHERE k IN (1, 2)"), &values)
        };
        let of =
            |is_whole: bool| if is_whole { format!("{shown}\nnull") } else { "null\nnull".into() };
        assert_eq!(ask(&format!("{column}[?]")), Ok(of(false)), "{at}");
        assert_eq!(ask(&format!("writetime({column}[?])")), Ok(of(false)), "{at}");
        assert_eq!(ask(&format!("{column}[..?]")), Ok(of(above)), "{at}");
        assert_eq!(ask(&format!("{column}[?..]")), Ok(of(!above)), "{at}");
    }
}

/// Before: an element was looked for by the form that its key has now, which is not the stored one: it was null, and a
/// slice that begins with it left it out.
#[test]
fn elements_under_keys_of_a_type_that_grew_without_an_end_are_found() {
    let mut db = Database::new();
    let fields = ["a", "b", "c"].map(|name| (name.to_owned(), CqlType::Int));
    let mut old = UserType::new("ks", "foo", fields[..2].to_vec());
    old.ended = false;
    change(&mut db, SchemaChange::CreateType(old.clone()));
    db.ok("CREATE TABLE t (k int PRIMARY KEY, m map<frozen<foo>, int>, s set<frozen<tuple<int, foo>>>)");
    db.ok("INSERT INTO t (k, m, s) VALUES (1, {{a: 1, b: 2}: 3, {a: 4, b: 5}: 6}, {(1, {a: 1, b: 2})})");
    let mut grown = UserType::new("ks", "foo", fields.to_vec());
    grown.ended = false;
    let mut table = Table::clone(db.schema.table("ks", "t").expect("just made"));
    table.replace_user_type(&Redefined::new(grown.clone().into()));
    change(&mut db, SchemaChange::AlterType { definition: grown, tables: vec![table] });
    let (one, two) = (r#"{"a": 1, "b": 2, "c": null}"#, r#"{\"a\": 4, \"b\": 5, \"c\": null}"#);
    let key = one.replace('"', "\\\"");
    for (part, shown) in [
        ("m[{a: 1, b: 2}]", "3".to_owned()),
        ("m[{a: 4, b: 5}..]", format!("{{\"{two}\": 6}}")),
        ("m[{a: 1, b: 2}..{a: 1, b: 2}]", format!("{{\"{key}\": 3}}")),
        ("s[(1, {a: 1, b: 2})]", format!("[1, {one}]")),
        ("s[(1, {a: 1, b: 2})..]", format!("[[1, {one}]]")),
    ] {
        assert_eq!(db.ok(&format!("SELECT {part} FROM t")), shown, "{part}");
    }
}

/// Before: a field of a column was found in a value of all fields of its type, put together anew for each that was
/// selected: of a type of 50,000 fields 200 KB, and the work of few selected fields was more than a row may take.
#[test]
fn a_field_is_read_without_the_others_of_its_type() {
    const FIELDS: usize = 15_000;
    let mut db = Database::new();
    let fields = (0..FIELDS).map(|n| (format!("a{n}"), CqlType::Int)).collect();
    change(&mut db, SchemaChange::CreateType(UserType::new("ks", "wide", fields)));
    db.ok("CREATE TABLE t (k int PRIMARY KEY, v wide)");
    db.ok("INSERT INTO t (k, v) VALUES (1, {a0: 1, a7: 2, a14999: 3})");
    let selected = vec!["v.a0, v.a14999"; 5_000].join(", ");
    let shown = vec!["1, 3"; 5_000].join(", ");
    assert!(db.ok(&format!("SELECT {selected}, v.a1 FROM t")) == format!("{shown}, null"));
}

/// Makes a change of the schema that no statement makes.
fn change(db: &mut Database, change: SchemaChange) {
    let number = db.schema.number + 1;
    let entry = SchemaEntry { number, version: Uuid::from_u128(number.into()), change };
    db.schema = db.schema.apply(&entry).expect("a sound change");
}

/// Before: 92 rows of 70 times the same 10 KB, measured as they are stored, were more than a result may be.
#[test]
fn a_page_that_selects_a_cell_often_ends_before_it_is_too_large() {
    let mut db = Database::with("k int, c int, v text, PRIMARY KEY (k, c)");
    db.page_rows = Some(5_000);
    let value = "x".repeat(10_000);
    for row in 0..100 {
        let (k, c) = (row / 30, row % 30);
        db.ok(&format!("INSERT INTO t (k, c, v) VALUES ({k}, {c}, '{value}')"));
    }
    let often = vec!["v"; 70].join(", ");
    let key = |row: &str| row.split(", ").take(2).collect::<Vec<_>>().join(" ");
    let all = db.ok(&format!("SELECT k, c, {often} FROM t"));
    let mut keys: Vec<String> = all.lines().map(key).collect();
    keys.sort();
    keys.dedup();
    assert_eq!((all.lines().count(), keys.len()), (100, 100), "none is lost, none is doubled");
    let limited = db.ok(&format!("SELECT k, c, {often} FROM t LIMIT 95"));
    assert_eq!(limited.lines().count(), 95);
    db.page_rows = None;
    let whole = db.err(&format!("SELECT k, c, {often} FROM t"));
    assert!(whole.starts_with("the result has more than"), "{whole}");
}

/// Before: the next page began by a key that no partition is stored by, and was refused.
#[test]
fn groups_of_keys_that_were_stored_without_lengths_come_in_pages() {
    let mut db = Database::with("k vector<smallint, 2>, c int, PRIMARY KEY (k, c)");
    let table = db.schema.table("ks", "t").expect("just made").clone();
    for old in [[0, 1, 0, 2], [0, 3, 0, 4], [0, 5, 0, 6]] {
        let (mut key, mut record) = (Vec::new(), Vec::new());
        put_partition_key([&old[..]].into_iter(), &mut key).expect("a short key");
        let token = Token::of_key(&key);
        let mut mutation = MutationBuilder::begin(&mut record, table.id, token, &key);
        for c in 0..3i32 {
            let mut clustering = Vec::new();
            let value = c.to_be_bytes();
            let values = [&value[..]].into_iter();
            put_clustering(&table, values, &mut clustering).expect("a short key");
            let head = RowHead { marker: Some(Life::Live), ..RowHead::bare(5) };
            mutation.row(&clustering, |out| {
                RowBuilder::begin(out, &head);
            });
        }
        mutation.finish();
        db.apply(&record);
    }
    for text in [
        "SELECT k, count(*) FROM t GROUP BY k",
        "SELECT k, c, count(*) FROM t GROUP BY k, c PER PARTITION LIMIT 2",
    ] {
        db.page_rows = None;
        let whole = db.ok(text);
        assert!(whole.lines().count() >= 3, "{whole}");
        db.page_rows = Some(1);
        assert_eq!(db.ok(text), whole);
        assert!(db.pages.get() >= 3, "{text}");
    }
}

/// What versions before lengths wrote: two smallints as four bytes, in a value and as a key.
#[test]
fn vectors_stored_without_lengths_are_answered_with_them() {
    let mut db = Database::with("k vector<smallint, 2> PRIMARY KEY, v vector<smallint, 2>");
    let table = db.schema.table("ks", "t").expect("just made").clone();
    let old = [0, 1, 0, 2];
    let mut key = Vec::new();
    put_partition_key([&old[..]].into_iter(), &mut key).expect("a short key");
    let mut record = Vec::new();
    let token = Token::of_key(&key);
    let mut mutation = MutationBuilder::begin(&mut record, table.id, token, &key);
    mutation.row(&[], |out| {
        let id = table.column("v").expect("it has one").id;
        RowBuilder::begin(out, &RowHead::bare(5)).cell(&Cell::live(id, 5, &old));
    });
    mutation.finish();
    db.apply(&record);
    assert_eq!(db.ok("SELECT k, v FROM t"), "[1, 2], [1, 2]");
    let query = "SELECT k FROM t WHERE v = [1, 2] ALLOW FILTERING";
    assert_eq!(db.ok(query), "[1, 2]");
    assert_eq!(db.ok("SELECT count(*) FROM t"), "1");
}

/// Before: each column of the partition key was looked for behind all before it: 16,000 of them took 0.3 s a row, in
/// which the core could not pause.
#[test]
fn a_partition_key_of_many_columns_is_split_once() {
    const COLUMNS: usize = 2000;
    let names: Vec<String> = (0..COLUMNS).map(|at| format!("k{at:04}")).collect();
    let columns: Vec<String> = names.iter().map(|name| format!("{name} tinyint")).collect();
    let (columns, key) = (columns.join(", "), names.join(", "));
    let mut db = Database::with(&format!("{columns}, PRIMARY KEY (({key}))"));
    let values: Vec<String> = (0..COLUMNS).map(|at| (at % 100).to_string()).collect();
    db.ok(&format!("INSERT INTO t ({key}) VALUES ({})", values.join(", ")));
    let backwards: Vec<String> = names.iter().rev().cloned().collect();
    for (selected, last) in [("*", "99"), (&backwards.join(", "), "0"), ("k1999", "99")] {
        let (steps, row) = steps_of(|| db.ok(&format!("SELECT {selected} FROM t")));
        assert_eq!(row.rsplit([' ', ',', '|']).next(), Some(last), "{selected}");
        assert!((COLUMNS - 1..COLUMNS * 20).contains(&steps), "{selected}: {steps} values passed");
        assert!(db.row_work.get() >= COLUMNS, "the reader is told of them");
    }
}
