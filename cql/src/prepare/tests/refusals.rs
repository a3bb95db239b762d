//! What is refused, and what is warned of, when a statement is prepared.

use super::*;

#[test]
fn what_execute_would_refuse_or_ignore_is_said_at_prepare() {
    let db = Database::with("k int PRIMARY KEY, v int");
    let prepared = |text: &str| prepare(text, &db.schema, Some("ks"));
    for text in [
        "TRUNCATE t USING TIMEOUT 5s",
        "BEGIN BATCH INSERT INTO t (k) VALUES (1) USING TIMEOUT 5s; APPLY BATCH",
    ] {
        let warnings = prepared(text).unwrap().warnings;
        assert!(warnings[0].starts_with("USING TIMEOUT of TRUNCATE"), "{text}: {warnings:?}");
    }
    let warnings = prepared("SELECT * FROM t BYPASS CACHE").unwrap().warnings;
    assert!(warnings[0].starts_with("BYPASS CACHE has no effect"), "{warnings:?}");
    assert_eq!(prepared("SELECT * FROM t").unwrap().warnings, [""; 0]);
}

/// Statements and what Apache Cassandra 5.0.9 says of them.
#[test]
fn refusals_are_cassandras() {
    let mut db = Database::new();
    db.ok("CREATE TABLE fu (k int, c int, t text, ts timestamp, l list<int>, m map<int,text>, s set<int>, st int static, v bigint, primary key (k, c))");
    db.ok(
        "CREATE TABLE wide (p int, a int, b int, c int, d int, v int, primary key (p, a, b, c, d))",
    );
    db.ok("CREATE TABLE fro (p int, fl frozen<list<int>>, c int, fm frozen<map<int, int>>, primary key (p, fl, c))");
    db.ok("CREATE TABLE ind (p int, c int, d int, e int, v int, primary key (p, c, d, e))");
    db.ok("CREATE INDEX ON ind (d)");
    let table = include_str!("../refusals.txt");
    let mut wrong = Vec::new();
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (text, error) = line.split_once(" => ").expect("statement => error");
        let error = error.replace("AF", crate::restrict::NEEDS_FILTERING);
        let found = match db.run(text, &ValueList::new()) {
            Ok(_) => "nothing is wrong".to_owned(),
            Err(error) => error.to_string(),
        };
        if !found.starts_with(&error) {
            wrong.push(format!("{text}\n  found:    {found}\n  expected: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_cannot_exist_cannot_be_dropped() {
    let mut db = Database::new();
    assert_eq!(db.err("DROP INDEX i"), "Index 'ks.i' doesn't exist'");
    assert_eq!(db.err("DROP MATERIALIZED VIEW ks.v"), "Materialized view 'ks.v' doesn't exist");
    db.ok("DROP INDEX IF EXISTS i");
    assert_eq!(db.err("CREATE TRIGGER x ON t USING 'y'"), "CREATE TRIGGER is not supported");
}
