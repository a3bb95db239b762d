//! Reads by an index, compared with a scan: nothing that has a term of the lookup is missing, and nothing comes twice,
//! out of order or otherwise than the scan gives it.
//!
//! A lookup is made of terms that the scan has seen, one or a range of them. It has no filter: what it gives beside
//! what has the terms, a filter would take out.
//!
//! 1. A scan of the table on one shard, in pages of drawn lengths, gives all rows; their terms are those that may be
//!    looked up.
//! 2. The lookup, in pages as well, must give a part of what the scan gave, in the same order, and all rows that have a
//!    wanted term.
//! 3. `alter` adds and drops indexes while the world lives, so lookups meet sstables with and without index files.
//!
//! Not here: searches for the nearest vectors (`searches.rs`), the comparison of a scan with the oracle (`checks.rs`).

use std::collections::BTreeMap;

use engine::io::Rng;
use engine::{Engine, IndexProgress};
use futures_lite::future::yield_now;
use model::read::{Flow, IndexLookup, PartitionRef, ReadCommand, RowSink, Slice};
use model::row::{Cell, RowRef};
use model::schema::{Analysis, ColumnKind, Index, IndexId, IndexKind, IndexTarget, Table};
use model::{CqlType, TableId};

use crate::node::{Node, command};
use crate::world::{Lived, Shared};
use crate::{schema, searches};

/// Far more pages than the rows of a world have.
const PAGES_MAX: u64 = 10_000;

/// Key, clustering, static row and row.
pub(crate) type Given = (Vec<u8>, Option<Vec<u8>>, Vec<u8>, Vec<u8>);

/// What a read gives, in its order.
#[derive(Debug, Default)]
pub(crate) struct InOrder(pub(crate) Vec<Given>);

impl RowSink for InOrder {
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow {
        let bytes =
            |row: Option<RowRef<'_>>| row.map(|row| row.bytes().to_vec()).unwrap_or_default();
        let (stat, row) = (bytes(partition.static_row), bytes(row));
        self.0.push((partition.key.to_vec(), clustering.map(<[u8]>::to_vec), stat, row));
        Flow::More
    }
}

pub(crate) async fn pages(
    engine: &Engine,
    mut command: ReadCommand,
    rng: &mut Rng,
) -> Lived<Vec<Given>> {
    let mut all = InOrder::default();
    for _ in 0..PAGES_MAX {
        command.limits.page_rows = 1 + rng.below(20);
        let end = engine.read(&command, &mut all, yield_now).await?;
        let Some(resume) = end.more else { return Ok(all.0) };
        command.resume = Some(resume);
    }
    panic!("a lookup of {PAGES_MAX} pages without an end");
}

/// Whether two reads gave the same: a row may be written down in several ways.
pub(crate) fn is_same(a: &Given, b: &Given) -> bool {
    let cells = |row: &[u8]| {
        let row = (!row.is_empty()).then(|| RowRef::trusted(row));
        let of = |cell: Cell<'_>| {
            (cell.column, cell.path.map(<[u8]>::to_vec), cell.value.to_vec(), cell.timestamp)
        };
        row.map(|row| row.cells().map(of).collect::<Vec<_>>())
    };
    (&a.0, &a.1) == (&b.0, &b.1) && cells(&a.2) == cells(&b.2) && cells(&a.3) == cells(&b.3)
}

/// The terms of what a read gave.
fn terms_of(index: &Index, table: &Table, given: &Given) -> Vec<Vec<u8>> {
    let (key, clustering, stat, row) = given;
    let some = |bytes: &'_ Vec<u8>| (!bytes.is_empty()).then(|| bytes.clone());
    let mut terms = Vec::new();
    let mut give = |term: &[u8]| {
        terms.push(term.to_vec());
        std::ops::ControlFlow::Continue(())
    };
    let stat = some(stat);
    let stat = stat.as_deref().map(RowRef::trusted);
    index.terms(table, key, None, stat, &mut give).expect("sound values");
    if let Some(clustering) = clustering {
        let row = Some(RowRef::trusted(row));
        index.terms(table, key, Some(clustering), row, &mut give).expect("sound values");
    }
    terms
}

/// A range of the terms that were seen.
fn draw(terms: &[Vec<u8>], rng: &mut Rng) -> Vec<Slice> {
    let one = |term: &Vec<u8>| Slice { start: term.clone(), end: [term.as_slice(), &[0]].concat() };
    let (a, b) = (&terms[rng.index(terms.len())], &terms[rng.index(terms.len())]);
    match rng.below(3) {
        0 => vec![one(a)],
        1 if a != b => vec![one(a.min(b)), one(a.max(b))],
        _ => vec![Slice { start: a.min(b).clone(), end: one(a.max(b)).end }],
    }
}

/// Looks up in every index of a table on one shard.
pub(crate) async fn check(
    engine: &Engine,
    (id, table, now_s): (TableId, &Table, u32),
    world: &Shared,
    rng: &mut Rng,
) -> Lived {
    for index in table.indexes() {
        if index.similarity(table).is_some() {
            searches::check(engine, (id, table, now_s), index, world, rng).await?;
            continue;
        }
        let range = model::read::Partitions::Range(model::TokenRange::ALL);
        let of_rows =
            !matches!(index.column(table).kind, ColumnKind::Static | ColumnKind::PartitionKey);
        let mut command = command(id, range, now_s);
        // A row that a filter would take out may hide that there is a static row alone.
        command.static_alone = !of_rows;
        command.reversed = rng.one_in(2);
        let all = pages(engine, command.clone(), rng).await?;
        let mut terms: Vec<Vec<u8>> =
            all.iter().flat_map(|given| terms_of(index, table, given)).collect();
        terms.sort();
        terms.dedup();
        if terms.is_empty() {
            continue;
        }
        let wanted = draw(&terms, rng);
        command.lookups = vec![IndexLookup { index: index.id, terms: wanted.clone() }];
        let found = pages(engine, command, rng).await?;
        let is_found = |given: &Given| {
            let terms = terms_of(index, table, given);
            terms.iter().any(|term| wanted.iter().any(|slice| slice.contains(term)))
        };
        let expected = all.iter().filter(|given| is_found(given));
        let mut rest = all.iter();
        let in_order = found.iter().all(|one| rest.any(|other| is_same(other, one)));
        let name = &index.name;
        assert!(in_order, "{name}: a lookup gives {found:?}, a scan {all:?}");
        let missing: Vec<&Given> =
            expected.filter(|given| !found.iter().any(|one| is_same(one, given))).collect();
        assert!(
            missing.is_empty(),
            "{name}: {wanted:?} leads to {found:?}, and {missing:?} is missing"
        );
        let is_built = |progress: &IndexProgress| {
            progress.table == id && progress.index == index.id && progress.is_built()
        };
        if engine.index_progress().iter().any(is_built) {
            world.borrow_mut().tally.lookups += 1;
        }
    }
    Ok(())
}

/// The same of every table on every shard.
pub(crate) async fn check_all(node: &Node, world: &Shared, rng: &mut Rng) -> Lived {
    let now_s = world.borrow().workload.now_s;
    for number in 1..schema::TABLES {
        let id = world.borrow().workload.id(number);
        let Some(table) = schema::table(&node.schema, number).filter(|table| table.id == id) else {
            continue;
        };
        for engine in &node.engines {
            match check(engine, (id, table, now_s), world, rng).await {
                Err(crate::world::End::Failed(error)) if world.borrow_mut().is_named(&error) => {}
                checked => checked?,
            }
        }
    }
    Ok(())
}

/// Adds an index of a column, or drops one.
pub(crate) fn alter(table: &mut Table, rng: &mut Rng) {
    let indexes = table.indexes();
    if indexes.len() > 3 || (!indexes.is_empty() && rng.one_in(4)) {
        let name = indexes[rng.index(indexes.len())].name.clone();
        assert!(table.drop_index(&name), "it was there");
        return;
    }
    let columns: Vec<_> = table.columns().to_vec();
    let column = &columns[rng.index(columns.len())];
    let target = match &column.ty {
        CqlType::Map { frozen: false, .. } => {
            let targets = [IndexTarget::Keys, IndexTarget::Values, IndexTarget::Entries];
            targets[rng.index(targets.len())]
        }
        CqlType::Udt { .. } | CqlType::List { .. } | CqlType::Counter => return,
        CqlType::Vector { .. } => return,
        _ => IndexTarget::Value,
    };
    let name = format!("{}_i{}", table.name, table.next_index());
    let index = Index {
        id: IndexId(0),
        name,
        column: column.id,
        target,
        kind: IndexKind::Plain,
        class: None,
        options: BTreeMap::new(),
        analysis: Analysis::NONE,
    };
    table.add_index(index).expect("a name that is free");
}

/// A column is about to be dropped: its indexes go first.
pub(crate) fn drop_of(table: &mut Table, column: &str) {
    let id = table.column(column).expect("it is there").id;
    let names: Vec<String> = table.indexes_of(id).map(|index| index.name.clone()).collect();
    names.iter().for_each(|name| assert!(table.drop_index(name), "it was there"));
}
