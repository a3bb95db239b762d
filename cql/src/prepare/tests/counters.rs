//! What is refused of counters when a statement is prepared, and what an addition becomes.

use model::MutationRef;

use super::*;

fn table_of_counters() -> Database {
    Database::with("k int, c int, s counter static, a counter, b counter, PRIMARY KEY (k, c)")
}

#[test]
fn what_would_set_expire_or_time_a_counter_is_refused() {
    let mut db = table_of_counters();
    for (text, error) in [
        (
            "INSERT INTO t (k, c, a) VALUES (1, 1, 1)",
            "INSERT statements are not allowed on counter tables, use UPDATE instead",
        ),
        (
            "UPDATE t SET a = 5 WHERE k = 1 AND c = 1",
            "Cannot set the value of counter column a (counters can only be incremented/decremented, not set)",
        ),
        (
            "UPDATE t SET a += null WHERE k = 1 AND c = 1",
            "Invalid null value for counter increment/decrement",
        ),
        (
            "UPDATE t SET a -= -9223372036854775808 WHERE k = 1 AND c = 1",
            "The negation of -9223372036854775808 overflows supported counter precision (signed 8 bytes integer)",
        ),
        (
            "UPDATE t USING TTL 0 SET a += 1 WHERE k = 1 AND c = 1",
            "Cannot provide custom TTL for counter updates",
        ),
        (
            "DELETE FROM t USING TIMESTAMP 5 WHERE k = 1",
            "Cannot provide custom timestamp for counter updates",
        ),
        (
            "UPDATE t SET a += 1 WHERE k = 1 AND c = 1 IF EXISTS",
            "Conditional updates are not supported on counter tables",
        ),
        (
            "UPDATE t SET a += 1 WHERE k = 1 AND c = 1 IF a = 1",
            "Conditions on counters are not supported",
        ),
        (
            "BEGIN UNLOGGED BATCH USING TIMESTAMP 5 UPDATE t SET a += 1 WHERE k = 1 AND c = 1; APPLY BATCH",
            "Cannot provide custom timestamp for a BATCH containing counters",
        ),
    ] {
        assert_eq!(db.err(text), error, "{text}");
    }
}

#[test]
fn additions_stand_behind_the_rows_and_what_is_unset_adds_nothing() {
    let db = table_of_counters();
    let text = "UPDATE t SET s += ?, a += ?, b -= ?, a -= 1 WHERE k = 7 AND c = 8";
    let by = 5_i64.to_be_bytes();
    let values = bound(&[Value::Unset, Value::Bytes(&by), Value::Bytes(&by)]);
    let mut record = Vec::new();
    db.bind(text, &values, &mut record).unwrap();
    let mutation = MutationRef::of_trusted_record(&record).next().unwrap().unwrap();
    let added: Vec<i64> = mutation.counter_changes().map(|change| change.by).collect();
    assert_eq!((added, mutation.row_count), (vec![5, -1, -5], 0));
    let mut none = Vec::new();
    let text = "UPDATE t SET a += ? WHERE k = 7 AND c = 8";
    db.bind(text, &bound(&[Value::Unset]), &mut none).unwrap();
    assert_eq!(none, [0; 0]);
    let null = db.bind(text, &bound(&[Value::Null]), &mut none).unwrap_err();
    assert_eq!(null.to_string(), "Invalid null value for counter increment");
}

/// Before: a static counter counted where no row was named, and once where several were. Cassandra counts for each row.
#[test]
fn a_static_counter_counts_once_for_each_row() {
    let db = table_of_counters();
    let added = |rows: &str| {
        let text = format!("UPDATE t SET s -= 2, a += 1 WHERE k = 7 AND c IN ({rows})");
        let mut record = Vec::new();
        db.bind(&text, &bound(&[]), &mut record).unwrap();
        let mutation = MutationRef::of_trusted_record(&record).next().unwrap().unwrap();
        mutation.counter_changes().map(|change| change.by).collect::<Vec<i64>>()
    };
    assert_eq!(added(""), [0; 0]);
    assert_eq!(added("1"), [-2, 1]);
    assert_eq!(added("1, 2, 2, 3"), [-6, 1, 1, 1]);
}
