//! BATCH as a message: statements by text and by id, bound one after the other into one record.
//!
//! What one core owns of a batch is one record of its log, so it is durable and readable as a whole
//! or not at all; parts of different cores are not atomic with each other.

use super::statement::{Prepared, check_writable};
use super::{Call, Executor, Progress, Refusal};
use cql::bind::Bindings;
use cql::frame::request::{Batch, BatchText};
use cql::plan::BatchSize;
use cql::prepare::Statement;
use std::rc::Rc;

impl Executor {
    /// Runs a BATCH.
    pub(super) fn batch(
        self: &Rc<Self>,
        call: &mut Option<Call>,
        batch: &Batch<'_>,
        out: &mut Vec<u8>,
    ) -> Progress {
        let keyspace = self.keyspace_of(call, batch.parameters.keyspace);
        let mut statements: Vec<Rc<Prepared>> = Vec::new();
        for item in batch.statements() {
            let statement = match item.text {
                BatchText::Query(text) => Rc::new(self.core.compile(text, keyspace.as_deref())?),
                BatchText::Prepared(id) => self
                    .core
                    .prepared()
                    .borrow_mut()
                    .get(id)
                    .ok_or_else(|| Refusal::Unprepared(id.to_vec()))?,
            };
            let Statement::Write(plan) = &statement.compiled.statement else {
                return Err(Refusal::invalid(
                    "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.",
                ));
            };
            check_writable(&plan.table.keyspace)?;
            statements.push(statement);
        }
        let moment = self.core.moment(&batch.parameters);
        self.write(call, Vec::new(), out, |scratch, record| {
            let mut size = BatchSize::default();
            for (statement, item) in statements.iter().zip(batch.statements()) {
                let Statement::Write(plan) = &statement.compiled.statement else {
                    unreachable!("checked before")
                };
                let bindings = Bindings::new(&item.values, statement.markers(), moment)?;
                plan.bind_into_batch(&bindings, scratch, record, &mut size)?;
            }
            Ok(size.warning())
        })
    }
}
