//! PREPARE: a statement is compiled and kept by every core, and the client is told its id.
//!
//! ```text
//! PREPARE ─► compiled and kept here ─► Ask::Prepare: the same on all other cores ─► PREPARED, with the warnings
//!       └► a long text: beside the core (`long_text.rs`)
//! ```
//!
//! Not here: how long what is kept is kept (`prepared.rs`), what a compiled statement is (`statement.rs`).

use std::rc::Rc;

use cql::frame::request::Prepare;
use cql::frame::response::add_warning;
use shard::Group;

use super::call::{Call, Flow};
use super::handshake::LwtMarks;
use super::long_text::is_long;
use super::peers::Ask;
use super::statement::ServerStatement;
use super::{ExecuteError, Executor};

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
        if self.shard.sharder().shards() == 1 {
            return match self.put_prepared(&call, &statement, out) {
                Ok(()) => Flow::Answered(call),
                Err(refusal) => self.refuse(call, refusal, out),
            };
        }
        let (executor, text) = (self.clone(), prepare.text.to_owned());
        self.spawn(Group::Requests, call, async move |call, out| {
            executor.prepare_at_peers(&text, keyspace.as_deref()).await;
            executor.put_prepared(call, &statement, out)
        });
        Flow::Later
    }

    /// Prepares a text on all other cores: EXECUTE may come to any, and all know the statement before the client does.
    pub(super) async fn prepare_at_peers(&self, text: &str, keyspace: Option<&str>) {
        let (keyspace, text) = (keyspace.map(str::to_owned), text.to_owned());
        let ask = || Ask::Prepare { keyspace: keyspace.clone(), text: text.clone() };
        self.shard.ask_peers(ask).await;
    }

    /// Appends the answer to PREPARE.
    pub(super) fn put_prepared(
        &self,
        call: &Call,
        statement: &ServerStatement,
        out: &mut Vec<u8>,
    ) -> Result<(), ExecuteError> {
        let warnings = self.guard_text(statement)?;
        let start = out.len();
        statement.put_prepared(&call.envelope(), LwtMarks::of(&call.session), out);
        warnings.iter().for_each(|text| add_warning(start, text, out));
        Ok(())
    }
}
