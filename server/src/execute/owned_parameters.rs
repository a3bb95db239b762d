//! The parameters of a request that goes on when its frame is gone.

use cql::bind::{Ids, StatementTime};
use cql::expr::function::UserFunctions;
use cql::frame::consistency::Consistency;
use cql::frame::request::ValueList;

use super::Run;
use super::node_state::NodeState;

/// What a suspended read keeps of its request's parameters.
pub(super) struct OwnedParameters {
    /// The level that the client asked for.
    pub(super) level: Consistency,
    /// A copy of the values of its markers.
    pub(super) values: ValueList,
    time: PlainTime,
}

/// [`StatementTime`] without what only its core has.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainTime {
    timestamp_us: i64,
    now_ms: i64,
    now_s: u32,
}

impl PlainTime {
    /// The time of a statement.
    pub(super) fn of(time: StatementTime<'_>) -> PlainTime {
        let StatementTime { timestamp_us, now_ms, now_s, .. } = time;
        PlainTime { timestamp_us, now_ms, now_s }
    }

    /// The time with where ids come from, and what runs functions of users.
    pub(super) fn with<'t>(
        self,
        ids: &'t dyn Ids,
        functions: &'t dyn UserFunctions,
    ) -> StatementTime<'t> {
        let PlainTime { timestamp_us, now_ms, now_s } = self;
        StatementTime { timestamp_us, now_ms, now_s, ids, functions }
    }
}

impl OwnedParameters {
    /// Copies the parameters of a request.
    pub(super) fn of(Run { parameters, time, .. }: Run<'_>) -> OwnedParameters {
        let mut values = ValueList::new();
        for (name, value) in parameters.values.named_iter() {
            if parameters.values.is_named() {
                values.push_named(name, value);
            } else {
                values.push(value);
            }
        }
        OwnedParameters { level: parameters.consistency, values, time: PlainTime::of(time) }
    }

    /// The time of its statement.
    pub(super) fn time<'m>(&self, state: &'m NodeState) -> StatementTime<'m> {
        self.time.with(state.ids(), state.functions())
    }
}
