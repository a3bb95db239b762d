//! How long one step of a pass may take: new requests, mail of other cores, writes that are done or late, delivery,
//! sending, housekeeping.
//!
//! A request is answered in microseconds or suspended, but many of them come at once: what is not served when the slice
//! ends waits for the next pass, and answers that are ready are sent meanwhile. A send takes the kernel some ten
//! microseconds, and a commit answers all that waited for it: connections that were not reached when the slice ends are
//! sent to in the next pass.

use std::time::{Duration, Instant};

use crate::limits::PASS_SLICE;

/// A stretch of time, by its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeSlice {
    ends: Instant,
}

impl TimeSlice {
    /// A slice of [`PASS_SLICE`] that begins now.
    pub(crate) fn begin() -> TimeSlice {
        TimeSlice::of(PASS_SLICE)
    }

    /// A slice of this length that begins now.
    pub(crate) fn of(length: Duration) -> TimeSlice {
        TimeSlice { ends: Instant::now() + length }
    }

    /// A slice that is over.
    #[cfg(test)]
    pub(crate) fn over() -> TimeSlice {
        TimeSlice { ends: Instant::now() }
    }

    /// Whether its time is used up. A clock read.
    #[inline]
    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.ends
    }
}
