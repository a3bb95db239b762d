//! Reads: from memory inside the pass, else in a task.
//!
//! Both ways are the same three steps: bind, read into the encoder, close the frame. The task binds
//! again from its own copy of the values, since the request's bytes are gone by then.

use super::call::{Call, Flow};
use super::consistency::{check_read, level_of_read};
use super::statement::{Prepared, Target};
use super::trace::Trace;
use super::{Executor, Refusal, Run};
use crate::ids::Ids;
use crate::system;
use cql::bind::{Bindings, Moment};
use cql::frame::consistency::Consistency;
use cql::frame::request::{Parameters, ValueList};
use cql::frame::response::Envelope;
use cql::plan::{BoundRead, Page, SelectPlan};
use engine::{Error, read_record};
use model::ReadEnd;
use model::read::Partitions;
use shard::Group;
use shard::shard::group_of;
use std::rc::Rc;

impl Executor {
    /// Runs a SELECT.
    #[inline]
    pub(super) fn select(
        self: &Rc<Self>,
        call: Call,
        run: Run<'_>,
        plan: &SelectPlan,
        out: &mut Vec<u8>,
    ) -> Flow {
        let Run { statement, parameters, target } = run;
        let moment = self.state.moment(parameters);
        let bound = Bindings::new(&parameters.values, statement.markers(), moment)
            .map_err(Refusal::from)
            .and_then(|bindings| Ok((self.bind_read(run, plan, &bindings)?, bindings)));
        let (bound, bindings) = match bound {
            Ok(bound) => bound,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        let level = parameters.consistency;
        let select = Select { statement, plan, bindings: &bindings, bound: &bound, target, level };
        match self.select_now(&select, &call.envelope(), out) {
            Err(Refusal::Read(Error::WouldBlock, _)) => {}
            done => {
                if let Some(trace) = &call.trace {
                    trace_read(trace, self.state.now_us(), plan, &bound);
                    trace.event(self.state.now_us(), "Read from the memory of this shard");
                }
                return match done {
                    Ok(()) => Flow::Answered(call),
                    Err(refusal) => self.refuse(call, refusal, out),
                };
            }
        }
        let group = bound.command.as_ref().map_or(Group::Requests, group_of);
        let (executor, statement) = (self.clone(), statement.clone());
        let parameters = OwnedParameters::of(parameters, &moment);
        self.spawn(group, call, async move |call, out| {
            executor.select_later(call, &statement, &parameters, target, out).await
        });
        Flow::Later
    }

    #[inline]
    fn bind_read(
        &self,
        run: Run<'_>,
        plan: &SelectPlan,
        bindings: &Bindings<'_>,
    ) -> Result<BoundRead, Refusal> {
        let Run { statement, parameters, .. } = run;
        check_read(parameters.consistency)?;
        let page = Page { rows: parameters.page_rows, state: parameters.paging_state };
        let bound = plan.bind_read(bindings, page)?;
        if let Some(command) = &bound.command {
            let level = level_of_read(parameters.consistency, &command.partitions);
            statement.replication.iter().try_for_each(|replication| replication.check(level))?;
        }
        Ok(bound)
    }

    /// Answers from memory, or `WouldBlock`: then nothing was appended.
    #[inline]
    fn select_now(
        &self,
        select: &Select<'_>,
        envelope: &Envelope<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let start = out.len();
        let (plan, bound) = (select.plan, select.bound);
        let answer = |out: &mut Vec<u8>| {
            let open = select.statement.open_rows(envelope, select.target, out);
            let mut encoder = plan.encoder(select.bindings, bound.encoder_limit, out)?;
            let end = match &bound.command {
                None => ReadEnd::default(),
                Some(command) if system::is_computed(&plan.table.keyspace) => {
                    let Some(record) = self.computed_now(&plan.table) else {
                        return Err(select.refusal(Error::WouldBlock));
                    };
                    read_record(&plan.table, &record, command, &mut encoder)
                        .map_err(|error| select.refusal(error))?
                }
                Some(command) => self
                    .shard
                    .read_cached(command, &mut encoder)
                    .map_err(|error| select.refusal(error))?,
            };
            // An aggregate over more than one page goes on in a task.
            if bound.reads_all && end.more.is_some() {
                return Err(select.refusal(Error::WouldBlock));
            }
            let rows = encoder.finish()?;
            open.close(rows, select.state(&end).as_deref(), out);
            Ok(())
        };
        answer(out).inspect_err(|_| out.truncate(start))
    }

    /// Answers however long it takes.
    async fn select_later(
        &self,
        call: &Call,
        statement: &Prepared,
        parameters: &OwnedParameters,
        target: Target,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let plan = statement.select().expect("only a SELECT comes here");
        let values = parameters.values.as_values(call.version);
        let moment = parameters.moment(self.state.ids());
        let bindings = Bindings::new(&values, statement.markers(), moment)?;
        let page = Page { rows: parameters.page_rows, state: parameters.paging_state.as_deref() };
        let bound = plan.bind_read(&bindings, page)?;
        let level = parameters.level;
        let select = Select { statement, plan, bindings: &bindings, bound: &bound, target, level };
        if let Some(trace) = &call.trace {
            trace_read(trace, self.state.now_us(), plan, &bound);
        }
        let open = statement.open_rows(&call.envelope(), target, out);
        let mut encoder = plan.encoder(&bindings, bound.encoder_limit, out)?;
        let mut end = ReadEnd::default();
        if let Some(mut command) = bound.command.clone() {
            let computed = match system::is_computed(&plan.table.keyspace) {
                true => Some(self.computed(&plan.table).await),
                false => None,
            };
            loop {
                let read = match &computed {
                    Some(record) => read_record(&plan.table, record, &command, &mut encoder),
                    None => self.shard.read(&command, &mut encoder).await,
                };
                end = read.map_err(|error| select.refusal(error))?;
                command.resume = end.more.clone();
                if !bound.reads_all || command.resume.is_none() {
                    break;
                }
            }
        }
        let rows = encoder.finish()?;
        open.close(rows, select.state(&end).as_deref(), out);
        if let Some(trace) = &call.trace {
            let activity = format!("Read {} rows from disk or from other shards", end.rows);
            trace.event(self.state.now_us(), activity);
        }
        Ok(())
    }
}

/// Tells a trace what is going to be read.
fn trace_read(trace: &Trace, now_us: i64, plan: &SelectPlan, bound: &BoundRead) {
    let table = &plan.table.name;
    trace.event(
        now_us,
        match bound.command.as_ref().map(|command| &command.partitions) {
            None => format!("Nothing of {table} can match"),
            Some(Partitions::Range(_)) => format!("Executing range query on {table}"),
            Some(Partitions::Keys(keys)) => {
                format!("Executing query of {} partitions on {table}", keys.len())
            }
        },
    );
}

/// A SELECT that is being answered.
struct Select<'s> {
    statement: &'s Prepared,
    plan: &'s SelectPlan,
    bindings: &'s Bindings<'s>,
    bound: &'s BoundRead,
    target: Target,
    level: Consistency,
}

impl Select<'_> {
    /// What the client is told of an error of storage.
    fn refusal(&self, error: Error) -> Refusal {
        Refusal::Read(error, self.level)
    }

    /// What the client sends for the next page, if there is one.
    fn state(&self, end: &ReadEnd) -> Option<Vec<u8>> {
        let command = self.bound.command.as_ref()?;
        if self.bound.reads_all { None } else { self.plan.paging_state(command, end) }
    }
}

/// What a task keeps of a request's parameters.
struct OwnedParameters {
    level: Consistency,
    values: ValueList,
    page_rows: Option<u32>,
    paging_state: Option<Vec<u8>>,
    timestamp_us: i64,
    now_ms: i64,
    now_s: u32,
}

impl OwnedParameters {
    fn of(parameters: &Parameters<'_>, moment: &Moment<'_>) -> OwnedParameters {
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
            page_rows: parameters.page_rows,
            paging_state: parameters.paging_state.map(<[u8]>::to_vec),
            timestamp_us: moment.timestamp_us,
            now_ms: moment.now_ms,
            now_s: moment.now_s,
        }
    }

    fn moment<'m>(&self, ids: &'m Ids) -> Moment<'m> {
        let OwnedParameters { timestamp_us, now_ms, now_s, .. } = *self;
        Moment { timestamp_us, now_ms, now_s, ids }
    }
}
