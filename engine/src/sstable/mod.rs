//! An sstable: one immutable file of sorted partitions, and the little that is kept of it in memory.
//!
//! `FORMAT.md` beside this file specifies the bytes.

#![expect(dead_code, reason = "the writer and the reader follow")]

mod block;
mod elias_fano;
mod filter;
mod frame;
mod slots;

pub use frame::Codec;

use uuid::Uuid;

/// What names an sstable: never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SstableId(pub Uuid);
