//! Guardrails of reads and writes, each with the words that Cassandra 5.0.9 answered with the same settings.

use cql::guardrails::{GUARDRAILS, Guardrail, Values};

use super::*;
use crate::guardrails::{change, names_of_guardrail};

/// Settings, a statement with its level and page, and what it is answered with: warnings, or an error.
type Case = (&'static [(&'static str, &'static str)], &'static str, Consistency, u32, &'static str);

const ONE: Consistency = Consistency::One;
const QUORUM: Consistency = Consistency::Quorum;
const ALL: Consistency = Consistency::All;

#[rustfmt::skip]
const CASES: [Case; 44] = [
    (&[("page_size_warn_threshold", "3")], "SELECT * FROM ks.t", ONE, 4,
        "Guardrail page_size violated: Query for table t with page size 4 exceeds warning threshold of 3."),
    (&[("page_size_warn_threshold", "3")], "SELECT * FROM ks.t", ONE, 3, ""),
    (&[("page_size_fail_threshold", "6")], "SELECT * FROM ks.t WHERE k = 1", ONE, 7,
        "error: Guardrail page_size violated: Aborting query for table t, page size 7 exceeds fail threshold of 6."),
    (&[("page_size_fail_threshold", "6")], "SELECT * FROM ks.t LIMIT 2", ONE, 7, ""),
    (&[("page_size_fail_threshold", "6")], "SELECT count(*) FROM ks.t", ONE, 7,
        "error: Guardrail page_size violated: Aborting query for table t, page size 7 exceeds fail threshold of 6."),
    (&[("page_size_fail_threshold", "6")], "SELECT * FROM system.local", ONE, 7, ""),
    (&[("partition_keys_in_select_warn_threshold", "2")], "SELECT * FROM ks.w WHERE p IN (1, 2)", ONE, 100, ""),
    (&[("partition_keys_in_select_warn_threshold", "2")], "SELECT * FROM ks.w WHERE p IN (1, 2, 3)", ONE, 100,
        "Guardrail partition_keys_in_select violated: Query with partition keys in IN clause on table w, with number of partition keys 3 exceeds warning threshold of 2."),
    (&[("partition_keys_in_select_fail_threshold", "4"), ("in_select_cartesian_product_warn_threshold", "6")], "SELECT * FROM ks.w WHERE p IN (1, 2, 3, 4, 5)", ONE, 100,
        "error: Guardrail partition_keys_in_select violated: Aborting query with partition keys in IN clause on table w, number of partition keys 5 exceeds fail threshold of 4."),
    (&[("in_select_cartesian_product_warn_threshold", "3"), ("partition_keys_in_select_warn_threshold", "2")], "SELECT * FROM ks.w WHERE p IN (1, 1, 2, 2, 2)", ONE, 100,
        "Guardrail in_select_cartesian_product violated: The cartesian product of the IN restrictions on partition key produces 5 values, this exceeds warning threshold of 3."),
    (&[("in_select_cartesian_product_warn_threshold", "3")], "SELECT * FROM ks.d WHERE p IN (1, 2) AND q IN (1, 2)", ONE, 100,
        "Guardrail in_select_cartesian_product violated: The cartesian product of the IN restrictions on partition key produces 4 values, this exceeds warning threshold of 3."),
    (&[("in_select_cartesian_product_fail_threshold", "6")], "SELECT * FROM ks.d WHERE p = 1 AND q = 1 AND c IN (1, 2, 3, 4) AND d IN (1, 2)", ONE, 100,
        "error: Guardrail in_select_cartesian_product violated: Aborting query because the cartesian product of the IN restrictions on clustering key produces 8 values, this exceeds fail threshold of 6."),
    (&[("in_select_cartesian_product_warn_threshold", "3")], "SELECT * FROM ks.d WHERE p = 1 AND q = 1 AND (c, d) IN ((1, 2), (3, 4), (5, 6), (7, 8))", ONE, 100,
        "Guardrail in_select_cartesian_product violated: The cartesian product of the IN restrictions on clustering key produces 4 values, this exceeds warning threshold of 3."),
    (&[("in_select_cartesian_product_warn_threshold", "3")], "SELECT * FROM ks.d WHERE p = 1 AND q = 1 AND c IN (1, 2, 3, 4)", ONE, 100, ""),
    (&[("read_consistency_levels_warned", "ONE,QUORUM")], "SELECT * FROM ks.t", QUORUM, 100,
        "Guardrail read_consistency_levels violated: Provided values [QUORUM] are not recommended for read consistency levels (warned values are: [ONE, QUORUM])"),
    (&[("read_consistency_levels_disallowed", "[ALL]")], "SELECT * FROM ks.t WHERE k = 1", ALL, 100,
        "error: Guardrail read_consistency_levels violated: Provided values [ALL] are not allowed for read consistency levels (disallowed values are: [ALL])"),
    (&[("read_consistency_levels_disallowed", "ALL")], "INSERT INTO ks.t (k, c) VALUES (1, 1)", ALL, 100, ""),
    (&[("allow_filtering_enabled", "false")], "SELECT * FROM ks.t WHERE v = 1 ALLOW FILTERING", ONE, 100,
        "error: Guardrail allow_filtering violated: Querying with ALLOW FILTERING is not allowed. ALLOW FILTERING can potentially visit all the data in the table and have unpredictable performance."),
    (&[("allow_filtering_enabled", "false")], "EXPLAIN SELECT * FROM ks.t WHERE v = 1 ALLOW FILTERING", ONE, 100,
        "error: Guardrail allow_filtering violated: Querying with ALLOW FILTERING is not allowed. ALLOW FILTERING can potentially visit all the data in the table and have unpredictable performance."),
    (&[("page_size_warn_threshold", "3")], "EXPLAIN SELECT * FROM ks.t", ONE, 4,
        "Guardrail page_size violated: Query for table t with page size 4 exceeds warning threshold of 3."),
    (&[("allow_filtering_enabled", "false")], "SELECT * FROM system_views.clients WHERE port = 1 ALLOW FILTERING", ONE, 100, ""),
    (&[("group_by_enabled", "false")], "SELECT k, count(*) FROM ks.t WHERE k = 1 GROUP BY k", ONE, 100,
        "error: Guardrail group_by violated: GROUP BY functionality is not allowed"),
    (&[("user_timestamps_enabled", "false")], "INSERT INTO ks.t (k, c) VALUES (1, 1) USING TIMESTAMP 5", ONE, 100,
        "error: Guardrail user_timestamps violated: User provided timestamps (USING TIMESTAMP) is not allowed"),
    (&[("user_timestamps_enabled", "false")], "BEGIN BATCH DELETE FROM ks.t USING TIMESTAMP 5 WHERE k = 1; APPLY BATCH", ONE, 100,
        "error: Guardrail user_timestamps violated: User provided timestamps (USING TIMESTAMP) is not allowed"),
    (&[("user_timestamps_enabled", "false")], "INSERT INTO ks.t (k, c) VALUES (1, 1) USING TTL 5", ONE, 100, ""),
    (&[("write_consistency_levels_warned", "QUORUM")], "INSERT INTO ks.t (k, c) VALUES (1, 1)", QUORUM, 100,
        "Guardrail write_consistency_levels violated: Provided values [QUORUM] are not recommended for write consistency levels (warned values are: [QUORUM])"),
    (&[("write_consistency_levels_disallowed", "ALL")], "BEGIN BATCH INSERT INTO ks.t (k, c) VALUES (1, 1); APPLY BATCH", ALL, 100,
        "error: Guardrail write_consistency_levels violated: Provided values [ALL] are not allowed for write consistency levels (disallowed values are: [ALL])"),
    (&[("read_before_write_list_operations_enabled", "false")], "UPDATE ks.w SET l[0] = 'a' WHERE p = 1", ONE, 100,
        "error: Guardrail read_before_write_list_operations violated: Setting of list items by index requiring read before write is not allowed"),
    (&[("read_before_write_list_operations_enabled", "false")], "DELETE l[0] FROM ks.w WHERE p = 1", ONE, 100,
        "error: Guardrail read_before_write_list_operations violated: Removal of list items by index requiring read before write is not allowed"),
    (&[("read_before_write_list_operations_enabled", "false")], "UPDATE ks.w SET l = l - ['a'] WHERE p = 1", ONE, 100,
        "error: Guardrail read_before_write_list_operations violated: Removal of list items requiring read before write is not allowed"),
    (&[("read_before_write_list_operations_enabled", "false")], "UPDATE ks.w SET l = l + ['a'] WHERE p = 1", ONE, 100, ""),
    (&[("maximum_timestamp_fail_threshold", "1d")], "INSERT INTO ks.t (k, c) VALUES (1, 1) USING TIMESTAMP 9000000000000000000", ONE, 100,
        "error: Guardrail maximum_timestamp violated: The modification to table t has a timestamp 9000000000000000000 after the maximum allowable failure threshold NOW. Timestamps too far in the future can lead to data that can't be easily overwritten"),
    (&[("minimum_timestamp_warn_threshold", "1h")], "DELETE FROM ks.t USING TIMESTAMP 5 WHERE k = 1", ONE, 100,
        "Guardrail minimum_timestamp violated: The modification to table t has a timestamp 5 before the minimum allowable warning threshold NOW. Timestamps too far in the past can cause writes can be unexpectedly lost"),
    (&[("minimum_timestamp_fail_threshold", "1h")], "BEGIN BATCH USING TIMESTAMP 5 INSERT INTO ks.t (k, c) VALUES (1, 1); APPLY BATCH", ONE, 100,
        "error: Guardrail minimum_timestamp violated: The modification to table t has a timestamp 5 before the minimum allowable failure threshold NOW. Timestamps too far in the past can cause writes can be unexpectedly lost"),
    (&[("column_value_size_warn_threshold", "10B")], "INSERT INTO ks.w (p, t) VALUES (1, '01234567890')", ONE, 100,
        "Guardrail column_value_size violated: Value of column 't' has size 11, this exceeds the warning threshold of 10."),
    (&[("column_value_size_fail_threshold", "10B")], "INSERT INTO ks.w (p, m) VALUES (1, {'01234567890': 'b'})", ONE, 100,
        "error: Guardrail column_value_size violated: Value of column 'm' has size 11, this exceeds the failure threshold of 10."),
    (&[("column_value_size_warn_threshold", "10B")], "DELETE s['01234567890'] FROM ks.w WHERE p = 1", ONE, 100,
        "Guardrail column_value_size violated: Value of column 's' has size 11, this exceeds the warning threshold of 10."),
    (&[("collection_size_warn_threshold", "90B"), ("items_per_collection_warn_threshold", "3")], "INSERT INTO ks.w (p, l) VALUES (1, ['a', 'b', 'c', 'd'])", ONE, 100,
        "Guardrail items_per_collection violated: Detected collection l with 4 items, this exceeds the warning threshold of 3.\nGuardrail collection_size violated: Detected collection l of size 148, this exceeds the warning threshold of 90."),
    (&[("collection_size_fail_threshold", "23B")], "UPDATE ks.w SET s = s + {'abcd'} WHERE p = 1", ONE, 100,
        "error: Guardrail collection_size violated: Detected collection s of size 24, this exceeds the failure threshold of 23."),
    (&[("collection_size_fail_threshold", "38B")], "INSERT INTO ks.w (p, fl) VALUES (1, ['a', 'b', 'cde'])", ONE, 100,
        "error: Guardrail collection_size violated: Detected collection fl of size 41, this exceeds the failure threshold of 38."),
    (&[("items_per_collection_fail_threshold", "1")], "INSERT INTO ks.w (p, m) VALUES (1, {'a': 'b', 'c': 'd'})", ONE, 100,
        "error: Guardrail items_per_collection violated: Detected collection m with 2 items, this exceeds the failure threshold of 1."),
    (&[("items_per_collection_fail_threshold", "1")], "BEGIN BATCH INSERT INTO ks.w (p, fl) VALUES (1, ['a', 'b']); APPLY BATCH", ONE, 100,
        "error: Guardrail items_per_collection violated: Detected collection fl with 2 items, this exceeds the failure threshold of 1."),
    (&[("items_per_collection_fail_threshold", "1")], "UPDATE ks.w SET l = null WHERE p = 1", ONE, 100, ""),
    (&[("drop_truncate_table_enabled", "false")], "TRUNCATE ks.t", ONE, 100,
        "error: Guardrail drop_truncate_table_enabled violated: DROP and TRUNCATE TABLE functionality is not allowed"),
];

/// What a request is told: its error, or its warnings.
pub(super) fn told(bench: &mut Bench, request: &Request<'_>) -> String {
    let frame = bench.ask(request);
    let header = Header::decode(&frame, Direction::Response).unwrap().unwrap();
    let answer = Answer::decode(&header, &frame[HEADER_BYTES..]).unwrap();
    let warnings = answer.warnings.iter().flat_map(|list| list.iter()).map(str::to_owned);
    let warnings: Vec<String> = warnings.filter(|text| text.starts_with("Guardrail")).collect();
    match &answer.reply {
        Reply::Error { text, .. } => {
            let is_told = warnings.iter().any(|warning| warning == text);
            assert_eq!(is_told, text.starts_with("Guardrail"), "a refusal is a warning, too");
            format!("error: {text}")
        }
        _ => warnings.join("\n"),
    }
}

pub(super) fn set(bench: &Bench, settings: &[(&str, &str)]) {
    let owned = settings.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
    change(bench.server.guardrails(), &owned.collect::<Vec<_>>()).unwrap();
}

fn bench(shards: usize) -> Bench {
    let mut bench = Bench::new(shards);
    bench.query("CREATE TABLE ks.d (p int, q int, c int, d int, PRIMARY KEY ((p, q), c, d))");
    let w = "CREATE TABLE ks.w (p int PRIMARY KEY, t text, l list<text>, s set<text>, m map<text, text>, fl frozen<list<text>>)";
    assert_eq!(bench.query(w), "CREATED TABLE ks w");
    bench
}

/// The threshold of a time, which depends on the clock, is left out.
fn without_now(text: &str) -> String {
    match (text.split_once(" threshold 1"), text.split_once(". Timestamps")) {
        (Some((before, _)), Some((_, after))) => {
            format!("{before} threshold NOW. Timestamps{after}")
        }
        _ => text.to_owned(),
    }
}

#[test]
fn each_guardrail_answers_in_the_words_of_cassandra() {
    // What is asked is another core's, too.
    for shards in [1, 3] {
        let mut bench = bench(shards);
        for (settings, text, level, page_rows, expected) in CASES {
            bench.server.guardrails().store(&Values::default());
            let plain = Parameters::plain(level, VERSION);
            let parameters = Parameters { page_rows: Some(page_rows), ..plain };
            let request = Request::Query(Query { text, parameters });
            let off = told(&mut bench, &request);
            assert!(!off.contains("Guardrail"), "off: {text}: {off}");
            set(&bench, settings);
            assert_eq!(without_now(&told(&mut bench, &request)), expected, "{text}");
        }
    }
    let is_tested = |guardrail: Guardrail| {
        let names = names_of_guardrail(guardrail);
        CASES
            .iter()
            .any(|(settings, ..)| settings.iter().any(|(name, _)| names.iter().any(|n| n == name)))
    };
    let first = Guardrail::PageSize as usize;
    let of_disk = Guardrail::ReplicaDiskUsage as usize;
    for known in &GUARDRAILS[first..of_disk] {
        assert!(is_tested(known.guardrail), "{}", known.name);
    }
}

/// What is executed by id is looked at, too; what the text alone shows already when it is prepared.
#[test]
fn prepared_statements_are_held_to_guardrails() {
    for shards in [1, 2] {
        let mut bench = bench(shards);
        let id = bench.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, 1) USING TIMESTAMP 5");
        let read = bench.prepare("SELECT v FROM ks.t WHERE k = ? AND c IN (?, 2)");
        set(&bench, &[("user_timestamps_enabled", "false")]);
        set(&bench, &[("in_select_cartesian_product_fail_threshold", "1")]);
        let refused = "error: Guardrail user_timestamps violated: User provided timestamps (USING TIMESTAMP) is not allowed";
        assert_eq!(bench.execute(&id, &[1, 1]), refused);
        assert!(bench.execute(&read, &[1, 1]).contains("on clustering key produces 2 values"));
        let text = "INSERT INTO ks.t (k, c, v) VALUES (?, ?, 2) USING TIMESTAMP 5";
        assert_eq!(bench.show(&Request::Prepare(Prepare { text, keyspace: None })), refused);
        set(&bench, &[("allow_filtering_enabled", "false")]);
        let text = "EXPLAIN SELECT * FROM ks.t WHERE v = ? ALLOW FILTERING";
        let explain = bench.show(&Request::Prepare(Prepare { text, keyspace: None }));
        assert!(explain.starts_with("error: Guardrail allow_filtering violated"), "{explain}");
        let mut values = ValueList::new();
        [1i32, 1].iter().for_each(|value| values.push(Value::Bytes(&value.to_be_bytes())));
        let one =
            BatchStatement { text: BatchText::Prepared(&id), values: values.as_values(VERSION) };
        let parameters = Parameters::plain(Consistency::One, VERSION);
        let mut items = Vec::new();
        let batch = Batch::new(BatchKind::Logged, &[one], parameters, VERSION, &mut items);
        assert_eq!(bench.show(&Request::Batch(batch)), refused);
    }
}

/// A read that waits for the disk or for other cores tells what it was warned of.
#[test]
fn a_read_that_waits_is_warned_of() {
    for shards in [1, 3] {
        let mut bench = bench(shards);
        for k in 0..6 {
            bench.query(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 1)"));
        }
        bench.server.flush();
        set(&bench, &[("read_consistency_levels_warned", "ONE")]);
        for text in
            ["SELECT v FROM ks.t WHERE k = 4", "SELECT v FROM ks.t", "SELECT count(*) FROM ks.t"]
        {
            let parameters = Parameters::plain(Consistency::One, VERSION);
            let told = told(&mut bench, &Request::Query(Query { text, parameters }));
            assert!(
                told.starts_with("Guardrail read_consistency_levels violated"),
                "{text}: {told}"
            );
        }
    }
}

/// A batch of many long values is told of some of them.
#[test]
fn warnings_of_one_answer_are_bounded() {
    let mut bench = bench(1);
    set(&bench, &[("column_value_size_warn_threshold", "1B")]);
    let of = |n: usize| format!("INSERT INTO ks.w (p, t) VALUES ({n}, '{}');", "x".repeat(n));
    let all: String = (2..102).map(of).collect();
    let text = format!("BEGIN UNLOGGED BATCH {all} APPLY BATCH");
    let parameters = Parameters::plain(Consistency::One, VERSION);
    let told = told(&mut bench, &Request::Query(Query { text: &text, parameters }));
    assert!((50..=cql::limits::GUARDRAIL_WARNINGS_MAX).contains(&told.lines().count()), "{told}");
}

/// The settings of now are a table, whatever they were at the start.
#[test]
fn settings_of_guardrails_can_be_selected() {
    let mut bench = bench(2);
    let setting = "read_consistency_levels_warned";
    let text = format!("SELECT value FROM system_views.settings WHERE name = '{setting}'");
    assert_eq!(bench.query(&text), "[]");
    set(&bench, &[(setting, "TWO,ONE")]);
    assert_eq!(bench.query(&text), "[ONE, TWO]");
}
