//! The numbers of a [`StatementTime`], which may go to another thread or core: the timestamp, and what counts as now.

use cql::bind::{Ids, StatementTime};
use cql::expr::function::UserFunctions;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatementClock {
    timestamp_us: i64,
    server_timestamp_us: Option<i64>,
    now_ms: i64,
    now_s: u32,
}

impl StatementClock {
    /// The time of a statement.
    pub(super) fn of(time: StatementTime<'_>) -> StatementClock {
        let StatementTime { timestamp_us, server_timestamp_us, now_ms, now_s, .. } = time;
        StatementClock { timestamp_us, server_timestamp_us, now_ms, now_s }
    }

    /// The time with where ids come from, and what runs functions of users.
    pub(super) fn with<'t>(
        self,
        ids: &'t dyn Ids,
        functions: &'t dyn UserFunctions,
    ) -> StatementTime<'t> {
        let StatementClock { timestamp_us, server_timestamp_us, now_ms, now_s } = self;
        StatementTime { timestamp_us, server_timestamp_us, now_ms, now_s, ids, functions }
    }
}
