//! What one core knows beside its data: who this node is, its clients, the statements they prepared.
//!
//! Built when the shard is open, and complete from then on.
//!
//! 1. Each core has its own sessions, prepared statements, ids and functions. The guardrails are those of all cores,
//!    since an operator may change them while the node runs.
//! 2. The clock stands still during a pass: `now_us`, `monotonic` and `ns` give the time of the pass. Only `exact_ns`
//!    reads the kernel's clock.
//! 3. A core's clock never gives a timestamp twice. A timestamp that the client sends is used as it is.
//! 4. `compile_and_keep` looks under two ids first, with and without the keyspace, since a text that names all its
//!    keyspaces is kept without one (`statement.rs`).
//!
//! Not here: tables, memtables and the schema, which the shard has (`shard/src/schema.rs`); what the counts of
//! statements are (`statements.rs` of the crate); how requests are run (`execute.rs`).

use std::cell::{Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cql::bind::StatementTime;
use cql::frame::request::Parameters;
use cql::guardrails::Guardrails;
use cql::plan::BatchThresholds;
use functions::Functions;
use hashbrown::HashMap;
use shard::Shard;
use shard::clock::Clock;

use super::peers::Peering;
use super::statement::ServerStatement;
use crate::ids::Ids;
use crate::prepared::PreparedCache;
use crate::prepared::StatementId;
use crate::seal::Seal;
use crate::session::{ConnectionId, Session};
use crate::system::Node;
use crate::timeouts::{Timeouts, TombstoneThresholds};

/// What the server was told at its start and executes by.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The shard-aware port, if it is open.
    pub(crate) shard_aware_port: Option<u16>,
    /// Bytes that the prepared statements of one core may take.
    pub(crate) prepared_bytes_max: usize,
    /// From when on batches are warned of and refused.
    pub(crate) batch: BatchThresholds,
    /// How long requests may take.
    pub(crate) timeouts: Timeouts,
    /// Whether TRUNCATE and DROP take a snapshot first.
    pub(crate) auto_snapshot: bool,
    /// How long such a snapshot stays; `None`: until it is removed.
    pub(crate) auto_snapshot_ttl: Option<Duration>,
    /// Whether `ALTER TABLE .. DROP COMPACT STORAGE` is allowed.
    pub(crate) drop_compact_storage: bool,
    /// Whether indexes of the class SASIIndex are made.
    pub(crate) sasi_indexes: bool,
    /// What the operator has set, and may change.
    pub(crate) guardrails: Arc<Guardrails>,
    /// Whether functions and aggregates of users are made.
    pub(crate) functions_enabled: bool,
    /// From when on reads are warned of, and end, for the tombstones that they pass.
    pub(crate) tombstones: TombstoneThresholds,
    /// Names and values for `system_views.settings`.
    pub(crate) all: Vec<(String, String)>,
}

type Sessions = HashMap<ConnectionId, Rc<Session>, foldhash::fast::RandomState>;

/// One core's state. See the module.
pub(crate) struct NodeState {
    node: Node,
    seal: Seal,
    settings: Settings,
    ids: Ids,
    functions: Functions,
    clock: Rc<Clock>,
    sessions: RefCell<Sessions>,
    prepared: RefCell<PreparedCache<ServerStatement>>,
}

impl NodeState {
    /// The state of a core of `node` that has no clients yet.
    pub(crate) fn new(node: Node, seal: Seal, settings: Settings, clock: Rc<Clock>) -> NodeState {
        let prepared = RefCell::new(PreparedCache::new(settings.prepared_bytes_max));
        NodeState {
            node,
            seal,
            settings,
            ids: Ids::new(clock.clone()),
            functions: Functions::new({
                let clock = clock.clone();
                move || clock.monotonic()
            }),
            clock,
            sessions: RefCell::default(),
            prepared,
        }
    }

    /// The node's names, ids and addresses.
    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// The seal of the node's paging states.
    pub(super) fn seal(&self) -> &Seal {
        &self.seal
    }

    /// What the server was told at its start.
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The ids that functions and traces of this core take.
    pub(super) fn ids(&self) -> &Ids {
        &self.ids
    }

    /// What runs functions of users on this core.
    pub(super) fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The clients of this core.
    pub(super) fn sessions(&self) -> &RefCell<Sessions> {
        &self.sessions
    }

    /// The statement that EXECUTE names, if this core knows it and no table has changed that it was compiled against.
    #[inline]
    pub(super) fn prepared(
        &self,
        shard: &Shard<Peering>,
        id: &[u8],
    ) -> Option<Rc<ServerStatement>> {
        let is_valid = |statement: &ServerStatement| statement.is_valid(&shard.schema());
        self.prepared.borrow_mut().get(id, shard.schema_number(), is_valid)
    }

    /// The statements that EXECUTE finds on this core.
    pub(super) fn all_prepared(
        &self,
        shard: &Shard<Peering>,
    ) -> Ref<'_, PreparedCache<ServerStatement>> {
        let schema = shard.schema();
        self.prepared
            .borrow_mut()
            .check_all(schema.number, |statement| statement.is_valid(&schema));
        self.prepared.borrow()
    }

    /// The wall clock of this pass, in microseconds.
    pub(super) fn now_us(&self) -> i64 {
        self.clock.wall_us()
    }

    /// A timestamp that no write of the node so far is newer than, and every later one is; in microseconds.
    pub(super) fn dividing_timestamp_us(&self) -> i64 {
        self.clock.dividing_timestamp_us()
    }

    /// The time of this pass, for what takes time.
    pub(super) fn monotonic(&self) -> Instant {
        self.clock.monotonic()
    }

    /// The time of this pass in nanoseconds, for what takes time ([`Clock::ns`]).
    #[inline]
    pub(super) fn ns(&self) -> u64 {
        self.clock.ns()
    }

    /// The time of now in nanoseconds: it reads the kernel's clock ([`Clock::exact_ns`]).
    #[inline]
    pub(super) fn exact_ns(&self) -> u64 {
        self.clock.exact_ns()
    }

    /// When a request happens: the client's word where it gave one, else the clock, and never the
    /// same microsecond twice.
    #[inline]
    pub(super) fn time(&self, parameters: &Parameters<'_>) -> StatementTime<'_> {
        let timestamp_us = parameters.timestamp_us.unwrap_or_else(|| self.clock.timestamp_us());
        self.time_with(timestamp_us, parameters)
    }

    /// The same of a request that had this timestamp when it came, sent or given.
    #[inline]
    pub(super) fn time_with(
        &self,
        timestamp_us: i64,
        parameters: &Parameters<'_>,
    ) -> StatementTime<'_> {
        let server_timestamp_us = parameters.timestamp_us.is_none().then_some(timestamp_us);
        self.time_at((timestamp_us, server_timestamp_us), parameters)
    }

    /// The same of a request that writes nothing, and so needs no timestamp of its own.
    #[inline]
    pub(super) fn time_of_read(&self, parameters: &Parameters<'_>) -> StatementTime<'_> {
        self.time_at((self.now_us(), None), parameters)
    }

    #[inline]
    fn time_at(
        &self,
        (timestamp_us, server_timestamp_us): (i64, Option<i64>),
        parameters: &Parameters<'_>,
    ) -> StatementTime<'_> {
        let now_us = self.now_us();
        let now_s = match parameters.now_s {
            Some(now_s) => u32::try_from(now_s).unwrap_or(0),
            None => u32::try_from(now_us / 1_000_000).unwrap_or(u32::MAX),
        };
        StatementTime {
            timestamp_us,
            server_timestamp_us,
            now_ms: now_us / 1000,
            now_s,
            ids: &self.ids,
            functions: &self.functions,
        }
    }

    /// As [`NodeState::time`], but with a timestamp of the clock, whatever the client sends.
    pub(super) fn own_time(&self, parameters: &Parameters<'_>) -> StatementTime<'_> {
        let timestamp_us = self.clock.timestamp_us();
        self.time_at((timestamp_us, Some(timestamp_us)), parameters)
    }

    /// Compiles a statement against the schema that this core follows.
    pub(super) fn compile(
        &self,
        shard: &Shard<Peering>,
        text: &str,
        keyspace: Option<&str>,
    ) -> cql::Result<ServerStatement> {
        // Its constants are evaluated, which may take some ten milliseconds.
        shard.effort().long();
        ServerStatement::compile(text, keyspace, &shard.schema())
    }

    /// Compiles a statement, or finds it, and keeps it for EXECUTE.
    pub(super) fn compile_and_keep(
        &self,
        shard: &Shard<Peering>,
        text: &str,
        keyspace: Option<&str>,
    ) -> cql::Result<Rc<ServerStatement>> {
        match self.find(shard, text, &ServerStatement::ids_of(text, keyspace)) {
            Some(known) => Ok(known),
            None => Ok(self.keep(shard, self.compile(shard, text, keyspace)?)),
        }
    }

    /// The statement of a text that is kept under one of its ids.
    pub(super) fn find(
        &self,
        shard: &Shard<Peering>,
        text: &str,
        ids: &[StatementId],
    ) -> Option<Rc<ServerStatement>> {
        // A keyspace's name and a text together may be another text.
        let known = |id: &StatementId| self.prepared(shard, id).filter(|known| known.text == text);
        ids.iter().find_map(known)
    }

    /// Keeps a compiled statement for EXECUTE.
    pub(super) fn keep(
        &self,
        shard: &Shard<Peering>,
        statement: ServerStatement,
    ) -> Rc<ServerStatement> {
        let statement = Rc::new(statement);
        let (bytes, schema) = (statement.bytes(), shard.schema_number());
        self.prepared.borrow_mut().put(statement.id, statement.clone(), bytes, schema);
        statement
    }
}
