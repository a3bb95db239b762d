//! What a statement takes while it is parsed and compiled is bounded by its tokens, whatever its form.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::sync::Arc;

use cql::limits::{PLAN_TOKEN_BYTES, STATEMENT_BYTES_MAX, STATEMENT_MEMORY_BYTES_MAX, TOKENS_MAX};
use cql::prepare::prepare;
use messina_cql as cql;
use model::options::KeyspaceOptions;
use model::schema::{Schema, SchemaChange, TableBuilder, TableId};
use model::types::CqlType;
use peak_alloc::PeakAlloc;
use uuid::Uuid;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

fn schema() -> Schema {
    let int = || Arc::new(CqlType::Int);
    let ints = Arc::new(CqlType::List { element: int(), frozen: true });
    let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)))
        .partition_key("k", CqlType::Int)
        .and_then(|t| t.regular("v", CqlType::Int))
        .and_then(|t| t.regular("x", CqlType::Text))
        .and_then(|t| t.regular("l", CqlType::List { element: int(), frozen: false }))
        .and_then(|t| t.regular("s", CqlType::Set { element: int(), frozen: false }))
        .and_then(|t| t.regular("m", CqlType::Map { key: int(), value: int(), frozen: false }))
        .and_then(|t| t.regular("f", CqlType::List { element: ints, frozen: true }))
        .and_then(TableBuilder::build)
        .unwrap();
    let options = KeyspaceOptions::default();
    let keyspace = SchemaChange::CreateKeyspace { name: "ks".into(), options };
    Schema::of_changes([keyspace, SchemaChange::CreateTable(Box::new(table))]).unwrap()
}

/// `head`, then `item` so often that the statement has as many tokens as it may, then `tail`.
fn full(head: &str, item: &str, tokens: usize, tail: &str) -> String {
    format!("{head}{}{tail}", item.repeat((TOKENS_MAX - 40) / tokens))
}

#[test]
fn a_statement_takes_no_more_than_its_tokens_allow() {
    let schema = schema();
    a_long_constant_takes_a_few_times_its_length(&schema);
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
