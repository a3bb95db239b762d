//! The time that one pass gives to new requests.
//!
//! A request is answered in microseconds or suspended, but many of them come at once: what is not served when the turn
//! is over waits for the next pass, and answers that are ready are sent meanwhile.

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

    /// Whether its time is used up. A clock read.
    #[inline]
    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.ends
    }
}
