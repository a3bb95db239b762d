//! What Messina costs, counted and compared.
//!
//! - [`compare`]: through the socket, beside Cassandra and Redis, in one run (`compare`).
//!
//! `docs/benchmarks.md` holds the results with the commands that make them.

pub mod compare;
