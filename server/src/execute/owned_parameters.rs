//! The parameters of a request that goes on when its frame is gone: what a suspended read needs of them, or all of them
//! as the protocol has them, for a write or a long text that waits for its turn.

use std::sync::Arc;

use cql::bind::StatementTime;
use cql::frame::consistency::Consistency;
use cql::frame::request::{Parameters, ValueList};
use cql::frame::{Reader, Version};

use super::Run;
use super::node_state::NodeState;
use super::statement_clock::StatementClock;

/// Bytes of the parameters beside their values, at most, without a keyspace and a paging state.
const PARAMETERS_BYTES_MAX: usize = 64;

/// What a suspended read keeps of its request's parameters.
pub(super) struct OwnedParameters {
    /// The level that the client asked for.
    pub(super) level: Consistency,
    /// A copy of the values of its markers.
    pub(super) values: ValueList,
    clock: StatementClock,
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
        OwnedParameters { level: parameters.consistency, values, clock: StatementClock::of(time) }
    }

    /// The time of its statement.
    pub(super) fn time<'m>(&self, state: &'m NodeState) -> StatementTime<'m> {
        self.clock.with(state.ids(), state.functions())
    }
}

/// All parameters of a QUERY or EXECUTE.
pub(super) struct KeptParameters {
    /// As the protocol has them; a thread may have them, too.
    bytes: Arc<Vec<u8>>,
    version: Version,
    /// What stands beside them in the request: the name of a change of counters.
    request_id: Option<Vec<u8>>,
}

impl KeptParameters {
    /// Copies the parameters of a request.
    pub(super) fn of(parameters: &Parameters<'_>, version: Version) -> KeptParameters {
        let mut bytes = Vec::with_capacity(parameters.values.bytes() + PARAMETERS_BYTES_MAX);
        parameters.put(version, &mut bytes);
        let request_id = parameters.request_id.map(<[u8]>::to_vec);
        KeptParameters { bytes: Arc::new(bytes), version, request_id }
    }

    /// The bytes that the parameters of a write take, which have neither a keyspace nor a paging state.
    pub(super) fn bytes_of_write(parameters: &Parameters<'_>) -> usize {
        parameters.values.bytes() + PARAMETERS_BYTES_MAX
    }

    /// The bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The parameters, with what stood beside them.
    pub(super) fn decoded(&self) -> Parameters<'_> {
        let decoded = Parameters::decode(&mut Reader::new(&self.bytes), self.version);
        let decoded = decoded.expect("they were decoded when they came");
        Parameters { request_id: self.request_id.as_deref(), ..decoded }
    }
}
