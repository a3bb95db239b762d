//! ALTER TABLE DROP as storage sees it: what went with its column is not seen and takes no space.
//!
//! Each case is read from memtables, from an sstable, after a compaction and after a restart.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::rc::Rc;

use engine::Engine;
use engine::io::{Disk, Faults, SimDisk, SimExec};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::read::{Flow, Limits, PartitionRef, Partitions, ReadCommand, RowSink, Slice};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::schema::{ColumnKind, Table, TableBuilder};
use model::{ColumnId, CqlType, Token, TokenRange};

use crate::shard::{self, TABLE, config, flush, make, schema_of};

/// `CREATE TABLE t (k blob, c blob, s blob static, a blob, b blob, PRIMARY KEY (k, c))`
fn table() -> Table {
    TableBuilder::new("ks", "t", TABLE)
        .partition_key("k", CqlType::Blob)
        .and_then(|t| t.clustering("c", CqlType::Blob, false))
        .and_then(|t| t.stat("s", CqlType::Blob))
        .and_then(|t| t.regular("a", CqlType::Blob))
        .and_then(|t| t.regular("b", CqlType::Blob))
        .and_then(TableBuilder::build)
        .unwrap()
}

/// A cell of a row, or of the static row: `(key, clustering, column, timestamp)`.
type Written = (u8, Option<u8>, ColumnId, i64);

fn record(&(key, clustering, column, timestamp): &Written) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&[key]), &[key]);
    let row = |out: &mut Vec<u8>| {
        // Such that no compression makes a row small, nor the next one as a repetition of it.
        let seed = 512 * (256 * u32::from(key) + u32::from(clustering.unwrap_or(0)));
        let value: Vec<u8> =
            (0..512).map(|i| ((seed + i).wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let cell = Cell::live(column, timestamp, &value);
        RowBuilder::begin(out, &RowHead::bare(timestamp)).cell(&cell);
    };
    match clustering {
        None => m.static_row(row),
        // A blob in order-preserving form: a byte, then the end.
        Some(c) => m.row(&clustering_of(c), row),
    }
    m.finish();
    out
}

fn clustering_of(value: u8) -> Vec<u8> {
    let mut out = Vec::new();
    model::ordered::encode_component(&CqlType::Blob, false, &[value], &mut out).unwrap();
    out
}

/// What a read gave: key, and the columns of the row, or of the static row where there is no other.
#[derive(Default)]
struct Given(Vec<(u8, Vec<u16>)>);

impl RowSink for Given {
    fn row(&mut self, p: &PartitionRef<'_>, _: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        let row = row.or(p.static_row).expect("a row or a static one");
        self.0.push((p.key[0], row.cells().map(|cell| cell.column.0).collect()));
        Flow::More
    }
}

fn select(rows: u64) -> ReadCommand {
    ReadCommand {
        table: TABLE,
        partitions: Partitions::Range(TokenRange::ALL),
        slices: vec![Slice::all()],
        reversed: false,
        static_alone: true,
        distinct: false,
        filters: Vec::new(),
        lookups: Vec::new(),
        nearest: None,
        limits: Limits { rows, ..Limits::none(1 << 20) },
        resume: None,
        now_s: 1,
    }
}

async fn read(engine: &Engine, command: &ReadCommand) -> Vec<(u8, Vec<u16>)> {
    let mut given = Given::default();
    engine.read(command, &mut given, yield_now).await.unwrap();
    given.0.sort();
    given.0
}

struct Shard {
    disk: Disk,
    exec: SimExec,
    engine: Rc<Engine>,
    tickets: u64,
}

impl Shard {
    async fn create(exec: SimExec, table: &Table) -> Shard {
        let disk = Disk::Sim(SimDisk::new(3, Faults::default()));
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, table, 2).await;
        Shard { disk, exec, engine, tickets: 0 }
    }

    async fn write(&mut self, cells: &[Written]) {
        for cell in cells {
            shard::write(&self.engine, &record(cell)).await.unwrap();
        }
    }

    async fn compact(&self) {
        let request = self.engine.request_major(TABLE);
        self.engine.compact_major(&request, 1, async || yield_now().await).await.unwrap();
    }

    /// Checks what every way of reading gives, wherever the rows are.
    async fn check(&mut self, table: &Table, rows: &[(u8, Vec<u16>)]) {
        self.engine.set_schema(&schema_of([table.clone()]));
        for step in 0..4 {
            match step {
                0 => {}
                1 => flush(&self.engine).await,
                2 => self.compact().await,
                _ => {
                    let seen = self.engine.table_size(TABLE).unwrap();
                    assert_eq!(seen.memtable_bytes, 0);
                    self.tickets += 1;
                    self.engine = open(&self.disk, &self.exec, table, 100 + self.tickets).await;
                }
            }
            assert_eq!(read(&self.engine, &select(u64::MAX)).await, rows, "SELECT, step {step}");
            let limited = read(&self.engine, &select(1)).await;
            assert_eq!(limited.len(), rows.len().min(1), "LIMIT 1, step {step}");
            assert!(limited.iter().all(|row| rows.contains(row)));
            let mut keys: Vec<u8> = rows.iter().map(|(key, _)| *key).collect();
            keys.dedup();
            let distinct = ReadCommand { distinct: true, ..select(u64::MAX) };
            let distinct: Vec<u8> =
                read(&self.engine, &distinct).await.into_iter().map(|(key, _)| key).collect();
            assert_eq!(distinct, keys, "DISTINCT, step {step}");
            for key in 1..=4 {
                let mut of_key: Vec<_> = rows.iter().filter(|(k, _)| *k == key).cloned().collect();
                for c in 1..=4 {
                    let slices = vec![Slice::row(clustering_of(c))];
                    let keys = vec![(Token::of_key(&[key]), Box::from([key]))];
                    let one = ReadCommand {
                        partitions: Partitions::Keys(keys),
                        slices,
                        static_alone: false,
                        ..select(u64::MAX)
                    };
                    for row in read(&self.engine, &one).await {
                        let at = of_key.iter().position(|r| *r == row);
                        of_key.remove(at.expect("a row that a scan sees"));
                    }
                }
                let of_static = |columns: &[u16]| columns.iter().all(|c| *c == 2);
                assert!(of_key.iter().all(|(_, columns)| of_static(columns)), "{of_key:?}");
            }
        }
    }
}

async fn open(disk: &Disk, exec: &SimExec, table: &Table, seed: u64) -> Rc<Engine> {
    shard::open(disk, exec, config(seed), &schema_of([table.clone()])).await
}

fn on_sim(main: impl AsyncFnOnce(SimExec) + 'static) {
    let exec = SimExec::new(3);
    let inner = exec.clone();
    exec.run(async move { main(inner).await }).done();
}

#[test]
fn a_row_that_had_only_a_dropped_column_is_not_seen() {
    on_sim(async |exec| {
        let mut t = table();
        let [s, a, b] = ["s", "a", "b"].map(|name| t.column(name).unwrap().id);
        let mut shard = Shard::create(exec, &t).await;
        shard.write(&[(1, Some(1), b, 5), (1, Some(2), a, 5), (2, Some(1), b, 5)]).await;
        shard.write(&[(1, Some(2), b, 6), (3, None, s, 5), (4, Some(1), a, 7)]).await;
        t.drop_column("b", 100).unwrap();
        shard.check(&t, &[(1, vec![a.0]), (3, vec![s.0]), (4, vec![a.0])]).await;
        // And the partition that had only a static one.
        t.drop_column("s", 100).unwrap();
        shard.check(&t, &[(1, vec![a.0]), (4, vec![a.0])]).await;
    });
}

#[test]
fn what_is_newer_than_the_timestamp_of_its_drop_comes_back_with_its_column() {
    on_sim(async |exec| {
        let mut t = table();
        let b = t.column("b").unwrap().id;
        let mut shard = Shard::create(exec, &t).await;
        shard.write(&[(1, Some(1), b, 10), (1, Some(2), b, 15), (1, Some(3), b, 16)]).await;
        t.drop_column("b", 15).unwrap();
        shard.check(&t, &[]).await;
        t.add_column("b", CqlType::Blob, ColumnKind::Regular).unwrap();
        assert_eq!(t.column("b").unwrap().id, b);
        shard.check(&t, &[(1, vec![b.0])]).await;
        shard.write(&[(1, Some(1), b, 17), (1, Some(2), b, 14)]).await;
        shard.check(&t, &[(1, vec![b.0]), (1, vec![b.0])]).await;
    });
}

#[test]
fn a_dropped_column_that_is_older_in_a_file_does_not_settle_a_row() {
    on_sim(async |exec| {
        let mut t = table();
        let [a, b] = ["a", "b"].map(|name| t.column(name).unwrap().id);
        let mut shard = Shard::create(exec, &t).await;
        shard.write(&[(1, Some(1), a, 5)]).await;
        flush(&shard.engine).await;
        shard.write(&[(1, Some(1), b, 9)]).await;
        t.drop_column("b", 9).unwrap();
        t.add_column("b", CqlType::Blob, ColumnKind::Regular).unwrap();
        shard.check(&t, &[(1, vec![a.0])]).await;
    });
}

#[test]
fn the_bytes_of_a_dropped_column_are_reclaimed() {
    on_sim(async |exec| {
        let mut t = table();
        let [a, b] = ["a", "b"].map(|name| t.column(name).unwrap().id);
        let mut shard = Shard::create(exec, &t).await;
        for c in 0..40 {
            shard.write(&[(1, Some(c), b, 5)]).await;
        }
        shard.write(&[(2, Some(1), a, 5)]).await;
        flush(&shard.engine).await;
        let before = shard.engine.table_size(TABLE).unwrap();
        t.drop_column("b", 100).unwrap();
        shard.engine.set_schema(&schema_of([t.clone()]));
        shard.compact().await;
        let after = shard.engine.table_size(TABLE).unwrap();
        assert_eq!((before.partitions, after.partitions), (2, 1));
        assert!(after.bytes < before.bytes, "{} of {} bytes", after.bytes, before.bytes);
    });
}
