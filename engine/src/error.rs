//! What can go wrong in the engine, and whose fault it is.
//!
//! Three kinds of wrong, three answers: the caller's mistake is `Invalid`, damaged bytes are `Corrupt`
//! and our own bug is an `assert!`. The rest is the world: the device, a full disk, too much load.
//! Not here: what a client is told (`server` maps these to protocol errors).

use std::fmt;

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the engine could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The operating system refused an operation on a file. `errno` is 0 for a short write.
    Io {
        /// What was tried: `read`, `write`, `sync`, ...
        op: &'static str,
        /// The file, relative to the data directory.
        file: Box<str>,
        /// The system's error number.
        errno: i32,
    },
    /// There is no such file. Never an answer to a query: a file that ought to exist is missing.
    NotFound {
        /// The file, relative to the data directory.
        file: Box<str>,
    },
    /// Bytes from the disk failed a check.
    Corrupt {
        /// The file, relative to the data directory.
        file: Box<str>,
        /// Where in the file the damaged thing begins.
        offset: u64,
        /// What is wrong with it.
        what: Box<str>,
    },
    /// A file that a read needs could not be opened when the shard was.
    Damaged {
        /// The file, relative to the data directory.
        file: Box<str>,
        /// Why it could not be opened.
        what: Box<str>,
    },
    /// The file was written by a newer version of the format than this build knows.
    Newer {
        /// The file, relative to the data directory.
        file: Box<str>,
        /// The version found.
        found: u32,
        /// The newest version this build knows.
        known: u32,
    },
    /// The file needs features that this build does not know.
    UnknownFeature {
        /// The file, relative to the data directory.
        file: Box<str>,
        /// A bit for each such feature.
        bits: u32,
    },
    /// Another process holds the data directory.
    InUse {
        /// The lock file.
        file: Box<str>,
    },
    /// The caller asked for something that cannot be.
    Invalid(Box<str>),
    /// A row is too long for a compaction to write: the files that hold it stay as they are.
    RowTooLarge {
        /// Keyspace and table.
        table: Box<str>,
        /// The key of its partition, as stored.
        key: Box<[u8]>,
        /// Bytes of the row.
        bytes: u64,
    },
    /// A read passed more tombstones than its command allows.
    TooManyTombstones {
        /// How many it had passed when it ended.
        passed: u64,
    },
    /// A condition of a write does not hold: nothing was written. That is an answer, and no failure.
    NotApplied {
        /// The rows that the conditions looked at, as a mutation: of each what was compared, or comes back.
        found: Box<[u8]>,
    },
    /// A named limit is reached; the same request may pass later.
    Overloaded(&'static str),
    /// A write over several shards that failed with this on one of them, and whose other parts, or this one, may be
    /// there. Sent again it may be done twice.
    PartlyWritten(Box<Error>),
    /// The answer needs the disk, and the caller asked not to wait.
    WouldBlock,
    /// There is no space left for new data. Reads go on.
    DiskFull {
        /// The file that could not grow.
        file: Box<str>,
    },
    /// An earlier write or sync failed, so nothing more is trusted to this log or manifest (never retried).
    Poisoned(Box<Error>),
}

impl Error {
    /// A failed operation: out of space is told apart, because it ends when space is freed.
    #[cold]
    pub fn io(op: &'static str, file: &str, errno: i32) -> Error {
        match errno {
            libc::ENOSPC | libc::EDQUOT => Error::DiskFull { file: file.into() },
            libc::ENOENT => Error::NotFound { file: file.into() },
            _ => Error::Io { op, file: file.into(), errno },
        }
    }

    /// Whether the manifest may name what an edit was to add, when its commit has ended with this: a full disk changes
    /// nothing, after any other error only the next start can say.
    pub(crate) fn may_be_committed(&self) -> bool {
        !matches!(self, Error::DiskFull { .. })
    }

    /// Whether a write that has ended with this has changed nothing, nor will: it was refused before the log had it.
    pub fn is_refusal(&self) -> bool {
        use Error::{DiskFull, Invalid, NotApplied, Overloaded};
        matches!(self, DiskFull { .. } | Invalid(_) | NotApplied { .. } | Overloaded(_))
    }

    /// Bytes that failed a check.
    #[cold]
    pub fn corrupt(file: &str, offset: u64, what: impl Into<Box<str>>) -> Error {
        Error::Corrupt { file: file.into(), offset, what: what.into() }
    }

    /// Why something stored is not read: it is damaged, or whole and takes too much.
    #[cold]
    pub(crate) fn of_stored(what: &str, error: &model::Error) -> Error {
        match error {
            model::Error::Invalid(why) => Error::invalid(why.clone()),
            error => Error::corrupt(what, 0, error.to_string()),
        }
    }

    /// The caller's mistake.
    #[cold]
    pub fn invalid(what: impl Into<Box<str>>) -> Error {
        Error::Invalid(what.into())
    }

    /// The answer after `first` ended the trust: keeps the first reason, however often it is asked.
    #[cold]
    pub fn poisoned(first: &Error) -> Error {
        match first {
            Error::Poisoned(_) => first.clone(),
            _ => Error::Poisoned(Box::new(first.clone())),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { op, file, errno: 0 } => write!(f, "{op} of {file} stopped short"),
            Error::Io { op, file, errno } => {
                write!(f, "{op} of {file} failed: {}", std::io::Error::from_raw_os_error(*errno))
            }
            Error::NotFound { file } => write!(f, "{file} is missing"),
            Error::Corrupt { file, offset, what } => {
                write!(f, "{file} is damaged at byte {offset}: {what}")
            }
            Error::Damaged { file, what } => write!(
                f,
                "{file} is needed for this and could not be opened ({what}): check it with messina-sst verify, \
                 restore the table from a snapshot, or give up what the file holds with messina-admin forget"
            ),
            Error::Newer { file, found, known } => write!(
                f,
                "{file} has format version {found}, this build knows versions up to {known}: it was \
                 written by a newer version"
            ),
            Error::UnknownFeature { file, bits } => write!(
                f,
                "{file} needs features that this build does not know (bits {bits:#x}): it was \
                 written by a newer version"
            ),
            Error::InUse { file } => {
                write!(f, "{file} is locked: another process uses this data directory")
            }
            Error::Invalid(what) => f.write_str(what),
            Error::RowTooLarge { table, key, bytes } => {
                write!(
                    f,
                    "a row of {table} has {bytes} bytes, too many to be merged: partition 0x"
                )?;
                key.iter().take(64).try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Error::TooManyTombstones { passed } => {
                write!(f, "the read was ended after {passed} tombstones")
            }
            Error::NotApplied { .. } => f.write_str("a condition of the write does not hold"),
            Error::Overloaded(limit) => write!(f, "overloaded: {limit}"),
            Error::PartlyWritten(first) => {
                write!(f, "the write may be there in part: {first}")
            }
            Error::WouldBlock => f.write_str("the answer needs the disk"),
            Error::DiskFull { file } => write!(f, "no space left on the disk for {file}"),
            Error::Poisoned(first) => write!(f, "refused after an earlier failure: {first}"),
        }
    }
}

impl std::error::Error for Error {}
