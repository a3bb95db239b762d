//! What is counted for the schema is what it takes: compared with what the allocator gives.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::commitlog;
use engine::io::{Disk, Faults, SimDisk, SimExec};
use engine::layout::{self, Layout, Secret};
use engine::{Config, Engine};
use messina_engine as engine;
use model::options::{Compaction, Compression, KeyspaceOptions, TableOptions};
use model::schema::{SchemaChange, TableBuilder};
use model::types::UserType;
use model::{CqlType, Schema, TableId, TokenRange};
use peak_alloc::PeakAlloc;
use uuid::Uuid;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const TABLES: u128 = 3000;

fn int() -> Arc<CqlType> {
    Arc::new(CqlType::Int)
}

fn options(number: u128) -> TableOptions {
    let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    };
    let compaction = pairs(&[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "80")]);
    let compression = pairs(&[("class", "LZ4Compressor"), ("chunk_length_in_kb", "32")]);
    match number % 3 {
        0 => TableOptions::default(),
        _ => TableOptions {
            comment: "what the table is for, in some words".repeat(number as usize % 3),
            compaction: Compaction::parse(&compaction).unwrap(),
            compression: Compression::parse(&compression).unwrap(),
            ..TableOptions::default()
        },
    }
}

fn schema() -> Schema {
    let keyspace = "a_keyspace".to_owned();
    let fields = vec![("street".into(), CqlType::Text), ("number".into(), CqlType::Int)];
    let user_type = UserType::new(&keyspace, "address", fields);
    let table = |number: u128| {
        let definition = Arc::new(user_type.clone());
        let address = CqlType::Udt { definition, frozen: true };
        let map = CqlType::Map { key: int(), value: int(), frozen: false };
        let name = format!("a_table_with_the_number_{number}");
        let mut builder = TableBuilder::new(&keyspace, &name, TableId(Uuid::from_u128(number)))
            .options(options(number))
            .partition_key("identifier", CqlType::Uuid)
            .and_then(|b| b.clustering("at", CqlType::Timestamp, true))
            .and_then(|b| b.regular("value", CqlType::Text))
            .and_then(|b| b.regular("elements", map))
            .unwrap();
        for column in 0..number % 10 {
            builder = builder.regular(&format!("column_{column}"), CqlType::Int).unwrap();
        }
        let table = builder.regular("address", address).and_then(TableBuilder::build).unwrap();
        SchemaChange::CreateTable(Box::new(table))
    };
    let options = KeyspaceOptions::default();
    let create = SchemaChange::CreateKeyspace { name: keyspace.clone(), options };
    let created = SchemaChange::CreateType(user_type.clone());
    Schema::of_changes([create, created].into_iter().chain((1..=TABLES).map(table))).unwrap()
}

#[test]
fn what_is_counted_for_the_schema_is_what_it_takes() {
    let exec = SimExec::new(1);
    exec.run(async {
        let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
        let shard_dir = layout::shard_dir(1, 0);
        let (owned, log) = (vec![TokenRange::ALL], commitlog::Config::new(1));
        let config = Config { shard_dir, owned, log, memory_bytes: 64 << 20, now_s: 0 };
        let layout = Layout::first(1, Uuid::from_u128(1), Secret::NONE);
        layout.make_directories(&disk).await.unwrap();
        Engine::create(&disk, &config).await.unwrap();
        let engine = Engine::open(&disk, config, &Schema::empty()).await.unwrap();
        assert_eq!(engine.stats().schema_bytes, 0);
        let before = MEMORY.current_usage();
        let schema = schema();
        engine.set_schema(&schema);
        let taken = (MEMORY.current_usage() - before) as u64;
        let counted = engine.stats().schema_bytes;
        assert!(counted >= taken, "{counted} of {taken}");
        // For a change it takes more: names are copied. And what an allocator gives is rounded up.
        assert!(counted <= taken + taken / 2, "{counted} of {taken}");
    })
    .done();
}
