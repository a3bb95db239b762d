//! DESCRIBE as a result set: rows of text from the schema, paged like any other.
//!
//! ```text
//! what is asked for ─► the schema's elements ─► from the paging state on, a page of them ─► their texts
//!    few and short: within the pass        others: a task that lets others run, its answer under a lease
//! ```
//!
//! Such tasks of a core take turns, in the order in which they came, and wait for a minute at most: the list of all
//! elements is as long as the schema, whatever the page has. What waits is the statement, which is counted
//! (`held_bytes.rs`), with the schema of when it came. If its client is gone by then, nothing is made.
//!
//! A page that has no space for its next row ends before it, as a page of any SELECT does.
//!
//! The paging state is the schema's version and the next row: if the schema changed in between, the
//! client is told to start over, as Cassandra does.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use cql::describe::{Described, Element, Listed, describe};
use cql::error::{Error, Result};
use cql::frame::request::Parameters;
use cql::frame::response::{ColumnSpec, Columns, Description, Envelope, OpenRows};
use cql::frame::writer;
use cql::lang::ast::Describe;
use cql::prepare::Statement;
use model::schema::Schema;
use model::types::CqlType;
use shard::Group;

use super::call::{Call, Flow};
use super::long_text::is_long;
use super::statement::ServerStatement;
use super::{ExecuteError, Executor};
use crate::limits::{PASS_ANSWER_BYTES_MAX, SCHEMA_CHANGE_TIMEOUT};
use crate::system::{self, Node, PARTITIONER};

/// What Cassandra would say of its snitch.
const SNITCH: &str = "SimpleSnitch";
/// Version, then the index of the next row.
const STATE_BYTES: usize = 20;
/// At most this many rows are made within a pass, if they have no more than [`PASS_ANSWER_BYTES_MAX`] bytes.
const ROWS_AT_ONCE: usize = 64;

impl Executor {
    /// Runs a DESCRIBE.
    pub(super) fn describe(
        self: &Rc<Self>,
        call: Call,
        (statement, asked): (&Rc<ServerStatement>, &Describe),
        parameters: &Parameters<'_>,
        out: &mut Vec<u8>,
    ) -> Flow {
        self.shard.effort().long();
        let schema = self.shard.schema();
        let current = statement.keyspace.as_deref();
        let found = find(asked, &schema, current, self.state.node());
        let paged = found.and_then(|rows| Ok((rows.page(&schema, parameters)?, rows)));
        let (page, rows) = match paged {
            Ok(paged) => paged,
            Err(error) => return self.refuse(call, error.into(), out),
        };
        if page.len() <= ROWS_AT_ONCE && !is_long(&statement.text) {
            let start = out.len();
            let open = rows.open(&call.envelope(), out);
            let is_short = page.clone().all(|index| {
                rows.put(index, out);
                out.len() - start <= PASS_ANSWER_BYTES_MAX
            });
            if is_short {
                rows.close(open, &schema, &page, out);
                return Flow::Answered(call);
            }
            out.truncate(start);
        }
        let counted = match self.waiting_statements.hold(statement.bytes()) {
            Ok(counted) => counted,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        let (executor, statement, schema) = (self.clone(), statement.clone(), schema.clone());
        let (is_paged, level) = (parameters.page_rows.is_some(), parameters.consistency);
        self.spawn(Group::Background, call, async move |call, out| {
            let _counted = counted;
            let turn = executor.turn_within(&executor.describe_turn, SCHEMA_CHANGE_TIMEOUT).await;
            let _turn = turn.ok_or_else(not_described)?;
            if call.session.is_over.get() {
                // It reads no answer, but every request has one.
                return Err(ExecuteError::ReadTimedOut(level));
            }
            executor.describe_later(call, &statement, (&schema, page, is_paged), out).await
        });
        Flow::Later
    }

    /// Makes many rows, and lets others run between them.
    async fn describe_later(
        &self,
        call: &Call,
        statement: &ServerStatement,
        (schema, mut page, is_paged): (&Schema, Range<usize>, bool),
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), ExecuteError> {
        let Statement::Describe(asked) = &statement.compiled.statement else {
            unreachable!("only a DESCRIBE is run here");
        };
        let rows = find(asked, schema, statement.keyspace.as_deref(), self.state.node())?;
        let (yielder, mut lease) =
            (self.shard.runtime().yielder(Group::Background), self.answers.lease());
        let open = rows.open(&call.envelope(), out);
        for index in page.clone() {
            yielder.yield_if_due().await;
            let row_at = out.len();
            rows.put(index, out);
            if lease.hold(out.len()) {
                continue;
            }
            if !is_paged || index == page.start {
                return Err(ExecuteError::Overloaded(lease.refusal()));
            }
            out.truncate(row_at);
            page.end = index;
            break;
        }
        rows.close(open, schema, &page, out);
        Ok(())
    }
}

fn not_described() -> ExecuteError {
    let wait_s = SCHEMA_CHANGE_TIMEOUT.as_secs();
    ExecuteError::Overloaded(format!(
        "Not described within {wait_s} s, with the long descriptions before it"
    ))
}

/// All rows that answer a DESCRIBE; their texts are made one by one.
struct DescribedRows<'s> {
    columns: &'static [&'static str],
    rows: Rows<'s>,
}

enum Rows<'s> {
    Names(Vec<Listed<'s>>),
    Elements(Vec<Element<'s>>),
    /// One row, of these values.
    Cluster(Vec<Vec<u8>>),
}

/// Looks up what is asked for. `current` is the keyspace of unqualified names.
fn find<'s>(
    asked: &Describe,
    schema: &'s Schema,
    current: Option<&str>,
    node: &Node,
) -> Result<DescribedRows<'s>> {
    const ELEMENT: [&str; 4] = ["keyspace_name", "type", "name", "create_statement"];
    const CLUSTER: [&str; 4] = ["cluster", "partitioner", "snitch", "range_ownership"];
    let found = describe(asked, schema, current, system::is_guarded).map_err(Error::invalid)?;
    Ok(match found {
        Described::Names(rows) => DescribedRows { columns: &ELEMENT[..3], rows: Rows::Names(rows) },
        Described::Elements(rows) => {
            DescribedRows { columns: &ELEMENT, rows: Rows::Elements(rows) }
        }
        Described::Cluster { with_ownership } => {
            let row = cluster(node, with_ownership);
            DescribedRows { columns: &CLUSTER[..row.len()], rows: Rows::Cluster(row) }
        }
    })
}

impl DescribedRows<'_> {
    fn len(&self) -> usize {
        match &self.rows {
            Rows::Names(rows) => rows.len(),
            Rows::Elements(rows) => rows.len(),
            Rows::Cluster(_) => 1,
        }
    }

    /// The rows of the page that the client asks for.
    fn page(&self, schema: &Schema, parameters: &Parameters<'_>) -> Result<Range<usize>> {
        let first = first_row(parameters.paging_state, schema)?.min(self.len());
        let page_rows = parameters.page_rows.map_or(usize::MAX, |rows| rows as usize);
        Ok(first..first.saturating_add(page_rows).min(self.len()))
    }

    fn open(&self, envelope: &Envelope<'_>, out: &mut Vec<u8>) -> OpenRows {
        let text = CqlType::Text;
        let list = Arc::new(CqlType::List { element: Arc::new(CqlType::Text), frozen: true });
        let ownership = CqlType::Map { key: Arc::new(CqlType::Text), value: list, frozen: true };
        let spec = |name: &&'static str| {
            let ty = if *name == "range_ownership" { &ownership } else { &text };
            ColumnSpec { keyspace: "system", table: "describe", name, ty }
        };
        let specs: Vec<ColumnSpec<'_>> = self.columns.iter().map(spec).collect();
        let columns = Columns::encode(envelope.version, &specs);
        envelope.open_rows(&columns, Description::Full, out)
    }

    /// Appends a row.
    fn put(&self, index: usize, out: &mut Vec<u8>) {
        let mut put = |text: &String| writer::bytes(out, Some(text.as_bytes()));
        match &self.rows {
            Rows::Names(rows) => rows[index].row().iter().for_each(put),
            Rows::Elements(rows) => rows[index].row().iter().for_each(&mut put),
            Rows::Cluster(row) => row.iter().for_each(|value| writer::bytes(out, Some(value))),
        }
    }

    /// Ends a page, and says where the next one begins.
    fn close(&self, open: OpenRows, schema: &Schema, page: &Range<usize>, out: &mut Vec<u8>) {
        let state = (page.end < self.len()).then(|| {
            let mut state = schema.version.as_bytes().to_vec();
            state.extend_from_slice(&(page.end as u32).to_be_bytes());
            state
        });
        open.close(page.len() as u32, state.as_deref(), out);
    }
}

fn first_row(state: Option<&[u8]>, schema: &Schema) -> Result<usize> {
    let Some(state) = state else { return Ok(0) };
    let Ok(state) = <[u8; STATE_BYTES]>::try_from(state) else {
        return Err(Error::Protocol("Invalid value for the paging state".to_owned()));
    };
    let (version, next) = state.split_at(16);
    if version != schema.version.as_bytes() {
        return Err(Error::invalid(
            "The schema has changed since the previous page of the DESCRIBE statement result. \
             Please retry the DESCRIBE statement.",
        ));
    }
    let next = next.try_into().expect("a paging state has 20 bytes");
    Ok(u32::from_be_bytes(next) as usize)
}

/// What DESCRIBE CLUSTER says.
fn cluster(node: &Node, with_ownership: bool) -> Vec<Vec<u8>> {
    let partitioner = PARTITIONER.rsplit('.').next().unwrap_or(PARTITIONER);
    let texts = [node.cluster_name.as_str(), partitioner, SNITCH];
    let mut row: Vec<Vec<u8>> = texts.map(|text| text.as_bytes().to_vec()).to_vec();
    row.extend(with_ownership.then(|| ownership(node)));
    row
}

/// Every token's range is this node's: `map<text, list<text>>`.
fn ownership(node: &Node) -> Vec<u8> {
    let mut tokens: Vec<String> = Node::tokens().map(|token| token.0.to_string()).collect();
    tokens.sort();
    let owner = format!("/{}:7000", node.address);
    let mut owners = Vec::new();
    writer::int(&mut owners, 1);
    writer::bytes(&mut owners, Some(owner.as_bytes()));
    let mut out = Vec::new();
    writer::int(&mut out, tokens.len() as i32);
    for token in &tokens {
        writer::bytes(&mut out, Some(token.as_bytes()));
        writer::bytes(&mut out, Some(&owners));
    }
    out
}
