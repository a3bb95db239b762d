//! ORDER BY .. ANN OF: what is nearest, what is refused, and what an index of vectors cannot hold.

use crate::testing::Database;

fn database(options: &str) -> Database {
    let mut db = Database::with("k int PRIMARY KEY, v vector<float, 2>, a int, b int");
    db.ok(&format!("CREATE INDEX ON t (v) USING 'sai'{options}"));
    db.ok("CREATE INDEX ON t (a) USING 'sai'");
    for (k, v) in ["[1, 0]", "[0, 1]", "[2, 2]", "[-1, 0.5]", "[10, 1]"].iter().enumerate() {
        db.ok(&format!("INSERT INTO t (k, v, a) VALUES ({k}, {v}, {})", k % 2));
    }
    db.ok("INSERT INTO t (k, a) VALUES (9, 1)");
    db
}

fn keys(db: &mut Database, text: &str) -> String {
    db.ok(text).lines().collect::<Vec<_>>().join(" ")
}

#[test]
fn rows_come_in_the_order_of_what_is_near() {
    for (options, wanted) in [
        ("", "0 4 2 1 3"),
        (" WITH OPTIONS = {'similarity_function': 'euclidean'}", "0 1 3 2 4"),
        (" WITH OPTIONS = {'similarity_function': 'dot_product'}", "4 2 0 1 3"),
    ] {
        let mut db = database(options);
        let all = keys(&mut db, "SELECT k FROM t ORDER BY v ANN OF [1, 0.01] LIMIT 10");
        assert_eq!(all, wanted, "{options}");
        let some = keys(&mut db, "SELECT k FROM t ORDER BY v ANN OF [1, 0.01] LIMIT 3");
        assert_eq!(some, wanted[..5], "{options}");
    }
    let mut db = database("");
    let odd = "SELECT k FROM t WHERE a = 1 ORDER BY v ANN OF [1, 0.01] LIMIT 1";
    assert_eq!(keys(&mut db, odd), "1", "what is nearer has another value");
}

#[test]
fn what_is_overwritten_or_deleted_takes_nobodys_place() {
    let mut db = database("");
    db.ok("UPDATE t SET v = [-1, 0] WHERE k = 0");
    db.ok("DELETE FROM t WHERE k = 4");
    db.ok("DELETE v FROM t WHERE k = 2");
    assert_eq!(keys(&mut db, "SELECT k FROM t ORDER BY v ANN OF [1, 0] LIMIT 2"), "1 3");
}

#[test]
fn a_result_is_one_page_with_a_limit() {
    let mut db = database("");
    db.page_rows = Some(2);
    assert_eq!(keys(&mut db, "SELECT k FROM t ORDER BY v ANN OF [1, 0] LIMIT 3"), "0 4 2");
    for (end, error) in [
        ("", "Top-K queries must have a limit specified"),
        (
            " LIMIT 1001",
            "Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than 1000",
        ),
        (" PER PARTITION LIMIT 1 LIMIT 3", "Top-K queries do not support per-partition limits"),
    ] {
        let found = db.err(&format!("SELECT k FROM t ORDER BY v ANN OF [1, 0]{end}"));
        assert!(found.starts_with(error), "{found}");
    }
}

#[test]
fn a_condition_without_an_index_is_refused_even_with_allow_filtering() {
    let mut db = database("");
    for end in ["", " ALLOW FILTERING"] {
        let text = format!("SELECT k FROM t WHERE b = 1 ORDER BY v ANN OF [1, 0] LIMIT 3{end}");
        let error = "ANN ordering by vector requires all restricted column(s) to be indexed";
        assert_eq!(db.err(&text), error);
    }
}

#[test]
fn a_vector_that_cannot_be_compared_is_neither_written_nor_asked_for() {
    let mut db = database("");
    let zero = "Zero vectors cannot be indexed or queried with cosine similarity";
    assert_eq!(db.err("INSERT INTO t (k, v) VALUES (7, [0, 0])"), zero);
    assert_eq!(db.err("BEGIN BATCH UPDATE t SET v = [0, 0] WHERE k = 1; APPLY BATCH"), zero);
    assert_eq!(db.err("SELECT k FROM t ORDER BY v ANN OF [0, 0] LIMIT 1"), zero);
    let infinite = "UPDATE t SET v = [1, Infinity] WHERE k = 1";
    assert_eq!(db.err(infinite), "non-finite value at vector[1]=Infinity");
    assert_eq!(
        db.err("SELECT k FROM t ORDER BY v ANN OF [NaN, 1] LIMIT 1"),
        "non-finite value at vector[0]=NaN"
    );
    db.ok("DROP INDEX t_v_idx");
    db.ok("INSERT INTO t (k, v) VALUES (7, [0, 0])");
    db.ok("CREATE INDEX ON t (v) USING 'sai'");
    let all = keys(&mut db, "SELECT k FROM t ORDER BY v ANN OF [1, 0] LIMIT 10");
    assert_eq!(all, "0 4 2 1 3", "it was there before the index, and is near nothing");
    db.ok("DELETE FROM t WHERE k = 7");
}
