//! CREATE INDEX and DROP INDEX: what they make, and what they refuse.

use model::schema::{Analysis, IndexKind, IndexTarget};

use crate::testing::Database;

fn database() -> Database {
    let mut db = Database::with(
        "p int, q int, c int, s int static, v int, w text, b blob, l list<int>, m map<text, int>,
         f frozen<list<int>>, PRIMARY KEY ((p, q), c)",
    );
    db.ok("CREATE TABLE u (k int PRIMARY KEY, v int)");
    db
}

fn names(db: &Database) -> Vec<String> {
    let table = db.schema.table("ks", "t").unwrap();
    table.indexes().iter().map(|index| index.name.clone()).collect()
}

#[test]
fn an_index_is_made_once_and_dropped() {
    let mut db = database();
    db.ok("CREATE INDEX ON t (v)");
    db.ok("CREATE INDEX ON t (m)");
    db.ok("CREATE INDEX ON t (keys(m))");
    db.ok("CREATE INDEX u_v_idx ON t (c)");
    assert_eq!(names(&db), ["t_m_idx", "t_m_idx_1", "t_v_idx", "u_v_idx"]);
    db.ok("CREATE INDEX ON u (v)");
    let other = db.schema.table("ks", "u").unwrap().indexes()[0].name.clone();
    assert_eq!(other, "u_v_idx_1", "another table has the name");
    for text in
        ["CREATE INDEX IF NOT EXISTS ON t (v)", "CREATE INDEX IF NOT EXISTS u_v_idx ON t (w)"]
    {
        db.ok(text);
    }
    assert_eq!(names(&db).len(), 4);
    db.ok("DROP INDEX ks.t_m_idx");
    db.ok("DROP INDEX IF EXISTS t_m_idx");
    assert_eq!(names(&db), ["t_m_idx_1", "t_v_idx", "u_v_idx"]);
    assert_eq!(db.err("DROP INDEX t_m_idx"), "Index 'ks.t_m_idx' doesn't exist'");
}

#[test]
fn what_using_and_options_say_is_kept() {
    let mut db = database();
    db.ok("CREATE INDEX a ON t (w) USING 'SAI' WITH OPTIONS = {'ascii': 'TRUE', 'case_sensitive': 'false'}");
    db.ok("CREATE CUSTOM INDEX b ON t (full(f)) USING 'org.apache.cassandra.index.sai.StorageAttachedIndex'");
    db.ok("CREATE INDEX c ON t (w) USING 'legacy_local_table'");
    let table = db.schema.table("ks", "t").unwrap();
    let [a, b, c] = table.indexes() else { panic!("three") };
    assert_eq!((a.kind, a.class.as_deref()), (IndexKind::StorageAttached, Some("SAI")));
    assert_eq!(a.analysis, Analysis { case_sensitive: false, normalize: false, ascii: true });
    assert_eq!((b.kind, b.target), (IndexKind::StorageAttached, IndexTarget::Full));
    assert_eq!((c.kind, c.class.as_deref(), c.analysis), (IndexKind::Plain, None, Analysis::NONE));
}

#[test]
fn a_column_with_an_index_is_neither_dropped_nor_renamed() {
    let mut db = database();
    db.ok("CREATE INDEX ON t (v)");
    db.ok("CREATE INDEX sai ON t (v) USING 'sai'");
    db.ok("CREATE INDEX ON t (c)");
    for (text, error) in [
        (
            "ALTER TABLE t DROP v",
            "Cannot drop column v because it has dependent secondary indexes (sai, t_v_idx)",
        ),
        (
            "ALTER TABLE t RENAME c TO d",
            "Can't rename column c because it has dependent secondary indexes (t_c_idx)",
        ),
    ] {
        assert_eq!(db.err(text), error);
    }
    for text in ["DROP INDEX sai", "DROP INDEX t_v_idx", "ALTER TABLE t DROP v"] {
        db.ok(text);
    }
}

#[test]
fn a_name_that_no_file_may_have_is_refused() {
    let mut db = database();
    assert_eq!(db.err("CREATE INDEX \"a b\" ON t (v)"), "Illegal index name a b");
    let long = "i".repeat(223);
    assert!(
        db.err(&format!("CREATE INDEX {long} ON t (v)"))
            .starts_with("Index name must not be more than 222")
    );
    db.ok(&format!("CREATE INDEX {} ON t (v)", &long[1..]));
}
