//! The compiler and the evaluation of terms, without statements around them.

use function::json_text;

use super::*;
use crate::bind::{Bindings, BoundOn, StatementTime};
use crate::expr::function::NoUserFunctions;
use crate::frame::Version;
use crate::frame::request::ValueList;
use crate::lang::ast::{Expr, Statement};
use crate::lang::parse;
use crate::prepare::prepare;
use crate::steps::steps_of;
use crate::testing::{CountingIds, Database};

/// The first assigned value of an `UPDATE t SET c = <text>`, as parsed.
fn value(text: &str) -> (Expr, Vec<Option<String>>) {
    let parsed = parse(&format!("INSERT INTO t (k) VALUES ({text})")).expect(text);
    let Statement::Modification(modification) = parsed.statement else { panic!("{text}") };
    let crate::lang::ast::Modification::Insert(insert) = *modification else { panic!("{text}") };
    let crate::lang::ast::InsertValues::Columns(_, mut values) = insert.values else {
        panic!("{text}")
    };
    (values.remove(0), parsed.binds)
}

/// A term of table `t` for a receiver `c` of a type.
fn term(db: &Database, text: &str, ty: &CqlType) -> Result<Term> {
    let (expr, names) = value(text);
    let table = db.schema.keyspace("ks").unwrap().tables["t"].clone();
    let mut compiler = Compiler::new(&db.schema, &table, &names);
    compiler.term(&expr, &ExpectedType::new("c", ty.clone()))
}

fn database() -> Database {
    let mut db = Database::new();
    db.ok("CREATE TYPE u (a int, b text)");
    db.ok("CREATE TABLE t (k int PRIMARY KEY, i int, tn tinyint, c u, m map<text, int>)");
    db
}

/// The value of a term as JSON.
fn shown(term: &Term, values: &ValueList) -> String {
    let ids = CountingIds::default();
    let time = StatementTime {
        timestamp_us: 5,
        server_timestamp_us: None,
        now_ms: 1_000_000,
        now_s: 1000,
        ids: &ids,
        functions: &NoUserFunctions,
    };
    let values = values.as_values(Version::V4);
    let marker = |index: u16| crate::bind::Marker {
        keyspace: "ks".into(),
        table: "t".into(),
        name: format!("m{index}"),
        ty: CqlType::Int,
    };
    let markers: Vec<_> = (0..values.len() as u16).map(marker).collect();
    let bindings = Bindings::new(&values, &markers, time).unwrap();
    json_text(&term.ty, term.eval(&bindings).unwrap().bytes()).unwrap()
}

/// A thread beside the core may put a set of 2.4 MB into order.
#[test]
fn a_long_set_is_put_into_order_beside_the_core_alone() {
    const ELEMENTS: i32 = 300_000;
    let mut set = Vec::new();
    let elements: Vec<[u8; 4]> = (0..ELEMENTS).map(|n| (ELEMENTS - n).to_be_bytes()).collect();
    put_list(elements.iter().map(|element| &element[..]), &mut set);
    let marker = crate::bind::Marker {
        keyspace: "ks".into(),
        table: "t".into(),
        name: "m".into(),
        ty: CqlType::Set { element: CqlType::Int.into(), frozen: true },
    };
    let ids = CountingIds::default();
    let time = StatementTime {
        timestamp_us: 5,
        server_timestamp_us: None,
        now_ms: 0,
        now_s: 0,
        ids: &ids,
        functions: &NoUserFunctions,
    };
    let term = Term::bind(0, &marker.ty);
    for (bound_on, is_taken) in [(BoundOn::Core, false), (BoundOn::ThreadBeside, true)] {
        let mut values = ValueList::new();
        values.push(crate::frame::Value::Bytes(&set));
        let values = values.as_values(Version::V4);
        let markers = std::slice::from_ref(&marker);
        let mut bindings = Bindings::new(&values, markers, time).expect("one value");
        bindings.set_bound_on(bound_on);
        assert_eq!(term.eval(&bindings).is_ok(), is_taken, "{bound_on:?}");
    }
}

#[test]
fn what_consists_of_constants_is_a_constant() {
    let db = database();
    for (text, ty, value) in [
        ("1 + 2 * 3", CqlType::Int, "7"),
        ("(1 + 2) * 3", CqlType::Bigint, "9"),
        ("-(5)", CqlType::Int, "-5"),
        ("blobAsInt(0x00000003)", CqlType::Int, "3"),
    ] {
        let term = term(&db, text, &ty).unwrap();
        assert!(term.is_constant(), "{text}: {term:?}");
        assert_eq!(shown(&term, &ValueList::new()), value, "{text}");
    }
    let now = term(&db, "now()", &CqlType::Timeuuid).unwrap();
    assert!(!now.is_constant(), "an impure call was folded");
    let fails = term(&db, "1 / 0", &CqlType::Int).unwrap();
    assert!(!fails.is_constant(), "what fails must fail when it is executed");
}

#[test]
fn an_operation_means_what_its_receiver_is() {
    let db = database();
    for (text, ty, error) in [
        ("1.5 + 2", CqlType::Int, "the '+' operation is not supported between 1.5 and 2"),
        (
            "(int)1 + (bigint)2",
            CqlType::Int,
            "the '+' operation is not supported between (int)1 and (bigint)2",
        ),
        (
            "(int)1 + (int)2",
            CqlType::Bigint,
            "the '+' operation is not supported between (int)1 and (int)2",
        ),
        (
            "1 + ?",
            CqlType::Int,
            "Ambiguous '+' operation with args 1 and ?: use type hint to disambiguate, example '(int) ?'",
        ),
        ("1 + 2000", CqlType::Tinyint, "Unable to make byte from '2000'"),
        ("'a' + 1", CqlType::Text, "the '+' operation is not supported between 'a' and 1"),
    ] {
        assert_eq!(term(&db, text, &ty).unwrap_err().to_string(), error, "{text}");
    }
    let doubled = term(&db, "(int)? + 1", &CqlType::Int).unwrap();
    let mut values = ValueList::new();
    values.push(crate::frame::Value::Bytes(&41i32.to_be_bytes()));
    assert_eq!(shown(&doubled, &values), "42");
}

#[test]
fn terms_have_no_columns_and_no_aggregates() {
    let db = database();
    assert_eq!(
        term(&db, "max(1)", &CqlType::Int).unwrap_err().to_string(),
        "Aggregation function are not supported in the where clause"
    );
    assert_eq!(
        term(&db, "foo(1)", &CqlType::Int).unwrap_err().to_string(),
        "Unknown function foo called"
    );
}

#[test]
fn a_deeply_nested_operation_is_compiled_in_time_in_proportion_to_its_length() {
    let db = database();
    let row = vec!["1"; 50].join(" + ");
    let text = format!("({row}) * ({row}) + ({row})");
    // A compiler that looks at each part again for each of its ancestors and overloads never ends.
    assert!(term(&db, &text, &CqlType::Bigint).unwrap().is_constant());
}

#[test]
fn an_expression_that_is_too_deep_is_refused() {
    let db = database();
    let row = vec!["1"; 90].join(" + ");
    let deep = |levels: usize| (1..levels).fold(row.clone(), |text, _| format!("({text}) + {row}"));
    assert!(term(&db, &deep(1), &CqlType::Int).is_ok());
    for levels in [2, 10] {
        let text = format!("INSERT INTO t (k) VALUES ({})", deep(levels));
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains("more than 148 operators inside each other"), "{error}");
    }
}

/// Before: rows of operators inside parentheses made a tree 9,200 levels deep, which overflowed the stack.
#[test]
fn a_selection_of_rows_of_operators_in_parentheses_is_refused_and_aborts_nothing() {
    let mut db = database();
    let row = format!("{}{}", "*1".repeat(99), "+1".repeat(99));
    let deep = (0..46).fold("1".to_owned(), |text, _| format!("({text}){row}"));
    let error = db.err(&format!("SELECT {deep} FROM t"));
    assert!(error.contains("more than 148 operators inside each other"), "{error}");
    let parts = "[0]".repeat(99);
    let deep = (0..46).fold("m".to_owned(), |text, _| format!("({text}){parts}"));
    let error = db.err(&format!("SELECT {deep} FROM t"));
    assert!(error.contains("more than 148 operators inside each other"), "{error}");
    // What stands beside each other does not count together.
    let many = vec![vec!["1"; 100].join("+"); 50].join(", ");
    assert!(parse(&format!("SELECT f({many}), ttl(a.b), {many} FROM t")).is_ok());
    let negated = format!("SELECT {}1 FROM t", "- ".repeat(47));
    assert!(parse(&negated).is_ok());
}

/// Before: the type of an argument was asked for twice at each level: 24 levels took 10 s, 40 would never end.
#[test]
fn the_type_of_a_call_in_a_call_is_found_once() {
    let db = database();
    let deep = (0..40).fold("?".to_owned(), |text, _| format!("similarity_cosine({text}, ?)"));
    let error = term(&db, &deep, &CqlType::Float).unwrap_err().to_string();
    assert!(error.starts_with("Cannot infer type of argument"), "{error}");
}

/// Before: each of 20,000 items was a type to be tried for all items: 38 s.
#[test]
fn the_common_type_of_many_items_is_found_in_time_in_proportion_to_their_number() {
    let db = database();
    let items = vec!["1"; 20_000].join(",");
    let text = format!("collection_count([{items},'a'])");
    let (steps, compiled) = steps_of(|| term(&db, &text, &CqlType::Int));
    assert!(compiled.is_err());
    assert!((20_000..20_000 * 20).contains(&steps), "{steps} tries of a type for an item");
}

#[test]
fn a_value_of_a_wide_type_has_a_null_for_each_field_that_it_does_not_give() {
    let mut db = database();
    let fields: Vec<String> = (0..40).map(|at| format!("f{at} int")).collect();
    db.ok(&format!("CREATE TYPE w ({}, inner frozen<u>)", fields.join(", ")));
    let ty = |frozen| {
        let definition = db.schema.keyspace("ks").unwrap().types["w"].clone();
        CqlType::Udt { definition, frozen }
    };
    let mut values = ValueList::new();
    values.push(crate::frame::Value::Bytes(&7i32.to_be_bytes()));
    values.push(crate::frame::Value::Unset);
    let given = |text: &str, ty: &CqlType| {
        let shown = shown(&term(&db, text, ty).expect(text), &values);
        let is_null = |field: &&str| field.ends_with(": null");
        let fields: Vec<&str> = shown.trim_matches(['{', '}']).split(", ").collect();
        assert_eq!(fields.len(), 41 + usize::from(text.contains("inner")), "{shown}");
        fields.into_iter().filter(|field| !is_null(field)).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        given("{f39: ?, f2: 1, f10: 5, f2: 3}", &ty(true)),
        r#""f2": 3, "f10": 5, "f39": 7"#
    );
    assert_eq!(
        given("{f0: 1, inner: {b: 'x', a: ?}}", &ty(true)),
        r#""f0": 1, "inner": {"a": 7, "b": "x""#
    );
    assert_eq!(given("{f30: ?, f7: ?}", &ty(false)), r#""f30": 7"#);
    let refused = |text: &str| term(&db, text, &ty(true)).expect_err(text).to_string();
    assert_eq!(refused("{f1: 'a', f40: 1}"), "Unknown field 'f40' in value of user defined type w");
    let wrong = "Invalid user type literal for c: field f1 is not of type int";
    assert_eq!(refused("{f30: 'a', f1: 'a'}"), wrong);
}

/// Before: only constants of user types were counted in what a statement keeps, not the texts that are made of them.
#[test]
fn what_a_function_makes_of_constants_is_counted() {
    let mut db = database();
    let fields: Vec<String> = (0..1000).map(|at| format!("f{at} int")).collect();
    db.ok(&format!("CREATE TYPE wide ({})", fields.join(", ")));
    db.ok("INSERT INTO t (k) VALUES (1)");
    let made = |select: &str| prepare(select, &db.schema, Some("ks")).expect(select).made_bytes;
    let value = made("SELECT (wide){f0: 1} FROM t");
    assert!((4000..=4010).contains(&value), "{value} bytes");
    let json = made("SELECT to_json((wide){f0: 1}) FROM t");
    assert_eq!(made("SELECT 1 + 1, to_json((int)7), (u){a: 1} FROM t"), 0, "tokens are counted");
    let text = db.ok("SELECT to_json((wide){f0: 1}) FROM t");
    assert!(text.len() > 2 * value, "{text}");
    assert!(json >= text.trim_matches('"').replace("\\\"", "\"").len(), "{json} for {text}");
}

/// Before: each of some ninety ways to add read the number again, so that 16 KiB of text held a core for seconds.
#[test]
fn the_type_of_a_literal_is_found_once() {
    const DIGITS: usize = 10_000;
    let db = database();
    let text = format!("1.{} + (int)?", "3".repeat(DIGITS));
    let (steps, compiled) = steps_of(|| term(&db, &text, &CqlType::Decimal));
    assert!(compiled.is_ok(), "{compiled:?}");
    assert!((DIGITS..2 * DIGITS).contains(&steps), "{steps} digits and tries of a type");
}

/// Before: bytes that are no value of the type were stored, and reads that came to them failed.
#[test]
fn a_tuple_that_is_written_as_text_is_a_value_of_its_type() {
    let db = database();
    let ty = model::types::parse_class("TupleType(FrozenType(SetType(Int32Type)),ByteType)");
    let ty = ty.expect("a class").ty;
    for wrong in ["'ff:5'", "':5'", "'@:'"] {
        assert!(term(&db, wrong, &ty).is_err(), "{wrong}");
    }
    let set = "'0000000200000004000000020000000400000001:5'";
    let term = term(&db, set, &ty).expect("a set of 2 and 1, and 5");
    assert_eq!(shown(&term, &ValueList::default()), "[[1, 2], 5]");
}
