//! What the log of the schema keeps, refuses and leaves out.
//!
//! 1. A change that is too long is refused before it is written, and the next one is made.
//! 2. Whichever write of a change fails, the log is poisoned: what is durable is not known.
//! 3. A log that is full is rewritten from the schema: tables that are made and dropped again and again leave a short
//!    log, and options that this build refuses stay as they were written.
//!
//! Not here: the log's bytes and power cuts (`engine/src/layout/tests.rs`), how shards follow a change (`schema.rs`).

use engine::io::{Disk, Faults, SimDisk, SimExec};
use model::options::{KeyspaceOptions, TableOptions};
use model::schema::{TableBuilder, TableId};
use model::types::CqlType;

use super::*;

fn keyspace() -> SchemaChange {
    SchemaChange::CreateKeyspace { name: "ks".into(), options: KeyspaceOptions::default() }
}

async fn made(disk: &Disk, base: &Arc<Schema>) -> SchemaChanges {
    SchemaLog::create(disk, 1).await.unwrap();
    SchemaChanges::open(disk, 1, base).await.unwrap().0
}

fn table(comment: String) -> SchemaChange {
    let options = TableOptions { comment, ..TableOptions::default() };
    let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1))).options(options);
    let table = table.partition_key("k", CqlType::Int).unwrap();
    SchemaChange::CreateTable(Box::new(table.build().unwrap()))
}

#[test]
fn a_change_too_long_for_the_log_is_refused_and_the_next_is_made() {
    let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
    let done = async move {
        let base = Arc::new(Schema::empty());
        let mut log = made(&disk, &base).await;
        let schema = log.append(&base, keyspace(), Uuid::nil(), async || {}).await.unwrap();
        // In JSON such a byte takes six.
        let long = table("\u{1}".repeat(11 << 20));
        let refused = log.append(&schema, long, Uuid::nil(), async || {}).await.unwrap_err();
        let AlterError::Refused(error) = refused else { panic!("{refused}") };
        let text = error.to_string();
        assert!(text.contains("at most 16777216") && text.contains("comment"), "{text}");
        let short = table("short".to_owned());
        let made = log.append(&schema, short, Uuid::nil(), async || {}).await;
        assert_eq!(made.unwrap().number, 2);
        let (_, found) = SchemaChanges::open(&disk, 2, &base).await.unwrap();
        assert_eq!(found.number, 2);
    };
    SimExec::new(1).run(done).done();
}

/// The client's core leaves the process on `Poisoned`: what is durable is not known.
#[test]
fn whichever_write_of_a_change_fails_the_log_is_poisoned() {
    let mut poisoned = 0;
    for nth in 0..12 {
        let sim = SimDisk::new(1, Faults::default());
        let disk = Disk::Sim(sim.clone());
        let done = async move {
            let base = Arc::new(Schema::empty());
            let mut log = made(&disk, &base).await;
            sim.set_faults(Faults { fail_op: Some(nth), ..Faults::default() });
            let first = log.append(&base, keyspace(), Uuid::nil(), async || {}).await;
            match first {
                Ok(_) => false,
                Err(AlterError::Store(Error::Poisoned(_))) => true,
                Err(error) => panic!("operation {nth}: {error:?}"),
            }
        };
        poisoned += usize::from(SimExec::new(1).run(done).done());
    }
    assert_eq!(poisoned, 2, "the entry and the claim after it");
}

fn drop_table() -> SchemaChange {
    SchemaChange::DropTable { keyspace: "ks".into(), name: "t".into() }
}

/// Before: the log kept every change for ever: after 131,072 of them the node did not start.
#[test]
fn a_table_that_is_made_and_dropped_for_ever_leaves_a_short_log() {
    let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
    let done = async move {
        let base = Arc::new(Schema::empty());
        let mut log = made(&disk, &base).await;
        let mut schema = log.append(&base, keyspace(), Uuid::nil(), async || {}).await.unwrap();
        for number in 1..100u64 {
            let version = Uuid::from_u128(number.into());
            let mut create = table(String::new());
            let SchemaChange::CreateTable(table) = &mut create else { unreachable!() };
            table.id = TableId(version);
            for change in [create, drop_table()] {
                schema = log.append(&schema, change, version, async || {}).await.unwrap();
            }
            if number % 10 == 0 {
                let (opened, found) = SchemaChanges::open(&disk, number, &base).await.unwrap();
                assert_eq!((found.number, found.version), (schema.number, schema.version));
                assert_eq!(found.dropped_tables(), schema.dropped_tables());
                let entries = SchemaLog::find(&disk).await.unwrap().entries().len();
                assert!(entries < 20, "{entries} entries");
                log = opened;
            }
        }
        assert_eq!(schema.number, 199);
        assert_eq!(schema.dropped_tables().ids().count(), 99);
    };
    SimExec::new(1).run(done).done();
}

/// A start takes the default for what it refuses, and the log keeps what was written.
#[test]
fn an_option_that_this_build_refuses_stays_in_the_log_however_full_it_gets() {
    let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
    let done = async move {
        let base = Arc::new(Schema::empty());
        let mut log = made(&disk, &base).await;
        let schema = log.append(&base, keyspace(), Uuid::nil(), async || {}).await.unwrap();
        let entry = SchemaEntry { number: 2, version: Uuid::nil(), change: table("t".into()) };
        let (taken, refused) = ("\"gc_grace_seconds\":864000", "\"gc_grace_seconds\":-864000");
        let text = String::from_utf8(schema::encode(&entry)).unwrap();
        let strange = text.replace(taken, refused);
        assert_ne!(strange, text);
        log.log.append(strange.as_bytes()).await.unwrap();
        drop((log, schema));
        let (mut log, mut schema) = SchemaChanges::open(&disk, 2, &base).await.unwrap();
        for _ in 0..40 {
            let SchemaChange::CreateTable(table) = table("x".repeat(50_000)) else { panic!() };
            let change = SchemaChange::AlterTable(table);
            let next = log.append(&schema, change, Uuid::nil(), async || {}).await.unwrap();
            schema = Arc::unwrap_or_clone(next);
        }
        let found = SchemaLog::find(&disk).await.unwrap();
        let entries: Vec<_> = found.entries().map(|(_, payload)| payload.to_vec()).collect();
        assert_eq!((entries.len(), &entries[1][..]), (42, strange.as_bytes()));
        let (_, found) = SchemaChanges::open(&disk, 3, &base).await.unwrap();
        assert_eq!(found.number, schema.number);
    };
    SimExec::new(1).run(done).done();
}
