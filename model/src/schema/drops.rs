//! Which cells went with their column: `ALTER TABLE .. DROP c USING TIMESTAMP t`, seen from the cells.
//!
//! ```text
//!  cell of c ≤ t     gone for ever: no reader sees it, a compaction reclaims its bytes
//!  cell of c > t     not seen while c is dropped; there again if c is added again
//! ```
//!
//! 1. A column that is added again as what it was keeps its id, so that what is newer than its drop is its own.
//! 2. An id that has neither a column nor a drop was dropped for good, before ids were kept.
//! 3. An id that was not given out yet belongs to a schema that is on its way: its cells are kept.

use super::{ColumnId, Table};

/// The dropped cells of one table, by column id. Empty if no column was ever dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnDrops {
    by_id: Vec<Drop>,
}

/// Timestamps in microseconds; `i64::MIN` if the column was never dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Drop {
    /// Cells up to this timestamp are not seen.
    hidden_to: i64,
    /// Cells up to this timestamp will never be seen again.
    gone_to: i64,
}

impl Drop {
    const NEVER: Drop = Drop { hidden_to: i64::MIN, gone_to: i64::MIN };
    const FOR_GOOD: Drop = Drop { hidden_to: i64::MAX, gone_to: i64::MAX };
}

impl ColumnDrops {
    /// The drops of a table as its definition lists them.
    pub fn of(table: &Table) -> Self {
        if table.dropped.is_empty() {
            return ColumnDrops::default();
        }
        let mut by_id = vec![Drop::FOR_GOOD; usize::from(table.next_column)];
        for column in table.columns.iter().chain(table.hidden()) {
            by_id[usize::from(column.id.0)] = Drop::NEVER;
        }
        for dropped in &table.dropped {
            let id = dropped.column.id;
            let is_back = table.column_by_id(id).is_some();
            let hidden_to = if is_back { dropped.dropped_at } else { i64::MAX };
            by_id[usize::from(id.0)] = Drop { hidden_to, gone_to: dropped.dropped_at };
        }
        ColumnDrops { by_id }
    }

    /// Whether no column was ever dropped, so that every cell may be seen.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Whether a reader does not see a cell of this column, written at this time in microseconds.
    #[inline]
    pub fn hides(&self, column: ColumnId, timestamp: i64) -> bool {
        let drop = self.by_id.get(usize::from(column.0));
        drop.is_some_and(|drop| drop.hidden_to != i64::MIN && timestamp <= drop.hidden_to)
    }

    /// Whether no reader will ever see the cell again, even if the column comes back.
    #[inline]
    pub fn ends(&self, column: ColumnId, timestamp: i64) -> bool {
        let drop = self.by_id.get(usize::from(column.0));
        drop.is_some_and(|drop| drop.gone_to != i64::MIN && timestamp <= drop.gone_to)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::CqlType;
    use crate::schema::{ColumnKind, TableBuilder, TableId};
    use crate::steps::steps_of;

    fn table() -> Table {
        TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)))
            .partition_key("p", CqlType::Int)
            .and_then(|t| t.regular("a", CqlType::Int))
            .and_then(|t| t.regular("b", CqlType::Int))
            .and_then(TableBuilder::build)
            .expect("a sound table")
    }

    #[test]
    fn a_table_without_drops_hides_nothing() {
        let drops = ColumnDrops::of(&table());
        assert!(drops.is_empty());
        assert!(!drops.hides(ColumnId(1), i64::MIN) && !drops.ends(ColumnId(9), i64::MAX));
    }

    #[test]
    fn what_is_newer_than_its_drop_is_hidden_until_the_column_is_back() {
        let mut t = table();
        let b = t.column("b").expect("it is there").id;
        t.drop_column("b", 10).expect("a regular column");
        let drops = ColumnDrops::of(&t);
        assert!(drops.hides(b, 10) && drops.hides(b, 11), "while it is dropped");
        assert!(drops.ends(b, 10) && !drops.ends(b, 11));
        assert!(!drops.hides(ColumnId(1), 0), "of another column");
        assert!(!drops.hides(ColumnId(3), 0), "of a column that this schema does not know yet");
        t.add_column("b", CqlType::Int, ColumnKind::Regular).expect("the name is free");
        let drops = ColumnDrops::of(&t);
        assert_eq!(t.column("b").expect("it is there").id, b);
        assert!(drops.hides(b, 10) && drops.ends(b, 10));
        assert!(!drops.hides(b, 11) && !drops.ends(b, 11));
    }

    #[test]
    fn a_second_drop_brings_back_nothing_that_the_first_one_took() {
        let mut t = table();
        t.drop_column("b", 10).expect("a regular column");
        t.add_column("b", CqlType::Int, ColumnKind::Regular).expect("the name is free");
        t.drop_column("b", 5).expect("a regular column");
        t.add_column("b", CqlType::Int, ColumnKind::Regular).expect("the name is free");
        let b = t.column("b").expect("it is there").id;
        assert!(ColumnDrops::of(&t).ends(b, 10));
        assert_eq!(t.dropped.len(), 1);
    }

    #[test]
    fn an_id_that_an_older_version_gave_up_is_gone_for_good() {
        let mut t = table();
        let old = t.column("b").expect("it is there").id;
        t.drop_column("b", 10).expect("a regular column");
        // As something else it does not keep its id; the first drop is forgotten at the second.
        t.add_column("b", CqlType::Text, ColumnKind::Regular).expect("the name is free");
        t.drop_column("b", 5).expect("a regular column");
        let drops = ColumnDrops::of(&t);
        assert!(drops.hides(old, i64::MAX) && drops.ends(old, i64::MAX));
    }

    /// Before: each column that was dropped was sought among all that there are.
    #[test]
    fn the_drops_of_many_columns_are_found_in_few_steps() {
        let names: Vec<String> = (0..2_000).map(|at| format!("c{at}")).collect();
        let all = || names.iter().map(|name| (&**name, CqlType::Int, ColumnKind::Regular));
        let mut t = table();
        t.add_columns(all()).expect("the names are free");
        t.drop_columns(&names.iter().map(|name| &**name).collect(), 10).expect("they are there");
        t.add_columns(all().skip(1)).expect("the names are free");
        let (steps, drops) = steps_of(|| ColumnDrops::of(&t));
        assert!((1_999..5 * 2_000).contains(&steps), "{steps} columns looked at");
        let c0 = ColumnId(3);
        assert!(drops.hides(c0, 11) && !drops.ends(c0, 11), "it is not back");
        for column in t.columns().iter().filter(|column| column.name.starts_with('c')) {
            assert!(drops.ends(column.id, 10) && !drops.hides(column.id, 11), "{}", column.name);
        }
    }
}
