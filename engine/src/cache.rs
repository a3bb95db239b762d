//! What a shard keeps of its files in memory: blocks, decompressed and checked, and how much their indexes take.

mod blocks;
mod entries;
mod ghosts;

pub(crate) use blocks::Place;
pub use blocks::{BlockCache, CacheCounts};
pub(crate) use entries::Kept;
