//! The ids of tables that are gone: files and logs may still hold their rows, so none of them is given again.
//!
//! The newest are remembered, as many as a limit says. Once one was forgotten, no id that a client chooses can be told
//! from it any more.

use std::collections::VecDeque;

use hashbrown::HashSet;

use super::TableId;
use crate::limits::DROPPED_TABLES_MAX;

/// Which tables were dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DroppedTables {
    ids: HashSet<TableId, foldhash::fast::FixedState>,
    /// The same ids, oldest first.
    order: VecDeque<TableId>,
    has_forgotten: bool,
}

impl DroppedTables {
    /// Remembers one more id; the oldest is forgotten if there are too many.
    pub(super) fn add(&mut self, id: TableId) {
        if !self.ids.insert(id) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > DROPPED_TABLES_MAX {
            let oldest = self.order.pop_front().expect("there are too many");
            self.ids.remove(&oldest);
            self.has_forgotten = true;
        }
        assert_eq!(self.ids.len(), self.order.len(), "each id is in both");
    }

    /// A table of this id is there again.
    pub(super) fn remove(&mut self, id: TableId) {
        if self.ids.remove(&id) {
            self.order.retain(|other| *other != id);
        }
    }

    /// Notes that some were dropped whose ids are not known.
    pub(super) fn forget_some(&mut self) {
        self.has_forgotten = true;
    }

    /// Whether a table of this id was dropped, as far as is remembered.
    pub fn contains(&self, id: TableId) -> bool {
        self.ids.contains(&id)
    }

    /// Whether tables were dropped whose ids are not known any more.
    pub fn has_forgotten(&self) -> bool {
        self.has_forgotten
    }

    /// The ids that are remembered, oldest first.
    pub fn ids(&self) -> impl Iterator<Item = TableId> {
        self.order.iter().copied()
    }

    /// Whether no table was dropped.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty() && !self.has_forgotten
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_newest_are_remembered_and_that_others_were_forgotten() {
        let id = |number: usize| TableId(Uuid::from_u128(number as u128));
        let mut dropped = DroppedTables::default();
        assert!(dropped.is_empty());
        (0..DROPPED_TABLES_MAX).for_each(|number| dropped.add(id(number)));
        dropped.add(id(7));
        assert!(dropped.contains(id(0)) && !dropped.has_forgotten() && !dropped.is_empty());
        dropped.add(id(DROPPED_TABLES_MAX));
        assert!(!dropped.contains(id(0)) && dropped.contains(id(1)) && dropped.has_forgotten());
        assert_eq!(dropped.ids().count(), DROPPED_TABLES_MAX);
        assert_eq!(dropped.ids().next(), Some(id(1)));
    }
}
