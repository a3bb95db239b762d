//! Places in the log, and the order they always keep.
//!
//! ```text
//!   released ≤ flushed ≤ durable ≤ appended
//!      │          │         │         └ the end of the last record taken
//!      │          │         └ the end of what the device has confirmed
//!      │          └ everything before is in sstables that the manifest names
//!      └ segments before this one may be used again
//! ```

use std::fmt;

/// A place in the log: segment number and offset in its file, ordered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(u64);

impl Position {
    /// Before everything: the place a new log is replayed from.
    pub const ZERO: Position = Position(0);

    /// The place `offset` in segment `number`.
    pub fn new(number: u32, offset: u32) -> Position {
        Position(u64::from(number) << 32 | u64::from(offset))
    }

    /// Number of the segment that the position lies in.
    pub fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The offset in bytes in that segment's file.
    pub fn offset(self) -> u32 {
        self.0 as u32
    }

    /// As a number, for files.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// From a file's number.
    pub fn from_bits(bits: u64) -> Position {
        Position(bits)
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment(), self.offset())
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// How far each stage of the log has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Positions {
    /// Segments before this place may be used again.
    pub released: Position,
    /// Everything before is in sstables that the manifest names.
    pub flushed: Position,
    /// Everything before is confirmed by the device.
    pub durable: Position,
    /// Everything before has been taken.
    pub appended: Position,
}

impl Positions {
    /// Asserts the order: a log that breaks it has a bug that loses data.
    pub fn validate(&self) {
        assert!(self.released <= self.flushed, "released what is not flushed: {self:?}");
        assert!(self.flushed <= self.durable, "flushed what is not durable: {self:?}");
        assert!(self.durable <= self.appended, "durable before it was appended: {self:?}");
    }
}
