//! Timestamps that a start gives are newer than those that the node gave before, however it ended.
//!
//! ```text
//! layout says        noted ├──────── slack ────────┤      what was given lies at or before the end of the slack
//! data says                       newest ┤                what was given and is there lies at or before this
//! a start gives                          └─►              later than the smaller of the two
//! ```
//!
//! 1. What was given is noted in the layout when it is half a slack above what was noted, and at an orderly stop.
//! 2. A write that was answered is in the log or in a file, so its timestamp is no newer than the newest there.
//! 3. A client's own timestamp may lie in the far future. It moves the clock of a start by the slack at most.
//!
//! The wall clock, where it is ahead of all this, is what counts. `docs/decisions/2026-11-22-timestamps.md` has the
//! reasons. Not here: giving timestamps (`clock.rs`).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use crate::boot::Home;
use crate::clock::Clocks;
use crate::limits::{HOUSEKEEPING_INTERVAL, TIMESTAMP_SLACK_US};
use crate::runtime::Runtime;

/// What a start gives lies above this (µs): `noted_us` is what the layout said, `newest_us` the newest timestamp in the
/// data of all shards.
pub(crate) fn floor_us(noted_us: i64, newest_us: i64) -> i64 {
    noted_us.max(newest_us.min(noted_us.saturating_add(TIMESTAMP_SLACK_US)))
}

/// Notes in the layout, every second, what the cores gave: of the first core.
pub(crate) async fn keep_noting(runtime: Runtime, clocks: Arc<Clocks>, home: Rc<Home>) {
    let failed = Cell::new(false);
    loop {
        let noted = home.note(clocks.given_us()).await;
        if let (Err(error), false) = (&noted, failed.replace(noted.is_err())) {
            tracing::warn!(%error, "the layout does not say which timestamps were given");
        }
        runtime.sleep(HOUSEKEEPING_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_goes_on_where_the_data_ends_and_no_further_than_the_slack() {
        let noted = 1_700_000_000_000_000;
        assert_eq!(floor_us(noted, i64::MIN), noted, "no data: what was noted was given");
        assert_eq!(floor_us(noted, noted - 5), noted);
        assert_eq!(floor_us(noted, noted + 5), noted + 5, "given after it was noted");
        assert_eq!(floor_us(noted, i64::MAX), noted + TIMESTAMP_SLACK_US, "a client's word");
        assert_eq!(floor_us(i64::MAX, i64::MAX), i64::MAX);
    }
}
