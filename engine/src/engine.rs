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
//! 2. It never spawns: its owner runs [`drive_log`](Engine::drive_log) in one task, [`next_turn`](Engine::next_turn) in
//!    another, and jobs in others.
//! 3. It never reads a clock: what depends on time takes it as an argument.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use model::token::TokenRange;
use model::{Schema, TableId};

use crate::async_mutex::AsyncMutex;
use crate::budget::Budget;
use crate::cache::BlockCache;
use crate::commitlog::{Config as LogConfig, Log};
use crate::compaction::{CompactionState, Merges};
use crate::deferred_writes::DeferredWrites;
use crate::error::{Error, Result};
use crate::file_names::FileNames;
use crate::garbage::Garbage;
use crate::hot_partitions::Sampler;
use crate::io::{Disk, RelPath};
use crate::large_data::Untold;
use crate::layout;
use crate::limits::{FRAGMENT_BYTES_MIN, SAMPLED_TABLE_BYTES_MIN, VECTOR_FILE_ROWS_MIN};
use crate::log_space::LogSpace;
use crate::manifest::{Manifest, ViewEntry};
use crate::overwriting::Samples;
use crate::pace::Pace;
use crate::partition_queue::PartitionQueues;
use crate::read::{LookupPolicy, ReadTurns, Scratch};
use crate::read_before_write::{HeldBytes, Sum};
use crate::reserve;
use crate::row_limits::RowLimits;
use crate::semaphore::Semaphore;
use crate::space_ledger::SpaceLedger;
use crate::stats::{Counters, Stats, TableSize};
use crate::table::{Table, View, file_bytes};
use crate::tables::Tables;
use crate::views::Views;
use crate::write_queue::WriteQueue;

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
    /// The time of the start, in seconds since 1970.
    pub now_s: u32,
}

/// One shard's storage: parts that own what they hold, each with a file of its own.
#[derive(Debug)]
pub struct Engine {
    pub(crate) disk: Disk,
    pub(crate) log: Log,
    pub(crate) manifest: Manifest,
    /// A lock, held while a job looks at the views of tables, commits an edit to the manifest and changes the views: no
    /// two commits meet.
    pub(crate) manifest_lock: AsyncMutex,
    /// Held while files are deleted, and while one that may be among them comes back. Taken before the manifest's lock,
    /// never while that is held: flushes do not wait for files that are unlinked.
    pub(crate) deleting: AsyncMutex,
    /// Held while tables that are gone are removed. Taken before the others.
    pub(crate) removing: AsyncMutex,
    pub(crate) cache: Rc<BlockCache>,
    pub(crate) tables: Tables,
    /// What the definitions of user types take, in bytes.
    pub(crate) types_bytes: Cell<usize>,
    /// Records between the log and the memtables.
    pub(crate) writes: WriteQueue,
    /// Writes that wait for space.
    pub(crate) deferred: DeferredWrites,
    /// Writes that wait for others of their partitions.
    pub(crate) queues: PartitionQueues,
    pub(crate) read_lists: HeldBytes,
    /// What keeps materialized views.
    pub(crate) views: OnceCell<Rc<dyn Views>>,
    /// How values are added up.
    pub(crate) sum: OnceCell<Sum>,
    pub(crate) log_space: LogSpace,
    /// What this shard and the others of its node are going to write.
    pub(crate) space_ledger: SpaceLedger,
    /// How fast merges may go, if there is a limit.
    pub(crate) pace: OnceCell<Rc<dyn Pace>>,
    pub(crate) garbage: Garbage,
    pub(crate) names: FileNames,
    pub(crate) budget: Budget,
    /// Shards that have one schema together.
    pub(crate) shards: usize,
    pub(crate) counters: Counters,
    pub(crate) sampler: Sampler,
    /// Buffers of reads, for the next ones.
    pub(crate) scratch: RefCell<Vec<Scratch>>,
    pub(crate) row_limits: Cell<RowLimits>,
    pub(crate) compactions: CompactionState,
    pub(crate) merges: Merges,
    /// What is large of what was written, until the operator is told.
    pub(crate) untold: Untold,
    /// Samples of flushes that wait to be looked up.
    pub(crate) samples: Samples,
    /// The flushes of a table with fewer bytes in files are not sampled.
    pub(crate) sampled_bytes_min: Cell<u64>,
    /// The least bytes of a fragment that is made short to save space.
    pub(crate) fragment_bytes_min: Cell<u64>,
    /// An sstable of fewer rows gets no file of vectors.
    pub(crate) vector_rows_min: Cell<u64>,
    /// When reads use indexes.
    pub(crate) lookup_policy: Cell<LookupPolicy>,
    /// How many index files were lost when it was asked last which.
    pub(crate) lost_told: Cell<u64>,
    /// Where reads of ranges wait for their turn.
    pub(crate) read_turns: ReadTurns,
    /// The bytes of searches for the nearest rows that are under way.
    pub(crate) searches: Semaphore,
    /// How long its owner runs, in seconds, if it says so.
    pub(crate) uptime_s: Cell<Option<u32>>,
}

/// What a start has opened and an engine is made of.
pub(crate) struct Parts {
    pub(crate) disk: Disk,
    pub(crate) log: Log,
    pub(crate) manifest: Manifest,
    pub(crate) cache: Rc<BlockCache>,
    pub(crate) tables: Tables,
    pub(crate) garbage: Garbage,
    pub(crate) names: FileNames,
    pub(crate) budget: Budget,
    pub(crate) counters: Counters,
    /// What the definitions of user types take, in bytes.
    pub(crate) types_bytes: usize,
}

impl Engine {
    pub(crate) fn assemble(parts: Parts) -> Engine {
        let Parts { disk, log, manifest, cache, tables, garbage, names, budget, counters, .. } =
            parts;
        let positions = log.positions();
        positions.validate();
        assert_eq!(
            manifest.state().flushed,
            positions.flushed,
            "the log begins where it was flushed"
        );
        // What the log holds was replayed: it is in the memtables.
        let writes = WriteQueue::new(positions.appended);
        let deferred = DeferredWrites::new(budget.deferred_max());
        let queues = PartitionQueues::new(budget.queued_max());
        let read_lists = HeldBytes::new(budget.queued_max());
        let searches = Semaphore::new(budget.searches_max() as u64);
        let read_turns = ReadTurns::new(&budget);
        let engine = Engine {
            disk,
            log,
            manifest,
            manifest_lock: AsyncMutex::default(),
            deleting: AsyncMutex::default(),
            removing: AsyncMutex::default(),
            cache,
            tables,
            types_bytes: Cell::new(parts.types_bytes),
            writes,
            deferred,
            queues,
            read_lists,
            views: OnceCell::new(),
            sum: OnceCell::new(),
            log_space: LogSpace::default(),
            space_ledger: SpaceLedger::default(),
            pace: OnceCell::new(),
            garbage,
            names,
            budget,
            shards: 1,
            counters,
            sampler: Sampler::default(),
            untold: Untold::default(),
            scratch: RefCell::default(),
            row_limits: Cell::default(),
            compactions: CompactionState::default(),
            merges: Merges::default(),
            samples: Samples::default(),
            sampled_bytes_min: Cell::new(SAMPLED_TABLE_BYTES_MIN),
            fragment_bytes_min: Cell::new(FRAGMENT_BYTES_MIN),
            vector_rows_min: Cell::new(VECTOR_FILE_ROWS_MIN),
            lookup_policy: Cell::new(LookupPolicy::WhereWorth),
            lost_told: Cell::default(),
            read_turns,
            searches,
            uptime_s: Cell::new(None),
        };
        engine.count_schema();
        engine
    }

    /// Follows the schema: new tables are empty, tables that are gone take their data with them.
    pub fn set_schema(&self, schema: &Schema) {
        for table in self.tables.follow(schema) {
            self.retire(&table);
        }
        self.types_bytes.set(schema.types_bytes());
        self.count_schema();
    }

    /// All memory that this shard may use for data, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.budget.bytes()
    }

    /// What was counted, and what is held now.
    pub fn stats(&self) -> Stats {
        let cache = self.cache.counts();
        Stats {
            memtable_bytes: self.budget.memtables() as u64,
            schema_bytes: self.budget.schema() as u64,
            writes_deferred: self.deferred.count(),
            writes_queued: self.queues.count(),
            deferred_bytes: self.deferred.bytes() as u64,
            queued_bytes: self.queues.bytes() as u64,
            cache_bytes: cache.bytes,
            index_bytes: self.cache.index_bytes(),
            scan_bytes: self.read_turns.scans.held(),
            lookup_bytes: self.read_turns.lookups.held(),
            long_row_bytes: self.read_turns.long_rows.held(),
            search_bytes: self.searches.held(),
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
        size.bytes = size.memtable_bytes + file_bytes(table.views().iter());
        for view in table.views().iter() {
            size.sstables += 1;
            let like = view.sstable.statistics();
            // What a file goes on with is counted where it begins.
            let goes_on = like.goes_on > 0 || view.entry.begin.is_some();
            // A file may say anything.
            let begun = like.partitions.saturating_sub(goes_on.into());
            size.partitions = size.partitions.saturating_add(begun);
            size.resident_bytes += view.sstable.memory_bytes() as u64;
        }
        let unopened = table.damage.unopened_entries();
        size.sstables += unopened.len() as u64;
        size.bytes += unopened.iter().map(|entry| entry.file_bytes).sum::<u64>();
        size.runs = table.runs() as u64;
        size.surplus_bytes = table.overwriting.surplus_bytes.get();
        Ok(size)
    }

    /// The newest write timestamp in memory and in files, in microseconds; `i64::MIN` if there is no data.
    pub fn newest_timestamp_us(&self) -> i64 {
        let newest_of = |table: &Table| {
            let layers = table.layers();
            let in_memory =
                layers.iter().filter_map(|layer| layer.memtable.borrow().newest()).max();
            in_memory.max(table.views().iter().map(View::newest).max())
        };
        let tables = self.tables.by_id();
        tables.values().filter_map(|table| newest_of(table)).max().unwrap_or(i64::MIN)
    }

    /// How long writers should be kept waiting now, in microseconds: rises smoothly as memory fills, and as files wait
    /// to be merged.
    pub fn write_delay_us(&self) -> u32 {
        self.budget.delay_us().max(self.backlog_delay_us())
    }

    /// Other limits of a row than those of [`limits`](crate::limits): smaller ones let a test reach them.
    pub fn set_row_limits(&self, limits: RowLimits) {
        self.row_limits.set(limits);
    }

    /// Uses indexes where it seems worth it, unless a test wants it otherwise.
    pub fn set_lookup_policy(&self, policy: LookupPolicy) {
        self.lookup_policy.set(policy);
    }

    /// Samples the flushes of tables with so many bytes in files, instead of
    /// [`SAMPLED_TABLE_BYTES_MIN`]: a test has little data.
    pub fn set_sampled_bytes_min(&self, bytes: u64) {
        self.sampled_bytes_min.set(bytes);
    }

    /// Makes files of vectors of sstables with so many rows, instead of [`VECTOR_FILE_ROWS_MIN`]: a test has few.
    pub fn set_vector_rows_min(&self, rows: u64) {
        self.vector_rows_min.set(rows);
    }

    /// Asks how full the disk is, where `reserve_bytes` are kept aside: from 97 % on, and while a flush that is due
    /// has no space, writes are refused, and reads and deletions go on. The space that the reserve lacks is not to be
    /// used. Call it every second.
    pub async fn measure_space(&self, reserve_bytes: u64) -> Result<()> {
        let missing_bytes = reserve::missing(&self.disk, reserve_bytes).await?;
        if !self.budget.wants_flush(0) {
            self.log_space.no_flush_is_due();
        }
        self.log_space.measured(self.disk.free_space().await?, missing_bytes);
        self.refuse_deferred_if_full();
        Ok(())
    }

    /// The sstables that the manifest names, each once.
    pub fn files(&self) -> BTreeSet<RelPath> {
        let path = |view: &ViewEntry| layout::sstable_path(view.table, view.sstable);
        self.manifest.state().views.values().map(path).collect()
    }

    /// The data directory.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Whether the disk is so full that writes are refused.
    pub fn is_disk_full(&self) -> bool {
        self.log_space.is_disk_full()
    }

    /// How much of the disk is used, in per cent, rounded up; 0 before it was measured.
    pub fn disk_used_percent(&self) -> u8 {
        self.log_space.used_percent()
    }

    /// Keeps `bytes` of the disk aside for when it is full ([`reserve`]). One shard of a node does this,
    /// every now and then: what was released is taken again when there is space. Gives the bytes that are missing.
    pub async fn keep_reserve(&self, bytes: u64) -> Result<u64> {
        reserve::keep(&self.disk, bytes).await
    }

    /// The table of that id; `Invalid` if there is none.
    pub(crate) fn table(&self, id: TableId) -> Result<Rc<Table>> {
        self.tables.get(id)
    }

    /// Refuses a write of `bytes` if a limit is reached.
    pub(crate) fn admit(&self, bytes: usize) -> Result<()> {
        self.admit_disk()?;
        self.budget.admit(bytes, self.writes.bytes())
    }

    /// Refuses every write while the disk is full.
    pub(crate) fn admit_disk(&self) -> Result<()> {
        match self.log_space.is_disk_full() {
            true => Err(Error::DiskFull { file: "new writes".into() }),
            false => Ok(()),
        }
    }
}
