//! Rows of compact tables: there while they have a value, and with as many clustering columns as they were given.

use super::*;

#[test]
fn a_row_of_a_dense_table_is_its_value() {
    let mut db = Database::new();
    db.ok("CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c)) WITH COMPACT STORAGE");
    db.ok("INSERT INTO t (k, c, v) VALUES (1, 1, 1)");
    db.ok("INSERT INTO t (k, c, v) VALUES (1, 2, null)");
    assert_eq!(db.ok("SELECT * FROM t"), "1, 1, 1");
    db.ok("UPDATE t SET v = null WHERE k = 1 AND c = 1");
    assert_eq!(db.ok("SELECT * FROM t"), "");
    let mandatory = "Column v is mandatory for this COMPACT STORAGE table";
    assert_eq!(db.err("INSERT INTO t (k, c) VALUES (1, 2)"), mandatory);
    let missing = "Some clustering keys are missing: c";
    assert_eq!(db.err("INSERT INTO t (k, v) VALUES (1, 2)"), missing);
}

#[test]
fn a_row_of_a_dense_table_without_a_value_stays_until_it_is_deleted() {
    let mut db = Database::new();
    db.ok("CREATE TABLE t (k int, c text, PRIMARY KEY (k, c)) WITH COMPACT STORAGE");
    db.ok("INSERT INTO t (k, c) VALUES (1, 'a')");
    db.ok("INSERT INTO t (k, c) VALUES (1, 'b') USING TTL 10");
    assert_eq!(db.ok("SELECT * FROM t"), "1, \"a\"\n1, \"b\"");
    db.now_s += 10;
    assert_eq!(db.ok("SELECT * FROM t"), "1, \"a\"");
    let undefined = "Undefined column name value in table ks.t";
    assert_eq!(db.err("SELECT value FROM t"), undefined);
    let empty = "Invalid empty or null value for column c";
    assert_eq!(db.err("INSERT INTO t (k, c) VALUES (1, '')"), empty);
    db.ok("ALTER TABLE t DROP COMPACT STORAGE");
    db.ok("INSERT INTO t (k, c) VALUES (1, 'c')");
    assert_eq!(db.ok("SELECT c, value FROM t"), "\"a\", \"\"\n\"c\", null");
}

#[test]
fn the_last_clustering_columns_may_be_left_out_and_then_stand_first() {
    let mut db = Database::new();
    db.ok(
        "CREATE TABLE t (k int, c int, d int, e int, v int, PRIMARY KEY (k, c, d, e)) WITH COMPACT STORAGE AND CLUSTERING ORDER BY (c ASC, d DESC, e ASC)",
    );
    for row in ["1, 1, 1, 1", "1, 2, 2, 2"] {
        db.ok(&format!("INSERT INTO t (k, c, d, e, v) VALUES (1, {row})"));
    }
    db.ok("INSERT INTO t (k, c, d, v) VALUES (1, 1, 1, 3)");
    db.ok("UPDATE t SET v = 4 WHERE k = 1 AND c IN (1, 2)");
    assert_eq!(
        db.ok("SELECT c, d, e, v FROM t"),
        "1, null, null, 4\n1, 2, 2, 2\n1, 1, null, 3\n1, 1, 1, 1\n2, null, null, 4"
    );
    assert_eq!(db.ok("SELECT d, e FROM t WHERE k = 1 AND c = 1 AND d > 1"), "null, null\n2, 2");
    assert_eq!(db.ok("SELECT d, e FROM t WHERE d < 2 ALLOW FILTERING"), "1, null\n1, 1");
    db.ok("DELETE FROM t WHERE k = 1 AND c = 1");
    assert_eq!(db.ok("SELECT c, v FROM t"), "2, 4");
}

#[test]
fn a_static_table_has_a_row_for_each_partition_with_a_value() {
    let mut db = Database::new();
    db.ok("CREATE TABLE t (k int PRIMARY KEY, v int, w text) WITH COMPACT STORAGE");
    db.ok("INSERT INTO t (k, v, w) VALUES (1, 1, 'a')");
    db.ok("INSERT INTO t (k, v) VALUES (2, null)");
    db.ok("DELETE v FROM t WHERE k = 1");
    assert_eq!(db.ok("SELECT * FROM t"), "1, null, \"a\"");
    assert_eq!(db.ok("SELECT k FROM t WHERE w = 'a' ALLOW FILTERING"), "1");
    let missing = "Some clustering keys are missing: column1";
    assert_eq!(db.err("INSERT INTO t (k) VALUES (1)"), missing);
    let undefined = "Undefined column name column1 in table ks.t";
    assert_eq!(db.err("INSERT INTO t (k, column1) VALUES (1, 'a')"), undefined);
    db.ok("ALTER TABLE t DROP COMPACT STORAGE");
    db.ok("INSERT INTO t (k, column1, value) VALUES (1, 'x', 0xaa)");
    assert_eq!(db.ok("SELECT * FROM t"), "1, \"x\", null, \"a\", \"0xaa\"");
}

#[test]
fn what_cassandra_refuses_of_compact_tables_is_refused() {
    let mut db = Database::new();
    db.ok("CREATE TABLE d (k int, c int, v int, PRIMARY KEY (k, c)) WITH COMPACT STORAGE");
    db.ok("CREATE TABLE s (k int PRIMARY KEY, v int) WITH COMPACT STORAGE");
    for (statement, error) in [
        ("ALTER TABLE d ADD x int", "Cannot add new column to a COMPACT STORAGE table"),
        ("ALTER TABLE s ADD value int", "Column with name 'value' already exists"),
        ("ALTER TABLE d DROP v", "Cannot drop column v of the COMPACT STORAGE table ks.d"),
        ("ALTER TABLE s DROP column1", "Cannot drop PRIMARY KEY column column1"),
        ("ALTER TABLE s RENAME value TO x", "Undefined column name value in table ks.s"),
        ("ALTER TABLE s RENAME k TO value", "Cannot rename column k to value in table 'ks.s'"),
        ("CREATE TABLE x (k int PRIMARY KEY) WITH COMPACT STORAGE", "No definition found"),
    ] {
        let refused = db.err(statement);
        assert!(refused.starts_with(error), "{statement}: {refused}");
    }
    db.ok("ALTER TABLE s DROP v");
    db.ok("ALTER TABLE s DROP COMPACT STORAGE");
    let not = "Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE";
    assert_eq!(db.err("ALTER TABLE s DROP COMPACT STORAGE"), not);
}
