//! DESCRIBE as a result set: rows of text from the schema, paged like any other.
//!
//! The paging state is the schema's version and the next row: if the schema changed in between, the
//! client is told to start over, as Cassandra does.

use std::sync::Arc;

use cql::describe::{Described, describe};
use cql::error::{Error, Result};
use cql::frame::request::Parameters;
use cql::frame::response::{ColumnSpec, Columns, Description, Envelope};
use cql::frame::writer;
use cql::lang::ast::Describe;
use model::schema::Schema;
use model::types::CqlType;

use super::Executor;
use super::call::{Call, Flow};
use crate::system::{self, Node, PARTITIONER};

/// What Cassandra would say of its snitch.
const SNITCH: &str = "SimpleSnitch";
/// Version, then the index of the next row.
const STATE_BYTES: usize = 20;

impl Executor {
    /// Runs a DESCRIBE. `current` is the keyspace of unqualified names.
    pub(super) fn describe(
        &self,
        call: Call,
        asked: &Describe,
        current: Option<&str>,
        parameters: &Parameters<'_>,
        out: &mut Vec<u8>,
    ) -> Flow {
        let (schema, node) = (self.shard.schema(), self.state.node());
        let describing = Describing { schema: &schema, current, node };
        match describing.answer(asked, parameters, &call.envelope(), out) {
            Ok(()) => Flow::Answered(call),
            Err(error) => self.refuse(call, error.into(), out),
        }
    }
}

/// What a DESCRIBE is answered from.
struct Describing<'d> {
    schema: &'d Schema,
    /// The keyspace of unqualified names.
    current: Option<&'d str>,
    node: &'d Node,
}

impl Describing<'_> {
    /// Appends the page of the answer that the client asks for.
    fn answer(
        &self,
        asked: &Describe,
        parameters: &Parameters<'_>,
        envelope: &Envelope<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let Describing { schema, current, node } = *self;
        let found = describe(asked, schema, current, system::is_guarded).map_err(Error::invalid)?;
        let text = CqlType::Text;
        let names = ["keyspace_name", "type", "name", "create_statement"];
        let (names, rows): (Vec<&str>, Vec<Vec<Vec<u8>>>) = match &found {
            Described::Names(rows) => (names[..3].to_vec(), texts(rows)),
            Described::Elements(rows) => (names.to_vec(), texts(rows)),
            Described::Cluster { with_ownership } => cluster(node, *with_ownership),
        };
        let list = Arc::new(CqlType::List { element: Arc::new(CqlType::Text), frozen: true });
        let ownership = CqlType::Map { key: Arc::new(CqlType::Text), value: list, frozen: true };
        let spec = |name: &&'static str| {
            let ty = if *name == "range_ownership" { &ownership } else { &text };
            ColumnSpec { keyspace: "system", table: "describe", name, ty }
        };
        let specs: Vec<ColumnSpec<'_>> = names.iter().map(spec).collect();
        let columns = Columns::encode(envelope.version, &specs);
        let first = first_row(parameters.paging_state, schema)?;
        let page_rows = parameters.page_rows.map_or(usize::MAX, |rows| rows as usize);
        let page: Vec<_> = rows.iter().skip(first).take(page_rows).collect();
        let open = envelope.open_rows(&columns, Description::Full, out);
        for row in &page {
            row.iter().for_each(|value| writer::bytes(out, Some(value)));
        }
        let next = first + page.len();
        let state = (next < rows.len()).then(|| {
            let mut state = schema.version.as_bytes().to_vec();
            state.extend_from_slice(&(next as u32).to_be_bytes());
            state
        });
        open.close(page.len() as u32, state.as_deref(), out);
        Ok(())
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

fn texts<const N: usize>(rows: &[[String; N]]) -> Vec<Vec<Vec<u8>>> {
    let bytes = |text: &String| text.as_bytes().to_vec();
    rows.iter().map(|row| row.iter().map(bytes).collect()).collect()
}

fn cluster(node: &Node, with_ownership: bool) -> (Vec<&'static str>, Vec<Vec<Vec<u8>>>) {
    let partitioner = PARTITIONER.rsplit('.').next().unwrap_or(PARTITIONER);
    let mut names = vec!["cluster", "partitioner", "snitch"];
    let mut row: Vec<Vec<u8>> =
        [&node.cluster_name, partitioner, SNITCH].map(|text| text.as_bytes().to_vec()).to_vec();
    if with_ownership {
        names.push("range_ownership");
        row.push(ownership(node));
    }
    (names, vec![row])
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
