//! What a statement takes while it is parsed and compiled is bounded by its tokens, whatever its form; and lists that
//! name nothing are not copied when it is bound.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::sync::Arc;

use cql::bind::{Bindings, Ids, StatementTime};
use cql::expr::function::NoUserFunctions;
use cql::frame::request::ValueList;
use cql::frame::{Value, Version};
use cql::limits::{
    JSON_COLUMN_BYTES, PLAN_TOKEN_BYTES, STATEMENT_BYTES_MAX, STATEMENT_MEMORY_BYTES_MAX,
    STATEMENT_TOKEN_BYTES, TOKENS_MAX,
};
use cql::plan::Page;
use cql::prepare::{Statement, prepare};
use messina_cql as cql;
use model::options::KeyspaceOptions;
use model::schema::{Schema, SchemaChange, TableBuilder, TableId};
use model::types::{CqlType, UserType};
use peak_alloc::PeakAlloc;
use uuid::Uuid;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

fn schema() -> Schema {
    let int = || Arc::new(CqlType::Int);
    let ints = Arc::new(CqlType::List { element: int(), frozen: true });
    let types = [("u", TYPE_FIELDS), ("wide_type", WIDE_TYPE_FIELDS)].map(|(name, count)| {
        let fields = (0..count).map(|at| (format!("f{at}"), CqlType::Int));
        UserType::new("ks", name, fields.collect())
    });
    let [narrow, _] = types.clone().map(Arc::new);
    let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)))
        .partition_key("k", CqlType::Int)
        .and_then(|t| t.regular("v", CqlType::Int))
        .and_then(|t| t.regular("x", CqlType::Text))
        .and_then(|t| t.regular("l", CqlType::List { element: int(), frozen: false }))
        .and_then(|t| t.regular("s", CqlType::Set { element: int(), frozen: false }))
        .and_then(|t| t.regular("m", CqlType::Map { key: int(), value: int(), frozen: false }))
        .and_then(|t| t.regular("f", CqlType::List { element: ints, frozen: true }))
        .and_then(|t| t.regular("u", CqlType::Udt { definition: narrow, frozen: true }))
        .and_then(TableBuilder::build)
        .unwrap();
    let wide = TableBuilder::new("ks", "wide", TableId(Uuid::from_u128(2)));
    let wide = wide.partition_key("k", CqlType::Int).unwrap();
    let column =
        |wide: TableBuilder, at| wide.regular(&format!("column_{at}"), CqlType::Int).unwrap();
    let wide = (1..WIDE_COLUMNS).fold(wide, column).build().unwrap();
    let rows = TableBuilder::new("ks", "rows", TableId(Uuid::from_u128(3)))
        .partition_key("k", CqlType::Int)
        .and_then(|t| t.clustering("a", CqlType::Text, false))
        .and_then(|t| t.clustering("b", CqlType::Int, false))
        .and_then(TableBuilder::build)
        .unwrap();
    let options = KeyspaceOptions::default();
    let keyspace = SchemaChange::CreateKeyspace { name: "ks".into(), options };
    let tables = [table, wide, rows].map(|table| SchemaChange::CreateTable(Box::new(table)));
    let types = types.map(SchemaChange::CreateType);
    Schema::of_changes([keyspace].into_iter().chain(types).chain(tables)).unwrap()
}

/// Fields of the user type `u`, which table `t` has a column of.
const TYPE_FIELDS: usize = 100;
/// Fields of the user type `wide_type`.
const WIDE_TYPE_FIELDS: usize = 20_000;
/// Columns of the table `wide`.
const WIDE_COLUMNS: usize = 1000;

/// `head`, then `item` so often that the statement has as many tokens as it may, then `tail`.
fn full(head: &str, item: &str, tokens: usize, tail: &str) -> String {
    format!("{head}{}{tail}", item.repeat((TOKENS_MAX - 40) / tokens))
}

#[test]
fn a_statement_takes_no_more_than_its_tokens_allow() {
    let schema = schema();
    a_long_constant_takes_a_few_times_its_length(&schema);
    an_insert_of_json_takes_memory_for_each_column(&schema);
    tuples_before_an_empty_list_are_not_copied(&schema);
    values_of_a_wide_type_take_memory_for_what_they_give(&schema);
    let insert = |column: &str| format!("INSERT INTO t (k, {column}) VALUES (1, ");
    let (mut worst, mut most_kept) = (0, 0);
    for (text, works) in [
        (full(&(insert("l") + "["), "1,", 2, "1])"), true),
        (full(&(insert("s") + "{"), "1,", 2, "1})"), true),
        (full(&(insert("m") + "{"), "1:1,", 4, "1:1})"), true),
        (full(&(insert("f") + "["), "[1],", 4, "[1]])"), true),
        (full(&(insert("l") + "["), "1+1,", 4, "1])"), true),
        (full("SELECT ", "v,", 2, "v FROM t"), true),
        (full("SELECT ", "v+v,", 4, "v FROM t"), true),
        (full("BEGIN BATCH ", "DELETE FROM t WHERE k=1;", 8, "APPLY BATCH"), true),
        (full("BEGIN BATCH ", "UPDATE t SET v=1 WHERE k=1;", 11, "APPLY BATCH"), true),
        (full("SELECT ", "(u){f0:v},", 9, "v FROM t"), true),
        (full("SELECT ", "(u)(v,v),", 9, "v FROM t"), true),
        (full("BEGIN BATCH ", "UPDATE t SET u={f0:?} WHERE k=1;", 15, "APPLY BATCH"), true),
        (full(&(insert("l") + "["), "?,", 2, "1])"), false),
    ] {
        MEMORY.reset_peak_usage();
        let before = MEMORY.current_usage();
        let prepared = prepare(&text, &schema, Some("ks"));
        let taken = MEMORY.peak_usage() - before;
        let kept = MEMORY.current_usage() - before;
        let name = &text[..60.min(text.len())];
        assert_eq!(prepared.is_ok(), works, "{name}: {:?}", prepared.err());
        worst = worst.max(taken);
        most_kept = most_kept.max(kept);
    }
    println!("{} bytes a token, {} kept", worst / TOKENS_MAX, most_kept / TOKENS_MAX);
    assert!(worst <= STATEMENT_MEMORY_BYTES_MAX, "{worst}");
    assert!(worst > STATEMENT_MEMORY_BYTES_MAX / 2, "the limit may be lower: {worst}");
    assert!(most_kept <= TOKENS_MAX * PLAN_TOKEN_BYTES, "{most_kept}");
}

/// Before: a batch of the shortest statements took 250 KB for each on this table, and the cache of prepared statements
/// counted 2 KB for one of them.
fn an_insert_of_json_takes_memory_for_each_column(schema: &Schema) {
    let table = &schema.keyspace("ks").unwrap().tables["wide"];
    let each = |name: &str| JSON_COLUMN_BYTES + 2 * name.len();
    let each: usize = table.columns().iter().map(|column| each(&column.name)).sum();
    let fit = STATEMENT_MEMORY_BYTES_MAX / each;
    for one in ["INSERT INTO wide JSON '{\"k\":1}';", "INSERT INTO wide JSON ?;"] {
        let batch = |count| format!("BEGIN BATCH {} APPLY BATCH", one.repeat(count));
        MEMORY.reset_peak_usage();
        let before = MEMORY.current_usage();
        let prepared = prepare(&batch(fit), schema, Some("ks")).unwrap();
        let (taken, kept) = (MEMORY.peak_usage() - before, MEMORY.current_usage() - before);
        let columns = fit * WIDE_COLUMNS;
        println!("{one} {} bytes a column, {} kept", taken / columns, kept / columns);
        assert!(taken <= fit * each, "{one} {taken}");
        assert!(kept <= prepared.made_bytes, "{one} {kept} of {}", prepared.made_bytes);
        let refused = prepare(&batch(fit + 1), schema, Some("ks")).unwrap_err().to_string();
        assert!(
            refused.starts_with("the INSERT JSON statements of a batch take more"),
            "{refused}"
        );
    }
}

/// Before: each value had a term for every field of its type: 5 GB for 16 KiB of text. And the cache of prepared
/// statements counted 1 KB for a value of 80 KB. Then for that value as JSON its 80 KB, which are 300 KB of text.
fn values_of_a_wide_type_take_memory_for_what_they_give(schema: &Schema) {
    // The schema keeps the order of the fields by name once it was asked for.
    prepare("SELECT (wide_type){f0:1} FROM t", schema, Some("ks")).unwrap();
    for (item, item_tokens, values) in [
        ("(wide_type){f0:v},", 9, 300),
        ("(wide_type){f19999:1},", 9, 300),
        ("to_json((wide_type){f7:1}),", 12, 60),
    ] {
        let text = format!("SELECT {}v FROM t", item.repeat(values));
        MEMORY.reset_peak_usage();
        let before = MEMORY.current_usage();
        let prepared = prepare(&text, schema, Some("ks")).unwrap();
        let (taken, kept) = (MEMORY.peak_usage() - before, MEMORY.current_usage() - before);
        let tokens = (values + 10) * item_tokens;
        println!("{item} {} bytes, {} of them kept", taken / values, kept / values);
        assert!(taken <= tokens * STATEMENT_TOKEN_BYTES + prepared.made_bytes, "{item} {taken}");
        assert!(kept <= tokens * PLAN_TOKEN_BYTES + prepared.made_bytes, "{item} {kept}");
    }
}

/// The text of one long constant is copied, but not often.
fn a_long_constant_takes_a_few_times_its_length(schema: &Schema) {
    let length = STATEMENT_BYTES_MAX - 100;
    for text in [
        format!("INSERT INTO t (k, x) VALUES (1, '{}')", "a".repeat(length)),
        format!("SELECT v FROM t WHERE x = '{}' ALLOW FILTERING", "a".repeat(length)),
        format!("SELECT v AS \"{}\" FROM t", "a".repeat(length)),
        format!("SELECT v FROM t {}", " ".repeat(length)),
    ] {
        MEMORY.reset_peak_usage();
        let before = MEMORY.current_usage();
        let prepared = prepare(&text, schema, Some("ks"));
        let taken = MEMORY.peak_usage() - before;
        assert!(
            taken <= 4 * STATEMENT_BYTES_MAX,
            "{}: {taken} {:?}",
            &text[..40],
            prepared.is_ok()
        );
    }
}

/// Ids of no moment.
struct SameIds;

impl Ids for SameIds {
    fn timeuuid(&self) -> [u8; 16] {
        [0; 16]
    }

    fn uuid(&self) -> [u8; 16] {
        [0; 16]
    }
}

/// Before: the fields of each tuple were copied, one tuple after the other, to find those that are null.
fn tuples_before_an_empty_list_are_not_copied(schema: &Schema) {
    const FIELD_BYTES: usize = 4 << 20;
    let text = "SELECT * FROM rows WHERE k = 1 AND (a) IN ? AND b IN ?";
    let prepared = prepare(text, schema, Some("ks")).unwrap();
    let Statement::Select(plan) = &prepared.statement else { panic!("it is a SELECT") };
    let lengths = [1, FIELD_BYTES + 4, FIELD_BYTES];
    let tuples = lengths.map(|length| (length as i32).to_be_bytes()).concat();
    let tuples = [tuples, vec![b'x'; FIELD_BYTES]].concat();
    let mut values = ValueList::new();
    values.push(Value::Bytes(&tuples));
    values.push(Value::Bytes(&0i32.to_be_bytes()));
    let time = StatementTime {
        timestamp_us: 0,
        server_timestamp_us: None,
        now_ms: 0,
        now_s: 0,
        ids: &SameIds,
        functions: &NoUserFunctions,
    };
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let values = values.as_values(Version::V4);
    let bindings = Bindings::new(&values, &prepared.markers, time).unwrap();
    let bound = plan.bind_read(&bindings, Page::default()).unwrap();
    let taken = MEMORY.peak_usage() - before;
    assert!(bound.command.is_none(), "it names nothing");
    assert!(taken < FIELD_BYTES / 4, "{taken}");
}
