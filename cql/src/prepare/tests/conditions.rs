//! Conditional writes: how many conditions and values there may be, and which tables.

use model::MutationRef;
use model::limits::CONDITIONS_MAX;

use super::*;
use crate::limits::IN_LIST_MAX;

#[test]
fn conditions_of_one_statement_are_counted_when_it_is_parsed() {
    let db = Database::with("k int PRIMARY KEY, v int");
    let prepared = |count: usize| {
        let conditions = vec!["v = 1"; count].join(" AND ");
        let text = format!("UPDATE t SET v = 2 WHERE k = 1 IF {conditions}");
        prepare(&text, &db.schema, Some("ks")).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(prepared(CONDITIONS_MAX), Ok(()));
    let refused = prepared(CONDITIONS_MAX + 1).expect_err("one too many");
    assert!(refused.contains("more than 1024 conditions in an IF"), "{refused}");
}

#[test]
fn conditions_of_a_batch_are_counted_while_it_is_bound() {
    let db = Database::with("k int PRIMARY KEY, v int");
    let bound_batch = |count: usize| {
        let updates = "UPDATE t SET v = 2 WHERE k = 1 IF v = 1;".repeat(count);
        bind_conditional(&db, &format!("BEGIN BATCH {updates} APPLY BATCH"), &ValueList::new())
    };
    assert_eq!(bound_batch(CONDITIONS_MAX), Ok(()));
    let refused = bound_batch(CONDITIONS_MAX + 1).expect_err("one too many");
    assert!(refused.contains("more than 1024 conditions"), "{refused}");
}

#[test]
fn the_values_of_in_of_a_condition_are_counted_listed_or_not() {
    let db = Database::with("k int PRIMARY KEY, v int");
    let listed = |count: usize| {
        let items = [&int(4)[..], &int(7)].concat().repeat(count);
        let list = [&int(count as i32)[..], &items].concat();
        let text = "UPDATE t SET v = 2 WHERE k = 1 IF v IN ?";
        bind_conditional(&db, text, &bound(&[Value::Bytes(&list)]))
    };
    let named = |count: usize| {
        let values = vec!["7"; count].join(", ");
        let text = format!("UPDATE t SET v = 2 WHERE k = 1 IF v IN ({values})");
        bind_conditional(&db, &text, &ValueList::new())
    };
    for bind in [&listed as &dyn Fn(usize) -> std::result::Result<(), String>, &named] {
        assert_eq!(bind(IN_LIST_MAX), Ok(()));
        let refused = bind(IN_LIST_MAX + 1).expect_err("one too many");
        assert!(
            refused.contains("cartesian product size 10001 is greater than maximum 10000"),
            "{refused}"
        );
    }
}

/// Before: a column of the second table was looked for in the first.
#[test]
fn a_conditional_batch_over_two_tables_is_told_so() {
    let mut db = Database::with("k int PRIMARY KEY, v int");
    db.ok("CREATE TABLE u (k int PRIMARY KEY, x int)");
    let error = db.err("BEGIN BATCH UPDATE t SET v = 2 WHERE k = 1 IF v = 1; UPDATE u SET x = 2 WHERE k = 1 IF x = 1; APPLY BATCH");
    assert_eq!(error, "Batch with conditions cannot span multiple tables");
}

/// Before: the key and the row were evaluated for the conditions, and once more for what is written: what a call named
/// that gives another value each time was written without being looked at.
#[test]
fn what_is_written_is_what_the_conditions_look_at() {
    let db =
        Database::with("k uuid, c timeuuid, s int STATIC, v int, l list<int>, PRIMARY KEY (k, c)");
    for (text, changes) in [
        ("INSERT INTO t (k, c, v) VALUES (uuid(), now(), 1) IF NOT EXISTS", 1),
        ("UPDATE t SET v = 1 WHERE k = uuid() AND c = now() IF EXISTS", 1),
        ("UPDATE t SET v = 1 WHERE k = uuid() AND (c) = (now()) IF v = 2", 1),
        ("UPDATE t SET v = 1, l[0] = 2 WHERE k = uuid() AND c = now() IF v = 2", 2),
        ("DELETE FROM t WHERE k = uuid() AND c = now() IF EXISTS", 1),
        ("UPDATE t SET s = 1 WHERE k = uuid() IF s = 2", 0),
        ("BEGIN BATCH UPDATE t SET v = 1 WHERE k = uuid() AND c = now() IF EXISTS; APPLY BATCH", 1),
    ] {
        let mut record = Vec::new();
        db.bind_conditional(text, &ValueList::new(), &mut record).expect(text);
        let mutations: Vec<_> =
            MutationRef::of_trusted_record(&record).map(|mutation| mutation.expect(text)).collect();
        let [judged, written] = &mutations[..] else { panic!("{text}: {}", mutations.len()) };
        assert_eq!((judged.key, judged.token), (written.key, written.token), "{text}");
        let conditions = judged.conditions().expect(text);
        let looked_at: Vec<_> =
            conditions.iter().filter_map(|condition| condition.clustering).collect();
        let rows = written.rows().map(|(row, _)| row);
        let changed: Vec<_> =
            rows.chain(written.list_changes().filter_map(|change| change.clustering)).collect();
        assert_eq!((looked_at.len(), changed.len()), (usize::from(changes > 0), changes), "{text}");
        assert!(changed.iter().all(|row| *row == looked_at[0]), "{text}");
    }
}

/// Binds a statement or batch with conditions; its error as text.
fn bind_conditional(
    db: &Database,
    text: &str,
    values: &ValueList,
) -> std::result::Result<(), String> {
    let mut record = Vec::new();
    db.bind_conditional(text, values, &mut record).map_err(|error| error.to_string())
}
