//! How many batches a shard may have under way, and how many bytes they may hold: one more is `Overloaded`, and nothing
//! of it is done. A slow owner cannot make the others hold more than this for it.

use std::cell::Cell;
use std::rc::Rc;

use engine::{Error, Result};

use crate::limits::{BATCH_BYTES_MAX, BATCHES_MAX};

/// What the batches under way take.
#[derive(Debug, Default)]
pub struct Places {
    batches: Cell<usize>,
    bytes: Cell<usize>,
}

/// The place of one batch, until it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Rc<Places>,
    bytes: usize,
}

impl Places {
    /// A place for a batch of so many bytes. One that is alone may have any length that the log takes.
    pub fn take(self: &Rc<Self>, bytes: usize) -> Result<Place> {
        let (batches, sum) = (self.batches.get() + 1, self.bytes.get() + bytes);
        if batches > BATCHES_MAX || batches > 1 && sum > BATCH_BYTES_MAX {
            return Err(Error::Overloaded("logged batches over several shards"));
        }
        self.batches.set(batches);
        self.bytes.set(sum);
        Ok(Place { places: self.clone(), bytes })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.batches.set(self.places.batches.get() - 1);
        self.places.bytes.set(self.places.bytes.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_too_many_is_refused_until_one_is_over() {
        let places = Rc::new(Places::default());
        let mut taken: Vec<Place> =
            (0..BATCHES_MAX).map(|_| places.take(1).expect("there is a place")).collect();
        assert!(matches!(places.take(1), Err(Error::Overloaded(_))));
        taken.pop();
        assert!(places.take(BATCH_BYTES_MAX).is_err(), "there is a place and no memory");
        taken.clear();
        let alone = places.take(2 * BATCH_BYTES_MAX).expect("it is alone");
        assert!(places.take(1).is_err());
        drop(alone);
        assert_eq!((places.batches.get(), places.bytes.get()), (0, 0));
    }
}
