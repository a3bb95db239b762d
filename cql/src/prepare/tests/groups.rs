//! Rows put together: aggregates, and groups with their limits and pages.

use super::*;

#[test]
fn aggregates_and_groups() {
    let mut db = Database::with("k int, c int, v int, d double, PRIMARY KEY (k, c)");
    assert_eq!(
        db.ok("SELECT count(*), max(v), sum(v), avg(v), min(d) FROM t"),
        "0, null, 0, 0, null"
    );
    for (k, c, v) in [(1, 1, 10), (1, 2, 5), (2, 1, 7)] {
        db.ok(&format!("INSERT INTO t (k, c, v, d) VALUES ({k}, {c}, {v}, {v}.5)"));
    }
    db.ok("INSERT INTO t (k, c) VALUES (2, 2)");
    assert_eq!(
        db.ok("SELECT count(*), count(1), count(v), min(v), max(v), sum(v), avg(v), avg(d) FROM t"),
        "4, 4, 3, 5, 10, 22, 7, 7.833333333333333"
    );
    assert_eq!(db.warnings, ["Aggregation query used without partition key"]);
    assert_eq!(db.ok("SELECT k, count(*), sum(v) FROM t GROUP BY k"), "1, 2, 15\n2, 2, 7");
    assert_eq!(db.ok("SELECT k, c, max(v) FROM t WHERE k = 1 GROUP BY c LIMIT 1"), "1, 1, 10");
    assert_eq!(db.ok("SELECT c, v FROM t WHERE k = 1 GROUP BY k"), "1, 10");
    assert_eq!(db.ok("SELECT max(v) + 1, CAST(avg(v) AS double) FROM t"), "11, 7.0");
}

#[test]
fn groups_are_limited_by_partition() {
    let mut db = Database::with("k int, c int, PRIMARY KEY (k, c)");
    for n in 0..6 {
        db.ok(&format!("INSERT INTO t (k, c) VALUES ({}, {n})", n % 2));
    }
    assert_eq!(
        db.ok("SELECT k, c, count(*) FROM t WHERE k IN (0, 1) GROUP BY k, c PER PARTITION LIMIT 2"),
        "0, 0, 1\n0, 2, 1\n1, 1, 1\n1, 3, 1"
    );
    assert_eq!(
        db.ok("SELECT k, c FROM t WHERE k IN (0, 1) GROUP BY k, c PER PARTITION LIMIT 2 LIMIT 3"),
        "0, 0\n0, 2\n1, 1"
    );
}

/// Before: groups came as one page, whatever the size of a page.
#[test]
fn groups_come_in_pages_that_make_the_whole() {
    let mut db = Database::with("k int, c int, d int, s int static, v int, PRIMARY KEY (k, c, d)");
    for k in 0..7 {
        db.ok(&format!("INSERT INTO t (k, s) VALUES ({k}, {})", k * 10));
        for n in 0..(k % 4) * 3 {
            db.ok(&format!("INSERT INTO t (k, c, d, v) VALUES ({k}, {}, {n}, {n})", n / 2));
        }
    }
    db.ok("CREATE TABLE h (k int, c int, t timestamp, s int static, PRIMARY KEY (k, c, t))");
    for k in 0..5 {
        db.ok(&format!("INSERT INTO h (k, s) VALUES ({k}, {})", k * 10));
        for n in 0..k * 4 {
            let millis = n * n * 1_200_000;
            db.ok(&format!("INSERT INTO h (k, c, t) VALUES ({k}, {}, {millis})", n % 2));
        }
    }
    for text in [
        "SELECT k, count(*), sum(v) FROM t GROUP BY k",
        "SELECT k, c, count(v), s FROM t GROUP BY k, c",
        "SELECT k, c, max(d) FROM t GROUP BY k, c LIMIT 6",
        "SELECT k, c, max(d) FROM t GROUP BY k, c PER PARTITION LIMIT 2",
        "SELECT k, c, max(d) FROM t GROUP BY k, c PER PARTITION LIMIT 2 LIMIT 5",
        "SELECT k, c, d FROM t GROUP BY k, c, d",
        "SELECT c, min(v) FROM t WHERE k = 3 GROUP BY c ORDER BY c DESC",
        "SELECT k, c, min(v) FROM t WHERE k IN (3, 1, 2) GROUP BY k, c",
        "SELECT k, c, min(v) FROM t WHERE k = 3 AND c > 0 GROUP BY k, c PER PARTITION LIMIT 3",
        "SELECT k, count(*) FROM t WHERE v > 2 GROUP BY k ALLOW FILTERING",
        "SELECT DISTINCT k, s FROM t GROUP BY k",
        "SELECT k, c, floor(t, 1h), count(*), s FROM h GROUP BY k, c, floor(t, 1h)",
        "SELECT k, max(t) FROM h WHERE c = 0 GROUP BY k, floor(t, 2h) LIMIT 5 ALLOW FILTERING",
        "SELECT k, c, min(t) FROM h GROUP BY k, c, floor(t, 1h) PER PARTITION LIMIT 3 LIMIT 8",
        "SELECT t, count(*) FROM h WHERE k = 3 AND c = 1 GROUP BY floor(t, 1h) ORDER BY c DESC",
        "SELECT k, t, count(*) FROM h WHERE k IN (3, 1, 2) GROUP BY k, c, floor(t, 1h)",
    ] {
        db.page_rows = None;
        let whole = db.ok(text);
        for page_rows in [1, 2, 3, 100] {
            db.page_rows = Some(page_rows);
            assert_eq!(db.ok(text), whole, "{text} in pages of {page_rows}");
            let pages = db.pages.get();
            let groups = whole.lines().count() as u32;
            let most = groups.div_ceil(page_rows).max(1);
            assert!(pages == most || pages == most + 1, "{text}: {pages} pages of {page_rows}");
        }
    }
}

#[test]
fn functions_group_by_their_first_argument_alone() {
    let mut db = Database::with("k int, c timestamp, PRIMARY KEY (k, c)");
    for text in [
        "SELECT c FROM t WHERE k = 1 GROUP BY k, floor(current_timestamp(), 2h, c)",
        "SELECT c FROM t GROUP BY k, floor(c, 2h, c)",
    ] {
        let refused = db.err(text);
        let words = "Only monotonic functions are supported in the GROUP BY clause. Got: ";
        assert!(refused.contains(words), "{text}: {refused}");
    }
    db.ok("SELECT c FROM t GROUP BY k, floor(c, 2h, '2020-01-01')");
}

/// Cassandra takes the second in the place of the first.
#[test]
fn groups_are_by_one_function_at_most() {
    let mut db = Database::with("k int, a int, c timestamp, d timestamp, PRIMARY KEY (k, a, c, d)");
    for text in [
        "SELECT k FROM t GROUP BY k, a, floor(c, 1h), floor(d, 1h)",
        "SELECT k FROM t GROUP BY k, abs(a), floor(c, 1h)",
    ] {
        let refused = db.err(text);
        let words = "Functions are only supported on the last element of the GROUP BY clause";
        assert!(refused.contains(words), "{text}: {refused}");
    }
}

/// Before: a column was not skipped if its one value is a filter, and not of the key that is sought.
#[test]
fn a_column_with_one_value_is_skipped_though_it_is_a_filter() {
    let mut db = Database::with("p int, a int, b int, c int, PRIMARY KEY (p, a, b, c)");
    db.ok("CREATE TABLE kk (p int, q int, c int, PRIMARY KEY ((p, q), c))");
    for (a, b, c) in [(1, 1, 1), (1, 2, 1), (1, 2, 2), (2, 2, 1), (2, 3, 3)] {
        db.ok(&format!("INSERT INTO t (p, a, b, c) VALUES (1, {a}, {b}, {c})"));
        db.ok(&format!("INSERT INTO kk (p, q, c) VALUES ({a}, {b}, {c})"));
    }
    for (text, rows) in [
        ("p, q, count(*) FROM kk WHERE p = 1 AND c = 1 GROUP BY q", "1, 2, 1 | 1, 1, 1"),
        (
            "a, c, count(*) FROM t WHERE p = 1 AND b = 2 GROUP BY a, c",
            "1, 1, 1 | 1, 2, 1 | 2, 1, 1",
        ),
        ("a, c FROM t WHERE p = 1 AND (b) = (2) GROUP BY p, a, c", "1, 1 | 1, 2 | 2, 1"),
        ("a, c FROM t WHERE p = 1 AND b IN (2) ORDER BY a, c", "1, 1 | 1, 2 | 2, 1"),
        ("a, c FROM t WHERE p = 1 AND b = 2 ORDER BY a DESC, c DESC", "2, 1 | 1, 2 | 1, 1"),
    ] {
        let found = db.ok(&format!("SELECT {text} ALLOW FILTERING")).replace('\n', " | ");
        assert_eq!(found, rows, "{text}");
    }
    for text in ["p = 1 AND b IN (1, 2) GROUP BY a, c", "p = 1 AND b > 1 ORDER BY a, c"] {
        let refused = db.err(&format!("SELECT a FROM t WHERE {text} ALLOW FILTERING"));
        assert!(refused.contains("following their declared order"), "{text}: {refused}");
    }
}
