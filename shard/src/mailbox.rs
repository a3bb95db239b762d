//! How cores talk: by value, through bounded rings, without locks.
//!
//! ```text
//! ring  ──► one producer, one consumer, cached indices (the unsafe space)
//! bell  ──► wake a sleeping core, and only a sleeping one
//! mesh  ──► N × N rings; one port per core
//! ```
//!
//! Invariant: this is the only place where data moves between threads.

mod bell;
mod mesh;
mod ring;

pub use bell::Bell;
pub use mesh::{Inbox, Outbox, Port, mesh, ring_slots};
