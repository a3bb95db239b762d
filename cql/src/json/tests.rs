//! JSON texts that are values, that are not, and that try to be too much.

use std::sync::Arc;

use model::CqlType;
use model::limits::MUTATION_BYTES_MAX;
use model::types::{UserType, put_vector_element};
use proptest::prelude::*;

use super::{JsonBudget, JsonError, JsonSlot, Reading, read_row};
use crate::expr::function::json_text;
use crate::expr::{ExpressionWork, SortCost, put_list, sorted_map, sorted_set};
use crate::frame::Value;
use crate::frame::request::ValueList;
use crate::limits::JSON_SHOWN_BYTES_MAX;
use crate::literal::from_text;
use crate::prepare::prepare;
use crate::steps::steps_of;
use crate::testing::Database;

/// A scalar type, and texts of values of it.
const SCALARS: [(CqlType, &[&str]); 20] = [
    (CqlType::Ascii, &["", "a\"b\\c\n"]),
    (CqlType::Text, &["", "é\u{1}😀 {}"]),
    (CqlType::Blob, &["0x", "0xcafe"]),
    (CqlType::Boolean, &["true", "false"]),
    (CqlType::Tinyint, &["-128", "7"]),
    (CqlType::Smallint, &["-32768", "7"]),
    (CqlType::Int, &["-2147483648", "7"]),
    (CqlType::Bigint, &["-9223372036854775808", "7"]),
    (CqlType::Varint, &["-123456789012345678901234567890", "0"]),
    (CqlType::Decimal, &["-1.50", "1E+3", "12345678901234567890.12345678901234567890"]),
    (CqlType::Float, &["1.5", "-3.4028235E38"]),
    (CqlType::Double, &["1.1", "4.9E-324"]),
    (CqlType::Uuid, &["6bddc89a-5644-41e4-97fc-56847afe9799"]),
    (CqlType::Timeuuid, &["6bddc89a-5644-11e4-97fc-56847afe9799"]),
    (CqlType::Inet, &["127.0.0.1", "::2"]),
    (CqlType::Date, &["2026-11-23", "-0001-01-01"]),
    (CqlType::Time, &["08:00:00.000000001"]),
    (CqlType::Timestamp, &["2026-11-23 12:00:00.001+0000"]),
    (CqlType::Duration, &["1y2mo3d4h5ns", "-1mo"]),
    (CqlType::Counter, &["5"]),
];

/// A type and a value of it, in wire form.
type Typed = (CqlType, Vec<u8>);

/// Values of one random type.
fn values(depth: u32) -> BoxedStrategy<(CqlType, Vec<Vec<u8>>)> {
    let scalar = (0..SCALARS.len()).prop_map(|index| {
        let (ty, texts) = &SCALARS[index];
        let values = texts.iter().map(|text| from_text(text, ty).expect("a value"));
        (ty.clone(), values.collect())
    });
    if depth == 0 {
        return scalar.boxed();
    }
    let inner = || values(depth - 1);
    prop_oneof![
        scalar,
        (inner(), any::<bool>()).prop_map(|((ty, items), is_set)| {
            let mut out = Vec::new();
            let all = items.iter().map(|item| &item[..]);
            match is_set {
                true => sorted_set(&ty, all, &mut SortCost::default(), &mut out).expect("a set"),
                false => put_list(all, &mut out),
            }
            let element = Arc::new(ty);
            let collection = match is_set {
                true => CqlType::Set { element, frozen: true },
                false => CqlType::List { element, frozen: true },
            };
            (collection, vec![out])
        }),
        (inner(), inner()).prop_map(|((key, keys), (value, values))| {
            let mut out = Vec::new();
            let entries = keys.iter().zip(values.iter().cycle());
            let entries = entries.map(|(key, value)| (&key[..], &value[..]));
            sorted_map(&key, entries, &mut SortCost::default(), &mut out).expect("a map");
            (CqlType::Map { key: key.into(), value: value.into(), frozen: true }, vec![out])
        }),
        (inner(), inner(), any::<bool>()).prop_map(|((a, of_a), (b, of_b), is_udt)| {
            let mut out = Vec::new();
            for field in [Some(&of_a[0]), None, of_b.last()] {
                let bytes = field.map_or(-1, |field| field.len() as i32);
                out.extend_from_slice(&bytes.to_be_bytes());
                out.extend_from_slice(field.map_or(&[], |field| field));
            }
            let types = [a, CqlType::Int, b];
            let tuple = match is_udt {
                false => CqlType::Tuple(types.into()),
                true => {
                    let names = ["a", "Mixed \"x\"", "é"].map(String::from);
                    let fields = names.into_iter().zip(types).collect();
                    let definition = Arc::new(UserType::new("ks", "u", fields));
                    CqlType::Udt { definition, frozen: true }
                }
            };
            (tuple, vec![out])
        }),
        inner().prop_map(|(ty, items)| {
            let mut out = Vec::new();
            items.iter().for_each(|item| put_vector_element(&ty, item, &mut out));
            let dimensions = items.len() as u32;
            (CqlType::Vector { element: ty.into(), dimensions }, vec![out])
        }),
    ]
    .boxed()
}

fn typed() -> impl Strategy<Value = Typed> {
    values(3).prop_flat_map(|(ty, values)| (Just(ty), prop::sample::select(values)))
}

proptest! {
    #[test]
    fn what_to_json_writes_from_json_reads((ty, value) in typed()) {
        let text = json_text(&ty, Some(&value)).expect("it has a text");
        let back = from_json(&ty, &text);
        prop_assert_eq!(back, Ok(Some(value)), "{} of {}", text, ty);
    }

    #[test]
    fn a_mutilated_text_is_an_error_or_a_value_but_never_panics(
        (ty, value) in typed(), at: prop::sample::Index, byte in prop::sample::select(&b"[]{}\",:0-.eEnt\\ "[..])
    ) {
        let mut text = json_text(&ty, Some(&value)).expect("it has a text").into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        if let Ok(text) = std::str::from_utf8(&text)
            && let Ok(Some(value)) = from_json(&ty, text)
        {
            prop_assert!(ty.validate(&value).is_ok(), "{} is no {}: {:?}", text, ty, value);
        }
    }
}

fn from_json(ty: &CqlType, text: &str) -> Result<Option<Vec<u8>>, JsonError> {
    super::from_json(
        ty,
        text,
        &JsonBudget::of(MUTATION_BYTES_MAX),
        &ExpressionWork::of_thread_beside(),
    )
}

/// What is wrong with a text.
fn refused(ty: &CqlType, text: &str) -> String {
    match from_json(ty, text).expect_err(text) {
        JsonError::Syntax(why) | JsonError::Type(why) => why,
        JsonError::Invalid(error) => error.to_string(),
    }
}

fn list_of(element: CqlType) -> CqlType {
    CqlType::List { element: element.into(), frozen: true }
}

#[test]
fn a_text_that_makes_too_much_is_refused_on_the_way() {
    let text = format!("[{}0]", "0,".repeat(7 << 20));
    let refused = from_json(&list_of(CqlType::Int), &text);
    let JsonError::Invalid(error) = refused.expect_err("56 MiB of ints") else { panic!("a limit") };
    assert!(error.to_string().starts_with("a value has more than"), "{error}");
    let db = Database::with("i int PRIMARY KEY");
    let table = &db.schema.keyspace("ks").expect("made").tables["t"];
    let work = ExpressionWork::default();
    let read = |text: &str| {
        let budget = JsonBudget::of(MUTATION_BYTES_MAX);
        read_row(text, table, false, &Reading::new(&budget, &work))
    };
    let many = format!("{{{}\"i\":1}}", "\"i\":[],".repeat(1 << 20));
    assert_eq!(read(&many), Ok(vec![JsonSlot::Bytes(vec![0, 0, 0, 1])]), "the last counts");
    let deep = format!("{{\"i\":{}1{}}}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    assert!(read(&deep).is_err(), "a list is no int, however deep");
    let deep = "[".repeat(1 << 20);
    assert!(matches!(from_json(&list_of(list_of(CqlType::Int)), &deep), Err(JsonError::Syntax(_))));
    let strings = format!("{}1", "\"\\\"".repeat(1 << 10));
    assert!(from_json(&list_of(CqlType::Int), &strings).is_err());
}

#[test]
fn rows_are_written_and_read_as_json() {
    let mut db = Database::new();
    db.ok("CREATE TABLE t (p int PRIMARY KEY, \"V\" text, l list<int>)");
    db.ok(r#"INSERT INTO t JSON '{"P": 1, "\"V\"": "x", "l": [1, 2]}'"#);
    db.ok(r#"INSERT INTO t JSON '{"p": 1, "l": [3]}' DEFAULT UNSET"#);
    let row = r#""{\"p\": 1, \"\\\"V\\\"\": \"x\", \"l\": [3]}""#;
    assert_eq!(db.ok("SELECT JSON * FROM t"), row);
    db.ok(r#"INSERT INTO t JSON '{"p": 1, "l": [3]}'"#);
    let row = r#""{\"p\": 1, \"\\\"V\\\"\": null, \"l\": [3]}""#;
    assert_eq!(db.ok("SELECT JSON * FROM t"), row);
}

/// Before: `\u001f`, and what Unicode calls control characters behind it was escaped, too. As read from Apache
/// Cassandra 5.0.9.
/// Before: such a text was refused.
#[test]
fn half_of_a_surrogate_pair_is_a_question_mark() {
    for (text, read) in [
        (r#""\ud800""#, "?"),
        (r#""a\udc00b""#, "a?b"),
        (r#""\ud83d\ude00""#, "😀"),
        (r#""\ud83d\ud83d\ude00\n\\ud800""#, "?😀\n\\ud800"),
        (r#""\ude00\ud83d é""#, "?? é"),
    ] {
        assert_eq!(from_json(&CqlType::Text, text), Ok(Some(read.as_bytes().to_vec())), "{text}");
    }
    let map = CqlType::Map { key: CqlType::Text.into(), value: CqlType::Int.into(), frozen: true };
    assert_eq!(from_json(&map, r#"{"\udfff": 1}"#), from_json(&map, r#"{"?": 1}"#));
    let ascii = from_json(&CqlType::Ascii, r#""\ud800""#).expect_err("it is none");
    assert!(format!("{ascii:?}").contains("Invalid ASCII character"), "{ascii:?}");
    let mut db = Database::with("k int PRIMARY KEY");
    let refused = db.err(r#"INSERT INTO t JSON '{"k": 1, "\ud800": 2}'"#);
    assert_eq!(refused, "JSON values map contains unrecognized column: ?");
    assert!(from_json(&CqlType::Text, r#""\ud80""#).is_err());
    assert!(from_json(&CqlType::Text, r#""\ud800\x""#).is_err());
}

#[test]
fn control_characters_are_escaped_as_jackson_escapes_them() {
    let text =
        "\0\u{8}\t\n\u{b}\u{c}\r\u{1f}\"/<\\\u{7f}\u{80}\u{9f}\u{a0}\u{2028}\u{feff}\u{ffff}";
    let json = json_text(&CqlType::Text, Some(text.as_bytes())).expect("it has a text");
    let head = r#""\u0000\b\t\n\u000B\f\r\u001F\"/<\\"#;
    assert_eq!(json, format!("{head}\u{7f}\u{80}\u{9f}\u{a0}\u{2028}\u{feff}\u{ffff}\""));
}

/// A database with a user type of a thousand fields: `{}` is 4000 bytes of it.
fn wide() -> Database {
    let mut db = Database::new();
    let fields: Vec<String> = (0..1000).map(|field| format!("f{field} int")).collect();
    db.ok(&format!("CREATE TYPE u ({})", fields.join(", ")));
    db.ok("CREATE TYPE o (f frozen<list<frozen<u>>>)");
    let l = "frozen<list<frozen<u>>>";
    db.ok(&format!("CREATE TABLE t (p int PRIMARY KEY, a {l}, b {l}, c {l}, o frozen<o>)"));
    db
}

/// The text of a list that takes so many bytes and 4 more for each 4000.
fn long_list(bytes: usize) -> String {
    format!("[{}{{}}]", "{},".repeat(bytes / 4000 - 1))
}

fn with_text(text: &str) -> ValueList {
    let mut values = ValueList::new();
    values.push(Value::Bytes(text.as_bytes()));
    values
}

const OF_ONE_STATEMENT: &str = "the values that the JSON of one statement makes have more than";

/// Before: only each column had a bound, and a hundred of them made 1.6 GB.
#[test]
fn the_values_of_a_row_are_bounded_together() {
    let mut db = wide();
    let list = long_list(7 << 20);
    let row = format!(r#"{{"p": 1, "a": {list}, "b": {list}, "c": {list}}}"#);
    let refused = db.run("INSERT INTO t JSON ?", &with_text(&row)).expect_err("21 MiB");
    assert!(refused.to_string().starts_with(OF_ONE_STATEMENT), "{refused}");
    let refused = db.err(&format!("INSERT INTO t JSON '{row}'"));
    assert!(refused.starts_with(OF_ONE_STATEMENT), "{refused}");
    let row = format!(r#"{{"p": 1, "a": {list}, "b": {list}}}"#);
    db.run("INSERT INTO t JSON ?", &with_text(&row)).expect("a mutation takes it");
}

/// Before: all literals of a batch were made, 16 MiB each, before any was bound.
#[test]
fn the_literals_of_a_batch_are_bounded_together() {
    let mut db = wide();
    let list = long_list(7 << 20);
    let one = format!(r#"INSERT INTO t JSON '{{"p": 1, "a": {list}}}';"#);
    let refused = db.err(&format!("BEGIN BATCH {} APPLY BATCH", one.repeat(3)));
    assert!(refused.starts_with(OF_ONE_STATEMENT), "{refused}");
    db.ok(&format!("BEGIN BATCH {} APPLY BATCH", one.repeat(2)));
}

/// Before: a constant was made of each call, however many there were, and none was counted in what the statement takes.
#[test]
fn what_from_json_makes_is_bounded_and_counted() {
    let mut db = wide();
    let list = long_list(7 << 20);
    let calls = vec![format!("from_json('{list}')"); 8].join(", ");
    let select = format!("SELECT p FROM t WHERE a IN ({calls}) ALLOW FILTERING");
    let prepared = prepare(&select, &db.schema, Some("ks")).expect("it is right");
    assert!(prepared.made_bytes >= 14 << 20, "{}", prepared.made_bytes);
    assert!(prepared.made_bytes <= 17 << 20, "{}", prepared.made_bytes);
    let refused = db.err(&select);
    assert!(refused.contains(OF_ONE_STATEMENT), "{refused}");
    let calls = ["from_json(:a)"; 8].join(", ");
    let mut values = ValueList::new();
    values.push_named("a", Value::Bytes(list.as_bytes()));
    let select = format!("SELECT p FROM t WHERE a IN ({calls}) ALLOW FILTERING");
    let refused = db.run(&select, &values).expect_err("56 MiB");
    assert!(refused.to_string().contains(OF_ONE_STATEMENT), "{refused}");
    let update = "UPDATE t SET a = from_json(?) WHERE p = 1";
    db.run(update, &with_text(&long_list(15 << 20))).expect("a mutation takes it");
}

/// Before: each was read in full, and each `{}` made a map of all names: minutes for one request.
#[test]
fn duplicates_of_a_field_are_read_once() {
    let db = wide();
    let ty = &db.schema.keyspace("ks").expect("made").tables["t"].column("o").expect("made").ty;
    let list = long_list(400_000);
    let text = format!("{{{}\"f\": {list}}}", format!("\"f\": {list}, ").repeat(100));
    let (steps, value) = steps_of(|| from_json(ty, &text));
    assert_eq!(value, from_json(ty, &format!("{{\"f\": {list}}}")));
    assert!(steps < text.len() + 2 * list.len() + 1100, "{steps} for {} bytes", text.len());
    // The index of a thousand names is made once, not for each value.
    let list = format!("[{}{{}}]", "{\"f999\": 1},".repeat(100));
    let (steps, value) = steps_of(|| from_json(ty, &format!("{{\"f\": {list}}}")));
    assert!(matches!(value, Ok(Some(_))), "{value:?}");
    assert!(steps < 2 * 1000 + 4 * list.len(), "{steps} for {} bytes", list.len());
    // What is wrong with one that does not count is not seen, as in Cassandra.
    assert!(from_json(ty, r#"{"f": "x", "f": []}"#).is_ok());
}

/// Before: no value, or false, as in Apache Cassandra 5.0.9, whose documentation wants a text of the type.
#[test]
fn an_empty_text_is_refused_where_it_is_none_of_the_type() {
    use CqlType::*;
    for ty in [
        Boolean, Tinyint, Smallint, Int, Bigint, Float, Double, Uuid, Timeuuid, Timestamp, Inet,
        Duration,
    ] {
        let why = format!("Unable to make {ty} from ''");
        assert_eq!(refused(&ty, r#""""#), why);
        assert_eq!(refused(&list_of(ty.clone()), r#"[""]"#), why);
        assert_eq!(refused(&Vector { element: ty.into(), dimensions: 1 }, r#"[""]"#), why);
    }
    let vector = |element: CqlType| Vector { element: element.into(), dimensions: 2 };
    assert_eq!(
        refused(&vector(vector(Int)), r#"[["", ""], [1, 2]]"#),
        "Unable to make int from ''"
    );
    let of_text = from_json(&vector(Text), r#"["", "a"]"#);
    assert_eq!(of_text, Ok(Some(vec![0, 1, b'a'])));
}

/// Before: the last of both counted. As in Apache Cassandra 5.0.9.
#[test]
fn a_name_that_is_not_as_it_is_meant_wins_over_one_that_is() {
    let mut db = Database::new();
    db.ok("CREATE TYPE u (a int, b int)");
    db.ok("CREATE TABLE t (p int PRIMARY KEY, a int, u frozen<u>)");
    for (names, a) in [
        (r#""A": 1, "a": 2"#, "1"),
        (r#""a": 2, "A": 1"#, "1"),
        (r#""\"a\"": 1, "a": 2"#, "1"),
        (r#""A": 1, "\"a\"": 3"#, "3"),
        (r#""\"a\"": 3, "A": 1"#, "1"),
        (r#""a": 1, "A": null"#, "null"),
        (r#""a": 1, "a": 2"#, "2"),
    ] {
        db.ok(&format!(r#"INSERT INTO t JSON '{{"p": 1, {names}, "u": {{{names}}}}}'"#));
        let row = format!(r#"{a}, {{"a": {a}, "b": null}}"#);
        assert_eq!(db.ok("SELECT a, u FROM t"), row, "{names}");
    }
    for names in [r#""Y": 1, "x": 2"#, r#""x": 2, "Y": 1"#] {
        let refused = db.err(&format!(r#"INSERT INTO t JSON '{{"p": 1, {names}}}'"#));
        assert_eq!(refused, "JSON values map contains unrecognized column: x");
        let refused = db.err(&format!(r#"INSERT INTO t JSON '{{"p": 1, "u": {{{names}}}}}'"#));
        assert!(
            refused.ends_with("Unknown field 'x' in value of user defined type u"),
            "{refused}"
        );
    }
}

/// Before: the error had all of a text, up to 16 MiB.
#[test]
fn an_error_shows_the_beginning_of_a_long_text() {
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    for ty in SCALARS.iter().map(|(ty, _)| ty) {
        if !matches!(ty, CqlType::Text | CqlType::Ascii) {
            let why = refused(ty, &long);
            assert!(why.len() < 3 * JSON_SHOWN_BYTES_MAX && why.contains("xx..."), "{ty}: {why}");
        }
    }
}
