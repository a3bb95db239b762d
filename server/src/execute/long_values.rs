//! Values that take long to bind: on a thread beside the core, whose other requests go on meanwhile.
//!
//! ```text
//! EXECUTE, QUERY of a write ─► long, and JSON or of many parts ─► a task: its turn ─┬─► the thread binds ─► submit
//! a long BATCH message ──────► a task already (`batch.rs`), which has its turn ─────┘
//! ```
//!
//! A map of 900,000 entries took a core 0.5 s, and an INSERT JSON of 14 MiB 0.3 s. A long text or blob takes what
//! copying it takes, and is bound on the core.
//!
//! 1. Long values, long texts and long BATCH messages of one core take turns, in the order in which they came.
//! 2. The time-out of the write counts from when the request came, its binding included. What does not get its turn in
//!    that time is refused, as OVERLOADED.
//! 3. What waits is counted (`held_bytes.rs`), also when its client is gone.
//! 4. The timestamp of a write is that of when the request came; that of a conditional one is of when it is bound.
//!
//! Not here: what calls functions of users, which run on the core; values of reads.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use cql::bind::{Bindings, StatementTime};
use cql::expr::function::NoUserFunctions;
use cql::frame::request::{Batch, Parameters};
use cql::frame::{Reader, Version};
use cql::lang::ast::BatchKind;
use cql::plan::Scratch;
use cql::prepare::Prepared;

use super::binder::{Binder, Bound};
use super::call::{Call, Flow};
use super::held_bytes::CountedBytes;
use super::long_text::not_in_time;
use super::owned_parameters::PlainTime;
use super::statement::ServerStatement;
use super::write::{BoundWrite, check_statement, is_conditional};
use super::{ExecuteError, Executor, Run};
use crate::ids::IdsBeside;
use crate::limits::BOUND_AT_ONCE_BYTES;

/// The name of its tasks in `system_views.stalls`.
const NAME: &str = "write of long values";

/// Whether values of so many bytes are bound beside the core.
#[inline]
pub(super) fn is_long(values_bytes: usize, prepared: &Prepared) -> bool {
    values_bytes > BOUND_AT_ONCE_BYTES && prepared.is_long_to_bind() && !prepared.calls_users()
}

/// A request whose values wait for their turn.
struct LongValues {
    /// Its parameters, as the protocol has them.
    parameters: Arc<Vec<u8>>,
    version: Version,
    /// What stands beside them: the name of a change of counters.
    request_id: Option<Vec<u8>>,
    /// When it came, in microseconds since 1970.
    timestamp_us: i64,
    /// When it came, by the monotonic clock.
    arrived: Instant,
    /// The bytes of the parameters: dropped with them.
    _counted: Option<CountedBytes>,
}

impl Executor {
    /// Runs a write of long values.
    #[cold]
    pub(super) fn write_long(self: &Rc<Self>, call: Call, run: Run<'_>, out: &mut Vec<u8>) -> Flow {
        let mut parameters = Vec::with_capacity(run.parameters.values.bytes() + 64);
        run.parameters.put(call.version, &mut parameters);
        let counted = match self.waiting_statements.hold(parameters.capacity()) {
            Ok(counted) => counted,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        let long = LongValues {
            parameters: Arc::new(parameters),
            version: call.version,
            request_id: run.parameters.request_id.map(<[u8]>::to_vec),
            timestamp_us: run.time.timestamp_us,
            arrived: self.state.monotonic(),
            _counted: counted,
        };
        let (executor, statement) = (self.clone(), run.statement.clone());
        self.spawn_flow(NAME, async move |out| {
            let bound = executor.bind_long_values(&statement, &long).await;
            // The record has it all.
            drop(long);
            executor.submit(call, bound, out)
        });
        Flow::Later
    }

    async fn bind_long_values(
        &self,
        statement: &ServerStatement,
        long: &LongValues,
    ) -> Result<BoundWrite<'_>, ExecuteError> {
        let waited = || self.state.monotonic().saturating_duration_since(long.arrived);
        let timeouts = &self.state.settings().timeouts;
        let usual =
            if is_conditional(statement) { timeouts.cas_contention } else { timeouts.write };
        let turn = self.turn_within(&self.long_statements, usual.saturating_sub(waited())).await;
        let _turn = turn.ok_or_else(|| not_in_time("bound", usual))?;
        let mut parameters = decoded(&long.parameters, long.version);
        parameters.request_id = long.request_id.as_deref();
        check_statement(statement, parameters.consistency)?;
        let time = match is_conditional(statement) {
            true => self.state.own_time(&parameters),
            false => {
                let timestamp_us = long.timestamp_us;
                StatementTime { timestamp_us, ..self.state.time(&parameters) }
            }
        };
        let (binder, prepared) = (self.binder(), statement.compiled.clone());
        let (kept, version) = (long.parameters.clone(), long.version);
        let (bound, own) = self
            .bind_beside(time, move |time| {
                let values = decoded(&kept, version).values;
                let (mut record, mut scratch) = (Vec::new(), Scratch::default());
                let mut bindings = Bindings::new(&values, &prepared.markers, time)?;
                let buffers = (&mut record, &mut scratch);
                let bound = binder.statement(&prepared, &mut bindings, buffers)?;
                Ok::<_, cql::Error>((bound, record))
            })
            .await?;
        let given = bound.timeout.unwrap_or(usual);
        let left = given.checked_sub(waited()).ok_or_else(|| not_in_time("bound", given))?;
        let (mut record, _) = self.writes.buffers();
        *record = own;
        let bound = Bound { timeout: Some(left), ..bound };
        self.bound_write(statement, &parameters, bound, record)
    }

    /// Binds the statements of a BATCH message, which has its turn.
    pub(super) async fn bind_message_beside(
        &self,
        (body, version): (Arc<Vec<u8>>, Version),
        kind: BatchKind,
        statements: Vec<Arc<Prepared>>,
        time: StatementTime<'_>,
    ) -> Result<(Bound, Vec<u8>), ExecuteError> {
        let binder = self.binder();
        self.bind_beside(time, move |time| {
            let batch = Batch::decode(Reader::new(&body), version);
            let batch = batch.expect("it was decoded when it came");
            let (mut record, mut scratch) = (Vec::new(), Scratch::default());
            let statements = statements.iter().map(|one| &**one);
            let buffers = (&mut record, &mut scratch);
            let bound = binder.message((&batch, kind), statements, time, buffers, async || Ok(()));
            Ok((super::batch::at_once(bound)?, record))
        })
        .await
    }

    /// Runs `bind` on the thread beside the core, at a time of this core.
    async fn bind_beside<T: Send + 'static>(
        &self,
        time: StatementTime<'_>,
        bind: impl FnOnce(StatementTime<'_>) -> T + Send + 'static,
    ) -> T {
        #[cfg(test)]
        self.bound_beside.set(self.bound_beside.get() + 1);
        let (plain, ids) = (PlainTime::of(time), self.state.ids().beside());
        let work = move || {
            let bound = bind(plain.with(&ids, &NoUserFunctions));
            (bound, ids)
        };
        let (bound, ids): (T, IdsBeside) = self.shard.runtime().run_off_core(work).await;
        self.state.ids().pass(&ids);
        // The clock stands still while the core sleeps: a pass sets it.
        self.shard.wake().notify();
        futures_lite::future::yield_now().await;
        bound
    }

    /// What binding needs of this core.
    pub(super) fn binder(&self) -> Binder {
        let settings = self.state.settings();
        Binder {
            sharder: self.shard.sharder(),
            thresholds: settings.batch,
            guardrails: self.watched_of_writes().map(|_| settings.guardrails.clone()),
            now_us: self.state.now_us(),
        }
    }
}

fn decoded(parameters: &[u8], version: Version) -> Parameters<'_> {
    let decoded = Parameters::decode(&mut Reader::new(parameters), version);
    decoded.expect("they were decoded when they came")
}
