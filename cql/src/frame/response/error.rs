//! ERROR: a code, a text, and for some codes what a driver's retry policy decides by.
//!
//! A code that the version does not know is sent as the one it grew out of, as Cassandra does:
//! drivers choose their retry policy by code.
//!
//! ```text
//! [int] code  [string] text  details
//!   Unavailable               [consistency] [int] required  [int] alive
//!   WriteTimeout, ReadTimeout [consistency] [int] received  [int] required  then the write type, or whether data came
//!   WriteFailure, ReadFailure the same, with the replicas that failed: each with its reason in v5, else their number
//!   AlreadyExists, Unprepared, FunctionFailure: the names, or the id, of what is meant
//! ```
//!
//! Source: the specifications of the native protocol, versions 3 to 5 ("Error codes").
//!
//! Not here: which failure of a request is which (`server/src/execute/answer.rs`), the codes (`frame/error.rs`).

use std::net::IpAddr;

use super::super::consistency::Consistency;
use super::super::error::ErrorCode;
use super::super::header::{Opcode, Version};
use super::super::writer;
use super::Envelope;

/// What went wrong, with what the code carries beside its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure<'a> {
    /// A code that carries nothing.
    Plain(ErrorCode),
    /// Too few replicas are alive.
    Unavailable {
        /// The level asked for.
        consistency: Consistency,
        /// The number of replicas that the level needs.
        required: i32,
        /// The number of replicas that are alive.
        alive: i32,
    },
    /// Too few replicas answered a write in time.
    WriteTimeout {
        /// How many replicas answered, and how many had to.
        tally: Tally,
        /// `SIMPLE`, `BATCH`, `UNLOGGED_BATCH`, `COUNTER`, `BATCH_LOG`, `CAS`, `VIEW` or `CDC`.
        write_type: &'a str,
        /// How often a `CAS` write met another (v5).
        contentions: u16,
    },
    /// Too few replicas answered a read in time.
    ReadTimeout {
        /// How many replicas answered, and how many had to.
        tally: Tally,
        /// Whether the replica asked for data answered.
        data_present: bool,
    },
    /// A replica failed a read.
    ReadFailure {
        /// How many replicas answered, and how many had to.
        tally: Tally,
        /// Which replicas failed and why (a number per replica; v4 sees only how many).
        failures: &'a [(IpAddr, u16)],
        /// Whether the replica asked for data answered.
        data_present: bool,
    },
    /// A replica failed a write.
    WriteFailure {
        /// How many replicas answered, and how many had to.
        tally: Tally,
        /// Each replica that failed, with the reason's code.
        failures: &'a [(IpAddr, u16)],
        /// As in [`Failure::WriteTimeout`].
        write_type: &'a str,
    },
    /// A user function failed.
    FunctionFailure {
        /// Keyspace of the object.
        keyspace: &'a str,
        /// Name of the function.
        function: &'a str,
        /// The CQL names of its argument types.
        argument_types: &'a [&'a str],
    },
    /// A conditional write whose outcome is not known.
    CasWriteUnknown {
        /// How many replicas answered, and how many had to.
        tally: Tally,
    },
    /// The keyspace (`table` is empty) or table exists.
    AlreadyExists {
        /// Keyspace of the object.
        keyspace: &'a str,
        /// Name of the table, empty for a keyspace.
        table: &'a str,
    },
    /// The prepared statement is not known here.
    Unprepared {
        /// The id that was asked for.
        id: &'a [u8],
    },
}

/// How many replicas answered, of how many needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// The level asked for.
    pub consistency: Consistency,
    /// The number of replicas that answered.
    pub received: i32,
    /// The number of replicas that the level needs.
    pub required: i32,
}

impl Failure<'_> {
    /// The error code of this failure on the wire.
    pub fn code(&self) -> ErrorCode {
        match self {
            Failure::Plain(code) => *code,
            Failure::Unavailable { .. } => ErrorCode::Unavailable,
            Failure::WriteTimeout { .. } => ErrorCode::WriteTimeout,
            Failure::ReadTimeout { .. } => ErrorCode::ReadTimeout,
            Failure::ReadFailure { .. } => ErrorCode::ReadFailure,
            Failure::WriteFailure { .. } => ErrorCode::WriteFailure,
            Failure::FunctionFailure { .. } => ErrorCode::FunctionFailure,
            Failure::CasWriteUnknown { .. } => ErrorCode::CasWriteUnknown,
            Failure::AlreadyExists { .. } => ErrorCode::AlreadyExists,
            Failure::Unprepared { .. } => ErrorCode::Unprepared,
        }
    }

    /// The same failure in the words of an older version.
    fn as_of(self, version: Version) -> Self {
        let old = version < Version::V4;
        match self {
            Failure::Plain(ErrorCode::CdcWriteFailure) if old => Failure::Plain(ErrorCode::Invalid),
            Failure::FunctionFailure { .. } if old => Failure::Plain(ErrorCode::Invalid),
            Failure::ReadFailure { tally, data_present, .. } if old => {
                Failure::ReadTimeout { tally, data_present }
            }
            Failure::WriteFailure { tally, write_type, .. } if old => {
                Failure::WriteTimeout { tally, write_type, contentions: 0 }
            }
            Failure::CasWriteUnknown { tally } if version < Version::V5 => {
                Failure::WriteTimeout { tally, write_type: "CAS", contentions: 0 }
            }
            same => same,
        }
    }

    fn put_details(&self, version: Version, out: &mut Vec<u8>) {
        match *self {
            Failure::Plain(_) => {}
            Failure::Unavailable { consistency, required, alive } => {
                writer::short(out, consistency.code());
                writer::int(out, required);
                writer::int(out, alive);
            }
            Failure::WriteTimeout { tally, write_type, contentions } => {
                tally.put(out);
                writer::string(out, write_type);
                if version >= Version::V5 && write_type == "CAS" {
                    writer::short(out, contentions);
                }
            }
            Failure::ReadTimeout { tally, data_present } => {
                tally.put(out);
                writer::byte(out, u8::from(data_present));
            }
            Failure::ReadFailure { tally, failures, data_present } => {
                tally.put(out);
                put_failures(version, failures, out);
                writer::byte(out, u8::from(data_present));
            }
            Failure::WriteFailure { tally, failures, write_type } => {
                tally.put(out);
                put_failures(version, failures, out);
                writer::string(out, write_type);
            }
            Failure::FunctionFailure { keyspace, function, argument_types } => {
                writer::string(out, keyspace);
                writer::string(out, function);
                writer::string_list(out, argument_types.iter().copied());
            }
            Failure::CasWriteUnknown { tally } => tally.put(out),
            Failure::AlreadyExists { keyspace, table } => {
                writer::string(out, keyspace);
                writer::string(out, table);
            }
            Failure::Unprepared { id } => writer::short_bytes(out, id),
        }
    }
}

impl Tally {
    fn put(&self, out: &mut Vec<u8>) {
        writer::short(out, self.consistency.code());
        writer::int(out, self.received);
        writer::int(out, self.required);
    }
}

/// v5 names the replicas that failed; before, their number was sent.
fn put_failures(version: Version, failures: &[(IpAddr, u16)], out: &mut Vec<u8>) {
    writer::int(out, writer::length(failures.len()));
    if version >= Version::V5 {
        for (address, reason) in failures {
            writer::inet_address(out, *address);
            writer::short(out, *reason);
        }
    }
}

impl Envelope<'_> {
    /// Appends an ERROR frame with `failure` and `text`.
    #[cold]
    pub fn put_error(&self, failure: Failure<'_>, text: &str, out: &mut Vec<u8>) {
        let failure = failure.as_of(self.version);
        self.put(Opcode::Error, out, |out| {
            out.extend_from_slice(&failure.code().code().to_be_bytes());
            writer::string(out, text);
            failure.put_details(self.version, out);
        });
    }
}
