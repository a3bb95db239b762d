//! One shard's storage: commit log, memtable, sstables, cache, compaction.
//!
//! The engine is one thread's (`!Send`): no locks, and no atomics but in what the shards of a node share (the ledger of
//! space, files of several shards). It never spawns (but for the thread that closes real files, and the tasks that open
//! them), reads a clock or draws random numbers: time and randomness are arguments. All I/O goes through [`io`], which
//! has a second implementation, the seeded simulator. So a whole shard runs deterministically in a test.

pub mod async_mutex;
mod backoff;
mod batch_parts;
mod budget;
pub mod cache;
pub mod codec;
pub mod commitlog;
pub mod compaction;
pub mod cursor;
mod cut;
mod damage;
mod deferred_writes;
mod engine;
pub mod error;
mod file_names;
mod file_owners;
mod flush;
mod flush_estimate;
mod garbage;
mod hot_partitions;
mod index;
pub mod io;
mod jobs;
pub mod journal;
mod large_data;
pub mod layout;
pub mod limits;
mod log_space;
pub mod manifest;
pub mod memtable;
mod newest_records;
mod overwriting;
mod pace;
mod partition_queue;
mod pause;
pub mod planted;
mod read;
mod read_before_write;
mod recovery;
mod remove;
pub mod reserve;
mod reshard;
mod row_lengths;
mod row_limits;
mod schema_memory;
pub mod semaphore;
pub mod snapshot;
mod space_ledger;
pub mod sstable;
mod stats;
mod table;
mod tables;
mod truncations;
mod views;
mod write;
mod write_queue;

pub use batch_parts::CheckedPart;
pub use compaction::{EndedMerge, MajorRequest, MergeName, MergeStatus};
pub use damage::{DamageKind, DamagedView};
pub use engine::{Config, Engine};
pub use error::{Error, Result};
pub use file_owners::FileOwners;
pub use hot_partitions::{HotPartition, HotPartitions};
pub use index::IndexProgress;
pub use jobs::{Job, JobKind};
pub use large_data::{Large, LargeData, LargeThresholds, LargeWritten};
pub use pace::{Pace, Wait};
pub use pause::Pause;
pub use read::{LookupPolicy, Quantum, ReadSources, RecordTable, give_nearest, read_record};
pub use read_before_write::{Sum, Turn};
pub use reshard::{Reshard, Swept, sweep};
pub use row_limits::RowLimits;
pub use space_ledger::SpaceLedger;
pub use stats::{Stats, TableSize};
pub use views::{ViewStamp, Views};
