//! When a core looks what no event tells of: time-outs of connections, deadlines of what waits.

use std::cell::Cell;
use std::time::Instant;

use futures_lite::future::or;
use shard::notify::Notify;
use shard::runtime::sleep;

use crate::limits::{DEADLINE_INTERVAL, HOUSEKEEPING_INTERVAL};

/// When it is time to look what nothing tells of: every [`HOUSEKEEPING_INTERVAL`], and every [`DEADLINE_INTERVAL`]
/// while something waits that has a deadline.
#[derive(Default)]
pub(super) struct Ticks {
    /// It is time.
    pub(super) is_due: Cell<bool>,
    /// Something waits that has a deadline.
    pub(super) waits: Cell<bool>,
    /// Notified when something waits where nothing did.
    pub(super) began: Notify,
}

impl Ticks {
    /// Says when the first of what waits has its deadline, if something waits that has one.
    #[inline]
    pub(super) fn follow(&self, first_deadline: Option<Instant>) {
        let waits = first_deadline.is_some();
        if self.waits.replace(waits) != waits && waits {
            self.began.notify();
        }
    }

    /// Waits until it is time again.
    pub(super) async fn next(&self) {
        if !self.waits.get() {
            let quiet = async { sleep(HOUSEKEEPING_INTERVAL).await };
            or(quiet, self.began.notified()).await;
            return;
        }
        sleep(DEADLINE_INTERVAL).await;
    }
}
