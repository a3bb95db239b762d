//! Parts of noted batches: what is written of them whatever became of their tables.

mod shard;

use engine::Error;
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::row::{Cell, RowBuilder, RowHead};
use model::schema::TableBuilder;
use model::{ColumnId, CqlType, Token};
use shard::{TABLE, answers, config, make, on_sim, schema_of};

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
        assert!(matches!(engine.insist(&part, 1), Err(Error::Overloaded(_))));
        engine.open_tables(&[TABLE]);
        engine.insist(&part, 1).unwrap();
        assert!(matches!(&answers(&engine, 1).await[..], [(1, Ok(()))]));
        assert_eq!(engine.table_size(TABLE).unwrap().memtable_rows, 1);
    });
}
