//! What indexes serve without ALLOW FILTERING, what they are asked for, and what is refused because of them.

use model::read::Slice;

use super::*;

const FILTERING: &str = crate::restrict::NEEDS_FILTERING;

/// A table with rows, and an index of each column of `indexed` with this behind its CREATE.
fn database(indexed: &[&str], class: &str) -> Database {
    let mut db = Database::with(
        "p int, q int, c int, d text, s int static, v int, w text, x int, l list<int>,
         m map<text, int>, PRIMARY KEY ((p, q), c, d)",
    );
    for target in indexed {
        db.ok(&format!("CREATE INDEX ON t ({target}) {class}"));
    }
    for (at, d) in [(1, "a"), (2, "b"), (3, "c")] {
        db.ok(&format!(
            "INSERT INTO t (p, q, c, d, s, v, w, x, l, m) VALUES
             (1, {at}, {at}, '{d}', {at}, {at}, '{d}', 5, [{at}, 7], {{'k': {at}}})"
        ));
    }
    db
}

fn all_served(indexed: &[&str], class: &str, cases: &[(&str, &str)]) {
    let mut db = database(indexed, class);
    for (condition, rows) in cases {
        let found = db.run(&format!("SELECT c FROM t WHERE {condition}"), &bound(&[]));
        let found = match found {
            Ok(_) => db.ok(&format!("SELECT c FROM t WHERE {condition}")).replace('\n', " "),
            Err(error) => error.to_string(),
        };
        let expected = if *rows == "filter" { FILTERING } else { rows };
        assert_eq!(found, expected, "{class} {condition}");
    }
}

#[test]
fn a_plain_index_serves_equality_alone() {
    all_served(
        &["v", "x", "c", "q", "s", "l", "keys(m)"],
        "",
        &[
            ("v = 2", "2"),
            ("v IN (2)", "2"),
            ("v IN (2, 3)", "filter"),
            ("v > 1", "filter"),
            ("v = 2 AND x = 5", "filter"),
            ("v = 2 AND w = 'b'", "filter"),
            ("v = 2 AND p = 1 AND q = 2", "2"),
            ("v = 2 AND p = 1 AND q = 2 AND c = 2", "2"),
            ("v = 2 AND p = 1", "filter"),
            ("v = 2 AND c = 2", "filter"),
            ("v = 2 AND token(p, q) > -9223372036854775808", "2"),
            ("c = 3", "3"),
            ("c > 1", "filter"),
            ("(c, d) = (2, 'b')", "filter"),
            ("q = 2", "2"),
            ("s = 2", "2"),
            ("l CONTAINS 2", "2"),
            ("l CONTAINS 2 AND l CONTAINS 7", "filter"),
            ("m CONTAINS KEY 'k' AND p = 1 AND q = 1", "1"),
            ("m CONTAINS 1", "filter"),
            ("m['k'] = 1", "filter"),
            ("v = 2 AND (c, d) > (1, 'a')", "filter"),
            ("w = 'a'", "filter"),
        ],
    );
}

#[test]
fn storage_attached_indexes_serve_ranges_and_several_at_once() {
    all_served(
        &["v", "x", "c", "q", "s", "l", "entries(m)", "w"],
        "USING 'sai'",
        &[
            ("v > 1 AND v < 3", "2"),
            ("v = 2 AND x = 5", "2"),
            ("v = 2 AND c = 2 AND q = 2 AND s = 2", "2"),
            ("w > 'a'", "filter"),
            ("w = 'b' AND v > 0", "2"),
            ("v IN (1, 2)", "filter"),
            ("c > 2", "3"),
            ("q > 2", "3"),
            ("l CONTAINS 2 AND l CONTAINS 7", "2"),
            ("m['k'] = 2", "2"),
            ("m CONTAINS KEY 'k'", "filter"),
            ("v = 2 AND p = 1", "filter"),
        ],
    );
}

/// Before: it was refused as a filter, which it is only of columns with an index.
#[test]
fn a_slice_of_several_columns_goes_with_an_index_of_another() {
    let mut db = database(&["v"], "");
    for condition in ["p = 1 AND q = 2 AND", ""] {
        let text = format!("SELECT c FROM t WHERE {condition} (c, d) > (1, 'a') AND v = 2");
        assert_eq!(db.ok(&format!("{text} ALLOW FILTERING")), "2");
    }
    db.ok("CREATE INDEX ON t (c) USING 'sai'");
    assert_eq!(
        db.err("SELECT c FROM t WHERE (c) > (1)"),
        "Multi-column slice restrictions cannot be used for filtering."
    );
}

#[test]
fn indexes_of_two_kinds_do_not_answer_together() {
    let mut db = database(&["v"], "USING 'sai'");
    db.ok("CREATE INDEX ON t (x)");
    assert_eq!(db.err("SELECT c FROM t WHERE v = 2 AND x = 5"), FILTERING);
    assert_eq!(db.ok("SELECT c FROM t WHERE v = 2 AND x = 5 ALLOW FILTERING"), "2");
}

#[test]
fn a_select_by_an_index_has_neither_order_by_nor_in_of_partitions() {
    let mut db = database(&["v", "c"], "USING 'sai'");
    for (text, error) in [
        (
            "v = 2 AND p = 1 AND q = 2 ORDER BY c DESC",
            "ORDER BY with 2ndary indexes is not supported, except for ANN queries.",
        ),
        (
            "v = 2 AND p = 1 AND q IN (1, 2)",
            "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported",
        ),
        (
            "v = 2 AND p = 1 AND q IN (1, 2) ALLOW FILTERING",
            "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported",
        ),
        (
            "d > 'a'",
            "PRIMARY KEY column \"d\" cannot be restricted as preceding column \"c\" is not restricted",
        ),
    ] {
        assert_eq!(db.err(&format!("SELECT c FROM t WHERE {text}")), error);
    }
    assert_eq!(db.ok("SELECT c FROM t WHERE c > 0 AND p = 1 AND q = 2 ORDER BY c DESC"), "2");
}

#[test]
fn texts_compare_in_the_form_of_their_index() {
    let mut db = database(&[], "");
    db.ok("CREATE INDEX ON t (w) USING 'sai'
           WITH OPTIONS = {'case_sensitive': 'false', 'normalize': 'true', 'ascii': 'true'}");
    db.ok("INSERT INTO t (p, q, c, d, w) VALUES (9, 9, 9, 'z', 'W\u{c9}')");
    let mut find = |text: &str| db.ok(&format!("SELECT c FROM t WHERE w = '{text}'"));
    assert_eq!(
        (find("we"), find("We\u{301}"), find("B"), find("x")),
        ("9".into(), "9".into(), "2".into(), String::new())
    );
    assert_eq!(
        db.ok("SELECT c FROM t WHERE w IN ('B', 'c') ALLOW FILTERING"),
        "3",
        "an IN is exact"
    );
}

/// The lookups of a SELECT: the index, and how many ranges of its terms.
fn lookups(db: &Database, text: &str) -> Vec<(String, usize)> {
    let bound = db.bound_read(text);
    let table = db.schema.table("ks", "t").expect("it is there");
    let named = |lookup: &model::IndexLookup| {
        assert!(lookup.terms.iter().all(|Slice { start, end }| start < end));
        (table.index_by_id(lookup.index).expect("it is there").name.clone(), lookup.terms.len())
    };
    bound.command.expect("it reads").lookups.iter().map(named).collect()
}

/// Before: the terms of an IN were not counted in the bytes that statements which wait may name.
#[test]
fn terms_of_indexes_are_bytes_that_a_statement_names() {
    let db = database(&["v"], "");
    let values: Vec<String> = (0..100).map(|value| value.to_string()).collect();
    let bound = db
        .bound_read(&format!("SELECT p FROM t WHERE v IN ({}) ALLOW FILTERING", values.join(", ")));
    let command = bound.command.as_ref().expect("it reads");
    let terms = command.lookups[0].terms.len();
    assert_eq!((terms, command.filters[0].values.len()), (100, 100));
    let values_bytes = 100 * (size_of::<Box<[u8]>>() + 4);
    let named = command.key_bytes() + command.slice_bytes() + values_bytes;
    assert!(bound.named_bytes() >= named + terms * size_of::<Slice>(), "{}", bound.named_bytes());
}

/// Before: it was brought into the form of the index for each row.
#[test]
fn the_value_of_a_filter_has_the_form_of_the_index() {
    let db = database(&["w"], "USING 'sai' WITH OPTIONS = {'case_sensitive': false}");
    let bound = db.bound_read("SELECT p FROM t WHERE w = 'B' ALLOW FILTERING");
    let command = bound.command.as_ref().expect("it reads");
    assert_eq!(command.filters[0].values, [Box::from(*b"b")] as [Box<[u8]>; 1]);
}

#[test]
fn whatever_an_index_can_tell_is_asked_for() {
    let db = database(&["v", "x", "c", "l"], "");
    let one = |name: &str| (name.to_owned(), 1);
    for (condition, expected) in [
        ("v = 2", vec![one("t_v_idx")]),
        ("v > 2 AND x = 5 ALLOW FILTERING", vec![one("t_v_idx"), one("t_x_idx")]),
        ("v IN (1, 3) ALLOW FILTERING", vec![("t_v_idx".to_owned(), 2)]),
        // Before: two lookups, of which each was of about half of the table.
        ("v >= 2 AND v < 4 ALLOW FILTERING", vec![one("t_v_idx")]),
        ("v > 4 AND v < 2 ALLOW FILTERING", vec![("t_v_idx".to_owned(), 0)]),
        ("l CONTAINS 2 AND l CONTAINS 3 ALLOW FILTERING", vec![one("t_l_idx"), one("t_l_idx")]),
        ("c = 2 ALLOW FILTERING", vec![one("t_c_idx")]),
        ("l CONTAINS 2", vec![one("t_l_idx")]),
        // Found by its key.
        ("p = 1 AND q = 1 AND c = 2", vec![]),
        ("p = 1 AND q = 1 AND c = 2 AND v = 1", vec![one("t_v_idx")]),
        ("w = 'a' ALLOW FILTERING", vec![]),
    ] {
        assert_eq!(
            lookups(&db, &format!("SELECT c FROM t WHERE {condition}")),
            expected,
            "{condition}"
        );
    }
}

#[test]
fn like_is_served_by_the_modes_of_sasi() {
    let mut db = Database::with("k int PRIMARY KEY, a text, b text, c text, i int");
    let class = "USING 'org.apache.cassandra.index.sasi.SASIIndex'";
    db.ok(&format!("CREATE CUSTOM INDEX ON t (a) {class}"));
    assert_eq!(db.warnings.len(), 1, "{:?}", db.warnings);
    db.ok(&format!(
        "CREATE CUSTOM INDEX ON t (b) {class} WITH OPTIONS = {{'mode': 'CONTAINS',
           'analyzer_class': 'org.apache.cassandra.index.sasi.analyzer.NonTokenizingAnalyzer',
           'case_sensitive': 'false'}}"
    ));
    db.ok(&format!("CREATE CUSTOM INDEX ON t (i) {class}"));
    for (k, a, b) in [(1, "alpha", "Alpha"), (2, "alps", "BETA"), (3, "Alpha", "x")] {
        db.ok(&format!("INSERT INTO t (k, a, b, c, i) VALUES ({k}, '{a}', '{b}', 'c', {k})"));
    }
    for (condition, expected) in [
        ("a LIKE 'al%'", "1 2"),
        ("a LIKE 'alpha'", "1"),
        ("a = 'Alpha'", "3"),
        ("b LIKE '%ET%'", "2"),
        ("b LIKE '%PHA'", "1"),
        ("b = 'beta'", "2"),
        ("i > 1", "2 3"),
        ("i > 1 AND a LIKE 'al%' ALLOW FILTERING", "2"),
    ] {
        let found = db.ok(&format!("SELECT k FROM t WHERE {condition}"));
        let mut found: Vec<&str> = found.lines().collect();
        found.sort_unstable();
        assert_eq!(found.join(" "), expected, "{condition}");
    }
    for (condition, error) in [
        ("a LIKE '%ps'", "a LIKE '%<term>' ps is only supported on properly indexed columns"),
        ("a LIKE '%'", "LIKE value can't be empty."),
        ("a LIKE ''", "LIKE value can't be empty."),
        ("a > 'a'", FILTERING),
        ("i > 1 AND a LIKE 'al%'", FILTERING),
        (
            "c LIKE 'al%' ALLOW FILTERING",
            "LIKE restriction is only supported on properly indexed columns. c LIKE 'al%' is not valid.",
        ),
        (
            "a LIKE 'a%' AND a = 'b'",
            "a cannot be restricted by more than one relation if it includes a LIKE",
        ),
    ] {
        assert_eq!(db.err(&format!("SELECT k FROM t WHERE {condition}")), error);
    }
    assert_eq!(lookups(&db, "SELECT k FROM t WHERE a LIKE 'al%'"), [("t_a_idx".to_owned(), 1)]);
    assert_eq!(lookups(&db, "SELECT k FROM t WHERE b LIKE '%al%'"), []);
}

/// Before: the plain index was looked up for the exact text, and rows with other capitals were left out.
#[test]
fn an_index_of_exact_texts_is_not_asked_for_folded_ones() {
    let mut db = Database::with("k int PRIMARY KEY, w text");
    db.ok("CREATE INDEX plain ON t (w)");
    db.ok("CREATE INDEX folded ON t (w) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false'}");
    assert_eq!(lookups(&db, "SELECT k FROM t WHERE w = 'abc'"), [("folded".to_owned(), 1)]);
}

/// Before: a page of groups that was full and the last said so, as none in Cassandra does that an index finds.
#[test]
fn a_full_page_of_groups_that_an_index_finds_says_that_more_may_follow() {
    let mut db = Database::with("k int, c int, d int, PRIMARY KEY (k, c, d)");
    for k in 0..4 {
        db.ok(&format!("INSERT INTO t (k, c, d) VALUES ({k}, 1, {k})"));
    }
    let grouped = "SELECT k FROM t WHERE c = 1 GROUP BY k";
    for (text, has_index) in [(format!("{grouped} ALLOW FILTERING"), false), (grouped.into(), true)]
    {
        if has_index {
            db.ok("CREATE INDEX ON t (c)");
        }
        db.page_rows = None;
        let whole = db.ok(&text);
        assert_eq!(whole.lines().count(), 4);
        for (page_rows, pages) in [(1, 4), (2, 2), (3, 2), (4, 1), (5, 1)] {
            db.page_rows = Some(page_rows);
            assert_eq!(db.ok(&text), whole);
            let one_more = has_index && 4 % page_rows == 0;
            assert_eq!(db.pages.get(), pages + u32::from(one_more), "{text}: {page_rows}");
        }
        // A page that reaches the limit is the last.
        db.page_rows = Some(2);
        let limited = text.replace("GROUP BY k", "GROUP BY k LIMIT 2");
        assert_eq!(db.ok(&limited).lines().count(), 2);
        assert_eq!(db.pages.get(), 1, "{limited}");
    }
}
