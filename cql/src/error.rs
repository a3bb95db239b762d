//! What the language refuses, each with the protocol's code for it.
//!
//! A variant is a code of the protocol; `Guardrail` has that of `Invalid`, and is told apart since its text is a
//! warning, too. The texts are Cassandra's wherever it refuses the same thing: drivers, tools and tests know them.
//!
//! Not here: failures of storage and time-outs (`server/src/execute/answer.rs`), where a text does not parse
//! (`lang/syntax_error.rs`), all codes there are (`frame/error.rs`), bytes that are no message, which are `Malformed`.

use std::fmt;

use crate::frame::ErrorCode;
use crate::lang::SyntaxError;

/// Result of the language.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a statement is not executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The text is not CQL.
    Syntax(String),
    /// It asks for what the schema, the types or a limit forbid.
    Invalid(String),
    /// A guardrail that the operator has set refuses it.
    Guardrail(String),
    /// It asks for what the configuration or an option forbids.
    Config(String),
    /// The client may not do this.
    Unauthorized(String),
    /// The keyspace or table to be created exists.
    AlreadyExists {
        /// Keyspace of the object.
        keyspace: String,
        /// The table; empty if it is the keyspace that exists.
        table: String,
        /// Message for the client, in Cassandra's words.
        text: String,
    },
    /// A function failed on its arguments.
    Function {
        /// Keyspace of the object.
        keyspace: String,
        /// Name of the function.
        function: String,
        /// The types of the function's arguments.
        arguments: Vec<String>,
        /// Message for the client, in Cassandra's words.
        text: String,
    },
    /// The request does not fit the statement: the client broke the protocol.
    Protocol(String),
}

impl Error {
    /// An invalid request.
    #[cold]
    pub fn invalid(text: impl Into<String>) -> Error {
        Error::Invalid(text.into())
    }

    /// The protocol's code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::Syntax(_) => ErrorCode::Syntax,
            Error::Invalid(_) | Error::Guardrail(_) => ErrorCode::Invalid,
            Error::Config(_) => ErrorCode::Config,
            Error::Unauthorized(_) => ErrorCode::Unauthorized,
            Error::AlreadyExists { .. } => ErrorCode::AlreadyExists,
            Error::Function { .. } => ErrorCode::FunctionFailure,
            Error::Protocol(_) => ErrorCode::Protocol,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Syntax(text)
            | Error::Invalid(text)
            | Error::Guardrail(text)
            | Error::Config(text)
            | Error::Unauthorized(text)
            | Error::AlreadyExists { text, .. }
            | Error::Function { text, .. }
            | Error::Protocol(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

impl From<SyntaxError> for Error {
    fn from(error: SyntaxError) -> Error {
        Error::Syntax(error.to_string())
    }
}

impl From<model::Error> for Error {
    fn from(error: model::Error) -> Error {
        let text = error.to_string();
        match error {
            model::Error::AlreadyExists { keyspace, table } => {
                Error::AlreadyExists { keyspace, table, text }
            }
            _ => Error::Invalid(text),
        }
    }
}
