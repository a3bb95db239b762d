//! The facts that virtual tables are made of: this core's at once, other cores' by asking.

use std::rc::Rc;

use cql::literal::from_text;
use cql::plan::BoundRead;
use engine::Result;
use model::CqlType;
use model::schema::Table;
use shard::Group;
use shard::snapshots::Snapshot;

use super::Executor;
use super::peers::{Answer, Ask};
use super::statement::ServerStatement;
use crate::guardrails;
use crate::prepared::StatementId;
use crate::statements::AllStatements;
use crate::system::{
    ALWAYS, Needs, NodeFacts, Pages, PreparedInfo, Row, VirtualTable, Wanted, put_row,
    virtual_table,
};

/// So many rows are computed within a pass; more of them by a task that lets others run.
const ROWS_AT_ONCE: usize = 64;

impl Executor {
    /// The rows of a virtual table that a read can show, if they are few and this core knows them alone.
    pub(super) fn computed_now(&self, table: &Table, bound: &BoundRead) -> Option<Vec<u8>> {
        let Some(known) = virtual_table(table) else { return Some(Vec::new()) };
        if !matches!(known.needs, Needs::Nothing | Needs::Prepared) {
            return None;
        }
        let rows = self.rows_of(known, bound, (Vec::new(), Vec::new()));
        let mut record = Vec::new();
        (rows.len() <= ROWS_AT_ONCE).then(|| {
            rows.iter().for_each(|row| put_row(table, row, &ALWAYS, &mut record));
            record
        })
    }

    /// The rows of a virtual table that a read can show, with what other cores and the disk know. An error is
    /// the disk's.
    pub(super) async fn computed(&self, table: &Table, bound: &BoundRead) -> Result<Vec<u8>> {
        let mut record = Vec::new();
        let Some(known) = virtual_table(table) else { return Ok(record) };
        let mut snapshots = Vec::new();
        let answers = match known.needs {
            Needs::Nothing | Needs::Prepared => Vec::new(),
            Needs::Snapshots => {
                snapshots = self.shard.list_snapshots().await?;
                Vec::new()
            }
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
        };
        let yielder = self.shard.runtime().yielder(Group::Background);
        for rows in self.rows_of(known, bound, (answers, snapshots)).chunks(ROWS_AT_ONCE) {
            rows.iter().for_each(|row| put_row(table, row, &ALWAYS, &mut record));
            yielder.turn().await;
        }
        Ok(record)
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

    fn rows_of(
        &self,
        known: &VirtualTable,
        bound: &BoundRead,
        (answers, snapshots): (Vec<Answer>, Vec<Snapshot>),
    ) -> Vec<Row> {
        let Some(command) = &bound.command else { return Vec::new() };
        let pages = if bound.reads_all { Pages::All } else { Pages::One };
        let mut facts = NodeFacts {
            wanted: Wanted::of(command, pages),
            node: self.state.node(),
            schema: &self.shard.schema(),
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
            snapshots: snapshots.into_iter().map(with_time).collect(),
        };
        if known.needs == Needs::Prepared {
            let info = |(id, statement): (&StatementId, &Rc<ServerStatement>)| {
                let keyspace = statement.keyspace.clone();
                PreparedInfo { id: id.to_vec(), keyspace, text: statement.text.clone() }
            };
            facts.prepared = self.state.all_prepared(&self.shard).iter().map(info).collect();
        }
        for answer in answers {
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
        (known.rows)(&facts)
    }
}

/// A snapshot and when it was taken, in milliseconds since 1970, if its manifest says so in a way that can be read.
fn with_time(snapshot: Snapshot) -> (Snapshot, Option<i64>) {
    let bytes = from_text(&snapshot.created_at, &CqlType::Timestamp).ok();
    let millis = bytes.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok()).map(i64::from_be_bytes);
    (snapshot, millis)
}
