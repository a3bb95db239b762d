//! Statements about the schema against what Cassandra 5.0.9 answered to them.

use model::options::KeyspaceOptions;
use model::schema::{SchemaEntry, TableBuilder};
use model::types::{CqlType, UserType};
use uuid::Uuid;

use super::*;
use crate::frame::Version;
use crate::frame::request::ValueList;
use crate::guardrails::Guardrails;
use crate::prepare::prepare;
use crate::steps::steps_of;
use crate::testing::Database;

fn schema() -> Schema {
    let table = TableBuilder::new("ee", "t", TableId(Uuid::from_u128(1)))
        .partition_key("p", CqlType::Int)
        .and_then(|t| t.clustering("c", CqlType::Int, false))
        .and_then(|t| t.regular("v", CqlType::Text))
        .and_then(|t| t.stat("s", CqlType::Int))
        .and_then(TableBuilder::build)
        .expect("a sound table");
    let keyspace = |name: &str| SchemaChange::CreateKeyspace {
        name: name.to_owned(),
        options: KeyspaceOptions::default(),
    };
    let changes = [keyspace("ee"), keyspace("system"), SchemaChange::CreateTable(Box::new(table))];
    Schema::of_changes(changes).expect("sound changes")
}

fn planned(text: &str, schema: &Schema) -> Result<Ddl> {
    planned_with(text, schema, true, &Guardrails::default())
}

fn planned_with(
    text: &str,
    schema: &Schema,
    drop_compact_storage: bool,
    guardrails: &Guardrails,
) -> Result<Ddl> {
    let context = DdlContext {
        schema,
        keyspace: None,
        is_system: |name| name.starts_with("system"),
        data_center: "datacenter1",
        table_id: TableId(Uuid::from_u128(2)),
        timestamp_us: 5,
        functions: &crate::expr::function::NoUserFunctions,
        functions_enabled: false,
        drop_compact_storage,
        sasi_indexes: false,
        guardrails,
    };
    let parsed = crate::lang::parse(text)?;
    let crate::lang::ast::Statement::Schema(statement) = &parsed.statement else {
        panic!("no statement about the schema: {text}")
    };
    plan(statement, &context)
}

#[test]
fn compact_tables_are_made_and_end_where_that_is_switched_on() {
    let refused = |text: &str, drop| {
        let planned = planned_with(text, &schema(), drop, &Guardrails::default());
        planned.map_or_else(|error| error.to_string(), |_| String::new())
    };
    let create = "create table ee.n (a int primary key, v int) with compact storage";
    assert_eq!(refused(create, false), "");
    let alter = "alter table ee.t drop compact storage";
    let disabled = "DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use.";
    assert!(refused(alter, false).starts_with(disabled));
    assert!(refused(alter, true).starts_with("Cannot DROP COMPACT STORAGE on table"));
}

#[test]
fn functions_and_aggregates_are_made_where_that_is_switched_on() {
    for text in [
        "create function ee.f (a int) called on null input returns int language lua as 'return a'",
        "create aggregate ee.s (int) sfunc f stype int",
    ] {
        let refused = planned(text, &schema()).unwrap_err().to_string();
        assert!(refused.starts_with("User-defined functions are disabled"), "{refused}");
    }
}

/// Before: the change was made, and no later start could read the type of the dropped column.
#[test]
fn a_type_does_not_grow_beyond_what_a_dropped_column_of_it_can_be() {
    let nested = |depth: usize, inner: &str| {
        format!("{}{inner}{}", "frozen<list<".repeat(depth), ">>".repeat(depth))
    };
    let mut db = crate::testing::Database::with("k int PRIMARY KEY");
    db.ok("CREATE TYPE u (a int)");
    db.ok(&format!("CREATE TABLE x (k int PRIMARY KEY, v {})", nested(36, "frozen<u>")));
    db.ok("ALTER TABLE x DROP v");
    let grown = db.err(&format!("ALTER TYPE u ADD b {}", nested(12, "int")));
    assert!(grown.contains("nested deeper than"), "{grown}");
    db.ok("ALTER TYPE u ADD b int");
    db.ok(&format!(
        "CREATE FUNCTION f (v list<{}>) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return 1'",
        nested(35, "frozen<u>")
    ));
    let grown = db.err(&format!("ALTER TYPE u ADD c {}", nested(12, "int")));
    assert!(grown.contains("nested deeper than"), "{grown}");
}

/// The answer of every recorded statement, word for word.
#[test]
fn answers_are_cassandras() {
    let recorded = include_str!("../../testdata/ddl/answers.txt");
    let lines: Vec<&str> =
        recorded.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    assert!(lines.len() > 150, "all of the file is there");
    let schema = schema();
    let mut wrong = Vec::new();
    for pair in lines.chunks_exact(2) {
        let (text, expected) = (pair[0], pair[1].trim());
        let answer = match planned(text, &schema) {
            Ok(_) => "ok".to_owned(),
            Err(error) => format!("{:04x} {error}", error.code().code()),
        };
        let first_line = answer.lines().next().unwrap_or_default();
        if first_line != expected {
            wrong.push(format!("{text}\n   expected {expected}\n   answered {first_line}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_id_of_a_dropped_table_is_not_given_again() {
    let schema = schema();
    let old = TableId(Uuid::from_u128(1));
    let change = SchemaChange::DropTable { keyspace: "ee".to_owned(), name: "t".to_owned() };
    let entry = SchemaEntry { number: schema.number + 1, version: Uuid::nil(), change };
    let after = schema.apply(&entry).expect("the table is there");
    let with_id = |id: TableId| format!("create table ee.t (p int primary key) with id = '{id}'");
    let refused = planned(&with_id(old), &after).expect_err("its rows may still be on the disk");
    assert!(refused.to_string().contains("was dropped"), "{refused}");
    planned(&with_id(TableId(Uuid::from_u128(3))), &after).expect("a new id");
}

/// Cassandra answers with the error of a server.
#[test]
fn the_id_of_another_table_is_no_id_of_a_view() {
    let schema = schema();
    let view = "create materialized view ee.m as select p, c from ee.t where p is not null and c is not null primary key (c, p)";
    let id = schema.table("ee", "t").expect("it is there").id;
    let refused = planned(&format!("{view} with id = '{id}'"), &schema).expect_err("one is taken");
    assert_eq!(refused.to_string(), format!("Table with ID {id} already exists: ee.t"));
    assert_eq!(refused.code().code(), 0x2200);
}

#[test]
fn a_change_of_a_type_reaches_the_columns_made_of_it() {
    let mut schema = schema();
    let mut number = 9;
    let mut run = |text: &str| {
        let ddl = planned(text, &schema).expect("a sound statement");
        let (change, _) = ddl.step.expect("a change");
        number += 1;
        let entry = SchemaEntry { number, version: Uuid::from_u128(number.into()), change };
        schema = schema.apply(&entry).expect("planned on it");
    };
    run("CREATE TYPE ee.inner (a int)");
    run("CREATE TYPE ee.outer (i frozen<inner>)");
    run("CREATE TABLE ee.u (p int PRIMARY KEY, l list<frozen<outer>>)");
    run("ALTER TYPE ee.inner ADD b text");
    let column =
        schema.table("ee", "u").and_then(|t| t.column("l")).expect("it is there").ty.clone();
    let CqlType::List { element, .. } = &column else { panic!("a list") };
    let CqlType::Udt { definition, .. } = &**element else { panic!("of outer") };
    let CqlType::Udt { definition, .. } = &definition.fields[0].1 else { panic!("of inner") };
    assert_eq!(definition.fields.len(), 2);
    let error = planned("DROP TYPE ee.inner", &schema).expect_err("it is in use");
    assert!(error.to_string().contains("as it is still used by user types outer"));
}

#[test]
fn what_is_kept_without_effect_is_said() {
    let ddl = planned(
        "ALTER TABLE ee.t WITH cdc = true AND compaction = {'class': 'SizeTieredCompactionStrategy', 'log_all': 'true'}",
        &schema(),
    );
    let warnings = ddl.expect("known options").warnings;
    assert_eq!(warnings.len(), 2, "{warnings:?}");
}

/// A table with rows of which the column `x` is dropped: `UPDATE` gives no row marker, so nothing else holds them.
fn table_without_x(drop: &str) -> crate::testing::Database {
    let mut db = crate::testing::Database::with(
        "k int, c int, s int static, x int, y int, PRIMARY KEY (k, c)",
    );
    db.ok("UPDATE t USING TIMESTAMP 10 SET x = 1 WHERE k = 0 AND c = 0");
    db.ok("UPDATE t USING TIMESTAMP 20 SET x = 2 WHERE k = 0 AND c = 1");
    db.ok("UPDATE t USING TIMESTAMP 10 SET y = 3 WHERE k = 0 AND c = 2");
    db.ok("UPDATE t USING TIMESTAMP 10 SET s = 4 WHERE k = 1");
    db.ok(drop);
    db
}

#[test]
fn a_row_of_a_dropped_column_alone_is_gone() {
    let mut db = table_without_x("ALTER TABLE t DROP x");
    assert_eq!(db.ok("SELECT k, c, y FROM t WHERE k = 0"), "0, 2, 3");
    assert_eq!(db.ok("SELECT count(*) FROM t WHERE k = 0"), "1");
    assert_eq!(db.ok("SELECT c FROM t WHERE k = 0 LIMIT 1"), "2");
    db.ok("ALTER TABLE t DROP s");
    assert_eq!(db.ok("SELECT DISTINCT k FROM t"), "0");
}

#[test]
fn drop_using_timestamp_keeps_what_is_newer_for_the_column_that_comes_back() {
    let mut db = table_without_x("ALTER TABLE t DROP x USING TIMESTAMP 15");
    assert_eq!(db.ok("SELECT c FROM t WHERE k = 0"), "2");
    let refused = "Cannot add a column 'x' of type text, incompatible with previously dropped column 'x' of type int";
    assert_eq!(db.err("ALTER TABLE t ADD x text"), refused);
    db.ok("ALTER TABLE t ADD x int");
    assert_eq!(db.ok("SELECT c, x FROM t WHERE k = 0"), "1, 2\n2, null");
}

/// In sets, in keys of maps and as a clustering column that is not the last.
#[test]
fn a_type_that_gets_a_field_leaves_what_is_ordered_by_it_readable() {
    let mut db = Database::new();
    db.ok("CREATE TYPE foo (a int)");
    db.ok("CREATE TABLE s (k int PRIMARY KEY, s set<frozen<foo>>, m map<frozen<foo>, int>)");
    db.ok("CREATE TABLE c (k int, c frozen<foo>, d int, v int, PRIMARY KEY (k, c, d))");
    db.ok("INSERT INTO s (k, s, m) VALUES (1, {{a: 1}}, {{a: 1}: 5})");
    db.ok("INSERT INTO c (k, c, d, v) VALUES (1, {a: 1}, 2, 3)");
    let text = "UPDATE s SET s = s + {{a: 1}}, m[{a: 1}] = 6 WHERE k = 1";
    let before = prepare(text, &db.schema, db.keyspace.as_deref()).expect("a good statement");
    db.ok("ALTER TYPE foo ADD b text");
    let one = r#"{"a": 1, "b": null}"#;
    let key = one.replace('"', "\\\"");
    assert_eq!(db.ok("SELECT s, m FROM s"), format!("[{one}], {{\"{key}\": 5}}"));
    assert_eq!(db.ok("SELECT c, d, v FROM c"), format!("{one}, 2, 3"));
    // The same value is the same element and the same row, from a statement of before too.
    db.execute(&before, &ValueList::new().as_values(Version::V4)).expect("a write");
    db.ok("UPDATE s SET s = s + {{a: 1, b: null}} WHERE k = 1");
    assert_eq!(db.ok("SELECT s, m FROM s"), format!("[{one}], {{\"{key}\": 6}}"));
    db.ok("INSERT INTO c (k, c, d, v) VALUES (1, {a: 1, b: null}, 2, 4)");
    assert_eq!(db.ok("SELECT v FROM c WHERE k = 1 AND c = {a: 1}"), "4");
    db.ok("INSERT INTO c (k, c, d, v) VALUES (1, {a: 1, b: 'x'}, 2, 5)");
    db.ok("INSERT INTO c (k, c, d, v) VALUES (1, {a: 2}, 2, 6)");
    db.ok("INSERT INTO c (k, c, d, v) VALUES (1, {b: 'q'}, 2, 7)");
    assert_eq!(db.ok("SELECT v FROM c"), "7\n4\n5\n6");
    assert_eq!(db.ok("SELECT v FROM c WHERE k = 1 AND c > {a: 1}"), "5\n6");
    assert_eq!(db.ok("SELECT v FROM c WHERE k = 1 AND c <= {a: 1}"), "7\n4");
    db.ok("UPDATE s SET s = s - {{a: 1}} WHERE k = 1");
    assert_eq!(db.ok("SELECT s FROM s"), "null");
    db.ok("ALTER TYPE foo RENAME a TO z");
    assert_eq!(db.ok("SELECT v FROM c WHERE k = 1 AND c = {z: 2}"), "6");
}

#[test]
fn a_type_of_a_partition_key_gets_no_field() {
    let mut db = Database::new();
    db.ok("CREATE TYPE foo (a int)");
    db.ok("CREATE TYPE bar (f frozen<foo>)");
    db.ok("CREATE TABLE t2 (k frozen<list<frozen<tuple<int, frozen<foo>>>>>, l int, PRIMARY KEY ((k, l)))");
    db.ok("CREATE TABLE t3 (k frozen<bar> PRIMARY KEY)");
    let expected = "Cannot add new field c of type text to user type ks.foo as the type is being used in partition key by the following tables: ks.t2, ks.t3";
    assert_eq!(db.err("ALTER TYPE foo ADD c text"), expected);
    db.ok("ALTER TYPE foo RENAME a TO b");
}

/// A type of the time when ordered values had no end: nothing may be ordered by it if it grows.
#[test]
fn a_type_of_before_gets_a_field_only_while_no_key_holds_it() {
    let mut db = Database::new();
    let mut old = UserType::new("ks", "foo", vec![("a".to_owned(), CqlType::Int)]);
    old.ended = false;
    let entry = SchemaEntry {
        number: db.schema.number + 1,
        version: Uuid::from_u128(9),
        change: SchemaChange::CreateType(old),
    };
    db.schema = db.schema.apply(&entry).expect("a sound change");
    db.ok("CREATE TABLE t (k int PRIMARY KEY, s set<frozen<foo>>)");
    db.ok("INSERT INTO t (k, s) VALUES (1, {{a: 1}})");
    let expected = "Cannot add new field b of type int to user type ks.foo as the type was made by a version whose ordered values cannot grow, and it is being used in clustering columns, sets or map keys by the following tables: ks.t";
    assert_eq!(db.err("ALTER TYPE foo ADD b int"), expected);
    db.ok("DROP TABLE t");
    db.ok("ALTER TYPE foo ADD b int");
    db.ok("CREATE TABLE u (k int PRIMARY KEY, s set<frozen<foo>>)");
    db.ok("INSERT INTO u (k, s) VALUES (1, {{a: 1}})");
    db.ok("ALTER TYPE foo ADD c int");
    assert_eq!(db.ok("SELECT s FROM u"), r#"[{"a": 1, "b": null, "c": null}]"#);
}

/// The types as Apache Cassandra 5.0.9 shows them; through a vector it accepts the circle.
#[test]
fn a_type_cannot_become_a_part_of_itself() {
    let mut db = Database::new();
    db.ok("CREATE TYPE ts (foo int)");
    db.ok("CREATE TYPE \"Qu\" (a frozen<ts>)");
    for (written, shown) in [
        ("frozen<ts>", "frozen<ks.ts>"),
        ("list<frozen<ts>>", "list<frozen<ks.ts>>"),
        ("frozen<list<ts>>", "frozen<list<frozen<ks.ts>>>"),
        ("tuple<int, ts>", "tuple<int, frozen<ks.ts>>"),
        ("frozen<map<int, ts>>", "frozen<map<int, frozen<ks.ts>>>"),
        ("frozen<\"Qu\">", "frozen<ks.Qu>"),
        ("map<text, frozen<list<frozen<\"Qu\">>>>", "map<text, frozen<list<frozen<ks.Qu>>>>"),
        ("vector<ts, 2>", "vector<ks.ts, 2>"),
    ] {
        let expected = format!(
            "Cannot add new field n of type {shown} to user type ks.ts as it would create a circular reference"
        );
        assert_eq!(db.err(&format!("ALTER TYPE ts ADD n {written}")), expected);
    }
    db.ok("DROP TYPE \"Qu\"");
    db.ok("DROP TYPE ts");
}

#[test]
fn fields_change_names_all_at_once() {
    let mut db = Database::new();
    db.ok("CREATE TYPE ts (foo int, bar int)");
    db.ok("ALTER TYPE ts RENAME foo TO bar AND bar TO foo");
    db.ok("ALTER TYPE ts RENAME foo TO foo");
    assert!(
        db.err("ALTER TYPE ts RENAME foo TO bar").starts_with("Duplicate field name bar in type")
    );
    assert!(
        db.err("ALTER TYPE ts RENAME foo TO a AND a TO b").starts_with("Unkown field a in user")
    );
    let names: Vec<&str> = db.schema.keyspace("ks").expect("it is there").types["ts"]
        .fields
        .iter()
        .map(|(name, _)| &name[..])
        .collect();
    assert_eq!(names, ["bar", "foo"]);
}

/// As a set, as keys of a map and in keys; the order is that of Apache Cassandra 5.0.9.
#[test]
fn vectors_of_texts_are_elements_and_keys() {
    let mut db = Database::new();
    db.ok(
        "CREATE TABLE s (k int PRIMARY KEY, s set<vector<text, 2>>, m map<vector<text, 2>, int>)",
    );
    db.ok(
        "INSERT INTO s (k, s) VALUES (1, {['b','c'], ['a','zz'], ['','q'], ['aa','b'], ['a','b']})",
    );
    let expected = r#"[["", "q"], ["a", "b"], ["a", "zz"], ["aa", "b"], ["b", "c"]]"#;
    assert_eq!(db.ok("SELECT s FROM s"), expected);
    db.ok("UPDATE s SET m[['x', 'y']] = 1 WHERE k = 1");
    assert_eq!(db.ok("SELECT m[['x', 'y']] FROM s"), "1");
    db.ok("CREATE TABLE c (k int, v vector<smallint, 2>, PRIMARY KEY (k, v))");
    for value in ["[1, 2]", "[-1, 2]", "[300, 2]", "[1, -5]"] {
        db.ok(&format!("INSERT INTO c (k, v) VALUES (1, {value})"));
    }
    assert_eq!(db.ok("SELECT v FROM c"), "[-1, 2]\n[1, -5]\n[1, 2]\n[300, 2]");
    db.ok("CREATE TABLE p (v vector<vector<text, 2>, 1> PRIMARY KEY, w int)");
    db.ok("INSERT INTO p (v, w) VALUES ([['a', 'b']], 1)");
    assert_eq!(db.ok("SELECT w FROM p WHERE v = [['a', 'b']]"), "1");
}

#[test]
fn durations_order_no_rows_wherever_they_are() {
    let mut db = Database::new();
    for ty in [
        "duration",
        "frozen<list<duration>>",
        "frozen<tuple<duration>>",
        "frozen<map<int, duration>>",
    ] {
        let expected = "duration type is not supported for PRIMARY KEY column 'c'";
        assert_eq!(
            db.err(&format!("CREATE TABLE t (k int, c {ty}, PRIMARY KEY (k, c))")),
            expected
        );
    }
    db.ok("CREATE TYPE foo (a int)");
    let expected = "Invalid non-frozen user-defined type \"ks.foo\" for PRIMARY KEY column 'c'";
    assert_eq!(db.err("CREATE TABLE t (k int, c foo, PRIMARY KEY (k, c))"), expected);
}

/// A type is described in every answer that has a column of it, with user types written out wherever they stand: four
/// types of a hundred fields each would be a hundred million parts.
#[test]
fn types_that_multiply_each_other_are_refused() {
    let mut db = Database::new();
    let fields = |ty: &str| (0..100).map(|i| format!("f{i} {ty}")).collect::<Vec<_>>().join(", ");
    db.ok(&format!("CREATE TYPE t1 ({})", fields("int")));
    db.ok(&format!("CREATE TYPE t2 ({})", fields("frozen<t1>")));
    let refused = "type too large: its parts";
    assert!(db.err(&format!("CREATE TYPE t3 ({})", fields("frozen<t2>"))).starts_with(refused));
    let parts = ["int"; 65_536].join(", ");
    let wide = format!("CREATE TABLE wide (k int PRIMARY KEY, v tuple<{parts}>)");
    assert!(db.err(&wide).starts_with(refused));
    // A type that grows is refused for what is made of it.
    db.ok("CREATE TYPE small (a int)");
    db.ok(&format!("CREATE TYPE holder ({})", fields("frozen<small>")));
    db.ok(&format!("CREATE TABLE t (k int PRIMARY KEY, {})", fields("frozen<holder>")));
    assert!(db.err(&format!("ALTER TYPE small ADD b {}", "frozen<t2>")).starts_with(refused));
    db.ok("ALTER TYPE small ADD b frozen<t1>");
}

/// Cassandra's words, and no name is compared with every other.
#[test]
fn names_of_many_columns_are_told_apart_at_once() {
    let mut db = Database::new();
    let columns = |n: usize| (0..n).map(|i| format!("c{i} int")).collect::<Vec<_>>().join(", ");
    let text = format!("CREATE TABLE t (k int PRIMARY KEY, {})", columns(20_000));
    assert_eq!(db.err(&text), "a table can have 16384 columns");
    let text = format!("CREATE TYPE t ({}, c7 int)", columns(60_000));
    assert_eq!(db.err(&text), "Duplicate field name 'c7' in type 't'");
}

/// Recorded of Cassandra 5.0.9: what is no option is refused, what a known one says is not read.
#[test]
fn a_keyspace_that_exists_is_not_made_of_a_refused_map() {
    let schema = schema();
    for with in [
        "replication = {'class': 'Nope', 'replication_factor': 1}",
        "replication = {'class': 'SimpleStrategy'}",
    ] {
        let nothing = planned(&format!("CREATE KEYSPACE IF NOT EXISTS ee WITH {with}"), &schema);
        assert!(nothing.expect(with).step.is_none());
        let exists = planned(&format!("CREATE KEYSPACE ee WITH {with}"), &schema);
        assert!(matches!(exists, Err(Error::AlreadyExists { .. })), "{with}");
    }
    let refused = planned("CREATE KEYSPACE other WITH replication = {'class': 'Nope'}", &schema);
    assert!(refused.is_err());
    for (with, error) in [
        ("foo = 1", "Unknown property 'foo'"),
        ("durable_writes = 1", "Missing mandatory option 'replication'"),
        ("replication = 'a'", "Invalid value for property 'replication'. It should be a map."),
    ] {
        let refused = planned(&format!("CREATE KEYSPACE IF NOT EXISTS ee WITH {with}"), &schema);
        assert!(refused.expect_err(with).to_string().starts_with(error));
    }
}

#[test]
fn a_column_of_a_user_type_that_is_not_frozen_stays() {
    let mut db = crate::testing::Database::new();
    db.ok("CREATE TYPE u (a int)");
    db.ok("CREATE TABLE t (k int PRIMARY KEY, v u, f frozen<u>)");
    let refused = "Cannot drop non-frozen column v of user type u";
    for drop in ["v", "IF EXISTS v", "(f, v)"] {
        let error = db.err(&format!("ALTER TABLE t DROP {drop}"));
        assert!(error.starts_with(refused), "{error}");
    }
    db.ok("ALTER TABLE t DROP f");
}

/// Before: each property was compared with all before it, however many there were.
#[test]
fn properties_are_as_many_as_can_be_compared() {
    let mut db = Database::new();
    let many: Vec<String> = (0..40_000).map(|number| format!("a{number} = 1")).collect();
    let text = format!("CREATE KEYSPACE many WITH {}", many.join(" AND "));
    assert_eq!(
        db.err(&text),
        "more than 1000 properties, or more than 1000 entries in one of them"
    );
    let many: Vec<String> = (0..40_000).map(|number| format!("'a{number}': '1'")).collect();
    let text = format!("CREATE KEYSPACE many WITH replication = {{{}}}", many.join(", "));
    assert_eq!(
        db.err(&text),
        "more than 1000 properties, or more than 1000 entries in one of them"
    );
}

/// Before: each column that was added was sought among all that had been dropped: 16,000 that came back held a core for
/// seconds.
#[test]
fn many_columns_come_back_in_steps_in_proportion_to_their_number() {
    const COLUMNS: usize = 1_000;
    let mut db = Database::with("k int PRIMARY KEY");
    let names: Vec<String> = (0..COLUMNS).rev().map(|at| format!("c{at:04}")).collect();
    let typed: Vec<String> = names.iter().map(|name| format!("{name} int")).collect();
    let add = format!("ALTER TABLE t ADD ({})", typed.join(", "));
    db.ok(&add);
    let before = db.schema.table("ks", "t").expect("it is there").columns().to_vec();
    db.ok(&format!("ALTER TABLE t DROP ({})", names.join(", ")));
    let (steps, _) = steps_of(|| db.ok(&add));
    assert!((COLUMNS..10 * COLUMNS).contains(&steps), "{steps} dropped columns looked at");
    assert_eq!(db.schema.table("ks", "t").expect("it is there").columns(), before);
}

#[test]
fn of_columns_that_are_added_together_the_first_that_may_not_be_is_told() {
    let mut db = Database::with("k int, c int, d text, PRIMARY KEY (k, c)");
    db.ok("ALTER TABLE t DROP d");
    let long = "a".repeat(model::limits::COLUMN_NAME_BYTES_MAX + 1);
    let exists = "Column with name 'a' already exists";
    let readded =
        "Cannot add a column 'd' of type int, incompatible with previously dropped column";
    for (added, refused) in [
        ("a int, a text".to_owned(), exists),
        ("a int, a text, d int".to_owned(), exists),
        ("a int, d int, a text".to_owned(), readded),
        (format!("a int, {long} int, a int"), "Column names shouldn't be empty or more than"),
        (format!("a int, a int, {long} int"), exists),
        ("a int, b counter, a int".to_owned(), "ks.t: Cannot have a counter column (\"b\")"),
        ("a int, c int, a int".to_owned(), "Column with name 'c' already exists"),
    ] {
        let told = db.err(&format!("ALTER TABLE t ADD ({added})"));
        assert!(told.starts_with(refused), "{added}: {told}");
    }
    let names = |db: &mut Database| {
        let table = db.schema.table("ks", "t").expect("it is there");
        table.columns().iter().map(|column| column.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&mut db), ["k", "c"]);
    db.ok("ALTER TABLE t ADD IF NOT EXISTS (d text, b int static, c int, b text)");
    assert_eq!(names(&mut db), ["k", "c", "b", "d"]);
}
