//! What is refused, and what is warned of, when a statement is prepared.

use super::*;

#[test]
fn what_is_wrong_anyway_is_told_before_a_condition_is_refused() {
    let mut db = Database::with("k int, c int, v int, PRIMARY KEY (k, c)");
    let refusal = "Conditional statements (IF ...) are not supported yet";
    let missing = "Some clustering keys are missing: c";
    for (text, error) in [
        ("INSERT INTO t (k, c) VALUES (?, ?) IF NOT EXISTS", refusal),
        ("INSERT INTO t (k, v) VALUES (1, 1) IF NOT EXISTS", missing),
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF EXISTS", refusal),
        ("UPDATE t SET v = 1 WHERE k = 1 IF EXISTS", missing),
        ("DELETE FROM t WHERE k = 1 AND c = 1 IF EXISTS", refusal),
        (
            "DELETE FROM t WHERE k = 1 AND c = 'x' IF EXISTS",
            "Invalid STRING constant (x) for \"c\" of type int",
        ),
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v = 2", refusal),
    ] {
        assert_eq!(db.err(text), error, "{text}");
    }
    assert_eq!(db.ok("SELECT * FROM t"), "");
}

#[test]
fn what_execute_would_refuse_or_ignore_is_said_at_prepare() {
    let db = Database::with("k int PRIMARY KEY, v int");
    let prepared = |text: &str| prepare(text, &db.schema, Some("ks"));
    for text in [
        "INSERT INTO t (k) VALUES (?) IF NOT EXISTS",
        "UPDATE t SET v = 1 WHERE k = ? IF EXISTS",
        "DELETE FROM t WHERE k = ? IF EXISTS",
        "BEGIN BATCH INSERT INTO t (k) VALUES (?) IF NOT EXISTS; APPLY BATCH",
    ] {
        let error = prepared(text).map(drop).unwrap_err().to_string();
        assert_eq!(error, "Conditional statements (IF ...) are not supported yet", "{text}");
    }
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
    let table = include_str!("../refusals.txt");
    let mut wrong = Vec::new();
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (text, error) = line.split_once(" => ").expect("statement => error");
        let error = error.replace("AF", crate::restrict::NEEDS_FILTERING);
        let found = db.err(text);
        if !found.starts_with(&error) {
            wrong.push(format!("{text}\n  found:    {found}\n  expected: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_cannot_exist_cannot_be_dropped() {
    let mut db = Database::new();
    assert_eq!(db.err("DROP INDEX i"), "Index 'ks.i' doesn't exist");
    assert_eq!(db.err("DROP MATERIALIZED VIEW ks.v"), "Materialized view 'ks.v' doesn't exist");
    db.ok("DROP INDEX IF EXISTS i");
    assert_eq!(db.err("CREATE INDEX ON t (a)"), "CREATE INDEX is not supported");
}
