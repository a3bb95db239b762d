//! The part of execution that other cores talk to: sessions, statements, what is said to everybody.
//!
//! Every core has one. What it is asked it answers at once from its own state; nothing here waits.

use super::statement::Prepared;
use crate::ids::Ids;
use crate::prepared::PreparedCache;
use crate::service::Replies;
use crate::session::{ConnectionId, Session};
use crate::system::{self, Client, Node, TableSize};
use cql::bind::Moment;
use cql::ddl;
use cql::frame::request::Parameters;
use cql::frame::response::Event;
use cql::plan::BatchThresholds;
use hashbrown::HashMap;
use model::TableId;
use model::schema::Schema;
use shard::Shard;
use shard::clock::Clock;
use std::cell::{OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

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

/// What the server was told at its start and executes by.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The shard-aware port, if it is open.
    pub(crate) shard_aware_port: Option<u16>,
    /// Bytes that the prepared statements of one core may take.
    pub(crate) prepared_bytes_max: usize,
    /// From when on batches are warned of and refused.
    pub(crate) batch: BatchThresholds,
    /// Names and values for `system_views.settings`.
    pub(crate) all: Vec<(String, String)>,
}

type Sessions = HashMap<ConnectionId, Rc<Session>, foldhash::fast::RandomState>;

/// One core's part. See the module.
pub(crate) struct Core {
    node: OnceCell<Node>,
    settings: Settings,
    ids: Ids,
    clock: Rc<Clock>,
    sessions: RefCell<Sessions>,
    prepared: RefCell<PreparedCache<Prepared>>,
    replies: OnceCell<Replies>,
    shard: OnceCell<Weak<Shard<Core>>>,
}

impl Core {
    /// A core without clients.
    pub(crate) fn new(settings: Settings, clock: Rc<Clock>) -> Rc<Core> {
        let prepared = RefCell::new(PreparedCache::new(settings.prepared_bytes_max));
        Rc::new(Core {
            node: OnceCell::new(),
            settings,
            ids: Ids::new(clock.clone()),
            clock,
            sessions: RefCell::default(),
            prepared,
            replies: OnceCell::new(),
            shard: OnceCell::new(),
        })
    }

    /// Ties the core to its shard, once.
    pub(super) fn attach(&self, shard: &Rc<Shard<Core>>) {
        let fresh = self.replies.set(Replies::new(shard.wake())).is_ok()
            && self.shard.set(Rc::downgrade(shard)).is_ok();
        assert!(fresh, "a core has one shard");
    }

    /// Says which node this is: known when the data directory is open.
    pub(crate) fn set_node(&self, node: Node) {
        assert!(self.node.set(node).is_ok(), "a node is one node");
    }

    pub(super) fn node(&self) -> &Node {
        self.node.get().expect("requests come after the data directory is open")
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn ids(&self) -> &Ids {
        &self.ids
    }

    pub(super) fn sessions(&self) -> &RefCell<Sessions> {
        &self.sessions
    }

    pub(super) fn prepared(&self) -> &RefCell<PreparedCache<Prepared>> {
        &self.prepared
    }

    pub(super) fn replies(&self) -> &Replies {
        self.replies.get().expect("requests come after the shard is open")
    }

    fn shard(&self) -> Rc<Shard<Core>> {
        self.shard.get().and_then(Weak::upgrade).expect("the shard lives as long as its core")
    }

    /// The wall clock of this pass, in microseconds.
    pub(super) fn now_us(&self) -> i64 {
        self.clock.wall_us()
    }

    /// When a request happens: the client's word where it gave one, else the clock, and never the
    /// same microsecond twice.
    #[inline]
    pub(super) fn moment(&self, parameters: &Parameters<'_>) -> Moment<'_> {
        let now_us = self.now_us();
        let timestamp_us = parameters.timestamp_us.unwrap_or_else(|| self.clock.timestamp_us());
        let now_s = match parameters.now_s {
            Some(now_s) => u32::try_from(now_s).unwrap_or(0),
            None => u32::try_from(now_us / 1_000_000).unwrap_or(u32::MAX),
        };
        Moment { timestamp_us, now_ms: now_us / 1000, now_s, ids: &self.ids }
    }

    /// Compiles a statement against the schema that this core follows.
    pub(super) fn compile(&self, text: &str, keyspace: Option<&str>) -> cql::Result<Prepared> {
        Prepared::compile(text, keyspace, &self.shard().schema())
    }

    /// Compiles a statement, or finds it, and keeps it for EXECUTE.
    pub(super) fn compile_and_keep(
        &self,
        text: &str,
        keyspace: Option<&str>,
    ) -> cql::Result<Rc<Prepared>> {
        // Qualified, or of a session without keyspace; or else of this keyspace.
        for id in [Prepared::id_of(text, None), Prepared::id_of(text, keyspace)] {
            if let Some(known) = self.prepared.borrow_mut().get(&id) {
                return Ok(known);
            }
        }
        let statement = Rc::new(self.compile(text, keyspace)?);
        let bytes = statement.bytes();
        self.prepared.borrow_mut().put(statement.id, statement.clone(), bytes);
        Ok(statement)
    }

    fn tell(&self, event: &ddl::Event) {
        let event = Event::Schema(super::schema::wire_event(event));
        for session in self.sessions.borrow().values().filter(|session| session.events.get().schema)
        {
            self.replies().put(session.id, |out| event.put(session.version.get(), out));
        }
    }

    fn sizes(&self) -> Vec<(TableId, TableSize)> {
        let shard = self.shard();
        let schema = shard.schema();
        let user = schema.tables().filter(|table| !system::is_computed(&table.keyspace));
        let size = |id: TableId| {
            let size = shard.engine().table_size(id).ok()?;
            Some((id, TableSize { bytes: size.bytes, partitions: size.partitions }))
        };
        user.filter_map(|table| size(table.id)).collect()
    }
}

impl shard::service::Service for Core {
    type Ask = Ask;
    type Answer = Answer;

    fn answer(&self, ask: Ask) -> Answer {
        match ask {
            Ask::Clients => {
                let me = self.shard().me().index() as i32;
                let sessions = self.sessions.borrow();
                Answer::Clients(sessions.values().map(|s| Client::of(s, me)).collect())
            }
            Ask::Sizes => Answer::Sizes(self.sizes()),
            Ask::Prepare { keyspace, text } => {
                // It compiled on the core that asks, with this schema or an older one. If it does
                // not here, EXECUTE answers UNPREPARED and the client learns why.
                if let Err(error) = self.compile_and_keep(&text, keyspace.as_deref()) {
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

    fn adopt(&self, schema: &Arc<Schema>) {
        self.prepared.borrow_mut().retain(|statement| statement.is_valid(schema));
    }
}
