//! Statements of long texts: compiled on a thread beside the core, whose other requests go on meanwhile.
//!
//! ```text
//! QUERY, PREPARE, BATCH ─┬─► text of more than COMPILED_AT_ONCE_BYTES ─► a task: its turn ─► the thread compiles
//! a peer's PREPARE      ─┘                                                  │ the schema is another: once more
//!                                                                           └─► run, or kept for EXECUTE ─► answer
//! ```
//!
//! A text may be as long as a frame, and a parser cannot pause: a literal of 14 MiB took 0.1 s to compile, an INSERT
//! JSON of as many bytes 0.2 s.
//!
//! 1. One long text of a core is compiled at a time, in the order in which they came: what a text becomes is many times
//!    its bytes. Long BATCH messages take turns with them (`batch.rs`). A core prepares one at a time, with all others.
//! 2. A text that does not get its turn within the time of a write is refused, as OVERLOADED. The time-out of the
//!    statement begins when it is compiled.
//! 3. What waits is counted (`held_bytes.rs`), also when its client is gone; then it is not compiled.
//! 4. The timestamp of a write is that of when it came. The answer of a read is counted from its first byte.
//! 5. Who has its turn to compile waits for no other core.
//!
//! The owner of the rows of such a SELECT does not compile its text once more: the rows come to the core of the client
//! (`forward.rs`, `parts.rs`). Not here: long values of markers (`beside_core.rs`).

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use cql::frame::request::{Prepare, Query};
use shard::{Asker, Group};

use super::call::{Call, Flow};
use super::held_bytes::CountedBytes;
use super::owned_parameters::KeptParameters;
use super::peers::{Answer, note_unprepared};
use super::prepare::put_prepared;
use super::statement::ServerStatement;
use super::task::Waiting;
use super::{ExecuteError, Executor};
use crate::limits::{COMPILE_ATTEMPTS_MAX, COMPILED_AT_ONCE_BYTES};
use crate::session::Session;

/// The name of its tasks in `system_views.stalls`.
const NAME: &str = "statement of a long text";

/// Whether a text is compiled beside the core.
#[inline]
pub(super) fn is_long(text: &str) -> bool {
    text.len() > COMPILED_AT_ONCE_BYTES
}

/// A long text that waits for its turn.
struct LongText {
    text: Arc<str>,
    keyspace: Option<String>,
    arrived: Instant,
    /// The bytes of the text: dropped with it.
    _counted: Option<CountedBytes>,
}

impl Executor {
    /// Runs a QUERY of a long text.
    #[cold]
    pub(super) fn query_long(
        self: &Rc<Self>,
        call: Call,
        query: &Query<'_>,
        keyspace: Option<String>,
        out: &mut Vec<u8>,
    ) -> Flow {
        let parameters = KeptParameters::of(&query.parameters, call.version);
        let timestamp_us = self.state.time(&query.parameters).timestamp_us;
        let long = match self.long_text(query.text, keyspace, parameters.bytes()) {
            Ok(long) => long,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        let executor = self.clone();
        self.spawn_flow(NAME, async move |out| {
            let compiled = executor.compile_in_turn(&long, &call.session).await;
            // The statement has its text.
            drop(long);
            let decoded = parameters.decoded();
            let time = executor.state.time_with(timestamp_us, &decoded);
            executor.run_text(call, &decoded, (compiled, time), out)
        });
        Flow::Later
    }

    /// Prepares a long text, and answers when all cores know it.
    #[cold]
    pub(super) fn prepare_long(
        self: &Rc<Self>,
        call: Call,
        prepare: &Prepare<'_>,
        keyspace: Option<String>,
        out: &mut Vec<u8>,
    ) -> Flow {
        let long = match self.long_text(prepare.text, keyspace, 0) {
            Ok(long) => long,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        let executor = self.clone();
        self.spawn(Group::Requests, call, async move |call, out| {
            let waiting = executor.waiting_text(&long);
            let _alone = executor.turn(&executor.long_prepares, waiting, &call.session).await?;
            let turn = executor.turn(&executor.long_statements, waiting, &call.session).await?;
            let statement = executor.compile_and_keep_off_core(&long).await?;
            drop(turn);
            let warnings = executor.guard_text(&statement)?;
            executor.prepare_at_peers(long.keyspace.clone(), long.text.clone()).await;
            put_prepared(call, &statement, &warnings, out);
            Ok(())
        });
        Flow::Later
    }

    /// Prepares a long text of another core, however long it waits for its turn: the other core counts the text, and
    /// answers its client when all cores have prepared it.
    #[cold]
    pub(super) fn prepare_long_for_peer(
        self: &Rc<Self>,
        asker: Asker,
        keyspace: Option<String>,
        text: Arc<str>,
    ) {
        let long = LongText { text, keyspace, arrived: self.state.monotonic(), _counted: None };
        let executor = self.clone();
        self.answer_later(asker, (Group::Requests, NAME), async move {
            let turn = executor.long_statements.take(1).await;
            note_unprepared(executor.compile_and_keep_off_core(&long).await);
            drop(turn);
            Answer::Done
        });
    }

    /// Keeps a text, and counts its bytes and those that are kept beside it.
    fn long_text(
        &self,
        text: &str,
        keyspace: Option<String>,
        beside_bytes: usize,
    ) -> Result<LongText, ExecuteError> {
        let counted = self.waiting_statements.hold(text.len() + beside_bytes)?;
        let arrived = self.state.monotonic();
        Ok(LongText { text: text.into(), keyspace, arrived, _counted: counted })
    }

    async fn compile_in_turn(
        &self,
        long: &LongText,
        session: &Session,
    ) -> Result<ServerStatement, ExecuteError> {
        let waiting = self.waiting_text(long);
        let _turn = self.turn(&self.long_statements, waiting, session).await?;
        self.compile_off_core(long.text.clone(), long.keyspace.as_deref()).await
    }

    /// A text waits for its turn as long as a write may take.
    fn waiting_text(&self, long: &LongText) -> Waiting {
        let timeout = self.state.settings().timeouts.write;
        Waiting { to_be: "compiled", arrived: long.arrived, timeout }
    }

    /// Finds the statement of a text among those that are kept, or compiles and keeps it.
    async fn compile_and_keep_off_core(
        &self,
        long: &LongText,
    ) -> Result<Rc<ServerStatement>, ExecuteError> {
        let (text, keyspace) = (long.text.clone(), long.keyspace.clone());
        let ids = move || ServerStatement::ids_of(&text, keyspace.as_deref());
        let ids = self.shard.runtime().run_off_core(ids).await;
        if let Some(known) = self.state.find(&self.shard, &long.text, &ids) {
            return Ok(known);
        }
        let compiled = self.compile_off_core(long.text.clone(), long.keyspace.as_deref()).await?;
        Ok(self.state.keep(&self.shard, compiled))
    }

    /// Compiles on the thread beside the core. What it gives is valid by the schema as it is then.
    pub(super) async fn compile_off_core(
        &self,
        text: Arc<str>,
        keyspace: Option<&str>,
    ) -> Result<ServerStatement, ExecuteError> {
        for _ in 0..COMPILE_ATTEMPTS_MAX {
            let (text, keyspace) = (text.clone(), keyspace.map(str::to_owned));
            let schema = self.shard.schema();
            let compile = move || ServerStatement::compile(&text, keyspace.as_deref(), &schema);
            let compiled = self.off_core(compile).await?;
            if compiled.is_valid(&self.shard.schema()) {
                return Ok(compiled);
            }
        }
        Err(ExecuteError::Overloaded(format!(
            "What the statement names was changed {COMPILE_ATTEMPTS_MAX} times while it was compiled: nothing of it was done"
        )))
    }
}
