//! The facts that virtual tables are made of: this core's at once, other cores' by asking.
//!
//! 1. Within a pass few rows are computed: how many there will be is looked at first.
//! 2. A task computes the others in steps, some tables of the schema or prepared statements at a time, and lets others
//!    run between them. The rows of each step go into a table in memory at once.
//! 3. That table is counted with the answer until the read is over. The facts are not: they are collected for a few
//!    reads at a time.

use std::rc::Rc;
use std::sync::Arc;

use cql::literal::from_text;
use cql::plan::BoundRead;
use engine::RecordTable;
use model::read::ReadCommand;
use model::schema::Table;
use model::{CqlType, Schema, TableId};
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
    ALWAYS, Needs, NodeFacts, Pages, PreparedInfo, Row, Wanted, is_computed, put_row, virtual_table,
};

/// At most this many rows are computed within a pass, and in a step of a task, unless one table of the schema has more.
const ROWS_AT_ONCE: usize = 64;

/// The rows of a virtual table that a read can show.
pub(super) struct Computed {
    pub(super) rows: RecordTable,
    /// About what they take.
    pub(super) bytes: usize,
}

impl Computed {
    /// Adds rows; refused if the lease of the answer has no space for them.
    fn put(
        &mut self,
        table: &Table,
        rows: &[Row],
        refused: impl Fn(engine::Error) -> ExecuteError,
        lease: &mut Lease,
    ) -> Result<(), ExecuteError> {
        let mut record = Vec::new();
        rows.iter().for_each(|row| put_row(table, row, &ALWAYS, &mut record));
        self.rows.insert(&record).map_err(refused)?;
        // A memtable takes more than the record that it is made of.
        self.bytes += 2 * record.len();
        match lease.hold(self.bytes) {
            true => Ok(()),
            false => Err(ExecuteError::Overloaded(lease.refusal())),
        }
    }
}

/// A prepared statement, with the id by which EXECUTE names it.
type PreparedStatement = (StatementId, Rc<ServerStatement>);

impl Executor {
    /// The rows of a virtual table that a read can show, as a record, if they are few and this core knows them alone.
    pub(super) fn computed_now(&self, table: &Table, bound: &BoundRead) -> Option<Vec<u8>> {
        let (Some(known), Some(command)) = (virtual_table(table), &bound.command) else {
            return Some(Vec::new());
        };
        let (schema, wanted) = (self.shard.schema(), wanted(command, bound));
        let (mut tables, mut are_all, mut prepared) = (Vec::new(), true, Vec::new());
        match known.needs {
            Needs::Nothing => {}
            Needs::Tables | Needs::PartsOfTables => {
                let mut left = ROWS_AT_ONCE;
                for table in wanted.tables(&schema) {
                    let rows = rows_of(table, known.needs);
                    are_all = rows <= left;
                    if !are_all {
                        break;
                    }
                    left -= rows;
                    tables.push(table);
                }
            }
            Needs::Prepared => {
                prepared = self.all_prepared(ROWS_AT_ONCE + 1);
                are_all = prepared.len() <= ROWS_AT_ONCE;
            }
            _ => return None,
        }
        let mut facts = self.facts(&schema, wanted);
        if !are_all {
            // A page may be full all the same. Earlier ones may have shown rows of the first table.
            let most = wanted.rows_max()?;
            facts.tables = tables.get(1..)?;
            if (known.rows)(&facts).len() < most {
                return None;
            }
        }
        facts.tables = &tables;
        facts.prepared = prepared.iter().map(info).collect();
        let rows = (known.rows)(&facts);
        let mut record = Vec::new();
        rows.iter().for_each(|row| put_row(table, row, &ALWAYS, &mut record));
        (rows.len() <= ROWS_AT_ONCE).then_some(record)
    }

    /// The rows of a virtual table that a read can show, with what other cores and the disk know. They are counted by
    /// the lease of the answer.
    pub(super) async fn computed(
        &self,
        table: &Table,
        bound: &BoundRead,
        refused: impl Fn(engine::Error) -> ExecuteError,
        lease: &mut Lease,
    ) -> Result<Computed, ExecuteError> {
        let mut computed = Computed { rows: RecordTable::new(table), bytes: 0 };
        let (Some(known), Some(command)) = (virtual_table(table), &bound.command) else {
            return Ok(computed);
        };
        // The read ends at its deadline, also while it waits here.
        let _turn = self.virtual_reads.take(1).await;
        if known.needs == Needs::Clients {
            return self.computed_clients(table, wanted(command, bound), refused, lease).await;
        }
        let snapshots = match known.needs {
            Needs::Snapshots => {
                let all = self.shard.list_snapshots().await.map_err(&refused)?;
                if let Some(error) = all.unread {
                    tracing::warn!("system_views.snapshots lacks a snapshot: {error}");
                }
                all.read
            }
            _ => Vec::new(),
        };
        let answers = self.answers_to(known.needs).await;
        let (schema, wanted) = (self.shard.schema().clone(), wanted(command, bound));
        let mut facts = self.facts(&schema, wanted);
        answers.into_iter().for_each(|answer| add(&mut facts, answer));
        facts.snapshots = snapshots.into_iter().map(with_time).collect();
        let tables = tables_of(known.needs, wanted, &schema);
        let prepared = match known.needs {
            Needs::Prepared => self.all_prepared(usize::MAX),
            _ => Vec::new(),
        };
        let steps = steps_of(known.needs, &tables, &prepared);
        let yielder = self.shard.runtime().yielder(Group::Background);
        // Earlier pages may have shown rows of the first table: those of its step do not count.
        let mut others = 0;
        for (step, (tables, prepared)) in steps.into_iter().enumerate() {
            facts.tables = tables;
            facts.prepared = prepared.iter().map(info).collect();
            if matches!(known.needs, Needs::Sizes | Needs::SizesOfAll) {
                facts.sizes.clear();
                let answers = self.sizes_of(tables).await;
                answers.into_iter().for_each(|answer| add(&mut facts, answer));
            }
            let rows = (known.rows)(&facts);
            for rows in rows.chunks(ROWS_AT_ONCE) {
                computed.put(table, rows, &refused, lease)?;
                yielder.yield_if_due().await;
            }
            others += if step == 0 { 0 } else { rows.len() };
            let most = wanted.rows_max().filter(|_| known.needs != Needs::SizesOfAll);
            if most.is_some_and(|most| others >= most) {
                break;
            }
            yielder.yield_if_due().await;
        }
        Ok(computed)
    }

    /// The rows of a virtual table of clients: of some of them in each step, as they are thousands.
    async fn computed_clients(
        &self,
        table: &Table,
        wanted: Wanted<'_>,
        refused: impl Fn(engine::Error) -> ExecuteError,
        lease: &mut Lease,
    ) -> Result<Computed, ExecuteError> {
        let mut computed = Computed { rows: RecordTable::new(table), bytes: 0 };
        let Some(known) = virtual_table(table) else { return Ok(computed) };
        let mut answers = self.shard.ask_peers(&|| Ask::Clients).await;
        answers.push(Answer::Clients(self.clients().await));
        let yielder = self.shard.runtime().yielder(Group::Background);
        let schema = self.shard.schema().clone();
        let mut facts = self.facts(&schema, wanted);
        for answer in answers {
            let Answer::Clients(of_core) = answer else { unreachable!("they were asked for") };
            for some in of_core.chunks(ROWS_AT_ONCE) {
                facts.clients = some.to_vec();
                computed.put(table, &(known.rows)(&facts), &refused, lease)?;
                yielder.yield_if_due().await;
            }
        }
        Ok(computed)
    }

    /// The statements that were prepared on this core, that many at most.
    fn all_prepared(&self, most: usize) -> Vec<PreparedStatement> {
        let all = self.state.all_prepared(&self.shard);
        all.iter().take(most).map(|(id, statement)| (*id, statement.clone())).collect()
    }

    /// What all cores say of what a virtual table needs of them.
    async fn answers_to(&self, needs: Needs) -> Vec<Answer> {
        match needs {
            Needs::Nothing
            | Needs::Clients
            | Needs::Prepared
            | Needs::Tables
            | Needs::PartsOfTables
            | Needs::Sizes
            | Needs::SizesOfAll
            | Needs::Snapshots => Vec::new(),
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

    /// What all cores say of the sizes of these tables.
    async fn sizes_of(&self, tables: &[&Arc<Table>]) -> Vec<Answer> {
        let ids: Arc<[TableId]> = tables.iter().map(|table| table.id).collect();
        self.ask_all(|| Ask::Sizes(ids.clone())).await
    }

    /// What statements have cost on all cores, those of one fingerprint added up.
    async fn statements_of_all(&self) -> Answer {
        let yielder = self.shard.runtime().yielder(Group::Background);
        let mut all: AllStatements = AllStatements::new();
        for answer in self.ask_all(|| Ask::Statements).await {
            let Answer::Statements(of_core) = answer else { unreachable!("they were asked for") };
            for (name, counts) in of_core {
                all.entry(name).or_default().add(&counts);
                yielder.yield_if_due().await;
            }
        }
        Answer::Statements(all.into_iter().collect())
    }

    /// What this core knows by itself, but for the tables and statements of a step.
    fn facts<'f>(&'f self, schema: &'f Schema, wanted: Wanted<'f>) -> NodeFacts<'f> {
        NodeFacts {
            wanted,
            node: self.state.node(),
            schema,
            tables: &[],
            settings: &self.state.settings().all,
            guardrails: guardrails::settings(&self.state.settings().guardrails.load()),
            clients: Vec::new(),
            prepared: Vec::new(),
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

/// The tables of the schema of which rows are computed; none if the virtual table needs none.
fn tables_of<'s>(needs: Needs, wanted: Wanted<'s>, schema: &'s Schema) -> Vec<&'s Arc<Table>> {
    let has_size = |table: &&Arc<Table>| !is_computed(&table.keyspace);
    match needs {
        Needs::Tables | Needs::PartsOfTables => wanted.tables(schema).collect(),
        Needs::Sizes => wanted.tables(schema).filter(has_size).collect(),
        Needs::SizesOfAll => schema.tables().filter(has_size).collect(),
        _ => Vec::new(),
    }
}

/// Rows of sizes that are counted for a table: they have as many as a node has ranges, and other cores are asked for
/// more than a few tables at a time.
const ROWS_OF_SIZES: usize = 4;

/// About how many rows the virtual table has of a table of the schema.
fn rows_of(table: &Table, needs: Needs) -> usize {
    let parts = || {
        table.columns().len() + table.hidden().len() + table.dropped.len() + table.indexes().len()
    };
    match needs {
        Needs::PartsOfTables => parts(),
        Needs::Sizes => ROWS_OF_SIZES,
        _ => 1,
    }
}

/// What is computed before others run, step by step: tables of the schema, and prepared statements. Of a virtual table
/// that needs neither all is one step.
fn steps_of<'s>(
    needs: Needs,
    tables: &'s [&'s Arc<Table>],
    prepared: &'s [PreparedStatement],
) -> Vec<(&'s [&'s Arc<Table>], &'s [PreparedStatement])> {
    match needs {
        Needs::Tables | Needs::PartsOfTables | Needs::Sizes | Needs::SizesOfAll => {
            let mut rows = tables.first().map_or(0, |first| rows_of(first, needs));
            let fits = |_: &&Arc<Table>, next: &&Arc<Table>| {
                rows += rows_of(next, needs);
                let fits = rows <= ROWS_AT_ONCE;
                if !fits {
                    rows = rows_of(next, needs);
                }
                fits
            };
            tables.chunk_by(fits).map(|tables| (tables, &[][..])).collect()
        }
        Needs::Prepared => prepared.chunks(ROWS_AT_ONCE).map(|some| (&[][..], some)).collect(),
        _ => vec![(&[], &[])],
    }
}

fn info((id, statement): &PreparedStatement) -> PreparedInfo {
    let keyspace = statement.keyspace.clone();
    PreparedInfo { id: id.to_vec(), keyspace, text: statement.text.clone() }
}

/// What a read can show.
fn wanted<'r>(command: &'r ReadCommand, bound: &BoundRead) -> Wanted<'r> {
    let pages = if bound.reads_all { Pages::All } else { Pages::One };
    Wanted::of(command, pages)
}

/// Adds what a core has answered.
fn add(facts: &mut NodeFacts<'_>, answer: Answer) {
    match answer {
        Answer::Sizes(of_core) => facts.add_sizes(of_core),
        Answer::DiskRequests(shard, counts) => facts.disk_requests.push((shard, *counts)),
        Answer::Stalls(shard, stalls) => facts.stalls.push((shard, stalls)),
        Answer::DamagedFiles(shard, views) => {
            facts.damaged.extend(views.into_iter().map(|view| (shard, view)));
        }
        Answer::LargeData(of_core) => facts.large.push(of_core),
        Answer::Statements(all) => facts.statements = all,
        Answer::Merges(of_core) => facts.merges.push(*of_core),
        Answer::Done
        | Answer::Clients(_)
        | Answer::Frame(_)
        | Answer::LongFrame(..)
        | Answer::Part(_)
        | Answer::Sources(_) => {
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
