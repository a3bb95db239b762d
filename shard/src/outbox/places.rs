//! How many batches a shard may have under way, and how many bytes they may hold: one more is `Overloaded`, and nothing
//! of it is done. A slow owner cannot make the others hold more than this for it.

use std::cell::Cell;
use std::rc::Rc;

use engine::{Error, Result};

use crate::limits::{BATCH_BYTES_MAX, BATCHES_MAX};

/// What the batches under way take.
#[derive(Debug)]
pub struct Places {
    /// What has no place if it is refused.
    what: &'static str,
    /// The same, if it is for the bytes.
    memory: &'static str,
    batches: Cell<usize>,
    bytes: Cell<usize>,
}

/// What is held of a batch at most: its parts, and each again on its way to the log that notes it, or to its owner.
const HELD_TIMES: usize = 2;

/// The place of one batch, until it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Rc<Places>,
    bytes: usize,
}

impl Places {
    /// Places for what is called so when one is refused, for the number or for the memory.
    pub fn of(what: &'static str, memory: &'static str) -> Rc<Places> {
        Rc::new(Places { what, memory, batches: Cell::new(0), bytes: Cell::new(0) })
    }

    /// A place for a batch of so many bytes. One that is alone may have any length that the log takes.
    pub fn take(self: &Rc<Self>, bytes: usize) -> Result<Place> {
        if self.batches.get() >= BATCHES_MAX {
            return Err(Error::Overloaded(self.what));
        }
        self.batches.set(self.batches.get() + 1);
        let mut place = Place { places: self.clone(), bytes: 0 };
        place.hold(bytes)?;
        Ok(place)
    }
}

impl Place {
    /// The batch has so many bytes: what it reads first may become more than was sent.
    pub fn hold(&mut self, bytes: usize) -> Result<()> {
        let Places { batches, bytes: held, memory, .. } = &*self.places;
        let (bytes, others) = (bytes * HELD_TIMES, held.get() - self.bytes);
        if batches.get() > 1 && others + bytes > BATCH_BYTES_MAX * HELD_TIMES {
            return Err(Error::Overloaded(memory));
        }
        held.set(others + bytes);
        self.bytes = bytes;
        Ok(())
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
        let places = Places::of("batches", "memory of batches");
        let mut taken: Vec<Place> =
            (0..BATCHES_MAX).map(|_| places.take(1).expect("there is a place")).collect();
        assert!(matches!(places.take(1), Err(Error::Overloaded(_))));
        taken.pop();
        assert!(places.take(BATCH_BYTES_MAX).is_err(), "there is a place and no memory");
        taken.clear();
        let mut alone = places.take(2 * BATCH_BYTES_MAX).expect("it is alone");
        assert!(places.take(1).is_err());
        alone.hold(1).expect("less");
        let mut other = places.take(1).expect("there is memory");
        assert!(other.hold(BATCH_BYTES_MAX).is_err(), "what was read first is too much");
        drop((alone, other));
        assert_eq!((places.batches.get(), places.bytes.get()), (0, 0));
    }
}
