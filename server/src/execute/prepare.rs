//! PREPARE: a statement is compiled and kept by every core, and the client is told its id.
//!
//! ```text
//! PREPARE ─► compiled and kept here ─► Ask::Prepare: the same on all other cores ─► PREPARED, with the warnings
//!       └► a long text: beside the core (`long_text.rs`)
//! ```
//!
//! While the other cores are asked, what waits is the text and the answer, which are counted (`held_bytes.rs`). They are
//! asked for some PREPAREs at a time: writes and reads go the same way.
//!
//! Not here: the cache of kept statements, and which it forgets (`prepared.rs`); what a compiled statement is
//! (`statement.rs`).

use std::rc::Rc;
use std::sync::Arc;

use cql::frame::request::Prepare;
use cql::frame::response::add_warning;
use shard::Group;

use super::Executor;
use super::call::{Call, Flow};
use super::handshake::LwtMarks;
use super::long_text::is_long;
use super::peers::Ask;
use super::statement::ServerStatement;

impl Executor {
    /// Runs a PREPARE.
    pub(super) fn prepare(
        self: &Rc<Self>,
        mut call: Call,
        prepare: &Prepare<'_>,
        out: &mut Vec<u8>,
    ) -> Flow {
        let keyspace = call.keyspace(prepare.keyspace);
        if let Some(trace) = &mut call.trace {
            trace.of("Preparing CQL3 query", Some(prepare.text), None);
        }
        if is_long(prepare.text) {
            return self.prepare_long(call, prepare, keyspace, out);
        }
        let kept = self.state.compile_and_keep(&self.shard, prepare.text, keyspace.as_deref());
        let statement = match kept {
            Ok(statement) => statement,
            Err(error) => return self.refuse(call, error.into(), out),
        };
        let warnings = match self.guard_text(&statement) {
            Ok(warnings) => warnings,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        if self.shard.sharder().shards() == 1 {
            put_prepared(&call, &statement, &warnings, out);
            return Flow::Answered(call);
        }
        // The statement takes many times the bytes of its text, and may be forgotten meanwhile: it does not wait along.
        let mut frame = Vec::new();
        put_prepared(&call, &statement, &warnings, &mut frame);
        let counted = match self.waiting_statements.hold(prepare.text.len() + frame.capacity()) {
            Ok(counted) => counted,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        let (executor, text) = (self.clone(), prepare.text.into());
        self.spawn(Group::Requests, call, async move |_, out| {
            let _turn = executor.short_prepares.take(1).await;
            executor.prepare_at_peers(keyspace, text).await;
            *out = frame;
            drop(counted);
            Ok(())
        });
        Flow::Later
    }

    /// Prepares a text on all other cores: EXECUTE may come to any, and all know the statement before the client does.
    pub(super) async fn prepare_at_peers(&self, keyspace: Option<String>, text: Arc<str>) {
        let ask = || Ask::Prepare { keyspace: keyspace.clone(), text: text.clone() };
        self.shard.ask_peers(ask).await;
    }
}

/// Appends the answer to PREPARE.
pub(super) fn put_prepared(
    call: &Call,
    statement: &ServerStatement,
    warnings: &[String],
    out: &mut Vec<u8>,
) {
    let start = out.len();
    statement.put_prepared(&call.envelope(), LwtMarks::of(&call.session), out);
    warnings.iter().for_each(|text| add_warning(start, text, out));
}
