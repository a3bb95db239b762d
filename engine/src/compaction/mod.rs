//! Compaction: many files become few, and what nobody can see any more goes.
//!
//! ```text
//! runs of views ─► policy (data in, data out) ─► Task ─► rewrite (the one mechanism) ─► fragments
//! ```
//!
//! 1. A policy looks at sizes, tokens and statistics and says which runs to merge. It reads no file.
//! 2. [`rewrite`] merges them into fragments that are whole, synced and read back.
//! 3. Whoever asked commits one manifest edit that removes the inputs and adds the outputs.
//!
//! Not here: when to compact and at whose cost (the engine's jobs), and the edit.

mod rewrite;

#[cfg(test)]
mod tests;

pub use rewrite::{Input, Output, rewrite};
