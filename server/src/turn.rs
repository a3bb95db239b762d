//! The time that one pass gives to new requests, and to sending answers.
//!
//! A request is answered in microseconds or suspended, but many of them come at once: what is not served when the turn
//! is over waits for the next pass, and answers that are ready are sent meanwhile. A send takes the kernel some ten
//! microseconds, and a commit answers all that waited for it: connections that were not reached when the turn is over
//! are sent to in the next pass.

use std::time::Instant;

use crate::limits::PASS_SLICE;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    ends: Instant,
}

impl Turn {
    /// A turn that begins now.
    pub(crate) fn begin() -> Turn {
        Turn { ends: Instant::now() + PASS_SLICE }
    }

    /// A turn that is over.
    #[cfg(test)]
    pub(crate) fn over() -> Turn {
        Turn { ends: Instant::now() }
    }

    /// Whether its time is used up. A clock read.
    #[inline]
    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.ends
    }
}
