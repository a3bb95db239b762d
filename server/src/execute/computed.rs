//! The facts that virtual tables are made of: this core's at once, other cores' by asking.
//!
//! Tables of the schema's tables are computed some tables at a time, within a pass only if these are all: others run
//! between them. What they become is counted as an answer is, until the read is over.

use std::rc::Rc;
use std::sync::Arc;

use cql::literal::from_text;
use cql::plan::BoundRead;
use model::read::ReadCommand;
use model::schema::Table;
use model::{CqlType, Schema};
use shard::Group;
use shard::snapshots::Snapshot;

use super::peers::{Answer, Ask};
use super::statement::ServerStatement;
use super::{ExecuteError, Executor};
use crate::answers::Lease;
use crate::guardrails;
use crate::prepared::StatementId;
use crate::statements::AllStatements;
use crate::system::{
    ALWAYS, Needs, NodeFacts, Pages, PreparedInfo, VirtualTable, Wanted, put_row, virtual_table,
};

/// So many rows are computed within a pass; more of them by a task that lets others run.
const ROWS_AT_ONCE: usize = 64;
/// A task makes the rows of so many tables of the schema before it lets others run.
const TABLES_AT_ONCE: usize = 16;

/// The rows of a virtual table that a read can show, as a log record of them.
#[derive(Default)]
pub(super) struct Computed {
    pub(super) record: Vec<u8>,
    /// The memory of the record, until the read is over.
    _lease: Option<Lease>,
}

impl Executor {
    /// The rows of a virtual table that a read can show, if they are few and this core knows them alone.
    pub(super) fn computed_now(&self, table: &Table, bound: &BoundRead) -> Option<Vec<u8>> {
        let (Some(known), Some(command)) = (virtual_table(table), &bound.command) else {
            return Some(Vec::new());
        };
        if !matches!(known.needs, Needs::Nothing | Needs::Prepared | Needs::Tables) {
            return None;
        }
        let (schema, wanted) = (self.shard.schema(), wanted(command, bound));
        let mut tables = Vec::new();
        let mut are_all = true;
        if known.needs == Needs::Tables {
            let mut all = wanted.tables(&schema);
            tables.extend(all.by_ref().take(ROWS_AT_ONCE));
            are_all = all.next().is_none();
        }
        let mut facts = self.facts(known, &schema, wanted);
        facts.tables = &tables;
        let rows = (known.rows)(&facts);
        if rows.len() > ROWS_AT_ONCE {
            return None;
        }
        if !are_all {
            // Earlier pages may have shown rows of the first table.
            facts.tables = &tables[..1];
            let others = rows.len() - (known.rows)(&facts).len();
            wanted.rows_max().filter(|most| others >= *most)?;
        }
        let mut record = Vec::new();
        rows.iter().for_each(|row| put_row(table, row, &ALWAYS, &mut record));
        Some(record)
    }

    /// The rows of a virtual table that a read can show, with what other cores and the disk know.
    pub(super) async fn computed(
        &self,
        table: &Table,
        bound: &BoundRead,
        refused: impl Fn(engine::Error) -> ExecuteError,
    ) -> Result<Computed, ExecuteError> {
        let (Some(known), Some(command)) = (virtual_table(table), &bound.command) else {
            return Ok(Computed::default());
        };
        let snapshots = match known.needs {
            Needs::Snapshots => self.shard.list_snapshots().await.map_err(refused)?,
            _ => Vec::new(),
        };
        let answers = self.answers_to(known.needs).await;
        let (schema, wanted) = (self.shard.schema().clone(), wanted(command, bound));
        let tables: Vec<&Arc<Table>> = match known.needs {
            Needs::Tables => wanted.tables(&schema).collect(),
            _ => Vec::new(),
        };
        let mut facts = self.facts(known, &schema, wanted);
        answers.into_iter().for_each(|answer| add(&mut facts, answer));
        facts.snapshots = snapshots.into_iter().map(with_time).collect();
        let steps: Vec<&[&Arc<Table>]> = match known.needs {
            Needs::Tables => tables.chunks(TABLES_AT_ONCE).collect(),
            _ => vec![&[]],
        };
        let yielder = self.shard.runtime().yielder(Group::Background);
        let (mut record, mut lease) = (Vec::new(), self.answers.lease());
        // Earlier pages may have shown rows of the first table: those of its step do not count.
        let mut others = 0;
        for (step, tables) in steps.into_iter().enumerate() {
            facts.tables = tables;
            let rows = (known.rows)(&facts);
            for rows in rows.chunks(ROWS_AT_ONCE) {
                rows.iter().for_each(|row| put_row(table, row, &ALWAYS, &mut record));
                if !lease.hold(record.len()) {
                    return Err(ExecuteError::Overloaded(lease.refusal()));
                }
                yielder.turn().await;
            }
            others += if step == 0 { 0 } else { rows.len() };
            if facts.wanted.rows_max().is_some_and(|most| others >= most) {
                break;
            }
        }
        Ok(Computed { record, _lease: Some(lease) })
    }

    /// What all cores say of what a virtual table needs of them.
    async fn answers_to(&self, needs: Needs) -> Vec<Answer> {
        match needs {
            Needs::Nothing | Needs::Prepared | Needs::Tables | Needs::Snapshots => Vec::new(),
            Needs::Clients => self.ask_all(|| Ask::Clients).await,
            Needs::Sizes => self.ask_all(|| Ask::Sizes).await,
            Needs::DiskRequests => self.ask_all(|| Ask::DiskRequests).await,
            Needs::DamagedFiles => self.ask_all(|| Ask::DamagedFiles).await,
            Needs::LargeData => {
                let mut answers = self.shard.ask_peers(&|| Ask::LargeData).await;
                answers.push(self.large_data().await);
                answers
            }
            Needs::Merges => self.ask_all(|| Ask::Merges).await,
            Needs::Statements => vec![self.statements_of_all().await],
            Needs::Stalls => self.ask_all(|| Ask::Stalls).await,
        }
    }

    /// What statements have cost on all cores, those of one fingerprint added up.
    async fn statements_of_all(&self) -> Answer {
        let yielder = self.shard.runtime().yielder(Group::Background);
        let mut all: AllStatements = AllStatements::new();
        for answer in self.ask_all(|| Ask::Statements).await {
            let Answer::Statements(of_core) = answer else { unreachable!("they were asked for") };
            for (name, counts) in of_core {
                all.entry(name).or_default().add(&counts);
                yielder.turn().await;
            }
        }
        Answer::Statements(all.into_iter().collect())
    }

    /// What this core knows for a virtual table.
    fn facts<'f>(
        &'f self,
        known: &VirtualTable,
        schema: &'f Schema,
        wanted: Wanted<'f>,
    ) -> NodeFacts<'f> {
        let info = |(id, statement): (&StatementId, &Rc<ServerStatement>)| {
            let keyspace = statement.keyspace.clone();
            PreparedInfo { id: id.to_vec(), keyspace, text: statement.text.clone() }
        };
        let prepared = match known.needs {
            Needs::Prepared => self.state.all_prepared(&self.shard).iter().map(info).collect(),
            _ => Vec::new(),
        };
        NodeFacts {
            wanted,
            node: self.state.node(),
            schema,
            tables: &[],
            settings: &self.state.settings().all,
            guardrails: guardrails::settings(&self.state.settings().guardrails.load()),
            clients: Vec::new(),
            prepared,
            sizes: Default::default(),
            disk_requests: Vec::new(),
            stalls: Vec::new(),
            damaged: Vec::new(),
            large: Vec::new(),
            merges: Vec::new(),
            statements: Vec::new(),
            snapshots: Vec::new(),
        }
    }
}

/// What a read can show.
fn wanted<'r>(command: &'r ReadCommand, bound: &BoundRead) -> Wanted<'r> {
    let pages = if bound.reads_all { Pages::All } else { Pages::One };
    Wanted::of(command, pages)
}

/// Adds what a core has answered.
fn add(facts: &mut NodeFacts<'_>, answer: Answer) {
    match answer {
        Answer::Clients(of_core) => facts.clients.extend(of_core),
        Answer::Sizes(of_core) => facts.add_sizes(of_core),
        Answer::DiskRequests(shard, counts) => facts.disk_requests.push((shard, *counts)),
        Answer::Stalls(shard, stalls) => facts.stalls.push((shard, stalls)),
        Answer::DamagedFiles(shard, views) => {
            facts.damaged.extend(views.into_iter().map(|view| (shard, view)));
        }
        Answer::LargeData(of_core) => facts.large.push(of_core),
        Answer::Statements(all) => facts.statements = all,
        Answer::Merges(of_core) => facts.merges.push(*of_core),
        Answer::Done | Answer::Frame(_) | Answer::Part(_) | Answer::Sources(_) => {
            unreachable!("only facts are asked for")
        }
    }
}

/// A snapshot and when it was taken, in milliseconds since 1970, if its manifest says so in a way that can be read.
fn with_time(snapshot: Snapshot) -> (Snapshot, Option<i64>) {
    let bytes = from_text(&snapshot.created_at, &CqlType::Timestamp).ok();
    let millis = bytes.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok()).map(i64::from_be_bytes);
    (snapshot, millis)
}
