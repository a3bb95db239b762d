//! Many deletions of ranges, all under way at once: they are applied some at a time, by the rows that they look at.
//!
//! Not here: what a deletion takes out of a memtable (`engine/src/memtable/tests/covered.rs`).

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use engine::limits::COVERED_ROWS_AT_ONCE_MAX;
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::cell::Life;
use model::mutation::{MutationBuilder, RangeTombstone};
use model::row::{RowBuilder, RowHead};
use model::schema::{Table, TableBuilder};
use model::{CqlType, Deletion, Token};

use crate::shard::{TABLE, config, on_shard, schema_of, write};

const KEY: &[u8] = b"k";
const ROWS: u16 = 1500;
const DELETIONS: u64 = 60;

fn table() -> Table {
    TableBuilder::new("ks", "t", TABLE)
        .partition_key("k", CqlType::Blob)
        .and_then(|table| table.clustering("c", CqlType::Smallint, false))
        .and_then(TableBuilder::build)
        .unwrap()
}

fn place(at: u16) -> Vec<u8> {
    let mut out = Vec::new();
    let at = at.to_be_bytes();
    model::ordered::encode_component(&CqlType::Smallint, false, &at, &mut out).unwrap();
    out
}

fn record(fill: impl FnOnce(&mut MutationBuilder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(KEY), KEY);
    fill(&mut m);
    m.finish();
    out
}

/// Before: a step applied 64 KiB of records, which are some 850 deletions, and each looked at 1024 rows: 50 ms and
/// more.
#[test]
fn deletions_that_look_at_many_rows_are_applied_few_at_a_time() {
    on_shard(config(1), schema_of([table()]), async |engine, _, _| {
        let inserted = RowHead { marker: Some(Life::Live), ..RowHead::bare(9) };
        let rows = record(|m| {
            for at in 0..ROWS {
                m.row(&place(at), |out| {
                    RowBuilder::begin(out, &inserted);
                });
            }
        });
        write(&engine, &rows).await.unwrap();
        let deletion = Deletion { timestamp: 1, local_s: 1 };
        let (start, end) = (&place(0), &place(ROWS));
        let old = record(|m| m.delete_range(&RangeTombstone { start, end, deletion }));
        for ticket in 0..DELETIONS {
            engine.write(&old, ticket).unwrap();
        }
        let (mut done, mut at_once) = (Vec::new(), 0);
        while (done.len() as u64) < DELETIONS {
            let before = done.len();
            engine.take_completed(&mut done);
            at_once = at_once.max(done.len() - before);
            yield_now().await;
        }
        // Each is a step of its own, and some steps may lie between two looks.
        let most = DELETIONS as usize / 4;
        assert!(at_once < most, "{at_once} that look at {COVERED_ROWS_AT_ONCE_MAX} rows each");
    });
}
