//! The facts that computed tables are made of: this core's at once, other cores' by asking.

use super::Executor;
use super::peers::{Answer, Ask};
use crate::system::{Client, Facts, PreparedInfo, TableSize};
use model::TableId;
use model::schema::Table;
use std::collections::BTreeMap;

/// What other cores must be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nobody,
    Clients,
    Sizes,
}

fn needs(table: &Table) -> Needs {
    match (table.keyspace.as_str(), table.name.as_str()) {
        (_, "clients") => Needs::Clients,
        ("system", "size_estimates" | "table_estimates") | ("system_views", "disk_usage") => {
            Needs::Sizes
        }
        _ => Needs::Nobody,
    }
}

impl Executor {
    /// The rows of a computed table, if this core knows them alone.
    pub(super) fn computed_now(&self, table: &Table) -> Option<Vec<u8>> {
        let alone = needs(table) == Needs::Nobody;
        alone.then(|| self.facts(Vec::new(), Vec::new(), |facts| facts.record(table)))
    }

    /// The rows of a computed table, with what other cores know.
    pub(super) async fn computed(&self, table: &Table) -> Vec<u8> {
        let mut clients: Vec<Client> = Vec::new();
        let mut sizes: BTreeMap<TableId, TableSize> = BTreeMap::new();
        match needs(table) {
            Needs::Nobody => {}
            Needs::Clients => {
                for answer in self.shard.ask_all(|| Ask::Clients).await {
                    if let Answer::Clients(of_core) = answer {
                        clients.extend(of_core);
                    }
                }
            }
            Needs::Sizes => {
                for answer in self.shard.ask_all(|| Ask::Sizes).await {
                    let Answer::Sizes(of_core) = answer else { continue };
                    for (table, size) in of_core {
                        let sum = sizes.entry(table).or_default();
                        sum.bytes += size.bytes;
                        sum.partitions += size.partitions;
                    }
                }
            }
        }
        self.facts(clients, sizes.into_iter().collect(), |facts| facts.record(table))
    }

    fn facts<R>(
        &self,
        clients: Vec<Client>,
        sizes: Vec<(TableId, TableSize)>,
        make: impl FnOnce(&Facts<'_>) -> R,
    ) -> R {
        let prepared = self.core.prepared().borrow();
        let info = |(id, statement): (&[u8; 16], &std::rc::Rc<super::statement::Prepared>)| {
            let keyspace = statement.keyspace.clone();
            PreparedInfo { id: id.to_vec(), keyspace, text: statement.text.clone() }
        };
        let facts = Facts {
            node: self.core.node(),
            schema: &self.shard.schema(),
            settings: &self.core.settings().all,
            clients,
            prepared: prepared.iter().map(info).collect(),
            sizes,
        };
        make(&facts)
    }
}
