//! Statements about the schema against what Cassandra 5.0.9 answered to them.

use super::*;
use model::schema::{SchemaEntry, TableBuilder};
use model::types::CqlType;
use std::collections::BTreeMap;
use uuid::Uuid;

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
        replication: BTreeMap::new(),
        durable_writes: true,
    };
    let changes = [keyspace("ee"), keyspace("system"), SchemaChange::CreateTable(Box::new(table))];
    Schema::of_changes(changes).expect("sound changes")
}

fn planned(text: &str, schema: &Schema) -> Result<Ddl> {
    let ground = Ground {
        schema,
        keyspace: None,
        is_system: |name| name.starts_with("system"),
        data_center: "datacenter1",
        table_id: TableId(Uuid::from_u128(2)),
        now_us: 5,
    };
    let parsed = crate::lang::parse(text)?;
    plan(&parsed.statement, &ground).expect("a statement about the schema")
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
    assert!(error.to_string().contains("as it is still used by user types [outer]"));
}

#[test]
fn what_is_kept_without_effect_is_said() {
    let ddl = planned(
        "ALTER TABLE ee.t WITH cdc = true AND compaction = {'class': 'IncrementalCompactionStrategy'}",
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
