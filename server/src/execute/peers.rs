//! What the cores of a node ask each other beside data, and how they answer: closed enums of plain
//! data that could cross a wire.
//!
//! 1. `ask_all` sends one question to every other core, waits for all answers, and adds the answer of this core if
//!    memory has it.
//! 2. `answer` runs inside the pass of the core that was asked. Most questions are answered from memory at once.
//! 3. `Select`, `Part`, `Sources`, `Clients`, `LargeData` and `Prepare` of a long text may need the disk or much time.
//!    Each goes to a function of its own, which answers the [`Asker`] at once or later.
//!
//! Invariant: every [`Ask`] gets exactly one [`Answer`], since the asker waits for it. `EndSelect` does not take the
//! place of an answer: the read that it ends answers, too, and `EndSelect` itself is answered with `Done`.
//!
//! Not here: rows and mutations, which go between cores as messages of the shard (`shard/src/message.rs`); how a SELECT
//! is forwarded (`forward.rs`), how aggregates are made in parts (`parts.rs`), what virtual tables need of other cores
//! (`computed.rs`).

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use cql::ddl;
use cql::frame::response::Event;
use engine::io::{ClassCounts, IoClass};
use engine::{DamagedView, LargeData, LargeThresholds, ReadSources};
use model::{ReadCommand, TableId};
use shard::stalls::{Stall, Work};
use shard::{Asker, Group, Protocol};

use super::long_text::is_long;
use super::parts::{PartAnswer, PartAsk};
use super::statement::ServerStatement;
use super::{ExecuteError, Executor};
use crate::answers::Lease;
use crate::prepared::StatementId;
use crate::statements::{StatementCounts, StatementName};
use crate::system::{Client, CoreMerges, TableSize};

/// A question of one core to another.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// Who is connected?
    Clients,
    /// How large are these tables?
    Sizes(Arc<[TableId]>),
    /// What was asked of the disk?
    DiskRequests,
    /// Which steps took long?
    Stalls,
    /// Which files are damaged?
    DamagedFiles,
    /// What is large in the files?
    LargeData,
    /// What is merged, and what was?
    Merges,
    /// What have statements cost?
    Statements,
    /// Compile and keep this statement.
    Prepare {
        /// The keyspace of unqualified names.
        keyspace: Option<String>,
        /// Text of the statement.
        text: Arc<str>,
    },
    /// Send this event to the clients that registered for its kind.
    Tell(Box<ddl::Event>),
    /// Run a SELECT of which this core has the only partition.
    Select {
        /// The client's request: QUERY or EXECUTE as a frame, uncompressed.
        frame: Vec<u8>,
        /// The keyspace of unqualified names.
        keyspace: Option<Box<str>>,
        /// The result metadata of the statement that EXECUTE names, as the asker's core has it: v3 and v4
        /// clients that skip metadata decode by that.
        result_id: Option<StatementId>,
        /// The asker's number for the read.
        number: u32,
        /// When the asker's client must have its answer.
        deadline: Instant,
    },
    /// What would be read here for this part of a command?
    Sources(Box<ReadCommand>),
    /// Make the part of an aggregate whose rows this core owns.
    Part(Box<PartAsk>),
    /// No one waits any more for the `Select` or `Part` that the asker has numbered so.
    EndSelect {
        /// The number of the read.
        number: u32,
    },
}

/// The answer to an [`Ask`].
#[derive(Debug)]
pub(crate) enum Answer {
    /// The clients that are connected to this core.
    Clients(Vec<Client>),
    /// The sizes on this core of the tables that were asked for.
    Sizes(Vec<(TableId, TableSize)>),
    /// The number of this core, and its requests to the disk, by class.
    DiskRequests(i32, Box<[ClassCounts; IoClass::ALL.len()]>),
    /// The number of this core, and its long steps.
    Stalls(i32, Vec<Stall>),
    /// The number of this core, and the damaged files that it knows of.
    DamagedFiles(i32, Vec<DamagedView>),
    /// What is large in the files of this core.
    LargeData(LargeData),
    /// The merges of this core.
    Merges(Box<CoreMerges>),
    /// What statements have cost on this core.
    Statements(Vec<(StatementName, StatementCounts)>),
    /// The answer to `Prepare`, `Tell` and `EndSelect`: it is done.
    Done,
    /// To `Select`: the frame that answers the client, if it is short. To `Part`: the client's error.
    Frame(Vec<u8>),
    /// To `Select`: a longer frame, with its part of the memory of the asker's answers.
    LongFrame(Vec<u8>, Lease),
    /// What a read would be made of; `None` if there is no such table.
    Sources(Box<Option<ReadSources>>),
    /// To `Part`: what was made of the rows.
    Part(Box<PartAnswer>),
}

/// The questions and answers of this module, to the shard that carries them.
pub(crate) enum Peering {}

impl Protocol for Peering {
    type Ask = Ask;
    type Answer = Answer;

    fn ask_bytes(ask: &Ask) -> usize {
        let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
        match ask {
            Ask::Select { frame, keyspace, .. } => frame.len() + text(keyspace),
            // The core that asks has counted it, and asks for one at a time (`long_text.rs`).
            Ask::Prepare { text, .. } if is_long(text) => 0,
            Ask::Prepare { keyspace, text } => {
                text.len() + keyspace.as_ref().map_or(0, String::len)
            }
            // A few at a time, and short.
            _ => 0,
        }
    }
}

impl Executor {
    /// Asks every core, this one included.
    pub(super) async fn ask_all(&self, ask: impl Fn() -> Ask) -> Vec<Answer> {
        let mut answers = self.shard.ask_peers(&ask).await;
        answers.extend(self.answer_now(ask()));
        answers
    }

    /// Answers a peer, now or when the disk has answered.
    #[inline]
    pub(super) fn answer(self: &Rc<Self>, asker: Asker, ask: Ask) {
        if let Ask::Select { frame, keyspace, result_id, number, deadline } = ask {
            let statement = (keyspace.as_deref(), result_id);
            self.select_for_peer(asker, &frame, statement, (number, deadline));
            return self.frames.put_back(frame);
        }
        self.shard.effort().long();
        if let Ask::EndSelect { number } = ask {
            self.peer_terms.end((asker.peer(), number));
            return self.shard.answer(asker, Answer::Done);
        }
        if let Ask::Part(ask) = ask {
            return self.part_for_peer(asker, *ask);
        }
        if let Ask::Sources(command) = ask {
            return self.sources_for_peer(asker, command);
        }
        if let Ask::Prepare { keyspace, text } = &ask
            && is_long(text)
        {
            return self.prepare_long_for_peer(asker, keyspace.clone(), text.clone());
        }
        if let Ask::Clients = ask {
            return self.clients_for_peer(asker);
        }
        if let Ask::LargeData = ask {
            return self.large_data_for_peer(asker);
        }
        let answer = self.answer_now(ask).expect("it was answered above");
        self.shard.answer(asker, answer);
    }

    /// Answers what this core knows by itself.
    fn answer_now(&self, ask: Ask) -> Option<Answer> {
        Some(match ask {
            Ask::Sizes(tables) => Answer::Sizes(self.sizes(&tables)),
            Ask::DiskRequests => {
                let counts = self.shard.engine().disk().counts();
                Answer::DiskRequests(self.shard.me().index() as i32, Box::new(counts))
            }
            Ask::DamagedFiles => {
                let damaged = self.shard.engine().damaged_files();
                Answer::DamagedFiles(self.shard.me().index() as i32, damaged)
            }
            Ask::Merges => {
                let engine = self.shard.engine();
                Answer::Merges(Box::new(CoreMerges {
                    shard: self.shard.me().index() as u16,
                    running: engine.running_merges(),
                    ended: engine.ended_merges(),
                    indexes: engine.index_progress(),
                }))
            }
            Ask::Statements => Answer::Statements(self.statements.all()),
            Ask::Stalls => {
                let stalls = self.shard.runtime().stalls().all();
                Answer::Stalls(self.shard.me().index() as i32, stalls)
            }
            Ask::Prepare { keyspace, text } => {
                let kept = self.state.compile_and_keep(&self.shard, &text, keyspace.as_deref());
                note_unprepared(kept.map_err(ExecuteError::from));
                Answer::Done
            }
            Ask::Tell(event) => {
                self.tell(&event);
                Answer::Done
            }
            Ask::Clients
            | Ask::LargeData
            | Ask::Sources(_)
            | Ask::Select { .. }
            | Ask::Part(_)
            | Ask::EndSelect { .. } => return None,
        })
    }

    /// The clients of this core: they may be thousands, so it takes turns.
    pub(super) async fn clients(&self) -> Vec<Client> {
        let me = self.shard.me().index() as i32;
        let yielder = self.shard.runtime().yielder(Group::Background);
        let sessions: Vec<_> = self.state.sessions().borrow().values().cloned().collect();
        let mut clients = Vec::with_capacity(sessions.len());
        for session in sessions {
            clients.push(Client::of(&session, me));
            yielder.yield_if_due().await;
        }
        clients
    }

    #[cold]
    fn clients_for_peer(self: &Rc<Self>, asker: Asker) {
        let executor = self.clone();
        self.answer_later(asker, (Group::Background, "clients"), async move {
            Answer::Clients(executor.clients().await)
        });
    }

    /// What is large in this core's files: they may be many, so it takes turns.
    pub(super) async fn large_data(&self) -> Answer {
        let yielder = self.shard.runtime().yielder(Group::Background);
        let pause = || yielder.yield_if_due();
        Answer::LargeData(self.shard.engine().large_data(LargeThresholds::TOLD, pause).await)
    }

    #[cold]
    fn large_data_for_peer(self: &Rc<Self>, asker: Asker) {
        let executor = self.clone();
        self.answer_later(asker, (Group::Background, "large data"), async move {
            executor.large_data().await
        });
    }

    /// Answers a peer by a task of this group and name.
    pub(super) fn answer_later(
        self: &Rc<Self>,
        asker: Asker,
        (group, name): (Group, &'static str),
        answer: impl Future<Output = Answer> + 'static,
    ) {
        let executor = self.clone();
        self.shard.runtime().spawn(Work { group, name, table: None }, async move {
            executor.shard.answer(asker, answer.await);
            // The pass publishes; it may be asleep.
            executor.shard.wake().notify();
        });
    }

    fn tell(&self, event: &ddl::Event) {
        let event = Event::Schema(super::schema::wire_event(event));
        let sessions = self.state.sessions().borrow();
        for session in sessions.values().filter(|session| session.events.get().schema) {
            self.replies.put(session.id, |out| event.put(session.version.get(), out));
        }
    }

    fn sizes(&self, tables: &[TableId]) -> Vec<(TableId, TableSize)> {
        let size = |id: &TableId| {
            let size = self.shard.engine().table_size(*id).ok()?;
            Some((*id, TableSize { bytes: size.bytes, partitions: size.partitions }))
        };
        tables.iter().filter_map(size).collect()
    }
}

/// Notes that a statement of another core could not be prepared here: it compiled there, with this schema or an older
/// one, or what it names was changed here too often meanwhile. EXECUTE answers UNPREPARED, and the client learns why.
pub(super) fn note_unprepared(prepared: Result<Rc<ServerStatement>, ExecuteError>) {
    if let Err(error) = prepared {
        tracing::debug!("a statement of another core was not prepared: {error:?}");
    }
}
