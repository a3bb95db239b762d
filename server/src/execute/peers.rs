//! What the cores of a node ask each other beside data, and what they answer at once.

use super::Executor;
use crate::system::{self, Client, TableSize};
use cql::ddl;
use cql::frame::response::Event;
use model::TableId;
use shard::Protocol;

/// What cores ask each other.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// Who is connected?
    Clients,
    /// How large are the tables?
    Sizes,
    /// Know this statement.
    Prepare {
        /// Of unqualified names.
        keyspace: Option<String>,
        /// Its text.
        text: String,
    },
    /// Tell those who want to hear.
    Tell(ddl::Event),
}

/// What they answer.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Of this core.
    Clients(Vec<Client>),
    /// Of this core.
    Sizes(Vec<(TableId, TableSize)>),
    /// To `Prepare` and `Tell`.
    Done,
}

/// The questions and answers of this module, to the shard that carries them.
pub(crate) enum Peering {}

impl Protocol for Peering {
    type Ask = Ask;
    type Answer = Answer;
}

impl Executor {
    /// Asks every core, this one included.
    pub(super) async fn ask_all(&self, ask: impl Fn() -> Ask) -> Vec<Answer> {
        let mut answers = self.shard.ask_peers(&ask).await;
        answers.push(self.answer(ask()));
        answers
    }

    /// Answers a peer, or itself.
    pub(super) fn answer(&self, ask: Ask) -> Answer {
        self.state.follow(&self.shard);
        match ask {
            Ask::Clients => {
                let me = self.shard.me().index() as i32;
                let sessions = self.state.sessions().borrow();
                Answer::Clients(sessions.values().map(|s| Client::of(s, me)).collect())
            }
            Ask::Sizes => Answer::Sizes(self.sizes()),
            Ask::Prepare { keyspace, text } => {
                let kept = self.state.compile_and_keep(&self.shard, &text, keyspace.as_deref());
                // It compiled on the core that asks, with this schema or an older one. If it does
                // not here, EXECUTE answers UNPREPARED and the client learns why.
                if let Err(error) = kept {
                    tracing::debug!("a statement of another core was not prepared: {error}");
                }
                Answer::Done
            }
            Ask::Tell(event) => {
                self.tell(&event);
                Answer::Done
            }
        }
    }

    fn tell(&self, event: &ddl::Event) {
        let event = Event::Schema(super::schema::wire_event(event));
        let sessions = self.state.sessions().borrow();
        for session in sessions.values().filter(|session| session.events.get().schema) {
            self.replies.put(session.id, |out| event.put(session.version.get(), out));
        }
    }

    fn sizes(&self) -> Vec<(TableId, TableSize)> {
        let schema = self.shard.schema();
        let user = schema.tables().filter(|table| !system::is_computed(&table.keyspace));
        let size = |id: TableId| {
            let size = self.shard.engine().table_size(id).ok()?;
            Some((id, TableSize { bytes: size.bytes, partitions: size.partitions }))
        };
        user.filter_map(|table| size(table.id)).collect()
    }
}
