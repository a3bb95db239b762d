//! An sstable: one immutable file of sorted partitions, and the little that is kept of it in memory.
//!
//! ```text
//! file: data blocks │ row index nodes │ directory │ filter │ wide table │ statistics │ 0… │ footer
//! ```
//!
//! A point read of a small partition is: filter, directory (both in memory), one read. `FORMAT.md` beside
//! this file specifies the bytes; here each part has its file.
//!
//! Invariants
//! 1. A file is written once, in one pass, and never changed. It is read back before anybody trusts it.
//! 2. Every byte that is used was under a checksum that knows the file and the place.
//! 3. Damage is an error that names the file and the place, never a missing row.
//!
//! Not here: which files are live (the manifest), and when they are merged (`compaction`).

mod attached;
mod block;
mod config;
mod cursor;
mod directory;
mod elias_fano;
mod entries;
mod file;
mod filter;
mod filter_pieces;
mod footer;
pub(crate) mod frame;
mod handle;
mod inspect;
mod large;
mod long_blocks;
mod lz4;
pub(crate) mod output;
pub(crate) mod row_index;
pub(crate) mod slots;
mod statistics;
mod trials;
mod verify;
mod wide;
pub(crate) mod window;
mod writer;

#[cfg(test)]
mod tests;

use std::fmt;

pub use config::WriterConfig;
pub use cursor::SstableCursor;
pub(crate) use entries::Named;
pub use file::{Reading, Sstable, SstableIdentity};
pub(crate) use filter::{Filter, Shape};
pub(crate) use footer::digest;
pub use frame::Codec;
pub(crate) use frame::{OPENER_BYTES, Opener};
pub(crate) use handle::{Handle, Handles};
pub use inspect::{BlockPlace, Region, identify};
pub(crate) use large::is_large;
pub use large::{ColumnSize, LargeRow};
pub(crate) use slots::Slots;
pub use statistics::Statistics;
use uuid::Uuid;
pub use verify::verify;
pub(crate) use window::WindowBytes;
pub use writer::{Writer, WrittenSstable};

/// What names an sstable: never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SstableId(pub Uuid);

impl fmt::Display for SstableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What proves that a file is the one that was written: it is kept where the file is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileDigest {
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// The checksum of its footer, which covers the checksums of everything else.
    pub footer_checksum: u64,
}

/// The name of the file in its table's directory.
pub fn file_name(id: SstableId) -> String {
    format!("{id}.sst")
}
