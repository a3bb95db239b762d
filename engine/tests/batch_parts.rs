//! Parts of noted batches: what is written of them whatever became of their tables.

use engine::{CheckedPart, Error};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::mutation::{CounterChange, MutationBuilder};
use model::row::{Cell, RowBuilder, RowHead};
use model::schema::TableBuilder;
use model::{ColumnId, CqlType, TableId, Token};
use uuid::Uuid;

use crate::shard::{self, TABLE, answers, config, make, on_sim, schema_of};

fn plain(part: &[u8]) -> CheckedPart {
    CheckedPart::plain(part.into())
}

/// Before: a table that a DROP had closed for its snapshot was taken for one that is gone: the part was left out, and
/// when the DROP failed half a batch that was answered was missing.
#[test]
fn a_part_of_a_table_that_a_drop_has_closed_waits_until_it_is_decided() {
    on_sim(1, async |_, disk, exec| {
        make(&disk, &config(1)).await;
        let table = TableBuilder::new("ks", "t", TABLE)
            .partition_key("k", CqlType::Blob)
            .and_then(|table| table.regular("v", CqlType::Blob))
            .and_then(TableBuilder::build)
            .unwrap();
        let engine = shard::open(&disk, &exec, config(1), &schema_of([table])).await;
        let mut part = Vec::new();
        let mut mutation = MutationBuilder::begin(&mut part, TABLE, Token::of_key(b"k"), b"k");
        mutation.row(&[], |out| {
            let cell = Cell::live(ColumnId(1), 1, b"v");
            RowBuilder::begin(out, &RowHead::bare(1)).cell(&cell);
        });
        mutation.finish();

        engine.close_tables(&[TABLE]).await.unwrap();
        assert!(matches!(engine.insist(&plain(&part), 1), Err(Error::Overloaded(_))));
        engine.open_tables(&[TABLE]);
        engine.insist(&plain(&part), 1).unwrap();
        assert!(matches!(&answers(&engine, 1).await[..], [(1, Ok(()))]));
        assert_eq!(engine.table_size(TABLE).unwrap().memtable_rows, 1);
    });
}

/// Before: it was refused for as long as its partition had a queue, which on a hot one may be for ever.
#[test]
fn a_part_that_is_insisted_on_has_its_turn_in_the_queue_of_its_partition() {
    on_sim(2, async |_, disk, exec| {
        make(&disk, &config(2)).await;
        let table = TableBuilder::new("ks", "t", TABLE)
            .partition_key("k", CqlType::Blob)
            .and_then(|table| table.regular("n", CqlType::Counter))
            .and_then(|table| table.regular("v", CqlType::Blob))
            .and_then(TableBuilder::build)
            .unwrap();
        let engine = shard::open(&disk, &exec, config(2), &schema_of([table])).await;
        let mutation = |fill: fn(&mut MutationBuilder<'_>)| {
            let mut out = Vec::new();
            let mut mutation = MutationBuilder::begin(&mut out, TABLE, Token::of_key(b"k"), b"k");
            fill(&mut mutation);
            mutation.finish();
            out
        };
        let add = mutation(|m| {
            let (clustering, column) = (Some(&[][..]), ColumnId(1));
            m.counter_change(&CounterChange { clustering, column, by: 1, timestamp: 1, now_s: 1 });
        });
        let part = mutation(|m| {
            m.row(&[], |out| {
                let cell = Cell::live(ColumnId(2), 1, b"v");
                RowBuilder::begin(out, &RowHead::bare(1)).cell(&cell);
            });
        });
        for ticket in 0..20 {
            engine.write(&add, ticket).unwrap();
        }
        engine.insist(&plain(&part), 100).unwrap();
        for ticket in 20..40 {
            engine.write(&add, ticket).unwrap();
        }
        let done: Vec<u64> = answers(&engine, 41).await.iter().map(|(ticket, _)| *ticket).collect();
        assert_eq!(done, (0..20).chain([100]).chain(20..40).collect::<Vec<_>>());
    });
}

/// Before: an element of a list that was read before a TRUNCATE was written behind it.
#[test]
fn what_a_part_has_read_and_a_truncation_has_taken_is_not_written() {
    let other = TableId(Uuid::from_u128(8));
    on_sim(3, async move |_, disk, exec| {
        make(&disk, &config(3)).await;
        let table = |name, id| {
            TableBuilder::new("ks", name, id)
                .partition_key("k", CqlType::Blob)
                .and_then(|table| table.regular("n", CqlType::Counter))
                .and_then(TableBuilder::build)
                .unwrap()
        };
        let schema = schema_of([table("t", TABLE), table("o", other)]);
        let engine = shard::open(&disk, &exec, config(3), &schema).await;
        let mut part = Vec::new();
        for id in [TABLE, other] {
            let mut m = MutationBuilder::begin(&mut part, id, Token::of_key(b"k"), b"k");
            let (clustering, column) = (Some(&[][..]), ColumnId(1));
            m.counter_change(&CounterChange { clustering, column, by: 1, timestamp: 1, now_s: 1 });
            m.finish();
        }
        let checked = engine.check_part(part.into(), yield_now).await.unwrap();
        engine.truncate(TABLE).await.unwrap();
        engine.write_part(&checked, 1).unwrap();
        assert_eq!(answers(&engine, 1).await, [(1, Ok(()))]);
        let rows = |id| engine.table_size(id).unwrap().memtable_rows;
        assert_eq!((rows(TABLE), rows(other)), (0, 1));
        engine.truncate(other).await.unwrap();
        engine.insist(&checked, 2).unwrap();
        assert_eq!(answers(&engine, 1).await, [(2, Ok(()))]);
        assert_eq!((rows(TABLE), rows(other)), (0, 0), "it has nothing left to say");
    });
}
