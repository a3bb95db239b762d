//! One shard's storage as its owner sees it: opened, written, read, flushed, closed.
//!
//! ```text
//! write ─► log ─► memtables ─► sstables          write.rs, table.rs, flush.rs
//! read  ◄──────── memtables + sstables           read.rs
//! ```
//!
//! Invariants
//! 1. One thread, no locks: every method is `&self` and keeps no borrow across an await.
//! 2. It never spawns: whoever owns it runs [`drive_log`](Engine::drive_log) in one task and jobs in others.
//! 3. It never reads a clock: what depends on time takes it as an argument.

use crate::budget::Budget;
use crate::commitlog::{Config as LogConfig, Log, Position, Replay};
use crate::error::{Error, Result};
use crate::io::{Disk, RelPath};
use crate::read::Scratch;
use crate::stats::{Counters, Stats};
use crate::table::Table;
use crate::write::{Completions, Queue, mutations};
use hashbrown::HashMap;
use model::token::{Token, TokenRange};
use model::{Schema, TableId};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

pub(crate) type Tables = HashMap<TableId, Rc<Table>, foldhash::fast::FixedState>;

/// What a shard is told when it is opened.
#[derive(Clone, Debug)]
pub struct Config {
    /// The directory of this shard's log; it exists.
    pub log_dir: RelPath,
    /// The tokens that are this shard's.
    pub owned: Vec<TokenRange>,
    /// How the log is kept.
    pub log: LogConfig,
    /// All memory this shard may use for data.
    pub memory_bytes: usize,
}

/// One shard's storage.
#[derive(Debug)]
pub struct Engine {
    pub(crate) log: Log,
    pub(crate) tables: RefCell<Tables>,
    pub(crate) queue: RefCell<Queue>,
    pub(crate) completions: RefCell<Completions>,
    pub(crate) budget: Budget,
    pub(crate) counters: Counters,
    pub(crate) sequence: Cell<u64>,
    pub(crate) range_id: u32,
    owned: Vec<TokenRange>,
    pub(crate) scratch: RefCell<Vec<Scratch>>,
    flush_waiter: RefCell<Option<Waker>>,
    flushes: Cell<u64>,
}

impl Engine {
    /// Makes the log of a shard that has never been.
    pub async fn create(disk: &Disk, config: &Config) -> Result<()> {
        Log::create(disk, &config.log_dir, config.log.clone()).await.map(drop)
    }

    /// Opens a shard: replays its log, and is ready for reads and writes.
    pub async fn open(disk: &Disk, config: Config, schema: &Schema) -> Result<Engine> {
        let budget = Budget::new(config.memory_bytes)?;
        let tables = tables_of(schema, &Tables::default());
        let mut replay = Replay::open(disk, &config.log_dir, Position::ZERO).await?;
        let counters = Counters::default();
        let (mut start, mut sequence) = (Position::ZERO, 0);
        while let Some(record) = replay.next().await? {
            for mutation in mutations(record.payload) {
                let mutation = mutation?;
                if let Some(table) = tables.get(&mutation.table) {
                    budget.memtables_grew(table.apply(&mutation, start, record.end));
                }
            }
            (start, sequence) = (record.end, record.sequence);
            counters.count(|s| s.records_replayed += 1);
        }
        let log = Log::resume(disk, &config.log_dir, config.log, replay.finish().await?).await?;
        Ok(Engine {
            log,
            tables: RefCell::new(tables),
            queue: RefCell::default(),
            completions: RefCell::default(),
            budget,
            counters,
            sequence: Cell::new(sequence),
            range_id: 0,
            owned: config.owned,
            scratch: RefCell::default(),
            flush_waiter: RefCell::default(),
            flushes: Cell::new(0),
        })
    }

    /// Whether the token is this shard's.
    #[inline]
    pub fn owns(&self, token: Token) -> bool {
        self.owned.iter().any(|range| range.contains(token))
    }

    /// Follows the schema: new tables are empty, tables that are gone take their data with them.
    pub fn set_schema(&self, schema: &Schema) {
        let mut tables = self.tables.borrow_mut();
        let next = tables_of(schema, &tables);
        *tables = next;
    }

    /// What was counted.
    pub fn stats(&self) -> Stats {
        self.counters.get()
    }

    /// How long writers should be kept waiting now, in microseconds: rises smoothly as memory fills.
    pub fn write_delay_us(&self) -> u32 {
        self.budget.delay_us()
    }

    /// The table of that id.
    pub(crate) fn table(&self, id: TableId) -> Result<Rc<Table>> {
        let tables = self.tables.borrow();
        let table = tables.get(&id).cloned();
        table.ok_or_else(|| Error::invalid(format!("there is no table {id}")))
    }

    /// Refuses a write of `bytes` if a limit is reached.
    pub(crate) fn admit(&self, bytes: usize) -> Result<()> {
        self.budget.admit(bytes, self.queue.borrow().bytes())
    }

    /// Waits until something has been flushed since this was called. One task waits at a time.
    pub(crate) async fn until_flushed(&self) {
        let before = self.flushes.get();
        poll_fn(|cx| {
            if self.flushes.get() != before {
                return Poll::Ready(());
            }
            *self.flush_waiter.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// The tables of a schema, each with the data that it had.
fn tables_of(schema: &Schema, before: &Tables) -> Tables {
    let mut tables = Tables::default();
    for definition in schema.tables() {
        let table = match before.get(&definition.id) {
            Some(table) => {
                table.set_definition(definition);
                Rc::clone(table)
            }
            None => Rc::new(Table::new(definition)),
        };
        tables.insert(definition.id, table);
    }
    tables
}
