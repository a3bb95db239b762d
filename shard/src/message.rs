//! All that one core may say to another: closed enums of plain data, moved by value.
//!
//! ```text
//! asker ── Message::Ask { id, request } ──► owner
//!       ◄─ Message::Answer { id, reply } ──   same id; in any order
//! ```
//!
//! Every request has exactly one reply, so an asker knows how many it may still receive, and its
//! ring to every peer has space for them (`peers.rs`, credits). What the layer above wants to know
//! of its own peers travels as its own two types, `A` and `R`.

use std::sync::Arc;
use std::time::Instant;

use engine::{CheckedPart, Error};
use model::{ReadCommand, Schema, SchemaChange, TableId};

use crate::page::Page;
use crate::snapshots::{Kept, Removal};
use crate::upkeep::{ShardStatus, Upkeep};

/// A request or the reply to one.
#[derive(Debug)]
pub enum Message<A, R> {
    /// A request to another shard.
    Ask {
        /// The asker's name for it.
        id: u32,
        /// The read, write or question.
        request: Request<A>,
    },
    /// The reply to a request of this shard.
    Answer {
        /// The name the asker gave.
        id: u32,
        /// The result, or the error.
        reply: Reply<R>,
    },
}

/// A request of one shard to another.
#[derive(Debug)]
pub enum Request<A> {
    /// Make this record durable and readable: mutations that the receiver owns.
    Apply(Box<[u8]>),
    /// Say whether this part of a batch could be written, and how it reads in plain form.
    CheckPart(Box<[u8]>),
    /// Make this part of a noted batch durable and readable.
    Part(Box<CheckedPart>),
    /// The same of a part that was refused as `Invalid`: what there is of its tables, by a schema of this number or a
    /// later one.
    Insist(Box<CheckedPart>, u64),
    /// The same of one that was refused again, for rows of views that it would have to write: without them.
    InsistAlone(Box<CheckedPart>),
    /// Read what the receiver owns, until this moment at most.
    Read(Box<ReadCommand>, Option<Instant>),
    /// No one waits any more for the `Read` that the asker named so.
    EndRead(u32),
    /// This is the schema now; it is durable.
    Schema(Arc<Schema>),
    /// Change the schema. Only the first shard is asked.
    Alter(Box<Alteration>),
    /// Take rows away behind a snapshot. Only the first shard is asked.
    Remove(Box<Removal>),
    /// Forget the rows of a table.
    Truncate(TableId),
    /// Something an operator asks of every core.
    Upkeep(Upkeep),
    /// Something of the layer above.
    Service(A),
}

/// The reply to a [`Request`].
#[derive(Debug)]
pub enum Reply<R> {
    /// To `Apply`, `Part`, `Insist`, `InsistAlone`, `EndRead`, `Schema` and `Truncate`, and to a `Read` that was ended.
    Done(Result<(), Box<Error>>),
    /// To `CheckPart`: the part in plain form.
    Part(Result<Box<CheckedPart>, Box<Error>>),
    /// The answer to `Read`.
    Page(Result<Box<Page>, Box<Error>>),
    /// To `Alter`: the schema after it, which every core has.
    Altered(Result<Arc<Schema>, Box<AlterError>>),
    /// The answer to `Remove`.
    Removed(Result<Kept, Box<AlterError>>),
    /// The answer to `Upkeep`.
    Upkeep(Result<Box<ShardStatus>, Box<Error>>),
    /// The answer to a question of the layer above.
    Service(R),
}

/// A change of the schema, and the schema that its author looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Alteration {
    /// The schema change.
    pub change: SchemaChange,
    /// [`Schema::number`] of that schema.
    pub based_on: u64,
}

/// Why the schema is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterError {
    /// Somebody else was faster: look at the schema again.
    Conflict,
    /// The change contradicts the schema.
    Refused(model::Error),
    /// The schema's log could not be written.
    Store(Error),
}

impl std::fmt::Display for AlterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AlterError::Conflict => f.write_str("the schema was changed by somebody else"),
            AlterError::Refused(error) => error.fmt(f),
            AlterError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AlterError {}
