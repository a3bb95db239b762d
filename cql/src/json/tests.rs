//! JSON texts that are values, that are not, and that try to be too much.

use std::sync::Arc;

use model::CqlType;
use model::types::{UserType, put_vector_element};
use proptest::prelude::*;

use super::{JsonColumns, JsonError, JsonSlot, from_json};
use crate::expr::function::json_text;
use crate::expr::{put_list, sorted_map, sorted_set};
use crate::literal::from_text;
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
                true => sorted_set(&ty, all, &mut out).expect("a set"),
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
            sorted_map(&key, entries, &mut out).expect("a map");
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

fn list_of(element: CqlType) -> CqlType {
    CqlType::List { element: element.into(), frozen: true }
}

#[test]
fn a_text_that_makes_too_much_is_refused_on_the_way() {
    let text = format!("[{}0]", "0,".repeat(7 << 20));
    let refused = from_json(&list_of(CqlType::Int), &text);
    let JsonError::Invalid(error) = refused.expect_err("56 MiB of ints") else { panic!("a limit") };
    assert!(error.to_string().starts_with("a value has more than"), "{error}");
    let columns = JsonColumns { columns: vec![("i".into(), CqlType::Int)], default_unset: false };
    let many = format!("{{{}\"i\":1}}", "\"i\":[],".repeat(1 << 20));
    assert_eq!(columns.read(&many), Ok(vec![JsonSlot::Bytes(vec![0, 0, 0, 1])]), "the last counts");
    let deep = format!("{{\"i\":{}1{}}}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    assert!(columns.read(&deep).is_err(), "a list is no int, however deep");
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
#[test]
fn control_characters_are_escaped_as_jackson_escapes_them() {
    let text =
        "\0\u{8}\t\n\u{b}\u{c}\r\u{1f}\"/<\\\u{7f}\u{80}\u{9f}\u{a0}\u{2028}\u{feff}\u{ffff}";
    let json = json_text(&CqlType::Text, Some(text.as_bytes())).expect("it has a text");
    let head = r#""\u0000\b\t\n\u000B\f\r\u001F\"/<\\"#;
    assert_eq!(json, format!("{head}\u{7f}\u{80}\u{9f}\u{a0}\u{2028}\u{feff}\u{ffff}\""));
}
