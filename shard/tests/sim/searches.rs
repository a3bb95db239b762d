//! Searches for the nearest vectors, compared with all rows measured one by one.
//!
//! Of the few rows of a world all lists of a file are looked at, so that a search with a LIMIT above the number of rows
//! gives exactly those with a vector. With a small LIMIT each row is as near as the one that belongs there, but for
//! what a byte for each part leaves unsure.

use std::collections::BTreeMap;

use engine::Engine;
use engine::io::Rng;
use futures_lite::future::yield_now;
use model::TableId;
use model::read::{FilterTarget, Nearest, Partitions};
use model::row::RowRef;
use model::schema::{Analysis, Index, IndexId, IndexKind, IndexTarget, Table};
use model::types::{Similarity, floats};

use crate::lookups::{Given, InOrder, is_same, pages};
use crate::node::command;
use crate::schema::VECTOR_PARTS;
use crate::world::{Lived, Shared};

/// Far more rows than a world has.
const ROWS_MAX: usize = 1000;

/// How much nearer a row may be that was left out for one that was taken: parts in bytes are about so exact.
const UNSURE: f32 = 0.1;

/// The value of a vector.
pub(crate) fn draw(rng: &mut Rng) -> Vec<u8> {
    let mut part = || (1.0 + rng.below(64) as f32) / 64.0 * if rng.one_in(2) { -1.0 } else { 1.0 };
    (0..VECTOR_PARTS).flat_map(|_| part().to_be_bytes()).collect()
}

/// Adds an index of vectors of a column, if it has none.
pub(crate) fn alter(table: &mut Table, column: &str, rng: &mut Rng) {
    let Some(column) = table.column(column).map(|column| column.id) else { return };
    if table.indexes_of(column).next().is_some() {
        return;
    }
    let similarity = Similarity::ALL[rng.index(Similarity::ALL.len())].name().to_owned();
    let index = Index {
        id: IndexId(0),
        name: format!("{}_i{}", table.name, table.next_index()),
        column,
        target: IndexTarget::Value,
        kind: IndexKind::StorageAttached,
        class: Some("sai".into()),
        options: BTreeMap::from([("similarity_function".to_owned(), similarity)]),
        analysis: Analysis::NONE,
    };
    table.add_index(index).expect("a name that is free");
}

/// Searches by an index of vectors on one shard.
pub(crate) async fn check(
    engine: &Engine,
    (id, table, now_s): (TableId, &Table, u32),
    index: &Index,
    world: &Shared,
    rng: &mut Rng,
) -> Lived {
    let similarity = index.similarity(table).expect("an index of vectors");
    let mut command = command(id, Partitions::Range(model::TokenRange::ALL), now_s);
    command.static_alone = false;
    let all = pages(engine, command.clone(), rng).await?;
    let wanted = draw(rng);
    let near = |given: &Given| {
        let row = (!given.3.is_empty()).then(|| RowRef::trusted(&given.3))?;
        let cell = row.cells().find(|cell| cell.column == index.column)?;
        let [a, b] = [&wanted[..], cell.value].map(|value| floats(value).collect::<Vec<f32>>());
        similarity.nearness(&a, &b)
    };
    let mut expected: Vec<(f32, &Given)> =
        all.iter().filter_map(|given| Some((near(given)?, given))).collect();
    expected.sort_by(|a, b| b.0.total_cmp(&a.0));
    let before = engine.stats().lookups;
    for rows in [ROWS_MAX, 1 + rng.index(5)] {
        let (target, vector) = (FilterTarget::Value(index.column), wanted.clone().into());
        command.nearest = Some(Nearest { index: index.id, target, similarity, vector, rows });
        let mut found = InOrder::default();
        engine.read(&command, &mut found, yield_now).await?;
        let name = &index.name;
        assert_eq!(found.0.len(), rows.min(expected.len()), "{name}: {found:?} of {expected:?}");
        for (at, given) in found.0.iter().enumerate() {
            let is_there = expected.iter().any(|(_, other)| is_same(other, given));
            let is_once = !found.0[..at].iter().any(|other| is_same(other, given));
            assert!(is_there && is_once, "{name}: {given:?} of {expected:?}");
            let nearness = near(given).expect("it has a vector");
            assert!(nearness >= expected[at].0 - UNSURE, "{name}: {found:?} of {expected:?}");
        }
    }
    world.borrow_mut().tally.searches += engine.stats().lookups - before;
    Ok(())
}
