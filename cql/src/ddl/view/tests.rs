//! Materialized views as statements: what they are made of, how they follow their base, and what is refused.

use crate::testing::Database;

fn database() -> Database {
    let mut db = Database::new();
    db.ok("CREATE TABLE b (p int, c int, v int, w text, PRIMARY KEY (p, c))
           WITH CLUSTERING ORDER BY (c DESC)");
    db
}

const NOT_NULL: &str = "p IS NOT NULL AND c IS NOT NULL AND v IS NOT NULL";

#[test]
fn a_view_has_the_columns_and_the_order_of_its_base() {
    let mut db = database();
    db.ok(&format!(
        "CREATE MATERIALIZED VIEW m AS SELECT w FROM b WHERE {NOT_NULL} PRIMARY KEY (v, c, p)"
    ));
    let view = db.schema.table("ks", "m").unwrap().clone();
    let names: Vec<&str> = view.columns().iter().map(|column| &*column.name).collect();
    assert_eq!(names, ["v", "c", "p", "w"], "those of the key need not be named");
    assert!(view.clustering()[0].descending && !view.clustering()[1].descending);
    let base = db.schema.table("ks", "b").unwrap();
    for column in view.columns() {
        assert_eq!(base.column(&column.name).unwrap().id, column.id);
    }
}

#[test]
fn the_base_leads_and_its_views_follow() {
    let mut db = database();
    for (name, what) in [("all", "*"), ("few", "p, c, v")] {
        db.ok(&format!(
            "CREATE MATERIALIZED VIEW {name} AS SELECT {what} FROM b WHERE {NOT_NULL}
             AND v >= 3 PRIMARY KEY (v, p, c) WITH CLUSTERING ORDER BY (p DESC, c ASC)"
        ));
    }
    db.ok("ALTER TABLE b ADD (x int, s int static)");
    db.ok("ALTER TABLE b RENAME p TO part");
    let names = |name: &str| {
        let view = db.schema.table("ks", name).unwrap();
        view.columns().iter().map(|column| column.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names("all"), ["v", "part", "c", "w", "x"]);
    assert_eq!(names("few"), ["v", "part", "c"]);
    let (view, base) = (db.schema.table("ks", "all").unwrap(), db.schema.table("ks", "b").unwrap());
    assert_eq!(
        crate::describe::where_clause(view, base),
        "part IS NOT NULL AND c IS NOT NULL AND v IS NOT NULL AND v >= 3"
    );
    for (text, error) in [
        ("ALTER TABLE b DROP w", "Cannot drop column w on base table b with materialized views"),
        ("DROP TABLE b", "Cannot drop a table when materialized views still depend on it"),
        ("DROP TABLE all", "Cannot use DROP TABLE on a materialized view"),
        ("ALTER TABLE all ADD y int", "Cannot use ALTER TABLE on a materialized view"),
        ("ALTER MATERIALIZED VIEW b WITH comment = 'c'", "Materialized view 'ks.b' doesn't exist"),
        ("DROP MATERIALIZED VIEW b", "Materialized view 'ks.b' doesn't exist"),
        ("TRUNCATE all", "Cannot TRUNCATE materialized view directly"),
        (
            "INSERT INTO all (v, part, c) VALUES (1, 2, 3)",
            "Cannot directly modify a materialized view",
        ),
        ("CREATE TABLE n LIKE all", "Cannot use CREATE TABLE LIKE on a materialized view"),
    ] {
        let found = db.err(text);
        assert!(found.starts_with(error), "{text}: {found}");
    }
    db.ok("ALTER MATERIALIZED VIEW all WITH comment = 'c'");
    db.ok("DROP MATERIALIZED VIEW all");
    db.ok("DROP MATERIALIZED VIEW few");
    db.ok("DROP TABLE b");
}

#[test]
fn what_no_view_is_is_refused() {
    let mut db = database();
    db.ok("CREATE TABLE n (p int PRIMARY KEY, c counter)");
    for (what, rest, error) in [
        (
            "*",
            "b WHERE p IS NOT NULL AND c IS NOT NULL PRIMARY KEY (v, p, c)",
            "Primary key columns v must be restricted",
        ),
        ("*", "b PRIMARY KEY (c, p)", "Primary key columns c, p must be restricted"),
        (
            "*",
            "b WHERE p IS NOT NULL PRIMARY KEY (p)",
            "Cannot create materialized view 'm' without primary key columns c",
        ),
        (
            "*",
            "b WHERE p IS NOT NULL PRIMARY KEY (v, w, p, c)",
            "Cannot include more than one non-primary key column",
        ),
        (
            "*",
            "b WHERE p = 1 AND c = 2 AND w = 'x' PRIMARY KEY (c, p)",
            "Non-primary key columns can only be restricted with 'IS NOT NULL' (got: w",
        ),
        (
            "*",
            "b WHERE p = 1 AND p > 0 AND c = 2 PRIMARY KEY (c, p)",
            "p cannot be restricted by more than one relation",
        ),
        (
            "*",
            "b WHERE p = null AND c = 2 PRIMARY KEY (c, p)",
            "Invalid null value in condition for column p",
        ),
        ("*", "b WHERE token(p) = 1 AND c = 2 PRIMARY KEY (c, p)", "Cannot use token relation"),
        ("w AS x", "b WHERE p = 1 AND c = 2 PRIMARY KEY (c, p)", "Cannot use aliases"),
        ("ttl(w)", "b WHERE p = 1 AND c = 2 PRIMARY KEY (c, p)", "Can only select columns by name"),
        (
            "*",
            "n WHERE p IS NOT NULL PRIMARY KEY (p)",
            "Materialized views are not supported on counter tables",
        ),
        ("*", "nope WHERE p IS NOT NULL PRIMARY KEY (p)", "Base table 'nope' doesn't exist"),
        (
            "*",
            "b WHERE p = 1 AND c = 2 PRIMARY KEY (c, p) WITH default_time_to_live = 5",
            "Cannot set default_time_to_live",
        ),
        (
            "*",
            "b WHERE p = 1 AND c = 2 PRIMARY KEY (c, p) WITH COMPACT STORAGE",
            "Cannot use 'COMPACT STORAGE'",
        ),
        (
            "*",
            "b WHERE p = 1 AND c = 2 PRIMARY KEY (c, p) WITH CLUSTERING ORDER BY (c ASC)",
            "Clustering key columns must exactly match",
        ),
    ] {
        let found = db.err(&format!("CREATE MATERIALIZED VIEW m AS SELECT {what} FROM {rest}"));
        assert!(found.starts_with(error), "{rest}: {found}");
    }
    let bound =
        "CREATE MATERIALIZED VIEW m AS SELECT * FROM b WHERE p = ? AND c = 1 PRIMARY KEY (p, c)";
    assert!(db.err(bound).contains("CREATE MATERIALIZED VIEW"));
}

/// Before: all three were taken, and a row of a view that is written again after a crash could come back.
#[test]
fn a_table_with_views_keeps_its_tombstones_for_some_time() {
    let mut db = database();
    let view = format!(
        "CREATE MATERIALIZED VIEW m AS SELECT * FROM b WHERE {NOT_NULL} PRIMARY KEY (v, c, p)"
    );
    db.ok("ALTER TABLE b WITH gc_grace_seconds = 0");
    let begin =
        "Cannot create materialized view 'm' for base table 'b' with gc_grace_seconds of 0, since";
    let error = db.err(&view);
    assert!(error.starts_with(begin), "{error}");
    db.ok("ALTER TABLE b WITH gc_grace_seconds = 1");
    db.ok(&view);
    for (text, begin) in [
        (
            "ALTER TABLE b",
            "Cannot alter gc_grace_seconds of the base table of a materialized view to 0, since",
        ),
        (
            "ALTER MATERIALIZED VIEW m",
            "Cannot alter gc_grace_seconds of a materialized view to 0, since",
        ),
    ] {
        let error = db.err(&format!("{text} WITH gc_grace_seconds = 0"));
        assert!(error.starts_with(begin), "{error}");
    }
}

/// Before: CREATE took a view without grace seconds, and a view or its base with `immediate`: an update delivered again
/// brought a deleted row back.
#[test]
fn neither_a_view_nor_its_base_drops_tombstones_at_once() {
    let mut db = database();
    let view = format!(
        "CREATE MATERIALIZED VIEW m AS SELECT * FROM b WHERE {NOT_NULL} PRIMARY KEY (v, c, p)"
    );
    let immediate = "WITH tombstone_gc = {'mode': 'immediate'}";
    let mut refuses = |text: &str, begin: &str| {
        let error = db.err(text);
        assert!(error.starts_with(begin), "{text}: {error}");
    };
    let begin = "Cannot create materialized view 'm' with gc_grace_seconds of 0, since";
    refuses(&format!("{view} WITH gc_grace_seconds = 0"), begin);
    let begin = "Cannot create materialized view 'm' with tombstone_gc of 'immediate', since";
    refuses(&format!("{view} {immediate}"), begin);
    db.ok(&format!("ALTER TABLE b {immediate}"));
    let begin = "Cannot create materialized view 'm' for base table 'b' with tombstone_gc of \
                 'immediate', since";
    assert!(db.err(&view).starts_with(begin));
    db.ok("ALTER TABLE b WITH tombstone_gc = {'mode': 'timeout'}");
    db.ok(&format!("{view} WITH tombstone_gc = {{'mode': 'disabled'}}"));
    for (text, what) in [
        ("ALTER TABLE b", "the base table of a materialized view"),
        ("ALTER MATERIALIZED VIEW m", "a materialized view"),
    ] {
        let error = db.err(&format!("{text} {immediate}"));
        let begin = format!("Cannot alter tombstone_gc of {what} to 'immediate', since");
        assert!(error.starts_with(&begin), "{error}");
        db.ok(&format!("{text} WITH tombstone_gc = {{'mode': 'timeout'}}"));
    }
}

/// Before: they had no limit, and counted as no memory: a few views took that of the node.
#[test]
fn constants_of_a_view_are_short() {
    let mut db = Database::new();
    db.ok("CREATE TABLE d (p text, c int, PRIMARY KEY (p, c))");
    let create = |name: &str, filter: &str| {
        format!(
            "CREATE MATERIALIZED VIEW {name} AS SELECT * FROM d WHERE {filter} AND c IS NOT NULL PRIMARY KEY (c, p)"
        )
    };
    let refused = "The constants of a materialized view take more than 65535 bytes";
    let several = vec![format!("'{}'", "x".repeat(10_000)); 7].join(", ");
    for filter in [format!("p > '{}'", "x".repeat(70_000)), format!("p IN ({several})")] {
        let error = db.err(&create("m", &filter));
        assert!(error.starts_with(refused), "{error}");
    }
    db.ok(&create("m", &format!("p > '{}'", "x".repeat(60_000))));
    db.ok("CREATE TABLE b (k int, v blob, PRIMARY KEY (k))");
    let create = |name: &str, bytes: usize| {
        let constant = format!("0x{}", "07".repeat(bytes));
        format!(
            "CREATE MATERIALIZED VIEW {name} AS SELECT * FROM b WHERE v > {constant} AND k IS NOT NULL PRIMARY KEY (v, k)"
        )
    };
    db.ok(&create("of_longest", 65_535));
    let error = db.err(&create("of_longer", 65_536));
    assert!(error.starts_with(refused), "{error}");
}
