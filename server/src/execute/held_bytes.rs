//! The memory of one kind of thing that waits on one core: bytes, counted until they are dropped.
//!
//! ```text
//! hold(bytes) ─► counted ─► dropped: the bytes are free again
//!      └► too much with what is held: OVERLOADED, unless nothing is held
//! ```
//!
//! 1. What reads name: the keys and clustering bounds that an IN makes. A request of 65 KB may name 2 MiB, a long value
//!    being in each key beside the values of an IN. Its read keeps them from when it is bound until it ends.
//! 2. Long texts, from when they come until they are compiled, long values and BATCH messages, until they are bound,
//!    and the statements of changes of the schema, until they are made: also when their clients are gone. Texts that
//!    are prepared, until every core has them. What the text of a read or DESCRIBE was compiled to, while that
//!    waits: some hundred times as many bytes.
//!
//! Not here: the bytes of requests, which are counted until these are answered (`load.rs`, `orphans.rs`).

use std::cell::Cell;
use std::rc::Rc;

use super::ExecuteError;
use crate::limits::HELD_UNCOUNTED_BYTES_MAX;

/// What is counted on one core.
#[derive(Debug)]
pub(super) struct HeldBytes {
    /// The subject of the refusal, in the plural: "`subject` take N bytes".
    subject: &'static str,
    held_bytes: Cell<usize>,
    bytes_max: usize,
}

/// The bytes of one request, until this is dropped.
#[derive(Debug)]
pub(super) struct CountedBytes {
    all: Rc<HeldBytes>,
    bytes: usize,
}

impl HeldBytes {
    /// Nothing yet, of so many bytes at most.
    pub(super) fn new(subject: &'static str, bytes_max: usize) -> Rc<HeldBytes> {
        Rc::new(HeldBytes { subject, held_bytes: Cell::default(), bytes_max })
    }

    /// Counts so many bytes more; `None` if they are too few to be counted. What comes when nothing is held is taken,
    /// however large.
    pub(super) fn hold(
        self: &Rc<Self>,
        bytes: usize,
    ) -> Result<Option<CountedBytes>, ExecuteError> {
        if bytes <= HELD_UNCOUNTED_BYTES_MAX {
            return Ok(None);
        }
        let (subject, held, most) = (self.subject, self.held_bytes.get(), self.bytes_max);
        if held > 0 && held.saturating_add(bytes) > most {
            return Err(ExecuteError::Overloaded(format!(
                "Request not taken: {subject} take {bytes} bytes, and requests that wait on this shard hold {held} of \
                 at most {most}"
            )));
        }
        self.held_bytes.set(held + bytes);
        Ok(Some(CountedBytes { all: self.clone(), bytes }))
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.all.held_bytes.set(self.all.held_bytes.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_can_be_held_again_and_one_alone_may_be_long() {
        let all = HeldBytes::new("its values", 10_000);
        let refused = |bytes| match all.hold(bytes) {
            Err(ExecuteError::Overloaded(text)) => text,
            other => panic!("{other:?}"),
        };
        let long = all.hold(100_000).unwrap();
        assert!(all.hold(HELD_UNCOUNTED_BYTES_MAX).unwrap().is_none(), "few");
        assert_eq!(
            refused(5000),
            "Request not taken: its values take 5000 bytes, and requests that wait on this shard hold 100000 of at most 10000"
        );
        drop(long);
        let parts = [all.hold(5500).unwrap(), all.hold(4500).unwrap()];
        refused(5000);
        drop(parts);
        assert!(all.hold(100_000).is_ok());
    }
}
