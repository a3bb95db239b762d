//! The parameters of a request that goes on when its frame is gone.

use cql::bind::StatementTime;
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
    timestamp_us: i64,
    now_ms: i64,
    now_s: u32,
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
        OwnedParameters {
            level: parameters.consistency,
            values,
            timestamp_us: time.timestamp_us,
            now_ms: time.now_ms,
            now_s: time.now_s,
        }
    }

    /// The time of its statement.
    pub(super) fn time<'m>(&self, state: &'m NodeState) -> StatementTime<'m> {
        let OwnedParameters { timestamp_us, now_ms, now_s, .. } = *self;
        let (ids, functions) = (state.ids(), state.functions());
        StatementTime { timestamp_us, now_ms, now_s, ids, functions }
    }
}
