//! The checksum of every file.
//!
//! Not here: how numbers are written and read (`model::bytes`), cell values (CQL wire form), row bytes (`model`).

use xxhash_rust::xxh3::xxh3_64;

/// The checksum that all formats of the engine use: XXH3, 64 bits.
pub fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}
