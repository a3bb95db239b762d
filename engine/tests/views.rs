//! Materialized views: after each write each is what its definition says of the base, whatever timestamps, deletions
//! and times to live came, before and after flushes and merges, and in every second to come.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::cell::Cell as Flag;
use std::collections::BTreeMap;
use std::rc::Rc;

use engine::{Engine, Error, ViewStamp, Views};
use futures_lite::future::yield_now;
use messina_engine as engine;
use messina_engine::io::Rng;
use model::cell::{Expiry, Life};
use model::mutation::{MutationBuilder, RangeTombstone};
use model::options::TableOptions;
use model::read::{Flow, Operator, PartitionRef, RowSink, Slice};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::schema::{
    Table, TableBuilder, ViewDefinition, ViewIdentity, ViewKey, ViewRestriction, ViewTest,
};
use model::{ColumnId, CqlType, Deletion, Schema, TableId, Token};
use proptest::prelude::*;
use uuid::Uuid;

use crate::shard::{
    TABLE, config, flush, merge_whole, on_shard, run_jobs, schema_of, select_all, write,
};

const K: ColumnId = ColumnId(0);
const C: ColumnId = ColumnId(1);
const R: ColumnId = ColumnId(2);
const V: ColumnId = ColumnId(3);
const U: ColumnId = ColumnId(4);
const M: ColumnId = ColumnId(5);

/// `CREATE TABLE t (k blob, c blob, r blob, v blob, u blob, m set<blob>, PRIMARY KEY (k, c))`
fn base() -> Table {
    let set = CqlType::Set { element: CqlType::Blob.into(), frozen: false };
    TableBuilder::new("ks", "t", TABLE)
        .options(TableOptions { gc_grace_seconds: 0, ..TableOptions::default() })
        .partition_key("k", CqlType::Blob)
        .and_then(|t| t.clustering("c", CqlType::Blob, false))
        .and_then(|t| t.regular("r", CqlType::Blob))
        .and_then(|t| t.regular("v", CqlType::Blob))
        .and_then(|t| t.regular("u", CqlType::Blob))
        .and_then(|t| t.regular("m", set))
        .and_then(TableBuilder::build)
        .unwrap()
}

fn view(number: u128, key: &[ColumnId], selected: &[ColumnId], min: Option<u8>) -> Table {
    let test = min
        .map(|min| ViewTest { operator: Operator::GreaterOrEqual, values: vec![Box::from([min])] });
    // Of one without anything to show WHERE asks for a column that is not in its key.
    let asks = key.contains(&R) || selected.is_empty();
    let restrictions = asks.then_some(ViewRestriction { column: R, test }).into_iter().collect();
    let definition = ViewDefinition { base: TABLE, include_all: false, restrictions };
    let clustering = key[1..].iter().map(|id| (*id, *id == C));
    let key = ViewKey { partition: key[..1].to_vec(), clustering: clustering.collect() };
    let options = TableOptions { gc_grace_seconds: 0, ..TableOptions::default() };
    let id = TableId(Uuid::from_u128(number));
    let identity = ViewIdentity { id, name: format!("v{number}"), options };
    Table::view_of(&base(), identity, &key, selected, definition).unwrap()
}

/// Other partition key; a regular column in the key; that and a filter; nothing but the key, of rows with a column.
fn views() -> Vec<Table> {
    vec![
        view(11, &[C, K], &[R, V, U, M], None),
        view(12, &[R, K, C], &[V, M], None),
        view(13, &[K, R, C], &[V], Some(2)),
        view(14, &[K, C], &[], None),
    ]
}

fn schema() -> Schema {
    schema_of([base()].into_iter().chain(views()))
}

/// Keeps the views of a node of one shard.
#[derive(Debug, Default)]
struct Kept {
    timestamp_us: Flag<i64>,
    now_s: Flag<u32>,
}

impl Views for Kept {
    fn stamp(&self) -> ViewStamp {
        self.timestamp_us.set(self.timestamp_us.get() + 2);
        ViewStamp { timestamp_us: self.timestamp_us.get(), now_s: self.now_s.get() }
    }

    fn note(&self, _: u64, _: Vec<u8>, _: ViewStamp) -> engine::Result<Vec<u8>> {
        Err(Error::invalid("all is of one shard"))
    }
}

/// A row: the key columns by their ids, and the cells.
type Shown = (BTreeMap<u16, Vec<u8>>, Vec<(u16, Option<Vec<u8>>, Vec<u8>)>);

struct Seen<'t>(&'t Table, Vec<Shown>);

impl RowSink for Seen<'_> {
    fn row(&mut self, p: &PartitionRef<'_>, at: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        let (Some(at), Some(row)) = (at, row) else { return Flow::More };
        let mut key = BTreeMap::from([(self.0.partition_key()[0].id.0, p.key.to_vec())]);
        for (index, column) in self.0.clustering().iter().enumerate() {
            let mut value = Vec::new();
            model::key::clustering_value(self.0, at, index, &mut value).unwrap();
            key.insert(column.id.0, value);
        }
        let cell =
            |cell: Cell<'_>| (cell.column.0, cell.path.map(<[u8]>::to_vec), cell.value.to_vec());
        self.1.push((key, row.cells().map(cell).collect()));
        Flow::More
    }
}

async fn rows(engine: &Engine, table: &Table, now_s: u32) -> Vec<Shown> {
    let mut seen = Seen(table, Vec::new());
    let command = model::ReadCommand { table: table.id, ..select_all(now_s) };
    engine.read(&command, &mut seen, yield_now).await.unwrap();
    seen.1.sort();
    seen.1
}

/// What a view has to show of these rows of the base.
fn shown(view: &Table, base: &[Shown]) -> Vec<Shown> {
    let is_key =
        |id: u16| view.partition_key().iter().chain(view.clustering()).any(|c| c.id.0 == id);
    let mut rows: Vec<Shown> = Vec::new();
    for (key, cells) in base {
        let mut key = key.clone();
        for (id, _, value) in cells.iter().filter(|cell| is_key(cell.0)) {
            key.insert(*id, value.clone());
        }
        if let Some(restriction) = view.view().unwrap().restrictions.first() {
            let of_r = cells.iter().find(|cell| cell.0 == R.0);
            let Some((.., value)) = of_r else { continue };
            if restriction.test.is_some() && value[0] < 2 {
                continue;
            }
        }
        let cells = cells.iter();
        let cells =
            cells.filter(|cell| !is_key(cell.0) && view.column_by_id(ColumnId(cell.0)).is_some());
        rows.push((key, cells.cloned().collect()));
    }
    rows.sort();
    rows
}

async fn check(engine: &Engine, now_s: u32) {
    let base = rows(engine, &base(), now_s).await;
    for view in views() {
        let expected = shown(&view, &base);
        assert_eq!(rows(engine, &view, now_s).await, expected, "{} at {now_s}", view.name);
    }
}

/// A write of a few rows of one of two partitions, of a random time.
fn record(rng: &mut Rng, now_s: u32) -> Vec<u8> {
    let (mut out, key) = (Vec::new(), [rng.below(2) as u8 + 1]);
    let timestamp = |rng: &mut Rng| rng.below(12) as i64 + 1;
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&key), &key);
    if rng.below(12) == 0 {
        m.delete_partition(Deletion { timestamp: timestamp(rng), local_s: now_s });
    }
    if rng.below(6) == 0 {
        let start = rng.below(3) as u8;
        let deletion = Deletion { timestamp: timestamp(rng), local_s: now_s };
        let bound = |value: u8| clustering(value);
        let (start, end) = (bound(start), bound(start + 2));
        m.delete_range(&RangeTombstone { start: &start, end: &end, deletion });
    }
    for c in 0..4 {
        if rng.below(2) == 0 {
            continue;
        }
        let at = timestamp(rng);
        m.row(&clustering(c), |out| row(rng, now_s, at, out));
    }
    m.finish();
    out
}

fn clustering(c: u8) -> Vec<u8> {
    let mut out = Vec::new();
    model::key::put_clustering(&base(), [&[c][..]].into_iter(), &mut out).unwrap();
    out
}

fn row(rng: &mut Rng, now_s: u32, timestamp: i64, out: &mut Vec<u8>) {
    let life = |rng: &mut Rng| match rng.below(4) {
        0 => {
            let ttl_s = 1 + rng.below(6) as u32;
            Life::Expiring(Expiry { ttl_s, at_s: now_s + ttl_s })
        }
        1 => Life::Dead { local_s: now_s },
        _ => Life::Live,
    };
    let marker = Some(life(rng)).filter(|life| !matches!(life, Life::Dead { .. }));
    let marker = marker.filter(|_| rng.below(2) == 0);
    let deletion = match rng.below(6) {
        0 => Deletion { timestamp: timestamp - 1, local_s: now_s },
        _ => Deletion::NONE,
    };
    let mut row = RowBuilder::begin(out, &RowHead { timestamp, marker, deletion });
    for column in [R, V, U] {
        if rng.below(2) == 0 {
            let life = life(rng);
            let value = [1 + rng.below(3) as u8];
            let value = if matches!(life, Life::Dead { .. }) { &[][..] } else { &value };
            row.cell(&Cell { life, ..Cell::live(column, timestamp, value) });
        }
    }
    if rng.below(4) == 0 {
        let life = Life::Dead { local_s: now_s };
        row.cell(&Cell { whole: true, life, ..Cell::live(M, timestamp - 1, &[]) });
    }
    for path in [[1u8], [2]] {
        if rng.below(3) == 0 {
            row.cell(&Cell { life: life(rng), path: Some(&path), ..Cell::live(M, timestamp, &[]) });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// The oracle is the definition, read from the base as any client reads it.
    #[test]
    fn a_view_is_what_its_definition_says_of_the_base(seed in 1u64..1 << 48) {
        on_shard(config(seed), schema(), async move |engine, _, _| {
            let (kept, mut rng) = (Rc::new(Kept::default()), Rng::new(seed));
            kept.now_s.set(100);
            kept.timestamp_us.set(1_000_000);
            engine.keep_views(kept.clone());
            for _ in 0..60 {
                let now_s = kept.now_s.get();
                let records: Vec<Vec<u8>> =
                    (0..=rng.below(2)).map(|_| record(&mut rng, now_s)).collect();
                write(&engine, &records.concat()).await.unwrap();
                match rng.below(12) {
                    0 => flush(&engine).await,
                    1 => {
                        flush(&engine).await;
                        merge_whole(&engine, now_s).await;
                        run_jobs(&engine, now_s).await;
                    }
                    2 => kept.now_s.set(now_s + 1 + rng.below(3) as u32),
                    _ => {}
                }
                for ahead in [0, 1, 2, 4, 7] {
                    check(&engine, kept.now_s.get() + ahead).await;
                }
            }
        });
    }
}

/// What a build writes: rows that a view lacks come, and what is there stays.
#[test]
fn slices_are_written_to_views_again() {
    on_shard(config(1), schema(), async |engine, _, _| {
        let kept = Rc::new(Kept::default());
        engine.keep_views(kept.clone());
        kept.timestamp_us.set(50);
        let mut rng = Rng::new(4);
        for _ in 0..20 {
            write(&engine, &record(&mut rng, 5)).await.unwrap();
        }
        for view in views() {
            engine.truncate(view.id).await.unwrap();
            assert!(rows(&engine, &view, 5).await.is_empty());
        }
        for key in [[1u8], [2]] {
            let mut out = Vec::new();
            let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&key), &key);
            m.view_slice(&Slice { start: Vec::new(), end: clustering(2) });
            m.view_slice(&Slice { start: clustering(2), end: Slice::all().end });
            m.finish();
            write(&engine, &out).await.unwrap();
            write(&engine, &out).await.unwrap();
        }
        assert!(!rows(&engine, &views()[1], 5).await.is_empty(), "there is something to show");
        check(&engine, 5).await;
    });
}

/// Before: the read of one row ended at a file in which it had found all columns, and did not know of the marker in an
/// older one: the view's row went with the last cell that expired, and the base's stayed.
#[test]
fn a_row_of_a_view_lives_as_long_as_its_marker_in_an_older_file() {
    let base = TableBuilder::new("ks", "t", TABLE)
        .partition_key("k", CqlType::Blob)
        .and_then(|t| t.clustering("c", CqlType::Blob, false))
        .and_then(|t| t.regular("v", CqlType::Blob))
        .and_then(TableBuilder::build)
        .unwrap();
    let (definition, options) = (
        ViewDefinition { base: TABLE, include_all: true, restrictions: Vec::new() },
        TableOptions::default(),
    );
    let key = ViewKey { partition: vec![C], clustering: vec![(K, true)] };
    let identity = ViewIdentity { id: TableId(Uuid::from_u128(21)), name: "w".into(), options };
    let view = Table::view_of(&base, identity, &key, &[R], definition).unwrap();
    let at = clustering(1);
    on_shard(config(1), schema_of([base, view.clone()]), async move |engine, _, _| {
        let kept = Rc::new(Kept::default());
        engine.keep_views(kept.clone());
        kept.timestamp_us.set(50);
        let record = |fill: &dyn Fn(&mut MutationBuilder<'_>)| {
            let mut out = Vec::new();
            let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&[1]), &[1]);
            fill(&mut m);
            m.finish();
            out
        };
        let put = |timestamp, marker, life| {
            let head = RowHead { timestamp, marker, deletion: Deletion::NONE };
            let cell = Cell { life, ..Cell::live(R, timestamp, b"v") };
            record(&|m| {
                m.row(&at, |out| {
                    RowBuilder::begin(out, &head).cell(&cell);
                });
            })
        };
        write(&engine, &put(1, Some(Life::Live), Life::Live)).await.unwrap();
        flush(&engine).await;
        let expiring = Life::Expiring(Expiry { ttl_s: 10, at_s: 15 });
        write(&engine, &put(2, None, expiring)).await.unwrap();
        flush(&engine).await;
        engine.truncate(view.id).await.unwrap();
        write(&engine, &record(&|m| m.view_slice(&Slice::row(at.clone())))).await.unwrap();
        for now_s in [5, 20] {
            assert_eq!(rows(&engine, &view, now_s).await.len(), 1, "at {now_s}");
        }
    });
}
