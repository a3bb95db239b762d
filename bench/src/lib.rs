//! What Messina costs, counted and compared.
//!
//! - [`cost`]: in process, one shard: instructions and allocations of an operation (`cost`).
//! - [`compare`]: through the socket, beside Cassandra and Redis, in one run (`compare`).
//!
//! `docs/benchmarks.md` holds the results with the commands that make them.

pub mod compare;
pub mod cost;
pub mod document;
