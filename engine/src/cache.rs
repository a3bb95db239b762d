//! What a shard keeps of its files in memory: blocks, decompressed and checked.

mod blocks;

pub(crate) use blocks::Place;
pub use blocks::{BlockCache, CacheCounts};
