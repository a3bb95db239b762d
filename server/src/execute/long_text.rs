//! Statements of long texts: compiled on a thread beside the core, whose other requests go on meanwhile.
//!
//! ```text
//! QUERY, PREPARE, BATCH ─┬─► text of more than COMPILED_AT_ONCE_BYTES ─► a task: its turn ─► the thread compiles
//! a peer's PREPARE      ─┘                                                  │ the schema is another: once more
//!                                                                           └─► run, or kept for EXECUTE ─► answer
//! ```
//!
//! A text may be as long as a frame, and a parser cannot pause: 14 MiB take a tenth of a second to compile.
//!
//! 1. One long text of a core is compiled at a time, in the order in which they came: what a text becomes is many times
//!    its bytes. Long BATCH messages take turns with them (`batch.rs`).
//! 2. A text that does not get its turn within the time of a write is refused, as OVERLOADED.
//! 3. What waits is counted (`held_bytes.rs`), also when its client is gone.
//! 4. The timestamp of a write is that of when it came.
//!
//! Another core does not compile such a text once more: rows that it owns come to the core of the client (`forward.rs`,
//! `parts.rs`). Not here: binding values, which is one step of the core, however long they are.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cql::bind::StatementTime;
use cql::frame::Reader;
use cql::frame::request::{Parameters, Prepare, Query};
use shard::stalls::Work;
use shard::{Asker, Group};

use super::call::{Call, Flow};
use super::held_bytes::CountedBytes;
use super::peers::{Answer, note_unprepared};
use super::statement::ServerStatement;
use super::{ExecuteError, Executor};
use crate::limits::{COMPILED_AT_ONCE_BYTES, COMPILED_BESIDE_TIMES_MAX};

/// The task of a long text.
const WORK: Work = Work { group: Group::Requests, name: "statement of a long text", table: None };

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
        let mut parameters = Vec::new();
        query.parameters.put(call.version, &mut parameters);
        let request_id = query.parameters.request_id.map(<[u8]>::to_vec);
        let timestamp_us = self.state.time(&query.parameters).timestamp_us;
        let long = match self.long_text(query.text, keyspace, parameters.capacity()) {
            Ok(long) => long,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        let executor = self.clone();
        self.shard.runtime().spawn(WORK, async move {
            let compiled = executor.compile_in_turn(&long).await;
            // The statement has its text.
            drop(long);
            let decoded = Parameters::decode(&mut Reader::new(&parameters), call.version);
            let mut decoded = decoded.expect("it was decoded when it came");
            decoded.request_id = request_id.as_deref();
            let time = StatementTime { timestamp_us, ..executor.state.time(&decoded) };
            let mut out = Vec::new();
            let flow = executor.run_text(call, &decoded, (compiled, time), &mut out);
            executor.end_task(flow, &out);
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
            let statement = executor.compile_in_turn_and_keep(&long).await?;
            executor.prepare_at_peers(&long.text, long.keyspace.as_deref()).await;
            executor.put_prepared(call, &statement, out)
        });
        Flow::Later
    }

    /// Prepares a long text that another core has prepared.
    #[cold]
    pub(super) fn prepare_long_for_peer(
        self: &Rc<Self>,
        asker: Asker,
        keyspace: Option<&str>,
        text: &str,
    ) {
        let long = self.long_text(text, keyspace.map(str::to_owned), 0);
        let executor = self.clone();
        self.shard.runtime().spawn(WORK, async move {
            let kept = match long {
                Ok(long) => executor.compile_in_turn_and_keep(&long).await,
                Err(refusal) => Err(refusal),
            };
            note_unprepared(kept);
            executor.shard.answer(asker, Answer::Done);
            // The pass publishes; it may be asleep.
            executor.shard.wake().notify();
        });
    }

    /// Compiles a text of a batch, whose task has its turn if one of its texts is long.
    pub(super) async fn compile_of_batch(
        &self,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<ServerStatement, ExecuteError> {
        match is_long(text) {
            true => self.compile_beside(text.into(), keyspace).await,
            false => Ok(self.state.compile(&self.shard, text, keyspace)?),
        }
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

    /// Compiles when it is its turn; `Overloaded` if that does not come within the time of a write.
    async fn compile_in_turn(&self, long: &LongText) -> Result<ServerStatement, ExecuteError> {
        let timeout = self.state.settings().timeouts.write;
        let waited = self.state.monotonic().saturating_duration_since(long.arrived);
        let turn = self.turn_within(&self.long_statements, timeout.saturating_sub(waited)).await;
        let _turn = turn.ok_or_else(|| not_compiled_in_time(timeout))?;
        self.compile_beside(long.text.clone(), long.keyspace.as_deref()).await
    }

    async fn compile_in_turn_and_keep(
        &self,
        long: &LongText,
    ) -> Result<Rc<ServerStatement>, ExecuteError> {
        let compiled = self.compile_in_turn(long).await?;
        Ok(self.state.keep(&self.shard, compiled))
    }

    /// Compiles on the thread beside the core, by the schema as it is when that is done.
    pub(super) async fn compile_beside(
        &self,
        text: Arc<str>,
        keyspace: Option<&str>,
    ) -> Result<ServerStatement, ExecuteError> {
        for _ in 0..COMPILED_BESIDE_TIMES_MAX {
            let (text, keyspace) = (text.clone(), keyspace.map(str::to_owned));
            let schema = self.shard.schema();
            let compile = move || ServerStatement::compile(&text, keyspace.as_deref(), &schema);
            let compiled = self.shard.runtime().beside(compile).await?;
            if compiled.is_valid(&self.shard.schema()) {
                return Ok(compiled);
            }
        }
        Err(ExecuteError::Overloaded(format!(
            "What the statement names was changed {COMPILED_BESIDE_TIMES_MAX} times while it was compiled: nothing of it was done"
        )))
    }
}

fn not_compiled_in_time(timeout: Duration) -> ExecuteError {
    let ms = timeout.as_millis();
    ExecuteError::Overloaded(format!(
        "Not compiled within {ms} ms, behind the long statements before it: nothing of it was done"
    ))
}
