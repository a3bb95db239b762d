//! Batches: their timestamp, their bounds, their warnings.

use super::*;
use crate::steps::steps_of;

#[test]
fn batches_share_a_timestamp() {
    let mut db = Database::with("k int PRIMARY KEY, v int");
    db.ok("BEGIN BATCH APPLY BATCH");
    db.ok("BEGIN BATCH USING TIMESTAMP 9 INSERT INTO t (k, v) VALUES (1, 1); INSERT INTO t (k, v) VALUES (2, 2); APPLY BATCH");
    assert_eq!(db.ok("SELECT k, writetime(v) FROM t WHERE k IN (1, 2)"), "1, 9\n2, 9");
    let error = db.err(
        "BEGIN BATCH USING TIMESTAMP 5 INSERT INTO t (k) VALUES (2) USING TIMESTAMP 5; APPLY BATCH",
    );
    assert_eq!(error, "Timestamp must be set either on BATCH or individual statements");
}

#[test]
fn a_batch_over_partitions_is_bounded_and_one_of_a_partition_is_not() {
    let mut db = Database::with("k int, c int, v blob, PRIMARY KEY (k, c)");
    let mut run = |key: &str, bytes: usize| {
        let value = vec![7; bytes / 4];
        let insert = |c: i32| {
            format!(
                "INSERT INTO t (k, c, v) VALUES ({}, {c}, ?);",
                key.replace('c', &c.to_string())
            )
        };
        let text = format!("BEGIN BATCH {} APPLY BATCH", (0..4).map(insert).collect::<String>());
        let result = db.run(&text, &bound(&[Value::Bytes(&value); 4]));
        (result.map_err(|error| error.to_string()), db.warnings.clone())
    };
    assert_eq!(run("c", BATCH_WARN_BYTES / 2), (Ok(String::new()), Vec::new()));
    assert_eq!(run("7", 2 * BATCH_BYTES_MAX), (Ok(String::new()), Vec::new()));
    let (result, warnings) = run("c", BATCH_WARN_BYTES);
    assert!(result.is_ok() && warnings.len() == 1, "{warnings:?}");
    let words = ["Batch for [ks.t] is of size 5", ", exceeding specified threshold of 5120 by "];
    assert!(words.iter().all(|words| warnings[0].contains(words)), "{warnings:?}");
    assert_eq!(run("c", BATCH_BYTES_MAX).0, Err("Batch too large".into()));
}

#[test]
fn an_unlogged_batch_over_many_partitions_is_warned_of() {
    let mut db = Database::with("k int PRIMARY KEY, v int");
    db.ok("CREATE TABLE u (k int PRIMARY KEY, v int)");
    let mut warnings = |kind: &str, keys: i32| {
        let insert =
            |k| format!("INSERT INTO {} (k, v) VALUES ({k}, 1);", ["t", "u"][k as usize % 2]);
        let inserts: String = (0..keys).map(insert).collect();
        db.ok(&format!("BEGIN {kind} BATCH {inserts} APPLY BATCH"));
        db.warnings.clone()
    };
    assert_eq!(warnings("UNLOGGED", 10), [""; 0]);
    assert_eq!(warnings("", 12), [""; 0]);
    let words = "Unlogged batch covering 11 partitions detected against tables [ks.t, ks.u]. You should use a logged batch for atomicity, or asynchronous writes for performance.";
    assert_eq!(warnings("UNLOGGED", 11), [words]);
}

/// Before: each statement made places for the markers of all, and dropped them: 24,000 updates took 10 s.
#[test]
fn a_batch_of_many_statements_with_markers_is_prepared_in_time_in_proportion_to_its_length() {
    let db = Database::with("k int PRIMARY KEY, v int");
    let updates = "UPDATE t SET v=? WHERE k=1;".repeat(15_000);
    let text = format!("BEGIN BATCH {updates} APPLY BATCH");
    let (steps, prepared) = steps_of(|| prepare(&text, &db.schema, Some("ks")));
    assert_eq!(prepared.expect("a batch").markers.len(), 15_000);
    assert!((15_000..15_000 * 4).contains(&steps), "{steps} places for markers");
}
