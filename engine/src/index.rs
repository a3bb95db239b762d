//! Secondary indexes attached to storage: beside each sstable one immutable file for each index, from terms to places.
//!
//! ```text
//! rows of a flush, a merge ─► Writer ─► IndexBuilder ─► TermSort (runs) ─► IndexWriter ─► <sstable>-<index>.idx
//! rows of an older file ────► job ─────────┘
//! a lookup ─► IndexFile: directory (memory) ─► block of terms ─► postings ─► places in the sstable, in its order
//! ```
//!
//! Invariants
//! 1. An index file is written once, read back, and durable before a manifest names its sstable. It is derived data:
//!    one that is missing, damaged or of another time is not used, its sstable is scanned, and a job makes it anew.
//! 2. Every byte that is used was under a checksum that knows the file and the place. The footer names the sstable by
//!    its id and its own checksum, and the index by what it indexes.
//! 3. What it gives is never less than what the sstable holds: who reads judges each candidate by the whole filter.
//! 4. It goes with its sstable, or with its index.
//!
//! Not here: what a term is (`model/src/schema/index.rs`; of vectors `vectors.rs`), terms of memtables (`memtable/terms.rs`), how candidates of
//! all sources become rows (`read/lookup.rs`).

mod builder;
mod directory;
mod file;
mod footer;
mod job;
mod place;
mod postings;
mod runs;
mod smallest;
mod sort;
#[cfg(test)]
mod tests;
mod turns;
mod vectors;
mod walk;
mod writer;

pub(crate) use builder::IndexBuilder;
pub(crate) use file::{IndexFile, sstable_of};
pub use job::IndexProgress;
pub(crate) use job::{IndexState, remove_files};
pub(crate) use place::Place;
pub(crate) use smallest::Smallest;
pub(crate) use vectors::{Lists, Reach, VectorTerm};
pub(crate) use walk::{TermWalk, is_one_term};
