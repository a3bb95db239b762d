//! The tests of a whole shard's storage, one file a subject, as one program.
//!
//! As programs each they would be linked with the engine twenty-five times, which is minutes of every run. Programs of
//! their own are only those that count the memory of their process (`long_rows`, `schema_memory`), that `cargo ci` or a
//! document runs alone (`planted`, `vector_files`, `vector_recall`), and that have no engine (`crash`) or the real disk
//! (`disk_contract`).
//!
//! Not here: what the tests share (`shard/mod.rs`).

mod batch_parts;
mod compaction;
mod conditions;
mod counters;
mod damage;
mod dropped_columns;
mod engine_basic;
mod grouped_flushes;
mod hot_partition;
mod index_bounds;
mod index_turns;
mod indexes;
mod large_rows;
mod list_changes;
mod lookup_memory;
mod many_deletions;
mod many_tables;
mod nearest;
mod overwrites;
mod range_reads;
mod read_costs;
mod shard;
mod shared_files;
mod space;
mod unlinking;
mod views;
mod waiting_writes;
mod wide_partition;
