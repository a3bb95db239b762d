//! Which index files are made next: terms before vectors, table after table.
//!
//! 1. Tables take turns, so that one whose files never all have theirs, for it is written all the time, keeps no other
//!    waiting. A table with something of terms to do comes before those with vectors alone: on terms more depends, and
//!    flushes and merges make them themselves, so that they end.
//! 2. Inside a table it is the same. Of vectors the largest file comes first: small ones are merged soon.
//! 3. What is being merged gets no file of vectors, which would go with it.

use std::cmp::Reverse;

use model::TableId;
use model::schema::{IndexId, Table as Definition};

use crate::engine::Engine;
use crate::table::{Table, View};

/// What the job does next in a table; the first of them comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Next {
    /// Files of terms, or what is left of indexes that were dropped.
    Terms,
    /// A file of vectors.
    Vectors,
}

impl Engine {
    /// A table that has something for the job to do, if it may be tried at this second: those behind the last one
    /// first.
    pub(crate) fn table_to_index(&self, backoff_clock_s: u32) -> Option<TableId> {
        let tables = self.tables.indexed();
        let last = self.tables.last_indexed();
        let behind = tables.partition_point(|id| Some(*id) <= last);
        let (before, behind) = tables.split_at(behind);
        let due = behind.iter().chain(before).filter_map(|id| {
            let table = self.table(*id).ok()?;
            Some((self.next_of(&table, backoff_clock_s)?, *id))
        });
        // Of several that are as urgent the first.
        due.min_by_key(|(next, _)| *next).map(|(_, id)| id)
    }

    /// What the job has to do in a table, if it may be tried at this second.
    fn next_of(&self, table: &Table, backoff_clock_s: u32) -> Option<Next> {
        let (state, lost) = (&table.index_state, self.cache.lost_indexes());
        let has_dropped = state.has_dropped.get();
        let is_settled = state.settled.get() == Some(lost) && !has_dropped;
        if is_settled || state.is_building.get() || !state.backoff.is_due(backoff_clock_s) {
            return None;
        }
        let definition = table.definition();
        let (mut next, mut lacks_any) = (has_dropped.then_some(Next::Terms), false);
        for view in table.views().iter() {
            let lacks = view.lacks(&definition, self.vector_rows_min.get());
            lacks_any |= !lacks.is_empty();
            let of_view = next_of_view(table, view, &lacks);
            next = next.into_iter().chain(of_view).min();
        }
        if !lacks_any {
            state.settled.set(Some(lost));
        }
        next
    }
}

/// The views of a table for which something is to be done, those that come first before the others.
pub(super) fn lacking<'v>(table: &Table, views: &'v [View], vector_rows_min: u64) -> Vec<&'v View> {
    let definition = table.definition();
    let next = |view: &'v View| {
        let lacks = view.lacks(&definition, vector_rows_min);
        Some((next_of_view(table, view, &lacks)?, view))
    };
    let mut lacking: Vec<(Next, &View)> = views.iter().filter_map(next).collect();
    lacking.sort_by_key(|(next, view)| match next {
        Next::Terms => (*next, Reverse(0)),
        Next::Vectors => (*next, Reverse(view.sstable.statistics().rows)),
    });
    lacking.into_iter().map(|(_, view)| view).collect()
}

/// What is to be done for a view that lacks these indexes.
pub(super) fn next_of_view(table: &Table, view: &View, lacks: &[IndexId]) -> Option<Next> {
    let definition = table.definition();
    match lacks.iter().any(|id| !is_of_vectors(&definition, *id)) {
        true => Some(Next::Terms),
        false if lacks.is_empty() || table.is_merging(view.entry.sstable) => None,
        false => Some(Next::Vectors),
    }
}

pub(super) fn is_of_vectors(definition: &Definition, id: IndexId) -> bool {
    !definition.term_indexes().any(|index| index.id == id)
}
