//! Writes that take long to bind: on a thread beside the core, whose other requests go on meanwhile.
//!
//! ```text
//! EXECUTE, QUERY of a write ─► long values of many parts or JSON, a long statement,
//!                              or one that was bound on the core and took too much work ┬─► a task: its turn
//! BATCH of such statements ───► a task (`batch.rs`) ───────────────────────────────────┘          └─► the thread binds
//!                                                                              submit ◄──────────────────┘
//! ```
//!
//! A map of 900,000 entries took a core 0.5 s, and an INSERT JSON of 14 MiB 0.3 s. A long text or blob takes what
//! copying it takes, and is bound on the core.
//!
//! 1. Long values, long texts and long BATCH messages of one core take turns, in the order in which they came.
//! 2. The time-out of the write counts from when the request came, its binding included. What does not get its turn in
//!    that time is refused, as OVERLOADED. What the schema has changed meanwhile is refused, too: an EXECUTE as
//!    UNPREPARED, so that drivers prepare again; a QUERY or BATCH as OVERLOADED.
//! 3. What waits is counted (`held_bytes.rs`), also when its client is gone; then it is not bound.
//! 4. The timestamp of a write is that of when the request came; that of a conditional one is of when it is bound.
//!
//! A QUERY of a long text waits twice: to be compiled, and to be bound. Its time-out begins when it is compiled.
//!
//! Not here: what calls functions of users, which run on the core; values of reads.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cql::bind::{Bindings, BoundOn, StatementTime};
use cql::expr::function::NoUserFunctions;
use cql::frame::request::{Batch, Parameters, Values};
use cql::frame::{Reader, Version};
use cql::plan::Scratch;
use cql::prepare::Prepared;

use super::batch::at_once;
use super::binder::{Bound, MessageKind};
use super::call::{Call, Flow};
use super::held_bytes::CountedBytes;
use super::owned_parameters::KeptParameters;
use super::statement::{BoundWhere, ServerStatement, Target};
use super::statement_clock::StatementClock;
use super::task::Waiting;
use super::write::{BoundWrite, check_statement};
use super::{ExecuteError, Executor, Run};
use crate::ids::IdsBeside;
use crate::limits::BOUND_AT_ONCE_BYTES;
use crate::session::Session;

/// The name of its tasks in `system_views.stalls`.
const NAME: &str = "write that takes long to bind";

/// Whether a write with these values is bound beside the core.
#[inline]
pub(super) fn is_bound_beside(statement: &ServerStatement, values: &Values<'_>) -> bool {
    match statement.bound {
        BoundWhere::OnCore => false,
        BoundWhere::BesideIfLong => {
            values.bytes() > BOUND_AT_ONCE_BYTES
                && statement.compiled.costly_bytes(values) > BOUND_AT_ONCE_BYTES
        }
        BoundWhere::Beside => true,
    }
}

/// A write that waits for its turn.
struct WriteBeside {
    statement: Rc<ServerStatement>,
    /// Whether the client has named the statement by its id.
    is_prepared: bool,
    parameters: Arc<KeptParameters>,
    /// When it came, in microseconds since 1970.
    timestamp_us: i64,
    session: Rc<Session>,
    waiting: Waiting,
    /// The bytes of the parameters: dropped with them.
    _counted: Option<CountedBytes>,
}

impl Executor {
    /// Runs a write that takes long to bind.
    #[cold]
    pub(super) fn write_beside(
        self: &Rc<Self>,
        call: Call,
        run: Run<'_>,
        out: &mut Vec<u8>,
    ) -> Flow {
        let long = match self.keep_write(&call, run) {
            Ok(long) => long,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        let executor = self.clone();
        self.spawn_flow(NAME, async move |out| {
            let bound = executor.bind_write_in_turn(&long).await;
            // The record has it all.
            drop(long);
            executor.submit(call, bound, out)
        });
        Flow::Later
    }

    fn keep_write(&self, call: &Call, run: Run<'_>) -> Result<WriteBeside, ExecuteError> {
        let Run { statement, parameters: given, target, time } = run;
        check_statement(statement, given.consistency)?;
        let timeouts = &self.state.settings().timeouts;
        let usual = match statement.compiled.statement.is_conditional() {
            true => timeouts.cas_contention,
            false => timeouts.write,
        };
        let is_prepared = matches!(target, Target::Execute(_));
        // They name nothing that a write needs.
        let given = Parameters { paging_state: None, keyspace: None, ..*given };
        // The plan of a text is kept by nothing else.
        let plan_bytes = if is_prepared { 0 } else { statement.bytes() };
        let bytes = KeptParameters::bytes_of_write(&given) + plan_bytes;
        let counted = self.waiting_statements.hold(bytes)?;
        let timeout = timeout_of(statement, &given, time)?.unwrap_or(usual);
        Ok(WriteBeside {
            statement: statement.clone(),
            is_prepared,
            parameters: Arc::new(KeptParameters::of(&given, call.version)),
            timestamp_us: time.timestamp_us,
            session: call.session.clone(),
            waiting: Waiting { to_be: "bound", arrived: self.state.monotonic(), timeout },
            _counted: counted,
        })
    }

    /// Binds a write when it is its turn.
    async fn bind_write_in_turn(&self, long: &WriteBeside) -> Result<BoundWrite<'_>, ExecuteError> {
        let WriteBeside { statement, waiting, .. } = long;
        let _turn = self.turn(&self.long_statements, *waiting, &long.session).await?;
        self.check_valid(long)?;
        let parameters = long.parameters.decoded();
        let time = match statement.compiled.statement.is_conditional() {
            true => self.state.own_time(&parameters),
            false => self.state.time_with(long.timestamp_us, &parameters),
        };
        let (binder, prepared) = (self.binder(BoundOn::ThreadBeside), statement.compiled.clone());
        let kept = long.parameters.clone();
        let bind = move |time: StatementTime<'_>| {
            let values = kept.decoded().values;
            let (mut record, mut scratch) = (Vec::new(), Scratch::default());
            let mut bindings = Bindings::new(&values, &prepared.markers, time)?;
            let bound = binder.statement(&prepared, &mut bindings, (&mut record, &mut scratch))?;
            Ok::<_, cql::Error>((bound, record))
        };
        let (bound, own) = self.bind_beside(time, bind).await?;
        self.check_valid(long)?;
        let bound = Bound { timeout: Some(self.time_left(*waiting)?), ..bound };
        let (mut record, _) = self.writes.buffers();
        *record = own;
        self.bound_statement(statement, &parameters, bound, record)
    }

    /// Refuses a write whose statement was changed by the schema while it waited. A driver prepares it again.
    fn check_valid(&self, long: &WriteBeside) -> Result<(), ExecuteError> {
        match long.statement.is_valid(&self.shard.schema()) {
            true => Ok(()),
            false if long.is_prepared => Err(ExecuteError::Unprepared(long.statement.id.to_vec())),
            false => Err(changed()),
        }
    }

    /// Binds the statements of a BATCH message, which has its turn.
    pub(super) async fn bind_message_beside(
        &self,
        (body, version): (Arc<Vec<u8>>, Version),
        kind: MessageKind,
        statements: Vec<Arc<Prepared>>,
        time: StatementTime<'_>,
    ) -> Result<(Bound, Vec<u8>), ExecuteError> {
        let binder = self.binder(BoundOn::ThreadBeside);
        self.bind_beside(time, move |time| {
            let batch = Batch::decode(Reader::new(&body), version);
            let batch = batch.expect("it was decoded when it came");
            let (mut record, mut scratch) = (Vec::new(), Scratch::default());
            let statements = statements.iter().map(|one| &**one);
            let buffers = (&mut record, &mut scratch);
            let bound = binder.message((&batch, kind), statements, time, buffers, async || Ok(()));
            Ok((at_once(bound)?, record))
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
        let (clock, ids) = (StatementClock::of(time), self.state.ids().beside());
        let work = move || {
            let bound = bind(clock.with(&ids, &NoUserFunctions));
            (bound, ids)
        };
        let (bound, ids): (T, IdsBeside) = self.off_core(work).await;
        self.state.ids().continue_after(&ids);
        bound
    }
}

/// What `USING TIMEOUT` says. Long values are not looked at for it.
fn timeout_of(
    statement: &ServerStatement,
    parameters: &Parameters<'_>,
    time: StatementTime<'_>,
) -> cql::Result<Option<Duration>> {
    let prepared = &statement.compiled;
    if !prepared.statement.has_timeout() {
        return Ok(None);
    }
    let bindings = Bindings::of_short(&parameters.values, &prepared.markers, time)?;
    prepared.statement.write_timeout(&bindings)
}

/// Refuses what was bound for a schema of before.
pub(super) fn changed() -> ExecuteError {
    let text =
        "What the statement names was changed while its values were bound: nothing of it was done";
    ExecuteError::Overloaded(text.to_owned())
}
