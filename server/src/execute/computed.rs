//! The facts that virtual tables are made of: this core's at once, other cores' by asking.

use std::rc::Rc;

use model::schema::Table;

use super::Executor;
use super::peers::{Answer, Ask};
use super::statement::ServerStatement;
use crate::prepared::StatementId;
use crate::system::{Needs, NodeFacts, PreparedInfo, VirtualTable, virtual_table};

impl Executor {
    /// The rows of a virtual table, if this core knows them alone.
    pub(super) fn computed_now(&self, table: &Table) -> Option<Vec<u8>> {
        let known = virtual_table(table);
        let alone = known.is_none_or(|known| known.needs == Needs::Nothing);
        alone.then(|| self.record_of(table, known, Vec::new()))
    }

    /// The rows of a virtual table, with what other cores know.
    pub(super) async fn computed(&self, table: &Table) -> Vec<u8> {
        let known = virtual_table(table);
        let answers = match known.map_or(Needs::Nothing, |known| known.needs) {
            Needs::Nothing => Vec::new(),
            Needs::Clients => self.ask_all(|| Ask::Clients).await,
            Needs::Sizes => self.ask_all(|| Ask::Sizes).await,
            Needs::Stalls => self.ask_all(|| Ask::Stalls).await,
        };
        self.record_of(table, known, answers)
    }

    fn record_of(
        &self,
        table: &Table,
        known: Option<&VirtualTable>,
        answers: Vec<Answer>,
    ) -> Vec<u8> {
        let Some(known) = known else { return Vec::new() };
        let prepared = self.state.prepared().borrow();
        let info = |(id, statement): (&StatementId, &Rc<ServerStatement>)| {
            let keyspace = statement.keyspace.clone();
            PreparedInfo { id: id.to_vec(), keyspace, text: statement.text.clone() }
        };
        let mut facts = NodeFacts {
            node: self.state.node(),
            schema: &self.shard.schema(),
            settings: &self.state.settings().all,
            clients: Vec::new(),
            prepared: prepared.iter().map(info).collect(),
            sizes: Default::default(),
            stalls: Vec::new(),
        };
        for answer in answers {
            match answer {
                Answer::Clients(of_core) => facts.clients.extend(of_core),
                Answer::Sizes(of_core) => facts.add_sizes(of_core),
                Answer::Stalls(shard, stalls) => facts.stalls.push((shard, stalls)),
                Answer::Done | Answer::Frame(_) | Answer::Part(_) => {
                    unreachable!("only facts are asked for")
                }
            }
        }
        facts.record(table, known)
    }
}
