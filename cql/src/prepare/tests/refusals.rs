//! What is refused, and what is warned of, when a statement is prepared.

use super::*;
use crate::limits::TUPLE_PARTS_MAX;

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

/// Before: the type of the result was written with a count that does not fit, which ended the node.
#[test]
fn a_tuple_of_too_many_parts_is_refused() {
    let mut db = Database::with("k int PRIMARY KEY");
    for (parts, is_refused) in [(TUPLE_PARTS_MAX + 1, true), (100, false)] {
        let text = format!("SELECT ({}) FROM t", vec!["k"; parts].join(", "));
        let refused = db.run(&text, &ValueList::new()).err().map(|error| error.to_string());
        let expected = "a tuple has 65536 parts, more than 65535".to_owned();
        assert_eq!(refused, is_refused.then_some(expected));
    }
}

/// Before: the rest was taken off a time below all others, which ended the node.
#[test]
fn the_floor_of_a_time_that_is_none_is_refused() {
    let mut db = Database::with("k int PRIMARY KEY, b bigint");
    db.ok("INSERT INTO t (k, b) VALUES (1, -9223372036854775808)");
    for time in ["(time)b", "(time)(bigint)-9223372036854775808"] {
        let error = db.err(&format!("SELECT floor({time}, 3h) FROM t"));
        assert_eq!(error, "-9223372036854775808 ns are no time of a day");
    }
    assert_eq!(db.ok("SELECT floor((time)'04:30:00', 3h) FROM t"), "\"03:00:00.000000000\"");
}
