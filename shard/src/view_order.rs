//! The order in which writers of one partition of a base are told, while rows of its views are on their way.
//!
//! A write reads what the writes before it have done, though not all of that is in the views yet. If it changes
//! nothing, or its own rows are sent sooner, it would be answered first, and who asks a view then would not find what
//! the base has. So a write is told after those before it in its partitions that have noted something.
//!
//! Not here: what is noted and sent (`views.rs`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use model::{TableId, Token};

/// A partition of a base, by the token of its key: two of one token are told in one order.
pub(crate) type BasePartition = (TableId, Token);

/// The notes whose writers are not told.
#[derive(Default)]
pub(crate) struct TellingOrder {
    /// The last of each partition.
    last: RefCell<HashMap<BasePartition, u64>>,
    /// All of them, each with who waits until its writer is told.
    untold: RefCell<HashMap<u64, Vec<Waker>>>,
}

/// The place of a write in the order.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    partitions: Vec<BasePartition>,
    /// The notes before it.
    notes: Vec<u64>,
}

impl Behind {
    /// Whether it may be told at once.
    pub(crate) fn is_first(&self) -> bool {
        self.notes.is_empty()
    }
}

impl TellingOrder {
    /// The place of a write that has read these partitions.
    pub(crate) fn place(&self, partitions: &[BasePartition]) -> Behind {
        let last = self.last.borrow();
        let notes = partitions.iter().filter_map(|partition| last.get(partition).copied());
        Behind { notes: notes.collect(), partitions: partitions.to_vec() }
    }

    /// The write in this place has noted something under this number.
    pub(crate) fn note(&self, place: &Behind, number: u64) {
        self.untold.borrow_mut().insert(number, Vec::new());
        self.last.borrow_mut().extend(place.partitions.iter().map(|one| (*one, number)));
    }

    /// Waits until the writers before this place are told.
    pub(crate) async fn until_first(&self, place: &Behind) {
        for note in &place.notes {
            poll_fn(|context| match self.untold.borrow_mut().get_mut(note) {
                Some(waiting) => {
                    waiting.push(context.waker().clone());
                    Poll::Pending
                }
                None => Poll::Ready(()),
            })
            .await;
        }
    }

    /// The writer in this place is told, who has noted something under this number.
    pub(crate) fn told(&self, place: &Behind, number: u64) {
        let mut last = self.last.borrow_mut();
        for partition in &place.partitions {
            if last.get(partition) == Some(&number) {
                last.remove(partition);
            }
        }
        let waiting = self.untold.borrow_mut().remove(&number);
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use uuid::Uuid;

    use super::*;

    fn partition(token: i64) -> BasePartition {
        (TableId(Uuid::nil()), Token(token))
    }

    fn is_first(order: &TellingOrder, place: &Behind) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(order.until_first(place)).poll(&mut context).is_ready()
    }

    #[test]
    fn a_write_is_told_behind_all_notes_of_its_partitions() {
        let order = TellingOrder::default();
        let first = order.place(&[partition(1), partition(2)]);
        order.note(&first, 0);
        let second = order.place(&[partition(2)]);
        order.note(&second, 1);
        let both = order.place(&[partition(1), partition(2)]);
        assert!(order.place(&[partition(3)]).is_first());
        assert!(is_first(&order, &first) && !is_first(&order, &second));
        order.told(&first, 0);
        assert!(is_first(&order, &second) && !is_first(&order, &both));
        order.told(&second, 1);
        assert!(is_first(&order, &both));
        assert!(order.place(&[partition(1), partition(2)]).is_first());
        assert!(order.last.borrow().is_empty() && order.untold.borrow().is_empty());
    }
}
