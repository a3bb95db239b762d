//! What can be wrong on the wire: the protocol's error codes, and bytes that are no message.
//!
//! [`Malformed`] is what all decoders of this folder give, on both sides. Its text is Cassandra's where drivers and
//! tests know one. The codes are those of the protocol's specifications, versions 3 to 5 ("Error codes"); not all of
//! them are sent here.
//!
//! Not here: what an ERROR carries beside its text, and codes that an older version does not know
//! (`response/error.rs`), which refusal of the language has which code (`cql/src/error.rs`), which failure of a request
//! has which (`server/src/execute/answer.rs`).

use std::borrow::Cow;
use std::fmt;

/// A result of decoding bytes that a peer sent.
pub type Result<T> = std::result::Result<T, Malformed>;

/// Bytes that are not what the protocol says. The answer is ERROR [`ErrorCode::Protocol`] with this
/// text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub Cow<'static, str>);

impl Malformed {
    /// With a text that is formatted for the case.
    #[cold]
    pub fn because(text: String) -> Malformed {
        Malformed(Cow::Owned(text))
    }

    /// With a fixed text.
    #[cold]
    pub const fn with(text: &'static str) -> Malformed {
        Malformed(Cow::Borrowed(text))
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

/// The code of an ERROR message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ErrorCode {
    /// Something unexpected on our side.
    Server = 0x0000,
    /// The peer broke the protocol.
    Protocol = 0x000A,
    /// The name or password of the user is wrong.
    BadCredentials = 0x0100,
    /// Too few replicas are alive.
    Unavailable = 0x1000,
    /// A limit is reached; the request may be sent again later.
    Overloaded = 0x1001,
    /// The node is not serving yet.
    IsBootstrapping = 0x1002,
    /// A TRUNCATE failed.
    Truncate = 0x1003,
    /// Too few replicas answered a write in time.
    WriteTimeout = 0x1100,
    /// Too few replicas answered a read in time.
    ReadTimeout = 0x1200,
    /// A replica failed a read.
    ReadFailure = 0x1300,
    /// A user function failed.
    FunctionFailure = 0x1400,
    /// A replica failed a write.
    WriteFailure = 0x1500,
    /// A change log is full.
    CdcWriteFailure = 0x1600,
    /// A conditional write whose outcome is not known (v5).
    CasWriteUnknown = 0x1700,
    /// The statement does not parse.
    Syntax = 0x2000,
    /// The user may not do that.
    Unauthorized = 0x2100,
    /// The statement is not valid.
    Invalid = 0x2200,
    /// The statement asks for what the configuration forbids.
    Config = 0x2300,
    /// The keyspace or table exists.
    AlreadyExists = 0x2400,
    /// The prepared statement is not known here: prepare it again.
    Unprepared = 0x2500,
}

impl ErrorCode {
    /// The code as the wire has it.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The error with this code, if it is one.
    pub fn from_code(code: u32) -> Option<ErrorCode> {
        use ErrorCode::*;
        const ALL: [ErrorCode; 20] = [
            Server,
            Protocol,
            BadCredentials,
            Unavailable,
            Overloaded,
            IsBootstrapping,
            Truncate,
            WriteTimeout,
            ReadTimeout,
            ReadFailure,
            FunctionFailure,
            WriteFailure,
            CdcWriteFailure,
            CasWriteUnknown,
            Syntax,
            Unauthorized,
            Invalid,
            Config,
            AlreadyExists,
            Unprepared,
        ];
        ALL.into_iter().find(|e| e.code() == code)
    }
}
