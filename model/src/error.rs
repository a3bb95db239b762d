//! What can be wrong with bytes or with a request, said by the crates that have no I/O.
//!
//! `Malformed` is for bytes that should have been ours; `Invalid` for what a caller asked.

use std::fmt;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a pure function refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Bytes that do not have the form they claim; the text says which part.
    Malformed(&'static str),
    /// A value or a change that the schema or a limit forbids.
    Invalid(String),
    /// A keyspace or table that should be new is there already.
    AlreadyExists {
        /// Name of the keyspace.
        keyspace: String,
        /// The table; empty if the keyspace itself exists.
        table: String,
    },
}

impl Error {
    /// A refused request.
    #[cold]
    pub fn invalid(text: impl Into<String>) -> Error {
        Error::Invalid(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Malformed(what) => write!(f, "malformed {what}"),
            Error::Invalid(text) => f.write_str(text),
            Error::AlreadyExists { keyspace, table } if table.is_empty() => {
                write!(f, "Cannot add existing keyspace \"{keyspace}\"")
            }
            Error::AlreadyExists { keyspace, table } => {
                write!(
                    f,
                    "Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\""
                )
            }
        }
    }
}

impl std::error::Error for Error {}
