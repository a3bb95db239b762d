//! One shard's storage as its owner sees it: opened, written, read, kept in order.
//!
//! ```text
//! write ─► log ─► memtables ─► sstables          write.rs, flush.rs
//! read  ◄──────── memtables + sstables           read.rs
//! jobs.rs: what to do beside that     remove.rs: truncate, drop     recovery.rs: create, open
//! ```
//!
//! Invariants
//! 1. One thread, no locks: every method is `&self` and keeps no borrow across an await.
//! 2. It never spawns: whoever owns it runs [`drive_log`](Engine::drive_log) in one task and jobs in others.
//! 3. It never reads a clock: what depends on time takes it as an argument.

use crate::async_mutex::AsyncMutex;
use crate::backoff::Backoff;
use crate::budget::Budget;
use crate::cache::BlockCache;
use crate::commitlog::{Config as LogConfig, Log, Position};
use crate::error::{Error, Result};
use crate::io::{Disk, RelPath};
use crate::limits::DISK_FULL_PERCENT;
use crate::manifest::{Manifest, View as Entry};
use crate::read::Scratch;
use crate::recovery::sstable_id;
use crate::row_limits::RowLimits;
use crate::sstable::SstableId;
use crate::stats::{Counters, Stats, TableSize};
use crate::table::Table;
use crate::write::{Completions, Queue};
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
    /// The shard's directory: its manifest, and below it the log.
    pub shard_dir: RelPath,
    /// The tokens that are this shard's.
    pub owned: Vec<TokenRange>,
    /// How the log is kept. Its seed must be another one each time: names of files come from it.
    pub log: LogConfig,
    /// All memory this shard may use for data.
    pub memory_bytes: usize,
}

/// One shard's storage.
#[derive(Debug)]
pub struct Engine {
    pub(crate) disk: Disk,
    pub(crate) log: Log,
    pub(crate) log_config: LogConfig,
    pub(crate) manifest: Manifest,
    pub(crate) cache: Rc<BlockCache>,
    pub(crate) tables: RefCell<Tables>,
    pub(crate) queue: RefCell<Queue>,
    pub(crate) completions: RefCell<Completions>,
    pub(crate) budget: Budget,
    pub(crate) counters: Counters,
    /// Every record that ends at or before this is in the memtables, or was.
    pub(crate) applied: Cell<Position>,
    pub(crate) mutex: AsyncMutex,
    pub(crate) scratch: RefCell<Vec<Scratch>>,
    /// Views of tables that are gone.
    pub(crate) garbage: RefCell<Vec<Vec<Entry>>>,
    pub(crate) remove_backoff: Backoff,
    pub(crate) row_limits: Cell<RowLimits>,
    pub(crate) disk_full: Cell<bool>,
    /// A compaction is under way.
    pub(crate) compacting: Cell<bool>,
    pub(crate) files_made: Cell<u64>,
    /// Why the log is not written any more.
    pub(crate) log_failure: RefCell<Option<Error>>,
    pub(crate) log_waiters: RefCell<Vec<Waker>>,
    space_freed_count: Cell<u64>,
    space_waiter: RefCell<Option<Waker>>,
    owned: Vec<TokenRange>,
}

impl Engine {
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of a whole, put together in one place"
    )]
    pub(crate) fn assemble(
        disk: &Disk,
        config: &Config,
        log: Log,
        manifest: Manifest,
        cache: Rc<BlockCache>,
        tables: Tables,
        budget: Budget,
        counters: Counters,
    ) -> Engine {
        Engine {
            disk: disk.clone(),
            applied: Cell::new(log.positions().appended),
            log,
            log_config: config.log.clone(),
            manifest,
            cache,
            tables: RefCell::new(tables),
            queue: RefCell::default(),
            completions: RefCell::default(),
            budget,
            counters,
            mutex: AsyncMutex::default(),
            scratch: RefCell::default(),
            garbage: RefCell::default(),
            remove_backoff: Backoff::default(),
            row_limits: Cell::default(),
            disk_full: Cell::new(false),
            compacting: Cell::new(false),
            files_made: Cell::new(0),
            log_failure: RefCell::default(),
            log_waiters: RefCell::default(),
            space_freed_count: Cell::new(0),
            space_waiter: RefCell::default(),
            owned: config.owned.clone(),
        }
    }

    /// Which of this shard's ranges holds the token.
    #[inline]
    pub(crate) fn range_of(&self, token: Token) -> Option<u32> {
        self.owned.iter().zip(0..).find(|(range, _)| range.contains(token)).map(|(_, index)| index)
    }

    /// Follows the schema: new tables are empty, tables that are gone take their data with them.
    pub fn set_schema(&self, schema: &Schema) {
        let next = tables_of(schema, &self.tables.borrow());
        let before = self.tables.replace(next);
        let tables = self.tables.borrow();
        for (_, table) in before.iter().filter(|(id, _)| !tables.contains_key(*id)) {
            self.retire(table);
        }
    }

    /// What was counted, and what is held now.
    pub fn stats(&self) -> Stats {
        let cache = self.cache.counts();
        Stats {
            memtable_bytes: self.budget.memtables() as u64,
            cache_bytes: cache.bytes,
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            ..self.counters.get()
        }
    }

    /// Segments of the log that hold something no sstable has.
    pub fn log_segments(&self) -> u32 {
        let positions = self.log.positions();
        1 + positions.appended.segment().saturating_sub(positions.flushed.segment())
    }

    /// What a table holds.
    pub fn table_size(&self, id: TableId) -> Result<TableSize> {
        let table = self.table(id)?;
        let mut size = TableSize::default();
        for layer in table.layers().iter() {
            let memtable = layer.memtable.borrow();
            size.memtable_bytes += memtable.bytes() as u64;
            size.memtable_rows += memtable.row_count();
            size.partitions += memtable.partition_count() as u64;
        }
        size.bytes = size.memtable_bytes;
        for view in table.views().iter() {
            size.sstables += 1;
            size.bytes += view.entry.file_bytes;
            size.partitions += view.sstable.statistics().partitions;
            size.resident_bytes += view.sstable.memory_bytes() as u64;
        }
        Ok(size)
    }

    /// How long writers should be kept waiting now, in microseconds: rises smoothly as memory fills.
    pub fn write_delay_us(&self) -> u32 {
        self.budget.delay_us()
    }

    /// Other limits of a row than those of [`limits`](crate::limits): smaller ones let a test reach them.
    pub fn set_row_limits(&self, limits: RowLimits) {
        self.row_limits.set(limits);
    }

    /// Asks how full the disk is: from 97 % on writes are refused, reads and deletions go on. Call it every second.
    pub async fn measure_space(&self) -> Result<()> {
        let space = self.disk.free_space().await?;
        let used = u128::from(space.total_bytes.saturating_sub(space.free_bytes));
        let full = used * 100 >= u128::from(space.total_bytes) * DISK_FULL_PERCENT;
        self.disk_full.set(full);
        if !full {
            self.space_freed();
        }
        Ok(())
    }

    /// The table of that id.
    pub(crate) fn table(&self, id: TableId) -> Result<Rc<Table>> {
        let tables = self.tables.borrow();
        let table = tables.get(&id).cloned();
        table.ok_or_else(|| Error::invalid(format!("there is no table {id}")))
    }

    /// A name for one more file.
    pub(crate) fn next_sstable_id(&self) -> SstableId {
        self.files_made.set(self.files_made.get() + 1);
        sstable_id(self.log_config.seed, self.files_made.get())
    }

    /// Refuses a write of `bytes` if a limit is reached.
    pub(crate) fn admit(&self, bytes: usize) -> Result<()> {
        if self.disk_full.get() {
            return Err(Error::DiskFull { file: "new writes".into() });
        }
        self.budget.admit(bytes, self.queue.borrow().bytes())
    }

    /// How often space was made for the log.
    pub(crate) fn space_freed_count(&self) -> u64 {
        self.space_freed_count.get()
    }

    /// Waits until space was made since `before`. One task waits at a time.
    pub(crate) async fn until_space_freed(&self, before: u64) {
        poll_fn(|cx| {
            if self.space_freed_count.get() != before {
                return Poll::Ready(());
            }
            *self.space_waiter.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Something was flushed or deleted: the log may have space again.
    pub(crate) fn space_freed(&self) {
        self.space_freed_count.set(self.space_freed_count.get() + 1);
        if let Some(waker) = self.space_waiter.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// The tables of a schema, each with the data that it had.
pub(crate) fn tables_of(schema: &Schema, before: &Tables) -> Tables {
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
