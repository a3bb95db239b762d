//! What can go wrong in a load run, from the tool's point of view.

use std::fmt;

/// Why a run, or a part of it, cannot go on.
#[derive(Debug)]
pub enum Error {
    /// The flags ask for something that cannot be.
    Invalid(String),
    /// The server answered a request that must succeed with an error.
    Server {
        /// The protocol's error code.
        code: u32,
        /// The server's words.
        text: String,
    },
    /// The server broke the protocol: an answer that cannot be decoded.
    Protocol(String),
    /// The connection is gone, and `--reconnect` was not given or did not help.
    Lost(String),
    /// A file does not hold what it should.
    Corrupt {
        /// Path of the file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        reason: &'static str,
    },
    /// The operating system refused.
    Io {
        /// What was being done.
        doing: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
}

/// The result of everything fallible here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An I/O error together with what was being done.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let doing = doing.into();
        move |source| Error::Io { doing, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Invalid(text) => write!(f, "{text}"),
            Error::Server { code, text } => {
                write!(f, "the server answered with error 0x{code:04X}: {text}")
            }
            Error::Protocol(text) => write!(f, "the server broke the protocol: {text}"),
            Error::Lost(text) => write!(f, "connection lost: {text}"),
            Error::Corrupt { file, offset, reason } => {
                write!(f, "{file} is damaged at byte {offset}: {reason}")
            }
            Error::Io { doing, source } => write!(f, "{doing}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
