//! What is answered instead of a result: every way to fail, with the protocol's code and detail.
//!
//! The engine's errors become the codes that drivers act on:
//!
//! ```text
//! a named limit, nothing written       OVERLOADED: try again, elsewhere or later
//! a named limit, other parts written   WRITE_TIMEOUT: a part of the write may be there
//! the caller's mistake                 INVALID
//! any other error of a read            READ_FAILURE: damaged bytes, too many tombstones
//! any other error of a write           WRITE_FAILURE: a full disk, a failed log, a part refused beside written ones
//! any other error of TRUNCATE          TRUNCATE_ERROR
//! not done in time                     READ_TIMEOUT, WRITE_TIMEOUT: the write may still happen
//! ```
//!
//! 1. `put` appends exactly one ERROR frame.
//! 2. A partition has one replica here, so each tally says: 0 responses of 1.
//! 3. The texts of time-outs and of too many tombstones are Cassandra's, since drivers and tests look for them.
//!
//! Not here: the errors of the language and their codes (`cql/src/error.rs`), the bytes of an ERROR
//! (`cql/src/frame/response/error.rs`), refusals before a request is decoded (`connection.rs`).

use cql::frame::ErrorCode;
use cql::frame::consistency::Consistency;
use cql::frame::response::{Envelope, Failure, Tally};

use super::conditional::WRITE_TYPE;
use crate::system::Node;

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum ExecuteError {
    /// The language refuses it.
    Language(cql::Error),
    /// The prepared statement is not known on this core.
    Unprepared(Vec<u8>),
    /// Storage refuses a read, which was asked for at this level.
    Read(engine::Error, Consistency),
    /// Storage refuses a write.
    Write(engine::Error, WriteKind),
    /// Storage does not empty a table.
    Truncate(engine::Error),
    /// A read, which was asked for at this level, was not done in time.
    ReadTimedOut(Consistency),
    /// A write was not durable in time. It may become so.
    WriteTimedOut(WriteKind),
    /// There is no memory for the answer, or too much waits before the request: what to say.
    Overloaded(String),
    /// The level needs more replicas than there are.
    Unavailable {
        /// The level asked for.
        level: Consistency,
        /// The number of replicas that the level needs.
        required: i32,
        /// The number of replicas that are alive.
        alive: i32,
    },
    /// Another core refuses its part: the frame that says so to the client.
    OfPeer(Vec<u8>),
    /// The schema could not be changed.
    Schema(shard::message::AlterError),
}

impl From<cql::Error> for ExecuteError {
    fn from(error: cql::Error) -> ExecuteError {
        ExecuteError::Language(error)
    }
}

/// What drivers are told of a write that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteKind {
    /// The level asked for.
    pub(super) level: Consistency,
    /// The write type of the protocol: `SIMPLE`, `BATCH`, `UNLOGGED_BATCH`, `CAS`.
    pub(super) name: &'static str,
}

/// What Cassandra says of a request whose one replica has not answered in time.
const TIMED_OUT: &str = "Operation timed out - received only 0 responses.";

/// What Cassandra says of a conditional write that was not answered in time.
const CAS_TIMED_OUT: &str =
    "CAS operation timed out: received 0 of 1 required responses after 0 contention retries";

/// Reason codes of a replica's failure: 0 is unknown.
const UNKNOWN_REASON: u16 = 0;
/// The reason of a read that has passed `tombstone_failure_threshold`.
const TOO_MANY_TOMBSTONES: u16 = 1;

impl ExecuteError {
    /// A request that is wrong.
    #[cold]
    pub(super) fn invalid(text: impl Into<String>) -> ExecuteError {
        ExecuteError::Language(cql::Error::invalid(text))
    }

    /// Appends the ERROR frame.
    #[cold]
    pub(super) fn put(&self, envelope: &Envelope<'_>, node: &Node, out: &mut Vec<u8>) {
        match self {
            ExecuteError::Language(error) => put_language(error, envelope, out),
            ExecuteError::OfPeer(frame) => out.extend_from_slice(frame),
            ExecuteError::Unprepared(id) => {
                let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
                let text = format!(
                    "Prepared query with ID {hex} not found (either the query was not prepared on this host (maybe the host has been restarted?) or you have prepared too many queries and it has been evicted from the internal cache)"
                );
                envelope.put_error(Failure::Unprepared { id }, &text, out);
            }
            ExecuteError::Schema(error) => {
                let code = match error {
                    shard::message::AlterError::Refused(_) => ErrorCode::Invalid,
                    _ => ErrorCode::Server,
                };
                envelope.put_error(Failure::Plain(code), &error.to_string(), out);
            }
            ExecuteError::Read(engine::Error::TooManyTombstones { .. }, level) => {
                let (tally, failures) = (none_of(*level), [(node.address, TOO_MANY_TOMBSTONES)]);
                let failed =
                    Failure::ReadFailure { tally, failures: &failures, data_present: false };
                let text = format!(
                    "Operation failed - received 0 responses and 1 failures: READ_TOO_MANY_TOMBSTONES from /{}:7000",
                    node.address
                );
                envelope.put_error(failed, &text, out);
            }
            ExecuteError::Read(error, level) => {
                let (tally, failures) = (none_of(*level), [(node.address, UNKNOWN_REASON)]);
                let failed =
                    Failure::ReadFailure { tally, failures: &failures, data_present: false };
                put_storage(error, failed, envelope, out);
            }
            ExecuteError::Write(error, kind) => put_write(error, *kind, envelope, node, out),
            ExecuteError::Truncate(error) => {
                let failed = Failure::Plain(ErrorCode::Truncate);
                let text = format!("Error during truncate: {error}");
                envelope.put_error(code_of(error, failed), &text, out);
            }
            ExecuteError::ReadTimedOut(level) => {
                let failure = Failure::ReadTimeout { tally: none_of(*level), data_present: false };
                envelope.put_error(failure, TIMED_OUT, out);
            }
            ExecuteError::WriteTimedOut(WriteKind { level, name }) => {
                let failure = write_timeout(*level, name);
                let text = if *name == WRITE_TYPE { CAS_TIMED_OUT } else { TIMED_OUT };
                envelope.put_error(failure, text, out);
            }
            ExecuteError::Overloaded(text) => {
                envelope.put_error(Failure::Plain(ErrorCode::Overloaded), text, out);
            }
            ExecuteError::Unavailable { level, required, alive } => {
                let (consistency, required, alive) = (*level, *required, *alive);
                let text = format!("Cannot achieve consistency level {}", level.name());
                envelope.put_error(
                    Failure::Unavailable { consistency, required, alive },
                    &text,
                    out,
                );
            }
        }
    }
}

fn put_language(error: &cql::Error, envelope: &Envelope<'_>, out: &mut Vec<u8>) {
    let text = error.to_string();
    let failure = match error {
        cql::Error::Guardrail(_) => {
            // As Cassandra has it, the refusal is a warning, too.
            let warnings = std::slice::from_ref(&text);
            let envelope = Envelope { warnings, ..*envelope };
            return envelope.put_error(Failure::Plain(error.code()), &text, out);
        }
        cql::Error::AlreadyExists { keyspace, table, .. } => {
            Failure::AlreadyExists { keyspace, table }
        }
        cql::Error::Function { keyspace, function, arguments, .. } => {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let failure =
                Failure::FunctionFailure { keyspace, function, argument_types: &arguments };
            return envelope.put_error(failure, &text, out);
        }
        other => Failure::Plain(other.code()),
    };
    envelope.put_error(failure, &text, out);
}

/// The one replica did not answer.
fn none_of(consistency: Consistency) -> Tally {
    Tally { consistency, received: 0, required: 1 }
}

fn write_timeout(level: Consistency, write_type: &str) -> Failure<'_> {
    Failure::WriteTimeout { tally: none_of(level), write_type, contentions: 0 }
}

/// Appends an error of a write. A write that may be there in part is never `OVERLOADED`, after which drivers send it
/// again: it is a time-out if the first of its errors was a limit, else a failure.
fn put_write(
    error: &engine::Error,
    WriteKind { level, name }: WriteKind,
    envelope: &Envelope<'_>,
    node: &Node,
    out: &mut Vec<u8>,
) {
    if let engine::Error::PartlyWritten(first) = error
        && matches!(**first, engine::Error::Overloaded(_))
    {
        let text = format!("{TIMED_OUT} {error}");
        return envelope.put_error(write_timeout(level, name), &text, out);
    }
    let (tally, failures) = (none_of(level), [(node.address, UNKNOWN_REASON)]);
    let failed = Failure::WriteFailure { tally, failures: &failures, write_type: name };
    put_storage(error, failed, envelope, out);
}

/// Appends an error of storage: `failed`, unless the protocol has a better code for it.
fn put_storage(
    error: &engine::Error,
    failed: Failure<'_>,
    envelope: &Envelope<'_>,
    out: &mut Vec<u8>,
) {
    envelope.put_error(code_of(error, failed), &error.to_string(), out);
}

/// How an error of storage is told: as `failed`, unless the protocol has a better code for it.
fn code_of<'f>(error: &engine::Error, failed: Failure<'f>) -> Failure<'f> {
    match error {
        engine::Error::Overloaded(_) => Failure::Plain(ErrorCode::Overloaded),
        engine::Error::Invalid(_) => Failure::Plain(ErrorCode::Invalid),
        _ => failed,
    }
}
