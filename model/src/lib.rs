//! The nouns every crate shares, as plain data and pure functions.
//!
//! ```text
//! token, key ──► where a partition lives and how its rows are ordered
//! types      ──► what a value's bytes mean: check, compare, order-preserving form
//! cell, row  ──► the one encoding of a row, and who wins when two meet
//! condition  ──► what must be so for a conditional write, and how it is judged
//! mutation   ──► one partition's change, as the log and the memtable see it
//! read       ──► what a read asks for and what answers it
//! schema     ──► keyspaces, tables, columns, and the changes between two versions
//! ```
//!
//! Invariants: no I/O, no async, no unsafe, no clock, no randomness. Bytes that come from outside
//! are checked before they are believed; a function that cannot trust its input returns [`Error`].

pub mod bytes;
pub mod cell;
pub mod condition;
mod error;
pub mod key;
pub mod limits;
pub mod mutation;
pub mod options;
pub mod ordered;
pub mod read;
pub mod row;
pub mod schema;
mod steps;
pub mod token;
pub mod types;

pub use cell::Deletion;
pub use error::{Error, Result};
pub use mutation::{MutationBuilder, MutationRef};
pub use read::{Filter, Flow, IndexLookup, ReadCommand, ReadEnd, Resume, RowSink};
pub use row::{RowBuilder, RowRef};
pub use schema::{Column, ColumnId, ColumnKind, Keyspace, Schema, SchemaChange, Table, TableId};
pub use token::{Token, TokenRange};
pub use types::CqlType;
