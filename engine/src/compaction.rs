//! Compaction: many files become few, and what no reader can see any more goes.
//!
//! ```text
//! pieces ─► strategy (data in, data out) ─► Task ─► rewrite (the one mechanism) ─► fragments
//! ```
//!
//! 1. A strategy looks at sizes, tokens and statistics and says which pieces to merge. It reads no file.
//! 2. `rewrite` merges them into fragments that are whole, synced and read back.
//! 3. After each fragment one manifest edit adds it and cuts what it replaces off the inputs (`adoption.rs`): a merge
//!    holds little more than a fragment of each run twice, and what was done when it ends early stays done.
//!
//! The pieces of a run share no token, so a run counts as one file, however many fragments it has.
//!
//! Not here: when to compact and at whose cost (the owner of the engine decides).

mod adoption;
mod amplification;
mod backlog;
mod base;
mod footprint;
mod incremental;
mod job;
mod leveled;
mod major;
mod merges;
mod outside;
mod piece;
mod rewrite;
mod size_tiered;
mod smaller;
mod strategy;
mod time_window;
mod unified;

#[cfg(test)]
mod tests;

pub(crate) use backlog::{ChangedTables, CompactionState, EvaluationTimer};
pub(crate) use job::gc_before_s;
pub use major::MajorRequest;
pub use merges::{EndedMerge, MergeName, MergeStatus};
pub(crate) use merges::{Merges, share};
pub use piece::{CompactionContext, Piece};
pub use strategy::{MergeTask, Strategy, Task, Why};
